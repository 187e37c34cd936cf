//! system_tracing 2.3: Sv39, Sv48, Sv57, leaves at every level, Svnapot.

use super::*;

const V: u64 = 1;
const R: u64 = 2;
const W: u64 = 4;
const X: u64 = 8;

fn pte(address: u64) -> u64 {
    address >> 12 << 10 | V
}

#[test]
fn modes_and_leaves() {
    for (mode, levels) in [(8u64, 3u32), (9, 4), (10, 5)] {
        let mut bench = Bench::new(Arch::Riscv64, "");
        bench.register(KERNEL, Register::Root0, mode << 60 | 7 << 44 | 0x100);
        let tables: Vec<u64> = (0..u64::from(levels)).map(|i| 0x10_0000 + (i << 12)).collect();
        for pair in tables.windows(2) {
            bench.words(pair[0], &[pte(pair[1])]);
        }
        let last = *tables.last().unwrap();
        bench.words(last, &[pte(0x5000) | R | W, pte(0x6000) | X, pte(0x7000) | W, pte(0x8000)]);
        bench.words(tables[tables.len() - 2] + 8, &[pte(0x60_0000) | R | X]);
        assert_eq!(bench.load(A, 0), (5, RW, 0));
        assert_eq!(bench.touch(A, 0x1000, Kind::Fetch), Ok((6, Attr::EXEC, 0)));
        assert!(bench.touch(A, 0x2000, Kind::Store).is_err(), "writable and not readable is reserved");
        assert!(bench.touch(A, 0x3000, Kind::Load).is_err(), "a table below the last level");
        assert_eq!(bench.load(A, 0x20_1000), (0x601, RX, 9));
        // The largest leaf, in the upper half; 512 GB and more are none.
        let order = 9 * (levels - 1);
        if levels > 3 {
            bench.words(0x10_0000 + 8 * 256, &[pte(0) | R]);
            assert!(bench.touch(A, u64::MAX << (9 * levels + 11), Kind::Load).is_err());
            continue;
        }
        bench.words(0x10_0000 + 8 * 256, &[pte(1 << (12 + order)) | R]);
        let upper = u64::MAX << (12 + order + 8);
        assert_eq!(bench.load(A, upper), (1 << order, Attr::READ, order as u8));
    }
}

#[test]
fn sixteen_pages_of_svnapot() {
    let mut bench = Bench::new(Arch::Riscv64, "");
    bench.register(KERNEL, Register::Root0, 8 << 60 | 0x100);
    bench.words(0x10_0000, &[pte(0x10_1000)]).words(0x10_1000, &[pte(0x10_2000)]);
    let napot = 1 << 63 | pte(0x12_8000) | R | W;
    bench.words(0x10_2000, &[napot; 16]);
    assert_eq!(bench.load(A, 0x5000), (0x125, RW, 4));
    bench.words(0x10_2000 + 8 * 5, &[pte(0x77_0000) | R]);
    assert_eq!([bench.pte(A, 0x4000), bench.pte(A, 0x5000)], [Some((0x124, RW, 0)), Some((0x770, Attr::READ, 0))]);
}

#[test]
fn all_below_a_global_table_is_global() {
    const G: u64 = 32;
    let mut bench = Bench::new(Arch::Riscv64, "");
    bench.register(KERNEL, Register::Root0, 8 << 60 | 0x100);
    let upper = u64::MAX << 38;
    bench.words(0x10_0000 + 8 * 256, &[pte(0x10_1000) | G, pte(0x10_3000)]);
    bench.words(0x10_1000, &[pte(0x10_2000)]).words(0x10_2000, &[pte(0x5000) | R | X]);
    bench.words(0x10_3000, &[pte(0x10_4000)]).words(0x10_4000, &[pte(0x6000) | R | X, pte(0x7000) | R | X | G]);
    let places = [upper, upper + (1 << 30), upper + (1 << 30) + 0x1000];
    places.iter().for_each(|place| _ = bench.touch(A, *place, Kind::Fetch).unwrap());
    bench.changes();
    bench.invalidate(A, Invalidate { tag: None, bytes: None, global: false, leaves: false, broadcast: false });
    let local = (places[1] & ((1 << 57) - 1)) >> 12;
    assert_eq!(bench.changes(), [(KERNEL.0, local, 1, What::Flushed)]);
}
