//! SHD-5: pages of the kernel that are not global, and processes with two roots.

use super::x86::four_levels;
use super::*;

const HALF: u64 = 1 << 44;
const KERNEL_PAGE: u64 = 0xffff_8880_4020_4000;
const KERNEL_VPN: u64 = (KERNEL_PAGE & ((1 << 57) - 1)) >> 12;

/// Processes whose roots are pairs of frames from 0x10_0000 on: for the kernel, with a page of it that is not global,
/// and for programs, with one entry of the upper half less. Spaces 1 and 2 are the first process, and so on.
fn isolated(processes: u64) -> Bench {
    let mut bench = four_levels("tags=pcid");
    bench.os.tag_local_pages();
    for process in 0..processes {
        let root = 0x10_0000 + 0x2000 * process;
        for root in [root, root + 0x1000] {
            bench.words(root, &[0x2007]).words(root + 8 * 0x111, &[0x2003]);
        }
        bench.words(root + 8 * 0x112, &[0x7003]);
    }
    bench
}

/// Runs a space: odd ones are those of the kernel's roots.
fn run(bench: &mut Bench, space: u32) {
    let root = 0x10_0000 + 0x2000 * u64::from((space - 1) / 2) + 0x1000 * u64::from((space - 1) % 2);
    bench.register(KERNEL, Register::Root0, root);
    bench.os.run(Asid(space));
    bench.load(Asid(space), 0x4020_1000);
    bench.load(Asid(space), KERNEL_PAGE);
}

fn flushed(bench: &mut Bench) -> Vec<(u32, u64, u64)> {
    let changes = bench.changes().into_iter().filter(|change| change.3 == What::Flushed);
    changes.map(|(asid, first, pages, _)| (asid, first, pages)).collect()
}

/// The tag of a page of the kernel is that of the space that runs, until the page is global.
#[test]
fn shd_5_tags_of_pages_that_are_not_global() {
    let mut bench = isolated(2);
    run(&mut bench, 1);
    let tags = |bench: &Bench| [1, 2, 3].map(|space| bench.os.tag_of(Asid(space), Vpn(KERNEL_VPN)).0);
    assert_eq!(tags(&bench), [1, 2, 3]);
    assert_eq!(bench.os.tag_of(A, Vpn(0x40201)), A);
    assert_eq!(bench.os.pte(B, Vpn(KERNEL_VPN)), bench.os.pte(KERNEL, Vpn(KERNEL_VPN)), "one page table");
    run(&mut bench, 2);
    bench.changes();
    // A change of it is told for each tag.
    bench.words(0x4008 + 24, &[0x58103]);
    let stale: Vec<u32> =
        bench.changes().iter().filter(|c| c.3 == What::Stale && c.1 == KERNEL_VPN).map(|c| c.0).collect();
    assert_eq!(stale, [0, 1, 2]);
    assert_eq!(bench.load(A, KERNEL_PAGE).0, 0x58);
    assert_eq!(tags(&bench), [0, 0, 0]);
}

/// Six processes have slots, each with both roots; the seventh takes the first one's.
#[test]
fn shd_5_both_roots_share_a_slot() {
    let mut bench = isolated(7);
    for space in 1..=12 {
        run(&mut bench, space);
    }
    assert_eq!(flushed(&mut bench), [], "no switch drops anything");
    run(&mut bench, 13);
    assert_eq!(flushed(&mut bench), [1, 2].map(|lost| [(lost, 0, HALF), (lost, HALF, HALF)]).concat());
    // The same root again: a flush of both PCIDs of the process.
    run(&mut bench, 3);
    bench.changes();
    run(&mut bench, 3);
    assert_eq!(flushed(&mut bench), [3, 4].map(|own| [(own, 0, HALF), (own, HALF, HALF)]).concat());
}

/// A page of a program goes in both; one of the kernel with all that other processes have.
#[test]
fn shd_5_invalidations() {
    let mut bench = isolated(2);
    for space in 1..=4 {
        run(&mut bench, space);
    }
    run(&mut bench, 1);
    bench.changes();
    bench.invalidate(A, page(0x4020_1000));
    assert_eq!(flushed(&mut bench), [(1, 0x40201, 1), (2, 0x40201, 1)]);
    bench.invalidate(A, page(KERNEL_PAGE));
    let others = [3, 4].map(|other| [(other, 0, HALF), (other, HALF, HALF)]).concat();
    let own = [(1, KERNEL_VPN, 1), (2, KERNEL_VPN, 1)];
    assert_eq!(flushed(&mut bench), [&own[..], &others, &[(0, KERNEL_VPN, 1)]].concat());
}
