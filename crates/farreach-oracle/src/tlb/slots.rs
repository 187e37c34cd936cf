//! Slots: the possible places of an entry, and the choice of a victim.

use super::*;

impl PlainTlb {
    /// The one entry that translates `v` (T94-9, T94-17).
    pub(super) fn find(&self, asid: Asid, v: Vpn) -> Option<usize> {
        let mut found = self.slots.iter().enumerate().filter(|(_, e)| e.as_ref().is_some_and(|e| e.matches(asid, v)));
        let first = found.next().map(|(slot, _)| slot);
        assert!(found.next().is_none() || self.mutation.is_some(), "two entries match {asid:?} {v:?} (T94-17)");
        first
    }

    /// The array of entries of this order.
    pub(super) fn array_of(&self, order: u8) -> usize {
        if !per_size(&self.config) {
            return 0;
        }
        self.config.orders.iter().position(|&o| o == order).expect("a configured size")
    }

    /// The slots that an entry of this order for page `v` may have (T94-16).
    pub(super) fn set_of(&self, asid: Asid, v: Vpn, order: u8) -> Vec<usize> {
        let (first, entries) = self.config.arrays()[self.array_of(order)];
        if self.config.ways == 0 {
            return (first..first + entries).collect();
        }
        let sets = (entries / self.config.ways) as u64;
        let mut tag = v.0 >> order;
        if self.wrong(Mutation::IndexByPage) {
            tag = v.0;
        }
        if self.wrong(Mutation::IndexWithSpace) {
            tag += u64::from(asid.0);
        }
        if self.config.kind == TlbKind::Skewed {
            return (0..self.config.ways)
                .map(|way| self.skewed_set(tag, sets, way) as usize * self.config.ways + way)
                .collect();
        }
        let set = (tag % sets) as usize;
        let first = first + set * self.config.ways;
        (first..first + self.config.ways).collect()
    }

    /// The slot of this set of an array for a new entry; its old entry is dropped (T94-14). `None`: it would be the one
    /// to keep.
    pub(super) fn victim(&mut self, array: usize, set: &[usize]) -> Option<usize> {
        let mut invalid: Vec<usize> = set.iter().copied().filter(|&s| self.slots[s].is_none()).collect();
        if self.wrong(Mutation::InvalidHighestFirst) {
            invalid.reverse();
        }
        if self.wrong(Mutation::RandomDrawsForInvalid) {
            self.rngs[array].next_u32();
        }
        if let Some(&slot) = invalid.first()
            && !self.wrong(Mutation::InvalidNotPreferred)
        {
            if self.wrong(Mutation::EvictionsCountInvalid) {
                self.counts.evictions += 1;
            }
            return Some(slot);
        }
        let slot = match self.config.replacement {
            Replacement::UsedBit => self.victim_by_used(set),
            Replacement::Lru => self.oldest(set, |e| e.touched),
            Replacement::TreePlru => {
                let (first, tree) = self.tree(set[0]);
                *first + tree.victim()
            }
            Replacement::Fifo => self.oldest(set, |e| e.allocated),
            Replacement::Random => {
                let of = if self.wrong(Mutation::OneRandomGenerator) { 0 } else { array };
                let draw = u64::from(self.rngs[of].next_u32());
                let n = set.len() as u64;
                let at = if self.wrong(Mutation::RandomFromModulo) { draw % n } else { (draw * n) >> 32 };
                set[at as usize]
            }
        };
        if self.keep == Some(slot) && !self.wrong(Mutation::PreloadEvictsMissed) {
            return None;
        }
        if self.slots[slot].take().is_some() {
            self.counts.evictions += 1;
        }
        Some(slot)
    }

    pub(super) fn oldest(&self, set: &[usize], age: fn(&Entry) -> u64) -> usize {
        *set.iter().min_by_key(|&&s| self.slots[s].as_ref().map_or(0, age)).expect("a set has ways")
    }

    pub(super) fn victim_by_used(&mut self, set: &[usize]) -> usize {
        let used = |tlb: &PlainTlb, s: usize| tlb.slots[s].as_ref().is_some_and(|e| e.used);
        let mut clear: Vec<usize> = set.iter().copied().filter(|&s| !used(self, s)).collect();
        if self.wrong(Mutation::UsedVictimHighest) {
            clear.reverse();
        }
        if let Some(&slot) = clear.first() {
            return slot;
        }
        let everything: Vec<usize> = (0..self.slots.len()).collect();
        let cleared = if self.wrong(Mutation::UsedClearedEverywhere) { &everything } else { set };
        if !self.wrong(Mutation::UsedNeverCleared) {
            for &s in cleared {
                if let Some(e) = &mut self.slots[s] {
                    e.used = false;
                }
            }
        }
        set[0]
    }

    fn tree(&mut self, slot: usize) -> &mut (usize, Tree) {
        self.trees.iter_mut().rfind(|(first, _)| *first <= slot).expect("every slot has a set")
    }

    /// An access to this slot, at this time.
    pub(super) fn renew(&mut self, slot: usize, now: u64) {
        self.slots[slot].as_mut().expect("an entry").touched = now;
        if self.config.replacement == Replacement::TreePlru {
            let (first, tree) = self.tree(slot);
            tree.touch(slot - *first);
        }
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A reference uses this entry.
    pub(super) fn touch(&mut self, slot: usize, at: Lookup, hit: bool, merged: bool) {
        let now = self.tick();
        let mut sets_used = hit || self.config.fill_sets_used;
        if self.wrong(Mutation::MergeSkipsUsed) && merged {
            sets_used = false;
        }
        let mut modifies = at.kind == Access::Store;
        if self.wrong(Mutation::FillForgetsModified) && !hit && !merged
            || self.wrong(Mutation::MergeForgetsModified) && merged
            || self.wrong(Mutation::HitForgetsModified) && hit
        {
            modifies = false;
        }
        if self.wrong(Mutation::LoadSetsModified) && at.kind == Access::Load {
            modifies = true;
        }
        let renew = !(self.wrong(Mutation::LruIgnoresLoads) && at.kind == Access::Load && hit
            || self.wrong(Mutation::LruIgnoresFillByMerge) && merged);
        let realloc =
            self.wrong(Mutation::FifoRenewedByHit) && hit || self.wrong(Mutation::FifoRenewedByMerge) && merged;
        if renew {
            self.renew(slot, now);
        }
        let e = self.slots[slot].as_mut().expect("the entry that was touched");
        e.used |= sets_used;
        if realloc {
            e.allocated = now;
        }
        if modifies {
            let page = e.at(at.vpn);
            e.subs[page].as_mut().expect("the page that was touched").modified = true;
        }
    }
}
