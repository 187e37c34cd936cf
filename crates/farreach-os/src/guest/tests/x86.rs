//! system_tracing 2.1: entries of x86-64, levels, leaves, rights, and changes of them.

use super::*;

const P: u64 = 1;
const W: u64 = 2;
const U: u64 = 4;
const A_D: u64 = 0x60;
const PS: u64 = 0x80;
const G: u64 = 0x100;
const NX: u64 = 1 << 63;
const PGE: u64 = 0x80;
const LA57: u64 = 1 << 12;

/// Tables of four levels at 0x1000 to 0x4000 for the address 0x4020_1000: indices 0, 1, 1, 1.
pub(super) fn four_levels(keys: &str) -> Bench {
    let mut bench = Bench::new(Arch::X86, keys);
    bench.register(KERNEL, Register::Control, PGE).register(KERNEL, Register::Root0, 0x1000);
    bench.words(0x1000, &[0x2000 | P | W | U]);
    bench.words(0x2008, &[0x3000 | P | W | U]);
    bench.words(0x3008, &[0x4000 | P | W | U]);
    bench.words(0x4008, &[0x55000 | P | W | U | NX, 0x56000 | P | U, 0, 0x58000 | P | W | U]);
    bench
}

#[test]
fn leaves_of_a_table_come_together() {
    let mut bench = four_levels("");
    assert_eq!(bench.load(A, 0x4020_1000), (0x55, RW, 0));
    assert_eq!(bench.all_changes(), [(1, 0x40201, 2, What::Mapped), (1, 0x40204, 1, What::Mapped)]);
    assert_eq!(bench.pte(A, 0x4020_2000), Some((0x56, RX, 0)));
    assert_eq!(bench.pte(A, 0x4020_4000), Some((0x58, RWX, 0)));
    assert_eq!(bench.pte(A, 0x4020_3000), None);
    let message = bench.touch(A, 0x4020_3000, Kind::Load).unwrap_err();
    assert!(message.contains("0x40203000") && message.contains("level 4"), "{message}");
    assert_eq!(bench.os.memory_use().mapped_bytes, 4096);
    assert_eq!(bench.os.guest_table_bytes(), Some(4 << 12));
}

/// AND over the levels for W, OR for NX; the user bit is no attribute.
#[test]
fn tables_restrict_what_is_below() {
    for (entry, attr) in [(P | W, RWX), (P, RX), (P | W | NX, RW), (P | NX, Attr::READ)] {
        for table in [0x1000, 0x2008, 0x3008] {
            let mut bench = four_levels("");
            let below = bench.os.guest.as_ref().unwrap().mirror.word(table) & 0xf000;
            bench.words(table, &[below | entry]);
            assert_eq!(bench.load(A, 0x4020_4000), (0x58, attr, 0), "{table:#x} {entry:#x}");
        }
    }
}

#[test]
fn large_leaves() {
    let mut bench = four_levels("");
    // Bit 12 is a bit of the memory type there.
    bench.words(0x3000, &[0x4020_1000 | P | W | PS | G]);
    bench.words(0x2018, &[0x8000_0000 | P | PS | NX]);
    assert_eq!(bench.load(A, 0x4000_5000), (0x40205, RWX, 9));
    assert_eq!(bench.load(A, 0xc123_4000), (0x81234, Attr::READ, 18));
    // Of 512 GB there are none.
    bench.words(0x1008, &[P | PS | W]);
    assert!(bench.touch(A, 1 << 39, Kind::Load).is_err());
}

#[test]
fn five_levels() {
    let mut bench = four_levels("");
    bench.register(KERNEL, Register::Control, PGE | LA57).register(KERNEL, Register::Root0, 0x9000);
    bench.words(0x9000 + 8 * 0x12, &[0x1000 | P | W | U]);
    bench.words(0x9000 + 8 * 0x1ff, &[0x1000 | P | W | NX]);
    assert_eq!(bench.load(A, 0x12 << 48 | 0x4020_1000), (0x55, RW, 0));
    assert_eq!(bench.load(A, 0xffff_0000_4020_4000), (0x58, RW, 0));
    assert_eq!(bench.pte(B, 0xffff_0000_4020_4000), Some((0x58, RW, 0)), "the kernel's half is one");
    assert!(bench.touch(A, 0x4020_1000, Kind::Load).is_err());
}

/// Addresses above 2^47 have copies of bit 47.
#[test]
fn the_upper_half_of_four_levels() {
    let mut bench = four_levels("");
    bench.words(0x1000 + 8 * 0x111, &[0x2000 | P | W | NX]);
    assert_eq!(bench.load(A, 0xffff_8880_4020_4000), (0x58, RW, 0));
    assert_eq!(bench.pte(KERNEL, 0xffff_8880_4020_1000), Some((0x55, RW, 0)));
    assert!(bench.touch(A, 0xfffe_8880_4020_4000, Kind::Load).is_err(), "it is not canonical");
}

