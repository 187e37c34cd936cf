//! The components of designs. A part uses the contract and other parts, but no design.

pub mod additions;
pub(in crate::tlb) mod bits;
pub mod hierarchy;
pub(in crate::tlb) mod range_tlb;
pub mod second_levels;
pub(in crate::tlb) mod spans;
pub(in crate::tlb) mod store;
pub(in crate::tlb) mod stored;
pub mod tables;
