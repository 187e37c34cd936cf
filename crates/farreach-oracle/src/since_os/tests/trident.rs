//! Trident.

use super::*;
use crate::linux::{Khugepaged, Mode};
use crate::since_os::trident::{Block, Config, PlainTrident};

/// 1 GB is 64 pages here, and 2 MB are 8.
fn config(frames: u64) -> Config {
    let promoter =
        Khugepaged { pages_to_scan: 128, scan_sleep: 100, alloc_sleep: 600, max_ptes_none: 7, max_ptes_shared: 4 };
    Config {
        frames: blocks(frames),
        memory: frames,
        giant: 6,
        pmd: 3,
        mode: Mode::Always,
        promoter,
        max_none_giant: 63,
        compaction: Some(1200),
    }
}

#[test]
fn tri_1_three_sizes() {
    let mut model = PlainTrident::new(config(128));
    map(&mut model, 1, 0..96);
    store(&mut model, 1, 70..71);
    assert_eq!(leaves(&model, 1), [(64, 3)], "the region does not cover 1 GB there");
    store(&mut model, 1, 9..10);
    assert_eq!(leaves(&model, 1), [(0, 6), (64, 3)]);
    // No block of 1 GB: 2 MB, and 4 KB at the end.
    map(&mut model, 2, 0..64);
    store(&mut model, 2, 5..6);
    assert_eq!(leaves(&model, 2), [(0, 3)]);
    assert_eq!(model.paging().counts.superpage_fallbacks, 1);
    store(&mut model, 2, 8..56);
    assert_eq!((leaves(&model, 2).len(), model.paging().frames.free()), (7, 0));
    let mut model = PlainTrident::new(config(5));
    map(&mut model, 1, 0..64);
    store(&mut model, 1, 0..5);
    assert_eq!((leaves(&model, 1).len(), model.paging().counts.superpage_fallbacks), (5, 2));
}

#[test]
fn tri_2_the_promoter() {
    let mut model = PlainTrident::new(config(256));
    // Page by page, so that the faults find something mapped.
    for first in (0..128).step_by(8) {
        map(&mut model, 1, first..first + 8);
        model.touch(1, first + 1, Kind::Store).unwrap();
    }
    assert_eq!(leaves(&model, 1).len(), 16, "2 MB each");
    model.advance(0);
    assert_eq!((own(&model, "trident_promotions"), own(&model, "khugepaged_scanned_ptes")), (0, 128), "no A");
    model.walked(1, 100);
    model.advance(99);
    assert_eq!(own(&model, "trident_promotions"), 0);
    model.advance(100);
    assert_eq!(own(&model, "trident_promotions"), 1);
    assert_eq!(leaves(&model, 1)[8..], [(64, 6)]);
    assert_eq!([own(&model, "khugepaged_copied_pages"), own(&model, "khugepaged_zeroed_pages")], [64, 0]);
    // A page that is shared: none of 1 GB, but of 2 MB.
    let mut model = PlainTrident::new(config(256));
    map(&mut model, 1, 0..1);
    store(&mut model, 1, 0..1);
    map(&mut model, 1, 1..64);
    advise(&mut model, 1, 0..64, Advice::HugePage);
    fork(&mut model, 1, 2);
    model.walked(1, 0);
    model.advance(0);
    assert_eq!((leaves(&model, 1), leaves(&model, 2)), (vec![(0, 3)], vec![(0, 0)]));
    model.advance(100);
    assert_eq!(leaves(&model, 1), [(0, 6)]);
    assert_eq!(own(&model, "khugepaged_zeroed_pages"), 7 + 56);
}

