//! Stores with each function from pages to sets, against a plain model.

use super::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

const FUNCTIONS: [SetFunction; 3] = [SetFunction::LowBits, SetFunction::Folded, SetFunction::Skewed];
const POLICIES: [&str; 7] = ["used-bit", "used-bit late", "lru", "plru", "fifo", "random", "lfsr"];

/// The set of a page in a way, bit by bit.
fn set_in_way(function: SetFunction, sets: u64, way: u32, page: u64) -> u64 {
    let bits = sets.ilog2();
    let piece = |i: u32| if i * bits < 64 { page >> (i * bits) & (sets - 1) } else { 0 };
    let pieces = if bits == 0 { 0 } else { 64u32.div_ceil(bits) };
    match function {
        SetFunction::LowBits => page % sets,
        SetFunction::Folded => (0..pieces).fold(0, |fold, i| fold ^ piece(i)),
        SetFunction::Skewed => {
            let mut image = (1..pieces).fold(0, |fold, i| fold ^ piece(i));
            for _ in 0..if bits < 2 { 0 } else { way } {
                let (highest, lowest) = (image >> (bits - 1) & 1, image & 1);
                image = image / 2 + (highest ^ lowest) * (sets / 2);
            }
            piece(0) ^ image
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    page: u64,
    used: bool,
    /// When it was filled, and when it was last used.
    filled: u64,
    touched: u64,
}

/// Slots as a list. Every lookup reaches it.
struct Model {
    geometry: Geometry,
    policy: &'static str,
    slots: Vec<Option<Held>>,
    now: u64,
    rng: Pcg64Mcg,
    /// The shift register of `lfsr`, lowest bit first.
    register: [bool; 16],
    evictions: u64,
    /// The bits of `plru`: by set, its nodes in order of depth, true if the second half goes first.
    trees: Vec<Vec<bool>>,
}

/// The register steps: all bits move down by one, and the one that falls out is added to those that come to lie at
/// places 10, 12, 13, 15.
fn stepped(register: [bool; 16]) -> [bool; 16] {
    let out = register[0];
    std::array::from_fn(|i| register.get(i + 1).copied().unwrap_or(false) ^ (out && [10, 12, 13, 15].contains(&i)))
}

impl Model {
    fn candidates(&self, page: u64) -> Vec<usize> {
        let Geometry { sets, ways, function } = self.geometry;
        (0..ways).map(|way| set_in_way(function, sets as u64, way as u32, page) as usize * ways + way).collect()
    }

    fn lookup(&mut self, page: u64) {
        self.now += 1;
        let now = self.now;
        if let Some(slot) = self.slots.iter().position(|held| held.is_some_and(|held| held.page == page)) {
            let held = self.slots[slot].as_mut().unwrap();
            (held.used, held.touched) = (true, now);
            return self.turn_away(slot);
        }
        let candidates = self.candidates(page);
        let vacant = candidates.iter().copied().find(|&slot| self.slots[slot].is_none());
        let slot = vacant.unwrap_or_else(|| self.victim(&candidates));
        self.evictions += u64::from(self.slots[slot].is_some());
        self.slots[slot] = Some(Held { page, used: self.policy != "used-bit late", filled: now, touched: now });
        self.turn_away(slot);
    }

    /// The nodes on the way to a slot, from the root on: each as its number, and whether the way goes to the second
    /// half.
    fn path(&self, slot: usize) -> Vec<(usize, bool)> {
        let (mut node, mut from, mut half) = (0, 0, self.geometry.ways / 2);
        let mut path = Vec::new();
        while half > 0 {
            let second = slot % self.geometry.ways >= from + half;
            path.push((node, second));
            node = 2 * node + 1 + usize::from(second);
            from += if second { half } else { 0 };
            half /= 2;
        }
        path
    }

    fn turn_away(&mut self, slot: usize) {
        for (node, second) in self.path(slot) {
            self.trees[slot / self.geometry.ways][node] = !second;
        }
    }

    fn victim(&mut self, candidates: &[usize]) -> usize {
        let held = |slot: usize| self.slots[slot].unwrap();
        match self.policy {
            "lru" => candidates.iter().copied().min_by_key(|&slot| held(slot).touched).unwrap(),
            "plru" => {
                let set = candidates[0] / self.geometry.ways;
                let goes =
                    |slot: &usize| self.path(*slot).iter().all(|&(node, second)| self.trees[set][node] == second);
                candidates.iter().copied().find(goes).unwrap()
            }
            "fifo" => candidates.iter().copied().min_by_key(|&slot| held(slot).filled).unwrap(),
            "random" => candidates[((u64::from(self.rng.next_u32()) * candidates.len() as u64) >> 32) as usize],
            "lfsr" => {
                let number: usize = self.register.iter().enumerate().map(|(i, &bit)| usize::from(bit) << i).sum();
                self.register = (0..16).fold(self.register, |register, _| stepped(register));
                candidates[number * candidates.len() / 65536]
            }
            _ => candidates.iter().copied().find(|&slot| !held(slot).used).unwrap_or_else(|| {
                candidates.iter().for_each(|&slot| self.slots[slot].as_mut().unwrap().used = false);
                candidates[0]
            }),
        }
    }

    fn drop(&mut self, goes: impl Fn(u64) -> bool) -> u64 {
        let doomed = self.slots.iter_mut().filter(|held| held.is_some_and(|held| goes(held.page)));
        doomed.map(|held| *held = None).count() as u64
    }
}

/// The store, as a design drives it.
struct Subject {
    store: Store<Whole>,
    counts: TlbCounts,
    /// Pages whose lookups are left out; `None`: every lookup arrives.
    filtered: Option<BTreeSet<u64>>,
}

impl Subject {
    fn unfilter(&mut self, unfiltered: &Unfiltered) {
        if let Some(filtered) = &mut self.filtered {
            filtered.retain(|&page| !unfiltered.contains(Asid(0), Vpn(page)));
        }
    }

    fn lookup(&mut self, page: u64) {
        if self.filtered.as_ref().is_some_and(|filtered| filtered.contains(&page)) {
            return;
        }
        let (tag, mut unfiltered) = (Tag::of(Asid(0), Vpn(page), 0), Unfiltered::default());
        let filterable = match self.store.find(tag) {
            Some(slot) => {
                self.store.touch(slot, 1, &mut unfiltered);
                true
            }
            None => {
                let slot = self.store.place(tag, Whole, &mut self.counts, &mut unfiltered);
                self.store.replay(slot, 1, &mut unfiltered)
            }
        };
        self.unfilter(&unfiltered);
        if let Some(filtered) = self.filtered.as_mut().filter(|_| filterable) {
            filtered.insert(page);
        }
    }

    fn drop(&mut self, pages: VpnRange) -> u64 {
        let mut unfiltered = Unfiltered::default();
        let gone = self.store.invalidate(Asid(0), pages, 0, &mut unfiltered);
        self.unfilter(&unfiltered);
        gone
    }
}

fn params(policy: &str) -> Params {
    let given = json!({"replacement": policy.split(' ').next(), "fill_sets_used": policy != "used-bit late"});
    Params::resolve(&[&REPLACEMENT, &FILL_SETS_USED, &PROCESS_IDS], given.as_object().unwrap()).unwrap()
}

/// A stream of lookups in three patterns, with invalidations, through the model, the store, and the store with a filter
/// in front. Returns the slots that ever held an entry, and the evictions.
fn stream(geometry: Geometry, policy: &'static str, seed: u64) -> (BTreeSet<usize>, u64) {
    let subject = |filtered| Subject {
        store: Store::new(geometry, &params(policy), seed).unwrap(),
        counts: TlbCounts::default(),
        filtered,
    };
    let (mut every, mut some) = (subject(None), subject(Some(BTreeSet::new())));
    let (slots, rng) = (vec![None; geometry.entries()], Pcg64Mcg::seed_from_u64(seed));
    let register = std::array::from_fn(|i| (0xace1 ^ seed) >> i & 1 != 0);
    let trees = vec![vec![false; geometry.ways]; geometry.sets];
    let mut model = Model { geometry, policy, slots, now: 0, rng, register, evictions: 0, trees };
    let mut dice = Pcg64Mcg::seed_from_u64(!seed);
    let mut used = BTreeSet::new();
    for step in 0..4000 {
        let n = u64::from(dice.next_u32());
        // Neighbours, a stride of a power of two, and a few pages again and again.
        let page = [n % 200, (n % 64) << 12, n % 5][step / 100 % 3];
        for _ in 0..1 + n % 3 {
            model.lookup(page);
            every.lookup(page);
            some.lookup(page);
        }
        if n.is_multiple_of(97) {
            let pages = VpnRange { start: Vpn(page), pages: 1 + n % 64 };
            let gone = model.drop(|page| pages.contains(Vpn(page)));
            assert_eq!((every.drop(pages), some.drop(pages)), (gone, gone), "step {step}");
        }
        let who = format!("{geometry:?} {policy} seed {seed} step {step}, page {page:#x}");
        for store in [&every.store, &some.store] {
            let held = |slot: usize| model.slots[slot].map(|held| held.page);
            let holds = store.slots().map(|slot| (slot as usize, store.tag(slot).base().0)).collect::<Vec<_>>();
            let truth = (0..model.slots.len()).filter_map(|slot| Some((slot, held(slot)?))).collect::<Vec<_>>();
            assert_eq!(holds, truth, "{who}");
        }
        assert_eq!((every.counts.evictions, some.counts.evictions), (model.evictions, model.evictions), "{who}");
        used.extend((0..model.slots.len()).filter(|&slot| model.slots[slot].is_some()));
    }
    (used, model.evictions)
}

#[test]
fn a_store_with_any_function_is_as_the_model_and_as_without_the_filter() {
    for function in FUNCTIONS {
        for (entries, ways) in [(64, 4), (32, 8), (16, 2), (8, 1), (2, 1), (6, 3), (4, 0)] {
            let geometry = Geometry::new(entries, ways).unwrap().with(function);
            for policy in POLICIES {
                if policy == "plru" && (function == SetFunction::Skewed || !geometry.ways.is_power_of_two()) {
                    assert!(Store::<Whole>::new(geometry, &params(policy), 0).is_err());
                    continue;
                }
                for seed in 0..3 {
                    let (used, evictions) = stream(geometry, policy, seed);
                    assert_eq!(used.len() as u64, entries, "{geometry:?} {policy}: all slots of all ways are used");
                    assert!(evictions > 0);
                }
            }
        }
    }
}

/// The purpose of the functions: where low bits give one set to all pages of a stride, a fold spreads them; and of
/// pages that share a set in one way, few share one in another.
#[test]
fn strides_spread_and_ways_part() {
    let geometry = |function| Geometry::new(256, 4).unwrap().with(function);
    let (low, folded, skewed) =
        (geometry(SetFunction::LowBits), geometry(SetFunction::Folded), geometry(SetFunction::Skewed));
    for order in 6..20 {
        let sets = |g: Geometry| (0..64).map(|i| g.set(i << order)).collect::<BTreeSet<_>>().len();
        assert_eq!((sets(low), sets(folded)), (1, 64), "64 pages, 2^{order} apart");
    }
    let way = |page: u64, way: usize| skewed.skewed_slots(page).nth(way).unwrap();
    let together: Vec<u64> = (0..1 << 14).filter(|&page| way(page, 0) == way(0, 0)).collect();
    assert_eq!(together.len(), 256);
    for other in 1..4 {
        let still = together.iter().filter(|&&page| way(page, other) == way(0, other)).count();
        assert!(still <= 16, "way {other}: {still} of 256 pages that meet in way 0 meet here, too");
    }
}
