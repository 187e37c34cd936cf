//! Tables made by hand.

mod aarch64;
mod direct_map;
mod flush;
mod kernel;
mod random;
mod refused;
mod riscv;
mod tags;
mod x86;

use crate::contract::{Change, What};
use crate::os::Os;
use farreach_types::addr::{Asid, KERNEL, Vpn, VpnRange, owner};
use farreach_types::event::{Arch, Guest, Invalidate, Kind, Op, Register};
use farreach_types::params::{Key, Params};
use farreach_types::translation::{Attr, PageTableView};
use serde_json::{Map, json};

const A: Asid = Asid(1);
const B: Asid = Asid(2);
const RW: u8 = Attr::READ | Attr::WRITE;
const RX: u8 = Attr::READ | Attr::EXEC;
const RWX: u8 = RW | Attr::EXEC;

/// A system that follows a guest, and a program counter's worth of convenience around it.
struct Bench {
    os: Os,
}

impl Bench {
    fn keys(arch: Arch, keys: &str) -> Result<Bench, String> {
        let mut given = Map::from_iter([("placement".to_owned(), json!("guest"))]);
        given.extend(keys.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), json!(v))));
        let all: Vec<&Key> = crate::keys("guest");
        let mut os = Os::new(&Params::resolve(&all, &given)?)?;
        os.announce_maps();
        let mut bench = Bench { os };
        bench.op(KERNEL, Guest::Machine { arch, processors: 2, memory: 1 << 30 });
        Ok(bench)
    }

    fn new(arch: Arch, keys: &str) -> Bench {
        Bench::keys(arch, keys).unwrap()
    }

    fn op(&mut self, asid: Asid, event: Guest) -> &mut Bench {
        self.os.apply(asid, &Op::Guest(event));
        self.os.check();
        self
    }

    fn register(&mut self, asid: Asid, register: Register, value: u64) -> &mut Bench {
        self.op(asid, Guest::Register { register, value })
    }

    fn words(&mut self, address: u64, values: &[u64]) -> &mut Bench {
        self.op(KERNEL, Guest::Entries { address, values: values.into() })
    }

    fn invalidate(&mut self, asid: Asid, what: Invalidate) -> &mut Bench {
        self.op(asid, Guest::Invalidate(what))
    }

    /// A touch of an address: frame, attributes and order of its page.
    fn touch(&mut self, asid: Asid, address: u64, kind: Kind) -> Result<(u64, u8, u8), String> {
        let vpn = Vpn((address & ((1 << 57) - 1)) >> self.os.page_shift());
        let asid = owner(asid, (address & ((1 << 57) - 1)) >> 12);
        let result = self.os.touch(asid, vpn, kind).map_err(|e| self.os.explain(e));
        self.os.check();
        let pte = result?.pte;
        assert_eq!(self.os.pte(asid, vpn), Some(pte));
        Ok((pte.pfn.0, pte.attr.0, pte.order))
    }

    fn load(&mut self, asid: Asid, address: u64) -> (u64, u8, u8) {
        self.touch(asid, address, Kind::Load).unwrap()
    }

    /// What the page table says, without a touch.
    fn pte(&self, asid: Asid, address: u64) -> Option<(u64, u8, u8)> {
        let page = (address & ((1 << 57) - 1)) >> self.os.page_shift();
        self.os.pte(owner(asid, (address & ((1 << 57) - 1)) >> 12), Vpn(page)).map(|p| (p.pfn.0, p.attr.0, p.order))
    }

    /// The changes since the last call, without those that say what came.
    fn changes(&mut self) -> Vec<(u32, u64, u64, What)> {
        self.all_changes().into_iter().filter(|change| change.3 != What::Mapped).collect()
    }

    /// The changes since the last call: address space, first page, pages, what.
    fn all_changes(&mut self) -> Vec<(u32, u64, u64, What)> {
        let mut changes = Vec::new();
        self.os.take_changes(&mut changes);
        let flat = |Change { asid, pages: VpnRange { start, pages }, what, .. }| (asid.0, start.0, pages, what);
        changes.into_iter().map(flat).collect()
    }

    fn refusal(&self) -> &str {
        self.os.refusal().unwrap_or("")
    }
}

/// An invalidation of a page by its address.
fn page(address: u64) -> Invalidate {
    Invalidate { tag: Some(0), bytes: Some((address, 4096)), global: true, leaves: false, broadcast: false }
}
