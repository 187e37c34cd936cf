//! Looks at A (ING-5).

use super::PlainIngens;
use crate::superpages::group;
use farreach_types::hash::mix;

/// What is known of the use of an entry (ING-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    pub history: u8,
    pub f: i64,
}

impl Use {
    /// ING-5: a look at A.
    pub fn look(&mut self, accessed: bool) {
        self.history = self.history << 1 | u8::from(accessed);
        self.f = (70 * self.f + 30 * (i64::from(self.history.count_ones()) - 6)) / 100;
    }

    pub fn hot(&self) -> bool {
        self.f >= 0
    }
}

impl PlainIngens {
    /// What is known of the entry around a page.
    pub fn used(&self, process: u32, page: u64) -> Option<Use> {
        let entry = self.paging.entry(process, page)?;
        self.uses.get(&(process, group(page, entry.order).start, entry.order)).copied()
    }

    /// ING-5.
    pub(super) fn track(&mut self) {
        self.scans += 1;
        let before = std::mem::take(&mut self.uses);
        for process in self.paging.programs.spaces.keys().copied().collect::<Vec<_>>() {
            for (page, entry) in self.paging.mapped(process, 0..u64::MAX) {
                let leaf = group(page, entry.order);
                if page != leaf.start {
                    continue;
                }
                let key = (process, page, entry.order);
                let young = self.paging.mapped(process, leaf).iter().any(|(_, entry)| entry.young);
                let mut used = before.get(&key).copied().unwrap_or_default();
                used.look(young);
                let sampled = mix(u64::from(process) << 52 ^ page, self.scans) % 100 < 20;
                if !self.config.sampling || !used.hot() || sampled {
                    self.paging.set_young(process, page, false);
                }
                self.add("ingens_tracked", 1);
                self.add("ingens_hot", u64::from(used.hot()));
                self.uses.insert(key, used);
            }
        }
        self.track_due = self.now + self.config.track_every;
    }
}
