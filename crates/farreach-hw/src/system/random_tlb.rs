//! The TLB of these machines: fully associative, random replacement, with slots that ordinary entries never take
//! (SV97-30).

use super::{NONE, keys};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, Translation};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Number of entries.
pub const ENTRIES: Key = Key {
    name: "entries",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 4096 },
    about: "TLB entries, reserved ones included; fully associative, random replacement",
};
/// SV97-30.
pub const RESERVED: Key = Key {
    name: "reserved",
    default: "8",
    allowed: Allowed::Int { min: 0, max: 4095 },
    about: "of the entries, those kept for pages of the page table; less than `entries`",
};
/// AMB-40.
pub const SPLIT: Key = Key {
    name: "split",
    default: "false",
    allowed: Allowed::Flag,
    about: "one TLB for fetches and one for data, each with `entries` entries, instead of a unified one",
};

const HINTS: usize = 1024;

/// Entries by global page. The first slots are the ordinary ones.
pub struct RandomTlb {
    pages: Vec<u64>,
    translations: Vec<Translation>,
    ordinary: usize,
    /// Slot in which a page was found last, by the low bits of its number: a hint.
    hints: Box<[u16; HINTS]>,
    random: Pcg64Mcg,
}

impl RandomTlb {
    /// From the keys `entries` and `seed`.
    pub fn new(params: &Params, reserved: u64) -> Result<RandomTlb, String> {
        let entries = params.int(ENTRIES.name);
        if reserved >= entries {
            return Err(format!(
                "reserved = {reserved} is not allowed: of {entries} entries at least one must be left"
            ));
        }
        Ok(RandomTlb {
            pages: vec![NONE; entries as usize],
            translations: vec![Translation { pfn: farreach_types::addr::Pfn(0), attr: Attr(0) }; entries as usize],
            ordinary: (entries - reserved) as usize,
            hints: Box::new([0; HINTS]),
            random: Pcg64Mcg::seed_from_u64(params.int(keys::SEED.name)),
        })
    }

    /// The translation of a page. Changes only a hint.
    #[inline(always)]
    pub fn find(&mut self, page: u64) -> Option<Translation> {
        let slot = usize::from(self.hints[page as usize % HINTS]);
        if self.pages[slot] == page { Some(self.translations[slot]) } else { self.search(page) }
    }

    #[inline(never)]
    fn search(&mut self, page: u64) -> Option<Translation> {
        let slot = self.pages.iter().position(|&p| p == page)?;
        self.hints[page as usize % HINTS] = slot as u16;
        Some(self.translations[slot])
    }

    /// Enters a page that is not there, in an ordinary slot.
    pub fn fill(&mut self, page: u64, translation: Translation) {
        self.put(0..self.ordinary, page, translation);
    }

    /// Enters a page of the page table, in a reserved slot if there are any.
    pub fn fill_reserved(&mut self, page: u64, translation: Translation) {
        let reserved = self.ordinary..self.pages.len();
        self.put(if reserved.is_empty() { 0..self.ordinary } else { reserved }, page, translation);
    }

    /// The lowest empty slot, else a random one (AMB-6).
    fn put(&mut self, slots: std::ops::Range<usize>, page: u64, translation: Translation) {
        debug_assert!(!self.pages.contains(&page), "page {page:#x} is there already");
        let empty = self.pages[slots.clone()].iter().position(|&p| p == NONE);
        let slot = slots.start
            + empty.unwrap_or_else(|| ((u64::from(self.random.next_u32()) * slots.len() as u64) >> 32) as usize);
        (self.pages[slot], self.translations[slot]) = (page, translation);
        self.hints[page as usize % HINTS] = slot as u16;
    }

    /// Drops the entries for which `which` holds. Returns how many.
    pub fn remove(&mut self, which: impl Fn(u64) -> bool) -> u64 {
        let mut dropped = 0;
        for page in self.pages.iter_mut().filter(|page| **page != NONE && which(**page)) {
            *page = NONE;
            dropped += 1;
        }
        dropped
    }

    /// The pages in ordinary and in reserved slots.
    pub fn pages(&self) -> [Vec<u64>; 2] {
        let (ordinary, reserved) = self.pages.split_at(self.ordinary);
        [ordinary, reserved].map(|slots| slots.iter().copied().filter(|&page| page != NONE).collect())
    }
}
