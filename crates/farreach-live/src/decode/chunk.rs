//! A chunk while it is decoded.

use farreach_types::addr::Asid;
use farreach_types::event::{Batch, OP_BIT, Op};

use super::{Counts, Notice};

/// A batch in the making. Records are longer than the word they become, so everything moves to the front, in place.
pub(super) struct Chunk {
    pub batch: Batch,
    /// Next word to read.
    pub read: usize,
    /// First word that was read but not moved yet.
    pub run: usize,
    /// Where it moves to.
    pub write: usize,
    /// Where the last block is: in the unmoved part if not less than `run`, else where it was moved to.
    pub last_block: Option<usize>,
    pub notices: Vec<Notice>,
    pub cut: Counts,
    /// Batches of other address spaces that came before. Only of whole systems.
    pub before: Vec<Batch>,
    /// Where the batch of the present address space begins, among the moved words.
    pub begin: usize,
}

impl Chunk {
    pub fn new(batch: Batch) -> Chunk {
        Chunk {
            batch,
            read: 0,
            run: 0,
            write: 0,
            last_block: None,
            notices: Vec::new(),
            cut: Counts::default(),
            before: Vec::new(),
            begin: 0,
        }
    }

    /// Moves the blocks read so far.
    pub fn flush(&mut self) {
        if let Some(at) = self.last_block.filter(|&at| at >= self.run) {
            self.last_block = Some(at - self.run + self.write);
        }
        if self.write != self.run {
            self.batch.words.copy_within(self.run..self.read, self.write);
        }
        self.write += self.read - self.run;
        self.run = self.read;
    }

    pub fn push(&mut self, op: Op) {
        self.batch.words[self.write] = OP_BIT | self.batch.ops.len() as u64;
        self.batch.ops.push(op);
        self.write += 1;
    }

    pub fn append(&mut self, words: &[u64]) {
        self.batch.words[self.write..self.write + words.len()].copy_from_slice(words);
        self.write += words.len();
    }

    pub fn push_before_last_block(&mut self, op: Op) {
        let at = self.last_block.unwrap_or(self.write);
        self.batch.words.copy_within(at..self.write, at + 1);
        self.batch.words[at] = OP_BIT | self.batch.ops.len() as u64;
        self.batch.ops.push(op);
        self.write += 1;
        self.last_block = self.last_block.map(|at| at + 1);
    }

    /// Puts an event in front of the present batch. There must be room for its word.
    pub fn push_first(&mut self, op: Op) {
        self.batch.words.copy_within(self.begin..self.write, self.begin + 1);
        self.batch.words[self.begin] = OP_BIT | self.batch.ops.len() as u64;
        self.batch.ops.push(op);
        self.write += 1;
        self.last_block = self.last_block.map(|at| at + 1);
    }

    /// Ends the present batch, if there is something in it; what follows is of `asid`.
    pub fn split(&mut self, asid: Asid) {
        if self.write > self.begin {
            let words = self.batch.words[self.begin..self.write].to_vec();
            let ops = std::mem::take(&mut self.batch.ops);
            self.before.push(Batch { asid: self.batch.asid, words, ops });
        }
        (self.begin, self.last_block, self.batch.asid) = (self.write, None, asid);
    }

    /// The events of the present batch, which has no block and becomes empty.
    pub fn take_events(&mut self) -> Vec<Op> {
        self.write = self.begin;
        std::mem::take(&mut self.batch.ops)
    }

    /// The last batch: everything was read.
    pub fn finish(&mut self) -> Batch {
        self.flush();
        self.batch.words.truncate(self.write);
        self.batch.words.drain(..self.begin);
        std::mem::take(&mut self.batch)
    }
}
