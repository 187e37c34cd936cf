//! Carrefour-LP.

use super::*;
use crate::huge::{self, Background, From};
use crate::since_os::carrefour::{Config, PlainCarrefour};

/// Superpages of eight pages, two nodes of one core. None is ever hot.
pub(super) fn eights(frames: u64) -> Config {
    let background = Some(Background { every: 2, groups: 8, missing: 7 });
    let from = From::Memory { by_advice_only: false, background };
    Config {
        huge: huge::Config { frames: blocks(frames), orders: vec![3], from, shared: None },
        cores: 2,
        nodes: 2,
        sample: 1,
        period: 100,
        least_samples: 1,
        walks: 50,
        faults: 100,
        moved: 15,
        split: 5,
        hot: 100,
        fault_ticks: 0,
        page_ticks: 0,
        wrong: None,
    }
}

fn switch(model: &mut PlainCarrefour, process: u32, thread: u32) {
    model.apply(process, &Op::Switch { thread });
}

/// Process 1 has thread 0 on node 0, which runs, and others on the nodes behind, as many as there are nodes.
fn threads(config: Config) -> PlainCarrefour {
    let nodes = config.nodes as u32;
    let mut model = PlainCarrefour::new(config);
    (0..nodes).chain([0]).for_each(|thread| switch(&mut model, 1, thread));
    model
}

/// A thread of process 1 loads pages.
fn loads(model: &mut PlainCarrefour, thread: u32, pages: Range<u64>) {
    switch(model, 1, thread);
    load(model, 1, pages);
}

fn homes(model: &PlainCarrefour, process: u32, pages: Range<u64>) -> Vec<u64> {
    pages.map(|page| model.home(process, page)).collect()
}

fn owns(model: &PlainCarrefour, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| own(model, &format!("carrefour_{name}"))).collect()
}

