//! The hand-worked cases of the rules, with their numbers, and what a second level must equal, on random streams with
//! changes, switches and superpages.

use super::SECOND_LEVEL;
use crate::tlb::contract::Outcome;
use crate::tlb::parts::additions::tests::world::{Stream, World};
use crate::tlb::parts::additions::tests::{Keys, Machine, refusal};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{Parts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;

/// A first level of one base page on each side.
const ONE: [(&str, &str); 3] = [("l1d", "4K:1"), ("l1i", "4K:1"), ("replacement", "lru")];

fn one(second: &'static str, keys: Keys) -> Machine {
    Machine::new(&[&ONE[..], &[(SECOND_LEVEL.name, second)], keys].concat())
}

/// Which of these loads walk.
fn walks(machine: &mut Machine, world: &World, pages: &[u64]) -> Vec<bool> {
    pages.iter().map(|page| machine.load(world, *page) != Outcome::Hit).collect()
}

fn many(machine: &mut Machine, world: &World, pages: impl IntoIterator<Item = u64>) -> usize {
    let pages: Vec<u64> = pages.into_iter().collect();
    walks(machine, world, &pages).into_iter().filter(|walk| *walk).count()
}

/// MIX-1, MIX-2, MIX-4.
#[test]
fn mix_hand() {
    let mut world = World::with(0..1, 9);
    world.map(0, 512, 77, 0);
    for step in [1, 3, 511, 255] {
        let mut machine = one("mix", &[("mix_entries", "4"), ("mix_ways", "1")]);
        assert_eq!(many(&mut machine, &world, (0..512).map(|i| i * step % 512)), 1, "in steps of {step}");
        assert_eq!(walks(&mut machine, &world, &[512, 4, 5]), [true, true, false]);
        assert_eq!([machine.count("mirror_fills"), machine.count("whole_fills"), machine.count("writes")], [1, 1, 5]);
        assert_eq!(machine.counts().evictions, 2, "MIX-5: a mirror, and the base page");
        machine.change(0, VpnRange { start: Vpn(9), pages: 1 });
        assert_eq!(machine.counts().invalidations, 4, "MIX-5: one a mirror");
        machine.check_laws();
    }
}

/// MIX-3, MIX-4: superpages in a row share an entry; a lost mirror is filled with its bundle; and one that is filled
/// later joins.
#[test]
fn mix_bundles() {
    let mut world = World::with(0..4, 9);
    world.map(0, 4 << 9, (1 << 20) + (9 << 9), 9);
    let mut machine = one("mix", &[("mix_entries", "4"), ("mix_ways", "1")]);
    let first = |superpage: u64| superpage << 9;
    assert_eq!(walks(&mut machine, &world, &[0, first(1), first(3) + 7, first(2)]), [true, false, false, false]);
    assert_eq!(machine.counts().preloaded, 3);
    assert_eq!(walks(&mut machine, &world, &[first(4), first(4) + 1, first(3) + 1]), [true, false, true]);
    assert_eq!([machine.count("mirror_fills"), machine.count("whole_fills")], [0, 3], "no mirror was left");
    let mut machine = one("mix", &[("mix_entries", "4"), ("mix_ways", "1"), ("mix_bundle", "2")]);
    assert_eq!(walks(&mut machine, &world, &[0, first(1), first(2)]), [true, false, true], "groups of two");

    let mut world = World::with(0..1, 9);
    let mut machine = one("mix", &[("mix_entries", "4"), ("mix_ways", "1")]);
    machine.load(&world, 0);
    world.map(0, first(1), (1 << 20) + first(1), 9);
    assert_eq!(walks(&mut machine, &world, &[first(1), 3, first(1) + 3]), [true, false, false]);
    assert_eq!([machine.count("joins"), machine.counts().evictions], [4, 0]);
}

/// ANC-2, ANC-3.
#[test]
fn anchor_hand() {
    let world = World::with(0..16, 0);
    let mut machine = one("anchor", &[("l2", "4K:16/4"), ("anchor_distance", "8")]);
    assert_eq!(many(&mut machine, &world, 0..16), 2);
    assert_eq!([machine.count("hits"), machine.count("fills"), machine.count("reads")], [14, 2, 0]);
    assert_eq!(machine.part("anchor").memory.made.references, 0);
}

/// ANC-3: the entry of the anchor in another line, and in another page table.
#[test]
fn anchor_references() {
    let world = World::with(0..2048, 0);
    for (distance, page, caches, references) in [
        ("16", 9, "0", 1),
        ("16", 7, "0", 0),
        ("512", 511, "0", 1),
        ("1024", 600, "0", 4),
        ("1024", 600, "4", 2),
        ("1024", 1040, "4", 1),
    ] {
        let keys = [("l2", "4K:16/4"), ("anchor_distance", distance), ("pwc_pd", caches), ("pwc_pdpt", caches)];
        let mut machine = one("anchor", &keys);
        machine.load(&world, page);
        let made = machine.part("anchor").memory.made;
        assert_eq!([made.references, made.steps], [references; 2], "{distance} {page}");
    }
}

/// ANC-1, ANC-5: what the anchor does not reach has an entry of its own; a change drops both.
#[test]
fn anchor_rows_end() {
    let mut world = World::with(0..3, 0);
    (3..8).for_each(|page| world.map(0, page, 5000 + 2 * page, 0));
    let mut machine = one("anchor", &[("l2", "4K:16"), ("anchor_distance", "8")]);
    assert_eq!(walks(&mut machine, &world, &[1, 0, 2, 3, 4, 3, 0]), [true, false, false, true, true, false, false]);
    assert_eq!(machine.count("fills"), 1);
    machine.change(0, VpnRange { start: Vpn(4), pages: 1 });
    assert_eq!(walks(&mut machine, &world, &[3, 2, 4]), [false, true, true]);
}

/// ANC-4: at the first miss of the first level in an epoch, the system chooses by the runs that it has. Another
/// distance drops all entries of the process.
#[test]
fn anchor_distances_are_chosen() {
    let world = World::with(0..64, 0);
    let mut machine = one("anchor", &[("l2", "4K:16/4"), ("anchor_distance", "8"), ("anchor_epoch", "1000")]);
    let mut at = |position: u64, page: u64| {
        machine.tlb.position(position);
        let walks = machine.load(&world, page) != Outcome::Hit;
        let count = |name| machine.count(name);
        (walks, ["choices", "changes", "rewrites", "distances"].map(count), count("dropped"))
    };
    assert_eq!(at(0, 0), (true, [0; 4], 0));
    assert_eq!(at(999, 7), (false, [0; 4], 0));
    assert_eq!(at(1700, 7), (false, [0; 4], 0), "no miss of the first level");
    assert_eq!(at(1800, 1), (true, [1, 1, 1, 64], 2), "the anchor and the page in the first level are gone");
    assert_eq!(at(1900, 63), (false, [1, 1, 1, 64], 2));
    assert_eq!(at(2500, 9), (false, [2, 1, 1, 128], 2), "the same distance: nothing goes");
    assert_eq!(at(9000, 33), (false, [3, 1, 1, 192], 2), "epochs without a miss are left out");
    assert_eq!(machine.counts().misses, 2);
}

/// COL-1: a run within four pages goes to the entries of four alone, a longer one to both.
#[test]
fn colt_all_hand() {
    let mut world = World::with(8..16, 0);
    (0..3).for_each(|page| world.map(0, page, 100 + page, 0));
    let keys = [("cluster_frames", "run"), ("cluster_pages", "4"), ("cluster_entries", "8"), ("cluster_ways", "2")];
    let runs = [("behind", "runs"), ("run_entries", "2"), ("run_beyond", "4")];
    let mut machine = one("clustered", &[&keys[..], &runs].concat());
    let shapes = |machine: &Machine| {
        let of = |view: &crate::tlb::EntryView| (view.base.0, view.pages.len(), view.slot >= 2 + 8);
        machine.entries(usize::MAX).iter().skip(1).map(of).collect::<Vec<_>>()
    };
    assert_eq!(walks(&mut machine, &world, &[1, 0, 2]), [true, false, false]);
    assert_eq!(shapes(&machine), [(0, 3, false)]);
    assert_eq!(walks(&mut machine, &world, &[9, 8, 10, 15, 12]), [true, false, false, false, false]);
    assert_eq!(shapes(&machine), [(0, 3, false), (8, 4, false), (8, 2, true)]);
    assert_eq!(machine.counts().second_level_data_hits, 2 + 4, "COL-2");
}

/// COL-3: pages that share with no other go to the level beside.
#[test]
fn clusters_beside_hand() {
    let mut world = World::with(0..8, 0);
    (8..12).for_each(|page| world.map(0, page, 999 + 64 * page, 0));
    world.map(0, 512, 512, 9);
    let keys = [("cluster_entries", "1"), ("cluster_beside", "4K:4+2M:1")];
    let mut machine = one("clustered", &keys);
    assert_eq!(many(&mut machine, &world, 0..12), 1 + 4);
    assert_eq!(many(&mut machine, &world, 0..12), 0, "they do not evict the cluster");
    assert_eq!(walks(&mut machine, &world, &[512, 600]), [true, false]);
    machine.change(0, VpnRange { start: Vpn(0), pages: 1 << 10 });
    assert_eq!(machine.counts().invalidations, 1 + 8 + 4 + 1);
}

/// MOS-4.
#[test]
fn mosaic_hand() {
    let mut world = World::default();
    (0..8).for_each(|page| world.map(0, page, 1000 + page * 37, 0));
    for (fill, walks) in [("one", 6), ("all", 3)] {
        let keys = [("mosaic_entries", "1"), ("mosaic_ways", "0"), ("mosaic_fill", fill)];
        assert_eq!(many(&mut one("mosaic", &keys), &world, [0, 1, 2, 3, 4, 0]), walks);
    }
}

/// TPS-3.
#[test]
fn tps_hand() {
    let world = World::with(0..4, 4);
    let mut machine = Machine::new(&[&ONE[..], &[("l2", "none"), ("behind", "tps")]].concat());
    let mut after = |page| {
        machine.load(&world, page);
        [machine.count("aliases"), machine.count("alias_references")]
    };
    assert_eq!([0, 7, 9, 16].map(&mut after), [[0, 0], [1, 0], [2, 1], [2, 1]]);
    assert_eq!(machine.part("tps").memory.made.steps, 1);
    machine.check_laws();
}

/// Runs two machines over a stream, of pages below this order, and compares every lookup. `only_loads`: the other kinds
/// of references become loads. Returns the counts.
fn equal(name: &str, mut build: impl FnMut() -> [Machine; 2], below: u8, only_loads: bool) -> [TlbCounts; 2] {
    let mut sums = [TlbCounts::default(), TlbCounts::default()];
    for seed in 0..6 {
        let mut machines = build();
        let mut stream = Stream::new(seed);
        for step in 0..3000 {
            let Some((asid, vpn, kind, pc)) = stream.next(&mut machines) else { continue };
            if stream.world.pte(Asid(asid), Vpn(vpn)).is_none_or(|pte| pte.order >= below) {
                continue;
            }
            let kind = if only_loads { Kind::Load } else { kind };
            let [one, other] =
                machines.each_mut().map(|machine| machine.look_up(&stream.world, asid, vpn, kind, pc) == Outcome::Hit);
            assert_eq!(one, other, "{name}, seed {seed}, step {step}: page {vpn:#x}");
        }
        for (sum, machine) in sums.iter_mut().zip(&machines) {
            *sum += machine.counts();
        }
    }
    sums.map(|counts| TlbCounts { parts: Parts::default(), ..counts })
}

const SMALL: [(&str, &str); 4] = [("l1d", "4K:4/2+2M:1"), ("l1i", "4K:2+2M:1"), ("pwc_pd", "4"), ("pwc_pdpt", "2")];

fn small(keys: Keys) -> Machine {
    Machine::new(&[&SMALL, keys].concat())
}

/// MIX: with base pages alone it is an array of these.
#[test]
fn mix_of_base_pages_is_an_array() {
    for replacement in ["lru", "plru", "fifo", "random"] {
        let keys = |own: Keys| small(&[&[("replacement", replacement)], own].concat());
        let mix = || keys(&[("second_level", "mix"), ("mix_entries", "16"), ("mix_ways", "4")]);
        let [one, other] = equal("mix", || [keys(&[("l2", "4K:16/4")]), mix()], 9, false);
        assert!(one == other && one.misses > 1000, "{replacement}: {one:?} {other:?}");
    }
}

/// SKW: with one size it is the design `skewed`.
#[test]
fn skewed_of_one_size_is_the_design() {
    for replacement in ["lru", "fifo", "random"] {
        let own = [("second_level", "skewed"), ("skew_entries", "32"), ("skew_ways", "4"), ("skew_sizes", "4K")];
        let second = || Machine::new(&[&ONE[..2], &[("replacement", replacement)], &own].concat());
        let keys = [("entries", "32"), ("ways", "4"), ("replacement", replacement), ("seed", "16")];
        let [one, other] = equal("skewed", || [Machine::of("skewed", &keys), second()], 9, true);
        assert_eq!((one.misses, one.evictions), (other.misses, other.evictions), "{replacement}");
        assert!(one.evictions > 500);
    }
}

/// MOS-4, MOS-5: in any frames it is the design `complete`; with an arity of 1 it is `single`.
#[test]
fn mosaic_is_complete() {
    for (fill, preload) in [("one", "none"), ("all", "region")] {
        let own = [("second_level", "mosaic"), ("mosaic_entries", "8"), ("mosaic_ways", "2"), ("mosaic_fill", fill)];
        let second = || Machine::new(&[&ONE[..], &own].concat());
        let keys = [("entries", "8"), ("ways", "2"), ("factor", "4"), ("replacement", "lru"), ("preload", preload)];
        let [one, other] = equal("mosaic", || [Machine::of("complete", &keys), second()], 9, true);
        let of = |c: &TlbCounts| (c.misses, c.fills, c.merges, c.evictions, c.preloaded);
        assert_eq!(of(&one), of(&other), "{fill}");
        assert!(one.evictions > 500);
    }
    let own = [("second_level", "mosaic"), ("mosaic_entries", "32"), ("mosaic_ways", "4"), ("mosaic_arity", "1")];
    let second = || Machine::new(&[&ONE[..], &own].concat());
    let keys = [("entries", "32"), ("ways", "4"), ("replacement", "lru")];
    let [one, other] = equal("mosaic of one", || [Machine::of("single", &keys), second()], 9, true);
    assert_eq!((one.misses, one.evictions), (other.misses, other.evictions));
}

/// COL: without an entry in the fully associative array, CoLT-All is CoLT-SA. A run in a line is never longer than
/// eight pages.
#[test]
fn colt_all_without_long_runs_is_colt_sa() {
    let sa = [("second_level", "clustered"), ("cluster_frames", "run"), ("cluster_pages", "4")];
    let arrays = [("cluster_entries", "16"), ("cluster_ways", "4"), ("replacement", "lru")];
    let sa = [&sa[..], &arrays].concat();
    let all = [&sa[..], &[("behind", "runs"), ("run_beyond", "8")]].concat();
    let [one, other] = equal("CoLT", || [small(&sa), small(&all)], 9, false);
    assert!(one == other && one.evictions > 200, "{one:?} {other:?}");
}

/// The kind is a name for the second level.
#[test]
fn clustered_is_a_hierarchy() {
    let keys = [("cluster_entries", "16"), ("cluster_ways", "4"), ("replacement", "lru")];
    let second = [&keys[..], &[("second_level", "clustered")]].concat();
    let kind = || Machine::of("clustered", &[&SMALL[..], &keys].concat());
    let [one, other] = equal("clustered", || [kind(), small(&second)], u8::MAX, false);
    assert!(one == other && one.evictions > 100);
}

/// ANC: without two pages in a row it is the machine without anchors, but for what walks read.
#[test]
fn anchors_without_rows_are_not_there() {
    for distance in ["2", "8", "512", "65536"] {
        for l2 in ["4K:16/4", "4K|2M:16/4", "4K:8/2+2M:4+1G:1"] {
            let keys = |own: Keys| small(&[&[("replacement", "lru"), ("l2", l2)], own].concat());
            let mut machines = [keys(&[]), keys(&[("second_level", "anchor"), ("anchor_distance", distance)])];
            let mut world = World::default();
            (0..64).for_each(|page| world.map(0, page, 4096 + 2 * page, 0));
            (1..6).for_each(|page| world.map(0, page << 9, (1 << 20) + (page << 10), 9));
            let mut state = 7u64;
            for step in 0..4000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let draw = state >> 33;
                let vpn = if !draw.is_multiple_of(3) { draw / 3 % 64 } else { 512 + draw / 3 % (5 << 9) };
                if draw.is_multiple_of(97) {
                    machines.iter_mut().for_each(|m| m.change(0, VpnRange { start: Vpn(vpn), pages: 1 }));
                }
                let ends = machines.each_mut().map(|machine| machine.load(&world, vpn));
                assert_eq!(ends[0], ends[1], "{distance} {l2} step {step}");
            }
            let [one, other] = machines.map(|m| TlbCounts { parts: Parts::default(), ..m.counts().clone() });
            // Anchors in other page tables fill the walk caches.
            assert!((one.walk != other.walk) <= (distance == "65536"), "{distance} {l2}");
            let of = |c: &TlbCounts| TlbCounts { walk: Default::default(), ..c.clone() };
            assert!(of(&one) == of(&other) && one.evictions > 100, "{distance} {l2}: {one:?} {other:?}");
        }
    }
}

