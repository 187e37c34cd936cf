//! Walks of tables that are written out here, by the rules of 2.1 and 2.2.

use crate::guest::{Found, Memory, Registers, Rights, walk};
use farreach_types::event::Arch;

fn found(arch: Arch, words: &[(u64, u64)], registers: Registers, address: u64) -> Option<Found> {
    let memory: Memory = words.iter().copied().collect();
    walk(arch, &memory, &registers, address >> 12, None)
}

const PROGRAM_DATA: Rights = Rights { user: true, write: true, user_exec: false, kernel_exec: false };

#[test]
fn x86_four_levels() {
    // 0x7f12_3456_7000: indices 254, 72, 418, 359.
    let words = [
        (0x1000 + 8 * 254, 0x2067),
        (0x2000 + 8 * 72, 0x3067),
        (0x3000 + 8 * 418, 0x4067),
        (0x4000 + 8 * 359, 0x8000_0000_0abc_d067),
    ];
    // CR3 with a PCID and bit 63; CR4: PAE, PGE, PCIDE.
    let registers = Registers { root0: 0x8000_0000_0000_1005, control: 0x200a0, ..Registers::default() };
    let expected = Found { frame: 0xabcd, order: 0, leaf: 0, rights: PROGRAM_DATA, global: false };
    assert_eq!(found(Arch::X86, &words, registers, 0x7f12_3456_7000), Some(expected));
    assert_eq!(found(Arch::X86, &words, registers, 0x7f12_3456_8000), None);
    // Not canonical with four levels: bit 47 is 0 and bit 48 is 1.
    assert_eq!(found(Arch::X86, &words, registers, 0x1_7f12_3456_7000), None);
    assert_eq!(registers.tag(Arch::X86), 5);
    assert_eq!(Registers { control: 0xa0, ..registers }.tag(Arch::X86), 0);
}

/// A page of 2 MB in the upper half: PAT (12) is no address, G counts with PGE alone, W of the directory is ANDed.
#[test]
fn x86_large_and_global() {
    let address = 0x1ff_8880_0020_0000 | 0x5000;
    let words = [(0x1000 + 8 * 273, 0x2063), (0x2000, 0x3061), (0x3000 + 8, 0x4000_0000 | 0x11e3)];
    let registers = |control| Registers { root0: 0x1000, control, ..Registers::default() };
    let rights = Rights { user: false, write: false, user_exec: false, kernel_exec: true };
    let expected = Found { frame: 0x4_0005, order: 9, leaf: 9, rights, global: true };
    assert_eq!(found(Arch::X86, &words, registers(0xa0), address), Some(expected));
    assert_eq!(found(Arch::X86, &words, registers(0x20), address), Some(Found { global: false, ..expected }));
    // Five levels: the highest index is that of bits 56:48, 511.
    assert_eq!(found(Arch::X86, &words, registers(0x10a0), address), None);
    let five: Vec<(u64, u64)> = words.into_iter().chain([(0x9000 + 8 * 511, 0x1063)]).collect();
    assert_eq!(found(Arch::X86, &five, Registers { root0: 0x9000, ..registers(0x10a0) }, address), Some(expected));
    // 1 GB, and PS a level above, which is reserved.
    let giant = [(0x1000 + 8 * 273, 0x2063), (0x2000, 0x8000_0000 | 0x1e3)];
    let expected =
        Found { frame: 0x8_0205, order: 18, leaf: 18, global: true, rights: Rights { write: true, ..rights } };
    assert_eq!(found(Arch::X86, &giant, registers(0xa0), address), Some(expected));
    assert_eq!(found(Arch::X86, &[(0x1000 + 8 * 273, 0xe3)], registers(0xa0), address), None);
}

/// TCR of Linux: T0SZ = T1SZ = size, granules, IPS, AS, A1.
fn tcr(bits: u64, low: u64, high: u64) -> u64 {
    let size = 64 - bits;
    size | size << 16 | low << 14 | high << 30 | 5 << 32 | 1 << 36 | 1 << 22
}

