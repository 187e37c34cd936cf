//! The hand-worked cases of the rules, with their numbers.

use super::world::World;
use super::{Keys, Machine};
use crate::tlb::contract::Outcome;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::restseg::{RestSeg, RestSegView};
use farreach_types::translation::PageTableView;

/// A TLB of one entry.
const ONE: [(&str, &str); 3] = [("l1d", "4K|2M:1"), ("l1i", "4K:1"), ("l2", "none")];

fn one(keys: Keys) -> Machine {
    Machine::new(&[&ONE, keys].concat())
}

/// Walks, hits, probes, writes after some loads.
fn pom(world: &World, pages: &[u64]) -> [u64; 4] {
    let mut machine = one(&[("behind", "pom")]);
    pages.iter().for_each(|page| _ = machine.load(world, *page));
    machine.check_laws();
    let count = |name| machine.count(name);
    [machine.counts().walk.walks, count("hits"), count("probes_first") + count("probes_second"), count("writes")]
}

/// POM-3.
#[test]
fn pom_hand() {
    let base = World::with(0..8, 0);
    assert_eq!(pom(&base, &[1, 2, 1, 2, 1, 2]), [2, 4, 8, 2]);
    let large = World::with(0..8, 9);
    assert_eq!(pom(&large, &[0x201, 0x402, 0x201, 0x402, 0x201, 0x402]), [2, 4, 8, 2], "predictor bits of their own");
    let mut both = World::with(0..8, 0);
    both.map(0, 0x400, 0x10000, 9);
    assert_eq!(pom(&both, &[1, 0x401, 1, 0x401, 1, 0x401]), [2, 4, 12, 2], "one predictor bit");
}

/// POM-3: pages of 1 GB are probed for in both halves and never written. POM-5: one background reference an entry.
#[test]
fn pom_largest_pages_and_changes() {
    let mut world = World::with(0..8, 0);
    world.map(0, 1 << 18, 1 << 18, 18);
    let mut machine = one(&[("behind", "pom")]);
    for page in [1 << 18, 1, (1 << 18) + 5, 2, 3] {
        assert_eq!(machine.load(&world, page), Outcome::TagMiss);
    }
    assert_eq!([machine.count("writes"), machine.count("probes_second")], [3, 5]);
    machine.change(0, VpnRange { start: Vpn(0), pages: 3 });
    assert_eq!([machine.count("invalidated"), machine.part("pom").memory.made.background_references], [2, 3 + 2]);
    assert_eq!([1, 3].map(|page| machine.load(&world, page)), [Outcome::TagMiss, Outcome::Hit]);
    machine.check_laws();
}

/// POM-6: an entry has what both dimensions make together, as large as both allow; a hit spares both walks.
#[test]
fn pom_in_virtual_machines() {
    let hosts: [(Keys, u64); 2] = [(&[], 24), (&[("host", "shadow")], 4)];
    for (host, references) in hosts {
        let mut machine = one(&[&[("behind", "pom"), ("guest", "walk")], host].concat());
        let world = World::with(0..8, 0);
        [1, 2, 1, 2, 1, 2].into_iter().for_each(|page| _ = machine.load(&world, page));
        assert_eq!([machine.counts().walk.walks, machine.part("pom").counters.get("hits")], [2, 4]);
        assert_eq!(machine.counts().walk_references(), 2 * references, "{host:?}");
    }
    for (fracture, hits) in [("false", [0, 2]), ("true", [1, 0])] {
        let mut machine = one(&[("behind", "pom"), ("guest", "walk"), ("host_fracture", fracture)]);
        let world = World::with(0..8, 9);
        [0x201, 0x402, 0x201, 0x403].into_iter().for_each(|page| _ = machine.load(&world, page));
        assert_eq!(["hits_4k", "hits_2m"].map(|name| machine.count(name)), hits, "host_fracture = {fracture}");
        machine.check_laws();
    }
}

/// POM-2: LRU in a set of four.
#[test]
fn pom_sets() {
    let world = World::with(0..64, 0);
    let mut machine = one(&[("behind", "pom"), ("pom_4k", "16")]);
    let mut ends =
        |pages: &[u64]| pages.iter().map(|page| machine.load(&world, *page) == Outcome::Hit).collect::<Vec<_>>();
    ends(&[0, 4, 8, 12]);
    assert_eq!(ends(&[0, 16, 0, 4]), [true, false, true, false], "page 4 was the oldest of set 0");
    assert_eq!(machine.count("evicted"), 2);
}

