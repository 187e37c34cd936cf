//! The kernel's half under several roots.

use super::x86::four_levels;
use super::*;

const P: u64 = 3;
const KERNEL_PAGE: u64 = 0xffff_8880_4020_4000;
const AT: u64 = 8 * 0x111;

/// Two roots with equal upper halves, the second at 0x8000.
fn two_roots() -> Bench {
    let mut bench = four_levels("");
    bench.words(0x1000 + AT, &[0x2000 | P]).words(0x8000 + AT, &[0x2000 | P]);
    bench.load(A, KERNEL_PAGE);
    bench.register(A, Register::Root0, 0x8000);
    bench.changes();
    bench
}

#[test]
fn tables_shared_by_all_roots() {
    let mut bench = two_roots();
    assert_eq!(bench.load(B, KERNEL_PAGE), (0x58, RWX, 0));
    assert_eq!(bench.changes(), []);
    // The other root is freed, and its frame has data: nothing of the kernel's depends on it.
    bench.words(0x1000 + AT, &[0x1234_5678]);
    assert_eq!(bench.changes(), []);
    // A word of a shared table.
    bench.words(0x4008 + 24, &[0x99000 | P]);
    assert_eq!(bench.changes(), [(0, 0x1ff_8880_4020_4000 >> 12, 1, What::Stale)]);
    assert_eq!(bench.load(B, KERNEL_PAGE).0, 0x99);
    // The loaded root loses it.
    bench.words(0x8000 + AT, &[0]);
    assert_eq!(bench.changes().len(), 2);
    assert!(bench.touch(B, KERNEL_PAGE, Kind::Load).is_err());
}

/// Isolated page tables: the root of programs has copies, or nothing.
#[test]
fn roots_that_point_elsewhere() {
    let mut bench = two_roots();
    // A copy of the way to the same pages, but for one of them.
    bench.words(0x8000 + AT, &[0]);
    bench.load_after_root(0x1000);
    bench.words(0x12000 + 8, &[0x13000 | P]).words(0x13008, &[0x14000 | P]);
    bench.words(0x14008, &[0x55000 | P | 1 << 63, 0xaa000 | P, 0, 0x58000 | P]);
    bench.words(0x8000 + AT, &[0x12000 | P]);
    bench.changes();
    bench.register(A, Register::Root0, 0x8000);
    let differing = 0x1ff_8880_4020_2000 >> 12;
    let of_kernel = |changes: Vec<(u32, u64, u64, What)>| -> Vec<_> {
        changes.into_iter().filter(|change| change.0 == 0 && change.3 == What::Stale).collect()
    };
    assert_eq!(of_kernel(bench.changes()), [(0, differing, 1, What::Stale)]);
    assert_eq!(bench.load(B, 0xffff_8880_4020_2000).0, 0xaa);
    // Back: that page differs again. What was not linked by this root before is, so its changes are seen.
    bench.register(B, Register::Root0, 0x1000);
    assert_eq!(of_kernel(bench.changes()), [(0, differing, 1, What::Stale)]);
    bench.words(0x14008 + 24, &[0x77000 | P]);
    assert_eq!(of_kernel(bench.changes()).len(), 1);
}

#[test]
fn each_processor_has_its_root() {
    let mut bench = two_roots();
    bench.os.apply(B, &Op::Switch { thread: 1 });
    let message = bench.touch(B, 0x4020_1000, Kind::Load).unwrap_err();
    assert!(message.contains("CR3"), "{message}");
    bench.register(B, Register::Control, 0x80).register(B, Register::Root0, 0x1000);
    assert_eq!(bench.load(A, 0x4020_1000).0, 0x55);
    bench.os.apply(B, &Op::Switch { thread: 2 });
    assert!(bench.refusal().contains("processor 2"), "{}", bench.refusal());
}

impl Bench {
    /// Loads a root, and refers to the kernel's page.
    fn load_after_root(&mut self, root: u64) {
        self.register(A, Register::Root0, root);
        self.load(A, KERNEL_PAGE);
    }
}
