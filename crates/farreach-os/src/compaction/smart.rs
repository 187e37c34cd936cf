//! Smart compaction (TRI-3; Ram and others, MICRO 2021): the large block with the most free frames is emptied into
//! those with the fewest, so that little is copied. A block takes part if it has a page that can move. Pages that
//! cannot are found when their turn comes: the run ends there, and the block is left alone for a while (OAMB-13).

use super::contract::{CompactionKind, Layout, Survey, Way, When};
use super::direct::fewest;
use super::policy::{BLOCK, PAUSE};
use crate::background::TICKS_PER_MS;
use farreach_types::params::Params;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Registry entry.
pub const SMART: CompactionKind = CompactionKind { name: "smart", when: When::Demand, allocators: &["buddy"], build };

/// Runs for one request.
const ROUNDS: u32 = 5;

struct Smart {
    /// Blocks that are larger than `2^usual` frames are emptied in this way.
    usual: u32,
    /// Instructions for which a block is left alone; `None`: there is no clock, so for good.
    pause: Option<u64>,
    /// By first frame, blocks that were tried, and the time.
    tried: HashMap<u64, u64>,
}

fn build(params: &Params) -> Box<dyn Way> {
    let clock = params.has(TICKS_PER_MS.name).then(|| params.int(TICKS_PER_MS.name));
    let usual = (params.int(BLOCK.name) >> params.page_shift()).max(1).ilog2();
    let pause = clock.map(|ticks| ticks.saturating_mul(params.int(PAUSE.name)));
    Box::new(Smart { usual, pause, tried: HashMap::new() })
}

impl Way for Smart {
    fn for_request(&mut self, survey: &Survey) -> Layout {
        if survey.order <= self.usual {
            return fewest(survey);
        }
        let first = |block: u64| block << survey.order;
        let rests = |block: u64| {
            self.tried.get(&first(block)).is_some_and(|then| self.pause.is_none_or(|pause| survey.now < then + pause))
        };
        let free = |block: u64| (1 << survey.order) - survey.taken_in(block);
        let movable = |block: u64| survey.is_whole(block) && survey.movable_in(block) > 0;
        let worth = |block: &u64| movable(*block) && !rests(*block);
        let Some(source) = (0..survey.blocks()).filter(worth).min_by_key(|&b| (Reverse(free(b)), b)) else {
            return Layout::default();
        };
        self.tried.insert(first(source), survey.now);
        let room = |block: &u64| movable(*block) && *block != source && free(*block) > 0;
        let mut targets: Vec<u64> = (0..survey.blocks()).filter(room).collect();
        targets.sort_by_key(|&block| (free(block), block));
        let pieces = targets.into_iter().flat_map(|block| survey.pieces_of(block)).map(|piece| piece as u64);
        Layout { empty: vec![source], fill: pieces.filter(|&piece| survey.has_room(piece)).collect() }
    }

    fn rounds(&self, order: u32) -> u32 {
        if order > self.usual { ROUNDS } else { 1 }
    }

    fn begins_blindly(&self, order: u32) -> bool {
        order > self.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(free: [u64; 4], now: u64) -> Survey {
        let taken: Vec<u64> = free.iter().map(|free| (1 << 18) - free).collect();
        // Pieces of all of a block, for the example.
        Survey { order: 18, piece: 18, total: 4 << 18, movable: taken.clone(), taken, now }
    }

    fn smart(pause: Option<u64>) -> Smart {
        Smart { usual: 9, pause, tried: HashMap::new() }
    }

    /// The example of the rules: 62,144 pages move, 10,000 to the first block and 52,144 to the third.
    #[test]
    fn tri_3_the_source_has_the_most_free_frames_and_targets_the_fewest() {
        let free = [10_000, 200_000, 60_000, 150_000];
        let mut smart = smart(None);
        let layout = smart.for_request(&survey(free, 0));
        assert_eq!((layout.empty, layout.fill), (vec![1], vec![0, 2, 3]));
        let mut left = (1 << 18) - free[1];
        assert_eq!(left, 62_144);
        let moved = [0, 2, 3].map(|block: usize| {
            let here = left.min(free[block]);
            left -= here;
            here
        });
        assert_eq!(moved, [10_000, 52_144, 0]);
        // What was tried rests: the next one.
        assert_eq!(smart.for_request(&survey(free, 5)).empty, [3]);
        assert_eq!((smart.rounds(18), smart.rounds(9)), (5, 1));
    }

    /// OAMB-13.
    #[test]
    fn tri_3_a_block_that_was_tried_rests() {
        let free = [0, 1 << 18, 5, 9];
        let mut smart = smart(Some(100));
        let mut source = |now| smart.for_request(&survey(free, now)).empty;
        assert_eq!(source(1), [3], "not the free one");
        assert_eq!([source(2), source(100)], [vec![2], vec![0]], "at last a full one");
        assert_eq!([source(101), source(150)], [vec![3], vec![2]]);
    }

    #[test]
    fn tri_3_blocks_without_pages_that_move_take_no_part() {
        let mut memory = survey([10, 20, 30, 40], 0);
        memory.movable[2] = 0;
        memory.total -= 1;
        let layout = smart(None).for_request(&memory);
        assert_eq!((layout.empty, layout.fill), (vec![1], vec![0]), "the last block is cut");
    }
}
