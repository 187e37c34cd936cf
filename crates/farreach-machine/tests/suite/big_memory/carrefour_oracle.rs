//! Carrefour-LP against a plain model: the frame of every page, what is counted, when the daemon runs and what it
//! reports, with programs of several threads that switch.

mod both;
mod unmodelled;

use super::plain::{Pair, agree};
use super::programs::{LARGE, SMALL, Shape};
use both::Both;
use farreach_oracle::dice::Dice;
use farreach_oracle::frames::Frames;
use farreach_oracle::huge::{self, Background, From, Shared};
use farreach_oracle::paging::Model;
use farreach_oracle::since_os::carrefour::{Config, Wrong};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SHAPES: [Shape; 3] =
    [Shape { advises: 0, ..LARGE }, Shape { advises: 0, ..SMALL }, Shape { shared: 9, advises: 15, ..SMALL }];
const STEPS: usize = 700;
const SEEDS: u64 = 5;

/// A system with the keys of its model.
#[derive(Clone, Debug)]
struct Case {
    keys: String,
    config: Config,
}

impl Case {
    fn new(more: &str, config: Config) -> Case {
        let Config { nodes, sample, period, least_samples: least, walks, faults, moved, split, hot, .. } = config;
        let ticks = (config.fault_ticks, config.page_ticks);
        let policy = format!(
            "placement=carrefour,ticks_per_ms=1,carrefour_nodes={nodes},carrefour_sample={sample},\
             carrefour_period_ms={period},carrefour_least_samples={least},carrefour_walks={walks},\
             carrefour_faults={faults},carrefour_moved={moved},carrefour_split={split},carrefour_hot={hot},\
             carrefour_fault_ticks={},carrefour_page_ticks={}",
            ticks.0, ticks.1
        );
        Case { keys: format!("{policy},{more}"), config }
    }

    fn pairs(&self, seed: u64) -> Vec<Both> {
        SHAPES.map(|shape| Both::new(&self.keys, self.config.clone(), seed, shape)).into()
    }

    /// The same programs on both, in which these counts rise.
    fn agrees(&self, counted: &[&str]) {
        let happened = |pair: &Both| {
            let own: BTreeMap<&str, u64> = pair.model.own().into_iter().collect();
            let counts = pair.model.paging().counts;
            let all = counted.iter().chain(&OFTEN).map(|name| own[name]).chain([counts.cow_copies]);
            // Advice is rare.
            let of_all = matches!(self.config.huge.from, From::Memory { by_advice_only: false, .. });
            all.chain([counts.superpage_faults, counts.collapses].into_iter().filter(|_| of_all)).collect()
        };
        agree((&self.keys, SEEDS, STEPS), |seed| self.pairs(seed), happened);
    }

    /// The seeds whose programs find out that the model has another rule.
    fn found_out(&self, config: Config) -> usize {
        let wrong = Case { config, ..self.clone() };
        let differs = |mut pair: Both| catch_unwind(AssertUnwindSafe(|| (0..STEPS).for_each(|_| pair.step()))).is_err();
        (0..SEEDS).filter(|seed| wrong.pairs(*seed).into_iter().any(differs)).count()
    }
}

const OFTEN: [&str; 5] = [
    "carrefour_decisions",
    "carrefour_migrated_pages",
    "carrefour_failed_pages",
    "walk_samples_local",
    "walk_samples_remote",
];
const SPLITS: [&str; 4] =
    ["carrefour_splits", "carrefour_hot_splits", "carrefour_interleaved_pages", "carrefour_switched_on"];

fn thp(frames: Frames, orders: &[u32], by_advice_only: bool) -> huge::Config {
    let background = Some(Background { every: 3, groups: 4, missing: 12 });
    huge::Config { frames, orders: orders.to_vec(), from: From::Memory { by_advice_only, background }, shared: None }
}

const COLLAPSE: &str = "khugepaged=3,khugepaged_groups=4,max_ptes_none=12";

fn blocks(frames: u64) -> Frames {
    Frames::blocks(frames, |_| true, 11, false)
}

