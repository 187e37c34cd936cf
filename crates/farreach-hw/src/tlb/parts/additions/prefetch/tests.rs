//! The golden tables of sections 2.2 to 2.4 by hand, and laws on random streams (HW-3, HW-4, PB-10).

mod golden;
mod random;
mod rules;

use super::*;
use crate::tlb::contract::{OnDemotion, OnFetch, OnSwitch, Outcome, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::hierarchy::{Hierarchy, Paging};
use crate::tlb::{design, keys_of};
use farreach_types::addr::Pfn;
use farreach_types::counts::OwnCounts;
use farreach_types::translation::{Attr, PageTableView};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A page table: mappings by process and first page.
#[derive(Clone, Default)]
struct Table(BTreeMap<(Asid, u64), Pte>);

impl Table {
    /// Pages of 4 KB of process 0, each in the frame 5000 above its number.
    fn of(pages: impl IntoIterator<Item = u64>) -> Table {
        let mut table = Table::default();
        pages.into_iter().for_each(|page| table.map(Asid(0), page, 0, page + 5000));
        table
    }
    fn map(&mut self, asid: Asid, first: u64, order: u8, frame: u64) {
        self.0.insert((asid, first), Pte { pfn: Pfn(frame), attr: Attr(7), order });
    }
    /// The first page of the mapping of a page.
    fn first(&self, asid: Asid, vpn: Vpn) -> Option<u64> {
        let (&(of, first), pte) = self.0.range(..=(asid, vpn.0)).next_back()?;
        (of == asid && vpn.0 < first + (1 << pte.order)).then_some(first)
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let first = self.first(asid, vpn)?;
        let pte = self.0[&(asid, first)];
        Some(Pte { pfn: Pfn(pte.pfn.0 + vpn.0 - first), ..pte })
    }
    fn any_mapped(&self, asid: Asid, pages: VpnRange) -> bool {
        let next = self.0.range((asid, pages.start.0)..).next();
        self.pte(asid, pages.start).is_some()
            || next.is_some_and(|(&(of, first), _)| of == asid && first < pages.end().0)
    }
}

/// The addition, open to tests.
struct Spied(Arc<Mutex<Prefetch>>);

thread_local! {
    static LATEST: RefCell<Option<Arc<Mutex<Prefetch>>>> = const { RefCell::new(None) };
}

const SPIED: ListedAddition = ListedAddition {
    build: |params, _| {
        let shared = Arc::new(Mutex::new(Prefetch::new(params)?));
        LATEST.with(|latest| *latest.borrow_mut() = Some(Arc::clone(&shared)));
        Ok(Box::new(Spied(shared)))
    },
    ..LISTED
};

impl Addition for Spied {
    fn missed(&mut self, miss: &Miss, context: &mut Context) -> Option<Translation> {
        self.0.lock().unwrap().missed(miss, context)
    }
    fn filled(&mut self, miss: &Miss, by: By, victim: Option<Victim>, context: &mut Context) {
        self.0.lock().unwrap().filled(miss, by, victim, context);
    }
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, account: &mut Account) -> u64 {
        self.0.lock().unwrap().drop_pages(asid, pages, demoted, account)
    }
    fn drop_space(&mut self, asid: Asid, account: &mut Account) -> u64 {
        self.0.lock().unwrap().drop_space(asid, account)
    }
    fn switch(&mut self, to: Asid, account: &mut Account) -> u64 {
        self.0.lock().unwrap().switch(to, account)
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.0.lock().unwrap().probe(asid, vpn, kind)
    }
    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.0.lock().unwrap().views(before, into);
    }
    fn entries(&self) -> usize {
        self.0.lock().unwrap().entries()
    }
}

/// Keys as on the command line.
fn resolve(keys: &str, more: &[&'static farreach_types::params::Key]) -> Result<Params, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.into())
    };
    let given = keys.split(',').filter(|pair| !pair.is_empty()).map(pair).collect();
    let mut all = keys_of(design("hierarchy").unwrap(), &given);
    all.extend(more);
    Params::resolve(&all, &given)
}

/// A machine with the addition.
struct Machine {
    tlb: Hierarchy<Paging>,
    prefetch: Arc<Mutex<Prefetch>>,
    table: Table,
}

/// A first level of an entry on each side, and a second level that nothing leaves.
const LARGE: &str = "l1d=4K:1,l1i=4K:1,l2=4K|2M:4096";
/// The same, with two entries.
const SMALL: &str = "l1d=4K:1,l1i=4K:1,l2=4K:2,replacement=lru";

impl Machine {
    fn new(keys: &str, table: Table) -> Machine {
        Machine::try_new(keys, table).unwrap()
    }

    fn try_new(keys: &str, table: Table) -> Result<Machine, String> {
        let params = resolve(keys, LISTED.keys)?;
        (LISTED.check)(&params)?;
        let tlb = Hierarchy::new(&params, Paging::new(&params)?, &[&SPIED])?;
        Ok(Machine { tlb, prefetch: LATEST.with(|latest| latest.take()).unwrap(), table })
    }

    /// One lookup of process 0. Returns whether it was a walk.
    fn look(&mut self, kind: Kind, page: u64) -> bool {
        let at = Lookup { asid: Asid(0), vpn: Vpn(page), kind };
        let pte = self.table.pte(at.asid, at.vpn).unwrap();
        self.tlb.access(at, pte, &self.table, &mut Unfiltered::default()).outcome != Outcome::Hit
    }

    /// Loads. Returns the pages that were walked for.
    fn load(&mut self, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
        pages.into_iter().filter(|page| self.look(Kind::Load, *page)).collect()
    }

    fn own(&self) -> &OwnCounts {
        &self.tlb.counts.parts.get(LISTED.name).unwrap().counters
    }

    fn count<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.own().get(name))
    }

    /// First pages in the buffer, by slot.
    fn held(&self) -> Vec<u64> {
        let mut views = Vec::new();
        self.prefetch.lock().unwrap().views(0, &mut views);
        views.iter().map(|view| view.base.0).collect()
    }

    /// Counters of -7 to 7.
    fn distances(&self) -> [u16; 15] {
        self.prefetch.lock().unwrap().free.distances(0)
    }

    /// PB-10, SBFP-6, PB-7.
    fn check_laws(&self) {
        let (part, counts) = (self.tlb.counts.parts.get(LISTED.name).unwrap(), &self.tlb.counts);
        for law in LISTED.laws {
            let (left, right) = (law.sides)(part, counts);
            assert_eq!(left, right, "{}", law.name);
        }
        assert_eq!(self.prefetch.lock().unwrap().buffer.len() as u64, self.own().get("resident"));
    }
}
