//! HawkEye.

use super::*;
use crate::linux::{Khugepaged, Mode};
use crate::since_os::hawkeye::{Bins, Choice, Config, PlainHawkEye, Zeroing};

/// Times in milliseconds.
fn config(frames: u64, order: u32) -> Config {
    let promoter =
        Khugepaged { pages_to_scan: 0, scan_sleep: 10_000, alloc_sleep: 0, max_ptes_none: 511, max_ptes_shared: 256 };
    Config {
        frames: Frames::blocks(frames, |_| true, 19, false),
        memory: frames,
        order,
        mode: Mode::Always,
        period: 30_000,
        wait: 1000,
        bins: Bins::Log2,
        choice: Choice::Global,
        walk_ticks: 0,
        promoter,
        zeroing: None,
        bloat: None,
    }
}

fn promoting(groups: u64, config: Config) -> Config {
    Config { promoter: Khugepaged { pages_to_scan: groups << config.order, ..config.promoter }, ..config }
}

/// The first example of HWE.
#[test]
fn hwe_1_hwe_2_hwe_3_coverage_and_bins() {
    assert_eq!([204, 327, 196].map(|w| Bins::Log2.of(w)), [8, 9, 8]);
    assert_eq!([204, 327, 196].map(|w| Bins::Fifty.of(w)), [4, 6, 3]);
    assert_eq!([0, 1, 2, 3, 4, 5].map(|w| Bins::Log2.of(w)), [0, 0, 1, 2, 2, 3]);
    assert_eq!([49, 50, 511].map(|w| Bins::Fifty.of(w)), [0, 1, 9]);
    for (bins, expected) in [(Bins::Log2, [8, 9, 8]), (Bins::Fifty, [4, 6, 3])] {
        let mut model = PlainHawkEye::new(Config { bins, ..config(1024, 9) });
        map(&mut model, 1, 0..512);
        store(&mut model, 1, 0..512);
        assert_eq!(model.candidate(1, 0), Some((0, 0)));
        let mut now = 0;
        for (accessed, w, bin) in [(512, 204, expected[0]), (512, 327, expected[1]), (0, 196, expected[2])] {
            assert_eq!(model.due(), now + 30_000);
            now += 30_000;
            model.advance(now);
            load(&mut model, 1, 0..accessed);
            assert_eq!(model.due(), now + 1000);
            model.advance(now + 1000);
            assert_eq!(model.candidate(1, 0), Some((w, bin)));
        }
        assert_eq!(own(&model, "hawkeye_coverage_counts"), 3);
    }
}

/// HWE-3: rising to the head, falling to the tail; HWE-2: what leaves.
#[test]
fn hwe_3_places_in_bins() {
    let mut model = PlainHawkEye::new(config(1024, 3));
    map(&mut model, 1, 0..64);
    for group in 0..6 {
        store(&mut model, 1, 8 * group..8 * group + 8);
    }
    assert_eq!(model.bin(1, 0), [0, 8, 16, 24, 32, 40]);
    model.advance(30_000);
    load(&mut model, 1, 8..24);
    load(&mut model, 1, 32..34);
    unmap(&mut model, 1, 0..8);
    protect(&mut model, 1, 26..27, READ_ONLY);
    model.advance(31_000);
    // 3 and 3; 0 of the others.
    assert_eq!((model.bin(1, 0), model.bin(1, 2)), (vec![32, 40], vec![16, 8]));
    assert_eq!([model.candidate(1, 0), model.candidate(1, 24)], [None, None]);
    model.advance(60_000);
    load(&mut model, 1, 32..40);
    model.advance(61_000);
    // 3 falls to 1 and 1, 0 rises to 3; those that fall are at the tail.
    assert_eq!((model.bin(1, 0), model.bin(1, 2)), (vec![40, 16, 8], vec![32]));
}

