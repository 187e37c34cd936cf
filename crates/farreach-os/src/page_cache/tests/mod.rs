//! The page cache of Linux, by hand: windows, folios, what faults map of them, and memory that is short.

mod memory;
mod plain;
mod shared;

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Kind, Mapping, Op, Prot};
use farreach_types::translation::{Attr, PageTableView};

/// khugepaged does not work, and a millisecond is an instruction.
fn linux(text: &str) -> Os {
    os("linux", &format!("ticks_per_ms=1,address_ordered=true,pages_to_scan=0,thp=never,readahead=128K,{text}"))
}

/// A private mapping of a file from its page `page` on.
fn map_file(os: &mut Os, first: u64, pages: u64, page: u64) {
    map_as(os, 0, first, pages, false, file("/data", page));
}

fn map_text(os: &mut Os, first: u64, pages: u64, page: u64) {
    let prot = Prot { read: true, write: false, exec: true };
    let (start, len) = (first << 12, pages << 12);
    os.apply(Asid(0), &Op::Map(Mapping { start, len, prot, shared: false, backing: file("/text", page) }));
}

fn is_mapped(os: &Os, vpn: u64) -> bool {
    os.pte(Asid(0), Vpn(vpn)).is_some()
}

/// The mapped ones of these pages, as ranges.
fn mapped(os: &Os, pages: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    let all: Vec<u64> = pages.filter(|vpn| is_mapped(os, *vpn)).collect();
    all.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run[0] + run.len() as u64)).collect()
}

fn frame(os: &Os, vpn: u64) -> u64 {
    os.pte(Asid(0), Vpn(vpn)).unwrap().pfn.0
}

/// Folios by order, from 0 to 5.
fn folios(os: &Os) -> [u64; 6] {
    const NAMES: [&str; 6] = [
        "folios_of_order_0",
        "folios_of_order_1",
        "folios_of_order_2",
        "folios_of_order_3",
        "folios_of_order_4",
        "folios_of_order_5",
    ];
    counts(os, NAMES)
}

const WINDOWS: [&str; 3] = ["readahead_windows", "readahead_pages", "readahead_markers"];

/// PGC-A, through a mapping: faults on markers read on, and nothing else does.
#[test]
fn pgc_a_a_mapped_file_that_is_read_page_by_page() {
    let mut os = linux("file_miss=ahead");
    map_file(&mut os, 4096, 1024, 0);
    for page in 0..64 {
        load(&mut os, 4096 + page);
    }
    // Windows at 0, 4, 12, 16, 24, 32, 48 and 64: pages 0 to 95.
    assert_eq!((folios(&os), counts(&os, WINDOWS)), ([4, 0, 3, 2, 2, 1], [8, 96, 7]));
    load(&mut os, 4096 + 64);
    assert_eq!((folios(&os), counts(&os, WINDOWS)), ([4, 0, 3, 2, 2, 2], [9, 128, 8]));
    assert_eq!(os.counts().io_bytes, 128 << 12);
    assert_eq!(os.memory_use().resident_bytes, 128 << 12, "what was read ahead is in memory");
    assert_eq!(os.memory_use().touched_bytes, 65 << 12);
}

