//! Arrays of entries in sets, and the levels made of them: lookup, replacement and coverage of pages in one level
//! (OM-1, OM-3).

use super::*;
use crate::plru::Tree;
use crate::policies::PlainPolicy;

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) asid: Asid,
    /// In units of its size.
    number: u64,
    pub(super) order: u8,
    pfn: u64,
    attr: Attr,
    begun: u64,
    pub(super) last: u64,
}

impl Entry {
    fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.number == vpn.0 >> self.order
    }
    pub(super) fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        let (first, n) = (self.number << self.order, 1u64 << self.order);
        self.asid == asid && first < pages.start.0 + pages.pages && pages.start.0 < first + n
    }
    pub(super) fn says(&self, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.pfn + (vpn.0 - (self.number << self.order))), attr: self.attr }
    }
}

/// An array in sets.
pub(super) struct Slots<E> {
    pub(super) slots: Vec<Option<E>>,
    ways: usize,
    policy: Replacement,
    rng: Pcg64Mcg,
    /// By set, of tree-PLRU.
    trees: Vec<Tree>,
    /// Replacement by a policy of its own.
    told: Option<PlainPolicy>,
    /// By set: an entry is used if its last use was then or later.
    cleared: Vec<u64>,
}

impl<E: Copy> Slots<E> {
    pub(super) fn new(entries: usize, ways: usize, policy: Replacement, seed: u64) -> Slots<E> {
        let ways = if ways == 0 { entries } else { ways };
        let sets = entries.checked_div(ways).unwrap_or(0);
        let halved = if policy == Replacement::TreePlru { sets } else { 0 };
        let trees = (0..halved).map(|_| Tree::new(ways)).collect();
        Slots {
            slots: vec![None; entries],
            ways,
            policy,
            rng: Pcg64Mcg::seed_from_u64(seed),
            trees,
            told: None,
            cleared: vec![0; sets],
        }
    }
    /// An access to this slot.
    fn renew(&mut self, slot: usize) {
        if let Some(tree) = self.trees.get_mut(slot / self.ways) {
            tree.touch(slot % self.ways);
        }
    }
    /// Uses the entry for which this holds.
    pub(super) fn use_one(&mut self, which: impl Fn(&E) -> bool) -> Option<&mut E> {
        let slot = self.slots.iter().position(|e| e.as_ref().is_some_and(&which))?;
        self.renew(slot);
        if let Some(told) = &mut self.told {
            told.hit(slot);
        }
        self.slots[slot].as_mut()
    }
    /// The slot for an entry with this number, which is filled now, and whether it is taken.
    pub(super) fn victim(&mut self, number: u64, times: impl Fn(&E) -> (u64, u64)) -> (usize, bool) {
        let (slot, taken) = self.choose(number, times);
        self.renew(slot);
        if let Some(told) = &mut self.told {
            told.fill(slot);
        }
        (slot, taken)
    }
    fn choose(&mut self, number: u64, times: impl Fn(&E) -> (u64, u64)) -> (usize, bool) {
        let set = number as usize % (self.slots.len() / self.ways);
        let all = set * self.ways..(set + 1) * self.ways;
        if let Some(free) = all.clone().find(|&i| self.slots[i].is_none()) {
            return (free, false);
        }
        if let Some(told) = &mut self.told {
            return (told.victim(set), true);
        }
        let oldest =
            |time: &dyn Fn(&E) -> u64| all.clone().min_by_key(|&i| time(self.slots[i].as_ref().unwrap())).unwrap();
        let slot = match self.policy {
            Replacement::Lru => oldest(&|e| times(e).1),
            Replacement::TreePlru => all.start + self.trees[set].victim(),
            Replacement::Fifo => oldest(&|e| times(e).0),
            Replacement::UsedBit => {
                let last = |i: usize| times(self.slots[i].as_ref().unwrap()).1;
                all.clone().find(|&i| last(i) < self.cleared[set]).unwrap_or_else(|| {
                    self.cleared[set] = all.clone().map(last).max().unwrap() + 1;
                    all.start
                })
            }
            Replacement::Random => all.start + ((u64::from(self.rng.next_u32()) * self.ways as u64) >> 32) as usize,
        };
        (slot, true)
    }
    pub(super) fn drop_if(&mut self, goes: impl Fn(&E) -> bool) -> Vec<E> {
        let mut gone = Vec::new();
        for (slot, entry) in self.slots.iter_mut().enumerate() {
            if let Some(e) = entry.take_if(|e| goes(e)) {
                gone.push(e);
                if let Some(told) = &mut self.told {
                    told.drop(slot);
                }
            }
        }
        gone
    }
}

