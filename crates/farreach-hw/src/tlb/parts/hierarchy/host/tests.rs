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
use std::collections::BTreeMap;

/// Mappings by process and first page: their order.
#[derive(Default)]
struct View(BTreeMap<(u32, u64), u8>);

impl PageTableView for View {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (&(of, first), &order) = self.0.range(..=(asid.0, vpn.0)).next_back()?;
        let pte = Pte { pfn: Pfn(vpn.0 + (1 << 30)), attr: Attr(3), order };
        (of == asid.0 && vpn.0 - first < 1 << order).then_some(pte)
    }
}

/// A guest with small TLBs.
struct Vm(Box<dyn Tlb>, View);

impl Vm {
    fn build(more: Value) -> Result<Vm, String> {
        let mut given = json!({"l1d": "4K:1+2M:1", "l1i": "4K:1", "l2": "none", "guest": "walk"});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (given, hierarchy) = (given.as_object().unwrap(), design("hierarchy").unwrap());
        Ok(Vm((hierarchy.build)(&Params::resolve(&keys_of(hierarchy, given), given)?)?, View::default()))
    }

    fn new(more: Value) -> Vm {
        Vm::build(more).unwrap()
    }

    /// The references of both dimensions for a page at this instruction.
    fn look(&mut self, (position, asid, vpn): (u64, u32, u64), kind: Kind) -> u64 {
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let before = self.0.counts().walk_references();
        self.0.latest_fetch(0);
        self.0.position(position);
        self.0.access(at, self.1.pte(at.asid, at.vpn).unwrap(), &self.1, &mut Unfiltered::default());
        self.0.counts().walk_references() - before
    }

    fn load(&mut self, position: u64, vpn: u64) -> u64 {
        self.look((position, 0, vpn), Kind::Load)
    }

    fn store(&mut self, vpn: u64) -> u64 {
        self.look((0, 0, vpn), Kind::Store)
    }

    /// Mappings of this order in a row, in one report; what they cover was mapped as well as not.
    fn map_in(&mut self, (asid, vpn): (u32, u64), many: u64, order: u8) {
        let pages = VpnRange { start: Vpn(vpn), pages: many << order };
        self.1.0.retain(|&(of, first), _| of != asid || !pages.contains(Vpn(first)));
        self.1.0.extend((0..many).map(|i| ((asid, vpn + (i << order)), order)));
        self.0.mapped(Asid(asid), pages, &self.1);
    }

    fn map(&mut self, vpn: u64, pages: u64) {
        self.map_in((0, vpn), pages, 0);
    }

