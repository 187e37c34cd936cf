//! A chunk while it is decoded.

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
}

impl Chunk {
    pub fn new(batch: Batch) -> Chunk {
        Chunk { batch, read: 0, run: 0, write: 0, last_block: None, notices: Vec::new(), cut: Counts::default() }
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
}