/// PGC-3, PGC-6: a folio that carries the marker is not mapped by a fault around it.
#[test]
fn pgc_6_a_fault_maps_what_is_in_memory_but_for_the_marker() {
    let mut os = linux("");
    map_file(&mut os, 4096, 1024, 0);
    load(&mut os, 4096 + 100);
    // Pages 84 to 115 are in memory, 108 carries the marker; the aligned 16 pages are 96 to 111.
    assert_eq!(mapped(&os, 4096..5120), [(4096 + 96, 4096 + 108), (4096 + 109, 4096 + 112)]);
    assert_eq!((os.counts().page_faults, os.counts().populated_pages), (1, 14));
    load(&mut os, 4096 + 111);
    assert_eq!(os.counts().page_faults, 1);
    load(&mut os, 4096 + 108);
    assert_eq!((os.counts().page_faults, counts(&os, WINDOWS)), (2, [2, 64, 1]));
    load(&mut os, 4096 + 115);
    assert_eq!(mapped(&os, 4096 + 112..5120), [(4096 + 112, 4096 + 116), (4096 + 120, 4096 + 128)], "116 is next");
    // A file is in memory for all who map it.
    map_as(&mut os, 0, 8192, 64, true, file("/data", 80));
    store(&mut os, 8192 + 4);
    assert_eq!((counts(&os, ["readahead_windows"]), mapped(&os, 8192..8256)), ([2], vec![(8196, 8197)]));
    assert_eq!(os.pte(Asid(0), Vpn(8196)).unwrap().attr.0 & Attr::WRITE, Attr::WRITE);
}

/// PGC-4: nothing is read behind the last page that is mapped.
#[test]
fn pgc_4_a_file_ends_with_its_last_page_that_was_mapped() {
    let mut os = linux("file_miss=ahead");
    map_file(&mut os, 4096, 22, 0);
    (0..22).for_each(|page| _ = load(&mut os, 4096 + page));
    assert_eq!((folios(&os), counts(&os, ["readahead_pages"])), ([4, 1, 4, 0, 0, 0], [22]));
    // The second mapping makes it longer.
    map_file(&mut os, 8192, 40, 0);
    load(&mut os, 8192 + 30);
    assert_eq!(counts(&os, ["readahead_pages"]), [23], "a random read");
}

/// PGC-1: file systems without large folios.
#[test]
fn pgc_1_without_large_folios_pages_are_single() {
    let mut os = linux("file_miss=ahead,file_folios=4K");
    map_file(&mut os, 4096, 128, 0);
    (0..128).for_each(|page| _ = load(&mut os, 4096 + page));
    assert_eq!(counts(&os, ["folios_of_order_0", "folio_fallbacks"]), [128, 0]);
}

/// PGC-5, CPT-1: text in folios of 64 KB, each of which has the contiguous bit.
#[test]
fn pgc_5_cpt_1_text_has_the_contiguous_bit() {
    let mut os = linux("exec_folio=64K,contpte=64K");
    map_text(&mut os, 4096, 128, 0);
    let fetch = |os: &mut Os, vpn: u64| touch(os, 0, vpn, Kind::Fetch);
    let pte = fetch(&mut os, 4096 + 37);
    assert_eq!((pte.order, mapped(&os, 4096..4224)), (4, vec![(4096 + 32, 4096 + 48)]));
    assert_eq!((frame(&os, 4096 + 32) % 16, os.counts().superpage_faults), (0, 1));
    assert_eq!(counts(&os, WINDOWS), [1, 32, 0]);
    assert_eq!(fetch(&mut os, 4096 + 48).order, 4);
    assert_eq!(counts(&os, WINDOWS), [1, 32, 0], "both folios were read");
    // A mapping that is not aligned as the file is gets single entries of the same frames.
    map_text(&mut os, 8192, 64, 1);
    assert_eq!(fetch(&mut os, 8192 + 35).order, 0);
    assert_eq!(frame(&os, 8192 + 35), frame(&os, 4096 + 36));
    let ordinary = {
        let mut os = linux("contpte=64K");
        map_text(&mut os, 4096, 128, 0);
        fetch(&mut os, 4096 + 37).order
    };
    assert_eq!(ordinary, 0);
}

/// CPT-4: a part of a block that goes takes the bit from the others.
#[test]
fn cpt_4_a_block_of_a_file_that_is_cut_loses_the_bit() {
    let mut os = linux("exec_folio=64K,contpte=64K");
    map_text(&mut os, 4096, 128, 0);
    touch(&mut os, 0, 4096, Kind::Fetch);
    changes(&mut os, What::Demoted);
    unmap(&mut os, 4100, 1);
    assert_eq!((changes(&mut os, What::Demoted), order(&os, 0, 4096)), (vec![(4096, 16)], 0));
}

