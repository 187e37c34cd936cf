use super::*;
use crate::tlb::{FlushRequest, Lookup, Tlb, Unfiltered, design, keys_of};
use farreach_types::addr::Pfn;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Pte};
use std::collections::BTreeMap;

const ASID: Asid = Asid(1);

/// Base pages of one process, and 2 MB pages, by first page.
#[derive(Default)]
struct Pages(BTreeMap<u64, u8>);

impl PageTableView for Pages {
    fn pte(&self, _asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (first, order) = self.0.range(..=vpn.0).next_back()?;
        (vpn.0 - first < 1 << order).then(|| Pte { pfn: Pfn(vpn.0), attr: Attr::default(), order: *order })
    }
}

fn machine(keys: &str) -> Result<Box<dyn Tlb>, String> {
    let given = keys.split(',').map(|pair| pair.split_once('=').unwrap());
    let given = given.map(|(key, value)| (key.to_owned(), value.into())).collect();
    let design = design("hierarchy").unwrap();
    (design.build)(&Params::resolve(&keys_of(design, &given), &given)?)
}

/// Threads of one process on cores in order, which map, walk and change pages.
struct World {
    tlb: Box<dyn Tlb>,
    pages: Pages,
    unfiltered: Unfiltered,
}

impl World {
    fn new(keys: &str) -> World {
        World { tlb: machine(keys).unwrap(), pages: Pages::default(), unfiltered: Unfiltered::default() }
    }

    /// The thread with this number continues. Threads get cores in the order of their first run.
    fn run(&mut self, thread: u32) {
        self.tlb.switch(ASID, &mut self.unfiltered);
        self.tlb.thread(ASID, thread, &mut self.unfiltered);
    }

    fn map(&mut self, pages: VpnRange, order: u8) {
        self.pages.0.extend(pages.iter().step_by(1 << order).map(|vpn| (vpn.0, order)));
        self.tlb.mapped(ASID, pages, &self.pages);
    }

    fn load(&mut self, vpn: u64) {
        let pte = self.pages.pte(ASID, Vpn(vpn)).unwrap();
        self.tlb.access(Lookup { asid: ASID, vpn: Vpn(vpn), kind: Kind::Load }, pte, &self.pages, &mut self.unfiltered);
    }

    fn protect(&mut self, pages: VpnRange) {
        self.tlb.requested(FlushRequest { asid: ASID, pages, order: 0, tables: false, unmapped: false });
        self.tlb.invalidate(ASID, pages, &mut self.unfiltered);
        self.tlb.unmapped(ASID, pages, &self.pages);
    }

    fn unmap(&mut self, pages: VpnRange) {
        self.tlb.requested(FlushRequest { asid: ASID, pages, order: 0, tables: true, unmapped: false });
        self.pages.0.retain(|vpn, _| !pages.contains(Vpn(*vpn)));
        self.tlb.invalidate(ASID, pages, &mut self.unfiltered);
        self.tlb.unmapped(ASID, pages, &self.pages);
    }

    fn count(&self, part: &str, name: &str) -> u64 {
        self.tlb.counts().parts.get(part).unwrap().counters.get(name)
    }

    fn copies(&self, names: [&str; 3]) -> [u64; 3] {
        names.map(|name| self.count(COPIES, name))
    }
}

fn range(start: u64, pages: u64) -> VpnRange {
    VpnRange { start: Vpn(start), pages }
}

