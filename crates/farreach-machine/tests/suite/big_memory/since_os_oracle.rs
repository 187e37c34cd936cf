//! Policies that look at accessed bits against plain models: Ingens and HawkEye, page by page, with everything that
//! they count and when they work. Some touches are walks; with exact bits, all of them count.

use super::plain::{Paged, Pair, agree};
use super::programs::{LARGE, SMALL, Shape};
use farreach_oracle::frames::Frames;
use farreach_oracle::linux::{Khugepaged, Mode};
use farreach_oracle::paging::Model;
use farreach_oracle::since_os::hawkeye::{self, Bins, Choice, PlainHawkEye, Zeroing};
use farreach_oracle::since_os::ingens::{self, PlainIngens};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SHAPES: [Shape; 2] = [LARGE, SMALL];
const STEPS: usize = 800;
const SEEDS: u64 = 5;
/// Of a hundred touches, those that are walks.
const WALKS: u64 = 60;

/// In all of them. Compaction is not of these models.
const COMMON: &str = "address_ordered=true,promoter_defrag=false,ticks_per_ms=1,thp_size=64K,max_ptes_shared=4";

fn blocks(frames: u64) -> Frames {
    Frames::blocks(frames, |_| true, 11, true)
}

/// A system and its model, with this part of touches that are walks.
struct Case<'a, M> {
    keys: &'a str,
    walks: u64,
    model: &'a dyn Fn() -> M,
}

impl<M: Model> Case<'_, M> {
    fn pairs(&self, seed: u64) -> Vec<Paged<M>> {
        let keys = format!("{COMMON},{}", self.keys);
        let pair = |shape| Paged::new(&keys, (self.model)(), (seed, shape), |_, _, _, _| {}).walking(self.walks);
        SHAPES.map(pair).into()
    }

    fn agrees(&self, happened: impl Fn(&M) -> Vec<u64>) {
        agree((self.keys, SEEDS, STEPS), |seed| self.pairs(seed), |pair| happened(&pair.model));
    }

    /// The seeds whose programs find out that the model has another rule.
    fn found_out(&self) -> usize {
        let differs =
            |mut pair: Paged<M>| catch_unwind(AssertUnwindSafe(|| (0..STEPS).for_each(|_| pair.step()))).is_err();
        (0..SEEDS).filter(|seed| self.pairs(*seed).into_iter().any(differs)).count()
    }
}

/// These counts of a model.
fn own(model: &impl Model, names: &[&str]) -> Vec<u64> {
    let all: BTreeMap<&str, u64> = model.own().into_iter().collect();
    names.iter().map(|name| all[name]).collect()
}

const INGENS: &str = "placement=ingens,pages_to_scan=32,promote_sleep_ms=25,alloc_sleep_ms=120,hot_sample=100";

fn ingens(frames: u64) -> ingens::Config {
    let promoter =
        Khugepaged { pages_to_scan: 32, scan_sleep: 25, alloc_sleep: 120, max_ptes_none: 511, max_ptes_shared: 4 };
    ingens::Config {
        frames: blocks(frames),
        order: 4,
        mode: Mode::Always,
        util_threshold: 50,
        promoter,
        fairness: None,
        adaptive: false,
        track_every: 70,
        sampling: false,
    }
}

const OF_INGENS: [&str; 4] =
    ["promoter_queued", "promoter_scanned_ptes", "promoter_copied_pages", "promoter_zeroed_pages"];

fn ingens_agrees(more: &str, walks: u64, config: &ingens::Config, also: &[&str]) {
    let keys = format!("{INGENS},scan_sleep_ms={},{more}", config.track_every);
    let case = Case { keys: &keys, walks, model: &|| PlainIngens::new(config.clone()) };
    case.agrees(|model| [own(model, &OF_INGENS), own(model, also), vec![model.paging().counts.collapses]].concat());
}

