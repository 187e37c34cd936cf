//! Page-table organisations since 2015, and the walk caches of Barr, as lists and maps (PT-1 to PT-5).
//!
//! All of them:
//!
//! * OW-1 Mapping a page takes away every mapping of another size that it overlaps, as if each had been unmapped, in
//!   ascending order. Mapping a page again leaves its entry where it is.
//! * OW-2 `table_writes`: translations that are set or cleared: one for each page mapped, one for each page unmapped,
//!   more where a page has more entries, and no others. Pointers, tags and moves are not counted. A process that ends
//!   unmaps its pages first, in ascending order; its caller does so.
//! * OW-3 `table_bytes` is known after each change, and when a table is allocated. Where a table moves, the old one is
//!   freed when all is moved. `table_contiguous` is the largest allocation that there ever was.
//! * OW-4 A failed search (PT-4) uses caches as they are, and changes none. It is `fault_references` alone.
//! * OW-5 At a switch, caches of walks are kept with `process_ids`, and lose all without (HW-9). When a process is
//!   gone, what caches hold of it goes.
//! * OW-6 `hash=identity`: hash number i of x is (x div size^i) mod size, without the process. EC has one hash a way
//!   then, in all tables: with further ones small numbers are all 0, and no table is large enough.
//! * OW-7 `collisions`: HT buckets that demand walks read but for the last of each search, CL nodes of other blocks
//!   that they read, EC each swap of an insert or move, and no others.
//!
//! HT:
//!
//! * OW-8 Tables are allocated when the first page of a size is mapped, and kept until the process is gone. With
//!   `ht_sizes=all` the tables of all sizes are allocated together.
//! * OW-9 Doubling happens after an insert into an empty bucket, as often as the load is too high. Buckets move in
//!   ascending order.
//! * OW-10 A tag that matches ends the search of its size, with and without a translation. The next size follows.
//!
//! HTAB:
//!
//! * OW-11 A base page is inserted when it is mapped, a page of a superpage only by reload.
//! * OW-12 Entries know by which hash they were put in their group. `next` is one counter of the machine, from 0.
//! * OW-13 A process that is gone takes its entries along.
//!
//! CL:
//!
//! * OW-14 A superpage has a node with one mapping for each of its blocks, so that one search by the block of the page
//!   that missed finds it (CL-1). There are no partial subblocks.
//! * OW-15 A node without mappings is freed. Heads are allocated with the first page, for good.
//! * OW-16 `cl_inline`: a bucket is as large as a node. The front node of the chain lies in it, others outside. A
//!   search of an empty bucket is one reference.
//!
//! EC:
//!
//! * OW-17 The entry that the last swap evicted may still take a free place in the way that it draws.
//! * OW-18 The old table is freed after the insert of the last entry taken from it. If that insert fails, a resize is
//!   under way, so that completing it frees the old table.
//! * OW-19 `moves` are entries taken out of an old table. `resizes` counts beginnings.
//! * OW-20 Headers are exact: one that loses its last page of a size changes. Any change of the way of a superpage's
//!   entry is one, by a swap or a move; a move within its way is none.
//! * OW-21 PUD rows are looked up only if the PMD row missed. A walk that ends in a 1 GB page fetches no PMD row: an
//!   empty one would call the next walk a fault.
//! * OW-22 A row has memory (64 bytes) while a page lies in it; a PMD row while a page of 4 KB or 2 MB does.
//! * OW-23 Rows are dropped by EC-7 alone, not by every unmap.
//!
//! ME (all else as EC):
//!
//! * OW-34 A way that grows has n entries until all are passed, and two n then. An entry below its pointer lies at its
//!   hash mod two n. `moves` are the entries that move by n.
//! * OW-35 A new tag draws one number below the free entries of all ways, each of n less its entries (all ways alike if
//!   none is free). Evicted entries draw as in EC-3.
//! * OW-36 Before the insert of a new tag, a way begins to grow if with one entry more in it its occupancy would exceed
//!   the threshold, it is the drawn one, does not grow, and no other way has fewer entries than it has.
//! * OW-37 After a new tag, a step draws among the ways that grow, if any does.
//! * OW-38 A failed insert completes what grows, in ascending order of way. If nothing grows, the smallest way, of
//!   equal ones the lowest, begins to grow. Nothing shrinks.
//! * OW-39 A way has whole chunks, of the smallest size of which 64 are enough, or of the largest. A way that grows has
//!   those of two n. L2P has no bytes.
//!
//! FL and WC:
//!
//! * OW-24 Nodes exist while a page lies below them; the root from the first page until the process is gone. A failed
//!   search reads at least the root, even of a process without any.
//! * OW-25 A node is merged if the upper 53 bits of `mix(asid<<52 ^ index, seed)`, as a fraction, are below
//!   `flatten_fraction`. The index is the page div its span.
//! * OW-26 Every page of the upper of two merged levels is written 512 times (also a 1 GB page in l3l2).
//!   `flatten_huge=split`: a merged node that gets such a page becomes two levels, until it has no page. That counts
//!   no writes, and its entries as moves (PT-2).
//! * OW-27 Unmapping, and mapping what was mapped, drop all walk-cache entries of the process, as OM-6.
//! * OW-28 A path of `tpc` leads to the node that holds the leaf. Of equal matches the one used last is renewed. If
//!   all upper levels match, nothing is inserted.
//! * OW-29 `uptc` and `sptc` insert during the walk, after each miss.
//!
//! DMT:
//!
//! * OW-30 Regions are told. Registers are loaded at a switch, at a walk of another process, and when a region of the
//!   running process changes: the largest groups, of equal ones the lowest.
//! * OW-31 Groups (DM-5) are made in ascending order: a region joins the group before it if the gap is less than 2 %
//!   of the pages of the regions in both. A group has a TEA over its whole span, for base pages and for each larger
//!   size of which it has a page (DM-3). Each is read by a walk, in one step. A region is as large as its mapped pages,
//!   if the caller says how many these are.
//! * OW-32 TEAs take frames behind all others. One can grow in place into its last frame, and if it is the last. Else
//!   all entries of its arrays move. Arrays of larger sizes are not modelled as frames.
//! * OW-33 The leaf entries of pages in a group are in the TEA, so the radix tree has no level-1 node for them, but
//!   the conventional walk has its reference.
//!
//! Tables in both dimensions of a virtual machine:
//!
//! * OW-40 The host has one table, of process 0, with pages of one size. It maps a page when a walk first needs it or
//!   when told, before that walk is counted (HW-10), and never moves it.
//! * OW-41 Host walks of the lines of one guest step are made in the order of the lines. Each finds the caches as the
//!   one before left them. Lines in one page have a host walk each, or a hit in the nested TLB.
//! * OW-42 The nested TLB holds pages of the host, of its size. All host walks look it up and fill it, for tables and
//!   for data. A hit takes no step. It forgets nothing, for the host changes nothing.
//! * OW-43 Walk caches of the guest hold host addresses: a walk that begins at a hit reads its first node without a
//!   walk of the host, as CWCs of the guest know ways but no addresses.
//! * OW-44 Rows of CWTs that the background fetches (EC-7) are counted in their own dimension. Those of the guest lie
//!   in its memory, so that the host translates them, as all lines of the guest: behind the page, in the background.
//! * OW-45 Guest tables lie where the caller says. By default pieces take guest frames from 2^35 on, in the order in
//!   which walks first read them, aligned to their size up to 2 MB, and at least to a line.