/// OS-MIT-1, OS-MIT-2: the example. 1 GB of base pages has 515 pages of page tables, 2060 on four nodes; a change of
/// 1 MB writes 256 entries, 1024 on four nodes.
#[test]
fn mitosis_writes_all_copies() {
    for (tables, pages, writes) in [("first_touch", 515, 256), ("away", 515, 256), ("replicated", 2060, 1024)] {
        let mut world = World::new(&format!("cores=4,numa_nodes=4,numa_tables={tables}"));
        world.run(0);
        world.map(range(1 << 18, 1 << 18), 0);
        let [made, copies, written] = world.copies(["pt_pages", "pt_copies", "pt_writes"]);
        assert_eq!((made, copies), (pages, pages - 515), "{tables}");
        // Every entry of a leaf, and one for each page below the root.
        assert_eq!(written, ((1 << 18) + 514) * (writes / 256), "{tables}");
        world.protect(range(1 << 18, 256));
        let after = world.copies(["pt_pages", "pt_writes", "replica_writes"]);
        assert_eq!(after[1] - written, writes, "{tables}");
        assert_eq!(after[2], after[1] / (writes / 256) * (writes / 256 - 1), "{tables}");
    }
}

/// OS-MIT-4: a walker reads the copy of its node, or that of the first node with one; without copies, where the page
/// was first needed.
#[test]
fn walkers_read_their_copies() {
    let reads = |tables: &str| {
        let mut world = World::new(&format!("cores=2,{tables}"));
        world.run(0);
        world.map(range(0, 8), 0);
        world.load(0);
        world.run(1);
        world.load(1);
        [LOCAL, REMOTE, REMOTE_MEMORY].map(|at| world.count(READS, READ_COUNTERS[at].name))
    };
    assert_eq!(reads("numa_tables=first_touch"), [4, 4, 4]);
    assert_eq!(reads("numa_tables=away"), [0, 8, 8]);
    assert_eq!(reads("numa_tables=replicated"), [8, 0, 0]);
    assert_eq!(reads("numa_tables=replicated,numa_replicas=1"), [4, 4, 4]);
    assert_eq!(reads("numa_tables=on_demand"), [8, 0, 0]);
}

/// OS-NPT-1: a walk on a node that lacks the entry takes a light fault, which copies it with its aligned neighbours.
#[test]
fn numapte_copies_what_is_walked() {
    for (degree, faults, copied) in [(0, 3, 3 + 3), (2, 2, 8 + 3), (9, 1, 16 + 3)] {
        let mut world = World::new(&format!("cores=2,numa_tables=on_demand,numa_prefetch={degree}"));
        world.run(0);
        world.map(range(0, 16), 0);
        world.load(0);
        assert_eq!(world.copies(["pt_pages", "pt_copies", "light_faults"]), [4, 0, 0]);
        world.run(1);
        [0, 1, 5].into_iter().for_each(|vpn| world.load(vpn));
        // Three links to the copies of the lower pages are entries, too.
        let found = world.copies(["pt_copies", "light_faults", "copied_entries"]);
        assert_eq!(found, [4, faults, copied], "degree {degree}");
        // A page that this node maps is in its copy and in that of the owner.
        let before = world.count(COPIES, "pt_writes");
        world.map(range(20, 1), 0);
        world.load(20);
        assert_eq!(world.count(COPIES, "light_faults"), faults);
        assert_eq!(world.count(COPIES, "pt_writes") - before, 2);
    }
}

/// OS-NPT-2, OS-NPT-3: the example. Of a region that nodes 0 and 2 of four touched, changes interrupt their cores
/// alone, and write their copies alone; what is freed has no sharers.
#[test]
fn numapte_interrupts_sharers() {
    let ipis = |tables: &str| {
        let mut world = World::new(&format!("cores=32,numa_nodes=4,numa_tables={tables}"));
        (0..32).for_each(|thread| world.run(thread));
        world.run(0);
        world.map(range(0, 16), 0);
        world.map(range(1 << 9, 1), 0);
        world.load(0);
        world.run(16);
        world.load(0);
        let before = world.count(COPIES, "pt_writes");
        world.protect(range(0, 1));
        let writes = world.count(COPIES, "pt_writes") - before;
        let ipis = world.tlb.counts().shootdown.ipis;
        // The neighbour of the region was never walked on node 2.
        world.protect(range(1 << 9, 1));
        let of_one = world.tlb.counts().shootdown.ipis - ipis;
        world.unmap(range(0, 16));
        world.run(0);
        world.map(range(0, 16), 0);
        let before = world.tlb.counts().shootdown.ipis;
        world.protect(range(0, 1));
        (ipis, writes, of_one, world.tlb.counts().shootdown.ipis - before)
    };
    assert_eq!(ipis("replicated"), (31, 4, 31, 31));
    assert_eq!(ipis("on_demand"), (15, 2, 8, 7));
}

