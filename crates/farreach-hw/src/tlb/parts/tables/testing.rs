//! A table on a bench: what tests of one table need.

use super::memory::PTE;
use super::reads::Steps;
use super::*;
use crate::cache::{NodeRead, Port, Purpose};
use crate::tlb::keys_of;
use crate::tlb::registry::design;
use farreach_types::addr::VpnRange;
use farreach_types::counts::{MemoryCounts, PartCounts, StepCounts};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A table, and the mappings that it should have.
pub(super) struct Bench {
    pub params: Params,
    table: Box<dyn Table>,
    mappings: BTreeMap<(Asid, u64), u8>,
    port: Port,
    part: PartCounts,
}

impl Bench {
    pub fn new(given: Json) -> Bench {
        Bench::build(given).unwrap()
    }

    pub fn build(given: Json) -> Result<Bench, String> {
        let given = given.as_object().unwrap();
        let params = Params::resolve(&keys_of(design("hierarchy").unwrap(), given), given)?;
        let listed = chosen(&params).expect("a table");
        let mut part = PartCounts::default();
        part.counters.reset(&listed.counters.iter().map(|counter| counter.name).collect::<Vec<_>>());
        let table = (listed.build)(&params, 96)?;
        Ok(Bench { params, table, mappings: BTreeMap::new(), port: Port::new(true), part })
    }

    fn mapping(asid: u32, vpn: u64, order: u8) -> Mapping {
        assert_eq!(vpn % (1 << order), 0);
        Mapping { asid: Asid(asid), vpn: Vpn(vpn), order }
    }

    pub fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        assert!(self.of(asid, vpn).is_none() && self.mappings.insert((Asid(asid), vpn), order).is_none());
        self.table.map(Bench::mapping(asid, vpn, order), &mut self.part.counters);
    }

    pub fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        assert_eq!(self.mappings.remove(&(Asid(asid), vpn)), Some(order));
        self.table.unmap(Bench::mapping(asid, vpn, order), &mut self.part.counters);
    }

    /// The process ends.
    pub fn end(&mut self, asid: u32) {
        for mapping in self.all().into_iter().filter(|mapping| mapping.asid.0 == asid) {
            self.unmap(asid, mapping.vpn.0, mapping.order);
        }
        self.table.gone(Asid(asid), &mut self.part.counters);
    }

    pub fn forget(&mut self, asid: u32) {
        self.table.forget(Asid(asid), VpnRange::ALL);
    }

    pub fn switch(&mut self, to: u32, process_ids: bool) {
        self.table.switch(Asid(to), process_ids);
    }

    /// What maps the page.
    pub fn of(&self, asid: u32, vpn: u64) -> Option<Mapping> {
        let (&(of, first), &order) = self.mappings.range(..=(Asid(asid), vpn)).next_back()?;
        (of.0 == asid && vpn - first < 1 << order).then(|| Bench::mapping(asid, first, order))
    }

    pub fn all(&self) -> Vec<Mapping> {
        self.mappings.iter().map(|(&(asid, vpn), &order)| Bench::mapping(asid.0, vpn, order)).collect()
    }

    /// A demand walk for a mapped page. Returns what it read.
    pub fn walk(&mut self, asid: u32, vpn: u64) -> StepCounts {
        let mapping = self.of(asid, vpn);
        assert!(mapping.is_some(), "{vpn} is not mapped");
        self.read(asid, vpn, mapping, Purpose::Demand)
    }

    /// A demand walk that ends in a page fault (PT-4).
    pub fn fault(&mut self, asid: u32, vpn: u64) {
        assert_eq!(self.of(asid, vpn), None, "{vpn} is mapped");
        self.table.faulting(Asid(asid), Vpn(vpn), &mut self.part.counters);
    }

    /// A walk in the background. Returns its references.
    pub fn ahead(&mut self, asid: u32, vpn: u64) -> u64 {
        self.read(asid, vpn, self.of(asid, vpn), Purpose::Background).background_references
    }

    fn read(&mut self, asid: u32, vpn: u64, mapping: Option<Mapping>, purpose: Purpose) -> StepCounts {
        let (mut memory, mut steps) = (MemoryCounts::default(), Steps::default());
        let own = Some(&mut self.part.counters).filter(|_| purpose == Purpose::Demand);
        self.table.walk(Asid(asid), Vpn(vpn), mapping, &mut Reads::new(purpose, &mut steps, own));
        steps.make(purpose, &mut self.port, &mut memory);
        assert_eq!(steps.references(), memory.made.references + memory.made.background_references);
        let is_in_tables = |read: NodeRead| read.address >= Places::FIRST && read.address.is_multiple_of(PTE);
        assert!(self.port.recorded().all(is_in_tables), "memory of tables is above that of programs");
        memory.made
    }

    pub fn count(&self, name: &str) -> u64 {
        self.part.counters.get(name)
    }

    pub fn check(&self) {
        self.table.check(&mut self.all().into_iter());
        assert_eq!(self.count("table_bytes"), self.table.bytes(), "bytes are the sum of the parts");
    }
}