pub mod book;
pub mod clustered;
pub mod cuckoo;
pub mod dmt;
pub mod flat;
pub mod hashed;
pub mod htab;
pub mod mementos;
pub mod nested;
pub mod radix;
pub mod walk_caches;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Orders of the sizes of pages: 4 KB, 2 MB, 1 GB.
pub const SIZES: [u8; 3] = [0, 9, 18];

/// What one walk to a mapped page cost (PT-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Reads of the table.
    pub references: u64,
    /// Groups of reads made in parallel.
    pub steps: u64,
}

/// A page table with its walker.
pub trait PlainTable {
    /// A base page (order 0) or a superpage (order 9: 2 MB, 18: 1 GB; `vpn` is its first page) is mapped now; a mapping
    /// of the same pages may replace another (OW-1).
    fn map(&mut self, asid: u32, vpn: u64, order: u8);
    /// A mapped page or superpage is mapped no more.
    fn unmap(&mut self, asid: u32, vpn: u64, order: u8);
    /// A process ends.
    fn gone(&mut self, asid: u32);
    /// Another process runs (HW-9).
    fn switch(&mut self, to: u32);
    /// A walk to a base page that is mapped.
    fn walk(&mut self, asid: u32, vpn: u64) -> Found;
    /// References of a search for a base page that is not mapped (PT-4).
    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64;
    /// Counters by name (PT-2).
    fn counts(&self) -> BTreeMap<&'static str, u64>;
}

/// HW-11.
pub fn mix(x: u64, s: u64) -> u64 {
    let mut z = x.wrapping_add(s.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Key `hash` (HW-11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// `mix`.
    Mix,
    /// `identity` (OW-6).
    Identity,
}

impl Hash {
    /// The index of x in a table of `size` rows by hash number `i`.
    pub fn index(self, asid: u32, x: u64, seed: u64, i: u64, size: u64) -> u64 {
        match self {
            Hash::Mix => mix((u64::from(asid) << 52) ^ x, seed.wrapping_add(i)) % size,
            Hash::Identity => (0..i).fold(x, |x, _| x / size) % size,
        }
    }
}