/// PGC-5, PGC-6: with advice, folios of 2 MB, and leaves where they are aligned alike.
#[test]
fn pgc_6_a_folio_of_2_mb_that_is_aligned_alike_becomes_a_leaf() {
    let mut os = linux("");
    map_file(&mut os, 4096, 2048, 0);
    advise(&mut os, 4096, 2048, Advice::HugePage);
    load(&mut os, 4096 + 700);
    assert_eq!((order(&os, 0, 4096 + 700), mapped(&os, 4096..6144)), (9, vec![(4096 + 512, 4096 + 1024)]));
    assert_eq!(counts(&os, ["folios_of_order_9", "readahead_pages"]), [2, 1024]);
    assert_eq!((os.counts().superpage_faults, os.counts().populated_in_superpages), (1, 511));
    // The next one carries the marker.
    load(&mut os, 4096 + 1500);
    assert_eq!((order(&os, 0, 4096 + 1500), counts(&os, WINDOWS)), (9, [2, 1536, 1]), "the file ends at 2048");
    // The first store takes a copy of a page, and the leaf apart.
    let own = frame(&os, 4096 + 701);
    assert_ne!(store(&mut os, 4096 + 701), own);
    assert_eq!((order(&os, 0, 4096 + 700), os.counts().cow_copies), (0, 1));
    // Not aligned alike: single entries.
    map_file(&mut os, 8192, 1024, 3);
    load(&mut os, 8192 + 600);
    assert_eq!(order(&os, 0, 8192 + 600), 0);
    // A second mapper that is aligned alike finds the folio; one that refuses gets single entries.
    map_file(&mut os, 16384, 1024, 0);
    advise(&mut os, 16384, 512, Advice::NoHugePage);
    load(&mut os, 16384 + 600);
    assert_eq!((order(&os, 0, 16384 + 600), counts(&os, ["readahead_windows"])), (9, [2]));
    map_as(&mut os, 0, 32768, 2048, true, file("/data", 0));
    store(&mut os, 32768 + 600);
    assert_eq!(order(&os, 0, 32768 + 600), 9, "a store to a shared mapping, too");
    advise(&mut os, 32768, 2048, Advice::DontNeed);
    advise(&mut os, 32768, 2048, Advice::NoHugePage);
    load(&mut os, 32768 + 600);
    assert_eq!(order(&os, 0, 32768 + 600), 0);
}

/// Frames of a folio follow each other where pages do, so that hardware that coalesces finds them.
#[test]
fn pgc_4_folios_are_aligned_blocks_of_frames() {
    let mut os = linux("file_miss=ahead");
    map_file(&mut os, 4096, 128, 0);
    (0..128).for_each(|page| _ = load(&mut os, 4096 + page));
    for first in [4, 8, 12] {
        let base = frame(&os, 4096 + first);
        assert!(base.is_multiple_of(4) && (0..4).all(|at| frame(&os, 4096 + first + at) == base + at), "{first}");
    }
    let base = frame(&os, 4096 + 64);
    assert!(base.is_multiple_of(32) && (0..32).all(|at| frame(&os, 4096 + 64 + at) == base + at));
}

#[test]
fn keys_without_readahead_are_refused() {
    for (text, said) in [
        ("exec_folio=64K", "exec_folio = 64K is not allowed with readahead = off"),
        ("file_miss=ahead", "file_miss = ahead is not allowed with readahead = off"),
        ("shmem_always=64K,shmem_advise=64K", "shmem_advise is not allowed: a size has one mode"),
        ("shmem_enabled=always,shmem_advise=2M", "shmem_size is not allowed: a size has one mode"),
    ] {
        let error = build("linux", text).err().unwrap_or_default();
        assert!(error.contains(said), "{text}: {error}");
    }
}
