//! Translation Ranger.

use super::*;
use crate::linux::Mode;
use crate::since_os::ranger::{Config, PlainRanger};
use std::collections::BTreeSet;

/// Base pages, no rounding, and no other program in memory.
fn config(frames: Frames) -> Config {
    let others = BTreeSet::new();
    Config { frames, others, mode: Mode::Always, faults: vec![], order: 9, round: 0, period: 5000, percentile: 100 }
}

/// Superpages of eight pages.
pub(super) fn eights(frames: u64) -> Config {
    Config { faults: vec![3], order: 3, round: 3, period: 10, ..config(blocks(frames)) }
}

/// These free frames in this order.
fn ranger(frames: &[u64]) -> PlainRanger {
    PlainRanger::new(config(Frames::List(frames.to_vec())))
}

fn frames_of(model: &PlainRanger, process: u32, pages: Range<u64>) -> Vec<u64> {
    pages.filter_map(|page| frame(model, process, page)).collect()
}

/// The example of RNG.
#[test]
fn rng_2_rng_3_the_example() {
    let mut model = ranger(&[7, 50, 9, 51, 10, 8]);
    map(&mut model, 1, 100..104);
    store(&mut model, 1, 100..104);
    map(&mut model, 2, 0..1);
    store(&mut model, 2, 0..1);
    assert_eq!(model.due(), 5000);
    model.advance(5000);
    assert_eq!(frames_of(&model, 1, 100..104), [7, 8, 9, 10]);
    assert_eq!(frame(&model, 2, 0), Some(51));
    assert_eq!([own(&model, "copied_pages"), own(&model, "exchanged_pages")], [1, 1]);
    assert_eq!((model.ranges(1), model.due()), (vec![(100, (100, 7))], 10_000));
    assert_eq!(model.paging().frames.free(), 1);
    // It is kept, and does nothing more.
    model.advance(10_000);
    assert_eq!([own(&model, "copied_pages"), own(&model, "exchanged_pages"), own(&model, "ranger_ranges")], [1, 1, 2]);
}

/// RNG-3: frame 9 is pinned.
#[test]
fn rng_3_a_page_that_fails() {
    let mut model = ranger(&[9, 7, 50, 60, 51, 10, 8]);
    map_as(&mut model, 3, 0..1, Backing::Kernel);
    store(&mut model, 3, 0..1);
    map(&mut model, 1, 100..104);
    store(&mut model, 1, 100..104);
    map(&mut model, 2, 0..1);
    store(&mut model, 2, 0..1);
    model.advance(5000);
    assert_eq!(frames_of(&model, 1, 100..104), [7, 8, 60, 51]);
    assert_eq!(model.ranges(1), [(100, (100, 7)), (103, (103, 51))]);
    assert_eq!([own(&model, "ranger_failed_pages"), own(&model, "copied_pages")], [1, 1]);
}

/// RNG-2: both are rounded down, and an anchor must differ from the one before.
#[test]
fn rng_2_rounded_anchors() {
    let mut model = PlainRanger::new(Config { mode: Mode::Madvise, faults: vec![], ..eights(64) });
    map_as(&mut model, 9, 500..504, Backing::Kernel);
    store(&mut model, 9, 500..503);
    map(&mut model, 1, 17..40);
    store(&mut model, 1, 20..28);
    assert_eq!(frames_of(&model, 1, 20..28), (3..11).collect::<Vec<_>>());
    model.advance(10);
    // Page 20 is at frame 3, so pages from 16 on are at frames from 0 on; the first three are pinned.
    assert_eq!(model.ranges(1), [(17, (16, 0))]);
    assert_eq!(frames_of(&model, 1, 20..28), (4..12).collect::<Vec<_>>());
    store(&mut model, 1, 17..19);
    assert_eq!(frames_of(&model, 1, 17..19), [3, 12]);
    model.advance(20);
    // Pages 17 and 18 want frames 1 and 2, and their anchors are (16, 0) and (16, 8): the second one goes to 10.
    assert_eq!(model.ranges(1), [(17, (16, 0)), (18, (16, 8))]);
    assert_eq!(frame(&model, 1, 18), Some(10));
    assert_eq!(own(&model, "ranger_failed_pages"), 1);
}