/// ING-1 to ING-3, ING-5.
#[test]
fn ing_the_promoter_and_the_tracker_follow_the_plain_model() {
    let enough = "memory=16M,util_threshold=50";
    ingens_agrees(enough, WALKS, &ingens(4096), &[]);
    ingens_agrees(&format!("{enough},access_bits=walk+flush"), WALKS, &ingens(4096), &[]);
    ingens_agrees(&format!("{enough},access_bits=exact"), 100, &ingens(4096), &[]);
    // Superpages that are accessed in each scan.
    let hot = ingens::Config { track_every: 200, ..ingens(4096) };
    ingens_agrees(enough, 100, &hot, &["tracker_hot_ptes"]);
    // Advice decides.
    let advised = ingens::Config { mode: Mode::Madvise, util_threshold: 30, ..ingens(4096) };
    ingens_agrees("memory=16M,util_threshold=30,thp=madvise", WALKS, &advised, &[]);
    // Little memory, and hardly any walks.
    let percent = ingens::Config { util_threshold: 70, ..ingens(192) };
    ingens_agrees("memory=768K,util_threshold=70", 10, &percent, &["promoter_no_block"]);
}

/// ING-4, ING-6.
#[test]
fn ing_fairness_and_adaptive_thresholds_follow_the_plain_model() {
    let fairness = Some(BTreeMap::from([(1, 2)]));
    let fair = ingens::Config { fairness: fairness.clone(), ..ingens(4096) };
    ingens_agrees("memory=16M,util_threshold=50,fairness=true,fairness_weights=1+2+1", 15, &fair, &[]);
    let adaptive = ingens::Config { adaptive: true, fairness, ..ingens(192) };
    let keys = "memory=768K,util_threshold=50,fairness=true,fairness_weights=1+2+1,adaptive=true";
    ingens_agrees(keys, WALKS, &adaptive, &["promoter_no_block"]);
}

#[test]
fn ing_models_with_another_rule_are_found_out() {
    let wrong = [
        ingens::Config { util_threshold: 44, ..ingens(4096) },
        ingens::Config { track_every: 69, ..ingens(4096) },
        ingens::Config { mode: Mode::Madvise, ..ingens(4096) },
        ingens::Config { adaptive: true, ..ingens(4096) },
    ];
    for config in wrong {
        let keys = format!("{INGENS},scan_sleep_ms=70,memory=16M,util_threshold=50");
        let found = Case { keys: &keys, walks: WALKS, model: &|| PlainIngens::new(config.clone()) }.found_out();
        assert!(found >= 2, "{found} of {SEEDS}: {config:?}");
    }
    let more = "memory=16M,recovery_start=0,process_choice=overhead,overhead_least=30,overhead_walk_ticks=4";
    let keys = hawkeye_keys(&hawkeye(4096), more);
    for (choice, walk_ticks) in [(Choice::Global, 4), (Choice::Measured(0.5), 4), (Choice::Measured(0.3), 2)] {
        let model = || PlainHawkEye::new(hawkeye::Config { choice, walk_ticks, ..hawkeye(4096) });
        let found = Case { keys: &keys, walks: WALKS, model: &model }.found_out();
        assert!(found >= 2, "{found} of {SEEDS}: {choice:?}, {walk_ticks}");
    }
}

fn hawkeye(frames: u64) -> hawkeye::Config {
    let promoter =
        Khugepaged { pages_to_scan: 32, scan_sleep: 40, alloc_sleep: 0, max_ptes_none: 511, max_ptes_shared: 4 };
    hawkeye::Config {
        frames: blocks(frames),
        memory: frames,
        order: 4,
        mode: Mode::Always,
        period: 90,
        wait: 15,
        bins: Bins::Log2,
        choice: Choice::Global,
        walk_ticks: 0,
        promoter,
        zeroing: None,
        bloat: None,
    }
}

const ZEROING: Option<Zeroing> = Some(Zeroing { order: 4, blocks: 2, every: 30 });
const OF_HAWKEYE: [&str; 3] = ["hawkeye_coverage_counts", "hawkeye_rounds", "hawkeye_copied_pages"];

/// The keys of its times and its rate.
fn hawkeye_keys(config: &hawkeye::Config, more: &str) -> String {
    let hawkeye::Config { period, wait, promoter: Khugepaged { pages_to_scan, scan_sleep, .. }, .. } = config;
    format!(
        "placement=hawkeye,pages_to_scan={pages_to_scan},promote_sleep_ms={scan_sleep},coverage_ms={period},\
         coverage_window_ms={wait},{more}"
    )
}

fn hawkeye_agrees(more: &str, walks: u64, config: &hawkeye::Config, also: &[&str]) {
    let keys = hawkeye_keys(config, more);
    let case = Case { keys: &keys, walks, model: &|| PlainHawkEye::new(config.clone()) };
    case.agrees(|model| [own(model, &OF_HAWKEYE), own(model, also), vec![model.paging().counts.collapses]].concat());
}