/// The example: half of the accesses are local with the superpage, and all without it.
#[test]
fn clp_1_the_example() {
    let mut model = threads(eights(64));
    map(&mut model, 1, 0..8);
    loads(&mut model, 0, 0..4);
    loads(&mut model, 1, 4..8);
    assert_eq!((leaves(&model, 1), model.due()), (vec![(0, 3)], 100));
    model.advance(100);
    assert_eq!(leaves(&model, 1).len(), 8);
    assert_eq!(homes(&model, 1, 0..8), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(owns(&model, &["decisions", "splits", "migrated_pages", "copied_pages", "hot_splits"]), [1, 1, 4, 4, 0]);
    assert_eq!([own(&model, "walk_samples_local"), own(&model, "walk_samples_remote")], [4, 4]);
    assert_eq!(own(&model, "first_local_ppm_at_end"), 500_000);
    assert_eq!((model.paging().counts.demotions, model.paging().counts.gathered_pages, model.due()), (1, 4, 200));
    assert_eq!((model.demoted.clone(), model.stale.len()), (vec![(1, 0..8)], 4));
    // Superpages are off, for faults and in the background, until walks take more than half of the time.
    map(&mut model, 1, 16..32);
    loads(&mut model, 0, 16..20);
    assert_eq!(leaves(&model, 1)[8..], [(16, 0), (17, 0), (18, 0), (19, 0)]);
    model.advance(200);
    assert_eq!(own(&model, "last_local_ppm_at_end"), 1_000_000);
    (0..13).for_each(|_| loads(&mut model, 0, 16..20));
    model.advance(300);
    assert_eq!(own(&model, "carrefour_switched_on"), 1);
    loads(&mut model, 0, 24..25);
    assert_eq!(leaves(&model, 1).last(), Some(&(24, 3)));
    // CLP-2: collapse stays off.
    loads(&mut model, 0, 20..24);
    assert_eq!((leaves(&model, 1).len(), model.paging().counts.collapses), (8 + 8 + 1, 0));
}

/// CLP-1: what one node uses moves whole. With fewer samples than are asked for nothing is done.
#[test]
fn clp_1_superpages_move_whole() {
    let mut model = threads(Config { least_samples: 3, ..eights(64) });
    map(&mut model, 1, 0..16);
    loads(&mut model, 0, 0..1);
    loads(&mut model, 1, 2..3);
    model.advance(100);
    assert_eq!((owns(&model, &["periods", "decisions"]), homes(&model, 1, 0..1)), (vec![1, 0], vec![0]));
    // Of three samples two are of node 1.
    loads(&mut model, 0, 0..1);
    loads(&mut model, 1, 2..4);
    let before = frame(&model, 1, 0);
    model.advance(200);
    assert_eq!((leaves(&model, 1), homes(&model, 1, 0..8)), (vec![(0, 3)], vec![1; 8]));
    assert_eq!(owns(&model, &["decisions", "migrated_pages", "splits", "failed_pages"]), [1, 8, 0, 0]);
    assert_eq!(own(&model, "last_local_ppm_at_end"), 333_333);
    assert_eq!((model.stale.clone(), model.paging().frames.free()), (vec![(1, 0..8)], 56));
    assert_ne!(frame(&model, 1, 0), before);
    // It has its place now.
    loads(&mut model, 1, 2..5);
    model.advance(300);
    assert_eq!((owns(&model, &["decisions", "migrated_pages"]), model.stale.len()), (vec![2, 8], 1));
}

/// CLP-1: a hot superpage is split, and its pages are dealt to all nodes; the others have 3 of 10 samples at most.
#[test]
fn clp_1_hot_superpages() {
    let mut model = threads(Config { hot: 30, ..eights(64) });
    map(&mut model, 1, 0..32);
    loads(&mut model, 0, 0..4);
    loads(&mut model, 0, 8..11);
    loads(&mut model, 0, 16..19);
    model.advance(100);
    assert_eq!(leaves(&model, 1).iter().filter(|(_, order)| *order == 3).count(), 2);
    assert_eq!(homes(&model, 1, 0..8), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(owns(&model, &["hot_splits", "interleaved_pages", "migrated_pages", "splits"]), [1, 4, 0, 0]);
    // Superpages are on, but not in the background.
    loads(&mut model, 0, 24..25);
    assert_eq!(leaves(&model, 1).last(), Some(&(24, 3)));
    map(&mut model, 1, 40..43);
    loads(&mut model, 0, 40..43);
    map(&mut model, 1, 43..48);
    loads(&mut model, 0, 43..48);
    assert_eq!(model.paging().counts.collapses, 0);
    // Gone when moving whole superpages is enough.
    (0..4).for_each(|_| loads(&mut model, 1, 40..48));
    model.advance(200);
    map(&mut model, 1, 56..57);
    loads(&mut model, 1, 56..57);
    map(&mut model, 1, 57..64);
    loads(&mut model, 1, 57..60);
    assert_eq!((model.paging().counts.collapses, homes(&model, 1, 56..57)), (1, vec![1]));
}

/// ON-94: of equal nodes the home, or else the lowest.
#[test]
fn clp_1_equal_nodes() {
    let mut model = threads(Config { nodes: 4, cores: 4, moved: 0, ..eights(64) });
    map(&mut model, 1, 0..4);
    loads(&mut model, 0, 0..1);
    loads(&mut model, 2, 1..2);
    model.advance(100);
    assert_eq!(homes(&model, 1, 0..2), [0, 2]);
    [3, 1].into_iter().for_each(|thread| loads(&mut model, thread, 0..2));
    loads(&mut model, 2, 1..2);
    model.advance(200);
    assert_eq!((homes(&model, 1, 0..2), owns(&model, &["migrated_pages"])), (vec![1, 2], vec![1]));
}

/// ON-96: pages that several entries name, and those of the kernel, stay.
#[test]
fn clp_1_pages_that_fail() {
    let mut model = threads(Config { moved: 0, ..eights(16) });
    map(&mut model, 1, 0..2);
    map_as(&mut model, 1, 9..10, Backing::Kernel);
    loads(&mut model, 0, 0..2);
    loads(&mut model, 0, 9..10);
    model.advance(100);
    fork(&mut model, 1, 2);
    unmap(&mut model, 2, 1..2);
    loads(&mut model, 1, 0..2);
    loads(&mut model, 1, 9..10);
    model.advance(200);
    assert_eq!([0, 1, 9].map(|page| model.home(1, page)), [0, 1, 0]);
    assert_eq!(owns(&model, &["migrated_pages", "failed_pages"]), [1, 2]);
    // There is no other block for a superpage.
    let mut model = threads(Config { moved: 0, ..eights(8) });
    map(&mut model, 1, 0..8);
    loads(&mut model, 0, 0..1);
    loads(&mut model, 1, 0..2);
    model.advance(100);
    assert_eq!((owns(&model, &["migrated_pages", "failed_pages"]), homes(&model, 1, 0..1)), (vec![0, 8], vec![0]));
}

/// ON-92: a collapsed superpage is where most of its pages were, and of equal nodes on the lowest.
#[test]
fn clp_collapsed_superpages_have_a_node() {
    for (pages_of_node_1, home) in [(5, 1), (4, 0), (3, 0)] {
        let background = Some(Background { every: 8, groups: 8, missing: 7 });
        let from = From::Memory { by_advice_only: false, background };
        let huge = huge::Config { from, ..eights(64).huge };
        let mut model = threads(Config { huge, ..eights(64) });
        let middle = 8 - pages_of_node_1;
        // The first fault is in a region without room for a superpage.
        map(&mut model, 1, 0..1);
        loads(&mut model, 0, 0..1);
        map(&mut model, 1, 1..8);
        loads(&mut model, 0, 1..middle);
        loads(&mut model, 1, middle..7);
        assert_eq!((leaves(&model, 1).len(), model.home(1, 6)), (7, 1));
        loads(&mut model, 1, 7..8);
        assert_eq!((leaves(&model, 1), homes(&model, 1, 0..8)), (vec![(0, 3)], vec![home; 8]));
    }
}

/// ON-90, ON-91: four cores of two nodes.
#[test]
fn clp_threads_are_dealt_to_cores() {
    let mut model = PlainCarrefour::new(Config { cores: 4, ..eights(64) });
    let node = |model: &mut PlainCarrefour, process: u32, page: u64| {
        map(model, process, page..page + 1);
        store(model, process, page..page + 1);
        model.home(process, page)
    };
    // The thread without a name is on core 0, and gets a name.
    assert_eq!(node(&mut model, 1, 0), 0);
    model.apply(1, &Op::ThreadStart { thread: 7 });
    model.apply(1, &Op::ThreadStart { thread: 8 });
    fork(&mut model, 1, 2);
    switch(&mut model, 1, 9);
    assert_eq!(node(&mut model, 1, 2), 0);
    // The child runs third, though with its parent's number.
    assert_eq!(node(&mut model, 2, 4), 1);
    switch(&mut model, 1, 7);
    assert_eq!(node(&mut model, 1, 6), 0);
    switch(&mut model, 1, 8);
    assert_eq!(node(&mut model, 1, 10), 1);
    // Cores are dealt round and round, and not again to others.
    end(&mut model, 2);
    assert_eq!([3, 4, 5].map(|process| node(&mut model, process, 0)), [0, 0, 1]);
}

/// One of some walks is a sample, and what is not mapped any more has none.
#[test]
fn clp_samples() {
    let mut model = threads(Config { sample: 3, least_samples: 2, ..eights(64) });
    map(&mut model, 1, 0..4);
    loads(&mut model, 0, 0..4);
    loads(&mut model, 1, 0..4);
    assert_eq!([own(&model, "walk_samples_local"), own(&model, "walk_samples_remote")], [1, 1]);
    unmap(&mut model, 1, 2..3);
    model.advance(100);
    assert_eq!(owns(&model, &["periods", "decisions"]), [1, 0]);
    let mut one = PlainCarrefour::new(Config { nodes: 1, ..eights(64) });
    map(&mut one, 1, 0..4);
    load(&mut one, 1, 0..4);
    assert_eq!((one.due(), one.own()), (u64::MAX, vec![]));
}
