//! What designs are composed of. A part knows the contract and other parts, and no design.

pub(in crate::tlb) mod bits;
pub mod hierarchy;
pub(in crate::tlb) mod range_tlb;
pub(in crate::tlb) mod spans;
pub(in crate::tlb) mod store;
pub(in crate::tlb) mod stored;
