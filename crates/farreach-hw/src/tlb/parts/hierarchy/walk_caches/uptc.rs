//! A unified page table cache (WC-3): entries of all levels in one array, by their physical address. A walk passes
//! every level from the root on; a hit saves the reference to it. An entry that was read is in the array before the
//! walk looks for the next.

use super::{Array, ListedWalkCaches, PWC_ENTRIES, Path, SAVING, SAVING_LAWS, WalkCache, one_array};
use farreach_types::addr::Asid;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "uptc",
    about: "one array for all levels, by physical address; a hit saves one reference (WC-3)",
    keys: &[&PWC_ENTRIES],
    counters: SAVING,
    laws: SAVING_LAWS,
    build: |params, seed| Ok(Uptc(one_array("uptc", params, seed)?).into()),
};

/// See the module.
pub(in crate::tlb) struct Uptc(Array);

impl WalkCache for Uptc {
    const COUNTS: bool = true;

    fn start(&self, path: &Path) -> u8 {
        path.levels
    }

    fn begin(&mut self, path: &Path) -> u8 {
        path.levels
    }

    fn holds(&self, path: &Path, level: u8) -> bool {
        self.0.has(path.tag(level))
    }

    fn saves(&mut self, path: &Path, level: u8) -> bool {
        self.0.uses(path.tag(level))
    }

    fn read(&mut self, path: &Path, level: u8) {
        self.0.place(path.tag(level));
    }

    fn drop_space(&mut self, asid: Asid) {
        self.0.drop_space(asid);
    }

    fn switch(&mut self, to: Asid) {
        self.0.switch(to);
    }
}
