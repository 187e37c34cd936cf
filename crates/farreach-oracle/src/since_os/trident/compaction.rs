//! TRI-3.

use super::PlainTrident;
use std::ops::Range;

/// What is in an aligned group of 1 GB of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first frame.
    pub first: u64,
    pub free: u64,
    pub unmovable: u64,
    pub pages: u64,
}

impl Block {
    /// ON-54.
    pub fn of_movable_type(&self) -> bool {
        self.free + self.unmovable < self.pages
    }

    /// The source among blocks, some of which were tried.
    pub fn source(blocks: &[Block], tried: impl Fn(u64) -> bool) -> Option<Block> {
        let sources = blocks.iter().copied().filter(|block| block.of_movable_type() && !tried(block.first));
        sources.reduce(|best, next| if next.free > best.free { next } else { best })
    }

    /// The destinations for a source, the first one first (ON-55).
    pub fn destinations(blocks: &[Block], source: &Block) -> Vec<Block> {
        let fits = |block: &&Block| block.of_movable_type() && block.free > 0 && block.first != source.first;
        let mut all: Vec<Block> = blocks.iter().filter(fits).copied().collect();
        all.sort_by_key(|block| (block.free, block.first));
        all
    }
}

impl PlainTrident {
    /// All blocks of 1 GB.
    pub fn blocks(&self) -> Vec<Block> {
        let pages = 1 << self.config.giant;
        (0..self.config.memory / pages).map(|at| self.block(at * pages..(at + 1) * pages)).collect()
    }

    fn block(&self, frames: Range<u64>) -> Block {
        let (first, pages) = (frames.start, frames.end - frames.start);
        let free = frames.clone().filter(|frame| self.paging.frames.holds(*frame)).count() as u64;
        let movable = frames.filter(|frame| self.paging.movable(*frame).is_some()).count() as u64;
        Block { first, free, unmovable: pages - free - movable, pages }
    }

    /// A request for a block of 1 GB.
    pub(super) fn compact(&mut self) {
        self.add("trident_compactions", 1);
        let before = self.paging.frames.free_blocks(self.config.pmd);
        for _ in 0..5 {
            let blocks = self.blocks();
            let (now, pause) = (self.now, self.config.compaction.expect("it compacts"));
            let tried = |first: u64| self.tried.get(&first).is_some_and(|at| now - at < pause);
            let Some(source) = Block::source(&blocks, tried) else { return };
            self.tried.insert(source.first, now);
            self.add("trident_rounds", 1);
            self.empty(&source, &Block::destinations(&blocks, &source));
            let came = self.paging.frames.free_blocks(self.config.pmd).saturating_sub(before);
            let enough = 1 << (self.config.giant - self.config.pmd);
            if came > enough || self.paging.frames.free_blocks(self.config.giant) > 0 {
                return;
            }
        }
    }

    /// A round.
    fn empty(&mut self, source: &Block, destinations: &[Block]) {
        let mut frame = source.first;
        while frame < source.first + source.pages {
            if self.paging.frames.holds(frame) {
                frame += 1;
                continue;
            }
            let room = self.paging.movable(frame).and_then(|order| {
                let size = 1 << order;
                let places = destinations
                    .iter()
                    .flat_map(|block| (block.first..block.first + block.pages).step_by(size as usize));
                let to = places.into_iter().find(|to| (*to..to + size).all(|frame| self.paging.frames.holds(frame)))?;
                Some((to, size))
            });
            let Some((to, size)) = room else {
                self.add("trident_aborts", 1);
                return;
            };
            self.paging.frames.take(to, size);
            self.paging.move_frames(frame..frame + size, to);
            self.paging.frames.give_back(frame..frame + size);
            self.add("compacted_pages", size);
            self.paging.counts.gathered_pages += size;
            frame += size;
        }
    }
}
