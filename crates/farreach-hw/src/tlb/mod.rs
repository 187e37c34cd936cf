//! TLB designs behind one contract, [`Tlb`]. A design is one file here and one line in [`DESIGNS`].

mod bits;
pub mod clustered;
pub mod coalesced;
pub mod complete_subblock;
mod contract;
pub mod cores;
pub mod filter;
pub mod hierarchy;
pub mod host;
pub mod integrated;
pub mod keys;
mod level;
mod nodes;
pub mod partial_subblock;
pub mod range;
mod range_tlb;
mod recency;
mod registry;
mod replacement;
pub mod segment;
pub mod single;
mod spans;
mod store;
pub mod superpage;
mod tag_index;
pub mod two_level;
pub mod walker;

pub use contract::{
    Answer, Capabilities, Design, EntryBits, EntryView, Lookup, NodeRead, OnDemotion, OnSegment, OnSwitch, OnThread, Outcome,
    Tlb, UsedBits,
};
pub use filter::Unfiltered;
pub use registry::{DESIGNS, design};
