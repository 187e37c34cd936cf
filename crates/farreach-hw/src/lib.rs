//! Translation hardware: designs that cache what the page table says, the caches and walkers around them, and how other
//! cores learn of a change.
//!
//! Owns everything a processor does between a virtual address and memory: TLB designs behind one contract ([`tlb`]),
//! caches ([`cache`]), machines in which every reference moves something ([`system`]), virtual machines ([`nested`]),
//! shootdowns ([`shootdown`]). It counts events; what they cost is known elsewhere.
//!
//! Must not know the operating system, streams and traces, presets, or how a run is organised. It reads page tables
//! through [`PageTableView`](farreach_types::translation::PageTableView) alone. It never allocates memory and never
//! changes a page table: whoever drives it says what changed.
//!
//! A reader who wants to add a design begins with [`tlb::contract`] and [`tlb::filter`], then reads
//! `tlb/designs/single.rs`, the simplest one.

pub mod cache;
pub mod nested;
pub mod shootdown;
pub mod system;
pub mod tlb;
