//! Where page tables and range tables lie in memory.

use crate::addr::{Asid, BASE_SHIFT};
use crate::hw::tlb::walker::NodeRead;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The first frame of tables: above all memory of programs, so that the two never share a frame.
const FIRST_FRAME: u64 = 1 << 40;

/// Frames of tables, one for each node of a page table and for each 32 nodes of a range table (RMM15-7). A node gets the next frame when a
/// walker first reads it, or one that an ended address space left.
#[derive(Default)]
pub struct Nodes {
    frames: HashMap<(Asid, u8, u64), u64, FixedState>,
    free: Vec<u64>,
    next: u64,
}

impl Nodes {
    /// Physical address of what a walker reads.
    pub fn address(&mut self, read: NodeRead) -> u64 {
        let node = (read.asid, read.level, read.address >> BASE_SHIFT);
        let (free, next) = (&mut self.free, &mut self.next);
        let frame = *self.frames.entry(node).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                FIRST_FRAME + *next - 1
            })
        });
        frame << BASE_SHIFT | read.address & ((1 << BASE_SHIFT) - 1)
    }

    /// The tables of an address space are gone. Their frames are used again, the lowest first.
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