    fn unmap(&mut self, vpn: u64, pages: u64) {
        let pages = VpnRange { start: Vpn(vpn), pages };
        self.1.0.retain(|&(of, first), _| of != 0 || !pages.contains(Vpn(first)));
        self.0.invalidate(Asid(0), pages, &mut Unfiltered::default());
        self.0.unmapped(Asid(0), pages, &self.1);
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
    vm.map(1, 1);
    assert_eq!((vm.load(0, 1), vm.load(0, 0)), (4, 4));
    assert_eq!(vm.traps(), [2, 0, 2, 0, 0]);
    assert_eq!((vm.store(1), vm.load(0, 0), vm.store(1)), (4, 4, 4));
    assert_eq!(vm.traps(), [2, 0, 2, 0, 1], "the first store to a clean page");
    assert_eq!((vm.load(0, 0), vm.store(0), vm.store(0)), (4, 0, 0));
    assert_eq!(vm.traps(), [2, 0, 2, 0, 2], "the same where a TLB answers");
    vm.unmap(0, 8);
    assert_eq!(vm.traps(), [2, 2, 2, 0, 2], "two of these had an entry");
    vm.map(0, 8);
    assert_eq!(vm.store(3), 4);
    assert_eq!(vm.traps(), [3, 2, 3, 0, 2], "made for a store, it is not clean");
    for to in [0, 1, 1, 0] {
        vm.0.switch(Asid(to), &mut Unfiltered::default());
    }
    assert_eq!(vm.traps(), [3, 2, 3, 2, 2]);
    // Walk caches are of the merged table.
    let mut vm = Vm::new(json!({"host": "shadow", "pwc_pd": 4}));
    vm.map(0, 2);
    assert_eq!((vm.load(0, 0), vm.load(0, 1)), (4, 1));
}

/// SHD-1: the merged table has the smaller of both leaves. SHD-2: an entry of the guest is one, however large.
#[test]
fn shadow_of_superpages() {
    let mut vm = Vm::new(json!({"host": "shadow", "host_page": "2M"}));
    vm.map_in((0, 0), 1, 9);
    vm.map(1 << 18, 1);
    assert_eq!((vm.load(0, 0), vm.load(0, 1 << 18), vm.traps()[0]), (3, 4, 2));
    let mut vm = Vm::new(json!({"host": "shadow"}));
    vm.map_in((0, 0), 1, 9);
    assert_eq!((vm.load(0, 0), vm.store(1), vm.store(2)), (4, 4, 4));
    assert_eq!(vm.traps(), [3, 0, 1, 0, 0], "three merged entries of a page that is modified once");
    let split = |vm: &mut Vm| {
        vm.0.demote(Asid(0), VpnRange { start: Vpn(0), pages: 512 }, &mut Unfiltered::default());
        vm.map(0, 512);
    };
    split(&mut vm);
    assert_eq!(vm.traps(), [3, 1, 1, 0, 0], "one change, and no fault");
    assert_eq!((vm.load(0, 5), vm.store(5), vm.traps()), (4, 0, [4, 1, 1, 0, 0]), "modified as before");
    vm.map_in((0, 0), 1, 9);
    assert_eq!(vm.traps(), [4, 2, 1, 0, 0], "joined");
    split(&mut vm);
    vm.map_in((0, 0), 1, 9);
    vm.unmap(0, 512);
    assert_eq!(vm.traps(), [4, 2, 1, 0, 0], "not in the merged table");
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
            let asid = (i / 20) as u32;
            if i % 7 == 5 {
                vm.unmap(vpn, 2);
            }
            if !vm.1.0.contains_key(&(asid, vpn)) {
                vm.map_in((asid, vpn), 3, 0);
            }
            vm.look((i, asid, vpn), kind)
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
        vm.map(vpn, 1);
        assert_eq!(vm.load(0, vpn), 4);
        // Two writes of one table.
        vm.map(vpn + 1, 2);
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
    vm.unmap(1, 9);
    assert_eq!((vm.load(201, 0), vm.count("to_nested")), (8, 1));
    assert_eq!(vm.traps(), [2, 1, 2, 0, 0]);
    vm.map(1, 1);
    vm.unmap(1, 1);
    vm.map(1, 1);
    assert_eq!((vm.load(250, 1), vm.load(300, 0)), (8, 8));
    assert_eq!(vm.traps(), [2, 1, 2, 0, 0], "nothing of a nested node traps");
    assert_eq!(vm.load(350, 1), 8);
    assert_eq!((vm.load(351, 0), vm.count("to_merged")), (4, 1), "an epoch without writes");
    assert_eq!((vm.count("merged_walks"), vm.count("nested_walks")), (3, 4));
    assert_eq!(vm.traps()[0], 3);
    vm.map(3, 2);
    assert_eq!((vm.load(400, 3), vm.count("to_nested")), (8, 2));
    vm.map(5, 1);
    assert_eq!((vm.load(501, 4), vm.count("to_merged")), (4, 2), "one write after an epoch");
}

/// AGI-2: what is not mapped is not written when it is unmapped, and nodes take their history along.
#[test]
fn agile_writes() {
    let mut vm = Vm::new(json!({"host": "agile", "agile_epoch": 100}));
    vm.map(0, 1);
    assert_eq!(vm.load(0, 0), 4);
    vm.map(7, 1);
    assert_eq!(vm.load(101, 7), 4);
    vm.unmap(8, 504);
    assert_eq!((vm.load(102, 0), vm.count("to_nested")), (4, 0), "504 pages that were not mapped");
    vm.unmap(7, 1);
    vm.map(9, 1);
    assert_eq!((vm.load(103, 9), vm.count("to_nested")), (8, 1));
    vm.unmap(0, 512);
    vm.map(0, 1);
    assert_eq!((vm.load(104, 0), vm.count("to_nested")), (20, 2), "new nodes; the root was written twice");
}

/// Walk caches do not lead to the merged node of a node that is nested now.
#[test]
fn agile_walk_caches() {
    let mut vm = Vm::new(json!({"host": "agile", "agile_epoch": 100, "pwc_pd": 4}));
    vm.map(0, 1);
    assert_eq!(vm.load(0, 0), 4);
    vm.map(7, 1);
    assert_eq!((vm.load(101, 7), vm.load(102, 0)), (1, 1));
    vm.map(1, 1);
    assert_eq!((vm.load(103, 1), vm.load(104, 0)), (8, 1 + 4));
}

#[test]
fn refusals() {
    for keys in [json!({"host": "shadow", "cores": 2}), json!({"host": "agile", "guest": "none"})] {
        assert!(Vm::build(keys.clone()).err().unwrap().starts_with("host = "), "{keys}");
    }
    Vm::new(json!({"host": "agile", "walk_cost": "caches"}));
}
