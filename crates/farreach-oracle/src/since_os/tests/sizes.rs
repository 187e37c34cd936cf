//! Sizes that the memory is fit for: TPS, Solaris, Windows.

use super::*;
use crate::since_os::{solaris, tps, windows};

fn tailored(frames: u64, threshold: u64) -> tps::PlainTps {
    tps::PlainTps::new(tps::Config { frames: blocks(frames), largest: 18, threshold })
}

#[test]
fn os_tps_1_os_tps_2_os_tps_3_the_example() {
    let mut model = tailored(64, 100);
    map(&mut model, 1, 8..15);
    for (page, reserved) in [(8, 3), (12, 4), (14, 4)] {
        store(&mut model, 1, page..page + 1);
        assert_eq!(model.reserved(), reserved);
    }
    assert_eq!([8, 12, 14].map(|page| frame(&model, 1, page)), [Some(0), Some(4), Some(6)]);
    assert_eq!(leaves(&model, 1), [(8, 0), (12, 0), (14, 0)]);
    store(&mut model, 1, 8..15);
    assert_eq!(leaves(&model, 1), [(8, 2), (12, 1), (14, 0)]);
    assert_eq!([model.reservations, model.promotions, model.reserved()], [3, 4, 0]);
    protect(&mut model, 1, 9..10, READ_ONLY);
    assert_eq!(leaves(&model, 1), [(8, 0), (9, 0), (10, 1), (12, 1), (14, 0)]);
    assert_eq!(model.paging().counts.demotions, 2);
}

/// OS-TPS-1: the largest group for which there is a block, and that no other has.
#[test]
fn os_tps_1_blocks_and_groups() {
    let mut model = tailored(6, 100);
    map(&mut model, 1, 0..8);
    store(&mut model, 1, 5..6);
    // Four frames at 0, for pages 4-7.
    assert_eq!((frame(&model, 1, 5), model.reserved(), model.paging().frames.free()), (Some(1), 3, 2));
    store(&mut model, 1, 0..1);
    assert_eq!((frame(&model, 1, 0), model.reserved(), model.paging().frames.free()), (Some(4), 4, 0));
    assert!(model.touch(1, 2, Kind::Store).is_err(), "what is reserved is not free");
    store(&mut model, 1, 1..2);
    assert_eq!(leaves(&model, 1), [(0, 1), (5, 0)]);
    // Pages that are unmapped give up what was reserved for them, and their own frames.
    unmap(&mut model, 1, 5..8);
    assert_eq!((model.reserved(), model.paging().frames.free()), (1, 3));
    store(&mut model, 1, 2..5);
    assert_eq!([2, 3, 4].map(|page| frame(&model, 1, page)), [Some(2), Some(3), Some(0)]);
    end(&mut model, 1);
    assert_eq!((model.reserved(), model.paging().frames.free()), (0, 6));
}

/// OS-TPS-2: half of the pages are enough.
#[test]
fn os_tps_2_threshold() {
    let mut model = tailored(64, 50);
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 3..4);
    assert_eq!(leaves(&model, 1), (0..1).map(|_| (0, 4)).collect::<Vec<_>>(), "each step maps the other half");
    let counts = model.paging().counts;
    assert_eq!([counts.page_faults, counts.populated_pages, counts.zeroed_pages], [1, 15, 16]);
    let mut model = tailored(64, 75);
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..3);
    assert_eq!(leaves(&model, 1), [(0, 2)]);
    assert_eq!(model.paging().counts.zeroed_pages, 4);
}

/// OS-TPS-2, OS-TPS-3: rights and copies are attributes.
#[test]
fn os_tps_2_equal_attributes() {
    let mut model = tailored(64, 100);
    map(&mut model, 1, 0..4);
    store(&mut model, 1, 0..3);
    protect(&mut model, 1, 2..3, READ_ONLY);
    store(&mut model, 1, 3..4);
    assert_eq!(leaves(&model, 1), [(0, 1), (2, 0), (3, 0)]);
    protect(&mut model, 1, 2..3, Prot::RW);
    assert_eq!(leaves(&model, 1), [(0, 1), (2, 0), (3, 0)], "no fault, no promotion");

    let mut model = tailored(64, 100);
    map(&mut model, 1, 0..4);
    store(&mut model, 1, 0..4);
    fork(&mut model, 1, 2);
    store(&mut model, 2, 1..2);
    assert_eq!(leaves(&model, 2), [(0, 0), (1, 0), (2, 1)]);
    assert_eq!(leaves(&model, 1), [(0, 2)]);
    end(&mut model, 2);
    store(&mut model, 1, 1..2);
    assert_eq!((leaves(&model, 1), model.paging().counts.cow_copies), (vec![(0, 2)], 1), "LNX-23");
}

#[test]
fn sol_1_sizes_of_segments() {
    let solaris = |frames| solaris::PlainSolaris::new(solaris::Config { frames: blocks(frames), orders: vec![4, 2] });
    let mut model = solaris(256);
    map_as(&mut model, 1, 0..24, Backing::Heap);
    store(&mut model, 1, 3..4);
    store(&mut model, 1, 17..18);
    assert_eq!(leaves(&model, 1), [(0, 4), (16, 2)]);
    // The rest of a segment whose group was touched gets the next smaller size.
    store(&mut model, 1, 22..23);
    map(&mut model, 1, 64..96);
    store(&mut model, 1, 64..65);
    assert_eq!(leaves(&model, 1), [(0, 4), (16, 2), (20, 2), (64, 0)]);
    advise(&mut model, 1, 64..96, Advice::HugePage);
    store(&mut model, 1, 70..71);
    store(&mut model, 1, 80..81);
    assert_eq!(leaves(&model, 1)[3..], [(64, 0), (68, 2), (80, 4)]);
    advise(&mut model, 1, 64..96, Advice::NoHugePage);
    store(&mut model, 1, 72..73);
    assert_eq!(leaves(&model, 1)[4..], [(68, 2), (72, 0), (80, 4)]);
    assert_eq!(model.paging().counts.superpage_fallbacks, 0);
    // No free page of the size: the next smaller one; nothing is collapsed later.
    let mut model = solaris(15);
    map_as(&mut model, 1, 0..16, Backing::Stack);
    store(&mut model, 1, 0..12);
    assert_eq!(leaves(&model, 1), [(0, 2), (4, 2), (8, 2)]);
    store(&mut model, 1, 12..15);
    assert_eq!(leaves(&model, 1)[3..], [(12, 0), (13, 0), (14, 0)]);
    assert_eq!(model.paging().counts.superpage_fallbacks, 2);
}

