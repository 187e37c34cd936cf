//! What the `farreach` command is made of beyond the library: everything that touches the operating system.

pub mod count;
pub mod workloads;
