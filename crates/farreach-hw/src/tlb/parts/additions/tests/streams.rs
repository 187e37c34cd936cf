//! HW-3, HW-4, HW-L1 and the laws of each addition, on random streams with changes, switches and superpages.

use super::world::Stream;
use super::{Keys, Machine, listed, refusal};
use crate::tlb::contract::Outcome;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::{Parts, TlbCounts};
use farreach_types::translation::{PageTableView, Translation};

/// 7 entries for data, 5 for fetches, 18 behind them.
const BASE: [(&str, &str); 6] = [
    ("l1d", "4K:4/2+2M:2+1G:1"),
    ("l1i", "4K:4/2+2M:1"),
    ("l2", "4K|2M:16/4+1G:2"),
    ("replacement", "lru"),
    ("pwc_pd", "3"),
    ("pwc_pdpt", "2"),
];
/// Slots of the levels.
const SLOTS: usize = 7 + 5 + 18;

/// Small caches, in which lines of data and of the TLB meet.
const CACHES: [(&str, &str); 6] = [
    ("walk_cost", "caches"),
    ("cache_l1d", "1K/2"),
    ("cache_l1i", "1K/2"),
    ("cache_l2", "4K/4"),
    ("cache_llc", "16K/8"),
    ("cache_slices", "1"),
];

/// Runs machines with these keys beside one without additions, which has the cache keys too. Returns the counts: first
/// those of the machine without.
fn run(seeds: u64, shared: Keys, own: Keys, ids: &str) -> (TlbCounts, TlbCounts) {
    run_on(Stream::new, seeds, shared, own, ids)
}

/// As [`run`], on such streams.
fn run_on(stream: fn(u64) -> Stream, seeds: u64, shared: Keys, own: Keys, ids: &str) -> (TlbCounts, TlbCounts) {
    let mut sums = (TlbCounts::default(), TlbCounts::default());
    for seed in 0..seeds {
        let without = [&BASE, shared, &[("process_ids", ids)]].concat();
        let with = [&without[..], own].concat();
        let mut machines = [Machine::new(&without), Machine::new(&with)];
        let mut stream = stream(seed);
        for step in 0..4000 {
            let Some((asid, vpn, kind, pc)) = stream.next(&mut machines) else {
                same_levels(&machines, step);
                continue;
            };
            let ends = machines.each_mut().map(|machine| machine.look_up(&stream.world, asid, vpn, kind, pc));
            assert!(ends[0] != Outcome::Hit || ends[1] == Outcome::Hit, "HW-3: step {step}");
            same_levels(&machines, step);
            let other = Vpn(u64::from(step) * 7 % 600);
            let stale = machines[1].tlb.probe(Asid(asid), other, kind);
            let truth = stream.world.pte(Asid(asid), other).map(|pte| Translation { pfn: pte.pfn, attr: pte.attr });
            assert!(stale.is_none() || stale == truth, "HW-9: step {step}");
            machines[1].check_laws();
        }
        let [base, addition] = machines.map(|machine| machine.counts().clone());
        let answers: u64 = addition.parts.iter().map(|(name, part)| answered(name, part)).sum();
        assert_eq!(base.misses, addition.misses + answers, "HW-L1, seed {seed}");
        sums.0 += &base;
        sums.1 += &addition;
    }
    sums
}

fn answered(name: &str, part: &farreach_types::counts::PartCounts) -> u64 {
    listed(name).answers.map_or(0, |counter| part.counters.get(counter))
}

fn same_levels(machines: &[Machine; 2], step: u32) {
    assert_eq!(machines[0].entries(SLOTS), machines[1].entries(SLOTS), "HW-3: step {step}");
}

/// Counts that do not name parts.
fn without_parts(counts: &TlbCounts) -> TlbCounts {
    TlbCounts { parts: Parts::default(), ..counts.clone() }
}

const POM: Keys = &[("behind", "pom"), ("pom_4k", "32"), ("pom_2m", "4"), ("pom_predictor", "8")];
const SPEC: Keys = &[("behind", "spectlb"), ("spec_entries", "2"), ("spec_ways", "1")];
const SPOT: Keys = &[("behind", "spot"), ("spot_entries", "4"), ("spot_ways", "2"), ("spot_run", "4")];
const ASAP: Keys = &[("behind", "asap"), ("asap_registers", "2")];

