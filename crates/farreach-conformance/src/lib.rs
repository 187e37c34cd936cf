//! The conformance suite: a design is held to the contract of [`farreach_hw::tlb::Tlb`], with nothing written for it.
//!
//! * Every hit, every probe and every page of an entry agrees with the page table (XC-3).
//! * No entry survives invalidation or demotion, the end of its space, or, without process ids, a process switch
//!   (T94-18, T94-42).
//! * Counters add up, lookup by lookup (XC-5). Entries do not exceed the capacity, and a page has one entry where the
//!   design allows only one (T94-17).
//! * A filterable lookup, repeated, is a hit that changes nothing, and a design that sees no filtered lookups ends in
//!   the same state.
//! * Equal seeds give equal results (XC-4).
//!
//! Of an opaque design, one that lists no entries, the rules that need them are left out: what it answers must agree
//! with what was invalidated and filled, and all that is said of the filter and of seeds holds.
#![forbid(unsafe_code)]

mod changes;
mod filtered;
mod fresh;
mod layout;
mod parts;
mod subject;
mod suite;
mod table;
mod tally;
mod timed;
mod truth;
mod watch;
mod world;

pub use subject::{Make, Subject, Traits, given};
pub use suite::{Effort, conform};
