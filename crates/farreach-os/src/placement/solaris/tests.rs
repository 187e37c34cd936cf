//! SOL-1 and SOL-2 by hand.

use crate::testing::{advise, build, file, load, map, map_as, order, os, store, unmap};
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Backing, Kind, Mapping, Op, Prot};

/// Sizes of 4 and 16 pages, all kinds of memory.
fn hand(keys: &str) -> Os {
    os("solaris", &format!("memory=4M,address_ordered=true,sol_sizes=16K+64K,{keys}"))
}

fn orders<const N: usize>(os: &Os, pages: [u64; N]) -> [u8; N] {
    pages.map(|page| order(os, 0, page))
}

/// SOL-1: the largest size whose group lies in the segment and is untouched.
#[test]
fn sol_1_the_largest_size_that_fits_in_the_segment() {
    let mut os = hand("sol_auto=anon");
    map(&mut os, 4, 30);
    assert_eq!([store(&mut os, 17), store(&mut os, 5), store(&mut os, 33)], [1, 17, 20]);
    assert_eq!(orders(&os, [16, 31, 4, 7, 33]), [4, 4, 2, 2, 0], "34 and 35 are not of the segment");
    assert_eq!((os.counts().page_faults, os.counts().zeroed_pages), (3, 16 + 4 + 1));
    // A page that was touched leaves smaller groups beside it.
    advise(&mut os, 8, 8, Advice::DontNeed);
    unmap(&mut os, 4, 30);
    map(&mut os, 64, 16);
    advise(&mut os, 64, 16, Advice::NoHugePage);
    store(&mut os, 64);
    advise(&mut os, 64, 16, Advice::HugePage);
    assert_eq!([store(&mut os, 66), store(&mut os, 70)].map(|_| ()), [(), ()]);
    assert_eq!(orders(&os, [64, 66, 70]), [0, 0, 2]);
}

/// SOL-1: where there is no free page of a size, the next smaller one.
#[test]
fn sol_1_a_size_without_a_free_page_gives_way_to_the_next() {
    let mut os = hand("sol_auto=anon");
    // A page of every 16 frames but the last 16, of which 8 are free in one piece.
    for group in 0..64 {
        assert!(os.memory.alloc.take(farreach_types::addr::Pfn(16 * group + 3), 1));
        os.memory.keep(1);
    }
    map(&mut os, 0, 32);
    assert_eq!((store(&mut os, 6), order(&os, 0, 6)), (6, 2));
    assert_eq!(os.counts().superpage_fallbacks, 1);
    // Nothing is collapsed later.
    (0..32).for_each(|page| _ = store(&mut os, page));
    assert!(orders(&os, [0, 6, 15, 16, 31]).iter().all(|order| *order == 2));
    assert_eq!(os.counts().collapses, 0);
}

/// SOL-1: by kind of segment, or by advice.
#[test]
fn sol_1_which_segments_have_a_preferred_size() {
    let sizes = |auto: &str| {
        let mut os = hand(&format!("sol_auto={auto}"));
        map_as(&mut os, 0, 16, 16, false, Backing::Heap);
        map_as(&mut os, 0, 48, 16, false, Backing::Stack);
        map(&mut os, 80, 16);
        map_as(&mut os, 0, 112, 16, true, Backing::Anonymous);
        let prot = Prot { read: true, write: false, exec: true };
        let (start, len) = (144 << 12, 16 << 12);
        os.apply(Asid(0), &Op::Map(Mapping { start, len, prot, shared: false, backing: file("/code", 0) }));
        map_as(&mut os, 0, 176, 16, false, file("/data", 0));
        [16, 48, 80, 112, 144, 176].map(|page| {
            load(&mut os, page);
            order(&os, 0, page)
        })
    };
    assert_eq!(sizes("heap"), [4, 0, 0, 0, 0, 0]);
    assert_eq!(sizes("stack+anon"), [0, 4, 4, 0, 0, 0]);
    assert_eq!(sizes("heap+stack+text"), [4, 4, 0, 0, 4, 0]);
    let mut os = hand("sol_auto=heap");
    map(&mut os, 16, 16);
    map_as(&mut os, 0, 48, 16, true, Backing::Anonymous);
    advise(&mut os, 16, 16, Advice::HugePage);
    advise(&mut os, 48, 16, Advice::HugePage);
    assert_eq!([load(&mut os, 20), load(&mut os, 50)].map(|_| ()), [(), ()]);
    assert_eq!(orders(&os, [20, 50]), [4, 4], "advice holds for shared memory, too");
}