/// SOL-1, ON-23: text has superpages by itself, other mappings of files by advice, and all that map one share it.
#[test]
fn sol_1_superpages_of_files() {
    let mut model = solaris::PlainSolaris::new(solaris::Config { frames: blocks(64), orders: vec![3] });
    let code = Prot { read: true, write: false, exec: true };
    let file = |pages: &Range<u64>, first: u64, shared: bool, prot: Prot| {
        let (start, len) = bytes(pages);
        Op::Map(Mapping { start, len, prot, shared, backing: Backing::File { path: "/f".into(), offset: first << 12 } })
    };
    model.apply(1, &file(&(8..24), 0, false, code));
    load(&mut model, 1, 10..11);
    assert_eq!((leaves(&model, 1), model.paging().counts.zeroed_pages), (vec![(8, 3)], 0));
    // Another process maps one page less; a page that has a frame is there already.
    model.apply(2, &file(&(0..7), 0, false, code));
    load(&mut model, 2, 1..2);
    assert_eq!((leaves(&model, 2), frame(&model, 2, 1)), (vec![(1, 0)], frame(&model, 1, 9)));
    // A shared mapping of all of it gets it, once it is advised to.
    model.apply(3, &file(&(16..32), 0, true, Prot::RW));
    load(&mut model, 3, 24..25);
    assert_eq!(leaves(&model, 3), [(24, 0)]);
    advise(&mut model, 3, 16..32, Advice::HugePage);
    store(&mut model, 3, 20..21);
    assert_eq!((leaves(&model, 3), frame(&model, 3, 16)), (vec![(16, 3), (24, 0)], frame(&model, 1, 8)));
    assert_eq!((model.mapped_again, model.of_files), (1, 1));
    // Page 8 of the file has a frame, so its group was touched.
    load(&mut model, 1, 18..19);
    assert_eq!(leaves(&model, 1), [(8, 3), (18, 0)]);
    // What one process splits stays whole for others.
    unmap(&mut model, 1, 8..9);
    assert_eq!((leaves(&model, 1).len(), leaves(&model, 3)[0]), (8, (16, 3)));
}

#[test]
fn sol_2_parts() {
    let config = solaris::Config { frames: blocks(64), orders: vec![3] };
    let mut model = solaris::PlainSolaris::new(config);
    map_as(&mut model, 1, 0..24, Backing::Heap);
    store(&mut model, 1, 0..24);
    protect(&mut model, 1, 6..16, READ_ONLY);
    assert_eq!(leaves(&model, 1).iter().filter(|(_, order)| *order == 3).count(), 2);
    assert_eq!(model.paging().counts.demotions, 1);
    // The segments are what was cut: a group over two of them is none.
    unmap(&mut model, 1, 8..16);
    unmap(&mut model, 1, 16..17);
    assert_eq!(leaves(&model, 1).len(), 8 + 7);
    assert_eq!(model.paging().counts.demotions, 2);
    assert_eq!(model.paging().frames.free(), 64 - 15);
}

#[test]
fn win_1_all_or_nothing() {
    let windows =
        |frames, request| windows::PlainWindows::new(windows::Config { frames: blocks(frames), order: 3, request });
    let mut model = windows(32, windows::Request::Advised);
    map(&mut model, 1, 0..32);
    store(&mut model, 1, 0..1);
    assert_eq!(leaves(&model, 1), [(0, 0)]);
    // Not a multiple, touched, more than there is, enough.
    advise(&mut model, 1, 8..15, Advice::HugePage);
    advise(&mut model, 1, 0..16, Advice::HugePage);
    assert_eq!([model.served, model.refused], [0, 0]);
    map(&mut model, 1, 40..72);
    advise(&mut model, 1, 40..72, Advice::HugePage);
    assert_eq!([model.served, model.refused, model.paging().frames.free()], [0, 1, 31]);
    assert_eq!(leaves(&model, 1), [(0, 0)]);
    advise(&mut model, 1, 48..64, Advice::HugePage);
    assert_eq!(leaves(&model, 1), [(0, 0), (48, 3), (56, 3)]);
    let counts = model.paging().counts;
    assert_eq!([counts.zeroed_pages, counts.populated_pages, counts.page_faults], [17, 16, 1]);
    store(&mut model, 1, 48..64);
    assert_eq!(model.paging().counts.page_faults, 1, "all is there");
    assert_eq!([own(&model, "large_page_requests"), own(&model, "large_page_requests_refused")], [1, 1]);

    let mut model = windows(32, windows::Request::Mapped);
    map(&mut model, 1, 8..24);
    map(&mut model, 1, 24..29);
    assert_eq!(leaves(&model, 1), [(8, 3), (16, 3)]);
    unmap(&mut model, 1, 8..16);
    assert_eq!((leaves(&model, 1), model.paging().counts.demotions), (vec![(16, 3)], 0));
}