/// HWE-4 G, HWE-5.
#[test]
fn hwe_4_hwe_5_the_highest_bin_in_turn() {
    let mut model = PlainHawkEye::new(promoting(2, config(1024, 3)));
    for process in [1, 2] {
        map(&mut model, process, 0..32);
        store(&mut model, process, 0..32);
    }
    // At 10 s and 20 s all are in bin 0, and wait.
    model.advance(29_999);
    assert_eq!((model.paging().counts.collapses, own(&model, "hawkeye_rounds")), (0, 1));
    model.advance(30_000);
    load(&mut model, 1, 0..8);
    load(&mut model, 1, 16..24);
    load(&mut model, 2, 8..14);
    load(&mut model, 2, 24..32);
    model.advance(31_000);
    // Of the highest bin, the groups that rose last first.
    assert_eq!((model.bin(1, 2), model.bin(2, 2), model.bin(2, 1)), (vec![16, 0], vec![24], vec![8]));
    // Processes have turns; then the highest bin.
    model.advance(39_999);
    assert_eq!((model.bin(1, 2), model.bin(2, 2), model.bin(2, 1)), (vec![0], vec![], vec![8]));
    assert_eq!((model.paging().counts.collapses, own(&model, "hawkeye_copied_pages")), (2, 16));
    model.advance(49_999);
    assert_eq!((model.bin(1, 2), model.bin(2, 1), model.paging().counts.collapses), (vec![], vec![], 4));
}

/// HWE-4 PMU.
#[test]
fn hwe_4_by_what_was_measured() {
    let mut model = PlainHawkEye::new(Config {
        choice: Choice::Measured(0.02),
        walk_ticks: 0,
        period: 1 << 40,
        bins: Bins::Fifty,
        ..promoting(3, config(1024, 3))
    });
    for process in [1, 2, 3] {
        map(&mut model, process, 0..16);
        store(&mut model, process, 0..16);
    }
    model.advance(10_000);
    assert_eq!(model.paging().counts.collapses, 0, "nothing is measured");
    let measure = |model: &mut PlainHawkEye| {
        [(1, 1), (2, 30), (3, 30)].into_iter().for_each(|(process, walks)| model.measure(process, walks, 100));
    };
    measure(&mut model);
    model.advance(20_000);
    assert_eq!([1, 2, 3].map(|process| model.bin(process, 0).len()), [2, 0, 1], "2, 3, 2");
    measure(&mut model);
    model.advance(30_000);
    assert_eq!([1, 2, 3].map(|process| model.bin(process, 0).len()), [2, 0, 0]);
    assert_eq!(model.paging().counts.collapses, 4, "below 2 %");
}

/// HWE-5: no block.
#[test]
fn hwe_5_a_failure_ends_the_round() {
    let mut model = PlainHawkEye::new(Config { bins: Bins::Fifty, ..promoting(8, config(15, 3)) });
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..10);
    model.advance(10_000);
    assert_eq!((own(&model, "hawkeye_no_block"), model.paging().counts.collapses), (1, 0));
    assert_eq!((model.bin(1, 0), model.due()), (vec![8, 0], 20_000));
}

