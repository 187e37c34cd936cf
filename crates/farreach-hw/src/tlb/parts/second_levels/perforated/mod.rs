//! Perforated pages (Park et al., ISCA 2020): superpages of 2 MB with holes, which lie elsewhere in base pages (PRF).
//!
//! The arrays are those of an ordinary second level. The entry of a superpage with holes has a filter, a bit for each
//! 64 pages, and stands alone for the pages of groups without a hole. For the others a bitmap in memory is asked, 64
//! bytes a superpage, through a cache of bitmaps: a page that is there is a hit, a hole is walked to and gets an entry
//! of its own, which is found first (PRF-2).
//!
//! The system keeps page tables for base pages and marks the superpages ([`PageTableView::perforated`]). Hardware that
//! does not know the mark has base pages.

mod bitmaps;
#[cfg(test)]
mod tests;

pub use bitmaps::PRF_BITMAPS;

use super::{ListedSecondLevel, check_radix, shown};
use crate::cache::{Port, Purpose};
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::additions::{BEHIND, Counter, Law, Victim};
use crate::tlb::parts::hierarchy::level::{self, Level, Size};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::hierarchy::{COALESCE, L2, Rest, SecondLevel, check_native, count_second_level_hit};
use bitmaps::{Bitmaps, name};
use farreach_types::addr::{Asid, BASE_SHIFT, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Perforated, Pte, Translation};

/// Bytes of a base page.
const BASE_PAGE: u64 = 1 << BASE_SHIFT;

const BITMAPS: usize = 0;
const CACHED: usize = 1;
const HOLES: usize = 2;
const SUPERPAGES: usize = 3;

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "perforated",
    about: "arrays of pages, whose superpages of 2 MB may have holes in base pages elsewhere (PRF)",
    keys: &[&L2, &PRF_BITMAPS],
    counters: &[
        Counter::new("bitmaps", "misses of the first level that needed a bitmap (PRF-2)"),
        Counter::new("cached", "of these, those whose bitmap was cached"),
        Counter::new("holes", "walks to a hole"),
        Counter::new("superpages", "walks that found a superpage with holes, at one of them or not"),
    ],
    laws: &[Law {
        name: "PRF-2",
        sides: |part, _| {
            let of = |name| part.counters.get(name);
            (of("bitmaps"), of("cached") + part.memory.made.references)
        },
    }],
    check: |params| {
        check_native(params, &shown(&LISTED))?;
        check_radix(params, &LISTED, "superpages with base pages behind them")?;
        let refuse = |key: &Key, value: String, why: &str| {
            let (name, default) = (key.name, key.default);
            Err(format!("{} is not allowed with {name} = {value}: {why}; {name} must be {default}", shown(&LISTED)))
        };
        if params.texts(BEHIND.name) != [BEHIND.default] {
            return refuse(&BEHIND, params.texts(BEHIND.name).join("+"), "additions know no holes");
        }
        if params.int(COALESCE.name) > BASE_PAGE {
            let size = Bytes(params.int(COALESCE.name)).to_string();
            return refuse(&COALESCE, size, "a hole has the entry of a base page (PRF-2)");
        }
        Ok(())
    },
    reach: |params| level::reach(params, L2.name),
    build: |params| Ok(Box::new(Perforations::new(params)?)),
    ..ListedSecondLevel::NEW
};

/// See the module.
struct Perforations {
    level: Option<Level>,
    bitmaps: Bitmaps,
    process_ids: bool,
    /// Whether the bitmap was asked at the lookup under way.
    asked: bool,
    /// The superpage at which the walk under way arrives.
    found: Option<Perforated>,
    /// The place of its counters.
    part: usize,
    ignored_report: Unfiltered,
}

impl Perforations {
    fn new(params: &Params) -> Result<Perforations, String> {
        Ok(Perforations {
            level: Level::new(params, L2.name, params.int("seed").wrapping_add(16))?,
            bitmaps: Bitmaps::new(params),
            process_ids: params.flag(PROCESS_IDS.name),
            asked: false,
            found: None,
            part: 0,
            ignored_report: Unfiltered::unread(),
        })
    }

