//! Linux of today against a plain model: faults by size, khugepaged by the clock, MADV_COLLAPSE, blocks that stay
//! whole, superpages and pages of zeros, and contiguous bits. The model knows the frame of every page, when khugepaged
//! wakes, and what the policy counts itself.

use super::plain::{Paged, Pair, agree};
use super::programs::{LARGE, SMALL, Shape};
use farreach_oracle::frames::Frames;
use farreach_oracle::linux::Mode::{self, Always, Madvise, Never};
use farreach_oracle::linux::{Config, Khugepaged, PlainLinux};
use farreach_oracle::paging::Model;
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Op};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SHAPES: [Shape; 2] = [LARGE, SMALL];

/// In all of them: compaction is not of this model, nor faults of files.
const KEYS: &str = "placement=linux,address_ordered=true,defrag=never,khugepaged_defrag=false,fault_around=4K,\
                    ticks_per_ms=1,scan_sleep_ms=25,alloc_sleep_ms=120,thp_size=64K";

const KHUGEPAGED: Khugepaged =
    Khugepaged { pages_to_scan: 32, scan_sleep: 25, alloc_sleep: 120, max_ptes_none: 511, max_ptes_shared: 4 };

fn config(frames: u64, modes: &[(u32, Mode)], khugepaged: Khugepaged) -> Config {
    let frames = Frames::blocks(frames, |_| true, 11, true);
    Config {
        frames,
        pmd: 4,
        modes: modes.to_vec(),
        khugepaged,
        deferred: true,
        shrink: None,
        zero_page: false,
        huge_zero_page: true,
        contpte: 0,
        collapse: true,
        kept: 4,
    }
}

/// Whether MADV_COLLAPSE might find no block: it would compact memory then.
fn might_compact(model: &PlainLinux, _: Asid, op: &Op) -> bool {
    let Op::Advise { len, advice: Advice::Collapse, .. } = op else { return false };
    model.paging().frames.free_blocks(4) < len >> 16
}

fn pairs(keys: &str, config: &Config, seed: u64) -> Vec<Paged<PlainLinux>> {
    let keys = format!("{KEYS},{keys}");
    let model = || PlainLinux::new(config.clone());
    SHAPES.map(|shape| Paged::new(&keys, model(), (seed, shape), |_, _, _, _| {}).without(might_compact)).into()
}

const STEPS: usize = 800;
const SEEDS: u64 = 5;

/// What happens often enough to mean something.
fn follows(keys: &str, config: &Config, happened: impl Fn(&PlainLinux) -> Vec<u64>) {
    agree((keys, SEEDS, STEPS), |seed| pairs(keys, config, seed), |pair| happened(&pair.model));
}

/// The seeds whose programs find out that the model has another rule. Programs meet the limits of khugepaged seldom, so
/// they are longer.
fn found_out(keys: &str, config: &Config) -> usize {
    let differs = |mut pair: Paged<PlainLinux>| {
        catch_unwind(AssertUnwindSafe(|| (0..2 * STEPS).for_each(|_| pair.step()))).is_err()
    };
    (0..SEEDS).filter(|seed| pairs(keys, config, *seed).into_iter().any(differs)).count()
}

const ENOUGH: &str = "memory=16M,mthp_always=16K,pages_to_scan=32,max_ptes_shared=4,max_ptes_none=9";
const SOME_MISSING: Khugepaged = Khugepaged { max_ptes_none: 9, ..KHUGEPAGED };
const BOTH: [(u32, Mode); 2] = [(4, Always), (2, Always)];
const SHORT: &str = "memory=768K,mthp_always=16K,pages_to_scan=32,max_ptes_shared=4,shrink_underused=false";

const SHRINKS: &str = "memory=768K,mthp_always=16K,pages_to_scan=32,max_ptes_shared=4,max_ptes_none=9";

fn shrinks() -> Config {
    Config { shrink: Some(9), ..config(192, &BOTH, SOME_MISSING) }
}

/// What happens to pages of zeros.
fn zeros(model: &PlainLinux) -> Vec<u64> {
    let own = &model.own;
    vec![own.zero_faults, own.huge_zero_faults, own.zeros_replaced, own.huge_zeros_replaced]
}

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

