//! Split translation caches (WC-1): an array for each level, by the part of the virtual address that leads to the
//! entry. The deepest entry on the way is used. Those of today's processors, as they are described.

use super::{ByLevel, ListedWalkCaches, Path, WalkCache};
use farreach_types::addr::Asid;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "stc",
    about: "an array for each level, by virtual address; a walk begins below the deepest entry (WC-1)",
    keys: &[],
    counters: &[],
    laws: &[],
    build: |params, seed| Ok(Stc(ByLevel::new(params, seed)?).into()),
};

/// See the module.
pub(in crate::tlb) struct Stc(ByLevel);

impl WalkCache for Stc {
    #[inline]
    fn is_none(&self) -> bool {
        self.0.0.iter().all(Option::is_none)
    }

    fn start(&self, path: &Path) -> u8 {
        let has = |level: &u8| self.0.at(*level).is_some_and(|array| array.has(path.tag(*level)));
        (path.leaf + 1..path.levels).find(has).unwrap_or(path.levels)
    }

    #[inline]
    fn begin(&mut self, path: &Path) -> u8 {
        let uses = |level: &u8| self.0.at_mut(*level).is_some_and(|array| array.uses(path.tag(*level)));
        (path.leaf + 1..path.levels).find(uses).unwrap_or(path.levels)
    }

    #[inline]
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
