//! The blocks that are executed soon, to prefetch what is known of them: that of a large program does not fit the
//! nearest caches.

use farreach_types::event::{OP_BIT, block_id, words_behind};

/// Items of a batch that a look-ahead is in front.
const AHEAD: usize = 8;

/// A place in a batch some items in front of the one that is looked at.
pub(crate) struct LookAhead {
    at: usize,
}

impl LookAhead {
    /// In front of the first word. `prefetch` is given each block that is executed.
    pub fn new(words: &[u64], mut prefetch: impl FnMut(u32)) -> LookAhead {
        let mut ahead = LookAhead { at: 0 };
        (0..AHEAD).for_each(|_| ahead.step(words, &mut prefetch));
        ahead
    }

    /// Advances by one item.
    #[inline(always)]
    pub fn step(&mut self, words: &[u64], prefetch: impl FnOnce(u32)) {
        let Some(&word) = words.get(self.at) else { return };
        self.at += 1;
        if word & OP_BIT == 0 {
            self.at += words_behind(word);
            prefetch(block_id(word));
        }
    }
}
