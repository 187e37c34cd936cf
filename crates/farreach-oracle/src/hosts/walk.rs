//! Walks (SHD-1, AGI-1), fills and first stores.

use super::{Hosts, Mistake, Node, Walked};
use crate::tables::radix::span;

impl Hosts {
    /// A lookup of a mapped page. `missed`: no TLB answered it. References of the walk, if it did.
    pub fn look(&mut self, asid: u32, vpn: u64, store: bool, missed: bool) -> Option<Walked> {
        let (first, order) = self.page(asid, vpn).expect("the guest has it");
        if missed {
            self.sides(asid, vpn, order);
        }
        let nested = self.first_nested(asid, vpn);
        let shadowed = self.traps() && nested.is_none();
        let clean = !self.modified.contains(&(asid, first));
        let built = missed && shadowed && self.fill(asid, vpn, order);
        if store && shadowed && clean && !built {
            self.traps.first_stores += 1 + u64::from(self.wrong(Mistake::StoreCountedTwice));
        }
        if store {
            self.modified.insert((asid, first));
        }
        missed.then(|| self.walk(asid, vpn, order, nested.map(|node| node.1)))
    }

    /// Order of the merged entry of a page.
    fn merged_order(&self, order: u8) -> u8 {
        if self.config.fracture { order.min(self.config.host_order) } else { order }
    }

    /// A merged entry is used. Whether a trap built it.
    fn fill(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        let entry = self.merged_order(order);
        let new = self.merged.insert((asid, vpn >> entry << entry), entry).is_none();
        if new && self.wrong(Mistake::CleanAgainAtFill) {
            self.modified.remove(&(asid, vpn >> order << order));
        }
        self.traps.fills += u64::from(new && !self.wrong(Mistake::FillNotCounted));
        new
    }

    /// References of the host for one address.
    fn translate(&self, walked: &mut Walked) {
        walked.host_walks += 1;
        walked.host += u64::from(self.config.host_levels - self.config.host_order / 9);
    }

    /// `nested`: level of the first node that is walked in two dimensions.
    fn walk(&mut self, asid: u32, vpn: u64, order: u8, nested: Option<u8>) -> Walked {
        let leaf = if nested.is_some() { order } else { self.merged_order(order) } / 9 + 1;
        let held = |level: u8| -> Node { (asid, level, vpn >> span(level)) };
        let levels = self.config.levels;
        let hit = (leaf + 1..=levels).find(|level| self.caches[usize::from(*level) - 2].hit(&held(*level)));
        let top = hit.map_or(levels, |level| level - 1);
        let mut walked = Walked::default();
        for level in (leaf..=top).rev() {
            let lower = u8::from(self.wrong(Mistake::OneLevelLower));
            if nested.is_some_and(|first| level + lower <= first) {
                let at_once = (hit.is_some() && level == top && !self.wrong(Mistake::CachedNodeTranslated))
                    || (nested == Some(level) && self.found_by_merged() && !self.wrong(Mistake::FirstNodeTranslated));
                if !at_once {
                    self.translate(&mut walked);
                }
            }
            walked.own += 1;
        }
        for level in (leaf + 1..=top).rev() {
            self.caches[usize::from(level) - 2].put(held(level));
        }
        if nested.is_some() && !self.wrong(Mistake::PageNotTranslated) {
            self.translate(&mut walked);
        }
        walked
    }

    /// Whether the entry above the first nested node has its host address (AGI-1).
    fn found_by_merged(&self) -> bool {
        self.traps() && !self.config.first_walked
    }
}
