//! The design and the model, side by side.

use super::{LARGE, PAGES, REGIONS};
use farreach_hw::tlb::{EntryView, FlushRequest, Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::dice::Dice;
use farreach_oracle::driver::{Table, tlb};
use farreach_oracle::shootdowns::{Request, ShootdownConfig, Shootdowns};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

pub struct Pair {
    pub design: Box<dyn Tlb>,
    pub plain: Shootdowns,
    pub table: Table,
    frame: u64,
    unfiltered: Unfiltered,
    filter: BTreeSet<(u32, u64, bool)>,
}

impl Pair {
    pub fn new(keys: &str, config: ShootdownConfig) -> Pair {
        Pair {
            design: tlb("hierarchy", keys),
            plain: Shootdowns::new(config),
            table: Table::default(),
            frame: 1 << 20,
            unfiltered: Unfiltered::default(),
            filter: BTreeSet::new(),
        }
    }

    /// Tells the design, and takes its report over into the filter.
    pub fn tell(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        let Pair { design, filter, unfiltered, .. } = self;
        act(&mut **design, unfiltered);
        filter.retain(|&(asid, vpn, _)| !unfiltered.contains(Asid(asid), Vpn(vpn)));
        unfiltered.clear();
    }

    pub fn map(&mut self, asid: u32, first: u64, pages: u64, order: u8) {
        self.frame += 16;
        for page in 0..pages {
            let pte = Pte { pfn: Pfn(self.frame + page), attr: Attr(7), order };
            self.table.0.insert((Asid(asid), Vpn(first + page)), pte);
        }
    }

    pub fn unmap(&mut self, asid: u32, first: u64, pages: u64) {
        (first..first + pages).for_each(|page| _ = self.table.0.remove(&(Asid(asid), Vpn(page))));
    }

    /// What the page table has of these pages is new.
    pub fn mapped(&mut self, asid: u32, first: u64, pages: u64) {
        self.design.mapped(Asid(asid), VpnRange { start: Vpn(first), pages }, &self.table);
        self.plain.mapped(asid, first, pages);
    }

    pub fn order(&self, asid: u32, vpn: u64) -> u8 {
        self.table.0[&(Asid(asid), Vpn(vpn))].order
    }

    pub fn start(&mut self, dice: &mut Dice, asid: u32) {
        (0..PAGES).for_each(|page| self.map(asid, page, 1, 0));
        (0..REGIONS).for_each(|region| self.map(asid, LARGE + 16 * region, 16, dice.pick(&[0, 4])));
    }

    pub fn switch(&mut self, asid: u32, thread: u32) {
        self.tell(|tlb, report| tlb.switch(Asid(asid), report));
        self.plain.switch(asid);
        self.tell(|tlb, report| tlb.thread(Asid(asid), thread, report));
        self.plain.thread(asid, thread);
    }

    pub fn look(&mut self, asid: u32, vpn: u64, kind: Kind) {
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let pte = self.table.pte(at.asid, at.vpn).unwrap();
        let expected = self.plain.lookup(asid, vpn >> pte.order << pte.order, pte.order);
        if self.filter.contains(&(asid, vpn, kind == Kind::Fetch)) {
            assert!(expected, "{at:?} was filtered");
            return;
        }
        self.plain.looked_up();
        let Pair { design, table, unfiltered, .. } = self;
        let found = design.probe(at.asid, at.vpn, kind);
        assert!(found.is_none_or(|found| found.pfn == pte.pfn), "{at:?} is stale: {found:?}, not {pte:?}");
        let answer = design.access(at, pte, table, unfiltered);
        self.tell(|_, _| {});
        assert_eq!(answer.outcome == Outcome::Hit, expected, "{at:?}");
        if answer.filterable {
            self.filter.insert((asid, vpn, kind == Kind::Fetch));
        }
    }

    /// Changes these pages in one request, or unannounced. With `splits`, they are one
    /// superpage.
    pub fn change(&mut self, request: Request, parts: &[(u64, u64)], announces: bool, splits: bool) {
        let Request { asid, first, pages, order, tables, unmapped } = request;
        if announces {
            let pages = VpnRange { start: Vpn(first), pages };
            self.design.requested(FlushRequest { asid: Asid(asid), pages, order, tables, unmapped });
            self.plain.request(request);
        }
        for &(first, pages) in parts {
            let range = VpnRange { start: Vpn(first), pages };
            self.tell(|tlb, report| match splits {
                true => tlb.demote(Asid(asid), range, report),
                false => tlb.invalidate(Asid(asid), range, report),
            });
            self.plain.change(asid, first, pages);
        }
    }

    /// Some pages, or some regions, in up to three pieces.
    pub fn changes(&mut self, dice: &mut Dice, asid: u32) {
        let (unit, from, most) = if dice.percent(50) { (1, 0, PAGES) } else { (16, LARGE, REGIONS) };
        let mut parts = Vec::new();
        let mut at = dice.below(most);
        while at < most && parts.len() < 3 {
            let largest = if dice.percent(70) { 3 } else { most };
            let units = (1 + dice.below(largest)).min(most - at);
            parts.push((from + unit * at, unit * units));
            at += units + 1 + dice.below(4);
        }
        let (first, last) = (parts[0].0, parts[parts.len() - 1]);
        let mut changed = parts.iter().flat_map(|&(first, pages)| first..first + pages);
        let order = if changed.all(|vpn| self.order(asid, vpn) == 4) { 4 } else { 0 };
        let (announces, tables) = (dice.percent(80), dice.percent(30));
        for &(first, pages) in &parts {
            for piece in (first..first + pages).step_by(unit as usize) {
                self.map(asid, piece, unit, if unit == 16 { dice.pick(&[0, 4]) } else { 0 });
            }
        }
        let request = Request { asid, first, pages: last.0 + last.1 - first, order, tables, unmapped: false };
        self.change(request, &parts, announces, false);
    }

    pub fn splits(&mut self, dice: &mut Dice, asid: u32) {
        let first = LARGE + 16 * dice.below(REGIONS);
        self.split(dice, asid, first);
    }

    /// Splits a region, if it is one page.
    pub fn split(&mut self, dice: &mut Dice, asid: u32, first: u64) {
        if self.order(asid, first) == 4 {
            let frame = self.table.0[&(Asid(asid), Vpn(first))].pfn;
            self.map(asid, first, 16, 0);
            (0..16).for_each(|i| {
                self.table.0.get_mut(&(Asid(asid), Vpn(first + i))).unwrap().pfn = Pfn(frame.0 + i);
            });
            let order = dice.pick(&[0, 4]);
            let request = Request { asid, first, pages: 16, order, tables: false, unmapped: false };
            self.change(request, &[(first, 16)], dice.percent(80), true);
        }
    }

    pub fn compare(&self, place: &str) {
        let counts = self.design.counts();
        let mut found: BTreeMap<_, _> =
            self.plain.counts.keys().map(|name| (*name, counts.parts.count("shootdown", name))).collect();
        found.insert("ipis", counts.shootdown.ipis);
        assert_eq!(found, self.plain.counts, "left: the design; {place}");
    }

    /// What a core may use is what the page table has.
    fn check_frames(&self, view: &EntryView, place: &str) {
        if self.plain.may_use(view.slot >> 20, view.asid.0) {
            for &(offset, found, _) in &view.pages {
                let pte = self.table.pte(view.asid, Vpn(view.base.0 + offset));
                assert!(pte.is_some_and(|pte| pte.pfn == found.pfn), "{view:?}, but {pte:?}; {place}");
            }
        }
    }

    pub fn compare_entries(&self, cores: usize, place: &str) {
        let mut found = vec![BTreeSet::new(); cores];
        for view in self.design.entries() {
            self.check_frames(&view, place);
            let core = view.slot >> 20;
            if self.plain.may_use(core, view.asid.0) {
                found[core].insert((view.asid.0, view.base.0, view.order));
            }
        }
        let expected: Vec<_> = (0..cores).map(|core| self.plain.entries(core)).collect();
        assert_eq!(found, expected, "left: the design; {place}");
    }
}
