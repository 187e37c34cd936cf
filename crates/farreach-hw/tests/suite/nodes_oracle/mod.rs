//! Page tables on nodes of memory (OS-MIT-1, OS-MIT-2, OS-MIT-4, OS-NPT-1 to OS-NPT-3) against the plain model of
//! `farreach-oracle`, in the same random programs.

mod pair;

use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::nodes::{NodesConfig, Placement};
use pair::{PAGES, Pair, keys};
use std::collections::BTreeMap;

/// Blocks of 2 MB that programs use, by their number: some share a page directory, some only the root.
const BLOCKS: [u64; 9] = [0, 1, 2, 3, 511, 512, 513, 1 << 18, 5 << 18];
const PROCESSES: u32 = 3;

fn config(dice: &mut Dice) -> NodesConfig {
    let nodes = dice.pick(&[2, 2, 3, 4]);
    let kinds = [Placement::FirstTouch, Placement::Away, Placement::Replicated, Placement::OnDemand];
    NodesConfig {
        placement: if dice.percent(40) { Placement::OnDemand } else { dice.pick(&kinds) },
        cores: nodes * dice.pick(&[1, 1, 2, 3]),
        nodes,
        replicas: 1 + dice.below(nodes as u64) as usize,
        prefetch: dice.pick(&[0, 0, 1, 3, 6, 9]),
        levels: dice.pick(&[4, 4, 5]),
        process_ids: dice.percent(70),
        tiny: dice.percent(70),
        walk_caches: dice.percent(40),
    }
}

/// A page of one of a few blocks; few of its pages are in use often.
fn page(dice: &mut Dice) -> u64 {
    let block = dice.pick(&BLOCKS) * PAGES;
    block + if dice.percent(70) { dice.below(12) } else { dice.below(PAGES) }
}

fn step(dice: &mut Dice, pair: &mut Pair, asid: &mut u32, enters: &mut bool) -> String {
    let of = if dice.percent(80) { *asid } else { dice.below(PROCESSES.into()) as u32 };
    let first = page(dice);
    let block = first / PAGES * PAGES;
    match if *enters { 0 } else { dice.below(100) } {
        0..22 => {
            *asid = if *enters || dice.percent(40) { dice.below(PROCESSES.into()) as u32 } else { *asid };
            *enters = false;
            let thread = dice.below(5) as u32;
            pair.switch(*asid, thread);
            format!("switch to {asid}, thread {thread}")
        }
        22..55 => {
            let mapped: Vec<_> = pair.leaves(*asid, 0, 1 << 36).into_iter().collect();
            for _ in 0..if mapped.is_empty() { 0 } else { 6 } {
                let (leaf, order) = dice.pick(&mapped);
                let vpn = if dice.percent(50) { leaf + dice.below(1 << order) } else { page(dice) };
                pair.look(*asid, vpn);
            }
            format!("lookups of {asid}")
        }
        55..70 => {
            let pages = dice.pick(&[1, 1, 2, 9, 300, 700]);
            pair.map(of, first, pages);
            format!("{pages} pages of {of} mapped at {first}")
        }
        70..74 => {
            pair.map_large(of, block);
            format!("a superpage of {of} mapped at {block}")
        }
        74..78 => {
            if dice.percent(50) && pair.leaves(of, block, PAGES).is_empty() {
                pair.map(of, block, PAGES);
            }
            pair.promote(of, block);
            format!("a superpage of {of} made at {block}")
        }
        78..82 => {
            pair.split(of, block);
            format!("a split of {of} at {block}")
        }
        82..97 => {
            let (unmaps, whole) = (dice.percent(60), dice.percent(40));
            let pages = dice.pick(&[1, 1, 3, 20, 512, 1024]);
            let mut parts = vec![if whole { (block, PAGES * (1 + dice.below(2))) } else { (first, pages) }];
            if dice.percent(30) {
                let (start, pages) = parts[0];
                parts.push((start + pages + dice.below(9), 1 + dice.below(700)));
            }
            let tables = unmaps && dice.percent(60);
            let late = dice.percent(40);
            pair.change(of, &parts, unmaps, tables, late);
            format!("changes of {of}: {parts:?}, unmapped: {unmaps}, tables: {tables}, late: {late}")
        }
        97 => {
            pair.end(of);
            *enters = of == *asid;
            format!("end of {of}")
        }
        _ => {
            // Another process gets its number, and changes pages before a walk.
            pair.split(of, block);
            pair.end(of);
            (0..4).for_each(|thread| pair.switch(of, thread));
            *asid = of;
            pair.map(of, first, 3);
            pair.change(of, &[(first, 2)], false, false, false);
            format!("end of {of}, and another process with changes at {first}")
        }
    }
}

/// Returns what the model counted.
fn drive(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice::new(seed);
    let config = config(&mut dice);
    let mut pair = Pair::new(&config);
    let (mut asid, mut enters) = (0, true);
    for at in 0..150 {
        let name = step(&mut dice, &mut pair, &mut asid, &mut enters);
        pair.compare(config.cores, &format!("{name}, step {at}, seed {seed}: {}", keys(&config)));
    }
    pair.plain.counts
}

#[test]
fn os_mit_1_to_os_npt_3_and_a_plain_model() {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in seeds(100).flat_map(drive) {
        *sum.entry(name).or_default() += n;
    }
    assert!(sum.values().all(|n| *n > 100), "{sum:?}");
}

/// The examples of the specification, which both must reach.
#[test]
fn os_mit_and_os_npt_by_the_examples() {
    let config = |placement, cores, nodes, replicas| NodesConfig {
        placement,
        cores,
        nodes,
        replicas,
        prefetch: 9,
        levels: 4,
        process_ids: true,
        tiny: false,
        walk_caches: false,
    };
    // 1 GB of base pages has 515 pages of the table, and four copies of each; 1 MB has 256 entries.
    let mut pair = Pair::new(&config(Placement::Replicated, 4, 4, 4));
    pair.switch(0, 0);
    pair.map(0, 1 << 18, 1 << 18);
    let before = pair.counts();
    pair.change(0, &[(1 << 18, 256)], false, false, false);
    pair.compare(4, "1 GB");
    assert_eq!([before["pt_pages"], pair.counts()["pt_writes"] - before["pt_writes"]], [2060, 1024]);
    // Nodes 0 and 2 of four touched the region: 15 other cores of them, and not 31.
    let mut pair = Pair::new(&config(Placement::OnDemand, 32, 4, 4));
    (0..32).for_each(|thread| pair.switch(0, thread));
    for thread in [0, 16] {
        pair.switch(0, thread);
        pair.map(0, 0, 16);
        pair.look(0, 3);
    }
    pair.change(0, &[(0, 16)], false, false, false);
    pair.compare(32, "a region on two nodes");
    assert_eq!(pair.counts()["ipis"], 15);
}
