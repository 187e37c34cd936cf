//! Guesses that a walk verifies: SpecTLB (SPT-1 to SPT-4) and SpOT (SPO-1 to SPO-4), and the nodes that ASAP reads
//! early (ASA-1 to ASA-4). Each hears of the walks of the last level. Choices where the rules are silent:
//!
//! * OB-30 The set of SpecTLB is the number of the 2 MB region, that of SpOT the program counter, both mod sets. Every
//!   use of an entry, by a guess or by training, makes it the newest.
//! * OB-31 SpecTLB: a walk that ends in a superpage had no guess. A wrong entry is dropped before the training of the
//!   same walk, which may enter the region anew. Training a region that is there renews its first frame.
//! * OB-32 SpecTLB drops a region that a change meets anywhere (HW-9), and all at a switch without `process_ids`. SpOT
//!   hears of no change; a switch empties it unless `predictors_on_switch=keep`.
//! * OB-33 SpOT: the guess is made with what the table held before the walk. An offset that replaces another needs no
//!   mark. Confidence is never 0 after a walk, since the offset is then replaced, so the victim is always the LRU one.
//! * OB-34 ASAP: a region covers a page of 1 GB by none. The registers are those that the caller gives, the first 16.

use std::collections::BTreeMap;

/// What became of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guess {
    None,
    Correct,
    Wrong,
}

/// Correct, wrong, none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Guesses {
    pub correct: u64,
    pub wrong: u64,
    pub none: u64,
}

impl Guesses {
    fn count(&mut self, predicted: Option<u64>, frame: u64) -> Guess {
        match predicted {
            None => {
                self.none += 1;
                Guess::None
            }
            Some(p) if p == frame => {
                self.correct += 1;
                Guess::Correct
            }
            Some(_) => {
                self.wrong += 1;
                Guess::Wrong
            }
        }
    }
}

/// A walk of the last level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    pub asid: u32,
    /// Base page, and its frame.
    pub vpn: u64,
    pub frame: u64,
    /// Log2 of the base pages of the mapping.
    pub order: u8,
    pub pc: u64,
    /// SPT-3: placed in a reservation.
    pub reserved: bool,
    /// SPO-3: pages in the run around it, with equal offset and attributes.
    pub run: u64,
}

/// SPT-1.
pub struct PlainSpecTlb {
    ways: usize,
    /// Process, region, first frame; the entry used longest ago first.
    sets: Vec<Vec<(u32, u64, u64)>>,
    running: Option<u32>,
    pub guesses: Guesses,
}

impl PlainSpecTlb {
    /// 64 entries in sets of 4 by default.
    pub fn new(entries: usize, ways: usize) -> PlainSpecTlb {
        let sets = entries / ways;
        assert!(entries.is_multiple_of(ways) && sets.is_power_of_two(), "HW-13");
        PlainSpecTlb { ways, sets: vec![Vec::new(); sets], running: None, guesses: Guesses::default() }
    }

    /// SPT-2, SPT-3.
    pub fn walked(&mut self, walk: &Walk) -> Guess {
        self.running = Some(walk.asid);
        let (region, page) = (walk.vpn / 512, walk.vpn % 512);
        let index = region as usize % self.sets.len();
        let set = &mut self.sets[index];
        let place = set.iter().position(|e| (e.0, e.1) == (walk.asid, region)).filter(|_| walk.order == 0);
        let entry = place.map(|place| set.remove(place));
        let guess = self.guesses.count(entry.map(|e| e.2 + page), walk.frame);
        set.extend(entry.filter(|_| guess == Guess::Correct));
        if walk.order == 0 && walk.reserved && page == walk.frame % 512 {
            set.retain(|e| (e.0, e.1) != (walk.asid, region));
            if set.len() == self.ways {
                set.remove(0);
            }
            set.push((walk.asid, region, walk.frame - page));
        }
        guess
    }

