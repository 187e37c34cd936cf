//! Translation hardware: TLB designs, the caches and page-table walkers around them, and shootdowns between cores.
//!
//! Owns everything a processor does between a virtual address and memory: TLB designs behind one contract ([`tlb`]),
//! caches ([`cache`]), machines in which every reference may move a cache line ([`system`]), virtual machines
//! ([`nested`]), shootdowns ([`shootdown`]). It counts events; their costs are computed elsewhere.
//!
//! Must not know the operating system, streams and traces, presets, or how a run is organised. It reads page tables
//! only through [`PageTableView`](farreach_types::translation::PageTableView). It never allocates simulated memory and
//! never changes a page table: its caller reports the changes.
//!
//! To add a design, begin with [`tlb::contract`] and [`tlb::filter`], then read `tlb/designs/single.rs`, the simplest
//! one.

pub mod cache;
pub mod nested;
pub mod shootdown;
pub mod system;
pub mod tlb;
