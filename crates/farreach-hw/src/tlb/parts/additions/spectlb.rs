//! SpecTLB: the system places pages at their own offsets in reserved superpages, so that the frame of a page that
//! misses can be told from the reservation around it (SPT).

use super::speculation::{self, Ended, FLUSH_CYCLES, SPEC_WINDOW, Speculation};
use super::{Account, Addition, By, Context, ListedAddition, Miss, Victim};
use crate::tlb::contract::EntryView;
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Translation;

/// SPT-1.
pub const SPEC_ENTRIES: Key = Key {
    name: "spec_entries",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of SpecTLB, each for a reservation of 2 MB, LRU",
};
/// SPT-1.
pub const SPEC_WAYS: Key = Key {
    name: "spec_ways",
    default: "4",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries in a set of SpecTLB, chosen by the low bits of the reservation's number; 0: fully associative",
};

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "spectlb",
    about: "predicts the frames of pages in reservations while the walk goes on (SpecTLB)",
    keys: &[&SPEC_ENTRIES, &SPEC_WAYS, &SPEC_WINDOW, &FLUSH_CYCLES],
    counters: speculation::COUNTERS,
    laws: speculation::LAWS,
    check: speculation::check,
    build: |params, _| Ok(Box::new(SpecTlb::new(params)?)),
    ..ListedAddition::NEW
};

/// A reservation: its process, the number of its 2 MB, its first frame.
#[derive(Clone, Copy)]
struct Reservation {
    asid: Asid,
    region: u64,
    first: Pfn,
}

/// See the module.
struct SpecTlb {
    sets: usize,
    ways: usize,
    /// Set after set; inside a set the most recently used first, empty ones last.
    entries: Box<[Option<Reservation>]>,
    speculation: Speculation,
    process_ids: bool,
    /// What the miss under way found.
    predicted: Option<Pfn>,
}

impl SpecTlb {
    fn new(params: &Params) -> Result<SpecTlb, String> {
        let Geometry { sets, ways, .. } = Geometry::new(params.int(SPEC_ENTRIES.name), params.int(SPEC_WAYS.name))
            .map_err(|why| format!("{}, {}: {why}", SPEC_ENTRIES.name, SPEC_WAYS.name))?;
        Ok(SpecTlb {
            sets,
            ways,
            entries: vec![None; sets * ways].into(),
            speculation: Speculation::new(params)?,
            process_ids: params.flag(PROCESS_IDS.name),
            predicted: None,
        })
    }

    fn set(&mut self, region: u64) -> &mut [Option<Reservation>] {
        let first = region as usize % self.sets * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Moves the entry of a region to the front of its set, if there is one.
    fn raise(&mut self, asid: Asid, region: u64) -> Option<&mut Option<Reservation>> {
        let set = self.set(region);
        let way = set.iter().position(|e| e.is_some_and(|e| (e.asid, e.region) == (asid, region)))?;
        set[..=way].rotate_right(1);
        set.first_mut()
    }

    /// Enters a reservation as the most recently used.
    fn enter(&mut self, entry: Reservation) {
        if let Some(known) = self.raise(entry.asid, entry.region) {
            *known = Some(entry);
            return;
        }
        let set = self.set(entry.region);
        set.rotate_right(1);
        set[0] = Some(entry);
    }

    fn drop_where(&mut self, goes: impl Fn(&Reservation) -> bool) {
        for set in self.entries.chunks_mut(self.ways) {
            set.iter_mut().for_each(|entry| *entry = entry.filter(|entry| !goes(entry)));
            // A stable sort: the order of use stays, empty ones go last.
            set.sort_by_key(Option::is_none);
        }
    }
}

impl Addition for SpecTlb {
    /// SPT-2.
    fn missed(&mut self, miss: &Miss, _: &mut Context) -> Option<Translation> {
        self.predicted = None;
        if leaf_level(miss.pte.order, RADIX) == 0 {
            let vpn = miss.at.vpn;
            let entry = self.raise(miss.at.asid, vpn.group(RADIX.into())).and_then(|entry| *entry);
            self.predicted = entry.map(|entry| Pfn(entry.first.0 + vpn.offset_in(RADIX.into())));
        }
        None
    }

    /// SPT-3.
    fn filled(&mut self, miss: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        let predicted = self.predicted.take();
        if by != By::Walk {
            return;
        }
        let (asid, vpn, pfn) = (miss.at.asid, miss.at.vpn, miss.pte.pfn);
        let region = vpn.group(RADIX.into());
        if self.speculation.verify(predicted, pfn, context) == Ended::Wrong {
            let entry = self.raise(asid, region).expect("it gave the prediction");
            *entry = None;
            self.set(region).rotate_left(1);
        }
        let in_place = vpn.offset_in(RADIX.into()) == pfn.offset_in(RADIX.into());
        if leaf_level(miss.pte.order, RADIX) == 0 && in_place && context.table.reservation(asid, vpn).is_some() {
            self.enter(Reservation { asid, region, first: pfn.align_down(RADIX.into()) });
        }
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, _: bool, _: &mut Account) -> u64 {
        self.drop_where(|entry| {
            let region = VpnRange { start: Vpn(entry.region << RADIX), pages: 1 << RADIX };
            entry.asid == asid && region.overlaps(&pages)
        });
        0
    }

    fn drop_space(&mut self, asid: Asid, _: &mut Account) -> u64 {
        self.drop_where(|entry| entry.asid == asid);
        0
    }

    fn switch(&mut self, to: Asid, _: &mut Account) -> u64 {
        if !self.process_ids {
            self.drop_where(|entry| entry.asid != to);
        }
        0
    }

    /// It answers nothing (HW-5).
    fn probe(&self, _: Asid, _: Vpn, _: Kind) -> Option<Translation> {
        None
    }

    fn views(&self, _: usize, _: &mut Vec<EntryView>) {}

    fn entries(&self) -> usize {
        0
    }
}
