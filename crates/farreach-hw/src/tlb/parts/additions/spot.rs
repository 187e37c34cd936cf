//! SpOT: an instruction that walks through a long run of pages in consecutive frames finds its next page at the same
//! distance from its frame as the last (SPO). In a virtual machine the walk that goes on is that in both dimensions
//! (SPO-4).

use super::prefetch::PREDICTORS_ON_SWITCH;
use super::speculation::{self, FLUSH_CYCLES, SPEC_WINDOW, Speculation};
use super::{Account, Addition, By, Context, ListedAddition, Miss, Victim, native_or_nested};
use crate::tlb::contract::EntryView;
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Translation};

/// SPO-1.
pub const SPOT_ENTRIES: Key = Key {
    name: "spot_entries",
    default: "32",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the prediction table, by the address of the latest fetch",
};
/// SPO-1.
pub const SPOT_WAYS: Key = Key {
    name: "spot_ways",
    default: "4",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries in a set of the prediction table, chosen by the low bits of the address; 0: fully associative",
};
/// SPO-3.
pub const SPOT_RUN: Key = Key {
    name: "spot_run",
    default: "32",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "pages of a run in consecutive frames, with equal attributes, from which on the system marks its entries as \
            contiguous",
};

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "spot",
    about: "predicts frames by the distance that an instruction found before, while the walk goes on (SpOT)",
    keys: &[&SPOT_ENTRIES, &SPOT_WAYS, &SPOT_RUN, &SPEC_WINDOW, &FLUSH_CYCLES, &PREDICTORS_ON_SWITCH],
    counters: speculation::COUNTERS,
    laws: speculation::LAWS,
    needs_fetches: |_| Some("behind = spot".into()),
    check: |params| {
        native_or_nested(params)?;
        speculation::check_alone(params)
    },
    build: |params, _| Ok(Box::new(Spot::new(params)?)),
    ..ListedAddition::NEW
};

/// What is known of an instruction.
#[derive(Clone, Copy)]
struct Known {
    pc: u64,
    /// Page minus frame, wrapping.
    offset: u64,
    confidence: u8,
}

impl Known {
    /// Of the counter.
    const MOST: u8 = 3;
    /// From here on it predicts (SPO-2).
    const PREDICTS: u8 = 2;

    /// A walk found a page at this distance from its frame (SPO-3).
    fn learn(&mut self, offset: u64) {
        if self.offset == offset {
            self.confidence = (self.confidence + 1).min(Known::MOST);
            return;
        }
        self.confidence = self.confidence.saturating_sub(1);
        if self.confidence == 0 {
            (self.offset, self.confidence) = (offset, 1);
        }
    }
}

/// See the module.
struct Spot {
    sets: usize,
    ways: usize,
    /// Set after set; inside a set the most recently used first, empty ones last.
    entries: Box<[Option<Known>]>,
    run: u64,
    speculation: Speculation,
    flushes: bool,
    /// What the miss under way found.
    predicted: Option<Pfn>,
}

impl Spot {
    fn new(params: &Params) -> Result<Spot, String> {
        let Geometry { sets, ways, .. } = Geometry::new(params.int(SPOT_ENTRIES.name), params.int(SPOT_WAYS.name))
            .map_err(|why| format!("{}, {}: {why}", SPOT_ENTRIES.name, SPOT_WAYS.name))?;
        Ok(Spot {
            sets,
            ways,
            entries: vec![None; sets * ways].into(),
            run: params.int(SPOT_RUN.name),
            speculation: Speculation::new(params)?,
            flushes: params.text(PREDICTORS_ON_SWITCH.name) == "flush",
            predicted: None,
        })
    }

    fn set(&mut self, pc: u64) -> &mut [Option<Known>] {
        let first = pc as usize % self.sets * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// What is known of an instruction, from now on the most recently used of its set.
    fn known(&mut self, pc: u64) -> Option<&mut Known> {
        let set = self.set(pc);
        let way = set.iter().position(|known| known.is_some_and(|known| known.pc == pc))?;
        set[..=way].rotate_right(1);
        set[0].as_mut()
    }

    /// Enters an instruction in the place of an empty entry, the oldest without confidence, or the oldest (SPO-3).
    fn enter(&mut self, known: Known) {
        let set = self.set(known.pc);
        let last = set.len() - 1;
        let distrusted = || set.iter().rposition(|known| known.is_some_and(|known| known.confidence == 0));
        let way = if set[last].is_none() { last } else { distrusted().unwrap_or(last) };
        set[..=way].rotate_right(1);
        set[0] = Some(known);
    }
}

/// Whether the run of this page has this number of pages: its entry then has the contiguity mark (SPO-3).
fn is_contiguous((asid, vpn): (Asid, Vpn), page: Translation, most: u64, table: &dyn PageTableView) -> bool {
    let joins = |v: &u64| {
        table
            .pte(asid, Vpn(*v))
            .is_some_and(|pte| pte.pfn.0.wrapping_sub(page.pfn.0) == v.wrapping_sub(vpn.0) && pte.attr == page.attr)
    };
    let before = (vpn.0.saturating_sub(most)..vpn.0).rev().take_while(joins).count() as u64;
    before + 1 >= most || (vpn.0 + 1..vpn.0 + most - before).all(|v| joins(&v))
}

impl Addition for Spot {
    /// SPO-2.
    fn missed(&mut self, miss: &Miss, _: &mut Context) -> Option<Translation> {
        let known = self.known(miss.pc).filter(|known| known.confidence >= Known::PREDICTS);
        self.predicted = known.map(|known| Pfn(miss.at.vpn.0.wrapping_sub(known.offset)));
        None
    }

    /// SPO-3.
    fn filled(&mut self, miss: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        let predicted = self.predicted.take();
        if by != By::Walk {
            return;
        }
        let (at, pte) = (miss.at, miss.pte);
        self.speculation.verify(predicted, pte.pfn, context);
        let offset = at.vpn.0.wrapping_sub(pte.pfn.0);
        if let Some(known) = self.known(miss.pc) {
            return known.learn(offset);
        }
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if is_contiguous((at.asid, at.vpn), page, self.run, context.table) {
            self.enter(Known { pc: miss.pc, offset, confidence: 1 });
        }
    }

    /// HW-9: it knows instructions, not pages.
    fn drop_pages(&mut self, _: Asid, _: VpnRange, _: bool, _: &mut Account) -> u64 {
        0
    }

    fn drop_space(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    fn switch(&mut self, _: Asid, _: &mut Account) -> u64 {
        if self.flushes {
            self.entries.fill(None);
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