/// Restrictive segments of 4 sets of 2 ways for base pages, and of 2 sets of a way for superpages.
fn restricted() -> World {
    let segment = |first, order, sets, ways| RestSeg { first: Pfn(first), order, sets, ways, mixed: None };
    World::restricted(vec![segment(1 << 20, 0, 4, 2), segment(1 << 21, 9, 2, 1)])
}

/// UTO-1 to UTO-5, UTO-7: pages 0, 4 and 8 have set 0, which has two ways, so that page 8 lies elsewhere.
#[test]
fn utopia_hand() {
    let mut world = restricted();
    assert_eq!([0, 4, 8].map(|page| world.place(0, page, 0)), [true, true, false]);
    world.map(0, 8, 99, 0);
    assert_eq!([0, 4].map(|page| world.pte(Asid(0), Vpn(page)).unwrap().pfn.0 - (1 << 20)), [0, 1]);
    for walks in ["after", "parallel"] {
        let mut machine = one(&[("behind", "utopia"), ("uto_walk", walks)]);
        assert_eq!([0, 4, 8].map(|page| machine.load(&world, page)), [Outcome::Hit, Outcome::Hit, Outcome::TagMiss]);
        // Both numbers of used ways, and the tags of set 0; there are none of superpages.
        let made = |machine: &Machine| machine.part("utopia").memory.made;
        assert_eq!([made(&machine).references, made(&machine).steps, machine.counts().walk.references()], [3, 2, 4]);
        assert_eq!([0, 4, 8].map(|page| machine.load(&world, page)), [Outcome::Hit, Outcome::Hit, Outcome::TagMiss]);
        assert_eq!([made(&machine).references, machine.counts().walk.references()], [3, 8], "caches are warm");
        assert_eq!(["rsw", "rsw_hits", "sf_references", "tar_references"].map(|n| machine.count(n)), [6, 4, 2, 1]);
        let background = made(&machine).background_references;
        assert_eq!(background, if walks == "parallel" { 16 } else { 0 }, "UTO-4: of both");
        machine.check_laws();
    }
    assert_eq!([0, 1].map(|set| world.used(0, set)), [2, 0], "UTO-2");
}

/// UTO-3: of a set without pages no tags are read; superpages have a segment of their own.
#[test]
fn utopia_of_two_sizes() {
    let mut world = restricted();
    assert!(world.place(0, 0, 0) && world.place(0, 512, 9) && world.place(0, 1024, 9) && !world.place(0, 2048, 9));
    world.map(0, 2048, 1 << 22, 9);
    world.map(0, 3, 7, 0);
    let mut machine = one(&[("behind", "utopia")]);
    let mut made = |page, outcome| {
        let before = machine.part("utopia").memory.made;
        assert_eq!(machine.load(&world, page), outcome);
        let now = machine.part("utopia").memory.made;
        [now.references - before.references, now.steps - before.steps]
    };
    assert_eq!(made(3, Outcome::TagMiss), [3, 2], "set 3 is empty, set 0 of superpages is not");
    assert_eq!(made(512 + 5, Outcome::Hit), [3, 2], "sets 1 of both: one is empty");
    assert_eq!(made(1024 + 4, Outcome::Hit), [2, 2], "set 0 of both: that of superpages is in the caches");
    assert_eq!(made(0, Outcome::Hit), [0, 0]);
    assert_eq!(made(2048 + 1, Outcome::TagMiss), [0, 0], "sets 1 and 0, which are in the caches; it is elsewhere");
    assert_eq!([machine.count("rsw_hits_4k"), machine.count("rsw_hits_2m")], [1, 2]);
    machine.check_laws();
}

/// Caches of one set: that of the other size is another.
#[test]
fn utopia_caches() {
    let mut world = restricted();
    (0..4).for_each(|page| assert!(world.place(0, page, 0)));
    for (entries, ways, references) in [("1", "1", 17), ("2", "1", 17), ("2", "2", 17), ("4", "1", 9)] {
        let mut machine = one(&[("behind", "utopia"), ("uto_cache_entries", entries), ("uto_cache_ways", ways)]);
        (0..8).for_each(|page| _ = machine.load(&world, page % 4));
        assert_eq!(
            machine.part("utopia").memory.made.references,
            references,
            "1 of superpages, 8 of base pages a round"
        );
    }
}

/// Without RestSegs there is nothing to walk.
#[test]
fn utopia_without_its_placement() {
    let world = World::with(0..4, 0);
    let mut machine = one(&[("behind", "utopia")]);
    (0..4).for_each(|page| assert_eq!(machine.load(&world, page), Outcome::TagMiss));
    assert_eq!([machine.count("rsw"), machine.part("utopia").memory.made.references], [0, 0]);
}

