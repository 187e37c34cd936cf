//! system_tracing 2.2: granules, start levels, blocks, runs of entries, 52 bits.

use super::*;

const PAGE: u64 = 3 | 1 << 10;
const BLOCK: u64 = 1 | 1 << 10;
const TABLE: u64 = 3;
const RO: u64 = 1 << 7;
const NG: u64 = 1 << 11;
const DBM: u64 = 1 << 51;
const CONT: u64 = 1 << 52;
const PXN: u64 = 1 << 53;
const UXN: u64 = 1 << 54;

/// TCR_EL1 with addresses of `bits` bits in both halves.
fn tcr(shift: u32, bits: u64) -> u64 {
    let (tg0, tg1) = match shift {
        12 => (0, 2),
        14 => (2, 1),
        _ => (1, 3),
    };
    (64 - bits) | tg0 << 14 | (64 - bits) << 16 | tg1 << 30
}

fn bench(shift: u32, bits: u64, extra: u64) -> Bench {
    let mut bench = Bench::new(Arch::Aarch64, &format!("page_size={}K", 1 << (shift - 10)));
    bench.register(KERNEL, Register::Control, tcr(shift, bits) | extra);
    bench.register(KERNEL, Register::Root0, 5 << 48 | 0x10_0000).register(KERNEL, Register::Root1, 0x20_0000);
    bench
}

#[test]
fn granule_of_4_kb() {
    let mut bench = bench(12, 48, 0);
    bench.words(0x10_0000, &[0x10_1000 | TABLE]);
    bench.words(0x10_1000, &[0x10_2000 | TABLE, 0x4000_0000 | BLOCK | RO]);
    bench.words(0x10_2000, &[0x10_3000 | TABLE, 0x60_0000 | BLOCK | PXN | UXN]);
    bench.words(0x10_3000, &[0x7000 | PAGE, 0x8000 | PAGE | RO | PXN | UXN, 0x9000 | 1, 0xa000 | 2]);
    assert_eq!(bench.load(A, 0), (7, RWX, 0));
    assert_eq!(bench.load(A, 0x1000), (8, Attr::READ, 0));
    assert_eq!(bench.load(A, 0x23_4000), (0x634, RW, 9));
    assert_eq!(bench.load(A, 0x4567_8000), (0x45678, RX, 18));
    // 01 in the lowest bits is no page; 10 is invalid.
    assert!(bench.touch(A, 0x2000, Kind::Load).is_err() && bench.touch(A, 0x3000, Kind::Load).is_err());
}

/// Executable by the kernel, or by programs, is executable; AP of tables and their XN bits hold below, unless HPD.
#[test]
fn rights() {
    let of = |table: u64, page: u64, extra: u64| {
        let mut bench = bench(12, 39, extra);
        bench.words(0x10_0000, &[0x10_2000 | TABLE]).words(0x10_2000, &[0x10_3000 | TABLE | table]);
        bench.words(0x10_3000, &[0x7000 | PAGE | page]);
        bench.load(A, 0).1
    };
    assert_eq!([of(0, 0, 0), of(0, PXN, 0), of(0, UXN, 0), of(0, PXN | UXN, 0)], [RWX, RWX, RWX, RW]);
    let (ap, uxn, pxn) = (1 << 62, 1 << 60, 1 << 59);
    assert_eq!([of(ap, 0, 0), of(uxn, 0, 0), of(uxn, PXN, 0), of(uxn | pxn, 0, 0)], [RX, RWX, RW, RW]);
    assert_eq!([of(ap | uxn | pxn, 0, 1 << 41), of(ap, 0, 1 << 42)], [RWX, RX], "HPD0, and HPD1 of the other half");
    // Hardware that sets the modified state makes such a page writable by itself.
    assert_eq!([of(0, RO | DBM, 0), of(0, RO | DBM, 1 << 40), of(0, RO, 1 << 40)], [RX, RWX, RX]);
}