pub(super) struct Level {
    arrays: Vec<(&'static [u8], Slots<Entry>)>,
}

impl Level {
    pub(super) fn new(arrays: &[Array], policy: Replacement, seed: u64) -> Level {
        let slots = |(i, &(orders, entries, ways)): (usize, &Array)| {
            (orders, Slots::new(entries, ways, policy, seed + i as u64))
        };
        Level { arrays: arrays.iter().enumerate().map(slots).collect() }
    }
    /// With a policy of its own.
    pub(super) fn told(mut self, policy: Policy) -> Level {
        for (_, slots) in &mut self.arrays {
            slots.told = Some(PlainPolicy::new(policy, slots.slots.len() / slots.ways, slots.ways));
        }
        self
    }
    /// A lookup reaches it.
    pub(super) fn looked_up(&mut self, fetch: bool, pc: u64) {
        self.arrays.iter_mut().filter_map(|a| a.1.told.as_mut()).for_each(|told| told.lookup(fetch, pc));
    }
    /// What its policy counted.
    pub(super) fn counted(&self) -> [u64; 2] {
        let each = self.arrays.iter().filter_map(|a| a.1.told.as_ref());
        each.fold([0; 2], |[a, b], told| [a + told.counted[0], b + told.counted[1]])
    }
    /// The entry that translates a page, which is used.
    pub(super) fn entry(&mut self, asid: Asid, vpn: Vpn) -> Option<&mut Entry> {
        let mut found: Vec<_> = self.arrays.iter_mut().filter_map(|a| a.1.use_one(|e| e.has(asid, vpn))).collect();
        assert!(found.len() < 2, "one entry of a level translates a page");
        found.pop()
    }
    pub(super) fn says(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let mut all = self.arrays.iter().flat_map(|a| a.1.slots.iter().flatten());
        all.find(|e| e.has(asid, vpn)).map(|e| e.says(vpn))
    }
    pub(super) fn sizes(&self) -> Vec<u8> {
        self.arrays.iter().flat_map(|a| a.0.iter().copied()).collect()
    }
    pub(super) fn drop_if(&mut self, goes: impl Fn(&Entry) -> bool) -> u64 {
        self.arrays.iter_mut().map(|a| a.1.drop_if(&goes).len() as u64).sum()
    }
    /// Covered and evicted entries.
    pub(super) fn fill(&mut self, at: Lookup, page: Translation, order: u8, now: u64) -> (u64, u64) {
        let number = at.vpn.0 >> order;
        let covers = VpnRange { start: Vpn(number << order), pages: 1 << order };
        let covered = if order > 0 { self.drop_if(|e| e.meets(at.asid, covers)) } else { 0 };
        let array = &mut self.arrays.iter_mut().find(|a| a.0.contains(&order)).unwrap().1;
        let (slot, taken) = array.victim(number, |e| (e.begun, e.last));
        let pfn = page.pfn.0 - (at.vpn.0 - covers.start.0);
        array.slots[slot] = Some(Entry { asid: at.asid, number, order, pfn, attr: page.attr, begun: now, last: now });
        (covered, taken.into())
    }
    pub(super) fn len(&self) -> usize {
        self.arrays.iter().map(|a| a.1.slots.len()).sum()
    }
    pub(super) fn views(&self, before: usize, out: &mut Vec<EntryView>) {
        let all = self.arrays.iter().flat_map(|a| &a.1.slots).enumerate();
        out.extend(all.filter_map(|(i, e)| {
            let e = e.as_ref()?;
            let base = Vpn(e.number << e.order);
            let pages = vec![(0, e.says(base), false)];
            Some(EntryView {
                slot: before + i,
                asid: e.asid,
                base,
                order: e.order,
                pages,
                sb_enabled: None,
                used: None,
            })
        }));
    }
}
