//! DS13-43: the direct map of the kernel, for registers of a segment.

use super::x86::four_levels;
use super::*;
use farreach_types::translation::{KernelSegment, SegmentView};

const RW_DATA: u64 = 3 | 1 << 63;
const RO_DATA: u64 = 1 | 1 << 63;
const LARGE: u64 = 0x80;
/// The direct map of this kernel begins here, in pages of streams.
const MAP: u64 = 0x1ff_8880_0000_0000 >> 12;

/// A kernel with a direct map: 2 MB at frame 0, a table of small pages behind it, and stacks elsewhere.
fn kernel() -> Bench {
    let mut bench = four_levels("");
    bench.words(0x1000 + 8 * 0x111, &[0x2_0003]).words(0x1000 + 8 * 0x192, &[0x3_0003]);
    bench.words(0x2_0000, &[0x2_1003]).words(0x2_1000, &[RW_DATA | LARGE, 0x2_2003, 0x2_3003]);
    // Frames 512.. in turn, but for one that is missing and two that may not be written.
    let words: Vec<u64> =
        (0..512).map(|i| ((512 + i) << 12) | if i == 8 || i == 9 { RO_DATA } else { RW_DATA }).collect();
    bench.words(0x2_2000, &words[..20]).words(0x2_2000 + 8 * 21, &words[21..]);
    bench.words(0x2_3008, &[0x40_1000 | RW_DATA]);
    // Elsewhere, in other frames.
    bench.words(0x3_0000, &[0x3_1003]).words(0x3_1000, &[0x3_2003]);
    bench.words(0x3_2000, &[0x77_0000 | RW_DATA, 0x88_0000 | RW_DATA]);
    bench
}

/// First page and limit, counted from the map's first page; first frame; what is apart, each as first page and pages.
type Found = (u64, u64, u64, Vec<(u64, u64)>);

fn segment(bench: &Bench) -> Option<Found> {
    let found = bench.os.kernel_segment(KERNEL)?;
    let KernelSegment { segment, attr, paged, .. } = found;
    assert_eq!(attr, Some(Attr(RW)));
    let paged = paged.into_iter().map(|range| (range.start.0 - MAP, range.pages)).collect();
    Some((segment.base.0 - MAP, segment.limit.0 - MAP, segment.pfn.0, paged))
}

/// The constant that most touched pages have; holes are inside, other rights are apart.
#[test]
fn ds13_43_found_by_its_constant() {
    let mut bench = kernel();
    assert_eq!(segment(&bench), None);
    bench.load(A, 0xffff_c900_0000_0000);
    bench.load(A, 0xffff_8880_0000_5000);
    bench.changes();
    bench.load(A, 0xffff_8880_0000_6000);
    let changes = bench.changes();
    assert!(matches!(changes[..], [(0, _, _, What::Segment)]), "{changes:?}");
    // The rest of its tables is known with the large page's.
    assert_eq!(segment(&bench), Some((0, 512, 0, vec![])));
    bench.load(A, 0xffff_8880_0020_0000);
    assert_eq!(segment(&bench), Some((0, 1024, 0, vec![(512 + 8, 2)])));
    bench.load(A, 0xffff_8880_0040_1000);
    assert_eq!(segment(&bench), Some((0, 1026, 0, vec![(512 + 8, 2)])), "a page that is not mapped is inside");
    // What is mapped is translated as the page table does, and what is apart is not (XC-3).
    let found = bench.os.kernel_segment(KERNEL).unwrap();
    for page in (0..1026).filter(|page| ![520, 521, 532, 1024].contains(page)) {
        let truth = bench.os.pte(KERNEL, Vpn(MAP + page)).unwrap();
        assert_eq!((found.segment.translate(Vpn(MAP + page)), truth.attr.0), (Some(truth.pfn), RW), "{page}");
    }
    assert_eq!(bench.os.kernel_segment(A), None, "programs have none");
}

#[test]
fn ds13_10_rights_that_change() {
    let mut bench = kernel();
    for address in [0xffff_8880_0000_5000, 0xffff_8880_0020_0000] {
        bench.load(A, address);
    }
    bench.changes();
    // One more page is protected, one no longer.
    bench.words(0x2_2000 + 8 * 8, &[(520 << 12) | RW_DATA]).words(0x2_2000 + 8 * 40, &[(552 << 12) | RO_DATA]);
    assert!(bench.changes().iter().any(|change| change.3 == What::Segment));
    assert_eq!(segment(&bench), Some((0, 1024, 0, vec![(521, 1), (552, 1)])));
    // A page that goes and comes, as with debug_pagealloc, changes nothing.
    bench.words(0x2_2000 + 8 * 60, &[0]).words(0x2_2000 + 8 * 60, &[(572 << 12) | RW_DATA]);
    assert!(bench.changes().iter().all(|change| change.3 != What::Segment));
    // Another frame in it.
    bench.words(0x2_2000 + 8 * 60, &[0x99_0000 | RW_DATA]);
    assert_eq!(segment(&bench), Some((0, 1024, 0, vec![(521, 1), (552, 1), (572, 1)])));
}
