//! TLB designs behind one contract.
//!
//! * [`contract`]: the traits of a design, [`Tlb`] first.
//! * [`filter`]: its obligations towards the filter of repeat hits, with an example.
//! * [`designs`]: a file each. A new design is one file there and one line in [`DESIGNS`].
//! * [`parts`]: their components. A store of entries in sets with replacement (`parts/store`), which a design
//!   of one array wraps with a few methods (`parts/stored.rs`); spans; and a hierarchy with a walker
//!   (`parts/hierarchy`).
//! * [`keys`]: the keys that several designs share.
//!
//! Imports go one way: registry, designs, parts, contract, filter and future.

pub mod contract;
pub mod designs;
pub mod filter;
mod future;
pub mod keys;
pub mod parts;
mod registry;

pub use contract::{
    Answer, Capabilities, Design, EntryBits, EntryView, FlushRequest, Foresees, Lookup, OnDemotion, OnFetch, OnMap,
    OnRequest, OnSegment, OnSwitch, OnThread, OnTime, Outcome, Timed, Tlb,
};
pub use designs::segment;
pub use filter::Unfiltered;
pub use future::Future;
pub use parts::additions::{self, range};
pub use parts::hierarchy::{ArrayShape, array_shapes, cores, host, numa, shared, walk, walk_caches};
pub use parts::second_levels;
pub use parts::store::numbers::lfsr_state;
pub use parts::store::policies;
pub use parts::tables;
pub use registry::{CHOICES, Choice, Counting, DESIGNS, counting, design, idle_choices, keys_of};
