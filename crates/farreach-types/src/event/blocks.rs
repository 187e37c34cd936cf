//! The blocks that a stream defines, and the expansion of a stream into single references.

use super::{Access, Batch, Block, ById, Instr, Item, Kind, NOT_EXECUTED, OP_BIT, Op, block_id, words_behind};
use crate::plural::with_noun;
use std::sync::Arc;

/// The blocks defined so far. One per consumer: it grows as `Define`s pass by.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    by_id: ById<Arc<Block>>,
}

/// In which way a stream breaks the contract of `event`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// A block was executed that no `Define` announced.
    #[error("block {id} was never defined")]
    UndefinedBlock {
        /// The unknown block.
        id: u32,
    },
    /// A word gives another number of addresses than its block has.
    #[error("block {id} has {}, its execution announces {says}", with_noun(*need as u64, "address"))]
    WrongCount {
        /// The block.
        id: u32,
        /// Address words it has.
        need: usize,
        /// What the word says.
        says: usize,
    },
    /// The batch ends inside a block.
    #[error(
        "block {id} needs {}, with {} left in the batch",
        with_noun(*need as u64, "address"),
        with_noun(*have as u64, "word")
    )]
    CutBlock {
        /// The block.
        id: u32,
        /// Address words it has.
        need: usize,
        /// Words left in the batch.
        have: usize,
    },
    /// A reference that did not happen shares its address word.
    #[error(
        "a reference of block {id} did not happen, and shares its address word: only one with a word of its own can"
    )]
    SharedAbsence {
        /// The block.
        id: u32,
    },
    /// A word names an event that the batch does not carry.
    #[error("event {index} of {have}")]
    BadOp {
        /// Event named.
        index: u64,
        /// Events there are.
        have: usize,
    },
    /// A definition that no consumer can use.
    #[error("block {id}: {why}")]
    BadDefinition {
        /// The block.
        id: u32,
        /// What is wrong with it.
        why: String,
    },
}

/// A stream that breaks its contract, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("word {word}: {what}")]
pub struct StreamError {
    /// Index of the word in its batch.
    pub word: usize,
    /// What is wrong there.
    pub what: Broken,
}

/// The addresses behind `words[at]`, an execution of a block with `need` of them.
#[inline]
pub fn addresses(words: &[u64], at: usize, need: usize) -> Result<&[u64], Broken> {
    let (id, says) = (block_id(words[at]), words_behind(words[at]));
    if says != need {
        return Err(Broken::WrongCount { id, need, says });
    }
    words.get(at + 1..at + 1 + need).ok_or(Broken::CutBlock { id, need, have: words.len() - at - 1 })
}

/// Most block ids a trace may have; keeps a hostile trace from asking for all memory.
pub const MAX_BLOCKS: u32 = 1 << 26;

impl Blocks {
    /// Adds a definition. The same id may be defined again only as the same block.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        if id >= MAX_BLOCKS {
            return Err(format!("id is not below {MAX_BLOCKS}"));
        }
        block.validate()?;
        match self.by_id.get(id) {
            Some(old) if old != block => Err("defined twice, differently".into()),
            Some(_) => Ok(()),
            None => {
                self.by_id.insert(id, Arc::clone(block));
                Ok(())
            }
        }
    }
    /// The block with this id, if it was defined.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Arc<Block>> {
        self.by_id.get(id)
    }

    /// The block that `words[at]` executes, and its address words.
    #[inline]
    pub fn execution<'w>(&self, words: &'w [u64], at: usize) -> Result<(&Arc<Block>, &'w [u64]), Broken> {
        let id = block_id(words[at]);
        let block = self.get(id).ok_or(Broken::UndefinedBlock { id })?;
        Ok((block, addresses(words, at, block.words())?))
    }

    /// Expands a batch: every fetch, load and store and every event in program order. The plain way to read a stream;
    /// `each` returns `false` to stop early.
    pub fn expand<'b>(&mut self, batch: &'b Batch, mut each: impl FnMut(Item<'b>) -> bool) -> Result<(), StreamError> {
        let mut at = 0;
        while at < batch.words.len() {
            let word = batch.words[at];
            let broken = |what| StreamError { word: at, what };
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(broken)?;
                if let Op::Define { id, block } = op {
                    self.define(*id, block).map_err(|why| broken(Broken::BadDefinition { id: *id, why }))?;
                }
                if !each(Item::Op(op)) {
                    return Ok(());
                }
                at += 1;
                continue;
            }
            let (block, addrs) = self.execution(&batch.words, at).map_err(broken)?;
            let mut fetched = 0;
            for (r, addr) in block.data(addrs) {
                while fetched < r.after as usize {
                    if !each(Item::Access(fetch(block.instrs[fetched]))) {
                        return Ok(());
                    }
                    fetched += 1;
                }
                if addr != NOT_EXECUTED && !each(Item::Access(Access { kind: r.kind, addr, size: r.size })) {
                    return Ok(());
                }
            }
            for &instr in &block.instrs[fetched..] {
                if !each(Item::Access(fetch(instr))) {
                    return Ok(());
                }
            }
            at += 1 + addrs.len();
        }
        Ok(())
    }
}

fn fetch(instr: Instr) -> Access {
    Access { kind: Kind::Fetch, addr: instr.pc, size: instr.len }
}