/// 64 KB are 16 entries of level 3, 32 MB are 16 of level 2.
#[test]
fn runs_of_16() {
    let mut bench = bench(12, 39, 0);
    bench.words(0x10_0000, &[0x10_2000 | TABLE]).words(0x10_2000, &[0x10_3000 | TABLE]);
    let pages: Vec<u64> = (0..32).map(|i| (0x70_0000 + (i << 12)) | PAGE | NG | CONT).collect();
    bench.words(0x10_3000, &pages);
    let blocks: Vec<u64> = (0..16).map(|i| (0x8000_0000 + (i << 21)) | BLOCK | CONT | UXN | PXN).collect();
    bench.words(0x10_2000 + 8 * 16, &blocks);
    assert_eq!(bench.load(A, 0x5000), (0x705, RWX, 4));
    assert_eq!(bench.load(A, 0x1_f000), (0x71f, RWX, 4));
    assert_eq!(bench.load(A, 0x200_3000), (0x80003, RW, 13));
    bench.changes();
    // One entry loses the bit: all of the run are pages again, and keep their frames.
    bench.words(0x10_3000 + 8 * 3, &[0x70_3000 | PAGE | NG]);
    let demoted: u64 = bench.changes().iter().map(|change| (change.3 == What::Demoted) as u64 * change.2).sum();
    assert_eq!(demoted, 16);
    assert_eq!([bench.pte(A, 0x5000), bench.pte(A, 0x1_0000)], [Some((0x705, RWX, 0)), Some((0x710, RWX, 4))]);
    bench.words(0x10_3000 + 8 * 3, &[0x70_3000 | PAGE | NG | CONT]);
    assert!(bench.changes().iter().all(|change| change.3 == What::Promoted));
    assert_eq!(bench.pte(A, 0x3000), Some((0x703, RWX, 4)));
    // Another frame in the middle.
    bench.words(0x10_3000 + 8 * 3, &[0x99_3000 | PAGE | NG | CONT]);
    assert_eq!([bench.pte(A, 0x2000), bench.pte(A, 0x3000)], [Some((0x702, RWX, 0)), Some((0x993, RWX, 0))]);
}

/// Frames that are not aligned to the run, or a right that differs, make no run.
#[test]
fn runs_that_do_not_agree() {
    for (i, word) in [(0, 0), (7, RO), (15, NG), (9, 1 << 13)] {
        let mut bench = bench(12, 39, 0);
        bench.words(0x10_0000, &[0x10_2000 | TABLE]).words(0x10_2000, &[0x10_3000 | TABLE]);
        let pages: Vec<u64> = (0..16).map(|i| (0x70_0000 + (i << 12)) | PAGE | CONT).collect();
        bench.words(0x10_3000, &pages);
        bench.words(0x10_3000 + 8 * i, &[if word == 0 { 0 } else { pages[i as usize] ^ word }]);
        assert_eq!(bench.load(A, 0x5000).2, 0);
    }
    let mut bench = bench(12, 39, 0);
    bench.words(0x10_0000, &[0x10_2000 | TABLE]).words(0x10_2000, &[0x10_3000 | TABLE]);
    let pages: Vec<u64> = (0..16).map(|i| (0x70_1000 + (i << 12)) | PAGE | CONT).collect();
    bench.words(0x10_3000, &pages);
    assert_eq!(bench.load(A, 0x5000), (0x706, RWX, 0));
}

/// 16 KB: 11 bits a level, runs of 128 (2 MB) and 32 (1 GB), blocks of 32 MB.
#[test]
fn granule_of_16_kb() {
    // 47 bits: three levels; index 3 of the first, 1 of the second.
    let mut bench = bench(14, 47, 0);
    bench.words(0x10_0000 + 8 * 3, &[0x10_4000 | TABLE]);
    bench.words(0x10_4000 + 8, &[0x10_8000 | TABLE, 0x600_0000 | BLOCK]);
    let run: Vec<u64> = (0..128).map(|i| (0x120_0000 + (i << 14)) | PAGE | CONT).collect();
    bench.words(0x10_8000, &run).words(0x10_8000 + 8 * 1024, &[0x7_c000 | PAGE]);
    let base = 3u64 << 36 | 1 << 25;
    assert_eq!(bench.load(A, base + (5 << 14)), (0x120_0000 / 16384 + 5, RWX, 7));
    assert_eq!(bench.load(A, base + (1024 << 14)), (0x1f, RWX, 0), "the third frame of 4 KB of the table");
    assert_eq!(bench.load(A, base + (1 << 25) + (7 << 14)), (0x600_0000 / 16384 + 7, RWX, 11));
    let blocks: Vec<u64> = (0..32).map(|i| (1 << 40 | i << 25) | BLOCK | CONT).collect();
    bench.words(0x10_4000 + 8 * 32, &blocks);
    assert_eq!(bench.load(A, (3 << 36) + (33 << 25)).2, 11 + 5);
}