/// Keys of Victima.
fn victima(keys: Keys) -> Machine {
    one(&[&[("behind", "victima"), ("walk_cost", "caches"), ("cache_l2", "256K/8")], keys].concat())
}

/// VIC-2, VIC-3.
#[test]
fn victima_hand() {
    for walks in ["none", "raced"] {
        let world = World::with(0..8, 0);
        let mut machine = victima(&[("vic_frequency_at", "0"), ("vic_cost_at", "0"), ("vic_walk", walks)]);
        (0..16).for_each(|i| _ = machine.load(&world, i % 8));
        assert_eq!([machine.counts().walk.walks, machine.count("hits"), machine.count("inserted")], [1, 15, 1]);
        let memory = machine.part("victima").memory;
        assert_eq!([memory.answered.l2, memory.made.steps], [15, 15], "the price of one hit in the cache each");
        assert_eq!(memory.made.background_references, if walks == "raced" { 15 } else { 0 });
        assert_eq!(machine.counts().walk.references(), 4);
    }
}

/// VIC-4: with its thresholds a page is costly after a walk that read memory.
#[test]
fn victima_predicts_by_walks_that_read_memory() {
    let world = World::with(0..16, 0);
    let mut machine = victima(&[]);
    let mut walks = |page| {
        machine.load(&world, page);
        [machine.counts().walk.walks, machine.count("inserted")]
    };
    assert_eq!(walks(0), [1, 1], "all four nodes were in memory");
    assert_eq!(walks(8), [2, 2], "the line of its entry was in memory");
    assert_eq!(walks(1), [2, 2]);
    assert_eq!(walks(9), [2, 2]);
}

/// VIC-3: what the second level evicts is inserted if it is costly and is not there.
#[test]
fn victima_inserts_what_the_second_level_evicts() {
    let world = World::with(0..64, 0);
    let levels = [("l2", "4K:2"), ("vic_frequency_at", "1"), ("vic_cost_at", "0")];
    let keys = [&ONE[..2], &[("behind", "victima"), ("walk_cost", "caches")], &levels[..]].concat();
    let mut machine = Machine::new(&keys);
    [0, 8].into_iter().for_each(|page| _ = machine.load(&world, page));
    assert_eq!(machine.count("inserted"), 2, "at the ends of walks");
    machine.change(0, VpnRange { start: Vpn(4), pages: 1 });
    assert_eq!(machine.count("invalidated"), 0, "seven translations are left");
    assert_eq!(machine.load(&world, 4), Outcome::TagMiss, "VIC-6");
    assert_eq!(machine.count("inserted"), 2, "the line is there, and gets the translation again");
    assert_eq!(machine.count("background_walks"), 0);
    machine.change(0, VpnRange { start: Vpn(8), pages: 8 });
    assert_eq!(machine.count("invalidated"), 1);
    assert_eq!(machine.load(&world, 16), Outcome::TagMiss);
    machine.check_laws();
    assert_eq!([machine.count("resident"), machine.count("inserted")], [2, 3]);
}

/// SPT-2.
#[test]
fn spectlb_hand() {
    let mut world = World::default();
    (0..10).for_each(|page| world.map(0, page, (7 << 9) + page, 0));
    let counts = |world: &World| {
        let mut machine = Machine::new(&[("behind", "spectlb")]);
        (0..10).for_each(|page| _ = machine.load(world, page));
        machine.check_laws();
        let memory = machine.part("spectlb").memory;
        ["none", "correct", "wrong"]
            .map(|name| machine.count(name))
            .into_iter()
            .chain([memory.hidden_references])
            .collect()
    };
    let without: Vec<u64> = counts(&world);
    assert_eq!(without, [10, 0, 0, 0], "a placement without reservations");
    world.reservations.insert((0, 0), Pfn(7 << 9));
    assert_eq!(counts(&world), [1, 9, 0, 9 * 4], "SPT-4: all four nodes of nine walks are hidden");
}

/// SPT-3: an entry that was wrong is dropped, and so is one whose pages change.
#[test]
fn spectlb_drops_what_was_wrong() {
    let mut world = World::default();
    (0..10).for_each(|page| world.map(0, page, (7 << 9) + page, 0));
    world.reservations.insert((0, 0), Pfn(7 << 9));
    world.map(0, 3, 99, 0);
    let mut machine = Machine::new(&[("behind", "spectlb")]);
    let mut after = |page: u64| {
        machine.load(&world, page);
        ["none", "correct", "wrong"].map(|name| machine.count(name))
    };
    assert_eq!([after(0), after(1), after(3), after(4), after(5)].last(), Some(&[2, 2, 1]));
    machine.change(0, VpnRange { start: Vpn(9), pages: 1 });
    machine.load(&world, 6);
    assert_eq!(machine.count("none"), 3);
}

