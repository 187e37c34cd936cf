//! Hosts with merged tables (SHD, AGI): references by hand, traps by cause, and that misses are those of other hosts.

use crate::nested::{Dimension, references};
use crate::tlb::contract::{Lookup, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::{design, keys_of};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Value, json};

/// Every page is mapped, in mappings of one order.
struct Uniform(u8);

impl PageTableView for Uniform {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Pte { pfn: Pfn(vpn.0 + (1 << 30)), attr: Attr(3), order: self.0 })
    }
}

/// A guest with small TLBs.
struct Vm(Box<dyn Tlb>);

impl Vm {
    fn build(more: Value) -> Result<Vm, String> {
        let mut given = json!({"l1d": "4K:1+2M:1", "l1i": "4K:1", "l2": "none", "guest": "walk"});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (given, hierarchy) = (given.as_object().unwrap(), design("hierarchy").unwrap());
        Ok(Vm((hierarchy.build)(&Params::resolve(&keys_of(hierarchy, given), given)?)?))
    }

    fn new(more: Value) -> Vm {
        Vm::build(more).unwrap()
    }

    /// The references of both dimensions for a page at this instruction.
    fn walk(&mut self, (position, asid, vpn): (u64, u32, u64), kind: Kind, order: u8) -> u64 {
        let table = Uniform(order);
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let before = self.0.counts().walk_references();
        self.0.latest_fetch(0);
        self.0.position(position);
        self.0.access(at, table.pte(at.asid, at.vpn).unwrap(), &table, &mut Unfiltered::default());
        self.0.counts().walk_references() - before
    }

    fn load(&mut self, position: u64, vpn: u64) -> u64 {
        self.walk((position, 0, vpn), Kind::Load, 0)
    }

    fn map(&mut self, vpn: u64, pages: u64) {
        self.0.mapped(Asid(0), VpnRange { start: Vpn(vpn), pages }, &Uniform(0));
    }

    fn unmap(&mut self, vpn: u64, pages: u64) {
        let pages = VpnRange { start: Vpn(vpn), pages };
        self.0.invalidate(Asid(0), pages, &mut Unfiltered::default());
        self.0.unmapped(Asid(0), pages, &Uniform(0));
    }

    fn traps(&self) -> [u64; 5] {
        ["fills", "changes", "faults", "switches", "dirty"].map(|name| self.count(name))
    }

    fn count(&self, name: &str) -> u64 {
        self.0.counts().parts.count("host", name)
    }
}

/// SHD-1, SHD-2.
#[test]
fn shadow_walks_are_native_and_changes_trap() {
    let mut vm = Vm::new(json!({"host": "shadow"}));
    vm.map(0, 1);
    assert_eq!((vm.load(0, 0), vm.traps()), (4, [1, 0, 1, 0, 0]), "a fault, and the first use");
    assert_eq!((vm.load(0, 1), vm.load(0, 0)), (4, 4));
    assert_eq!(vm.traps(), [2, 0, 1, 0, 0]);
    assert_eq!(vm.walk((0, 0, 1), Kind::Store, 0), 4);
    assert_eq!((vm.load(0, 0), vm.walk((0, 0, 1), Kind::Store, 0)), (4, 4));
    assert_eq!(vm.traps(), [2, 0, 1, 0, 1], "the first store to a clean page");
    vm.unmap(0, 8);
    assert_eq!(vm.traps(), [2, 2, 1, 0, 1], "two of these had an entry");
    vm.map(0, 8);
    assert_eq!(vm.walk((0, 0, 3), Kind::Store, 0), 4);
    assert_eq!(vm.traps(), [3, 2, 2, 0, 1], "made for a store, it is not clean");
    for to in [0, 1, 1, 0] {
        vm.0.switch(Asid(to), &mut Unfiltered::default());
    }
    assert_eq!(vm.traps(), [3, 2, 2, 2, 1]);
    // The merged table has the smaller of both leaves.
    let mut vm = Vm::new(json!({"host": "shadow"}));
    assert_eq!(vm.walk((0, 0, 0), Kind::Load, 9), 4);
    let mut vm = Vm::new(json!({"host": "shadow", "host_page": "2M"}));
    assert_eq!(vm.walk((0, 0, 0), Kind::Load, 9), 3);
    assert_eq!((vm.walk((0, 0, 1 << 18), Kind::Load, 0), vm.traps()[0]), (4, 2));
    // Walk caches are of the merged table.
    let mut vm = Vm::new(json!({"host": "shadow", "pwc_pd": 4}));
    assert_eq!((vm.load(0, 0), vm.load(0, 1)), (4, 1));
}