/// HW-12, HW-13, ANC-4.
#[test]
fn refusals() {
    for second in super::SECOND_LEVELS.iter().filter(|second| second.name != "clustered") {
        for (key, value) in [("guest", "walk"), ("cores", "2"), ("page_size", "64K")] {
            let why = refusal(&[("second_level", second.name), (key, value)]);
            assert!(why.contains(key) && why.contains("HW-12") || key == "page_size", "{why}");
        }
    }
    let why = refusal(&[("second_level", "skewed"), ("skew_sizes", "4K+2M+1G")]);
    assert!(why.contains("skew_ways = 8") && why.contains("SKW-3"), "{why}");
    let why = refusal(&[("second_level", "mix"), ("l2", "4K:16")]);
    assert!(why.contains("unknown key 'l2'"), "{why}");
    let why = refusal(&[("second_level", "anchor"), ("l2", "2M:16")]);
    assert!(why.contains("l2 = 2M:16") && why.contains("4K"), "{why}");
    let why = refusal(&[("second_level", "anchor"), ("table", "hashed")]);
    assert!(why.contains("table = hashed"), "{why}");
    let why = refusal(&[("second_level", "anchor"), ("anchor_epoch", "5"), ("walk_cost", "caches")]);
    assert!(why.contains("anchor_epoch = 5") && why.contains("walk_cost"), "{why}");
    for (key, value) in [("table", "hashed"), ("behind", "pom"), ("coalesce", "16K")] {
        let why = refusal(&[("second_level", "perforated"), (key, value)]);
        assert!(why.contains(&format!("{key} = {value}")), "{why}");
    }
}
