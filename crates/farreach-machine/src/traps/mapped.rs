//! Which pages are mapped: an exact table, where the filter of the loop is a lossy one.

use farreach_hw::tlb::Unfiltered;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Pages of one word.
const WORD: u64 = 64;

/// Pages that all designs answer quietly, so that a real page table may map them. Pages that leave are noted until they
/// are taken.
#[derive(Default)]
pub struct MappedPages {
    /// By address space and aligned group of [`WORD`] pages; none is 0.
    words: HashMap<(Asid, u64), u64, FixedState>,
    pages: u64,
    left: Vec<(Asid, VpnRange)>,
}

impl MappedPages {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.pages
    }

    /// Whether a page is mapped.
    pub fn contains(&self, asid: Asid, vpn: Vpn) -> bool {
        self.words.get(&(asid, vpn.0 / WORD)).is_some_and(|word| word >> (vpn.0 % WORD) & 1 != 0)
    }

    /// Adds a page.
    pub fn insert(&mut self, asid: Asid, vpn: Vpn) {
        let word = self.words.entry((asid, vpn.0 / WORD)).or_default();
        self.pages += u64::from(*word >> (vpn.0 % WORD) & 1 == 0);
        *word |= 1 << (vpn.0 % WORD);
    }

    /// Takes the pages of a report out, which is in pages of 2^k pages.
    pub fn unfilter(&mut self, report: &Unfiltered, k: u32) {
        if report.is_all() {
            return self.remove_all();
        }
        for &(asid, base, mask) in report.pages() {
            if k == 0 {
                self.remove_masked(asid, base, mask);
                continue;
            }
            let mut mask = mask;
            while mask != 0 {
                let page = VpnRange::one(Vpn(base.0 + u64::from(mask.trailing_zeros())));
                self.remove(asid, page.finer(k));
                mask &= mask - 1;
            }
        }
    }

    /// Takes out page `base + i` for each bit `i` of the mask.
    fn remove_masked(&mut self, asid: Asid, base: Vpn, mask: u64) {
        let (word, shift) = (base.0 / WORD, base.0 % WORD);
        self.remove_bits(asid, word, mask << shift);
        if shift > 0 {
            self.remove_bits(asid, word + 1, mask >> (WORD - shift));
        }
    }

    /// Takes these pages out.
    pub fn remove(&mut self, asid: Asid, range: VpnRange) {
        let Some(last) = range.pages.checked_sub(1).map(|more| range.start.0.saturating_add(more)) else { return };
        let (from, to) = (range.start.0 / WORD, last / WORD);
        let inside = |word: u64| {
            let head = if word == from { !0 << (range.start.0 % WORD) } else { !0 };
            let tail = if word == to { !0 >> (WORD - 1 - last % WORD) } else { !0 };
            head & tail
        };
        if to - from < self.words.len() as u64 {
            (from..=to).for_each(|word| self.remove_bits(asid, word, inside(word)));
        } else {
            let words = self.words.keys().filter(|(of, word)| *of == asid && (from..=to).contains(word));
            let words: Vec<u64> = words.map(|(_, word)| *word).collect();
            words.into_iter().for_each(|word| self.remove_bits(asid, word, inside(word)));
        }
    }

    /// Takes all pages of all address spaces out.
    pub fn remove_all(&mut self) {
        self.pages = 0;
        for ((asid, word), bits) in self.words.drain() {
            note(&mut self.left, asid, word, bits);
        }
    }

    fn remove_bits(&mut self, asid: Asid, word: u64, mask: u64) {
        let Some(bits) = self.words.get_mut(&(asid, word)) else { return };
        let gone = *bits & mask;
        *bits &= !mask;
        if *bits == 0 {
            self.words.remove(&(asid, word));
        }
        self.pages -= u64::from(gone.count_ones());
        note(&mut self.left, asid, word, gone);
    }

    /// Passes on the pages that left since the last call, in runs.
    pub fn take_left(&mut self, mut each: impl FnMut(Asid, VpnRange)) {
        self.left.drain(..).for_each(|(asid, range)| each(asid, range));
    }
}

/// Appends the pages of a word, in runs; one that continues the last run is joined to it.
fn note(left: &mut Vec<(Asid, VpnRange)>, asid: Asid, word: u64, mut bits: u64) {
    while bits != 0 {
        let at = bits.trailing_zeros();
        let run = (bits >> at).trailing_ones();
        let range = VpnRange { start: Vpn(word * WORD + u64::from(at)), pages: run.into() };
        match left.last_mut() {
            Some((of, last)) if *of == asid && last.start.0 + last.pages == range.start.0 => last.pages += range.pages,
            _ => left.push((asid, range)),
        }
        bits = if at + run == 64 { 0 } else { bits >> (at + run) << (at + run) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set_and_says_what_left_it() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let (mut mapped, mut model) = (MappedPages::default(), BTreeSet::new());
        for step in 0..20_000 {
            let (asid, page) = (Asid(rng.random_range(0..2)), 0xf_fff0 + rng.random_range(0..400));
            let pages = rng.random_range(0..200);
            let mut report = Unfiltered::default();
            let mut expected = BTreeSet::new();
            let mut leave = |those: &mut dyn Iterator<Item = u64>, of: Asid| {
                expected.extend(those.map(|page| (of, page)).filter(|page| model.contains(page)));
            };
            match rng.random_range(0..100) {
                0..80 => {
                    mapped.insert(asid, Vpn(page));
                    model.insert((asid, page));
                }
                80..94 => {
                    let mask = rng.random::<u64>() & rng.random::<u64>();
                    report.add(asid, Vpn(page), mask);
                    mapped.unfilter(&report, 0);
                    leave(&mut (0..64).filter(|i| mask >> i & 1 != 0).map(|i| page + i), asid);
                }
                94..96 => {
                    let mask = 0b101;
                    report.add(asid, Vpn(page >> 2), mask);
                    mapped.unfilter(&report, 2);
                    leave(
                        &mut [0, 2].into_iter().flat_map(|i| ((page >> 2) + i) << 2..((page >> 2) + i + 1) << 2),
                        asid,
                    );
                }
                96..99 => {
                    mapped.remove(asid, VpnRange { start: Vpn(page), pages });
                    leave(&mut (page..page + pages), asid);
                }
                _ if step % 2 == 0 => {
                    mapped.remove(asid, VpnRange::ALL);
                    leave(&mut (0..1 << 21), asid);
                }
                _ => {
                    report.add_all();
                    mapped.unfilter(&report, 0);
                    leave(&mut (0..1 << 21), Asid(0));
                    leave(&mut (0..1 << 21), Asid(1));
                }
            }
            let mut left = BTreeSet::new();
            mapped.take_left(|of, range| left.extend(range.iter().map(|vpn| (of, vpn.0))));
            assert_eq!(left, expected, "step {step}");
            model.retain(|page| !left.contains(page));
            assert_eq!(mapped.len(), model.len() as u64);
            assert_eq!(mapped.contains(asid, Vpn(page)), model.contains(&(asid, page)));
        }
    }
}
