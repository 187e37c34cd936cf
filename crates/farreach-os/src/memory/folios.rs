//! Blocks that were allocated whole stay whole until all of their pages are unmapped (LNX-21): the frames of an
//! unmapped part are held, until memory is short and the block is split.

use crate::bits;
use std::collections::BTreeMap;

/// One block. A bit for each frame that nothing maps any more.
struct Folio {
    order: u32,
    gone: Vec<u64>,
    /// Frames whose bit is set.
    held: u64,
    /// Its number in the queue while it is partly unmapped.
    number: u64,
}

/// Blocks that hold frames, or may do so. Empty where partly unmapped blocks are split at once.
#[derive(Default)]
pub struct Folios {
    /// By first frame.
    blocks: BTreeMap<u64, Folio>,
    /// The queue: blocks that are partly unmapped, by a number that ascends with time.
    partial: BTreeMap<u64, u64>,
    /// The next number.
    number: u64,
    held: u64,
    most_held: u64,
    split: u64,
    /// Whether blocks are kept whole.
    pub deferred: bool,
}

impl Folios {
    /// A block was allocated.
    pub fn add(&mut self, base: u64, order: u32) {
        if self.deferred {
            let gone = vec![0; (1usize << order).div_ceil(64)];
            self.blocks.insert(base, Folio { order, gone, held: 0, number: 0 });
        }
    }

    /// Frames that are held.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Most frames held at a time, and blocks split for want of memory.
    pub fn tally(&self) -> (u64, u64) {
        (self.most_held, self.split)
    }

    /// These frames have no mapping any more. Returns those that are free: all of a block once the last of it goes, and
    /// those of no block.
    pub fn give_back(&mut self, first: u64, frames: u64) -> Vec<(u64, u64)> {
        let (mut at, end, mut free) = (first, first + frames, Vec::new());
        while at < end {
            let below = self.blocks.range_mut(..=at).next_back();
            let Some((&base, folio)) = below.filter(|(base, folio)| at < **base + (1 << folio.order)) else {
                let next = self.blocks.range(at..end).next().map_or(end, |(&base, _)| base);
                free.push((at, next - at));
                at = next;
                continue;
            };
            let part = end.min(base + (1 << folio.order)) - at;
            for (word, bit, n) in bits::groups(at - base, part, 64) {
                folio.gone[word as usize] |= bits::mask(bit, n);
            }
            let first = folio.held == 0;
            folio.held += part;
            self.held += part;
            let all = 1 << folio.order;
            if folio.held == all {
                self.held -= all;
                if !first {
                    self.partial.remove(&folio.number);
                }
                self.blocks.remove(&base);
                free.push((base, all));
            } else if first {
                folio.number = self.number;
                self.partial.insert(self.number, base);
                self.number += 1;
            }
            at += part;
        }
        free
    }

    /// An event ended: what is held now is held.
    pub fn settle(&mut self) {
        self.most_held = self.most_held.max(self.held);
    }

    /// Splits the block that has been partly unmapped for longest. Returns the frames that are free now; empty if there
    /// is no such block.
    pub fn split_one(&mut self) -> Vec<(u64, u64)> {
        let Some((_, base)) = self.partial.pop_first() else { return Vec::new() };
        let folio = self.blocks.remove(&base).expect("blocks in the queue are whole");
        self.held -= folio.held;
        self.split += 1;
        bits::runs(&folio.gone).map(|(at, n)| (base + at, n)).collect()
    }

    /// Panics if the counts are not consistent. `busy` tells whether a frame has contents.
    pub fn check(&self, busy: impl Fn(u64) -> bool) {
        let mut held = 0;
        for (&base, folio) in &self.blocks {
            let gone = |at: u64| folio.gone[(at / 64) as usize] >> (at % 64) & 1 != 0;
            let all = 0..1u64 << folio.order;
            assert_eq!(all.clone().filter(|&at| gone(at)).count() as u64, folio.held, "held frames of block {base:#x}");
            assert!(all.into_iter().all(|at| gone(at) != busy(base + at)), "frames in use of block {base:#x}");
            held += folio.held;
        }
        assert_eq!(held, self.held, "held frames");
        let partial = self.blocks.values().filter(|folio| folio.held > 0).count();
        assert_eq!(partial, self.partial.len(), "blocks in the queue");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LNX-F: half of a block is unmapped; nothing is free before an allocation fails.
    #[test]
    fn lnx_21_a_part_is_held_until_memory_is_short() {
        let mut folios = Folios { deferred: true, ..Folios::default() };
        folios.add(512, 9);
        assert_eq!(folios.give_back(512, 256), []);
        folios.settle();
        assert_eq!(folios.held(), 256);
        folios.check(|frame| frame >= 768);
        assert_eq!(folios.split_one(), [(512, 256)]);
        assert_eq!((folios.held(), folios.tally()), (0, (256, 1)));
        // Its other half is base pages.
        assert_eq!(folios.give_back(768, 256), [(768, 256)]);
        assert_eq!(folios.split_one(), []);
    }

    #[test]
    fn lnx_21_the_last_part_frees_all() {
        let mut folios = Folios { deferred: true, ..Folios::default() };
        folios.add(16, 4);
        assert_eq!(folios.give_back(8, 12), [(8, 8)], "frames of no block are free");
        assert_eq!(folios.give_back(20, 20), [(16, 16), (32, 8)]);
        assert_eq!((folios.held(), folios.split_one()), (0, vec![]), "nothing is left to split");
        folios.add(16, 4);
        folios.check(|_| true);
    }
    /// The queue is one of blocks, not of places: what ended leaves it.
    #[test]
    fn lnx_21_a_block_does_not_inherit_the_turn_of_one_that_was_there_before() {
        let mut folios = Folios { deferred: true, ..Folios::default() };
        folios.add(0, 4);
        folios.add(16, 4);
        folios.give_back(0, 1);
        assert_eq!(folios.give_back(1, 15), [(0, 16)]);
        folios.add(0, 4);
        folios.give_back(16, 3);
        folios.give_back(0, 2);
        folios.check(|frame| frame >= 19 || (2..16).contains(&frame));
        assert_eq!(folios.split_one(), [(16, 3)], "it was partly unmapped first");
        assert_eq!(folios.split_one(), [(0, 2)]);
    }

    /// Pieces of one event: what it frees in the end was never held.
    #[test]
    fn lnx_21_what_an_event_frees_as_a_whole_is_not_counted_as_held() {
        let mut folios = Folios { deferred: true, ..Folios::default() };
        folios.add(0, 4);
        folios.give_back(0, 5);
        folios.give_back(5, 11);
        folios.settle();
        assert_eq!(folios.tally(), (0, 0));
    }
}
