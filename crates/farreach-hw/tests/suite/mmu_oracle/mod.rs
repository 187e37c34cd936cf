//! Hierarchies of TLBs, with ranges, clusters and segments, against a plain model, on random streams: pages of 4 KB to
//! 1 GB, aligned and scattered frames, ranges that grow and break, promotion, splitting, unmapping, several processes.
//! Every lookup is compared, entries and counts at intervals; a twin that sees no filtered lookups must end in the same
//! state. Covers DS13-1 to DS13-5, DS13-25, DS13-36, RMM15-1 to RMM15-14 (RMM15-13: with process ids and without),
//! RMM15-41, RMM15-42, CoLT-SA and CoLT-FA, AMB-63, AMB-65, AMB-80, AMB-85, AMB-86, AMB-89, AMB-91; F-5, F-6, F-8,
//! F-12, F-13; CA-30, CA-34, CA-38.

mod configs;
mod drive;
mod laws;
mod policies;
mod table;
mod world;

use configs::{config, described, large_base_page};
use drive::stream;
use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::driver::tlb;
use farreach_oracle::mmu::{Array, Behind, Config, Hint, PlainMmu, RangeOrder, SegmentMode};
use farreach_oracle::policies::Policy;
use farreach_oracle::tlb::Replacement;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte, Range, RangeTableView, RangeWalk, Segment, SegmentView};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use table::{Extent, Table};
use world::{Step, World};

/// Streams of each test, and their steps.
const STREAMS: u64 = 40;
const STEPS: usize = 4000;

fn all(change: impl Fn(u64, &mut Config)) -> farreach_types::counts::TlbCounts {
    let mut sum = farreach_types::counts::TlbCounts::default();
    let mut skipped = 0;
    for seed in farreach_oracle::dice::seeds(STREAMS) {
        let mut config = config(seed);
        change(seed, &mut config);
        let (counts, filtered) = stream(config, STEPS);
        sum += &counts;
        skipped += filtered;
    }
    assert!(skipped > 1000, "{skipped} lookups were filtered");
    sum
}

#[test]
fn ds13_36_hierarchies_agree_with_the_plain_model() {
    let c = all(|_, _| {});
    let w = &c.walk;
    for (what, n) in [
        ("second_level_fetch_hits", c.second_level_fetch_hits),
        ("second_level_data_hits", c.second_level_data_hits),
        ("evictions", c.evictions),
        ("covered_drops", c.covered_drops),
        ("preloaded", c.preloaded),
        ("invalidations", c.invalidations),
        ("pml5_references", w.pml5_references),
        ("pd_cache_hits", w.pd_cache_hits),
        ("pdpt_cache_hits", w.pdpt_cache_hits),
        ("pml4_cache_hits", w.pml4_cache_hits),
        ("pml5_cache_hits", w.pml5_cache_hits),
    ] {
        assert!(n > 20, "{what} moved {n} times");
    }
    assert_eq!(w.walks, c.misses);
}

/// Arm's granules of 16 and 64 KB.
#[test]
fn larger_base_pages_agree_with_the_plain_model() {
    let c = all(large_base_page);
    let w = &c.walk;
    for n in [c.second_level_data_hits, c.covered_drops, c.preloaded, w.pd_references, w.pdpt_references] {
        assert!(n > 20, "{c:?}");
    }
    assert_eq!((w.walks, w.pml5_references, w.pml5_cache_hits), (c.misses, 0, 0));
    assert!(w.pml4_references < w.pdpt_references, "{w:?}");
}

#[test]
fn rmm15_2_range_tlbs_agree_with_the_plain_model() {
    let c = all(|seed, c| {
        c.behind = Behind::Ranges {
            entries: [4, 1, 16][seed as usize % 3],
            random: seed % 4 == 1,
            order: [RangeOrder::Parallel, RangeOrder::Serial, RangeOrder::First][(seed / 2) as usize % 3],
            mru: seed % 2 == 0,
            on: seed % 11 < 9,
            control: seed % 11 > 7 && (seed / 2) % 3 != 2,
            hint: [Hint::Bit, Hint::Bit, Hint::Always, Hint::Predictor(8), Hint::Bit][seed as usize % 5],
            cooperation: seed % 7 == 1,
        }
    });
    let r = &c.range;
    for n in [
        r.sole_hits,
        r.mru_hits,
        r.full_searches,
        r.nodes,
        r.wasted_walks,
        r.missed_ranges,
        r.evictions,
        r.invalidations,
    ] {
        assert!(n > 20, "{r:?}");
    }
    assert_eq!(r.hits + r.misses, r.mru_hits + r.full_searches);
}

#[test]
fn rmm15_42_clusters_agree_with_the_plain_model() {
    for runs in [false, true] {
        let c = all(|seed, c| {
            c.behind = Behind::Clusters {
                entries: [8, 16, 64][seed as usize % 3],
                ways: [0, 4][seed as usize % 2],
                pages: [8, 4, 8, 2, 4][seed as usize % 5],
                runs,
            }
        });
        assert!(c.merges > 20 && c.preloaded > 1000, "{c:?}");
    }
}

#[test]
fn runs_that_grow_agree_with_the_plain_model() {
    let c = all(|seed, c| {
        c.behind = Behind::Runs {
            entries: [4, 8, 1, 16][seed as usize % 4],
            limit: [64, 8, 1024, 2][(seed / 3) as usize % 4],
            first: seed % 5 == 3,
            fills_l2: seed % 2 == 0,
        }
    });
    for n in [c.merges, c.preloaded, c.evictions, c.covered_drops, c.second_level_data_hits, c.invalidations] {
        assert!(n > 20, "{c:?}");
    }
}

#[test]
fn ds13_2_segments_agree_with_the_plain_model() {
    all(|_, c| c.segment = SegmentMode::Registers);
    let several = all(|seed, c| c.segment = SegmentMode::Several([2, 3, 8][seed as usize % 3]));
    let none = all(|_, _| {});
    assert!(several.misses < none.misses - 1000, "{} of {} misses", several.misses, none.misses);
    let c = all(|_, c| c.segment = SegmentMode::Emulated);
    assert!(c.segment.misses_inside > 100, "{c:?}");
}
