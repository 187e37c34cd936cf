//! A page table by hand and a machine over it.

use farreach_hw::system::{Item, SYSTEMS, Softvm, System};
use farreach_machine::MachineSpec;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::SystemCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::HashMap;

pub const RWX: Attr = Attr(Attr::READ | Attr::WRITE | Attr::EXEC);
pub const READ: Attr = Attr(Attr::READ | Attr::EXEC);

/// Pages with an explicit mapping; any other has a frame of its own.
#[derive(Default)]
pub struct Table {
    pub pages: HashMap<(Asid, Vpn), Option<Pte>>,
}

impl Table {
    pub fn map(&mut self, asid: u32, vpn: u64, pfn: u64, attr: Attr) {
        self.pages.insert((Asid(asid), Vpn(vpn)), Some(Pte { pfn: Pfn(pfn), attr, order: 0 }));
    }
    pub fn unmap(&mut self, asid: u32, vpn: u64) {
        self.pages.insert((Asid(asid), Vpn(vpn)), None);
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let own = Pte { pfn: Pfn(u64::from(asid.0) << 32 | vpn.0 & 0xFFFF_FFFF), attr: RWX, order: 0 };
        self.pages.get(&(asid, vpn)).copied().unwrap_or(Some(own))
    }
}

pub fn spec(text: &str) -> Params {
    MachineSpec::parse(text, 0).unwrap_or_else(|e| panic!("{text}: {e}")).params
}

/// A machine of any kind, as the laboratory builds it.
pub fn system(text: &str, plain: bool) -> Box<dyn System> {
    let params = spec(text);
    let kind = SYSTEMS.iter().find(|s| s.kind == params.text("kind")).unwrap();
    (kind.build)(&[&params], plain).unwrap()
}

/// The machine of the paper with its page table.
pub struct World {
    pub machine: Softvm,
    pub table: Table,
    pub params: Params,
    asid: Option<u32>,
}

impl World {
    pub fn new(overrides: &str) -> World {
        let params = spec(&format!("sv97/softvm:{overrides}"));
        World { machine: Softvm::from_params(&params).unwrap(), table: Table::default(), params, asid: None }
    }

    pub fn go(&mut self, asid: u32, kind: Kind, addr: u64) {
        if self.asid != Some(asid) {
            self.machine.switch(Asid(asid));
            self.asid = Some(asid);
        }
        self.machine.run(Asid(asid), &[Item::new(kind, addr)], &self.table);
    }
    pub fn load(&mut self, addr: u64) {
        self.go(0, Kind::Load, addr);
    }
    pub fn store(&mut self, addr: u64) {
        self.go(0, Kind::Store, addr);
    }

    /// Gives a page another mapping and reports the change.
    pub fn remap(&mut self, asid: u32, vpn: u64, pfn: u64, attr: Attr) {
        self.table.map(asid, vpn, pfn, attr);
        self.machine.changed(Asid(asid), VpnRange::one(Vpn(vpn)), &self.table);
    }
    pub fn unmap(&mut self, asid: u32, vpn: u64) {
        self.table.unmap(asid, vpn);
        self.machine.changed(Asid(asid), VpnRange::one(Vpn(vpn)), &self.table);
    }

    /// The counts; accesses are at least as many as misses.
    pub fn counts(&self) -> SystemCounts {
        self.machine.counts(0, [1 << 40; 2])
    }
    /// Cycles of misses so far.
    pub fn cycles(&self) -> u64 {
        farreach_cost::system::miss_cycles(&self.counts(), &self.params)
    }
    /// Whether the byte is cached on the data side: first level, second level.
    pub fn cached(&self, asid: u32, addr: u64) -> [bool; 2] {
        self.machine.cached_lines(1, Asid(asid), addr).map(|line| line.is_some())
    }
}
