//! The plain oracle: what the specification says, written down simply and slowly, without a look at the implementation.
//!
//! * [`tlb`]: every TLB kind as a vector of entries and linear scans;
//! * [`os`]: address spaces, frames, reservation, promotion, copy-on-write as maps and scans;
//! * [`run`]: a trace through one operating system and one TLB.
//!
//! Where the specification leaves something open, the numbered lists at the top of `tlb.rs`, `os.rs` and `run.rs` say what
//! was chosen (`OT-n`, `OO-n`, `OR-n`). They are the first place to look when implementation and oracle differ.
#![allow(dead_code)] // each test file uses its own part

pub mod os;
pub mod run;
pub mod tlb;
