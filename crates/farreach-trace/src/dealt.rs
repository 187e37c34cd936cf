//! A program whose work is dealt out to threads: pieces of equal length, to each thread in turn. So a loop runs whose
//! rounds are independent and are scheduled in chunks, one chunk on each thread.
//!
//! The references and their order stay as they are: threads share all memory, and a stream has one reference after the
//! other. Only the thread that makes them changes.

use farreach_types::Error;
use farreach_types::error::Result;
use farreach_types::event::{Batch, OP_BIT, Op, Source, words_behind};

/// Executions of blocks in a piece.
pub const PIECE: u64 = 1024;

/// A source of one address space without threads, as one of several. See the module.
pub struct Dealt<S> {
    source: S,
    threads: u32,
    /// The threads are announced.
    begun: bool,
    /// Executions so far.
    executions: u64,
}

impl<S: Source> Dealt<S> {
    /// With this many threads, whose numbers begin at 1.
    pub fn new(source: S, threads: u32) -> Dealt<S> {
        Dealt { source, threads, begun: false, executions: 0 }
    }

    fn deal(&mut self, batch: &Batch) -> Result<Batch> {
        let broken = |at: usize, what: String| Error::Trace {
            file: "a program for several threads".into(),
            place: format!("word {at} of a batch"),
            what,
        };
        let mut dealt = Batch::new(batch.asid);
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| broken(at, why.to_string()))?;
                if let Op::ThreadStart { .. } | Op::Switch { .. } | Op::Fork { .. } | Op::Guest(_) = op {
                    return Err(broken(at, format!("it has threads, processes or processors of its own: {op:?}")));
                }
                dealt.push_op(op.clone());
                at += 1;
                continue;
            }
            if !std::mem::replace(&mut self.begun, true) {
                (1..=self.threads).for_each(|thread| dealt.push_op(Op::ThreadStart { thread }));
            }
            if self.executions.is_multiple_of(PIECE) {
                let piece = self.executions / PIECE;
                dealt.push_op(Op::Switch { thread: (piece % u64::from(self.threads)) as u32 + 1 });
            }
            self.executions += 1;
            let end = at + 1 + words_behind(word);
            let words = batch.words.get(at..end).ok_or_else(|| broken(at, "the block is cut".into()))?;
            dealt.words.extend_from_slice(words);
            at = end;
        }
        Ok(dealt)
    }
}

impl<S: Source> Source for Dealt<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let Some(batch) = self.source.next_batch()? else { return Ok(None) };
        self.deal(&batch).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use farreach_kernels::{Settings, kernel};
    use farreach_types::event::{Blocks, Item};

    fn source() -> Box<dyn Source + Send> {
        let kernel = kernel("kv").unwrap();
        kernel.source(&Settings { size: kernel.small_size, references: 20_000, seed: 1 }).unwrap()
    }

    /// Accesses, and the thread of each.
    fn accesses(mut source: impl Source) -> Vec<(u64, u32)> {
        let (mut blocks, mut all, mut thread) = (Blocks::default(), Vec::new(), 0);
        while let Some(batch) = source.next_batch().unwrap() {
            let each = |item: Item<'_>| {
                match item {
                    Item::Op(Op::Switch { thread: now }) => thread = *now,
                    Item::Op(_) => {}
                    Item::Access(access) => all.push((access.addr, thread)),
                }
                true
            };
            blocks.expand(&batch, each).unwrap();
        }
        all
    }

    #[test]
    fn references_stay_and_threads_take_turns() {
        let (plain, dealt) = (accesses(source()), accesses(Dealt::new(source(), 3)));
        assert!(plain.iter().map(|access| access.0).eq(dealt.iter().map(|access| access.0)));
        let mut turns: Vec<u32> = dealt.iter().map(|access| access.1).collect();
        turns.dedup();
        assert!(turns.len() > 10 && turns.iter().copied().eq((0..turns.len() as u32).map(|i| i % 3 + 1)), "{turns:?}");
        let report = check(&mut Dealt::new(source(), 3)).unwrap();
        assert_eq!(report.violation, None);
    }

    #[test]
    fn threads_of_its_own_are_refused() {
        let mut twice = Dealt::new(Dealt::new(source(), 2), 2);
        let error = loop {
            match twice.next_batch() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it was dealt out twice"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("threads"), "{error}");
    }
}