/// 4 KB, 48 bits: indices of 0xffff_8000_1234_5000 in TTBR1 are 256, 0, 145, 325.
#[test]
fn arm_4k() {
    let pxn = 1 << 53;
    let words = [
        (0x4000_0000 + 8 * 256, 0x4000_1003),
        (0x4000_1000, 0x4000_2003),
        (0x4000_2000 + 8 * 145, 0x4000_3003),
        (0x4000_3000 + 8 * 325, 0x4123_4000 | 0x703 | 1 << 54 | pxn),
        // A block of 2 MB beside it; one of 1 GB above.
        (0x4000_2000 + 8 * 146, 0x4220_0000 | 0xf81 | 1 << 54),
        (0x4000_1000 + 8, 0x8000_0000 | 0x701),
    ];
    let registers = Registers { root1: 0x0007_0000_4000_0001, root0: 0, control: tcr(48, 0, 2) };
    let at = |address: u64| found(Arch::Aarch64, &words, registers, address & ((1 << 57) - 1));
    let kernel = Rights { user: false, write: true, user_exec: false, kernel_exec: false };
    let expected = Found { frame: 0x4_1234, order: 0, leaf: 0, rights: kernel, global: true };
    assert_eq!(at(0xffff_8000_1234_5000), Some(expected));
    // nG, AP[2] set: read only.
    let block = Rights { write: false, kernel_exec: true, ..kernel };
    let expected = Found { frame: 0x4_2201, order: 9, leaf: 9, rights: block, global: false };
    assert_eq!(at(0xffff_8000_1240_1000), Some(expected));
    let giant = Rights { user: false, write: true, user_exec: true, kernel_exec: true };
    let expected = Found { frame: 0x8_0001, order: 18, leaf: 18, rights: giant, global: true };
    assert_eq!(at(0xffff_8000_4000_1000), Some(expected));
    // Bits 55:48 must all be set.
    assert_eq!(at(0xff7f_8000_1234_5000), None);
    assert_eq!(registers.tag(Arch::Aarch64), 7);
    assert_eq!(Registers { control: registers.control & !(1 << 22), ..registers }.tag(Arch::Aarch64), 0);
}

/// 16 KB, 47 bits: three levels. A run of 128 pages: 2 MB, order 9. One entry that differs, and it is none.
#[test]
fn arm_16k_contiguous() {
    let page = |i: u64| 0x8000_0000 + i * 0x4000 + 0xf43 + (1 << 52) + (3 << 53);
    let mut words = vec![(0x4000_0000, 0x4000_4003), (0x4000_4000, 0x4000_8003)];
    words.extend((0..128).map(|i| (0x4000_8000 + 8 * (128 + i), page(i))));
    let registers = Registers { root0: 0x4000_0000, root1: 0, control: tcr(47, 2, 1) };
    // The second run: 128 * 16 KB = 2 MB. Page 3 of 4 KB in granule 5.
    let address = 0x20_0000 + 5 * 0x4000 + 0x3000;
    let rights = Rights { write: true, ..PROGRAM_DATA };
    let expected = Found { frame: 0x8_0000 + 23, order: 9, leaf: 2, rights, global: false };
    assert_eq!(found(Arch::Aarch64, &words, registers, address).map(|f| Found { rights, ..f }), Some(expected));
    // AP: 0xf43 has AP[1], and AP[2] clear.
    assert_eq!(found(Arch::Aarch64, &words, registers, address).unwrap().rights, rights);
    for (entry, other) in [(9, page(9) & !(1 << 52)), (0, 0), (127, page(126)), (64, page(64) | 0x80)] {
        let mut broken = words.clone();
        broken[2 + entry].1 = other;
        let order = found(Arch::Aarch64, &broken, registers, address).unwrap().order;
        assert_eq!(order, 2, "entry {entry}");
    }
    // AF alone makes no difference, where hardware sets it.
    let mut unused = words.clone();
    unused[2 + 9].1 &= !(1 << 10);
    let sets_af = Registers { control: registers.control | 1 << 39, ..registers };
    assert_eq!(found(Arch::Aarch64, &unused, sets_af, address).unwrap().order, 9);
    // The entry itself, without HA: it faults.
    assert_eq!(found(Arch::Aarch64, &unused, registers, 0x20_0000 + 9 * 0x4000), None);
}

