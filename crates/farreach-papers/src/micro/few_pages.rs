//! Programs of a few pages, for claims that T94 works out by hand: half-used regions, small objects, holes, attributes.

use super::pages::{Batches, Pages};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::{Backing, Op, Prot, Source};

/// Four half-used 64 KB regions and 40 lone pages, ten rounds (H-T94-16).
pub const ANOMALY: &str = "micro/half-used-regions";
/// A heap object of 60 KB, in three rounds (H-T94-27).
pub const OBJECT_60K: &str = "micro/object-60k";
/// A heap object of 64 KB, in three rounds (H-T94-27).
pub const OBJECT_64K: &str = "micro/object-64k";
/// A region with a page that is never touched, in three rounds (H-T94-28).
pub const HOLE: &str = "micro/hole";
/// An object that begins one page into a region, in three rounds (H-T94-28).
pub const UNALIGNED: &str = "micro/unaligned-start";
/// A region with a page of other attributes, in three rounds (H-T94-28).
pub const ATTRIBUTE: &str = "micro/other-attribute";
/// 64 regions, all loaded from, then a store to one page of each (H-T94-29).
pub const ONE_DIRTY: &str = "micro/one-page-dirty";
/// The first half of each of 64 regions of a disk file, read twice (H-T94-30).
pub const HALF_FILE: &str = "micro/half-used-file";

/// First page of what is mapped: the start of a region.
const BASE: u64 = 0x1000;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    let mut p = Pages::new(0);
    match name {
        ANOMALY => {
            (0..4).for_each(|r| p.map(BASE + 16 * r, 16, Backing::Heap));
            p.map(2 * BASE, 16 * 40, Backing::Heap);
            for _ in 0..10 {
                (0..4).for_each(|r| p.load((0..8).map(|i| BASE + 16 * r + i)));
                p.load((0..40).map(|k| 2 * BASE + 16 * k));
            }
        }
        OBJECT_60K | OBJECT_64K => {
            let pages = if name == OBJECT_60K { 15 } else { 16 };
            p.map(BASE, pages, Backing::Heap);
            (0..3).for_each(|_| p.load(BASE..BASE + pages));
        }
        HOLE => {
            p.map(BASE, 16, Backing::Heap);
            (0..3).for_each(|_| p.load((BASE..BASE + 16).filter(|&page| page != BASE + 5)));
        }
        UNALIGNED => {
            p.map(BASE + 1, 15, Backing::Heap);
            (0..3).for_each(|_| p.load(BASE + 1..BASE + 16));
        }
        ATTRIBUTE => {
            p.map(BASE, 16, Backing::Heap);
            let prot = Prot { read: true, write: false, exec: false };
            p.op(Op::Protect { start: (BASE + 5) << BASE_SHIFT, len: 1 << BASE_SHIFT, prot });
            (0..3).for_each(|_| p.load(BASE..BASE + 16));
        }
        ONE_DIRTY => {
            p.map(BASE, 16 * 64, Backing::Heap);
            p.load(BASE..BASE + 16 * 64);
            p.store((0..64).map(|r| BASE + 16 * r + 3));
        }
        HALF_FILE => {
            p.map(BASE, 16 * 64, Backing::File { path: "/data/half".into(), offset: 0 });
            (0..2).for_each(|_| p.load((0..64).flat_map(|r| BASE + 16 * r..BASE + 16 * r + 8)));
        }
        _ => return None,
    }
    Some(Batches::of([p.ended()]))
}