    /// PRF-2: a superpage behind its filter is asked by its bitmap, once a lookup.
    fn ask_bitmap(&mut self, at: Lookup, counts: &mut TlbCounts, port: &mut Port) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        let part = counts.parts.at(self.part);
        *part.counters.at(BITMAPS) += 1;
        match self.bitmaps.ask(name(at.asid, at.vpn)) {
            Some(address) => _ = port.step(Purpose::Demand, &[address], &mut part.memory),
            None => *part.counters.at(CACHED) += 1,
        }
    }

    /// The superpage with holes that has an entry which does not stand for the page by itself, and the place of that.
    fn behind_filter(&self, asid: Asid, vpn: Vpn) -> Option<(Perforated, (usize, u32))> {
        let entry = self.level.as_ref()?.behind_filter(asid, vpn)?;
        Some((self.bitmaps.known(asid, vpn)?, entry))
    }

    /// Fills a page, if the level holds pages of such mappings.
    fn put(&mut self, at: Lookup, page: Translation, size: Size, counts: &mut TlbCounts) -> Option<Victim> {
        let level = self.level.as_mut()?;
        let own = |fit: &u8| leaf_level(*fit, RADIX) == leaf_level(size.order, RADIX);
        let order = level.fitting(size.order).filter(own)?;
        let evictions = counts.evictions;
        level.fill((at.asid, at.vpn), page, Size { order, ..size }, counts, &mut self.ignored_report);
        (counts.evictions > evictions).then(|| level.victim(order))
    }

    fn each(&mut self, act: impl FnOnce(&mut Level, &mut Unfiltered) -> u64) -> u64 {
        let Perforations { level, ignored_report, .. } = self;
        level.as_mut().map_or(0, |level| act(level, ignored_report))
    }
}

/// The page of the superpage that has this number, as its entry would translate it.
fn inside(superpage: &Perforated, vpn: Vpn) -> Translation {
    let offset = vpn.offset_in(Perforated::ORDER.into());
    Translation { pfn: Pfn(superpage.pfn.0 + offset), attr: superpage.attr }
}

impl SecondLevel for Perforations {
    /// PRF-2: the entry of a base page first, then the superpage.
    fn lookup(
        &mut self,
        at: Lookup,
        _: Pte,
        counts: &mut TlbCounts,
        port: &mut Port,
    ) -> Option<(Translation, u8)> {
        self.asked = false;
        let Perforations { level, ignored_report, .. } = self;
        #[cfg(test)]
        if fault::SUPERPAGE_FIRST.get()
            && let Some(entry) = level.as_ref()?.perforated(at.asid, at.vpn)
        {
            let leaf = level.as_mut()?.hit(entry, at.vpn, ignored_report);
            return Some((leaf.translate(at.vpn), leaf.order));
        }
        let mut leaf = level.as_mut()?.lookup(at.asid, at.vpn, ignored_report);
        if leaf.is_none()
            && let Some((superpage, entry)) = self.behind_filter(at.asid, at.vpn)
        {
            let Perforations { level, ignored_report, .. } = self;
            // Its tag matches, so it is renewed, before the bitmap is asked.
            leaf = level.as_mut().map(|level| level.hit(entry, at.vpn, ignored_report));
            self.ask_bitmap(at, counts, port);
            leaf = leaf.filter(|_| !superpage.is_hole(at.vpn));
        }
        let leaf = leaf?;
        count_second_level_hit(counts, at.kind);
        Some((leaf.translate(at.vpn), leaf.order))
    }