/// HWE-1 to HWE-5.
#[test]
fn hwe_coverage_and_promotion_follow_the_plain_model() {
    let enough = "memory=16M,recovery_start=0";
    hawkeye_agrees(enough, WALKS, &hawkeye(4096), &["hawkeye_zeroed_pages"]);
    hawkeye_agrees(&format!("{enough},access_bits=exact"), 100, &hawkeye(4096), &["hawkeye_zeroed_pages"]);
    // Groups rise and fall often before one is promoted.
    let promoter = Khugepaged { pages_to_scan: 16, scan_sleep: 170, ..hawkeye(4096).promoter };
    let seldom = hawkeye::Config { period: 40, wait: 25, promoter, ..hawkeye(4096) };
    hawkeye_agrees(enough, 100, &seldom, &[]);
    // Candidates are promoted from their first bin.
    let fifty = hawkeye::Config { bins: Bins::Fifty, mode: Mode::Madvise, ..hawkeye(4096) };
    hawkeye_agrees(&format!("{enough},bins=50,thp=madvise"), WALKS, &fifty, &[]);
    hawkeye_agrees("memory=768K,recovery_start=0", WALKS, &hawkeye(192), &["hawkeye_no_block"]);
    // The process that spends most on walks; recovery takes zeros of the others first.
    let measured = hawkeye::Config { choice: Choice::Measured(0.3), walk_ticks: 4, ..hawkeye(4096) };
    let by_overhead = "process_choice=overhead,overhead_least=30,overhead_walk_ticks=4";
    hawkeye_agrees(&format!("{enough},{by_overhead}"), WALKS, &measured, &["hawkeye_zeroed_pages"]);
    let short =
        hawkeye::Config { zeroing: ZEROING, bloat: Some((40, 70)), frames: blocks(192), memory: 192, ..measured };
    let keys = "memory=768K,recovery_start=40,recovery_end=70,prezero_rate=2,prezero_block=64K,prezero_ms=30";
    hawkeye_agrees(&format!("{keys},{by_overhead}"), WALKS, &short, &["recovery_runs", "recovered_pages"]);
}

/// HWE-6, HWE-7, OSC-3.
#[test]
fn hwe_zeros_ahead_and_recovery_follow_the_plain_model() {
    let zeroing = "prezero_rate=2,prezero_block=64K,prezero_ms=30";
    let enough = hawkeye::Config { zeroing: ZEROING, ..hawkeye(4096) };
    let ahead = hawkeye::Config { frames: Frames::blocks(4096, |_| true, 5, true), ..enough };
    hawkeye_agrees(
        &format!("memory=16M,max_order=5,recovery_start=0,{zeroing}"),
        WALKS,
        &ahead,
        &["zero_pages_background"],
    );
    let short = hawkeye::Config { zeroing: ZEROING, bloat: Some((15, 30)), ..hawkeye(192) };
    let counted = ["zero_pages_background", "recovery_runs", "recovered_pages"];
    hawkeye_agrees(&format!("memory=768K,{zeroing}"), WALKS, &short, &counted);
    let early = hawkeye::Config { bloat: Some((40, 70)), ..short };
    hawkeye_agrees(&format!("memory=768K,recovery_start=40,recovery_end=70,{zeroing}"), WALKS, &early, &counted);
}

#[test]
fn hwe_models_with_another_rule_are_found_out() {
    let right = hawkeye::Config { zeroing: ZEROING, bloat: Some((15, 30)), ..hawkeye(192) };
    let keys = hawkeye_keys(&right, "memory=768K,prezero_rate=2,prezero_block=64K,prezero_ms=30");
    let wrong = [
        hawkeye::Config { bins: Bins::Fifty, ..right.clone() },
        hawkeye::Config { wait: 14, ..right.clone() },
        hawkeye::Config { bloat: Some((14, 30)), ..right.clone() },
        hawkeye::Config { bloat: Some((15, 31)), ..right.clone() },
        hawkeye::Config { zeroing: Some(Zeroing { order: 4, blocks: 1, every: 30 }), ..right.clone() },
        hawkeye::Config { zeroing: None, ..right },
    ];
    for config in wrong {
        let found = Case { keys: &keys, walks: WALKS, model: &|| PlainHawkEye::new(config.clone()) }.found_out();
        assert!(found >= 2, "{found} of {SEEDS}: {config:?}");
    }
}
