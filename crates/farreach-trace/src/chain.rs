//! Programs one after the other, in one stream: each starts on the memory that the one before left (CW-13).

use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Batch, Blocks, ById, End, MAX_BLOCKS, OP_BIT, Op, Source, block_id, block_word};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Several sources as one. Address spaces and blocks of each get numbers that no source before it used; address spaces
/// that still run at the end of a source (of a trace that was cut, for instance) end there.
pub struct Chain {
    /// Sources to come, the next one last.
    sources: Vec<Box<dyn Source + Send>>,
    /// Blocks of the current source, under their own numbers.
    blocks: Blocks,
    /// Their numbers in the stream. A source that was cut has numbers up to the largest, so that they are dealt out
    /// anew.
    ids: ById<u32>,
    /// Added to the numbers of address spaces of the current source.
    spaces: u32,
    /// First numbers that are not in use.
    next_space: u32,
    next_id: u32,
    alive: BTreeSet<Asid>,
    /// A source has just ended.
    over: bool,
}

impl Chain {
    /// The first one begins.
    pub fn new(mut sources: Vec<Box<dyn Source + Send>>) -> Chain {
        sources.reverse();
        Chain {
            sources,
            blocks: Blocks::default(),
            ids: ById::default(),
            spaces: 0,
            next_space: 0,
            next_id: 0,
            alive: BTreeSet::new(),
            over: false,
        }
    }

    fn space(&mut self, asid: Asid) -> Asid {
        let asid = Asid(self.spaces + asid.0);
        self.next_space = self.next_space.max(asid.0 + 1);
        asid
    }

    fn renumber(&mut self, mut batch: Batch) -> Result<Batch> {
        let broken = |at: usize, what: String| Error::Trace {
            file: "a chain of programs".into(),
            place: format!("word {at} of a batch"),
            what,
        };
        batch.asid = self.space(batch.asid);
        let mut at = 0;
        // A trace without events has spaces that never started: they hold memory all the same.
        if batch.words.iter().any(|word| word & OP_BIT == 0) {
            self.alive.insert(batch.asid);
        }
        while at < batch.words.len() {
            let word = batch.words[at];
            if word & OP_BIT == 0 {
                let (_, addrs) = self.blocks.execution(&batch.words, at).map_err(|why| broken(at, why.to_string()))?;
                let many = addrs.len();
                let id = self.ids.get(block_id(word)).expect("it was defined");
                batch.words[at] = block_word(*id, many);
                at += 1 + many;
                continue;
            }
            let op = usize::try_from(word & !OP_BIT).ok().and_then(|i| batch.ops.get_mut(i));
            let op = op.ok_or_else(|| broken(at, "names an event that is not there".into()))?;
            match op {
                Op::Define { id, block } => {
                    self.blocks
                        .define(*id, &Arc::clone(block))
                        .map_err(|why| broken(at, format!("block {id}: {why}")))?;
                    let known = self.ids.get(*id).copied();
                    let new = known.unwrap_or(self.next_id);
                    if new >= MAX_BLOCKS {
                        return Err(broken(at, format!("more than {MAX_BLOCKS} blocks in all programs")));
                    }
                    if known.is_none() {
                        self.next_id += 1;
                        self.ids.insert(*id, new);
                    }
                    *id = new;
                }
                Op::Code { id, .. } => {
                    let known = self.ids.get(*id);
                    *id = *known.ok_or_else(|| broken(at, format!("code of block {id}, which was never defined")))?;
                }
                Op::Start { parent, .. } => {
                    *parent = parent.map(|p| Asid(self.spaces + p.0));
                    self.alive.insert(batch.asid);
                }
                Op::Fork { child } => {
                    child.0 += self.spaces;
                    self.next_space = self.next_space.max(child.0 + 1);
                    self.alive.insert(*child);
                }
                Op::End(_) => _ = self.alive.remove(&batch.asid),
                Op::Guest(_) if self.spaces > 0 || self.sources.len() > 1 => {
                    return Err(broken(at, "is of a whole system, which can only run alone".into()));
                }
                _ => {}
            }
            at += 1;
        }
        Ok(batch)
    }
}

