//! A translation path cache (WC-4): an entry is the whole way to a node with leaves. A walk begins where its way leaves
//! that of the entry with which it has most in common; of several such entries the one used last is used. LRU under
//! every policy of the rest.

use super::{ListedWalkCaches, PWC_ENTRIES, Path, Tag, WalkCache, check_levels};
use farreach_types::addr::Asid;
use farreach_types::params::Params;

/// The kind as the registry knows it.
pub const LISTED: ListedWalkCaches = ListedWalkCaches {
    name: "tpc",
    about: "one array of whole ways through the table; a walk begins below the longest common part (WC-4)",
    keys: &[&PWC_ENTRIES],
    counters: &[],
    laws: &[],
    build: |params, _| Ok(Tpc::new(params)?.into()),
};

/// See the module.
pub(in crate::tlb) struct Tpc {
    /// The one used last at the end.
    ways: Vec<Tag>,
    most: usize,
    process_ids: bool,
}

impl Tpc {
    fn new(params: &Params) -> Result<Tpc, String> {
        check_levels("tpc", params)?;
        let most = params.int(PWC_ENTRIES.name) as usize;
        Ok(Tpc {
            ways: Vec::with_capacity(most),
            most,
            process_ids: params.flag(crate::tlb::keys::PROCESS_IDS.name),
        })
    }

    /// The level below which a walk begins, and the place of the entry for that.
    fn longest(&self, path: &Path) -> (u8, Option<usize>) {
        let mut best = (path.levels, None);
        for (place, tag) in self.ways.iter().enumerate().rev().filter(|(_, tag)| tag.asid() == path.asid) {
            let differs = tag.base().0 ^ path.vpn.0;
            // An entry knows the way down to its own level, not below.
            let known = (tag.order() / path.radix).max(path.leaf + 1);
            let level = (known..path.levels).find(|level| differs >> (path.radix * level) == 0);
            if let Some(level) = level.filter(|level| *level < best.0) {
                best = (level, Some(place));
            }
            if best.0 == path.leaf + 1 {
                break;
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
        let (level, place) = self.longest(path);
        if let Some(place) = place {
            self.ways[place..].rotate_left(1);
        }
        level
    }

    fn read(&mut self, _: &Path, _: u8) {}

    fn ended(&mut self, path: &Path, from: u8) {
        if from > path.leaf + 1 {
            if self.ways.len() == self.most {
                self.ways.remove(0);
            }
            self.ways.push(path.tag(path.leaf + 1));
        }
    }

    fn drop_space(&mut self, asid: Asid) {
        self.ways.retain(|tag| tag.asid() != asid);
    }

    fn switch(&mut self, to: Asid) {
        if !self.process_ids {
            self.ways.retain(|tag| tag.asid() == to);
        }
    }
}