#[test]
fn pom_keeps_hw_3_and_its_laws() {
    let guest = [("guest", "walk"), ("nested_tlb", "2"), ("host_fracture", "false")];
    let pieces = [&[("guest", "walk"), ("host_page", "2M")], &CACHES[..]].concat();
    for (shared, ids) in [(&[][..], "true"), (&CACHES, "true"), (&CACHES, "false"), (&guest, "true"), (&pieces, "true")]
    {
        let (_, counts) = run(4, shared, POM, ids);
        let of = |name| counts.parts.count("pom", name);
        for name in ["probes_second", "writes", "hits_4k", "hits_2m", "evicted", "invalidated"] {
            assert!(of(name) > 20, "{name} {}", of(name));
        }
        assert_eq!(of("probes_first"), of("hits") + counts.walk.walks, "it is asked at every miss");
        assert_eq!(counts.invalidations, run(4, shared, &[], ids).0.invalidations, "HW-9: it counts its own");
    }
}

const UTOPIA: Keys = &[("behind", "utopia"), ("uto_cache_entries", "4"), ("uto_cache_ways", "2")];

#[test]
fn utopia_keeps_hw_3_and_its_laws() {
    let (beside, slow) = (("uto_walk", "parallel"), ("uto_cache_entries", "1"));
    let one = [("behind", "utopia"), slow, ("uto_cache_ways", "1"), beside];
    for (shared, own) in [(&[][..], UTOPIA), (&CACHES, UTOPIA), (&[], &one), (&CACHES, &one)] {
        let (base, counts) = run_on(Stream::restricted, 4, shared, own, "true");
        let of = |name| counts.parts.count("utopia", name);
        for name in ["rsw_hits_4k", "rsw_hits_2m", "sf_references", "tar_references"] {
            assert!(of(name) > 20, "{name} {}", of(name));
        }
        assert_eq!([of("rsw"), of("rsw_hits") + counts.walk.walks], [base.misses; 2], "it is asked at every miss");
        let memory = &counts.parts.get("utopia").unwrap().memory;
        let parallel = own.contains(&beside);
        assert_eq!([memory.hidden_references > 0, memory.made.background_references > 0], [parallel; 2], "UTO-4");
        assert!(shared.is_empty() || memory.hidden_answered.total() == memory.hidden_references);
    }
}

#[test]
fn victima_keeps_hw_3_and_its_laws() {
    let of_caches: [Keys; 4] = [
        &[],
        &[("cache_l2_replacement", "srrip")],
        &[("cache_l2_replacement", "srrip"), ("vic_priority", "always"), ("vic_walk", "raced")],
        &[("vic_priority", "always"), ("vic_frequency_at", "0"), ("vic_cost_at", "0")],
    ];
    for (own, ids) in of_caches.into_iter().zip(["true", "false", "true", "true"]) {
        let keys = [&[("behind", "victima")], own].concat();
        let (_, counts) = run(4, &CACHES, &keys, ids);
        for name in ["hits", "inserted", "evicted", "invalidated", "background_walks"] {
            let count = counts.parts.count("victima", name);
            assert!(count > 5, "{keys:?}: {name} {count}");
        }
    }
}

/// DPP-2: with a threshold that no counter exceeds.
#[test]
fn dppred_at_its_highest_threshold_is_the_baseline() {
    for ids in ["true", "false"] {
        let (base, counts) = run(4, &[], &[("behind", "dppred"), ("dpp_threshold", "7")], ids);
        assert_eq!(without_parts(&base), without_parts(&counts));
        let of = |name| counts.parts.count("dppred", name);
        assert_eq!([of("fills"), of("bypasses"), of("shadow_hits")], [counts.walk.walks, 0, 0]);
        assert_eq!(of("evicted_unused") + of("evicted_used"), counts.evictions, "each eviction trains");
    }
}

/// HW-4: without RestSegs.
#[test]
fn utopia_without_its_placement_is_the_baseline() {
    for shared in [&[][..], &CACHES] {
        let (base, counts) = run(2, shared, &[("behind", "utopia")], "true");
        assert_eq!(without_parts(&base), without_parts(&counts));
        assert_eq!(counts.parts.get("utopia").unwrap().memory, Default::default());
    }
}

/// Predictors answer nothing: with fixed prices all counts but their own are those of the machine without them.
#[test]
fn predictors_change_no_count() {
    for (own, name, seen) in [(SPEC, "spectlb", 50), (SPOT, "spot", 50), (ASAP, "asap", 50)] {
        for ids in ["true", "false"] {
            // SPO-4.
            let guest: Keys = if name == "spot" && ids == "true" { &[("guest", "walk")] } else { &[] };
            let (base, counts) = run(4, guest, own, ids);
            assert_eq!(without_parts(&base), without_parts(&counts), "{name}");
            let counters: &[&str] = if name == "asap" { &["covered"] } else { &["correct", "wrong", "none"] };
            for counter in counters {
                let count = counts.parts.count(name, counter);
                assert!(count > if *counter == "wrong" { 2 } else { seen }, "{name}: {counter} {count}");
            }
            assert!(counts.parts.get(name).unwrap().memory.hidden_references > seen);
        }
    }
}