fn config(frames: u64) -> Config {
    Config {
        huge: thp(blocks(frames), &[4], false),
        cores: 2,
        nodes: 2,
        sample: 1,
        period: 60,
        least_samples: 10,
        walks: 80,
        faults: 90,
        moved: 15,
        split: 5,
        hot: 40,
        fault_ticks: 1,
        page_ticks: 0,
        wrong: None,
    }
}

/// CLP-1, CLP-2, in memory that is never full.
#[test]
fn clp_follows_the_plain_model() {
    Case::new(&format!("memory=16M,thp_size=64K,{COLLAPSE}"), config(4096)).agrees(&SPLITS);
    let often = Config { period: 25, moved: 25, split: 1, hot: 60, sample: 2, ..config(4096) };
    Case::new(&format!("memory=16M,thp_size=64K,{COLLAPSE}"), often).agrees(&SPLITS);
    let any = Config { moved: 0, hot: 6, least_samples: 1, ..config(4096) };
    Case::new(&format!("memory=16M,thp_size=64K,{COLLAPSE}"), any).agrees(&["carrefour_hot_splits"]);
}

/// More nodes than two, and cores of the machine.
#[test]
fn clp_with_more_nodes_follows_the_plain_model() {
    let four = Config { nodes: 4, cores: 4, ..config(4096) };
    Case::new(&format!("memory=16M,thp_size=64K,{COLLAPSE}"), four.clone()).agrees(&SPLITS);
    let cores = Config { cores: 8, huge: thp(blocks(4096), &[4, 2], false), sample: 3, least_samples: 3, ..four };
    Case::new(&format!("memory=16M,thp_size=64K,mthp_sizes=16K,cores=8,{COLLAPSE}"), cores).agrees(&SPLITS);
    let two = Config { cores: 4, huge: thp(blocks(4096), &[2], true), moved: 40, split: 10, ..config(4096) };
    Case::new(&format!("memory=16M,thp_size=16K,thp=madvise,cores=4,{COLLAPSE}"), two).agrees(&[]);
}

/// Memory that is full, and blocks that are hard to get.
#[test]
fn clp_with_little_memory_follows_the_plain_model() {
    let little = Config { huge: thp(blocks(192), &[4, 2], false), ..config(192) };
    Case::new(&format!("memory=768K,thp_size=64K,mthp_sizes=16K,{COLLAPSE}"), little.clone()).agrees(&SPLITS);
    let by_address = Frames::blocks(192, |_| true, 11, true);
    let whole = Config { huge: thp(by_address, &[3], false), nodes: 4, cores: 4, moved: 2, ..little.clone() };
    Case::new(&format!("memory=768K,address_ordered=true,thp_size=32K,{COLLAPSE}"), whole).agrees(&SPLITS[1..]);
    let list = Config { huge: thp(Frames::list(192, |_| true), &[3], false), ..little };
    Case::new(&format!("memory=768K,allocator=fifo,thp_size=32K,{COLLAPSE}"), list).agrees(&SPLITS);
}

/// Superpages of shared memory are split and moved, too.
#[test]
fn clp_with_shared_superpages_follows_the_plain_model() {
    let shared = Some(Shared { order: 3, by_advice_only: false });
    let huge = huge::Config { shared, ..thp(blocks(2048), &[4], false) };
    let config = Config { huge, moved: 30, ..config(2048) };
    let keys = format!("memory=8M,thp_size=64K,shmem_enabled=always,shmem_size=32K,{COLLAPSE}");
    Case::new(&keys, config).agrees(&SPLITS);
}

/// Any keys, and the ends of their ranges.
fn any(seed: u64) -> Case {
    let mut dice = Dice::new(seed ^ 0x0a11);
    let nodes = dice.pick(&[2, 3, 4, 5]);
    let cores = nodes * dice.pick(&[1, 1, 2, 3]);
    let (order, size) = dice.pick(&[(2, "16K"), (3, "32K"), (4, "64K"), (5, "128K")]);
    let (frames, memory) = dice.pick(&[(192, "768K"), (512, "2M"), (4096, "16M")]);
    let drawn = Config {
        huge: thp(blocks(frames), &[order], false),
        cores,
        nodes,
        sample: dice.pick(&[1, 1, 2, 7]),
        period: dice.pick(&[1, 10, 60, 150]),
        least_samples: dice.pick(&[1, 5, 20]),
        walks: dice.pick(&[0, 5, 50, 90, 100]),
        faults: dice.pick(&[0, 5, 50, 100]),
        moved: dice.pick(&[0, 15, 40, 100]),
        split: dice.pick(&[0, 1, 5, 20, 100]),
        hot: dice.pick(&[0, 6, 30, 60, 100]),
        fault_ticks: dice.pick(&[0, 1, 4500]),
        page_ticks: dice.pick(&[0, 1, 730]),
        wrong: None,
    };
    let cores = if cores == nodes { String::new() } else { format!(",cores={cores}") };
    Case::new(&format!("memory={memory},thp_size={size},{COLLAPSE}{cores}"), drawn)
}

