//! What invalidations and registers do to entries, and stale entries.

use super::x86::four_levels;
use super::*;

const HALF: u64 = 1 << 44;
const KERNEL_PAGE: u64 = 0xffff_8880_4020_4000;
const KERNEL_VPN: u64 = (KERNEL_PAGE & ((1 << 57) - 1)) >> 12;
const PGE: u64 = 0x80;

/// Programs at two roots, 0x1000 and 0x8000, with the same lower half; a page of the kernel, not global.
fn two(keys: &str) -> Bench {
    let mut bench = four_levels(keys);
    bench.words(0x1000 + 8 * 0x111, &[0x2003]).words(0x8000, &[0x2007]).words(0x8000 + 8 * 0x111, &[0x2003]);
    bench.load(A, 0x4020_1000);
    bench.changes();
    bench
}

/// CR3 without PCIDs: all of the space that ran, and pages of the kernel that are not global.
#[test]
fn tags_of_the_guest() {
    let mut bench = two("");
    bench.load(A, KERNEL_PAGE);
    bench.register(A, Register::Root0, 0x8000);
    assert_eq!(bench.changes(), [(1, 0, HALF, What::Flushed), (0, KERNEL_VPN, 1, What::Flushed)]);
    bench.load(B, 0x4020_1000);
    // The same root again means a flush.
    bench.register(B, Register::Root0, 0x8000);
    assert_eq!(bench.changes()[0], (2, 0, HALF, What::Flushed));
    assert_eq!(bench.pte(A, 0x4020_1000), Some((0x55, RW, 0)), "mappings stay");
    // A global page of the kernel outlives it.
    bench.words(0x4008 + 24, &[0x58103]);
    bench.load(B, KERNEL_PAGE);
    bench.changes();
    bench.register(B, Register::Root0, 0x1000);
    assert_eq!(bench.changes(), [(2, 0, HALF, What::Flushed)]);
    // CR4.PGE: everything.
    bench.register(A, Register::Control, 0);
    let flushed: Vec<u32> = bench.changes().iter().map(|change| change.0).collect();
    assert_eq!(flushed, [1, 2, 0]);
    assert_eq!(bench.os.guest_counts().unwrap().space_switches, 1);
}

#[test]
fn tags_with_pcids_of_the_guest() {
    let mut bench = two("");
    bench.register(A, Register::Control, PGE | 1 << 17).register(A, Register::Root0, 0x1001);
    bench.changes();
    bench.load(A, 0x4020_1000);
    assert_eq!(bench.changes(), [(1, 0, HALF, What::Flushed)], "its entries had another tag");
    bench.register(A, Register::Root0, 1 << 63 | 0x8002);
    assert_eq!(bench.changes(), [], "bit 63 keeps all");
    bench.load(B, 0x4020_1000);
    // Back without the bit: those of PCID 1 go.
    bench.register(B, Register::Root0, 0x1001);
    assert_eq!(bench.changes(), [(1, 0, HALF, What::Flushed)]);
    let pcid = |tag, global| Invalidate { tag, bytes: None, global, leaves: false, broadcast: false };
    bench.invalidate(A, pcid(Some(2), false));
    assert_eq!(bench.changes(), [(2, 0, HALF, What::Flushed)]);
    bench.invalidate(A, pcid(None, true));
    assert_eq!(bench.changes().len(), 2, "no page of the kernel is known");
    let counts = bench.os.guest_counts().unwrap();
    assert_eq!((counts.invalidations_spaces, counts.invalidations_all), (1, 1));
}

