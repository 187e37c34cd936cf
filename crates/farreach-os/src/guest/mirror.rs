//! The guest's page tables as they are in its memory: the words that the recording told of, all others zero.

use super::format::WORDS;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

static ZERO: [u64; WORDS] = [0; WORDS];

/// Words of physical memory, by frame of 4 KB.
#[derive(Default)]
pub(super) struct Mirror {
    frames: HashMap<u64, Box<[u64; WORDS]>, FixedState>,
}

impl Mirror {
    /// The words of a frame of 4 KB.
    pub fn frame(&self, frame: u64) -> &[u64; WORDS] {
        self.frames.get(&frame).map_or(&ZERO, |words| words)
    }

    /// The word at a physical address.
    pub fn word(&self, address: u64) -> u64 {
        self.frame(address >> 12)[(address >> 3) as usize % WORDS]
    }

    /// Of words from an address on, all in one frame, those that are not so yet: positions, and the values they have.
    pub fn differing(&self, address: u64, values: &[u64]) -> Vec<(usize, u64)> {
        let words = self.frame(address >> 12);
        let all = ((address >> 3) as usize % WORDS..WORDS).zip(values);
        all.filter(|(at, value)| words[*at] != **value).map(|(at, _)| (at, words[at])).collect()
    }

    /// Writes words from an address on, all in one frame.
    pub fn write(&mut self, address: u64, values: &[u64]) {
        let words = self.frames.entry(address >> 12).or_insert_with(|| Box::new(ZERO));
        let first = (address >> 3) as usize % WORDS;
        words[first..first + values.len()].copy_from_slice(values);
    }
}
