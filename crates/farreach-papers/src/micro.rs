//! Programs of a few pages, for claims that the paper works out by hand: half-used regions, small objects, holes, attributes.

use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::error::Result;
use farreach_types::event::{Backing, Batch, Block, DataRef, End, Kind, Mapping, Op, Prot, Source};
use std::sync::Arc;

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
/// 64 regions of a disk file of which the first half is read, twice (H-T94-30).
pub const HALF_FILE: &str = "micro/half-used-file";

/// A store that forks a child to write it out, again and again (CW-10).
pub const SNAPSHOTS: &str = "micro/snapshots";

/// First page of what is mapped: the start of a region.
const BASE: u64 = 0x1000;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    let mut p = Pages::new(0);
    match name {
        SNAPSHOTS => return Some(Box::new(super::snapshots::Snapshots::default())),
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
            p.0.push_op(Op::Protect { start: (BASE + 5) << BASE_SHIFT, len: 1 << BASE_SHIFT, prot });
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
        _ => return super::micro_memory::source(name),
    }
    p.0.push_op(Op::End(End::Exit(0)));
    Some(Box::new(Once(Some(p.0))))
}

/// A program that loads from and stores to pages.
pub(super) struct Pages(pub Batch);

impl Pages {
    /// A process begins.
    pub fn begin(asid: u32) -> Pages {
        let mut batch = Batch::new(Asid(asid));
        batch.push_op(Op::Start { pid: 1 + asid, parent: None, program: "micro".into() });
        Pages(batch)
    }

    /// The first process begins, and defines the blocks that all use.
    pub fn new(asid: u32) -> Pages {
        let Pages(mut batch) = Pages::begin(asid);
        for (id, kind) in [(0, Kind::Load), (1, Kind::Store)] {
            let refs = [DataRef::new(0, kind, 8, 0)].into();
            batch.push_op(Op::Define { id, block: Arc::new(Block { instrs: [].into(), refs }) });
        }
        Pages(batch)
    }

    pub fn map(&mut self, page: u64, pages: u64, backing: Backing) {
        let (start, len) = (page << BASE_SHIFT, pages << BASE_SHIFT);
        self.0.push_op(Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing }));
    }

    pub fn load(&mut self, pages: impl Iterator<Item = u64>) {
        pages.for_each(|page| self.0.push_block(0, &[page << BASE_SHIFT]));
    }

    pub fn store(&mut self, pages: impl Iterator<Item = u64>) {
        pages.for_each(|page| self.0.push_block(1, &[page << BASE_SHIFT]));
    }
}

/// One batch.
struct Once(Option<Batch>);

impl Source for Once {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        Ok(self.0.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_trace::check;

    #[test]
    fn they_are_sound() {
        for name in [ANOMALY, OBJECT_60K, OBJECT_64K, HOLE, UNALIGNED, ATTRIBUTE, ONE_DIRTY, HALF_FILE, SNAPSHOTS] {
            let report = check(&mut source(name).expect(name)).expect("no input, no failure");
            assert_eq!(report.violation, None, "{name}");
        }
        assert!(source("micro/none").is_none());
    }
}
