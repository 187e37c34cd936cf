//! The predictor of Victima: which pages are walked for often and at a high price (VIC-4).

use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// VIC-4.
pub const VIC_FREQUENCY_AT: Key = Key {
    name: "vic_frequency_at",
    default: "1",
    allowed: Allowed::Int { min: 0, max: 7 },
    about: "walks for a page from which on it can be costly; counted to 7",
};
/// VIC-4.
pub const VIC_COST_AT: Key = Key {
    name: "vic_cost_at",
    default: "1",
    allowed: Allowed::Int { min: 0, max: 15 },
    about: "of these, walks with a reference that memory answered; counted to 15",
};

/// A page: its process, a base page of it, and the level of its leaf.
type Page = (Asid, Vpn, u8);

/// The two counters in each page table entry: walks, and walks that read memory.
pub(super) struct Costly {
    counters: HashMap<Page, (u8, u8), FixedState>,
    frequency_at: u8,
    cost_at: u8,
}

impl Costly {
    const FREQUENCY: u8 = 7;
    const COST: u8 = 15;

    pub fn new(params: &Params) -> Costly {
        let [frequency_at, cost_at] = [VIC_FREQUENCY_AT, VIC_COST_AT].map(|key| params.int(key.name) as u8);
        Costly { counters: HashMap::default(), frequency_at, cost_at }
    }

    fn key((asid, vpn, level): Page) -> Page {
        (asid, vpn.align_down(super::RADIX as u32 * u32::from(level)), level)
    }

    /// A demand walk for the page ended, which read memory or not. Returns whether the page is costly now.
    pub fn walked(&mut self, page: Page, memory: bool) -> bool {
        let (frequency, cost) = self.counters.entry(Costly::key(page)).or_default();
        *frequency = (*frequency + 1).min(Costly::FREQUENCY);
        *cost = (*cost + u8::from(memory)).min(Costly::COST);
        self.is(page)
    }

    /// Whether the page is costly.
    pub fn is(&self, page: Page) -> bool {
        let (frequency, cost) = self.counters.get(&Costly::key(page)).copied().unwrap_or_default();
        frequency >= self.frequency_at && cost >= self.cost_at
    }

    /// The entries of these pages changed, and lost their counters.
    pub fn changed(&mut self, asid: Asid, pages: VpnRange) {
        if self.counters.is_empty() || pages.pages == 0 {
            return;
        }
        let last = Vpn(pages.end().0 - 1);
        for level in [0, 1] {
            let order = super::RADIX * level;
            let (first, last) = (pages.start.0 >> order, last.0 >> order);
            if last - first < self.counters.len() as u64 {
                (first..=last).for_each(|page| _ = self.counters.remove(&(asid, Vpn(page << order), level)));
            } else {
                let meets = |vpn: &Vpn| (first..=last).contains(&(vpn.0 >> order));
                self.counters.retain(|(of, vpn, at), _| *of != asid || *at != level || !meets(vpn));
            }
        }
    }

    /// The page table of a process is gone, with its counters.
    pub fn gone(&mut self, asid: Asid) {
        self.counters.retain(|(of, ..), _| *of != asid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VIC-4.
    #[test]
    fn counters_saturate_and_both_must_reach_their_thresholds() {
        let mut costly = Costly { counters: HashMap::default(), frequency_at: 2, cost_at: 1 };
        let page = (Asid(1), Vpn(5), 0);
        assert!(!costly.walked(page, true));
        assert!(costly.walked(page, false), "two walks, one with memory");
        let other = (Asid(1), Vpn(0x205), 1);
        (0..20).for_each(|_| assert!(!costly.walked(other, false)));
        assert!(costly.walked((Asid(1), Vpn(0x3ff), 1), true), "the same page of 2 MB");
        (0..20).for_each(|_| _ = costly.walked(other, true));
        assert_eq!(costly.counters[&(Asid(1), Vpn(0x200), 1)], (7, 15));
        costly.changed(Asid(1), VpnRange::one(Vpn(0x205)));
        assert!(!costly.is(other) && costly.is(page), "an entry that changes begins anew");
        costly.changed(Asid(1), VpnRange { start: Vpn(0), pages: 1 << 20 });
        assert!(!costly.is(page));
        (0..2).for_each(|_| _ = costly.walked(page, true));
        costly.gone(Asid(1));
        assert!(!costly.is(page));
    }
}
