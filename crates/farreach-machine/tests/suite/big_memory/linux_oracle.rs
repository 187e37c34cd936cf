//! Linux of today against a plain model: faults by size, khugepaged by the clock, and blocks that stay whole. The model
//! knows the frame of every page, when khugepaged wakes, and what the policy counts itself.

use super::plain::{Paged, Pair, agree};
use super::programs::{LARGE, SMALL, Shape};
use farreach_oracle::frames::Frames;
use farreach_oracle::linux::Mode::{self, Always, Madvise, Never};
use farreach_oracle::linux::{Config, Khugepaged, PlainLinux};
use farreach_oracle::paging::Model;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SHAPES: [Shape; 2] = [LARGE, SMALL];

/// In all of them: compaction is not of this model, nor faults of files.
const KEYS: &str = "placement=linux,address_ordered=true,defrag=never,khugepaged_defrag=false,fault_around=4K,\
                    ticks_per_ms=1,scan_sleep_ms=25,alloc_sleep_ms=120,thp_size=64K";

const KHUGEPAGED: Khugepaged =
    Khugepaged { pages_to_scan: 32, scan_sleep: 25, alloc_sleep: 120, max_ptes_none: 511, max_ptes_shared: 4 };

fn config(frames: u64, modes: &[(u32, Mode)], khugepaged: Khugepaged) -> Config {
    let frames = Frames::blocks(frames, |_| true, 11, true);
    Config { frames, pmd: 4, modes: modes.to_vec(), khugepaged, deferred: true }
}

fn pairs(keys: &str, config: &Config, seed: u64) -> Vec<Paged<PlainLinux>> {
    let keys = format!("{KEYS},{keys}");
    SHAPES.map(|shape| Paged::new(&keys, PlainLinux::new(config.clone()), (seed, shape), |_, _, _, _| {})).into()
}

const STEPS: usize = 800;
const SEEDS: u64 = 5;

/// What happens often enough to mean something.
fn follows(keys: &str, config: &Config, happened: impl Fn(&PlainLinux) -> Vec<u64>) {
    agree((keys, SEEDS, STEPS), |seed| pairs(keys, config, seed), |pair| happened(&pair.model));
}

/// The seeds whose programs find out that the model has another rule.
fn found_out(keys: &str, config: &Config) -> usize {
    let differs =
        |mut pair: Paged<PlainLinux>| catch_unwind(AssertUnwindSafe(|| (0..STEPS).for_each(|_| pair.step()))).is_err();
    (0..SEEDS).filter(|seed| pairs(keys, config, *seed).into_iter().any(differs)).count()
}

const ENOUGH: &str = "memory=16M,mthp_always=16K,pages_to_scan=32,max_ptes_shared=4,max_ptes_none=9";
const SOME_MISSING: Khugepaged = Khugepaged { max_ptes_none: 9, ..KHUGEPAGED };
const BOTH: [(u32, Mode); 2] = [(4, Always), (2, Always)];
const SHORT: &str = "memory=768K,mthp_always=16K,pages_to_scan=32,max_ptes_shared=4";

/// LNX-1 to LNX-3, LNX-10 to LNX-13, LNX-20, LNX-23.
#[test]
fn lnx_superpages_and_khugepaged_follow_the_plain_model() {
    let all = |model: &PlainLinux| {
        let counts = &model.paging().counts;
        let faults = [counts.superpage_faults, counts.demotions, counts.cow_copies];
        [&faults[..], &[model.own.wakes, counts.collapses, model.own.zeroed]].concat()
    };
    follows(ENOUGH, &config(4096, &BOTH, SOME_MISSING), |model| [all(model), vec![model.own.moved]].concat());
    // Advice decides.
    follows(
        "memory=16M,thp=madvise,mthp_inherit=16K,pages_to_scan=64,max_ptes_shared=0",
        &config(
            4096,
            &[(4, Madvise), (2, Madvise)],
            Khugepaged { pages_to_scan: 64, max_ptes_shared: 0, ..KHUGEPAGED },
        ),
        all,
    );
    // Each size has its own mode; a budget that is no multiple of a group.
    follows(
        "memory=16M,thp=never,thp_size_enabled=always,mthp_madvise=32K,mthp_always=16K,pages_to_scan=40,\
         max_ptes_none=0",
        &config(
            4096,
            &[(4, Always), (3, Madvise), (2, Always)],
            Khugepaged { pages_to_scan: 40, max_ptes_none: 0, max_ptes_shared: 256, ..KHUGEPAGED },
        ),
        |model| vec![model.paging().counts.superpage_faults, model.own.scanned, model.paging().counts.collapses],
    );
    follows(
        "memory=16M,thp=never,mthp_always=16K",
        &config(4096, &[(4, Never), (2, Always)], Khugepaged { pages_to_scan: 4096, ..KHUGEPAGED }),
        |model| vec![model.paging().counts.superpage_faults],
    );
}

/// LNX-5, LNX-21.
#[test]
fn lnx_blocks_in_little_memory_follow_the_plain_model() {
    let full = |model: &PlainLinux| {
        let counts = &model.paging().counts;
        vec![counts.superpage_faults, counts.superpage_fallbacks, counts.collapses, counts.demotions]
    };
    let deferred = config(192, &BOTH, KHUGEPAGED);
    follows(SHORT, &deferred, |model| {
        [full(model), vec![model.own.deferred_splits, model.own.deferred_at_most, model.own.no_block]].concat()
    });
    follows(&format!("{SHORT},deferred_split=immediate"), &Config { deferred: false, ..deferred }, full);
}

#[test]
fn lnx_models_with_another_rule_are_found_out() {
    let enough = config(4096, &BOTH, SOME_MISSING);
    let other = |khugepaged| Config { khugepaged, ..enough.clone() };
    for wrong in [
        other(Khugepaged { max_ptes_none: 8, ..SOME_MISSING }),
        other(Khugepaged { max_ptes_shared: 3, ..SOME_MISSING }),
        other(Khugepaged { scan_sleep: 24, ..SOME_MISSING }),
        Config { modes: vec![(4, Always), (2, Madvise)], ..enough.clone() },
        Config { deferred: false, ..enough.clone() },
    ] {
        let found = found_out(ENOUGH, &wrong);
        assert!(found >= 2, "{found} of {SEEDS}: {:?}", wrong.khugepaged);
    }
    let wrong = Config { khugepaged: Khugepaged { alloc_sleep: 25, ..KHUGEPAGED }, ..config(192, &BOTH, KHUGEPAGED) };
    assert!(found_out(SHORT, &wrong) >= 2, "the sleep when there is no block");
}