/// LNX-22.
#[test]
fn lnx_superpages_of_zeros_in_little_memory_follow_the_plain_model() {
    let split = |model: &PlainLinux| {
        let (own, counts) = (&model.own, model.paging().counts);
        let splits = [own.underused_splits, own.underused_pages, own.deferred_splits];
        [&splits[..], &[counts.cow_copies, counts.superpage_fallbacks]].concat()
    };
    let shrinks = shrinks();
    follows(SHRINKS, &shrinks, split);
    follows(&format!("{SHRINKS},zero_page=true"), &Config { zero_page: true, ..shrinks.clone() }, |model| {
        [split(model), zeros(model)].concat()
    });
    let grouped = Config { contpte: 3, ..shrinks };
    follows(&format!("{SHRINKS},contpte=32K"), &grouped, |model| [split(model), vec![model.own.grouped]].concat());
}

/// LNX-2, LNX-4.
#[test]
fn lnx_pages_of_zeros_follow_the_plain_model() {
    let config = Config { zero_page: true, ..config(4096, &BOTH, SOME_MISSING) };
    follows(&format!("{ENOUGH},zero_page=true"), &config, |model| {
        let counts = model.paging().counts;
        let faults = [counts.superpage_faults, counts.cow_copies, model.own.zeroed];
        [&faults[..], &zeros(model)].concat()
    });
    // Without superpages of zeros, where there are enough blocks, and where there are not.
    let of_memory = |config: Config| Config { zero_page: true, huge_zero_page: false, ..config };
    let some = |model: &PlainLinux| {
        let counts = model.paging().counts;
        vec![counts.superpage_faults, model.own.zero_faults, counts.cow_copies]
    };
    follows(&format!("{ENOUGH},zero_page=true,huge_zero_page=false"), &of_memory(config.clone()), some);
    follows(&format!("{SHRINKS},zero_page=true,huge_zero_page=false"), &of_memory(shrinks()), |model| {
        [some(model), vec![model.paging().counts.superpage_fallbacks]].concat()
    });
}

/// LNX-14, where no fault makes a superpage and khugepaged does not work.
#[test]
fn lnx_superpages_that_are_asked_for_follow_the_plain_model() {
    let khugepaged = Khugepaged { pages_to_scan: 0, ..KHUGEPAGED };
    let asked = |model: &PlainLinux| {
        let counts = model.paging().counts;
        vec![model.own.asked_for, counts.gathered_pages, counts.populated_pages, model.own.deferred_at_most]
    };
    let config = config(4096, &[(4, Never)], khugepaged);
    let keys = "memory=16M,thp=never,pages_to_scan=0,max_ptes_none=0,max_ptes_shared=0";
    follows(keys, &config, asked);
    follows(&format!("{keys},zero_page=true"), &Config { zero_page: true, ..config }, asked);
}

/// CPT-1, CPT-4.
#[test]
fn lnx_contiguous_bits_follow_the_plain_model() {
    let grouped = |model: &PlainLinux| vec![model.own.grouped, model.paging().counts.cow_copies, model.own.moved];
    let enough = config(4096, &BOTH, SOME_MISSING);
    follows(&format!("{ENOUGH},contpte=32K"), &Config { contpte: 3, ..enough.clone() }, grouped);
    // Some superpages of faults are larger, too. Zeros have no contiguous bit.
    let modes = vec![(4, Always), (3, Always)];
    let zero_page = Config { modes, contpte: 2, zero_page: true, ..enough };
    let keys = ENOUGH.replace("mthp_always=16K", "mthp_always=32K");
    follows(&format!("{keys},contpte=16K,zero_page=true"), &zero_page, |model| [grouped(model), zeros(model)].concat());
}

/// One wrong model for each rule since.
#[test]
fn lnx_models_with_another_rule_of_later_ones_are_found_out() {
    let found = |keys: &str, wrong: Config| {
        let found = found_out(keys, &wrong);
        assert!(found >= 2, "{found} of {SEEDS}: {keys}");
    };
    let (enough, shrinks) = (config(4096, &BOTH, SOME_MISSING), shrinks());
    found(ENOUGH, Config { collapse: false, ..enough.clone() });
    found(ENOUGH, Config { kept: 2, ..enough.clone() });
    found(&format!("{ENOUGH},zero_page=true"), enough.clone());
    found(&format!("{ENOUGH},zero_page=true,huge_zero_page=false"), Config { zero_page: true, ..enough.clone() });
    found(&format!("{ENOUGH},contpte=32K"), enough);
    found(SHRINKS, Config { shrink: None, ..shrinks.clone() });
    found(SHRINKS, Config { shrink: Some(8), ..shrinks });
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
