//! Sums worked out by hand.

use super::*;
use crate::hardware::{Energies, LIBRARY};
use crate::keys::COST_KEYS;
use farreach_hw::tlb::design;
use farreach_types::counts::{Lookups, RangeCounts, WalkCounts};
use serde_json::{Value as Json, json};

/// A structure with this energy of a lookup and of a fill.
fn figure(configuration: &str, lookup: f64, fill: Option<f64>) -> Figure {
    Figure {
        configuration: configuration.into(),
        library: LIBRARY.into(),
        corner: String::new(),
        tools: String::new(),
        area_um2: 1.0,
        nand2: 1.0,
        flip_flops: 1,
        period_ns: 1.0,
        leakage_nw: 1.0,
        energies: vec![
            Energies { program: "a".into(), clock: 100.0, idle: 10.0, lookup: lookup - 1.0, fill },
            Energies { program: "b".into(), clock: 100.0, idle: 10.0, lookup: lookup + 1.0, fill },
        ],
    }
}

fn all() -> Vec<Figure> {
    vec![
        figure("single-16", 4.0, Some(6.0)),
        figure("single-64", 10.0, Some(30.0)),
        figure("l1d-64", 3.0, Some(7.0)),
        figure("l1d-2m-32", 2.0, Some(5.0)),
        figure("l1d-1g-4", 1.5, None),
        figure("l1i-128", 4.0, Some(8.0)),
        figure("l1i-2m-8", 1.25, Some(2.0)),
        figure("l2-512", 20.0, Some(40.0)),
        figure("range-32", 6.0, Some(9.0)),
        figure("walker-bare", 50.0, None),
        figure("range-walker", 60.0, None),
    ]
}

fn params(kind: &str, given: Json) -> Params {
    let keys: Vec<_> = design(kind).unwrap().keys.iter().copied().chain(COST_KEYS.iter().copied()).collect();
    Params::resolve(&keys, given.as_object().unwrap()).unwrap()
}

fn of(kind: &str, given: Json, counts: &TlbCounts, lookups: Lookups) -> Energy {
    energy_with(&all(), kind, counts, &Workload { lookups, ..Workload::default() }, &params(kind, given))
}

#[test]
fn a_design_of_one_array() {
    let counts = TlbCounts { lookups: 1000, misses: 10, fills: 11, extra_pte_reads: 5, ..TlbCounts::default() };
    let found = of("single", json!({}), &counts, Lookups::default());
    assert_eq!(found.missing, [""; 0]);
    // Lookups, fills; 15 loads of 20 pJ at 45 nm, 16 times as much at 180 nm.
    assert_eq!(found.total_pj(), Some(1000.0 * 10.0 + 11.0 * 30.0 + 15.0 * 320.0));
    // At 45 nm all but the loads is a sixteenth.
    let found = of("single", json!({"technology": 45}), &counts, Lookups::default());
    assert_eq!((found.technology, found.total_pj()), (45, Some((1000.0 * 10.0 + 11.0 * 30.0) / 16.0 + 15.0 * 20.0)));
    assert!(found.parts.iter().all(|part| !part.source.is_empty()), "{found:?}");
}

/// A third of the way from 16 to 64 entries.
#[test]
fn between_two_sizes_figures_are_on_a_line() {
    let counts = TlbCounts { lookups: 3, fills: 3, ..TlbCounts::default() };
    let found = of("single", json!({"entries": 32}), &counts, Lookups::default());
    assert_eq!(found.total_pj(), Some(3.0 * 6.0 + 3.0 * 14.0));
    assert!(found.parts[0].source.contains("between single-16 and single-64"), "{found:?}");
}

#[test]
fn what_has_no_figure_has_no_energy() {
    let counts = TlbCounts { lookups: 3, misses: 1, fills: 1, ..TlbCounts::default() };
    let why = |kind: &str, given: Json| {
        let found = of(kind, given, &counts, Lookups::default());
        assert_eq!(found.total_pj(), None);
        found.missing.join("; ")
    };
    assert!(why("single", json!({"entries": 65})).contains("65 entries: only 16, 64 were"));
    assert!(why("single", json!({"ways": 2})).contains("single in 2 ways"));
    assert!(why("superpage", json!({})).contains("none were"));
    assert!(why("single", json!({"page_size": "8K"})).contains("page_size = 8K"));
    assert!(why("hierarchy", json!({"pwc_pd": 4})).contains("page walker: a walker with such caches"));
    assert!(why("hierarchy", json!({"l1d": ["4K:64/8"]})).contains("l1d 4K:64/8: such an array"));
    assert!(why("hierarchy", json!({"coalesce": "32K", "l1d": ["4K|32K:64/4"]})).contains("coalesce"));
    assert!(unknown("so it is").total_pj().is_none());
}

