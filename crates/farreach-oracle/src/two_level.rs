//! Two levels (PS-12) as two plain TLBs of one page size.
//!
//! * OL-1 If the first level hits, the second is not looked up. Otherwise the second is looked up and fills itself at a
//!   miss. Then the first misses and fills itself. Each level has replacement and modified bits of its own.
//! * OL-2 Inclusive: when the second level has filled itself, the first drops what the second does not have.
//! * OL-3 Counts are those of the second level, except hits there, and invalidations, which are summed over both
//!   levels. Entries dropped by OL-2 do not count as invalidations.
//! * OL-4 Slots of the second level come after those of the first. Its random generator is seeded with `seed + 1`.

use super::tlb::{PlainTlb, TlbConfig};
use farreach_hw::tlb::{EntryView, Lookup, OnDemotion, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte};

/// The model.
pub struct PlainTwoLevel {
    first: PlainTlb,
    second: PlainTlb,
    first_entries: usize,
    inclusive: bool,
    /// Entries of the first level that OL-2 dropped.
    followed: u64,
    hits: [u64; 2],
}

impl PlainTwoLevel {
    /// `config` describes both levels, except the number of entries.
    pub fn new(config: TlbConfig, first: usize, second: usize, inclusive: bool) -> PlainTwoLevel {
        PlainTwoLevel {
            first: PlainTlb::new(TlbConfig { entries: first, ..config.clone() }),
            second: PlainTlb::new(TlbConfig { entries: second, seed: config.seed + 1, ..config }),
            first_entries: first,
            inclusive,
            followed: 0,
            hits: [0, 0],
        }
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        if self.first.slot_of(at.asid, at.vpn).is_some() {
            return self.first.lookup(at, pte, table);
        }
        let outcome = self.second.lookup(at, pte, table);
        if outcome == Outcome::Hit {
            self.hits[usize::from(at.kind != Kind::Fetch)] += 1;
        } else if self.inclusive {
            for e in self.first.views() {
                if self.second.slot_of(e.asid, e.base).is_none() {
                    self.first.invalidate_pages(e.asid, VpnRange::one(e.base));
                    self.followed += 1;
                }
            }
        }
        assert_ne!(self.first.lookup(at, pte, table), Outcome::Hit);
        outcome
    }

    pub fn each_level(&mut self, f: impl Fn(&mut PlainTlb)) {
        f(&mut self.first);
        f(&mut self.second);
    }

    pub fn drop_space(&mut self, asid: Asid) {
        self.each_level(|tlb| tlb.drop_space(asid));
    }

    pub fn demote(&mut self, asid: Asid, pages: VpnRange) {
        self.each_level(|tlb| tlb.demote(asid, pages, &mut Unfiltered::default()));
    }

    pub fn counts(&self) -> TlbCounts {
        let second = self.second.counts().clone();
        TlbCounts {
            invalidations: second.invalidations + self.first.counts().invalidations - self.followed,
            second_level_fetch_hits: self.hits[0],
            second_level_data_hits: self.hits[1],
            ..second
        }
    }

    pub fn views(&self) -> Vec<EntryView> {
        let behind = |e: EntryView| EntryView { slot: e.slot + self.first_entries, ..e };
        self.first.views().into_iter().chain(self.second.views().into_iter().map(behind)).collect()
    }
}
