//! The designs that an engine runs, and the operating systems they share.

use super::memory_profile::MemoryProfile;
use super::profile::Profile;
use super::tally::Tally;
use farreach_hw::tlb::{Design, EntryView, Lookup, Tlb};
use farreach_os::Os;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, owner};
use farreach_types::counts::{ContextCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::Params;
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
    /// How more of it are built; none if it is observed.
    pub blueprint: Option<Blueprint>,
    /// By processor of a whole system, its TLBs while another one runs.
    pub parked: Vec<Option<Tlbs>>,
}

/// The TLBs of one processor.
pub(super) struct Tlbs {
    /// See [`TlbInstance::main`].
    main: Box<dyn Tlb>,
    /// See [`TlbInstance::fetch`].
    fetch: Option<Box<dyn Tlb>>,
}

impl Tlbs {
    fn each(&self) -> impl Iterator<Item = &dyn Tlb> {
        self.fetch.iter().chain([&self.main]).map(|tlb| &**tlb)
    }
}

/// How the TLBs of a processor are built.
pub(super) struct Blueprint {
    /// The design.
    pub design: &'static Design,
    /// All keys of the machine.
    pub params: Params,
}

impl Blueprint {
    fn build(&self) -> Result<Tlbs, String> {
        let build = || (self.design.build)(&self.params);
        Ok(Tlbs { main: build()?, fetch: self.params.flag("split").then(build).transpose()? })
    }
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

    /// The TLBs of processors that do not run.
    pub fn each_parked(&mut self) -> impl Iterator<Item = &mut Box<dyn Tlb>> {
        self.parked.iter_mut().flatten().flat_map(|tlbs| tlbs.fetch.iter_mut().chain([&mut tlbs.main]))
    }

    /// Another processor of a whole system runs, with TLBs of its own, which are built if it is the first time.
    pub fn swap(&mut self, from: usize, to: usize) -> Result<(), String> {
        let places = self.parked.len().max(from.max(to) + 1);
        self.parked.resize_with(places, || None);
        let next = match self.parked[to].take() {
            Some(tlbs) => tlbs,
            None => self.blueprint.as_ref().ok_or("it cannot be built for another processor")?.build()?,
        };
        let main = std::mem::replace(&mut self.main, next.main);
        let fetch = std::mem::replace(&mut self.fetch, next.fetch);
        self.parked[from] = Some(Tlbs { main, fetch });
        Ok(())
    }

    /// All its TLBs, of all processors.
    fn all(&self) -> impl Iterator<Item = &dyn Tlb> {
        let running = self.fetch.iter().chain([&self.main]).map(|tlb| &**tlb);
        running.chain(self.parked.iter().flatten().flat_map(Tlbs::each))
    }

    /// Counts of all processors, without lookups.
    pub fn counts(&self) -> TlbCounts {
        let mut sum = TlbCounts::default();
        self.all().for_each(|tlb| sum += tlb.counts());
        sum
    }

    /// Translations that all processors dropped.
    pub fn invalidations(&self) -> u64 {
        self.all().map(|tlb| tlb.counts().invalidations).sum()
    }

    /// The counts that are kept by context, of all processors.
    pub fn context_counts(&self, tally: &Tally) -> ContextCounts {
        let mut sum = ContextCounts { lookups: tally.lookups_in(self.order), ..ContextCounts::default() };
        self.all().for_each(|tlb| sum += &tlb.counts().of_context());
        sum
    }

    /// Valid entries: of the processor that runs, then of the others, whose slots go on in steps of 2^20.
    pub fn entries(&self) -> Vec<EntryView> {
        let running = self.fetch.iter().chain([&self.main]).flat_map(|tlb| tlb.entries());
        let parked = self.parked.iter().flatten().zip(1..).flat_map(|(tlbs, i)| {
            let of =
                |tlb: &dyn Tlb| tlb.entries().into_iter().map(move |e| EntryView { slot: e.slot + (i << 20), ..e });
            tlbs.each().flat_map(of).collect::<Vec<_>>()
        });
        running.chain(parked).collect()
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.fetch.as_ref().filter(|_| kind == Kind::Fetch).unwrap_or(&self.main).probe(asid, vpn, kind)
    }

    /// When one of its TLBs next does something by itself; `u64::MAX`: never.
    pub fn due(&mut self) -> u64 {
        self.each().filter_map(|(tlb, _)| Some(tlb.on_time()?.due())).min().unwrap_or(u64::MAX)
    }

    /// Whether one of its TLBs follows the order of lookups.
    pub fn orders_lookups(&mut self) -> bool {
        self.each().any(|(tlb, _)| tlb.timed().is_some_and(|timed| timed.orders()))
    }

    /// Passes filtered lookups of 4 KB pages on to its TLBs. `asid` is the address space that runs; `local`: entries of
    /// the kernel's pages may have its tag ([`Os::tag_of`]).
    #[inline]
    pub fn note_lookups(&mut self, asid: Asid, lookups: &[(bool, Vpn, u64)], local: bool) {
        let order = self.order;
        for (tlb, [fetch, data]) in self.each() {
            let Some(timed) = tlb.timed() else { continue };
            for &(of_fetch, vpn, when) in lookups {
                if if of_fetch { fetch } else { data } {
                    let (of, vpn) = (owner(asid, vpn.0), Vpn(vpn.0 >> order));
                    timed.note_lookup(of, vpn, of_fetch, when);
                    // A page of the kernel has entries of one of both tags.
                    if local && of != asid {
                        timed.note_lookup(asid, vpn, of_fetch, when);
                    }
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