    /// PRF-1: a page of a superpage that is no hole is found at the superpage's own entry.
    fn seen(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Pte {
        let superpage = table.perforated(at.asid, at.vpn).filter(|_| pte.order < Perforated::ORDER);
        self.found = superpage;
        let Some(superpage) = superpage else {
            if pte.order >= Perforated::ORDER {
                self.bitmaps.forget(|known| known == name(at.asid, at.vpn));
            }
            return pte;
        };
        self.bitmaps.learn(name(at.asid, at.vpn), superpage);
        Pte { order: if superpage.is_hole(at.vpn) { 0 } else { Perforated::ORDER }, ..pte }
    }

    /// PRF-3: a base page where the filter's bit is set. Otherwise the superpage with its filter, so that it does not
    /// stand for holes there either.
    fn for_first(&self, at: Lookup, order: u8) -> Size {
        match self.bitmaps.known(at.asid, at.vpn).filter(|_| order == Perforated::ORDER) {
            Some(superpage) if superpage.filter() >> group(at.vpn) & 1 == 1 => Size::whole(0),
            Some(superpage) => Size { order, filter: superpage.filter() },
            None => Size::whole(order),
        }
    }

    fn walked(&mut self, at: Lookup, _: Pte, rest: &mut Rest) {
        let Some(superpage) = self.found else { return };
        let own = &mut rest.counts.parts.at(self.part).counters;
        *own.at(SUPERPAGES) += u64::from(superpage.filter() != 0);
        *own.at(HOLES) += u64::from(superpage.is_hole(at.vpn));
        if superpage.filter() >> group(at.vpn) & 1 == 1 {
            self.ask_bitmap(at, rest.counts, rest.port);
        }
    }

    /// The superpage, if it has no entry, and then the hole.
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        _: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        let Some(superpage) = self.found.take() else { return self.put(at, page, Size::whole(order), counts) };
        let mut victim = None;
        if self.level.as_ref().is_some_and(|level| level.perforated(at.asid, at.vpn).is_none()) {
            let size = Size { order: Perforated::ORDER, filter: superpage.filter() };
            victim = self.put(at, inside(&superpage, at.vpn), size, counts);
        }
        if superpage.is_hole(at.vpn) {
            victim = self.put(at, page, Size::whole(order), counts).or(victim);
        }
        victim
    }

    fn part(&mut self) -> Option<(&'static ListedSecondLevel, &mut usize)> {
        Some((&LISTED, &mut self.part))
    }

    fn takes(&self, _: Kind) -> bool {
        self.level.is_some()
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        let whole = |number: u64| VpnRange { start: Vpn(number << Perforated::ORDER), pages: 1 << Perforated::ORDER };
        self.bitmaps.forget(|(of, number)| of == asid && whole(number).overlaps(&pages));
        self.each(|level, ignored_report| level.drop_overlapping(asid, pages, demoted.into(), ignored_report))
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.bitmaps.forget(|(of, _)| of == asid);
        self.each(|level, ignored_report| level.drop_space(asid, ignored_report))
    }

    /// Without process ids, the bitmaps of others go with their entries.
    fn switch(&mut self, to: Asid) -> u64 {
        if !self.process_ids {
            self.bitmaps.uncache(|(of, _)| of != to);
        }
        self.each(|level, ignored_report| level.switch(to, ignored_report))
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        let behind = || {
            let (superpage, _) = self.behind_filter(asid, vpn)?;
            (!superpage.is_hole(vpn)).then(|| inside(&superpage, vpn))
        };
        self.level.as_ref()?.probe(asid, vpn).or_else(behind)
    }

    /// Of a superpage with holes, the other pages are listed.
    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        let first = into.len();
        self.level.iter().for_each(|level| level.views(before, into));
        for view in into[first..].iter_mut().filter(|view| view.order == Perforated::ORDER) {
            let Some(superpage) = self.bitmaps.known(view.asid, view.base) else { continue };
            if superpage.filter() != 0 {
                let pages = (0..1 << Perforated::ORDER).map(|i| (i, Vpn(view.base.0 + i)));
                let there = pages.filter(|(_, vpn)| !superpage.is_hole(*vpn));
                view.pages = there.map(|(i, vpn)| (i, inside(&superpage, vpn), false)).collect();
            }
        }
    }

    fn entries(&self) -> usize {
        self.level.as_ref().map_or(0, Level::entries)
    }
}

/// The number of a page's group of 64 in its superpage.
fn group(vpn: Vpn) -> u64 {
    vpn.offset_in(Perforated::ORDER.into()) >> Perforated::GROUP
}

/// A fault to plant (T-9).
#[cfg(test)]
mod fault {
    use std::cell::Cell;

    thread_local! {
        /// PRF-2's order is not kept: a superpage answers for all its pages before the entry of a base page does.
        pub static SUPERPAGE_FIRST: Cell<bool> = const { Cell::new(false) };
    }
}