/// A superpage that is split keeps its sharers: they may hold base pages of it (T94-42).
#[test]
fn parts_of_superpages_have_their_sharers() {
    let mut world = World::new("cores=2,numa_tables=on_demand");
    world.run(0);
    world.map(range(0, 512), 9);
    world.load(0);
    world.run(1);
    world.load(1);
    assert_eq!(world.copies(["pt_copies", "light_faults", "copied_entries"]), [3, 1, 1 + 2]);
    world.run(0);
    world.pages.0.extend((0..512).map(|vpn| (vpn, 0)));
    world.tlb.demote(ASID, range(0, 512), &mut world.unfiltered);
    world.tlb.mapped(ASID, range(0, 512), &world.pages);
    let before = world.tlb.counts().shootdown.ipis;
    world.protect(range(7, 1));
    assert_eq!(world.tlb.counts().shootdown.ipis - before, 1);
    world.run(1);
    world.load(9);
    assert_eq!(world.count(COPIES, "light_faults"), 1);
}

/// Without copies a page of the table has one, whichever node splits a superpage; and the root stays with its process
/// when all of it is unmapped.
#[test]
fn pages_without_copies_have_one() {
    for tables in ["first_touch", "away"] {
        let mut world = World::new(&format!("cores=2,numa_tables={tables}"));
        world.run(0);
        world.map(range(0, 512), 9);
        assert_eq!(world.copies(["pt_pages", "pt_copies", "pt_writes"]), [3, 0, 3]);
        world.run(1);
        world.pages.0.extend((0..512).map(|vpn| (vpn, 0)));
        world.tlb.demote(ASID, range(0, 512), &mut world.unfiltered);
        world.tlb.mapped(ASID, range(0, 512), &world.pages);
        // The page of the table, its link, and 512 leaves.
        assert_eq!(world.copies(["pt_pages", "pt_copies", "pt_writes"]), [4, 0, 3 + 1 + 512], "{tables}");
        world.unmap(range(0, 512));
        world.map(range(0, 1), 0);
        assert_eq!(world.copies(["pt_pages", "pt_copies", "replica_writes"]), [4 + 3, 0, 0], "{tables}");
    }
}

/// OS-MIT-2: an entry is written whenever it changes. A superpage takes the place of the link to the page of the table
/// below it, which is kept; a split writes the link again, and what frees the idle page writes none.
#[test]
fn superpages_take_the_place_of_links() {
    for (tables, copies) in [("first_touch", 1), ("replicated", 2)] {
        let mut world = World::new(&format!("cores=2,numa_tables={tables}"));
        world.run(0);
        let mut writes = |change: &dyn Fn(&mut World)| {
            let before = world.count(COPIES, "pt_writes");
            change(&mut world);
            (world.count(COPIES, "pt_writes") - before) / copies
        };
        let promote = |world: &mut World| {
            world.pages.0.clear();
            world.map(range(0, 512), 9);
        };
        let split = |world: &mut World| {
            world.tlb.demote(ASID, range(0, 512), &mut world.unfiltered);
            world.map(range(0, 512), 0);
        };
        assert_eq!(writes(&|world| world.map(range(0, 512), 0)), 3 + 512, "{tables}");
        assert_eq!(writes(&promote), 1, "{tables}");
        assert_eq!(writes(&split), 1 + 512, "{tables}");
        assert_eq!(writes(&promote), 1, "{tables}");
        // The superpage, and the links to the two pages of the table above it.
        assert_eq!(writes(&|world| world.unmap(range(0, 512))), 1 + 2, "{tables}");
        assert_eq!(world.count(COPIES, "pt_pages"), 4 * copies, "{tables}");
    }
}

