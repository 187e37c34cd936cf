//! The plain oracle: the specification as simple, slow code, written without looking at the implementation.
//!
//! This crate owns independent models of TLBs, of the operating system and of a run, for tests only. It must not know
//! the implementation: it shares types of addresses, events and counters with it, and the contract of a TLB where a
//! test drives a model in place of a design ([`driver`]). It never calls code that it is compared with.
//!
//! * [`tlb`]: every TLB kind as a vector of entries and linear scans;
//! * [`plru`]: the tree of bits behind tree-PLRU in both;
//! * [`policies`]: replacement in a second level since 2015;
//! * [`since`]: additions behind the last level since 2000: prefetching, a TLB in memory or in a cache, speculation;
//! * [`two_level`]: two TLBs, one behind the other;
//! * [`mmu`]: the TLBs of current processors, with ranges, clusters and segments;
//! * [`os`]: address spaces, frames, reservation, promotion, copy-on-write as maps and scans;
//! * [`program`], [`frames`], [`paging`]: what programs mapped, free frames as lists, and paging with both, for
//! * [`segments`]: direct segments,
//! * [`huge`]: superpages at faults, by collapse, and from a pool with rounding,
//! * [`linux`]: superpages of today's Linux, khugepaged, and blocks that stay whole,
//! * [`since_os`]: systems since 2002: sizes that fit the memory, promotion by use, pages that move, hashed frames;
//! * [`eager`]: eager paging on a buddy allocator, and ranges;
//! * [`fold`]: the events of a system with larger pages;
//! * [`tables`]: page-table organisations since 2015, and walk caches, as lists and maps;
//! * [`utopia`]: restricted placement; [`coalesce`]: TLBs of mixed sizes in one array, with anchors, and skewed;
//! * [`midgard`]: caches behind a space of their own; [`sll`]: a second level that cores share;
//! * [`shootdowns`]: how changes reach the TLBs of several cores, in today's systems;
//! * [`nodes`]: page tables on nodes of memory, with copies;
//! * [`perforated`]: superpages with holes;
//! * [`reservations`]: policies that reserve a superpage's frames at a fault and give them up when memory is short;
//! * [`belady`]: the fewest misses that any replacement has; [`lru`]: sets in order of use, for the models;
//! * [`guest`]: whole systems: walks of recorded page tables, TLBs that the guest looks after, and a random kernel;
//! * [`hosts`]: virtual machines: walks in two dimensions, shadow and agile paging;
//! * [`run`]: a trace through one operating system and one TLB;
//! * [`dice`]: random choices for the streams of both sides.
//!
//! Where the specification is open, the numbered lists at the top of `tlb.rs`, `mmu.rs`, `os.rs`, `fold.rs`, `run.rs`,
//! `program.rs`, `frames.rs`, `paging.rs`, `segments.rs`, `huge.rs`, `linux.rs`, `eager.rs`, `policies.rs`,
//! `tables.rs`, `utopia.rs`, `coalesce.rs`, `midgard.rs`, `sll.rs`, `perforated.rs`, `belady.rs`, `hosts.rs`,
//! `guest.rs`, `shootdowns.rs`, `nodes.rs`, `reservations.rs` and its parts, `since_os.rs` and its parts, and those in
//! `since` state the choices (`OT-n`, `OM-n`, `OQ-n`, `OO-n`, `OF-n`, `OR-n`, `OG-n`, `OH-n`, `OP-n`, `OD-n`, `OS-n`, `OE-n`,
//! `OB-n`, `OW-n`, `OU-n`, `OC-n`, `OV-n`, `OY-n`, `OX-n`, `OA-n`, `OI-n`, `OZ-n`, `OJ-n`, `OK-n`, `ON-n`, `OL-n`,
//! `OND-n`).
//! Look there first when implementation and oracle differ.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for tests only")]

pub mod belady;
pub mod cap;
pub mod coalesce;
pub mod dice;
pub mod driver;
pub mod eager;
pub mod entry_bits;
pub mod fold;
pub mod frames;
pub mod guest;
pub mod hosts;
pub mod huge;
pub mod linux;
pub mod lru;
pub mod midgard;
pub mod mmu;
pub mod nodes;
pub mod os;
pub mod paging;
pub mod perforated;
pub mod plru;
pub mod policies;
pub mod program;
pub mod reservations;
mod ring;
pub mod run;
pub mod segments;
pub mod shootdowns;
pub mod since;
pub mod since_os;
pub mod sll;
mod superpages;
mod system;
pub mod tables;
pub mod tlb;
pub mod two_level;
pub mod utopia;