#[test]
fn clp_with_any_keys_follows_the_plain_model() {
    let happened = |pair: &Both| {
        let own: BTreeMap<&str, u64> = pair.model.own().into_iter().collect();
        OFTEN.iter().chain(&SPLITS[1..]).map(|name| own[name]).collect()
    };
    agree(("any keys", 30, 400), |seed| any(seed).pairs(seed), happened);
}

/// With one node nothing is counted, and nothing moves.
#[test]
fn clp_with_one_node_is_thp() {
    let one = Config { nodes: 1, cores: 1, ..config(4096) };
    let case = Case::new(&format!("memory=16M,thp_size=64K,{COLLAPSE}"), one);
    agree(
        (&case.keys, 2, STEPS),
        |seed| case.pairs(seed),
        |pair| {
            assert_eq!((pair.os.counts().policy.get("carrefour_periods"), pair.os.due()), (0, u64::MAX));
            vec![pair.model.paging().counts.superpage_faults, pair.model.paging().counts.collapses]
        },
    );
}

/// All of them, and how many seeds find each out.
fn found_out(case: &Case, others: impl IntoIterator<Item = (String, Config)>) {
    let found: Vec<(String, usize)> = others.into_iter().map(|(rule, config)| (rule, case.found_out(config))).collect();
    println!("{found:?}");
    assert!(found.iter().all(|(_, seeds)| *seeds >= 3), "of {SEEDS}: {found:?}");
}

#[test]
fn clp_models_with_another_rule_are_found_out() {
    let right = Config { nodes: 4, cores: 8, hot: 50, moved: 20, walks: 90, ..config(4096) };
    let case = Case::new(&format!("memory=16M,thp_size=64K,cores=8,{COLLAPSE}"), right.clone());
    let wrong = [
        Wrong::LowestOfEqual,
        Wrong::HighestOfEqual,
        Wrong::DealtInPairs,
        Wrong::NotDealt,
        Wrong::Collapses,
        Wrong::HotCollapses,
        Wrong::StaysOn,
        Wrong::HotIfEqual,
        Wrong::AllOfSplit,
    ];
    found_out(&case, wrong.map(|rule| (format!("{rule:?}"), Config { wrong: Some(rule), ..right.clone() })));
}

#[test]
fn clp_models_with_other_keys_are_found_out() {
    let right = Config { nodes: 4, cores: 8, hot: 25, sample: 2, walks: 90, faults: 40, ..config(4096) };
    let case = Case::new(&format!("memory=16M,thp_size=64K,cores=8,{COLLAPSE}"), right.clone());
    let others = [
        ("other cores", Config { cores: 4, ..right.clone() }),
        ("another sample", Config { sample: 3, ..right.clone() }),
        ("another period", Config { period: 61, ..right.clone() }),
        ("more samples needed", Config { least_samples: 11, ..right.clone() }),
        ("hot is more", Config { hot: 27, ..right.clone() }),
        ("moving must gain more", Config { moved: 20, ..right.clone() }),
        ("splitting must gain more", Config { split: 6, ..right.clone() }),
        ("more walks", Config { walks: 99, ..right.clone() }),
        ("more faults", Config { faults: 60, ..right.clone() }),
        ("a fault takes longer", Config { fault_ticks: 2, ..right.clone() }),
        ("pages take time", Config { page_ticks: 1, ..right.clone() }),
    ];
    found_out(&case, others.map(|(rule, config)| (rule.to_string(), config)));
}
