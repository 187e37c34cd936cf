//! A builder of programs made by hand: pages that are mapped, loaded from and stored to.

use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::error::Result;
use farreach_types::event::{Backing, Batch, Block, DataRef, End, Kind, Mapping, Op, Prot, Source};
use std::collections::VecDeque;
use std::sync::Arc;

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

    /// An event.
    pub fn op(&mut self, op: Op) {
        self.0.push_op(op);
    }

    /// A private mapping that can be read and written.
    pub fn map(&mut self, page: u64, pages: u64, backing: Backing) {
        let (start, len) = (page << BASE_SHIFT, pages << BASE_SHIFT);
        self.0.push_op(Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing }));
    }

    /// A load from each page.
    pub fn load(&mut self, pages: impl Iterator<Item = u64>) {
        pages.for_each(|page| self.0.push_block(0, &[page << BASE_SHIFT]));
    }

    /// A store to each page.
    pub fn store(&mut self, pages: impl Iterator<Item = u64>) {
        pages.for_each(|page| self.0.push_block(1, &[page << BASE_SHIFT]));
    }

    /// The process exits.
    pub fn ended(mut self) -> Batch {
        self.op(Op::End(End::Exit(0)));
        self.0
    }
}

/// Batches as a stream.
pub(super) struct Batches(VecDeque<Batch>);

impl Batches {
    /// A stream of these batches, in this order.
    pub fn of(batches: impl IntoIterator<Item = Batch>) -> Box<dyn Source + Send> {
        Box::new(Batches(batches.into_iter().collect()))
    }
}

impl Source for Batches {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        Ok(self.0.pop_front())
    }
}