/// OS-MIT-4: on a node without a copy a walker reads that of the first node, at each level.
#[test]
fn others_read_the_first_copy() {
    let given = [("numa_tables", "replicated"), ("numa_replicas", "2"), ("numa_nodes", "4"), ("cores", "4")];
    let given = given.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let params = Params::resolve(&keys_of(design("hierarchy").unwrap(), &given), &given).unwrap();
    let handle = Handle::new(&params, 4, &mut TlbCounts::default()).unwrap().unwrap();
    let mut numa = handle.get();
    numa.mapped(ASID, range(0, 1), &Pages(BTreeMap::from([(0, 0)])), 1);
    let copies = [0, 1, 2, 3].map(|node| [0, 3].map(|level| numa.copy_read(ASID, Vpn(0), level, node).0));
    assert_eq!(copies, [[0, 0], [1, 1], [0, 0], [0, 0]]);
}

/// OS-NPT-3: the sharers of a process leave with its tables. Another one with its number has none of them.
#[test]
fn sharers_leave_with_their_process() {
    let mut world = World::new("cores=2,numa_tables=on_demand");
    world.run(0);
    world.map(range(0, 512), 9);
    world.run(1);
    world.load(1);
    world.run(0);
    world.tlb.demote(ASID, range(0, 512), &mut world.unfiltered);
    world.pages.0.clear();
    world.map(range(0, 512), 0);
    let before = world.tlb.counts().shootdown.ipis;
    world.tlb.invalidate_space(ASID, &mut world.unfiltered);
    world.pages.0.clear();
    world.run(1);
    world.run(0);
    world.map(range(0, 1), 0);
    world.protect(range(0, 1));
    assert_eq!(world.tlb.counts().shootdown.ipis, before);
}

/// Machines for which nodes are not defined are refused at once, with key, value and what is allowed.
#[test]
fn other_machines_are_refused() {
    let said = |keys: &str| machine(keys).err().unwrap();
    let wrong = said("cores=3,numa_tables=replicated");
    assert!(wrong.contains("cores = 3") && wrong.contains("multiple of numa_nodes = 2"), "{wrong}");
    let wrong = said("cores=2,numa_tables=on_demand,shootdown=broadcast");
    assert!(wrong.contains("shootdown = broadcast") && wrong.contains("must be interrupts"), "{wrong}");
    let wrong = said("cores=2,numa_tables=away,guest=walk");
    assert!(wrong.contains("guest = walk") && wrong.contains("guest must be none"), "{wrong}");
    let wrong = said("cores=2,l2_shared=true,numa_tables=away");
    assert!(wrong.contains("l2_shared must be false"), "{wrong}");
}

/// Changes are told when all were made: a superpage is split and a part of it unmapped, so that the part is gone when
/// the split is told. Its invalidation comes behind that, and must reach the node all the same (OS-NPT-2).
#[test]
fn what_is_gone_before_it_is_told_is_interrupted() {
    let mut world = World::new("cores=2,numa_tables=on_demand");
    world.run(0);
    world.map(range(0, 32), 0);
    world.run(1);
    world.load(3);
    world.run(0);
    world.pages.0.retain(|vpn, _| *vpn != 3);
    world.tlb.demote(ASID, range(0, 16), &mut world.unfiltered);
    world.tlb.mapped(ASID, range(0, 16), &world.pages);
    let before = world.tlb.counts().shootdown.remote_invalidations;
    world.tlb.invalidate(ASID, range(3, 1), &mut world.unfiltered);
    world.tlb.unmapped(ASID, range(3, 1), &world.pages);
    assert_eq!(world.tlb.counts().shootdown.remote_invalidations - before, 2, "in both levels");
    assert_eq!(world.tlb.entries(), [], "nothing is left");
}