/// SHD-4: six spaces keep their entries; the seventh takes the place of the first.
#[test]
fn tags_pcid_and_all() {
    for (tags, lost) in [("tags=pcid", vec![(1, 0, HALF, What::Flushed)]), ("tags=all", vec![])] {
        let mut bench = two(tags);
        for space in 2..8 {
            bench.register(Asid(space - 1), Register::Root0, if space % 2 == 0 { 0x8000 } else { 0x1000 });
            assert_eq!(bench.changes(), [], "{tags}");
            bench.touch(Asid(space), 0x4020_1000, Kind::Load).unwrap();
            assert_eq!(bench.changes(), if space == 7 { lost.clone() } else { vec![] }, "{tags} {space}");
        }
        bench.register(Asid(7), Register::Root0, 0x1000);
        assert_eq!(bench.changes(), [(7, 0, HALF, What::Flushed)], "the same root: a flush");
    }
}

#[test]
fn invalidations_of_pages() {
    let mut bench = two("");
    bench.load(A, KERNEL_PAGE);
    bench.invalidate(A, page(0x4020_1000)).invalidate(A, page(0x9999_0000)).invalidate(A, page(KERNEL_PAGE));
    let flushed = |asid, vpn| (asid, vpn, 1, What::Flushed);
    assert_eq!(bench.changes(), [flushed(1, 0x40201), flushed(0, KERNEL_VPN)], "nothing is mapped at the second");
    let everywhere = Invalidate { broadcast: true, global: false, ..page(KERNEL_PAGE) };
    bench.invalidate(A, everywhere);
    assert_eq!(bench.changes(), [(0, KERNEL_VPN, 1, What::FlushedEverywhere)]);
    let counts = bench.os.guest_counts().unwrap();
    assert_eq!((counts.invalidations_pages, counts.invalidations_broadcast, counts.flushes), (4, 1, 3));
}

#[test]
fn stale_until_the_guest_says_so() {
    let mut bench = two("stale=guest");
    bench.load(A, 0x4020_1000);
    bench.words(0x4008, &[0x65007, 0x56007]);
    let writable = |vpn| (1, vpn, 1, What::Writable);
    assert_eq!(bench.changes(), [writable(0x40201), writable(0x40202)]);
    for _ in 0..3 {
        assert_eq!(bench.load(A, 0x4020_1000), (0x55, RW, 0));
    }
    assert_eq!(bench.os.guest_counts().unwrap().stale_lookups, 1, "each once");
    // A store that the old entry forbids faults, and the entry goes.
    assert_eq!(bench.touch(A, 0x4020_2000, Kind::Store), Ok((0x56, RWX, 0)));
    assert_eq!(bench.changes(), [(1, 0x40202, 1, What::Stale)]);
    bench.invalidate(A, page(0x4020_1000));
    assert_eq!(bench.changes(), [(1, 0x40201, 1, What::Flushed), (1, 0x40201, 1, What::Stale)]);
    assert_eq!(bench.pte(A, 0x4020_1000), Some((0x65, RWX, 0)));
    // A change that is taken back is none. A new mapping needs no invalidation.
    bench.words(0x4008, &[0]).words(0x4008, &[0x65007]).words(0x4008 + 16, &[0x77007]);
    bench.changes();
    bench.invalidate(A, page(0x4020_1000));
    assert_eq!(bench.changes(), [(1, 0x40201, 1, What::Flushed)]);
    assert_eq!(bench.load(A, 0x4020_3000), (0x77, RWX, 0));
    // CR3 covers it, and a table that is unlinked ends it.
    bench.words(0x4008, &[0]).register(A, Register::Root0, 0x1000);
    assert_eq!(bench.pte(A, 0x4020_1000), None);
    bench.words(0x4008 + 8, &[0]).words(0x3008, &[0]);
    assert_eq!(bench.pte(A, 0x4020_2000), None);
}

#[test]
fn stale_large_leaves() {
    let mut bench = two("stale=guest");
    bench.words(0x3010, &[0x60_0087]);
    bench.load(A, 0x4040_1000);
    bench.changes();
    bench.words(0x3010, &[0]);
    assert_eq!(bench.changes(), [(1, 0x40400, 512, What::Writable)]);
    assert_eq!(bench.load(A, 0x405f_f000), (0x7ff, RWX, 9));
    bench.invalidate(A, page(0x4041_0000));
    // All entries that are parts of the large page.
    assert_eq!(bench.changes(), [(1, 0x40400, 512, What::Flushed), (1, 0x40400, 512, What::Stale)]);
    assert!(bench.touch(A, 0x4040_1000, Kind::Load).is_err());
}