/// SPO-3.
#[test]
fn spot_hand() {
    let world = World::with(0..64, 0);
    let mut machine = Machine::new(&[("behind", "spot")]);
    let after = (0..6).map(|page| {
        machine.look_up(&world, 0, page, Kind::Load, 0x400);
        ["none", "correct", "wrong"].map(|name| machine.count(name))
    });
    assert_eq!(after.collect::<Vec<_>>(), [[1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0], [2, 3, 0], [2, 4, 0]]);
}

/// SPO-4: a correct prediction hides the references of both dimensions.
#[test]
fn spot_in_virtual_machines() {
    let world = World::with(0..64, 0);
    let mut machine = Machine::new(&[("behind", "spot"), ("guest", "walk")]);
    (0..6).for_each(|page| _ = machine.look_up(&world, 0, page, Kind::Load, 0x400));
    assert_eq!([machine.count("correct"), machine.counts().walk_references()], [4, 6 * 24]);
    assert_eq!(machine.part("spot").memory.hidden_references, 4 * 24);
    machine.check_laws();
}

/// SPO-3: short runs make no entry, and what is wrong twice is learnt anew.
#[test]
fn spot_learns_another_distance() {
    let mut world = World::with(0..64, 0);
    (100..120).for_each(|page| world.map(0, page, page + 7, 0));
    let mut machine = Machine::new(&[("behind", "spot")]);
    let mut after = |pc, page| {
        machine.look_up(&world, 0, page, Kind::Load, pc);
        ["none", "correct", "wrong"].map(|name| machine.count(name))
    };
    assert_eq!([after(8, 100), after(8, 101), after(8, 102)], [[1, 0, 0], [2, 0, 0], [3, 0, 0]], "a run of 20 pages");
    [0, 1, 2].into_iter().for_each(|page| _ = after(4, page));
    assert_eq!(after(4, 103), [5, 1, 1], "3 to 2");
    assert_eq!(after(4, 104), [5, 1, 2], "2 to 1");
    assert_eq!(after(4, 105), [6, 1, 2], "1 to 0: the distance is replaced");
    assert_eq!([after(4, 106), after(4, 107)], [[7, 1, 2], [7, 2, 2]]);
}

/// ASA-3.
#[test]
fn asap_hand() {
    let mut world = World::with(0..16, 0);
    world.map(0, 1 << 12, 1 << 12, 9);
    world.regions = vec![VpnRange { start: Vpn(0), pages: 8 }, VpnRange { start: Vpn(1 << 12), pages: 512 }];
    let price = |pages: &[u64], keys: Keys| {
        let mut machine = one(&[&[("behind", "asap")], keys].concat());
        pages.iter().for_each(|page| _ = machine.load(&world, *page));
        machine.check_laws();
        let (walk, memory) = (machine.counts().walk.references(), machine.part("asap").memory);
        [walk - memory.hidden_references, walk + memory.made.background_references]
    };
    assert_eq!(price(&[3], &[]), [2, 6], "covered");
    assert_eq!(price(&[9], &[]), [4, 4], "not covered");
    assert_eq!(price(&[1 << 12], &[]), [2, 3 + 1], "the leaf is that of 2 MB");
    assert_eq!(price(&[2, 3], &[("pwc_pdpt", "4")]), [2 + 1, 6 + 4], "walk caches skip the levels above");
    assert_eq!(price(&[2, 3], &[("pwc_pd", "4")]), [2 + 1, 6 + 3], "only the leaf was read");
}

/// ASA-3 with caches: the slower of both ways counts.
#[test]
fn asap_with_caches() {
    let mut world = World::with(0..16, 0);
    world.regions = vec![VpnRange { start: Vpn(0), pages: 16 }];
    let mut machine = one(&[("behind", "asap"), ("walk_cost", "caches"), ("walker_reads", "l2")]);
    machine.load(&world, 0);
    let hidden = machine.part("asap").memory.hidden_answered;
    assert_eq!([hidden.memory, hidden.total()], [2, 2], "four reads of memory, of which two are waited for");
    machine.load(&world, 8);
    let hidden = machine.part("asap").memory.hidden_answered;
    assert_eq!([hidden.l2, hidden.memory], [3, 2], "the leaf is in memory; the nodes above are hidden behind it");
}
