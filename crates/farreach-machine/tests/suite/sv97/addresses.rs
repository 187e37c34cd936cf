//! CA-20: addresses of the global space (SV97-9, SV97-10, SV97-11, SV97-12, SV97-13, SV97-14, AMB-42).

use farreach_hw::system::Space;
use farreach_hw::system::global::*;
use farreach_types::addr::Asid;

#[test]
fn golden_addresses() {
    let e = 0x1234_5678;
    assert_eq!(e >> SEGMENT_SHIFT, 1, "segment register");
    let g = global(0xABCDEF, e);
    assert_eq!(g, 0xABCDEF2345678);
    assert_eq!(upte(g), 0x3FF << 42 | 0xABCDEF2345 << 2);
    assert_eq!((root_offset(e), root_group(e)), (288, 1));
    // SV97-12: the table fills the top of the space exactly.
    assert_eq!(upte((1 << 52) - 1) + 4, 1 << 52);
    assert_eq!(upte(0), (1 << 52) - (1 << 42));
    assert_eq!(TABLE_PAGES, 64, "a segment page table is 256 KB");
    // SV97-13: eight groups of 256 bytes are the lower half of a page.
    assert_eq!(root_offset(0x7FFF_FFFF), 2044);
    assert_eq!((0..8u64).map(|r| root_offset(r << 28)).collect::<Vec<_>>(), [0, 256, 512, 768, 1024, 1280, 1536, 1792]);
}

#[test]
fn segments_extend_addresses_and_windows_collide_with_nothing() {
    for physical in [0, 0xFFFF_FFFF, 0x1000] {
        assert!(is_physical(cached(physical)) && id_of(cached(physical)).is_none());
    }
    assert_eq!(cached(0xFF00_0000), 0x000F_FFFF_FF00_0000);
    assert!(is_physical(PHYSICAL_UNCACHED << 32));
    // AMB-42: no identifier that is allocated has an address, or a page table entry, in a window.
    for id in [0, 1, 0xABCDEF, RESERVED_IDS - 1] {
        for low in [0, 0xFFF_FFFF] {
            let g = global(id, low);
            assert!(!is_physical(g) && !is_physical(upte(g)), "{id:#x}");
            assert_eq!((id_of(g), id_of(upte(g))), (Some(id), Some(id)), "{id:#x}");
        }
    }
    assert!(is_physical(upte(global(0xFFC000 | 0x3FFF, 0))), "a reserved one would");
}

/// The root entry of SV97-14, found through the register that holds the segment.
#[test]
fn root_entries() {
    let mut space = Space::new(24);
    let asid = Asid(3);
    let chunks: Vec<_> = (0..8).map(|chunk| space.enter(asid, chunk).segment.id).collect();
    for (chunk, &id) in (0u64..8).zip(&chunks) {
        let e = chunk << 28 | 0x234_5678;
        let page = global(id, e) >> 12;
        assert_eq!(space.root(asid, page), kernel::control_block(3) + root_offset(e));
        assert_eq!(kernel::control_block(3) % 4096, 0, "AMB-49");
    }
    // A ninth chunk takes the register loaded longest ago; the entries of that segment are in kernel memory now.
    let ninth = space.enter(asid, 0x7FFF_0000);
    assert!(ninth.loaded && ninth.fresh);
    assert_eq!(space.root(asid, global(chunks[0], 0) >> 12), kernel::group(chunks[0]));
    assert_eq!(space.root(asid, global(ninth.segment.id, 0) >> 12), kernel::control_block(3));
    let back = space.enter(asid, 0);
    assert!(back.loaded && !back.fresh && back.segment.id == chunks[0], "it comes back under its identifier");
}
