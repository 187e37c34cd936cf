//! Blocks that were allocated whole stay whole until all of their pages are unmapped (LNX-21): the frames of an
//! unmapped part are held, until memory is short and the block is split. Blocks of 2 MB that are mapped as a whole wait
//! in the same queue, to be split if most of their pages hold zeros (LNX-22).

use crate::bits;
use std::collections::BTreeMap;
use std::ops::Range;

/// One block. A bit for each frame that nothing maps any more.
struct Folio {
    order: u32,
    gone: Vec<u64>,
    /// Frames whose bit is set.
    held: u64,
    /// Its number in the queue, if it is there.
    number: Option<u64>,
}

/// Which blocks are underused (LNX-22).
#[derive(Clone, Copy, Debug)]
pub struct Underused {
    /// log2 of the frames of the blocks that are looked at.
    pub order: u32,
    /// Most frames of zeros of one that is not.
    pub zeros: u64,
}

/// Blocks that hold frames, or may do so. Empty where partly unmapped blocks are split at once.
#[derive(Default)]
pub struct Folios {
    /// By first frame.
    blocks: BTreeMap<u64, Folio>,
    /// The queue: blocks that are partly unmapped or not yet looked at, by a number that ascends with time.
    queue: BTreeMap<u64, u64>,
    /// The next number.
    number: u64,
    held: u64,
    most_held: u64,
    split: u64,
    underused: (u64, u64),
    /// Whether blocks are kept whole.
    pub deferred: bool,
    /// Which blocks are split that are mapped as a whole, if any.
    pub shrinks: Option<Underused>,
}

/// The frames of a block that was split, and those that are free now: first frame and number of each run.
pub type Split = (Range<u64>, Vec<(u64, u64)>);

fn enqueue(queue: &mut BTreeMap<u64, u64>, next: &mut u64, base: u64) -> Option<u64> {
    queue.insert(*next, base);
    *next += 1;
    Some(*next - 1)
}

impl Folios {
    /// A block was allocated.
    pub fn add(&mut self, base: u64, order: u32) {
        if self.deferred {
            let gone = vec![0; (1usize << order).div_ceil(64)];
            let looked_at = self.shrinks.is_some_and(|underused| underused.order == order);
            let number = looked_at.then(|| enqueue(&mut self.queue, &mut self.number, base)).flatten();
            self.blocks.insert(base, Folio { order, gone, held: 0, number });
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

    /// Blocks split since most of their pages held zeros, and these pages.
    pub fn underused(&self) -> (u64, u64) {
        self.underused
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
            folio.held += part;
            self.held += part;
            let all = 1 << folio.order;
            if folio.held == all {
                self.held -= all;
                folio.number.map(|number| self.queue.remove(&number));
                self.blocks.remove(&base);
                free.push((base, all));
            } else if folio.number.is_none() {
                folio.number = enqueue(&mut self.queue, &mut self.number, base);
            }
            at += part;
        }
        free
    }

    /// An event ended: what is held now is held.
    pub fn settle(&mut self) {
        self.most_held = self.most_held.max(self.held);
    }

    /// Splits the first block of the queue that is partly unmapped. Returns its frames, and those that are free now;
    /// `None` if there is none before one that is underused, which stays the first. Blocks before it that are neither
    /// leave the queue. `zeros` tells whether a frame holds zeros.
    pub fn split_one(&mut self, zeros: impl Fn(u64) -> bool) -> Option<Split> {
        while let Some(first) = self.queue.first_entry() {
            let base = *first.get();
            let folio = self.blocks.get_mut(&base).expect("blocks in the queue are whole");
            if folio.held > 0 {
                first.remove();
                let folio = self.blocks.remove(&base).expect("it is there");
                self.held -= folio.held;
                self.split += 1;
                let free = bits::runs(&folio.gone).map(|(at, n)| (base + at, n)).collect();
                return Some((base..base + (1 << folio.order), free));
            }
            let of_zeros = (base..base + (1 << folio.order)).filter(|&frame| zeros(frame)).count() as u64;
            if self.shrinks.is_some_and(|underused| of_zeros > underused.zeros) {
                return None;
            }
            folio.number = None;
            first.remove();
        }
        None
    }

    /// After [`Folios::split_one`] found no other: the block that is underused is a block no more. Returns its frames.
    pub fn take_underused(&mut self) -> Option<Range<u64>> {
        let (_, base) = self.queue.pop_first()?;
        let folio = self.blocks.remove(&base).expect("blocks in the queue are whole");
        debug_assert_eq!(folio.held, 0, "those that are partly unmapped were split");
        self.underused.0 += 1;
        Some(base..base + (1 << folio.order))
    }

    /// Pages of such blocks were taken from their processes.
    pub fn took(&mut self, pages: u64) {
        self.underused.1 += pages;
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
        let waiting = self.blocks.iter().filter_map(|(&base, folio)| folio.number.map(|number| (number, base)));
        assert_eq!(waiting.collect::<BTreeMap<_, _>>(), self.queue, "blocks in the queue");
        assert!(self.blocks.values().all(|folio| folio.held == 0 || folio.number.is_some()), "blocks to be split");
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
        assert_eq!(folios.split_one(|_| false), Some((512..1024, vec![(512, 256)])));
        assert_eq!((folios.held(), folios.tally()), (0, (256, 1)));
        // Its other half is base pages.
        assert_eq!(folios.give_back(768, 256), [(768, 256)]);
        assert_eq!(folios.split_one(|_| false), None);
    }

    #[test]
    fn lnx_21_the_last_part_frees_all() {
        let mut folios = Folios { deferred: true, ..Folios::default() };
        folios.add(16, 4);
        assert_eq!(folios.give_back(8, 12), [(8, 8)], "frames of no block are free");
        assert_eq!(folios.give_back(20, 20), [(16, 16), (32, 8)]);
        assert_eq!((folios.held(), folios.split_one(|_| false)), (0, None), "nothing is left to split");
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
        assert_eq!(folios.split_one(|_| false), Some((16..32, vec![(16, 3)])), "it was partly unmapped first");
        assert_eq!(folios.split_one(|_| false), Some((0..16, vec![(0, 2)])));
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

    /// LNX-22: neither partly unmapped nor underused, a block leaves the queue for good, until it is partly unmapped.
    #[test]
    fn lnx_22_blocks_are_looked_at_once_in_the_order_in_which_they_came() {
        let mut folios =
            Folios { deferred: true, shrinks: Some(Underused { order: 4, zeros: 10 }), ..Folios::default() };
        [0, 16, 32, 48].into_iter().for_each(|base| folios.add(base, 4));
        folios.add(64, 3);
        folios.give_back(48, 2);
        // The first has 10 zeros, the second 11.
        let zeros = |frame: u64| frame < 10 || (16..27).contains(&frame);
        assert_eq!(folios.split_one(zeros), None);
        folios.check(|frame| !(48..50).contains(&frame));
        assert_eq!(folios.take_underused(), Some(16..32));
        assert_eq!(folios.give_back(16, 3), [(16, 3)], "no block any more");
        folios.give_back(0, 1);
        // The third is used; the fourth waited since it was made, the first since now.
        assert_eq!(folios.split_one(zeros), Some((48..64, vec![(48, 2)])));
        assert_eq!(folios.split_one(zeros), Some((0..16, vec![(0, 1)])));
        assert_eq!((folios.split_one(|_| true), folios.take_underused()), (None, None), "one of 8 is not looked at");
        assert_eq!(folios.underused(), (1, 0));
    }
}