/// The example of TRI.
#[test]
fn tri_3_the_block_with_the_fewest_pages_is_emptied() {
    let pages = 1 << 18;
    let free = [10_000, 200_000, 60_000, 150_000];
    let blocks: Vec<Block> =
        (0..).zip(free).map(|(at, free)| Block { first: at * pages, free, unmovable: 0, pages }).collect();
    let source = Block::source(&blocks, |_| false).unwrap();
    assert_eq!((source.first / pages, source.pages - source.free), (1, 62_144));
    let destinations = Block::destinations(&blocks, &source);
    let mut rest = source.pages - source.free;
    let parts = destinations.iter().map(|block| {
        let part = rest.min(block.free);
        rest -= part;
        (block.first / pages, part)
    });
    assert_eq!(parts.filter(|(_, part)| *part > 0).collect::<Vec<_>>(), [(0, 10_000), (2, 52_144)]);
    assert_eq!(pages - blocks[0].free, 252_144, "a scan by address");
    assert_eq!(Block::source(&blocks, |first| first == pages).unwrap().first, 3 * pages);
}

#[test]
fn tri_3_empties_blocks_for_a_page() {
    let mut model = PlainTrident::new(Config { mode: Mode::Madvise, ..config(256) });
    // Base pages everywhere; then free are 10, 50, 20 and 40 of each 64 frames.
    map(&mut model, 1, 0..256);
    store(&mut model, 1, 0..256);
    for (block, free) in (0..).zip([10, 50, 20, 40]) {
        assert_eq!(frame(&model, 1, block * 64), Some(block * 64));
        unmap(&mut model, 1, block * 64 + 64 - free..block * 64 + 64);
    }
    assert_eq!(model.blocks().iter().map(|block| block.free).collect::<Vec<_>>(), [10, 50, 20, 40]);
    map(&mut model, 2, 0..64);
    store(&mut model, 2, 0..1);
    advise(&mut model, 2, 0..64, Advice::HugePage);
    model.advance(0);
    assert_eq!(own(&model, "trident_promotions"), 1);
    // 14 or, with the page of the second process, 15 pages at most had to move.
    assert_eq!([own(&model, "trident_rounds"), own(&model, "trident_aborts")], [1, 0]);
    assert_eq!(own(&model, "compacted_pages"), 14);
    assert_eq!(leaves(&model, 2), [(0, 6)]);
    let to: Vec<u64> = (64..78).map(|page| frame(&model, 1, page).unwrap()).collect();
    let (first, second): (Vec<u64>, Vec<u64>) = to.iter().partition(|frame| **frame < 64);
    assert_eq!((first.len(), second), (9, vec![172, 173, 174, 175, 176]), "one of ten had the page of the other");
}

/// TRI-3: what cannot be moved ends a round, and its block is left alone for a time.
#[test]
fn tri_3_unmovable_pages() {
    let mut model = PlainTrident::new(Config { mode: Mode::Madvise, ..config(128) });
    map_as(&mut model, 1, 300..301, Backing::Kernel);
    store(&mut model, 1, 300..301);
    map(&mut model, 1, 0..128);
    store(&mut model, 1, 0..126);
    unmap(&mut model, 1, 10..60);
    unmap(&mut model, 1, 100..120);
    map(&mut model, 2, 0..64);
    store(&mut model, 2, 0..1);
    let blocks = |model: &PlainTrident| model.blocks().iter().map(|b| (b.free, b.unmovable)).collect::<Vec<_>>();
    assert_eq!(blocks(&model), [(49, 1), (21, 0)]);
    // The first block has the most free pages, and the kernel's; the second goes to the first.
    advise(&mut model, 2, 0..64, Advice::HugePage);
    model.advance(0);
    assert_eq!([own(&model, "trident_rounds"), own(&model, "trident_aborts")], [2, 1]);
    assert_eq!([own(&model, "trident_promotions"), own(&model, "compacted_pages")], [1, 43]);
    // Both were tried: no round within the pause. Then neither can be emptied.
    map(&mut model, 3, 64..128);
    store(&mut model, 3, 64..65);
    advise(&mut model, 3, 64..128, Advice::HugePage);
    for (now, rounds) in [(600, 2), (1199, 2), (1800, 4)] {
        model.advance(now);
        model.walked(3, 64);
        assert_eq!(own(&model, "trident_rounds"), rounds, "at {now}");
    }
}