impl Source for Chain {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        while !self.sources.is_empty() {
            // Address spaces that still run end before the next source begins.
            if self.over
                && let Some(asid) = self.alive.pop_first()
            {
                let mut batch = Batch::new(asid);
                batch.push_op(Op::End(End::Lost));
                return Ok(Some(batch));
            }
            self.over = false;
            let source = self.sources.last_mut().expect("there is one");
            if let Some(batch) = source.next_batch()? {
                return self.renumber(batch).map(Some);
            }
            // The last source is not ended: a chain of one source is that source.
            self.sources.pop();
            self.over = true;
            (self.spaces, self.ids, self.blocks) = (self.next_space, ById::default(), Blocks::default());
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::generate::{sequential, uniform};
    use farreach_kernels as kernels;
    use farreach_types::event::{Access, Block, DataRef, Item, Kind};

    type Made = Box<dyn Source + Send>;

    fn kernel() -> Made {
        let kernel = kernels::kernel("lzw").unwrap();
        kernel.source(&kernels::Settings { size: kernel.small_size, references: 5000, seed: 1 }).unwrap()
    }

    /// A source that ends after a number of batches.
    struct Cut(Made, usize);

    impl Source for Cut {
        fn next_batch(&mut self) -> Result<Option<Batch>> {
            self.1 = self.1.wrapping_sub(1);
            if self.1 == usize::MAX { Ok(None) } else { self.0.next_batch() }
        }
    }

    fn accesses(source: &mut dyn Source) -> Vec<Access> {
        let (mut blocks, mut all) = (Blocks::default(), Vec::new());
        while let Some(batch) = source.next_batch().unwrap() {
            let each = |item: Item<'_>| {
                if let Item::Access(access) = item {
                    all.push(access);
                }
                true
            };
            blocks.expand(&batch, each).unwrap();
        }
        all
    }

    /// References to a page, of a program without events.
    struct Silent(bool);

    impl Source for Silent {
        fn next_batch(&mut self) -> Result<Option<Batch>> {
            let mut batch = Batch::new(Asid(0));
            batch.push_op(Op::Define { id: 0, block: Arc::new(Block { instrs: [].into(), refs: [LOAD].into() }) });
            batch.push_block(0, &[0x1000]);
            Ok(std::mem::take(&mut self.0).then_some(batch))
        }
    }

    const LOAD: DataRef = DataRef::new(0, Kind::Load, 8, 0);

    /// A source that was cut has a block with the largest number that there may be.
    #[test]
    fn numbers_are_dealt_out_anew() {
        struct Last(bool);
        impl Source for Last {
            fn next_batch(&mut self) -> Result<Option<Batch>> {
                let id = MAX_BLOCKS - 1;
                let mut batch = Batch::new(Asid(0));
                batch.push_op(Op::Define { id, block: Arc::new(Block { instrs: [].into(), refs: [LOAD].into() }) });
                batch.push_block(id, &[0x2000]);
                Ok(std::mem::take(&mut self.0).then_some(batch))
            }
        }
        let mut chain = Chain::new(vec![Box::new(Last(true)), Box::new(Silent(true)), Box::new(Last(true))]);
        let addresses: Vec<_> = accesses(&mut chain).into_iter().map(|access| access.addr).collect();
        assert_eq!(addresses, [0x2000, 0x1000, 0x2000]);
    }

    #[test]
    fn what_never_started_ends_too() {
        let mut chain = Chain::new(vec![Box::new(Silent(true)), Box::new(Silent(true))]);
        let mut ends = Vec::new();
        while let Some(batch) = chain.next_batch().unwrap() {
            ends.extend(batch.ops.iter().filter(|op| matches!(op, Op::End(_))).map(|_| batch.asid));
        }
        assert_eq!(ends, [Asid(0)], "its memory is there for the next one");
    }

    #[test]
    fn cw_13_programs_follow_each_other_unchanged() {
        let parts: [fn() -> Made; 4] = [
            || Box::new(uniform(3, 40, 3000)),
            kernel,
            || Box::new(Cut(Box::new(sequential(300, 90_000)), 2)),
            || Box::new(uniform(4, 10, 500)),
        ];
        let chain = || Chain::new(parts.iter().map(|part| part()).collect());
        let report = check(&mut chain()).unwrap();
        assert_eq!((report.violation, report.spaces.len()), (None, 4));
        let apart: Vec<Access> = parts.iter().flat_map(|part| accesses(&mut *part())).collect();
        assert!(accesses(&mut chain()) == apart, "the same references in the same order");
    }
}
