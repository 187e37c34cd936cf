//! Addresses of page tables and range tables in memory.

use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// log2 of the entries of a node with base pages of 4 KB.
pub(crate) const RADIX: u8 = 9;

/// An entry of a table, or a part of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// The address space of the table.
    pub asid: Asid,
    /// Level of a page table, 0 for the leaves of 4 KB pages, or [`NodeRead::RANGES`](super::NodeRead::RANGES).
    pub level: u8,
    /// Byte of the first of eight bytes, as if all entries of the level (all nodes of the range table) lay in one
    /// array. Each 4 KB of it are one node of the page table, at any address.
    pub offset: u64,
    /// Which copy of the table, where there are several.
    pub copy: u8,
}

impl Entry {
    /// The one on the way to a page.
    pub fn on_the_way(asid: Asid, vpn: Vpn, level: u8) -> Entry {
        Entry { asid, level, offset: vpn.0 >> (RADIX * level) << 3, copy: 0 }
    }
}

/// Frames of tables, one for each node of a page table and for each 32 nodes of a range table (RMM15-7). A node gets a
/// frame when a walker first reads it: one of an ended address space, or the next.
pub(crate) struct Nodes {
    frames: HashMap<(Asid, u8, u8, u64), u64, FixedState>,
    free: Vec<u64>,
    next: u64,
}

impl Nodes {
    /// From this frame on, which must be above all memory of programs, so that the two never share a frame.
    pub fn from(frame: u64) -> Nodes {
        Nodes { frames: HashMap::default(), free: Vec::new(), next: frame }
    }

    /// Physical address of an entry.
    pub fn address(&mut self, entry: Entry) -> u64 {
        let node = (entry.asid, entry.level, entry.copy, entry.offset >> BASE_SHIFT);
        let (free, next) = (&mut self.free, &mut self.next);
        let frame = *self.frames.entry(node).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        });
        frame << BASE_SHIFT | entry.offset & ((1 << BASE_SHIFT) - 1)
    }

    /// The tables of an address space are freed. Their frames are reused, the lowest first.
    pub fn gone(&mut self, asid: Asid) {
        let free = &mut self.free;
        self.frames.retain(|&(of, ..), frame| {
            if of == asid {
                free.push(*frame);
            }
            of != asid
        });
        free.sort_unstable_by(|a, b| b.cmp(a));
    }
}
