//! Zeroing in the background (HWE-6).

use super::PlainHawkEye;
use crate::frames::{Frames, Lists};
use std::ops::Range;

impl PlainHawkEye {
    fn lists(&mut self) -> &mut Lists {
        match &mut self.paging.frames {
            Frames::Blocks(lists) => lists,
            Frames::List(_) => panic!("zeroing needs blocks"),
        }
    }

    fn is_zeroed(&self, block: u64, order: u32) -> bool {
        (block..block + (1 << order)).all(|frame| self.zeroed.contains(&frame))
    }

    /// Free frames that are zeroed.
    pub fn zeroed_frames(&self) -> u64 {
        self.zeroed.len() as u64
    }

    /// ON-65: of the blocks that a request could take, one that is zeroed, or not, is the next.
    pub(super) fn prefer(&mut self, order: u32, zeroed: bool) {
        if self.config.zeroing.is_none() {
            return;
        }
        let lists = self.lists();
        let from = (order..lists.free.len() as u32).find(|order| !lists.free[*order as usize].is_empty());
        let Some(from) = from else { return };
        let blocks = lists.free[from as usize].clone();
        if let Some(at) = blocks.iter().position(|block| self.is_zeroed(*block, from) == zeroed) {
            let list = &mut self.lists().free[from as usize];
            let block = list.remove(at);
            list.insert(0, block);
        }
    }

    /// Frames were taken, and must be zeroed or not. What is zeroed already costs nothing.
    pub(super) fn use_zeroed(&mut self, frames: Range<u64>, wanted: bool) {
        let ready = frames.filter(|frame| self.zeroed.remove(frame)).count() as u64;
        if wanted {
            self.paging.counts.zeroed_pages -= ready;
        }
    }

    /// HWE-6.
    pub(super) fn zero_ahead(&mut self) {
        let zeroing = self.config.zeroing.expect("it is on");
        for _ in 0..zeroing.blocks {
            let blocks = self.lists().free.get(zeroing.order as usize).cloned().unwrap_or_default();
            let Some(at) = blocks.iter().position(|block| !self.is_zeroed(*block, zeroing.order)) else { break };
            let lists = self.lists();
            let block = blocks[at];
            if !lists.by_address {
                lists.free[zeroing.order as usize].remove(at);
                lists.free[zeroing.order as usize].push(block);
            }
            let new = (block..block + (1 << zeroing.order)).filter(|frame| self.zeroed.insert(*frame)).count();
            self.add("zero_pages_background", new as u64);
        }
        self.due[2] = self.now + zeroing.every;
    }
}
