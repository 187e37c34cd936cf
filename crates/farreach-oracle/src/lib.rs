//! The plain oracle: what the specification says, written down simply and slowly, without a look at the implementation.
//!
//! * [`tlb`]: every TLB kind as a vector of entries and linear scans;
//! * [`two_level`]: two of them;
//! * [`mmu`]: what current processors have, with ranges, clusters and segments;
//! * [`os`]: address spaces, frames, reservation, promotion, copy-on-write as maps and scans;
//! * [`fold`]: the events of a system with larger pages;
//! * [`run`]: a trace through one operating system and one TLB;
//! * [`dice`]: chance for the streams that both sides get.
//!
//! Where the specification leaves something open, the numbered lists at the top of `tlb.rs`, `mmu.rs`, `os.rs`, `fold.rs` and `run.rs`
//! say what was chosen (`OT-n`, `OM-n`, `OO-n`, `OF-n`, `OR-n`). They are the first place to look when implementation and oracle differ.
//!
//! Must not use the code it checks: of the hardware it knows the contract of a design and the way to build one, never a part or
//! an entry. It is there for tests and is not published.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for tests only")]

pub mod dice;
pub mod driver;
pub mod entry_bits;
pub mod fold;
pub mod mmu;
pub mod os;
pub mod run;
pub mod tlb;
pub mod two_level;
