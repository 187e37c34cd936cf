//! Blocks that stay whole when a part of them is unmapped, and superpages of zeros (LNX-21, LNX-22).

use super::PlainLinux;
use crate::paging::Entry;
use crate::system::System;
use std::ops::Range;

impl PlainLinux {
    /// OK-1: a superpage is in a block of its own.
    pub(super) fn keep_block(&mut self, base: u64, order: u32) {
        if self.config.deferred {
            self.blocks.insert(base, order);
            if self.config.shrink.is_some() && order == self.config.pmd {
                self.queue.push(base);
            }
        }
    }

    /// The block around a frame.
    pub(super) fn block(&self, frame: u64) -> Option<Range<u64>> {
        let mut blocks = self.blocks.iter().map(|(base, order)| *base..*base + (1 << *order));
        blocks.find(|block| block.contains(&frame))
    }

    /// LNX-21, LNX-22: looks at blocks, the first of the queue first, until there is a frame.
    pub(super) fn relieve(&mut self) {
        while self.paging.frames.free() == 0 && !self.queue.is_empty() {
            let base = self.queue.remove(0);
            let block = self.block(base).expect("it is whole");
            let zeros: Vec<u64> = block.clone().filter(|frame| !self.paging.stored.contains(frame)).collect();
            if block.clone().any(|frame| self.held.contains(&frame)) {
                self.make_base_pages(&block);
                self.paging.frames.give_back(block.filter(|frame| self.held.remove(frame)));
                self.own.deferred_splits += 1;
            } else if self.config.shrink.is_some_and(|most| zeros.len() as u64 > most) {
                self.make_base_pages(&block);
                self.own.underused_splits += 1;
                self.own.underused_pages += self.drop_zeros(&zeros);
                self.give_back();
            }
        }
    }

    /// OK-9: a block is whole no more, nor what is mapped of it.
    fn make_base_pages(&mut self, block: &Range<u64>) {
        self.blocks.remove(&block.start);
        for process in self.paging.programs.spaces.keys().copied().collect::<Vec<u32>>() {
            for (page, entry) in self.paging.mapped(process, 0..u64::MAX) {
                if block.contains(&entry.frame) {
                    self.paging.split(process, page);
                }
            }
        }
    }

    /// Pages of these frames are unmapped everywhere, or become pages of zeros (OK-15). How many that were.
    fn drop_zeros(&mut self, frames: &[u64]) -> u64 {
        let mut pages = 0;
        for space in self.paging.programs.spaces.values_mut() {
            for entry in space.table.values_mut().filter(|entry| frames.contains(&entry.frame)) {
                *entry = Entry::zeros();
                pages += 1;
            }
            space.table.retain(|_, entry| self.config.zero_page || !entry.is_zeros());
        }
        pages
    }
}