#[test]
fn predictors_hide_what_the_caches_answered() {
    for own in [SPEC, ASAP, &[SPEC, &[("spec_window", "60")]].concat()[..]] {
        let (base, counts) = run(3, &CACHES, own, "true");
        let (_, part) = counts.parts.iter().next().unwrap();
        let memory = &part.memory;
        assert_eq!(memory.hidden_references, memory.hidden_answered.total());
        assert!(memory.hidden_references > 50 && memory.hidden_references < counts.walk.references());
        assert_eq!(base.walk, counts.walk, "ASA-4, SPT-4");
    }
}

/// Several additions, in two orders: what one answers, the next is not asked.
#[test]
fn additions_work_together() {
    for behind in ["pom+victima+spectlb", "asap+victima+pom"] {
        let keys = [&POM[1..], &[("behind", behind)]].concat();
        let (base, counts) = run(3, &CACHES, &keys, "true");
        assert_eq!(
            base.misses,
            counts.misses + counts.parts.count("pom", "hits") + counts.parts.count("victima", "hits")
        );
    }
}

/// HW-4.
#[test]
fn a_machine_without_additions_is_the_baseline() {
    for shared in [&[][..], &CACHES] {
        let (base, none) = run(2, shared, &[("behind", "none")], "true");
        assert_eq!(base, none);
    }
}

/// HW-12, HW-13.
#[test]
fn machines_are_refused_where_no_rule_says_what_they_do() {
    for (keys, why) in [
        (&[("behind", "victima")][..], "walk_cost must be caches"),
        (&[("behind", "victima"), ("walk_cost", "caches"), ("table", "hashed")], "radix tree"),
        (&[("behind", "asap"), ("table", "hashed")], "radix tree"),
        (&[("behind", "spot+spectlb")], "only one of spectlb, spot, asap"),
        (&[("behind", "spectlb"), ("spec_window", "100")], "spec_window must be all"),
        (&[("behind", "utopia"), ("uto_cache_ways", "16"), ("uto_cache_entries", "8")], "uto_cache_ways = 16"),
        (&[("behind", "utopia"), ("table", "hashed")], "uto_pte must be true"),
        (&[("behind", "utopia+prefetch")], "uto_pte must be true"),
        (&[("behind", "asap+utopia"), ("uto_walk", "parallel")], "asap hides the walk, too"),
        (&[("behind", "utopia"), ("guest", "walk")], "guest"),
        (&[("behind", "pom"), ("cores", "2")], "cores must be 1"),
        (&[("behind", "pom"), ("guest", "segment")], "guest must be none or walk"),
        (&[("behind", "pom"), ("pom_4k", "0")], "pom_4k"),
        (&[("behind", "spectlb"), ("spec_ways", "3")], "spec_entries"),
    ] {
        assert!(refusal(keys).contains(why), "{}", refusal(keys));
    }
}

/// The machine of `system/mmu.rs`, with its filter and without, and the harness of these tests count the same.
#[test]
fn victima_in_a_machine_with_caches() {
    use crate::system::{Item, Mmu, System};
    use crate::tlb::design;
    use farreach_types::addr::BASE_SHIFT;
    use farreach_types::event::Kind;
    for own in [&[("behind", "victima")][..], &[("behind", "victima+pom"), ("cache_l2_replacement", "srrip")]] {
        let keys = [&BASE[..], &CACHES, own].concat();
        let params = super::params("hierarchy", &keys).unwrap();
        let world = super::World::with(0..600, 0);
        let build = |plain| Mmu::new((design("hierarchy").unwrap().build)(&params).unwrap(), &params, plain).unwrap();
        let mut machines = [build(true), build(false)];
        let mut harness = Machine::new(&keys);
        for i in 0..20_000u64 {
            // Each page several times, since the filter leaves the levels to the other.
            let page = i / 3 * 7 % 60 * 10 % 599 + i / 5000;
            let item = Item::new(Kind::Load, (page << BASE_SHIFT) | ((page % 64) << 6));
            machines.iter_mut().for_each(|machine| machine.run(Asid(0), &[item], &world));
            harness.look_up(&world, 0, page, Kind::Load, 0);
            if i % 777 == 0 {
                let pages = farreach_types::addr::VpnRange { start: Vpn(page), pages: 9 };
                machines.iter_mut().for_each(|machine| machine.changed(Asid(0), pages, &world));
                harness.change(0, pages);
            }
        }
        let [plain, filtered] = machines.map(|machine| machine.mmu([0; 2]).unwrap());
        assert_eq!(plain, filtered);
        assert_eq!(&plain.0, harness.counts());
        assert!(plain.0.parts.count("victima", "evicted") > 100, "{:?}", plain.0.parts);
        harness.check_laws();
    }
}