/// 64 KB, 52 bits: bits 51:48 of an address are in 15:12 of a descriptor and in 5:2 of TTBR. Blocks have 512 MB.
#[test]
fn arm_64k_wide() {
    let control = tcr(48, 1, 3) & !(7 << 32) | 6 << 32;
    // Root at 0x5_0000_4000_0200: it has 64 entries. Index of bits 47:42, then 41:29, then 28:16.
    let root0 = 0x4000_0200 | 5 << 2;
    let (root, table) = (0x5_0000_4000_0200, 0xa_0000_4001_0000u64);
    let words = [
        (root + 8 * 3, 0x4001_0003 | 0xa << 12),
        (table + 8, 0x0000_1234_0000_0003 | 0xf << 12),
        (0xf_1234_0000_0000 + 8 * 2, 0x5678_0000 | 1 << 12 | 0xf43 | 3 << 53),
        (table + 8 * 2, 0x6000_0000 | 0xf41 | 3 << 53),
    ];
    let registers = Registers { root0, root1: 0, control };
    let base = 3 << 42;
    let at = |address| found(Arch::Aarch64, &words, registers, address).map(|f| (f.frame, f.order));
    assert_eq!(at(base + (1 << 29) + (2 << 16) + 0x7000), Some((0x0010_0005_6787, 4)));
    assert_eq!(at(base + (2 << 29) + 0x1_2000), Some((0x6_0012, 17)));
}

/// 4 KB with DS, 52 bits: five levels, four bits for the first; bits 51:50 in 9:8. A run of 16 blocks of 2 MB: 32 MB.
#[test]
fn arm_4k_wide_runs_of_blocks() {
    let control = tcr(52, 0, 2) & !(7 << 32) | 6 << 32 | 1 << 59;
    let at = |pa: u64| pa & ((1 << 50) - 1) | pa >> 50 << 8;
    let top = 0xc_0000_4000_0040;
    let root0 = 0x4000_0040 | 0xc << 2;
    let mut words = vec![
        (top + 8 * 9, at(0xd_0000_4000_1000) | 3),
        (0xd_0000_4000_1000, at(0xd_0000_4000_2000) | 3),
        (0xd_0000_4000_2000, at(0xd_0000_4000_3000) | 3),
    ];
    let block = |i: u64| at(0xe_0000_8000_0000 + i * (2 << 20)) | 0xc41 | 1 << 52 | 3 << 53;
    words.extend((0..16).map(|i| (0xd_0000_4000_3000 + 8 * (16 + i), block(i))));
    let registers = Registers { root0, root1: 0, control };
    let address = (9 << 48) + (32 << 20) + (3 << 21) + 0x9000;
    let expected = Found { frame: 0x00e0_0008_0609, order: 13, leaf: 9, rights: PROGRAM_DATA, global: false };
    assert_eq!(found(Arch::Aarch64, &words, registers, address), Some(expected));
}

/// Rights of table descriptors, unless HPD0 says otherwise; DBM is a right with HD alone.
#[test]
fn arm_rights_above_and_dirty_state() {
    let words = [
        (0x4000_0000, 0x4000_1003 | 1 << 62 | 1 << 60),
        (0x4000_1000, 0x4000_2003),
        (0x4000_2000, 0x4000_5f43),
        (0x4000_2008, 0x4000_6fc3 | 1 << 51),
    ];
    let registers = Registers { root0: 0x4000_0000, root1: 0, control: tcr(39, 0, 2) };
    let flat = Registers { control: registers.control | 1 << 41, ..registers };
    let dirty = Registers { control: flat.control | 1 << 40, ..flat };
    let rights = |registers, address| {
        let rights = found(Arch::Aarch64, &words, registers, address).unwrap().rights;
        (rights.write, rights.user_exec, rights.kernel_exec)
    };
    assert_eq!(rights(registers, 0), (false, false, true));
    assert_eq!(rights(flat, 0), (true, true, true));
    assert_eq!(rights(flat, 0x1000), (false, true, true));
    assert_eq!(rights(dirty, 0x1000), (true, true, true));
    // EPD0.
    let off = Registers { control: registers.control | 1 << 7, ..registers };
    assert_eq!(found(Arch::Aarch64, &words, off, 0), None);
}