#[test]
fn a_word_that_changes() {
    let mut bench = four_levels("");
    bench.load(A, 0x4020_1000);
    bench.load(A, 0x4020_2000);
    bench.changes();
    // Accessed, modified and free bits.
    bench.words(0x4008, &[0x55e00 | P | W | U | NX | A_D]);
    assert_eq!(bench.changes(), []);
    // Another frame; writable now; a new one; one that goes.
    bench.words(0x4008, &[0x65000 | P | W | U | NX, 0x56000 | P | W | U, 0x57000 | P | U, 0]);
    let stale = |first| (1, first, 1, What::Stale);
    assert_eq!(bench.changes(), [stale(0x40201), stale(0x40202), stale(0x40204)]);
    let now = [0x4020_1000, 0x4020_2000, 0x4020_3000, 0x4020_4000].map(|address| bench.pte(A, address));
    assert_eq!(now, [Some((0x65, RW, 0)), Some((0x56, RWX, 0)), Some((0x57, RX, 0)), None]);
    let counts = bench.os.guest_counts().unwrap();
    assert_eq!((counts.leaves_changed, counts.leaves_added), (3, 1));
    assert_eq!(counts.table_words, 6 + 1 + 4);
}

#[test]
fn pages_are_collapsed_and_split() {
    let mut bench = four_levels("");
    bench.load(A, 0x4020_1000);
    // khugepaged: the table goes, a large leaf comes.
    bench.words(0x3008, &[0]);
    assert_eq!(bench.changes(), [(1, 0x40201, 2, What::Stale), (1, 0x40204, 1, What::Stale)]);
    bench.words(0x4008, &[0, 0]);
    assert_eq!(bench.changes(), [], "it is linked no more");
    bench.words(0x3008, &[0x60_0000 | P | W | U | PS | NX]);
    assert_eq!(bench.load(A, 0x4020_1000), (0x601, RW, 9));
    // And split again.
    let table: Vec<u64> = (0..512).map(|i| (0x60_0000 + (i << 12)) | P | W | U | NX).collect();
    bench.words(0x5000, &table).words(0x3008, &[0x5000 | P | W | U]);
    assert_eq!(bench.changes(), [(1, 0x40200, 512, What::Stale)]);
    assert_eq!(bench.load(A, 0x4020_1000), (0x601, RW, 0));
    assert_eq!(bench.pte(A, 0x403f_f000), Some((0x7ff, RW, 0)));
}

#[test]
fn tables_that_are_unlinked_far_above() {
    let mut bench = four_levels("");
    bench.load(A, 0x4020_1000);
    bench.changes();
    bench.words(0x1000, &[0]);
    assert_eq!(bench.changes().len(), 2);
    // What was a table is data now, and then another table.
    bench.words(0x4008, &[1, 2, 3]).words(0x3000, &[77]).words(0x2000, &[0x99 | P]);
    assert_eq!(bench.all_changes(), []);
    bench.words(0x3008, &[0x2000 | P | W]).words(0x1000, &[0x3000 | P | W]);
    // Tables may be their own leaves.
    assert_eq!(bench.load(A, 0x4020_1000), (2, RWX, 0));
}

/// Two processes share a page table (hugetlbfs does).
#[test]
fn a_table_in_two_spaces() {
    let mut bench = four_levels("");
    bench.load(A, 0x4020_1000);
    bench.words(0x8000 + 8, &[0x2000 | P | W | U]);
    bench.register(A, Register::Root0, 0x8000);
    assert_eq!(bench.load(B, 0x80_4020_1000), (0x55, RW, 0));
    bench.changes();
    bench.words(0x4008, &[0x75000 | P | U]);
    assert_eq!(bench.changes(), [(1, 0x40201, 1, What::Stale), (2, 0x804_0201, 1, What::Stale)]);
    bench.os.apply(A, &Op::End(farreach_types::event::End::Exit(0)));
    bench.words(0x4008, &[0]);
    let gone: Vec<_> = bench.changes().into_iter().filter(|change| change.0 == 2).collect();
    assert_eq!(gone, [(2, 0x804_0201, 1, What::Stale)]);
}

/// A store that the page forbids succeeded (CR0.WP is 0): it is counted, once.
#[test]
fn forbidden_accesses_are_counted() {
    let mut bench = four_levels("");
    bench.touch(A, 0x4020_2000, Kind::Store).unwrap();
    bench.touch(A, 0x4020_2000, Kind::Store).unwrap();
    assert_eq!(bench.os.counts().forbidden_accesses, 1);
    assert_eq!(bench.os.counts().page_faults, 0);
}