    /// SPT-3, HW-9: these base pages changed, or a reservation of them ended, moved or was promoted.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        for set in &mut self.sets {
            set.retain(|e| e.0 != asid || e.1 * 512 >= first.saturating_add(pages) || (e.1 + 1) * 512 <= first);
        }
    }

    /// HW-9.
    pub fn switch(&mut self, to: u32, process_ids: bool) {
        if self.running.replace(to) != Some(to) && !process_ids {
            self.sets.iter_mut().for_each(Vec::clear);
        }
    }

    /// The process ended.
    pub fn gone(&mut self, asid: u32) {
        self.sets.iter_mut().for_each(|set| set.retain(|e| e.0 != asid));
    }
}

/// SPO-1: an entry.
struct Offset {
    pc: u64,
    /// Base page less frame.
    offset: i64,
    confidence: u64,
}

/// SPO-1.
pub struct PlainSpot {
    ways: usize,
    /// SPO-3, `spot_run`, in pages.
    run: u64,
    keep_at_switch: bool,
    /// The entry used longest ago first.
    sets: Vec<Vec<Offset>>,
    running: Option<u32>,
    pub guesses: Guesses,
}

impl PlainSpot {
    /// 32 entries in sets of 4, and runs of 32 pages, by default.
    pub fn new(entries: usize, ways: usize, run: u64, keep_at_switch: bool) -> PlainSpot {
        let sets = entries / ways;
        assert!(entries.is_multiple_of(ways) && sets.is_power_of_two(), "HW-13");
        let sets = (0..sets).map(|_| Vec::new()).collect();
        PlainSpot { ways, run, keep_at_switch, sets, running: None, guesses: Guesses::default() }
    }

    /// SPO-2, SPO-3, SPO-4 (the frame is that of the combined translation).
    pub fn walked(&mut self, walk: &Walk) -> Guess {
        self.running = Some(walk.asid);
        let offset = walk.vpn as i64 - walk.frame as i64;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(walk.pc % sets) as usize];
        let Some(place) = set.iter().position(|e| e.pc == walk.pc) else {
            if walk.run >= self.run {
                if set.len() == self.ways {
                    let victim = set.iter().position(|e| e.confidence == 0).unwrap_or(0);
                    set.remove(victim);
                }
                set.push(Offset { pc: walk.pc, offset, confidence: 1 });
            }
            return self.guesses.count(None, walk.frame);
        };
        let mut entry = set.remove(place);
        let guess = (entry.confidence >= 2).then_some((walk.vpn as i64 - entry.offset) as u64);
        if entry.offset == offset {
            entry.confidence = 3.min(entry.confidence + 1);
        } else {
            entry.confidence -= 1;
            if entry.confidence == 0 {
                (entry.offset, entry.confidence) = (offset, 1);
            }
        }
        set.push(entry);
        self.guesses.count(guess, walk.frame)
    }

    /// HW-9.
    pub fn switch(&mut self, to: u32) {
        if self.running.replace(to) != Some(to) && !self.keep_at_switch {
            self.sets.iter_mut().for_each(Vec::clear);
        }
    }
}

/// ASA-1.
#[derive(Default)]
pub struct PlainAsap {
    /// Process, first base page, pages.
    regions: Vec<(u32, u64, u64)>,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainAsap {
    /// The registered regions from now on.
    pub fn registers(&mut self, regions: &[(u32, u64, u64)]) {
        self.regions = regions.iter().take(16).copied().collect();
    }

    /// ASA-2: whether the walk is covered.
    pub fn walked(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        let inside = |r: &(u32, u64, u64)| r.0 == asid && r.1 <= vpn && vpn - r.1 < r.2;
        let covered = order < 18 && self.regions.iter().any(inside);
        let n = u64::from(covered);
        let huge = if order == 9 { n } else { 0 };
        for (name, n) in [("covered", n), ("huge", huge), ("references", 2 * n - huge)] {
            *self.counts.entry(name).or_default() += n;
        }
        covered
    }

    /// ASA-3: the fixed price of a walk that reads a node of each level from this one down, 4 without walk caches.
    pub fn price(covered: bool, top: u64) -> u64 {
        match (covered, top) {
            (false, levels) => levels,
            (true, 3..) => top - 2,
            (true, _) => 1,
        }
    }

    /// `covered`, `huge` and `references`, which are beside the nodes of walks (ASA-4).
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }
}

#[cfg(test)]
mod tests;
