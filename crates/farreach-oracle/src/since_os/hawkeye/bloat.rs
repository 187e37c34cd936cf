//! Recovery of pages of zeros (HWE-7).

use super::PlainHawkEye;
use crate::superpages::group;
use crate::system::System;

impl PlainHawkEye {
    /// Frames that must become free, if memory is short.
    pub fn to_recover(&self) -> Option<u64> {
        let (start, end) = self.config.bloat?;
        let free = self.paging.frames.free();
        let short = free * 100 < self.config.memory * start;
        short.then(|| (self.config.memory * end).div_ceil(100).saturating_sub(free))
    }

    /// ON-67.
    pub(super) fn watch_bloat(&mut self) {
        if self.to_recover().is_some() {
            self.due[3] = self.now;
        }
    }

    pub(super) fn recover(&mut self) {
        self.due[3] = u64::MAX;
        let Some(wanted) = self.to_recover() else { return };
        self.add("bloat_runs", 1);
        let enough = self.paging.frames.free() + wanted;
        let mut processes: Vec<u32> = self.paging.programs.spaces.keys().copied().collect();
        processes.sort_by(|a, b| self.overhead(*a).total_cmp(&self.overhead(*b)));
        for process in processes {
            for (first, entry) in self.paging.mapped(process, 0..u64::MAX) {
                if entry.order != self.config.order || !first.is_multiple_of(1 << entry.order) {
                    continue;
                }
                if self.paging.frames.free() >= enough {
                    return;
                }
                let pages = self.paging.mapped(process, group(first, entry.order));
                let zero = pages.into_iter().filter(|(_, page)| {
                    !self.paging.stored.contains(&page.frame) && self.paging.names(page.frame) == 1
                });
                let zero: Vec<u64> = zero.map(|(page, _)| page).collect();
                if zero.is_empty() {
                    continue;
                }
                self.paging.split(process, first);
                self.add("bloat_splits", 1);
                self.add("bloat_recovered_pages", zero.len() as u64);
                let table = &mut self.paging.space(process).table;
                zero.iter().for_each(|page| _ = table.remove(page));
                self.give_back();
            }
        }
    }
}
