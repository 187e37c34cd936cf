//! Split page table caches (WC-3): an array for each level, by the physical address of the entry in its node. A walk
//! passes every level; a hit saves the reference to it, no more.

use super::{ByLevel, ListedWalkCaches, Path, SAVING, SAVING_LAWS, WalkCache};
use farreach_types::addr::Asid;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "sptc",
    about: "an array for each level, by physical address; a hit saves one reference (WC-3)",
    keys: &[],
    counters: SAVING,
    laws: SAVING_LAWS,
    build: |params, seed| Ok(Sptc(ByLevel::new(params, seed)?).into()),
};

/// See the module.
pub(in crate::tlb) struct Sptc(ByLevel);

impl WalkCache for Sptc {
    const COUNTS: bool = true;

    fn start(&self, path: &Path) -> u8 {
        path.levels
    }

    fn begin(&mut self, path: &Path) -> u8 {
        path.levels
    }

    fn holds(&self, path: &Path, level: u8) -> bool {
        self.0.at(level).is_some_and(|array| array.has(path.tag(level)))
    }

    fn saves(&mut self, path: &Path, level: u8) -> bool {
        self.0.at_mut(level).is_some_and(|array| array.uses(path.tag(level)))
    }

    fn read(&mut self, path: &Path, level: u8) {
        if let Some(array) = self.0.at_mut(level) {
            array.place(path.tag(level));
        }
    }

    fn drop_space(&mut self, asid: Asid) {
        self.0.0.iter_mut().flatten().for_each(|array| array.drop_space(asid));
    }

    fn switch(&mut self, to: Asid) {
        self.0.0.iter_mut().flatten().for_each(|array| array.switch(to));
    }
}
