//! Folios of shared memory (PGC-7).

use super::*;
use farreach_types::event::Backing;

fn map_shared(os: &mut Os, first: u64, pages: u64) {
    map_as(os, 0, first, pages, true, Backing::Anonymous);
}

fn orders_of(os: &Os) -> [u64; 3] {
    counts(os, ["folios_of_order_2", "folios_of_order_4", "folios_of_order_9"])
}

#[test]
fn pgc_7_the_largest_size_whose_group_in_the_memory_is_empty() {
    let mut os = linux("shmem_always=16K+64K+2M");
    map_shared(&mut os, 4096, 1024);
    store(&mut os, 4096 + 700);
    assert_eq!((order(&os, 0, 4096 + 700), orders_of(&os)), (9, [0, 0, 1]));
    assert_eq!((os.counts().zeroed_pages, os.counts().superpage_faults), (512, 1));
    // Another one maps the rest of it elsewhere: by pages, since it lies there otherwise.
    let mut os = linux("shmem_always=16K+64K");
    map_shared(&mut os, 4096, 64);
    store(&mut os, 4096 + 5);
    assert_eq!((mapped(&os, 4096..4160), orders_of(&os)), (vec![(4096, 4112)], [0, 1, 0]));
    assert_eq!(order(&os, 0, 4101), 0, "without the contiguous bit, entries of pages");
    assert_eq!(os.memory_use().resident_bytes, 16 << 12);
}

/// Folios that would reach behind the end of the memory.
#[test]
fn pgc_7_within_size_ends_inside_the_memory_and_always_does_not() {
    for (text, orders, resident) in [
        ("shmem_always=16K+64K", [0, 3, 0], 48),
        ("shmem_within_size=16K+64K", [1, 2, 0], 36),
        ("shmem_within_size=64K", [0, 2, 0], 33),
        ("shmem_always=16K,shmem_within_size=64K", [1, 2, 0], 36),
        ("shmem_advise=64K", [0, 0, 0], 3),
        ("shmem_enabled=always,shmem_size=64K,shmem_advise=2M", [0, 3, 0], 48),
        ("shmem_enabled=never,shmem_size=64K,shmem_advise=2M", [0, 0, 0], 3),
    ] {
        let mut os = linux(text);
        map_shared(&mut os, 4096, 37);
        [3, 20, 34].into_iter().for_each(|page| _ = store(&mut os, 4096 + page));
        assert_eq!((orders_of(&os), os.frames().resident), (orders, resident), "{text}");
        unmap(&mut os, 4096, 37);
        assert_eq!(os.frames().resident, 0, "{text}");
    }
}

#[test]
fn pgc_7_advice_asks_and_refuses() {
    let mut os = linux("shmem_always=16K,shmem_advise=64K");
    map_shared(&mut os, 4096, 64);
    advise(&mut os, 4096, 16, Advice::HugePage);
    advise(&mut os, 4112, 16, Advice::NoHugePage);
    [0, 16, 32].into_iter().for_each(|page| _ = store(&mut os, 4096 + page));
    assert_eq!((orders_of(&os), os.frames().resident), ([1, 1, 0], 16 + 1 + 4));
}

/// A group with a page in memory gets smaller folios, and so does one without a block.
#[test]
fn pgc_7_falls_back_downwards() {
    let mut os = linux("memory=1M,shmem_always=16K+64K,contpte=64K");
    map(&mut os, 65536, 256);
    (0..256).for_each(|page| _ = store(&mut os, 65536 + page));
    // Free are four pages in order, then eight single ones.
    unmap(&mut os, 65536 + 16, 4);
    (0..16).step_by(2).for_each(|page| unmap(&mut os, 65536 + 32 + page, 1));
    map_shared(&mut os, 4096, 32);
    store(&mut os, 4096 + 1);
    assert_eq!((orders_of(&os), os.counts().superpage_fallbacks), ([1, 0, 0], 1));
    store(&mut os, 4096 + 9);
    assert_eq!((os.counts().superpage_fallbacks, mapped(&os, 4096..4128)), (2, vec![(4096, 4100), (4105, 4106)]));
    unmap(&mut os, 65536, 256);
    store(&mut os, 4096 + 16);
    assert_eq!((orders_of(&os), order(&os, 0, 4096 + 16)), ([1, 1, 0], 4), "with the contiguous bit");
    store(&mut os, 4096 + 12);
    assert_eq!(orders_of(&os), [2, 1, 0], "the group of 16 has pages");
}

/// A child that has the memory elsewhere in its page table finds the folio there.
#[test]
fn pgc_7_all_who_map_the_memory_share_its_folios() {
    let mut os = linux("shmem_always=2M");
    map_shared(&mut os, 4096, 1024);
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    let own = store(&mut os, 4096 + 3);
    let other = touch(&mut os, 1, 4096 + 3, Kind::Load);
    assert_eq!((other.pfn.0, other.order), (own, 9));
    assert_eq!((os.frames().resident, orders_of(&os)), (512, [0, 0, 1]));
}
