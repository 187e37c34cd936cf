//! The designs that an engine runs, and the operating systems they share.

use super::memory_profile::MemoryProfile;
use super::profile::Profile;
use farreach_hw::tlb::{Lookup, Tlb};
use farreach_os::Os;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Translation};
use std::ops::Range;

/// One design of a machine: a unified TLB, or one for each side.
pub(super) struct TlbInstance {
    /// The name of the machine, as the user wrote it.
    pub name: String,
    /// Its group.
    pub group: usize,
    /// [`Group::order`] of it.
    pub order: u32,
    /// Data side, or both.
    pub main: Box<dyn Tlb>,
    /// Fetches, if split.
    pub fetch: Option<Box<dyn Tlb>>,
    /// Its misses over time and by region.
    pub profile: Profile,
    /// Its misses are walks, which [`super::lifetimes::RegionLifetimes`] counts by region.
    pub walks: bool,
}

impl TlbInstance {
    /// The TLB for lookups of a kind, and whether it sees fetches and data.
    #[inline]
    pub fn tlb(&mut self, kind: Kind) -> (&mut dyn Tlb, [bool; 2]) {
        match &mut self.fetch {
            Some(tlb) if kind == Kind::Fetch => (tlb.as_mut(), [true, false]),
            Some(_) => (self.main.as_mut(), [false, true]),
            None => (self.main.as_mut(), [true, true]),
        }
    }

    /// Its TLBs, each with whether it sees fetches and whether it sees data.
    pub fn each(&mut self) -> impl Iterator<Item = (&mut Box<dyn Tlb>, [bool; 2])> {
        let data = [self.fetch.is_none(), true];
        std::iter::once((&mut self.main, data)).chain(self.fetch.iter_mut().map(|tlb| (tlb, [true, false])))
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.fetch.as_ref().filter(|_| kind == Kind::Fetch).unwrap_or(&self.main).probe(asid, vpn, kind)
    }

    /// Whether one of its TLBs follows the order of lookups.
    pub fn orders_lookups(&mut self) -> bool {
        self.each().any(|(tlb, _)| tlb.timed().is_some_and(|timed| timed.orders()))
    }

    /// Passes filtered lookups of 4 KB pages on to its TLBs.
    #[inline]
    pub fn note_lookups(&mut self, asid: Asid, lookups: &[(bool, Vpn, u64)]) {
        let order = self.order;
        for (tlb, [fetch, data]) in self.each() {
            let Some(timed) = tlb.timed() else { continue };
            for &(of_fetch, vpn, when) in lookups {
                if if of_fetch { fetch } else { data } {
                    timed.note_lookup(asid, Vpn(vpn.0 >> order), of_fetch, when);
                }
            }
        }
    }

    /// XC-3: the design answers as the page table does.
    pub fn check(&self, os: &Os, at: Lookup) {
        let truth = os.pte(at.asid, at.vpn).map(|p| Translation { pfn: p.pfn, attr: p.attr });
        let answer = self.probe(at.asid, at.vpn, at.kind);
        assert_eq!(answer, truth, "XC-3: {} translates {at:?} otherwise than the page table", self.name);
    }
}

/// The designs that share one operating system. Stream, blocks, filter and footprint are in 4 KB pages; operating
/// system and designs are in base pages of 2^k of them.
pub(super) struct Group {
    /// Its operating system.
    pub os: Os,
    /// Its designs, as bits of the masks.
    pub designs: Range<usize>,
    /// Memory over time.
    pub memory_profile: MemoryProfile,
}

impl Group {
    /// k: log2 of the 4 KB pages in its base page.
    pub fn order(&self) -> u32 {
        self.os.page_shift() - BASE_SHIFT
    }

    /// Its designs, in the masks.
    #[inline]
    pub fn mask(&self) -> u32 {
        let Range { start, end } = self.designs;
        ((1u64 << end) - (1u64 << start)) as u32
    }
}
