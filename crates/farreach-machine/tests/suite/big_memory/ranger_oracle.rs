//! Translation Ranger against a plain model: the frame of every page, when the daemon runs, and what it counts.

use super::plain::{Paged, Pair, agree};
use super::programs::{LARGE, SMALL, Shape};
use super::world::pattern;
use farreach_oracle::frames::Frames;
use farreach_oracle::linux::Mode;
use farreach_oracle::paging::Model;
use farreach_oracle::since_os::ranger::{Config, PlainRanger};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The last one has more shared memory.
const SHAPES: [Shape; 3] = [LARGE, SMALL, Shape { shared: 8, ..SMALL }];
const STEPS: usize = 500;
const SEEDS: u64 = 5;

/// In all of them. khugepaged is not of this model.
const COMMON: &str = "placement=ranger,address_ordered=true,khugepaged=0,ticks_per_ms=1";

/// A system with the keys of its model.
#[derive(Clone, Debug)]
struct Case {
    keys: String,
    config: Config,
}

impl Case {
    fn new(keys: &str, config: Config) -> Case {
        let keys = format!("{COMMON},ranger_period_ms={},{keys}", config.period);
        Case { keys, config }
    }

    fn pairs(&self, seed: u64) -> Vec<Paged<PlainRanger>> {
        let model = || PlainRanger::new(self.config.clone());
        SHAPES.map(|shape| Paged::new(&self.keys, model(), (seed, shape), |_, _, _, _| {})).into()
    }

    /// The same programs on both, in which this happens, too.
    fn agrees(&self, counted: &[&str]) {
        let happened = |pair: &Paged<PlainRanger>| {
            let own: BTreeMap<&str, u64> = pair.model.own().into_iter().collect();
            counted.iter().chain(&OFTEN).map(|name| own[name]).collect()
        };
        agree((&self.keys, SEEDS, STEPS), |seed| self.pairs(seed), happened);
    }

    /// The seeds whose programs find out that the model has another rule.
    fn found_out(&self, config: Config) -> usize {
        let wrong = Case { config, ..self.clone() };
        let differs = |mut pair: Paged<PlainRanger>| {
            catch_unwind(AssertUnwindSafe(|| (0..STEPS).for_each(|_| pair.step()))).is_err()
        };
        (0..SEEDS).filter(|seed| wrong.pairs(*seed).into_iter().any(differs)).count()
    }
}

const OFTEN: [&str; 4] = ["ranger_runs", "ranger_ranges", "copied_pages", "ranger_failed_pages"];

fn config(frames: u64) -> Config {
    Config {
        frames: Frames::blocks(frames, |_| true, 11, true),
        others: BTreeSet::new(),
        mode: Mode::Always,
        faults: vec![4],
        order: 4,
        round: 4,
        period: 70,
        percentile: 100,
    }
}

/// Whether a frame belongs to others.
fn of_others(frame: u64) -> bool {
    frame % 24 == 17
}

/// The keys for that, and the model if none of these frames may move.
fn among_others() -> (String, Config) {
    let file = pattern("ranger.txt", "every 24 offset 17\n");
    let frames = Frames::blocks(1024, |frame| !of_others(frame), 11, true);
    (format!("memory=4M,thp_size=64K,pattern={file}"), Config { frames, ..config(1024) })
}

/// The model if they may.
fn with_movable(pinned: Config) -> Config {
    Config { others: (0..1024).filter(|frame| of_others(*frame)).collect(), ..pinned }
}

/// RNG-1 to RNG-4.
#[test]
fn rng_follows_the_plain_model() {
    let counted = ["exchanged_pages", "ranger_promotions"];
    Case::new("memory=16M,thp_size=64K", config(4096)).agrees(&counted);
    // Small superpages: pages often lie in order without being aligned.
    let small = Config { mode: Mode::Madvise, faults: vec![2], order: 2, round: 2, ..config(4096) };
    Case::new("memory=16M,thp_size=16K,thp=madvise", small).agrees(&counted);
}

/// RNG-3: memory that is nearly full.
#[test]
fn rng_with_little_memory_follows_the_plain_model() {
    let small = Config { faults: vec![4, 2], period: 25, ..config(192) };
    Case::new("memory=768K,thp_size=64K,mthp_sizes=16K", small).agrees(&["exchanged_pages"]);
    let advised = Config { mode: Mode::Madvise, percentile: 40, ..config(192) };
    Case::new("memory=768K,thp_size=64K,thp=madvise,ranger_percentile=40", advised).agrees(&["exchanged_pages"]);
}

/// Without superpages nothing is rounded, nor promoted.
#[test]
fn rng_without_superpages_follows_the_plain_model() {
    let never = Config { mode: Mode::Never, order: 0, round: 0, ..config(768) };
    Case::new("memory=3M,thp=never", never).agrees(&["exchanged_pages"]);
}

/// RNG-3: others have frames everywhere, which may move or not.
#[test]
fn rng_among_others_follows_the_plain_model() {
    let (keys, pinned) = among_others();
    Case::new(&keys, pinned.clone()).agrees(&["exchanged_pages"]);
    Case::new(&format!("{keys},movable=1"), with_movable(pinned)).agrees(&["exchanged_pages", "ranger_promotions"]);
}

#[test]
fn rng_models_with_another_rule_are_found_out() {
    let (keys, pinned) = among_others();
    let right = with_movable(pinned.clone());
    let case = Case::new(&format!("{keys},movable=1"), right.clone());
    let wrong = [
        ("pages of others are pinned", pinned),
        ("nothing is rounded", Config { round: 0, ..right.clone() }),
        ("half of what is rounded", Config { round: 3, ..right.clone() }),
        ("smaller superpages", Config { order: 3, ..right.clone() }),
        ("superpages by advice alone", Config { mode: Mode::Madvise, ..right.clone() }),
        ("the largest regions alone", Config { percentile: 80, ..right.clone() }),
        ("another period", Config { period: 69, ..right }),
    ];
    for (rule, config) in wrong {
        let found = case.found_out(config);
        assert!(found >= 4, "{found} of {SEEDS}: {rule}");
    }
}
