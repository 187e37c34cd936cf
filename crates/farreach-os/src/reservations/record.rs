//! One reservation.

use crate::bits;
use crate::object::ObjectId;
use farreach_types::addr::Pfn;

/// Frames of a word of bits.
const WORD: u64 = 64;

/// An aligned block of frames that is held back for an aligned group of pages of an object.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Whose pages; `None` when the object is gone.
    pub object: Option<ObjectId>,
    /// The first page of the group.
    pub first: u64,
    /// Its frame.
    pub base: Pfn,
    /// Which of the sizes it has.
    pub size: usize,
    /// log2 of its pages.
    pub order: u32,
    /// A bit for each frame that is in use.
    used: Box<[u64]>,
    /// A bit for each frame in use that was stored to.
    stored: Box<[u64]>,
    /// A bit for each frame in use that nothing asked for (OS-TPS-2, QKS-1).
    filled: Box<[u64]>,
    count: u64,
    /// Its place in the order of the list.
    pub(super) time: u64,
    /// When it moved there.
    pub(super) tick: u64,
    /// The list it is in.
    pub(super) list: Option<usize>,
    /// The millisecond of the last page that came (QKS-2).
    pub(super) last: u64,
}

impl Reservation {
    /// One that is not used yet.
    pub(super) fn new(object: Option<ObjectId>, first: u64, base: Pfn, size: usize, order: u32) -> Reservation {
        let words = vec![0; (1usize << order).div_ceil(WORD as usize)];
        let (used, stored, filled) = (words.clone().into(), words.clone().into(), words.into());
        Reservation {
            object,
            first,
            base,
            size,
            order,
            used,
            stored,
            filled,
            count: 0,
            time: 0,
            tick: 0,
            list: None,
            last: 0,
        }
    }

    /// Its pages.
    pub fn pages(&self) -> u64 {
        1 << self.order
    }

    /// Those in use.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all are in use.
    pub fn is_full(&self) -> bool {
        self.count == self.pages()
    }

    /// Whether this one is in use.
    pub fn uses(&self, at: u64) -> bool {
        self.used[(at / WORD) as usize] >> (at % WORD) & 1 == 1
    }

    /// How many of these are in use because something asked for them.
    pub fn asked_in(&self, at: u64, pages: u64) -> u64 {
        let word = |word: u64| self.used[word as usize] & !self.filled[word as usize];
        let ones = |(at_word, at, n): (u64, u64, u64)| (word(at_word) & bits::mask(at, n)).count_ones();
        bits::groups(at, pages, WORD).map(|group| u64::from(ones(group))).sum()
    }

    /// How many of these are in use.
    pub fn used_in(&self, at: u64, pages: u64) -> u64 {
        let ones = |(word, at, n): (u64, u64, u64)| (self.used[word as usize] & bits::mask(at, n)).count_ones();
        bits::groups(at, pages, WORD).map(|group| u64::from(ones(group))).sum()
    }

    /// Whether all of its pages were stored to.
    pub fn all_stored(&self) -> bool {
        self.stored.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == self.pages()
    }

    /// Whether the aligned group of `2^order` frames around this one is in use.
    pub fn is_full_around(&self, pfn: Pfn, order: u32) -> bool {
        order <= self.order && self.used_in(pfn.align_down(order).0 - self.base.0, 1 << order) == 1 << order
    }

    /// A frame comes into use, asked for or not.
    pub(super) fn use_one(&mut self, at: u64, asked: bool) {
        debug_assert!(!self.uses(at));
        self.used[(at / WORD) as usize] |= 1 << (at % WORD);
        self.filled[(at / WORD) as usize] |= u64::from(!asked) << (at % WORD);
        self.count += 1;
    }

    /// A frame goes out of use.
    pub(super) fn leave(&mut self, at: u64) {
        debug_assert!(self.uses(at), "only used frames are freed");
        let bit = 1 << (at % WORD);
        self.used[(at / WORD) as usize] &= !bit;
        self.stored[(at / WORD) as usize] &= !bit;
        self.filled[(at / WORD) as usize] &= !bit;
        self.count -= 1;
    }

    /// Frames were stored to; those not in use are none.
    pub(super) fn store(&mut self, at: u64, pages: u64) {
        for (word, at, n) in bits::groups(at, pages, WORD) {
            self.stored[word as usize] |= bits::mask(at, n) & self.used[word as usize];
        }
    }

    /// The frames that are not in use, in runs.
    pub(super) fn unused(&self) -> Vec<(u64, u64)> {
        let free: Vec<u64> = self.used.iter().map(|word| !word).collect();
        let inside = |(at, n): (u64, u64)| (self.base.0 + at, n.min(self.pages() - at));
        bits::runs(&free).filter(|(at, _)| *at < self.pages()).map(inside).collect()
    }

    /// Which size the largest aligned extent of it has that is wholly unused (NAV-5): a smaller one than its own.
    /// `None`: it is full.
    pub(super) fn largest_unused(&self, orders: &[u32]) -> Option<usize> {
        let unused = |&size: &usize| {
            let order = orders[size];
            size == 0 || (0..self.pages() >> order).any(|group| self.used_in(group << order, 1 << order) == 0)
        };
        (!self.is_full()).then(|| (0..self.size).rev().find(unused)).flatten()
    }

    /// The part of it of `2^order` frames from frame `at` on, of the next smaller size.
    pub(super) fn piece(&self, at: u64, order: u32) -> Reservation {
        let base = Pfn(self.base.0 + at);
        let mut piece = Reservation::new(self.object, self.first + at, base, self.size - 1, order);
        for i in (0..1 << order).filter(|i| self.uses(at + i)) {
            piece.use_one(i, self.asked_in(at + i, 1) == 1);
            if self.stored[((at + i) / WORD) as usize] >> ((at + i) % WORD) & 1 == 1 {
                piece.store(i, 1);
            }
        }
        (piece.time, piece.tick, piece.last) = (self.time, self.tick, self.last);
        piece
    }
}
