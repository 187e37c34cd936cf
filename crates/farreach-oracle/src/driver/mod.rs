//! Helpers of the TLB tests: a page table made by hand, a way to build a design from its keys, and a minimal operating
//! system for the small examples of the specification.

pub mod world;

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of a design, from text like `entries=4,factor=4`.
pub fn params(kind: &str, keys: &str) -> Params {
    let mut given = Map::new();
    for pair in keys.split(',').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').expect("key=value");
        given.insert(name.to_owned(), Value::from(value));
    }
    let keys_of_it = keys_of(design(kind).expect(kind), &given);
    Params::resolve(&keys_of_it, &given).unwrap_or_else(|e| panic!("{kind}:{keys}: {e}"))
}

pub fn try_tlb(kind: &str, keys: &str) -> Result<Box<dyn Tlb>, String> {
    (design(kind).expect(kind).build)(&params(kind, keys))
}

pub fn tlb(kind: &str, keys: &str) -> Box<dyn Tlb> {
    try_tlb(kind, keys).unwrap_or_else(|e| panic!("{kind}:{keys}: {e}"))
}

/// A page table as a map.
#[derive(Clone, Default)]
pub struct Table(pub BTreeMap<(Asid, Vpn), Pte>);

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.0.get(&(asid, vpn)).copied()
    }
}

impl Table {
    pub fn map(&mut self, vpn: u64, pfn: u64, attr: u8, order: u8) {
        self.0.insert((Asid(0), Vpn(vpn)), Pte { pfn: Pfn(pfn), attr: Attr(attr), order });
    }
    /// `(vpn, pfn)` pairs of base pages with equal attributes.
    pub fn of(pages: &[(u64, u64)]) -> Table {
        let mut table = Table::default();
        pages.iter().for_each(|&(vpn, pfn)| table.map(vpn, pfn, 7, 0));
        table
    }
}

pub fn at(vpn: u64, kind: Kind) -> Lookup {
    Lookup { asid: Asid(0), vpn: Vpn(vpn), kind }
}

pub fn access(tlb: &mut dyn Tlb, table: &Table, vpn: u64, kind: Kind) -> Outcome {
    let mut unfiltered = Unfiltered::default();
    let pte = table.pte(Asid(0), Vpn(vpn)).unwrap_or_else(|| panic!("page {vpn} is not mapped"));
    tlb.access(at(vpn, kind), pte, table, &mut unfiltered).outcome
}

pub fn load(tlb: &mut dyn Tlb, table: &Table, vpn: u64) -> Outcome {
    access(tlb, table, vpn, Kind::Load)
}

/// The counts of [`run`].
#[derive(PartialEq, Eq, Debug)]
pub struct Tally {
    pub misses: u64,
    pub faults: u64,
    pub populated: u64,
    pub promotions: u64,
    pub entries: usize,
}

/// Every page has its aligned frame reserved; a region is promoted when `promote` of its pages are mapped and the
/// object, if one is given, covers it.
pub fn run(kind: &str, keys: &str, region: u64, touches: &[u64], promote: Option<u64>, object: Option<u64>) -> Tally {
    let mut design = tlb(kind, keys);
    let mut table = Table::default();
    let mut promoted = BTreeSet::new();
    let (mut faults, mut populated) = (0, 0);
    let frame = |vpn: u64| vpn + 64 * region;
    for &vpn in touches {
        if table.pte(Asid(0), Vpn(vpn)).is_none() {
            faults += 1;
            table.map(vpn, frame(vpn), 7, 0);
            let pages = vpn / region * region..vpn / region * region + region;
            let mapped = pages.clone().filter(|&v| table.pte(Asid(0), Vpn(v)).is_some()).count() as u64;
            if promote.is_some_and(|n| mapped >= n) && object.is_none_or(|n| pages.end <= n) {
                promoted.insert(vpn / region);
                populated += region - mapped;
                pages.for_each(|v| table.map(v, frame(v), 7, region.trailing_zeros() as u8));
            }
        }
        load(&mut *design, &table, vpn);
    }
    let misses = design.counts().misses;
    Tally { misses, faults, populated, promotions: promoted.len() as u64, entries: design.entries().len() }
}
