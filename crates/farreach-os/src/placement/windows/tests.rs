//! WIN-1 by hand.

use crate::Os;
use crate::testing::{advise, counts, map, order, os, store, unmap};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::Advice;
use farreach_types::translation::PageTableView;

/// Large pages of 16 pages in 64 frames.
fn hand(keys: &str) -> Os {
    os("windows", &format!("memory=256K,address_ordered=true,win_large_page=64K,{keys}"))
}

const NAMES: [&str; 4] = ["large_requests", "large_pages", "large_refused_size", "large_refused_memory"];

/// WIN-1: all of a request at the call, zeroed, without a fault.
#[test]
fn win_1_a_request_is_served_whole_at_the_call() {
    let mut os = hand("");
    map(&mut os, 16, 32);
    assert_eq!(os.frames().resident, 0, "no request for large pages yet");
    advise(&mut os, 16, 32, Advice::HugePage);
    assert_eq!((os.frames().resident, os.counts().zeroed_pages, os.counts().page_faults), (32, 32, 0));
    assert_eq!([16, 31, 32, 47].map(|page| order(&os, 0, page)), [4; 4]);
    assert_eq!((counts(&os, NAMES), os.counts().dirty_pages), ([1, 2, 0, 0], 0));
    assert_eq!([store(&mut os, 16), store(&mut os, 47)], [0, 31]);
    assert_eq!((os.counts().page_faults, os.counts().dirty_pages), (0, 32));
    // Advice for memory that is touched is no request.
    map(&mut os, 128, 16);
    store(&mut os, 130);
    advise(&mut os, 128, 16, Advice::HugePage);
    assert_eq!((order(&os, 0, 130), os.pte(Asid(0), Vpn(131)), counts(&os, NAMES)), (0, None, [1, 2, 0, 0]));
}

/// WIN-1: a multiple of the large page, aligned; otherwise base pages.
#[test]
fn win_1_other_sizes_are_refused() {
    let mut os = hand("win_request=mapping");
    for (first, pages) in [(17, 16), (48, 17), (80, 8)] {
        map(&mut os, first, pages);
    }
    assert_eq!((counts(&os, NAMES), os.frames().resident), ([0, 0, 3, 0], 0));
    map(&mut os, 128, 16);
    assert_eq!((counts(&os, NAMES), os.frames().resident), ([1, 1, 3, 0], 16));
    store(&mut os, 48);
    assert_eq!(order(&os, 0, 48), 0);
    advise(&mut os, 80, 8, Advice::HugePage);
    assert_eq!(counts(&os, NAMES), [1, 1, 3, 0], "mappings are the requests");
}

/// WIN-1: all or none; memory that stays in the way leaves base pages.
#[test]
fn win_1_a_request_that_memory_cannot_serve_takes_nothing() {
    let mut os = hand("win_request=mapping");
    assert!(os.memory.alloc.take(Pfn(20), 1));
    os.memory.keep(1);
    map(&mut os, 64, 64);
    assert_eq!((counts(&os, NAMES), os.frames().free), ([0, 0, 0, 1], Some(63)));
    assert_eq!((store(&mut os, 70), order(&os, 0, 70)), (21, 0));
    map(&mut os, 256, 48);
    assert_eq!(counts(&os, NAMES), [1, 3, 0, 1]);
}

/// What Windows refuses a recorded program may have done: a part goes, the rest is base pages.
#[test]
fn win_1_a_part_that_is_unmapped_splits() {
    let mut os = hand("win_request=mapping");
    map(&mut os, 0, 32);
    unmap(&mut os, 5, 1);
    assert_eq!([4, 6, 16].map(|page| order(&os, 0, page)), [0, 0, 4]);
    assert_eq!((os.counts().demotions, os.frames().resident), (1, 31));
}

/// With compaction, a block is made where frames of others can move.
#[test]
fn win_1_compaction_may_make_room() {
    let mut os = hand("win_request=mapping,compaction=direct,movable=1,fragmentation=0.05");
    map(&mut os, 0, 48);
    assert_eq!((counts(&os, NAMES), os.counts().compactions), ([1, 3, 0, 0], 1));
    os.check();
}
