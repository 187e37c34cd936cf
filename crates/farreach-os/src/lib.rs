//! The operating system: address spaces, page tables, placement of pages, promotion.
//!
//! It owns all memory: objects, frames, reservations, page tables, range tables, segments. It follows the events of the
//! program ([`Os::apply`]), serves its faults ([`Os::touch`]), and reports each [`Change`] that translation hardware
//! must follow.
//!
//! It must not know any hardware: no TLB design, no cache, no cost. It shares only the types of a translation with
//! hardware (`farreach_types::translation`). An operating system that reads performance counters ([`Os::counted`]) gets
//! them as plain numbers.
//!
//! Reading order: `contract.rs` (the interface to callers), `os.rs` (the parts), `events` (mmap, munmap, fork),
//! `fault.rs` (a touch), [`placement`] (the policies that choose frames), [`frames`] (the allocators). Every other file
//! is one mechanism.

mod accessed;
mod account;
mod background;
mod base_pages;
mod bits;
mod busy;
mod collapse_queue;
mod compaction;
mod contract;
mod copy_on_write;
mod direct_map;
pub mod dump;
mod entries;
mod events;
mod fault;
pub mod frames;
mod guest;
mod huge;
mod huge_rounding;
mod keys;
mod labels;
mod memory;
mod numa;
mod object;
mod os;
mod page_cache;
mod page_index;
mod page_table;
mod perforated;
pub mod placement;
mod pressure;
mod promotion;
pub mod ranges;
mod region;
mod request;
mod reservations;
mod reserved_list;
mod restsegs;
mod segment;
mod space;
#[cfg(test)]
mod testing;
mod view;
mod zero_page;

pub use accessed::{WalkKey, walk_key};
pub use account::Frames;
pub use contract::{Change, Flush, InUse, OutOfMemory, Touched, Unserved, What};
pub use farreach_types::params::{PAGE_SIZE, SEED};
pub use keys::{PLACEMENT, keys};
pub use os::Os;
