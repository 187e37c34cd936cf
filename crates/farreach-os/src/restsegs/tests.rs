//! Hand-worked cases of restrictive segments (UTO-1, UTO-2, UTO-5 to UTO-7), and random ones against the plain model.

use super::*;
use crate::What;
use farreach_types::event::{Backing, Kind, Mapping, Op, Prot};
use farreach_types::params::{Key, Params};
use farreach_types::translation::PageTableView;
use serde_json::{Map, json};

/// Four sets of two ways for base pages.
const HAND: &[(&str, &str)] =
    &[("memory", "64K"), ("uto_size", "32K"), ("uto_size_2m", "none"), ("uto_ways", "2"), ("thp", "never")];
/// Two sets of a way for superpages, too.
const LARGE: &[(&str, &str)] = &[("memory", "16M"), ("uto_size_2m", "4M"), ("uto_ways", "1"), ("thp", "always")];

fn build(keys: &[&[(&str, &str)]]) -> Result<Os, String> {
    let all: Vec<&Key> = crate::keys("utopia");
    let mut given: Map<_, _> = [("placement".to_owned(), json!("utopia"))].into_iter().collect();
    given.extend(keys.concat().into_iter().map(|(key, value)| (key.to_owned(), json!(value))));
    let mut os = Os::new(&Params::resolve(&all, &given)?)?;
    os.apply(Asid(0), &Op::Start { pid: 1, parent: None, program: "/bin/p".into() });
    Ok(os)
}

fn os(keys: &[&[(&str, &str)]]) -> Os {
    build(keys).unwrap()
}

fn map(os: &mut Os, first: u64, pages: u64) {
    let (start, len, backing) = (first << 12, pages << 12, Backing::Anonymous);
    os.apply(Asid(0), &Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing }));
}

fn store(os: &mut Os, asid: u32, vpn: u64) -> u64 {
    let touched = os.touch(Asid(asid), Vpn(vpn), Kind::Store).unwrap();
    law(os);
    touched.pte.pfn.0
}

fn frame(os: &Os, asid: u32, vpn: u64) -> u64 {
    os.pte(Asid(asid), Vpn(vpn)).unwrap().pfn.0
}

fn is_held(os: &Os, asid: u32, vpn: u64) -> bool {
    let pte = os.pte(Asid(asid), Vpn(vpn)).unwrap();
    let leaf = if pte.order >= 9 { 9 } else { 0 };
    os.restsegs().holds((Asid(asid), Vpn(vpn)), pte.pfn, leaf).is_some()
}

/// free + RestSeg + FlexSeg = frames; each valid tag is that of a page in its own set; SF = popcount of valid tags.
fn law(os: &Os) {
    os.check();
    let frames = os.frames();
    assert_eq!(frames.free.unwrap() + frames.resident + frames.set_aside, frames.total.unwrap());
    for (place, segment) in os.segs().iter().enumerate() {
        for set in 0..segment.sets {
            let tags: Vec<_> = (0..segment.ways).filter_map(|way| os.tag(place, Way { set, way })).collect();
            assert_eq!(os.used(place, set), tags.len() as u64);
            assert_eq!(os.any_used(place, set), !tags.is_empty());
            for &(asid, vpn) in &tags {
                assert_eq!(segment.set(asid, vpn), set, "UTO-1");
                assert_eq!(tags.iter().filter(|tag| **tag == (asid, vpn)).count(), 1, "UTO-7");
            }
        }
    }
}

fn stale(os: &mut Os) -> Vec<u64> {
    let mut changes = Vec::new();
    os.take_changes(&mut changes);
    changes.iter().filter(|change| change.what == What::Stale).map(|change| change.pages.start.0).collect()
}