/// 64 KB: 13 bits a level; 48 bits have 64 entries at the top, 52 bits have 1024.
#[test]
fn granule_of_64_kb() {
    let mut bench = bench(16, 48, 0);
    // A root of 512 bytes in the middle of a frame.
    bench.register(KERNEL, Register::Root0, 0x10_0200);
    bench.words(0x10_0200 + 8 * 63, &[0x11_0000 | TABLE]);
    bench.words(0x11_0000 + 8 * 8191, &[0x12_0000 | TABLE]);
    let run: Vec<u64> = (0..32).map(|i| (0x40_0000 + (i << 16)) | PAGE | CONT).collect();
    bench.words(0x12_0000, &run).words(0x12_0000 + 8 * 8190, &[0x77_0000 | PAGE | UXN | PXN]);
    bench.words(0x11_0000, &[0x2000_0000 | BLOCK]);
    let base = (63u64 << 42) + (8191 << 29);
    assert_eq!(bench.load(A, base + 0x3_0000), (0x43, RWX, 5));
    assert_eq!(bench.load(A, base + (8190 << 16)), (0x77, RW, 0));
    assert_eq!(bench.load(A, (63 << 42) + 0x5_0000), (0x2005, RWX, 13));
    // 52 bits of physical address: bits 51:48 are in 15:12.
    let mut bench = super::aarch64::bench(16, 52, 6 << 32);
    bench.words(0x10_0000 + 8 * 1023, &[0x11_0000 | TABLE]);
    bench.words(0x11_0000, &[0x12_0000 | TABLE]).words(0x12_0000, &[0x40_0000 | 0xa000 | PAGE]);
    assert_eq!(bench.load(A, 1023 << 42), (0xa_0000_0040_0000 >> 16, RWX, 0));
}

/// 4 KB and DS: five levels, of which the first has 16 entries; address bits 51:50 are in 9:8.
#[test]
fn addresses_of_52_bits() {
    let mut bench = bench(12, 52, 1 << 59);
    bench.words(0x10_0000 + 8 * 9, &[0x10_1000 | TABLE]).words(0x10_1000, &[0x10_2000 | TABLE]);
    bench.words(0x10_2000, &[0x10_3000 | TABLE]).words(0x10_3000, &[0x10_4000 | TABLE]);
    bench.words(0x10_4000, &[0x7000 | PAGE | 3 << 8]);
    assert_eq!(bench.load(A, 9 << 48), (3 << 38 | 7, RWX, 0));
    // The upper half ends at the top, and begins 2^52 below.
    bench.words(0x20_0000 + 8 * 15, &[0x10_1000 | TABLE]);
    assert_eq!(bench.load(A, 0xffff_0000_0000_0000), (3 << 38 | 7, RWX, 0));
}

#[test]
fn halves_have_their_own_roots() {
    let mut bench = bench(12, 39, 0);
    bench.words(0x10_0000, &[0x10_2000 | TABLE]).words(0x10_2000, &[0x60_0000 | BLOCK]);
    bench.words(0x20_0000, &[0x10_2000 | TABLE]);
    assert_eq!(bench.load(A, 0x1000), (0x601, RWX, 9));
    assert_eq!(bench.load(A, 0xffff_ff80_0000_1000), (0x601, RWX, 9));
    assert!(bench.touch(A, 0xffff_ff00_0000_1000, Kind::Load).is_err(), "T1SZ");
    assert!(bench.touch(A, 1 << 39, Kind::Load).is_err(), "T0SZ");
    // EPD0.
    bench.register(A, Register::Control, tcr(12, 39) | 1 << 7);
    assert!(bench.touch(B, 0x1000, Kind::Load).unwrap_err().contains("EPD0"));
}