fn behind() -> TlbCounts {
    TlbCounts {
        misses: 12,
        fetch_misses: 2,
        data_misses: 10,
        superpage_misses: 3,
        second_level_fetch_hits: 20,
        second_level_data_hits: 30,
        walk: WalkCounts { walks: 12, pt_references: 9, pd_references: 12, ..WalkCounts::default() },
        ..TlbCounts::default()
    }
}

#[test]
fn a_hierarchy_is_the_sum_of_its_arrays() {
    let lookups = Lookups { fetch: 1000, load: 300, store: 100 };
    let found = of("hierarchy", json!({"technology": 180}), &behind(), lookups);
    assert_eq!(found.missing, [""; 0]);
    // Data: 400 lookups in three arrays, 40 fills, 3 of them of superpages. Fetches: 1000 in two, 22 fills.
    let first = 400.0 * (3.0 + 2.0 + 1.5) + 37.0 * 7.0 + 3.0 * 5.0 + 1000.0 * (4.0 + 1.25) + 22.0 * 8.0;
    // 62 missed in the first level; the second takes the 9 that are no superpages.
    let second = 62.0 * 20.0 + 9.0 * 40.0;
    // 12 walks that read 21 entries.
    let walks = 12.0 * 50.0 + 21.0 * 100.0 * 16.0;
    assert_eq!(found.total_pj(), Some(first + second + walks));
}

#[test]
fn a_range_tlb_and_its_walker() {
    let mut counts = behind();
    counts.range = RangeCounts {
        hits: 25,
        sole_hits: 5,
        misses: 42,
        walks: 4,
        nodes: 6,
        wasted_walks: 1,
        ..RangeCounts::default()
    };
    let without = of("range", json!({}), &behind(), Lookups::default());
    let with = of("range", json!({}), &counts, Lookups::default());
    // Five more lookups of the second level, and as many fills of the first; 67 lookups of ranges, 3 fills; 4 searches
    // that read 6 nodes of 16 words.
    let more = 5.0 * 20.0 + 5.0 * 7.0 + 67.0 * 6.0 + 3.0 * 9.0 + 4.0 * 60.0 + 6.0 * 16.0 * 1600.0;
    let (with, without) = (with.total_pj().unwrap(), without.total_pj().unwrap());
    assert!((with - without - more).abs() < 1e-6, "{with} {without} {more}");
    let off = of("range", json!({"range_order": "first"}), &counts, Lookups::default());
    assert!(off.missing[0].contains("range_order = first"), "{off:?}");
}

/// Walkers that read through caches: each read at the figure of what answered.
#[test]
fn reads_through_caches() {
    let mut counts = behind();
    counts.walk_caches.pt = Answered { l1: 1, l2: 2, llc: 3, memory: 4 };
    counts.walk_caches.range_table = Answered { l2: 1, ..Answered::default() };
    let fixed = of("range", json!({}), &behind(), Lookups::default());
    let caches = of("range", json!({}), &counts, Lookups::default());
    let reads = |found: &Energy| found.parts.iter().filter(|p| p.event == "reads").map(EnergyPart::pj).sum::<f64>();
    assert_eq!(reads(&fixed), 21.0 * 1600.0);
    // Memory is not scaled. A line of a range table is eight words.
    assert_eq!(reads(&caches), 320.0 + 5.0 * 1600.0 + 4.0 * 1950.0 + 8.0 * 1600.0);
}

/// Between the sizes of the table the voltage is on a line; capacitance follows the size.
#[test]
fn scaling_is_size_and_voltage() {
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    near(scale(180, 350), 350.0 / 180.0 * (3.3f64 / 1.8).powi(2));
    near(scale(180, 155), 155.0 / 180.0 * (1.5f64 / 1.8).powi(2));
    near(scale(180, 22) * scale(22, 180), 1.0);
    (22..350).for_each(|nm| assert!(scale(180, nm) < scale(180, nm + 1), "{nm}"));
}
