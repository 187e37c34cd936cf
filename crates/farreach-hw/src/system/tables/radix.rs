//! Two levels from the root, as an x86 of the time walks them: the entry of the root, then that of a page of 1024
//! entries.

use super::{Arena, Organisation, id_of};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// log2 of the entries in a page of the table.
const LEAF_SHIFT: u32 = 10;

/// See the module. Pages of the table are allocated when first needed and freed with their segment.
pub struct Radix {
    leaves: HashMap<u64, u64, FixedState>,
    memory: Arena,
}

impl Default for Radix {
    fn default() -> Radix {
        Radix { leaves: HashMap::default(), memory: Arena::new(0, 4096) }
    }
}

impl Organisation for Radix {
    fn path(&mut self, page: u64, root: u64, _: u8, loads: &mut Vec<u64>) {
        let memory = &mut self.memory;
        let leaf = *self.leaves.entry(page >> LEAF_SHIFT).or_insert_with(|| memory.take());
        loads.extend([root, leaf + (page & ((1 << LEAF_SHIFT) - 1)) * 4]);
    }

    fn unmap(&mut self, _: u64) {}

    fn gone(&mut self, id: u32) {
        let memory = &mut self.memory;
        self.leaves.retain(|&pages, leaf| {
            let stays = id_of(pages << LEAF_SHIFT) != id;
            if !stays {
                memory.free_node(*leaf);
            }
            stays
        });
    }
}