/// The hand-worked case: pages 0, 4 and 8 have set 0, which has two ways.
#[test]
fn uto_5_a_full_set_leaves_the_flexible_segment() {
    let mut os = os(&[HAND]);
    map(&mut os, 0, 16);
    assert_eq!([0, 4, 8].map(|page| store(&mut os, 0, page)), [0, 1, 8], "frame = base + set · ways + way");
    assert_eq!([0, 4, 8].map(|page| is_held(&os, 0, page)), [true, true, false]);
    assert_eq!([store(&mut os, 0, 7), store(&mut os, 0, 1)], [6, 2]);
    assert_eq!([0, 1, 2, 3].map(|set| os.used(0, set)), [2, 1, 0, 1], "UTO-2");
    let counts = os.counts();
    assert_eq!([counts.restseg_pages, counts.restseg_full, counts.restseg_moves], [4, 1, 0]);
    os.apply(Asid(0), &Op::Unmap { start: 0, len: 4096 });
    law(&os);
    assert_eq!([os.used(0, 0), store(&mut os, 0, 12)], [1, 0], "its way is free again");
    assert!(stale(&mut os).iter().all(|page| *page == 0), "nothing moved");
}

#[test]
fn uto_5_the_oldest_page_of_a_full_set_moves() {
    let mut os = os(&[HAND, &[("uto_full", "evict")]]);
    map(&mut os, 0, 16);
    assert_eq!([0, 4, 8].map(|page| store(&mut os, 0, page)), [0, 1, 0]);
    assert_eq!([frame(&os, 0, 0), frame(&os, 0, 4)], [8, 1]);
    assert_eq!(stale(&mut os), [0], "a move is a change");
    assert_eq!(store(&mut os, 0, 12), 1);
    assert_eq!([is_held(&os, 0, 0), is_held(&os, 0, 4), is_held(&os, 0, 8)], [false, false, true]);
    assert_eq!([os.counts().restseg_moves, os.counts().restseg_full], [2, 0]);
}

/// UTO-6: at the second walk, if there is room.
#[test]
fn uto_6_pages_that_are_walked_move_to_their_set() {
    let mut os = os(&[HAND, &[("uto_walks_at", "2")]]);
    assert!(os.counts_walks() && !self::os(&[HAND]).counts_walks());
    map(&mut os, 0, 16);
    [0, 4, 8].into_iter().for_each(|page| _ = store(&mut os, 0, page));
    let walk = |os: &mut Os, page| {
        os.walked(Asid(0), Vpn(page));
        law(os);
        is_held(os, 0, page)
    };
    assert_eq!([walk(&mut os, 8), walk(&mut os, 8), walk(&mut os, 8)], [false; 3], "the set is full");
    os.apply(Asid(0), &Op::Unmap { start: 0, len: 4096 });
    stale(&mut os);
    assert!(walk(&mut os, 8), "a way became free");
    assert_eq!((stale(&mut os), frame(&os, 0, 8), os.counts().restseg_moves), (vec![8], 0, 1));
    let mut evicting = self::os(&[HAND, &[("uto_walks_at", "1"), ("uto_full", "evict")]]);
    map(&mut evicting, 0, 16);
    [0, 4, 8].into_iter().for_each(|page| _ = store(&mut evicting, 0, page));
    assert!(!walk(&mut evicting, 0), "for a fault a page leaves, for a walk none does");
}

/// Superpages of faults have a segment of their own, which lies first; then any block; then base pages.
#[test]
fn uto_1_superpages_have_a_segment() {
    let mut os = os(&[LARGE, &[("uto_size", "1M"), ("khugepaged", "0"), ("memory", "8M")]]);
    map(&mut os, 512, 4 * 512);
    assert_eq!([512, 1024].map(|page| store(&mut os, 0, page + 3)), [512 + 3, 3]);
    assert_eq!(store(&mut os, 0, 3 * 512), 1024 + 512, "set 1 is full, and memory behind the segments has a block");
    assert_eq!(store(&mut os, 0, 4 * 512 + 5), 1024 + 5, "no more blocks: a base page");
    assert_eq!([512, 1024, 1536, 4 * 512 + 5].map(|page| is_held(&os, 0, page)), [true, true, false, true]);
    os.apply(Asid(0), &Op::Unmap { start: 513 << 12, len: 4096 });
    law(&os);
    assert_eq!((is_held(&os, 0, 512), os.used(1, 1)), (false, 0), "what was split has entries in the page table");
    os.apply(Asid(0), &Op::Unmap { start: 512 << 12, len: 512 << 12 });
    law(&os);
    map(&mut os, 512, 512);
    assert_eq!(store(&mut os, 0, 600), 600, "the whole way is free again");
}