/// HWE-6: blocks that are zeroed cost nothing at a fault; other memory takes those that are not.
#[test]
fn hwe_6_zeroing_ahead() {
    let zeroing = Zeroing { order: 3, blocks: 1, every: 500 };
    let frames = Frames::blocks(64, |_| true, 4, false);
    let mut model = PlainHawkEye::new(Config { frames, zeroing: Some(zeroing), ..config(64, 3) });
    for now in [500, 1000] {
        model.advance(now);
    }
    // Blocks at 0 and 8 are at the tail.
    assert_eq!((own(&model, "zero_pages_background"), model.zeroed_frames()), (16, 16));
    map(&mut model, 1, 0..64);
    store(&mut model, 1, 0..1);
    store(&mut model, 1, 8..9);
    assert_eq!([0, 8].map(|page| frame(&model, 1, page)), [Some(0), Some(8)]);
    assert_eq!((model.paging().counts.zeroed_pages, leaves(&model, 1)), (0, vec![(0, 3), (8, 3)]));
    store(&mut model, 1, 16..17);
    assert_eq!((model.paging().counts.zeroed_pages, frame(&model, 1, 16)), (8, Some(16)));
    // A page of a file, and a copy, take what is not zeroed.
    model.advance(1500);
    let path = "/f".into();
    map_as(&mut model, 1, 100..101, Backing::File { path, offset: 0 });
    load(&mut model, 1, 100..101);
    assert_eq!((frame(&model, 1, 100), model.zeroed_frames()), (Some(32), 8));
    // The rest of its block is not zeroed, and the smallest that there is: it costs a page.
    map(&mut model, 2, 200..201);
    store(&mut model, 2, 200..201);
    assert_eq!((frame(&model, 2, 200), model.paging().counts.zeroed_pages), (Some(33), 9));
    fork(&mut model, 2, 3);
    store(&mut model, 3, 200..201);
    assert_eq!((frame(&model, 3, 200), model.paging().counts.zeroed_pages), (Some(34), 9));
    // What is free again is not zeroed.
    end(&mut model, 1);
    assert_eq!((model.zeroed_frames(), model.paging().frames.free()), (8, 62));
}

/// The second example of HWE: 151 pages to recover.
#[test]
fn hwe_7_bloat() {
    let zeroing = Some(Zeroing { order: 9, blocks: 0, every: 1 << 40 });
    let bloat = Some((15, 30));
    let mut model = PlainHawkEye::new(Config { zeroing, bloat, ..config(1000, 6) });
    map(&mut model, 1, 0..64 * 13);
    for first in (0..64 * 13).step_by(64) {
        store(&mut model, 1, first..first + 20);
    }
    assert_eq!((model.paging().frames.free(), model.to_recover()), (168, None));
    map(&mut model, 2, 10_000..10_019);
    store(&mut model, 2, 10_000..10_018);
    assert_eq!((model.paging().frames.free(), model.to_recover()), (150, None));
    store(&mut model, 2, 10_018..10_019);
    assert_eq!((model.paging().frames.free(), model.to_recover(), model.due()), (149, Some(151), 0));
    model.advance(1);
    // 44 pages of each superpage: four of them.
    assert_eq!([model.paging().counts.demotions, own(&model, "recovered_pages")], [4, 176]);
    assert_eq!((model.paging().frames.free(), model.paging().counts.demotions), (325, 4));
    assert_eq!(frame(&model, 1, 20), None);
    assert!(frame(&model, 1, 19).is_some());
}

/// HWE-7: the process with the least overhead first; pages that others share stay.
#[test]
fn hwe_7_whose_pages() {
    let zeroing = Some(Zeroing { order: 9, blocks: 0, every: 1 << 40 });
    let mut model = PlainHawkEye::new(Config { zeroing, bloat: Some((15, 30)), ..config(100, 4) });
    for (process, walks) in [(1, 5), (2, 3), (3, 4)] {
        map(&mut model, process, 0..32);
        store(&mut model, process, 0..1);
        model.measure(process, walks, 10);
    }
    fork(&mut model, 2, 4);
    store(&mut model, 1, 16..17);
    store(&mut model, 3, 16..17);
    assert_eq!(model.to_recover(), None);
    map(&mut model, 5, 0..8);
    store(&mut model, 5, 0..8);
    assert_eq!(model.to_recover(), Some(18));
    model.advance(1);
    // The superpages of 2 are shared; 3 is next, with two of them.
    assert_eq!([1, 2, 3].map(|process| leaves(&model, process).len()), [2, 1, 2]);
    let orders = [1, 3].map(|process| model.paging().entry(process, 0).map(|entry| entry.order));
    assert_eq!(orders, [Some(4), Some(0)], "two superpages of 1, and what was stored to of those of 3");
    assert_eq!(model.paging().counts.demotions, 2);
}