/// A page that is not mapped any more is mapped again for a processor that was not told, and not for long.
#[test]
fn pages_that_a_processor_still_uses() {
    for event in 0..4 {
        let mut bench = two("");
        bench.words(0x4008, &[0]);
        bench.changes();
        let stale = |page, address| Guest::Stale { page, address };
        bench.op(A, stale(0x4020_1000, 0x55_000)).op(A, stale(0x4020_1000, 0x55_000));
        assert_eq!(bench.load(A, 0x4020_1000), (0x55, RWX, 0));
        // What the tables map is as they say.
        bench.op(A, stale(0x4020_2000, 0x99_000));
        assert_eq!(bench.load(A, 0x4020_2000).0, 0x56);
        assert_eq!(bench.os.guest_counts().unwrap().restored_pages, 1);
        assert_eq!(bench.changes(), []);
        match event {
            0 => bench.os.apply(A, &Op::Switch { thread: 1 }),
            1 => _ = bench.words(0x4008 + 24, &[0x77007]),
            2 => _ = bench.invalidate(A, page(0x9999_0000)),
            _ => _ = bench.register(A, Register::Control, PGE),
        }
        assert_eq!(bench.changes()[0], (1, 0x40201, 1, What::Stale), "event {event}");
        assert_eq!(bench.pte(A, 0x4020_1000), None);
    }
    // One of the kernel, of which there is no table.
    let mut bench = two("stale=guest");
    bench.op(A, Guest::Stale { page: 0x1ff_c000_0000_0000, address: 0x77_000 });
    assert_eq!(bench.load(A, 0xffff_c000_0000_0000), (0x77, RWX, 0));
    bench.op(A, Guest::Stale { page: 1 << 57, address: 0x77_000 });
    assert!(bench.refusal().contains("0x200000000000000; addresses have 57 bits"), "{}", bench.refusal());
}

/// AArch64 keeps entries by ASID; TLBI with an address hits those of the ASID, and global ones.
#[test]
fn tags_of_aarch64() {
    let mut bench = Bench::new(Arch::Aarch64, "");
    bench.register(KERNEL, Register::Control, 25 | 25 << 16 | 2 << 30);
    bench.register(KERNEL, Register::Root1, 0x20_0000).register(KERNEL, Register::Root0, 5 << 48 | 0x10_0000);
    bench.words(0x10_0000, &[0x10_2003]).words(0x10_2000, &[0x10_3003]);
    bench.words(0x10_3000, &[0x7000 | 0xc03, 0x8000 | 0xc03]).words(0x20_0000, &[0x10_2003]);
    bench.load(A, 0);
    bench.register(A, Register::Root0, 6 << 48 | 0x10_0000);
    bench.load(B, 0);
    bench.load(B, 0xffff_ff80_0000_0000);
    assert_eq!(bench.changes(), []);
    let by_asid = |tag| Invalidate { tag: Some(tag), bytes: None, global: false, leaves: false, broadcast: true };
    bench.invalidate(B, by_asid(5));
    assert_eq!(bench.changes(), [(1, 0, HALF, What::FlushedEverywhere)]);
    bench.invalidate(B, Invalidate { bytes: Some((0x1000, 4096)), ..by_asid(6) });
    assert_eq!(bench.changes(), [(2, 1, 1, What::FlushedEverywhere)]);
    // Another ASID, and pages of the kernel that are not global.
    bench.register(B, Register::Root0, 5 << 48 | 0x10_0000);
    assert_eq!(bench.changes(), [(0, 0x1ff_ff80_0000_0000 >> 12, 1, What::Flushed)]);
}
