//! A memory that is short.

use super::*;

/// No block is free for a folio: single pages.
#[test]
fn pgc_4_without_a_block_a_window_is_read_by_single_pages() {
    let mut os = linux("memory=8M,exec_folio=64K");
    // Each second page is taken.
    map(&mut os, 65536, 2048);
    (0..2048).for_each(|page| _ = os.touch(Asid(0), Vpn(65536 + page), Kind::Store).unwrap());
    (0..2048).step_by(2).for_each(|page| unmap(&mut os, 65536 + page, 1));
    map_text(&mut os, 4096, 128, 0);
    touch(&mut os, 0, 4096 + 37, Kind::Fetch);
    assert_eq!(counts(&os, ["folio_fallbacks", "folios_of_order_0", "folios_of_order_4"]), [1, 32, 0]);
    assert_eq!(mapped(&os, 4096..4224), [(4096 + 32, 4096 + 48)]);
}

/// What no page table names is dropped, what was read first first; what is mapped stays.
#[test]
fn unmapped_folios_are_dropped_when_memory_is_short() {
    let mut os = linux("memory=1M");
    map_file(&mut os, 4096, 1024, 0);
    load(&mut os, 4096 + 100);
    load(&mut os, 4096 + 300);
    // Two windows of 32 pages, of which 15 and 16 are mapped.
    assert_eq!((os.frames().resident, counts(&os, ["unmapped_cache_pages_at_end"])), (64, [33]));
    map(&mut os, 65536, 225);
    (0..192).for_each(|page| _ = store(&mut os, 65536 + page));
    assert_eq!((os.frames().free, counts(&os, ["cache_dropped_pages"])), (Some(0), [0]));
    store(&mut os, 65536 + 192);
    assert_eq!(counts(&os, ["cache_dropped_pages"]), [32]);
    // All of the first window that is not mapped, and most of the second.
    (193..225).for_each(|page| _ = store(&mut os, 65536 + page));
    assert_eq!(counts(&os, ["cache_dropped_pages", "unmapped_cache_pages_at_end"]), [33, 0]);
    map(&mut os, 131072, 1);
    assert!(os.touch(Asid(0), Vpn(131072), Kind::Store).is_err(), "all frames are mapped");
    // What is unmapped can be dropped again, and is read again.
    let read = os.counts().io_bytes;
    advise(&mut os, 4096, 1024, Advice::DontNeed);
    store(&mut os, 131072);
    assert_eq!(os.counts().io_bytes, read);
    load(&mut os, 4096 + 100);
    assert!(os.counts().io_bytes > read);
}

/// The unmapped parts of a large folio are dropped when there is no whole one.
#[test]
fn unmapped_parts_of_folios_are_dropped_last() {
    let mut os = linux("memory=4M,exec_folio=64K,fault_around=4K");
    map_text(&mut os, 4096, 64, 0);
    touch(&mut os, 0, 4096 + 3, Kind::Fetch);
    assert_eq!((os.frames().resident, counts(&os, ["folios_of_order_4"])), (32, [2]));
    map(&mut os, 65536, 1024);
    let mut stored = 0;
    while os.frames().free != Some(0) {
        store(&mut os, 65536 + stored);
        stored += 1;
    }
    assert_eq!((stored, counts(&os, ["cache_dropped_pages"])), (992, [0]));
    store(&mut os, 65536 + stored);
    stored += 1;
    assert_eq!(counts(&os, ["cache_dropped_pages"]), [16], "the folio that nothing maps");
    while os.touch(Asid(0), Vpn(65536 + stored), Kind::Store).is_ok() {
        stored += 1;
        os.check();
    }
    assert_eq!((stored, counts(&os, ["cache_dropped_pages"])), (1023, [31]), "one page of the file is mapped");
    // What stays of it is the page of the file still.
    let (own, read) = (frame(&os, 4099), os.counts().io_bytes);
    map_text(&mut os, 8192, 1, 3);
    assert_eq!((touch(&mut os, 0, 8192, Kind::Fetch).pfn.0, os.counts().io_bytes), (own, read));
}

/// A window takes the place of older ones, never of its own pages, and a fault finds its page.
#[test]
fn windows_take_turns_in_a_memory_that_is_full() {
    let mut os = linux("memory=256K,fault_around=4K");
    map_file(&mut os, 4096, 4096, 0);
    for turn in 0..40 {
        load(&mut os, 4096 + 100 * turn + 16);
        advise(&mut os, 4096, 4096, Advice::DontNeed);
    }
    assert!(os.frames().free.is_some_and(|free| free < 64));
    assert_eq!(counts(&os, ["readahead_windows"]), [40]);
    let [read, dropped] = counts(&os, ["readahead_pages", "cache_dropped_pages"]);
    assert_eq!(os.frames().resident, read - dropped);
    assert_eq!(os.counts().io_bytes, read << 12);
}

/// The cache of a file goes with its last mapping.
#[test]
fn a_file_without_a_mapping_is_not_in_memory() {
    let mut os = linux("");
    map_file(&mut os, 4096, 1024, 0);
    load(&mut os, 4096 + 100);
    unmap(&mut os, 4096, 1024);
    assert_eq!((os.frames().resident, counts(&os, ["unmapped_cache_pages_at_end"])), (0, [0]));
    map_file(&mut os, 4096, 1024, 0);
    load(&mut os, 4096 + 100);
    assert_eq!(counts(&os, ["readahead_pages"]), [64]);
}