/// RNG-3, RNG-4: superpages move whole; what lies in order becomes one.
#[test]
fn rng_4_promotion() {
    let mut model = PlainRanger::new(eights(64));
    map(&mut model, 1, 0..1);
    store(&mut model, 1, 0..1);
    map(&mut model, 1, 1..24);
    store(&mut model, 1, 1..24);
    assert_eq!(leaves(&model, 1)[6..], [(6, 0), (7, 0), (8, 3), (16, 3)]);
    assert_eq!(frames_of(&model, 1, 0..8), (0..8).collect::<Vec<_>>());
    model.advance(10);
    assert_eq!(leaves(&model, 1), [(0, 3), (8, 3), (16, 3)]);
    assert_eq!([own(&model, "ranger_promotions"), own(&model, "copied_pages")], [1, 0]);
}

/// RNG-3: superpages move as a whole, or not at all.
#[test]
fn rng_3_superpages() {
    let mut model = PlainRanger::new(eights(32));
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..1);
    map(&mut model, 2, 100..101);
    store(&mut model, 2, 100..101);
    store(&mut model, 1, 8..9);
    assert_eq!([(1, 0), (1, 8), (2, 100)].map(|(of, page)| frame(&model, of, page)), [Some(0), Some(16), Some(8)]);
    // Frames from 8 on have a page of another size.
    model.advance(10);
    assert_eq!([own(&model, "ranger_failed_pages"), own(&model, "exchanged_pages")], [8, 0]);
    assert_eq!((frame(&model, 1, 8), frame(&model, 2, 100)), (Some(16), Some(12)));
    end(&mut model, 2);
    model.advance(20);
    assert_eq!((frame(&model, 1, 8), own(&model, "copied_pages")), (Some(8), 1 + 8));
    assert_eq!(leaves(&model, 1), [(0, 3), (8, 3)]);
}

/// RNG-1, RNG-3, ON-74: pages that processes share stay; the page of a file is exchanged, but has no range.
#[test]
fn rng_3_what_is_movable() {
    let mut model = ranger(&[30, 40, 31, 50, 60, 32]);
    map(&mut model, 1, 0..2);
    store(&mut model, 1, 0..2);
    map_as(&mut model, 2, 30..31, Backing::File { path: "/f".into(), offset: 0 });
    load(&mut model, 2, 30..31);
    fork(&mut model, 1, 3);
    model.advance(5000);
    assert_eq!([1, 3].map(|process| frames_of(&model, process, 0..2)), [[30, 40], [30, 40]]);
    end(&mut model, 3);
    model.advance(10_000);
    assert_eq!((frames_of(&model, 1, 0..2), frame(&model, 2, 30)), (vec![30, 31], Some(40)));
    assert_eq!((own(&model, "exchanged_pages"), model.ranges(2)), (1, vec![]));
}

/// RNG-3: what others have moves where it may.
#[test]
fn rng_3_pages_of_others() {
    let frames = Frames::List(vec![30, 40, 50]);
    let mut model = PlainRanger::new(Config { others: BTreeSet::from([31]), ..config(frames) });
    map(&mut model, 1, 0..3);
    store(&mut model, 1, 0..3);
    model.advance(5000);
    // Frame 32 is pinned.
    assert_eq!(frames_of(&model, 1, 0..3), [30, 31, 50]);
    assert_eq!([own(&model, "exchanged_pages"), own(&model, "ranger_failed_pages")], [1, 1]);
}

/// RNG-1: half of three regions are two, and of equal ones the first.
#[test]
fn rng_1_percentile() {
    let frames = Frames::List(vec![10, 20, 30, 40, 50, 60, 70]);
    let mut model = PlainRanger::new(Config { percentile: 50, ..config(frames) });
    for pages in [0..2, 10..12, 20..23] {
        map(&mut model, 1, pages.clone());
        store(&mut model, 1, pages);
    }
    model.advance(5000);
    // Pages 1 and 21 fail, for no frame beside is free.
    assert_eq!(model.ranges(1).iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 20, 22]);
}
