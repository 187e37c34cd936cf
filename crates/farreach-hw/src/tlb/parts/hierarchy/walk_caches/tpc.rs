//! A translation path cache (WC-4): an entry is the whole way to a node with leaves. A walk begins where its way leaves
//! that of the entry with which it has most in common. Of several such entries the one in the lowest slot is used.

use super::{Array, ListedWalkCaches, PWC_ENTRIES, Path, WalkCache, one_array};
use farreach_types::addr::Asid;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "tpc",
    about: "one array of whole ways through the table; a walk begins below the longest common part (WC-4)",
    keys: &[&PWC_ENTRIES],
    counters: &[],
    laws: &[],
    build: |params, seed| Ok(Tpc(one_array("tpc", params, seed)?).into()),
};

/// See the module.
pub(in crate::tlb) struct Tpc(Array);

impl Tpc {
    /// The level below which a walk begins, and the slot of the entry for that.
    fn longest(&self, path: &Path) -> (u8, Option<u32>) {
        let store = &self.0.store;
        let mut best = (path.levels, None);
        // Most walks are to a node that has an entry.
        if let Some(slot) = store.find(path.tag(path.leaf + 1)) {
            return (path.leaf + 1, Some(slot));
        }
        for slot in store.slots() {
            let tag = store.tag(slot);
            if tag.asid() != path.asid {
                continue;
            }
            let differs = tag.base().0 ^ path.vpn.0;
            // An entry knows the way down to its own level, not below.
            let known = (tag.order() / path.radix).max(path.leaf + 1);
            let level = (known..path.levels).find(|level| differs >> (path.radix * level) == 0);
            if let Some(level) = level.filter(|level| *level < best.0) {
                best = (level, Some(slot));
            }
        }
        best
    }
}

impl WalkCache for Tpc {
    fn start(&self, path: &Path) -> u8 {
        self.longest(path).0
    }

    fn begin(&mut self, path: &Path) -> u8 {
        let (level, slot) = self.longest(path);
        if let Some(slot) = slot {
            self.0.store.touch(slot, 0, &mut self.0.ignored_report);
        }
        level
    }

    fn read(&mut self, _: &Path, _: u8) {}

    fn ended(&mut self, path: &Path, from: u8) {
        if from > path.leaf + 1 {
            self.0.place(path.tag(path.leaf + 1));
        }
    }

    fn drop_space(&mut self, asid: Asid) {
        self.0.drop_space(asid);
    }

    fn switch(&mut self, to: Asid) {
        self.0.switch(to);
    }
}
