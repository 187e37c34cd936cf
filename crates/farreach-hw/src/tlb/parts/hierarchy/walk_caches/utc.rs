//! A unified translation cache (WC-2): the entries of split ones in one array, so that levels compete.

use super::{Array, ListedWalkCaches, PWC_ENTRIES, Path, WalkCache, one_array};
use farreach_types::addr::Asid;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "utc",
    about: "one array for all levels, by virtual address; a walk begins below the deepest entry (WC-2)",
    keys: &[&PWC_ENTRIES],
    counters: &[],
    laws: &[],
    build: |params, seed| Ok(Utc(one_array("utc", params, seed)?).into()),
};

/// See the module.
pub(in crate::tlb) struct Utc(Array);

impl WalkCache for Utc {
    fn start(&self, path: &Path) -> u8 {
        (path.leaf + 1..path.levels).find(|level| self.0.has(path.tag(*level))).unwrap_or(path.levels)
    }

    /// Only the entry that is used is renewed.
    fn begin(&mut self, path: &Path) -> u8 {
        (path.leaf + 1..path.levels).find(|level| self.0.uses(path.tag(*level))).unwrap_or(path.levels)
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