/// SOL-1: advice gives a size to any segment, those of files too.
#[test]
fn sol_1_advice_holds_for_files() {
    let mut os = hand("sol_auto=heap");
    for (first, shared, name) in [(16, false, "/data"), (48, true, "/shared"), (80, false, "/code")] {
        let prot = if name == "/code" { Prot { write: false, ..Prot::RWX } } else { Prot::RW };
        let (start, len, backing) = (first << 12, 16 << 12, file(name, 0));
        os.apply(Asid(0), &Op::Map(Mapping { start, len, prot, shared, backing }));
        advise(&mut os, first, 16, Advice::HugePage);
        load(&mut os, first + 3);
    }
    assert_eq!(orders(&os, [16, 48, 80]), [4, 4, 4]);
    assert_eq!((os.counts().io_bytes, os.counts().zeroed_pages), ((3 * 16) << 12, 0));
    // A store to private memory copies a page of it; one to shared memory does not.
    store(&mut os, 18);
    store(&mut os, 50);
    assert_eq!((orders(&os, [16, 18, 48, 50]), os.counts().cow_copies), ([0, 0, 4, 4], 1));
    // What another process maps of the file is what was read, not what was stored (T94-57).
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
    map_as(&mut os, 1, 16, 16, false, file("/data", 0));
    let other = os.touch(Asid(1), Vpn(18), Kind::Load).unwrap().pte.pfn;
    assert_ne!(other.0, load(&mut os, 18));
    // Unadvised, they have none.
    map_as(&mut os, 0, 112, 16, false, file("/other", 0));
    load(&mut os, 115);
    assert_eq!(orders(&os, [115]), [0]);
}

/// Code that two processes map lies in memory once; a store through a private mapping copies a page and splits.
#[test]
fn sol_1_text_is_shared_by_its_mappers() {
    let mut os = hand("");
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
    let prot = Prot { read: true, write: false, exec: true };
    for (asid, first) in [(0, 160), (1, 320)] {
        let (start, len) = (first << 12, 16 << 12);
        os.apply(Asid(asid), &Op::Map(Mapping { start, len, prot, shared: false, backing: file("/code", 0) }));
    }
    let first = os.touch(Asid(0), Vpn(163), Kind::Fetch).unwrap().pte;
    let second = os.touch(Asid(1), Vpn(325), Kind::Fetch).unwrap().pte;
    assert_eq!((first.order, second.order, second.pfn.0 - first.pfn.0), (4, 4, 2));
    assert_eq!((os.counts().io_bytes, os.counts().zeroed_pages, os.frames().resident), (16 << 12, 0, 16));
    os.check();
    os.apply(Asid(1), &Op::Protect { start: 320 << 12, len: 16 << 12, prot: Prot::RWX });
    assert_eq!(order(&os, 1, 320), 4);
    os.touch(Asid(1), Vpn(321), Kind::Store).unwrap();
    os.check();
    assert_eq!((order(&os, 1, 321), order(&os, 0, 160), os.counts().cow_copies), (0, 4, 1));
}

/// SOL-2.
#[test]
fn sol_2_a_part_that_is_unmapped_or_protected_demotes() {
    let mut os = hand("sol_auto=anon");
    map(&mut os, 0, 48);
    [0, 16, 32].into_iter().for_each(|page| _ = store(&mut os, page));
    unmap(&mut os, 3, 1);
    let part = Op::Protect { start: 20 << 12, len: 4 << 12, prot: Prot { write: false, ..Prot::RW } };
    os.apply(Asid(0), &part);
    os.check();
    assert_eq!(orders(&os, [0, 15, 16, 20, 31, 32]), [0, 0, 0, 0, 0, 4]);
    assert_eq!(crate::testing::changes(&mut os, What::Demoted), [(0, 16), (16, 16)]);
}

#[test]
fn sol_keys_that_are_wrong_are_refused() {
    let error = |keys: &str| build("solaris", keys).err().expect(keys);
    let text = error("sol_auto=heap+data");
    assert!(text.contains("sol_auto = data") && text.contains("heap, stack, text, anon"), "{text}");
    assert!(error("sol_sizes=16K+64K,page_size=16K").contains("sol_sizes = 16384"));
}
