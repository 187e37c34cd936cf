//! The designs, a file each. A design knows the contract and the parts.

pub mod complete_subblock;
pub mod hierarchy;
pub mod integrated;
pub mod partial_subblock;
pub mod segment;
pub mod single;
pub mod skewed;
pub mod superpage;
pub mod two_level;