/// The laws of AGI: never is shadow, always is nested.
#[test]
fn agile_extremes() {
    let mut never = Vm::new(json!({"host": "agile", "agile_nested": "never"}));
    let mut shadow = Vm::new(json!({"host": "shadow"}));
    let mut always = Vm::new(json!({"host": "agile", "agile_nested": "always"}));
    let mut nested = Vm::new(json!({}));
    let walk = Dimension::Walk { levels: 4 };
    for i in 0..40u64 {
        let (vpn, kind) = (i * i % 23, if i % 3 == 0 { Kind::Store } else { Kind::Load });
        let [a, b, c, d] = [&mut never, &mut shadow, &mut always, &mut nested].map(|vm| {
            match i % 7 {
                0 => vm.map(vpn, 3),
                5 => vm.unmap(vpn, 2),
                _ => {}
            }
            vm.walk((i, (i / 20) as u32, vpn), kind, 0)
        });
        assert_eq!((a, c), (b, d));
        assert!(d == 0 || d == references(walk, walk));
    }
    assert_eq!(never.traps(), shadow.traps());
    assert_eq!(always.traps(), [0; 5]);
    let misses = [&never, &shadow, &always, &nested].map(|vm| vm.0.counts().misses);
    assert_eq!(misses, [misses[0]; 4]);
}

/// AGI-1: 20, 16, 12, 8 for 0 to 3 levels that are merged, 4 for all; and with `agile_first = walk` 4 more.
#[test]
fn agile_references_by_the_levels_that_are_merged() {
    for (first, more) in [("held", 0), ("walk", 4)] {
        let mut vm = Vm::new(json!({"host": "agile", "agile_first": first, "agile_epoch": 100}));
        let vpn = 1 << 30 | 1 << 20 | 1 << 10;
        assert_eq!(vm.load(0, vpn), 4);
        // Two writes of one table.
        vm.map(vpn, 2);
        assert_eq!(vm.load(1000, vpn + 1), 8 + more);
        // Two tables in another directory: that one is written twice. And so on up.
        for (level, sum) in [(1u64, 12), (2, 16), (3, 20)] {
            let at = 2000 * level;
            let base = vpn + (1 << (9 * (level + 1) + 1));
            vm.map(base, 1);
            vm.map(base + (1 << (9 * level)), 1);
            assert_eq!(vm.load(at, base), sum + more, "level {level}");
        }
    }
}

/// AGI-2, AGI-3.
#[test]
fn agile_nodes_come_and_go() {
    let mut vm = Vm::new(json!({"host": "agile", "agile_epoch": 100}));
    vm.map(0, 1);
    assert_eq!((vm.load(0, 0), vm.traps()), (4, [1, 0, 1, 0, 0]));
    vm.map(1, 1);
    assert_eq!((vm.load(101, 1), vm.count("to_nested")), (4, 0), "more than an epoch later");
    vm.unmap(1, 1);
    assert_eq!((vm.load(201, 0), vm.count("to_nested")), (8, 1));
    assert_eq!(vm.traps(), [2, 1, 2, 0, 0]);
    vm.unmap(0, 1);
    vm.map(0, 1);
    assert_eq!((vm.load(250, 1), vm.load(300, 0)), (8, 8));
    assert_eq!(vm.traps(), [2, 1, 2, 0, 0], "nothing of a nested node traps");
    assert_eq!(vm.load(350, 1), 8);
    assert_eq!((vm.load(351, 0), vm.count("to_merged")), (4, 1), "an epoch without writes");
    assert_eq!((vm.count("merged_walks"), vm.count("nested_walks")), (3, 4));
    assert_eq!(vm.traps()[0], 3);
}

#[test]
fn refusals() {
    for keys in [
        json!({"host": "shadow", "cores": 2}),
        json!({"host": "agile", "walk_cost": "caches"}),
        json!({"host": "agile", "guest": "none"}),
    ] {
        assert!(Vm::build(keys.clone()).err().unwrap().starts_with("host = "), "{keys}");
    }
    Vm::new(json!({"host": "agile", "walk_cost": "caches", "agile_nested": "always"}));
}