/// A child shares frames, and has entries in its page table; the copy that a store makes is placed as at a fault.
#[test]
fn children_share_pages_in_segments() {
    let mut os = os(&[HAND, &[("uto_full", "evict")]]);
    map(&mut os, 0, 16);
    assert_eq!([store(&mut os, 0, 0), store(&mut os, 0, 1)], [0, 2]);
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    os.touch(Asid(1), Vpn(0), Kind::Load).unwrap();
    law(&os);
    assert_eq!([frame(&os, 1, 0), u64::from(is_held(&os, 1, 0)), u64::from(is_held(&os, 0, 0))], [0, 0, 1]);
    assert_eq!(store(&mut os, 1, 0), 1, "another way of the same set");
    assert!(is_held(&os, 1, 0) && is_held(&os, 0, 0));
    assert_eq!(store(&mut os, 0, 1), 3, "the parent's copy; the child has the old frame");
    assert_eq!((is_held(&os, 0, 1), is_held(&os, 1, 1), os.used(0, 1)), (true, false, 1));
    // Pages that are shared stay; that of the copy is the oldest that may move.
    assert_eq!(store(&mut os, 0, 5), 3);
    assert_eq!([frame(&os, 1, 1), frame(&os, 0, 1)], [2, 8]);
    os.apply(Asid(1), &Op::End(farreach_types::event::End::Exit(0)));
    law(&os);
}

/// mremap moves pages with their frames, which then lie in sets of other pages.
#[test]
fn moved_pages_have_entries_in_the_page_table() {
    let mut os = os(&[HAND, &[("uto_walks_at", "1")]]);
    map(&mut os, 0, 2);
    [0, 1].into_iter().for_each(|page| _ = store(&mut os, 0, page));
    os.apply(Asid(0), &Op::Remap { old_start: 0, old_len: 8192, new_start: 7 << 12, new_len: 8192 });
    law(&os);
    assert_eq!([7, 8].map(|page| (frame(&os, 0, page), is_held(&os, 0, page))), [(0, false), (2, false)]);
    os.walked(Asid(0), Vpn(7));
    assert_eq!(os.counts().restseg_moves, 0, "it lies in a segment");
}

/// A page whose set is full has no place when other memory is, though there are ways in other sets.
#[test]
fn full_memory_is_an_error() {
    for full in ["flex", "evict"] {
        let mut os = os(&[HAND, &[("memory", "36K"), ("uto_full", full)]]);
        map(&mut os, 0, 64);
        [0, 4, 8].into_iter().for_each(|page| _ = store(&mut os, 0, page));
        assert!(os.touch(Asid(0), Vpn(12), Kind::Store).is_err());
        law(&os);
        assert_eq!(store(&mut os, 0, 13), 2);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (keys, why) in [
        (&[("uto_size", "48K")][..], "uto_size = 48K is not allowed with uto_ways = 2: it must be a power of two"),
        (&[("uto_size", "128K")], "the first 128K of memory must exist"),
        (&[("allocator", "colouring")], "the allocator must be fifo or buddy"),
        (&[("fragmentation", "0.5")], "must exist and be free"),
        (&[("uto_size_2m", "2M")], "uto_size_2m = 2M"),
    ] {
        let refusal = build(&[HAND, keys]).err().expect("it was not refused");
        assert!(refusal.contains(why), "{refusal}");
    }
    let mixed = os(&[HAND, &[("uto_hash", "mix"), ("allocator", "fifo")]]);
    assert_eq!(mixed.segs()[0].mixed, Some(0));
}

mod random;
