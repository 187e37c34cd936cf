//! The predictions that writer and reader share: the next block from the block before it, the next address of a
//! address word from its last value and from the word before it in the stream. Only differences from the prediction
//! cost bytes.
//!
//! Definitions hold for the whole trace; predictions begin anew with each chunk, so that a chunk can be read with only
//! the event columns of the chunks before it.
//!
//! What follows a block stands in its [`Head`]. All else that the coding of a block needs lies together in one array of
//! cells, so that a block touches one or two cache lines: two cells about the block, then the predictions of its
//! address words, two cells each. `encode` and `decode` use it.

use std::sync::Arc;

use super::{BLOCK_ITEMS, MAX_BLOCK_ITEMS, MAX_DEFINED_ITEMS, Totals};
use crate::tally::ByBlock;
use farreach_types::event::{Block, Broken, Kind, MAX_BLOCKS};
use farreach_types::plural::with_noun;

/// Step codes: how the next item of the stream is found.
pub(super) const STEP_LIKELY: u8 = 0;
pub(super) const STEP_OTHER: u8 = 1;
pub(super) const STEP_OP: u8 = 2;
pub(super) const STEP_TARGET: u8 = 3;
/// Added to the step of an execution whose addresses are all as predicted by the gap; they have no codes.
pub(super) const STEP_PREDICTED: u8 = 4;

/// Codes of addresses below it are relative to the prediction by the gap, those from it on to the last address; each
/// plus the number of data bytes, 0 to 8.
pub(super) const BASES: u8 = 9;
/// Address code of a reference that did not happen.
pub(super) const CODE_NOT_EXECUTED: u8 = 2 * BASES;

/// Where the predictions of a block's address words begin.
pub(super) const WORDS: usize = 2;
/// Two halves: id in the stream, address words of an execution.
pub(super) const NAMES: usize = 0;
/// See [`Shape`].
pub(super) const SHAPE: usize = 1;

/// What follows a block, and where its cells are. Small, because finding the next block waits for it.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Head {
    /// Numbers of the last two blocks that followed, newest first; 0 is none.
    pub next: [u32; 2],
    /// Chunk in which the predictions were last used.
    pub chunk: u32,
    /// Its first cell.
    pub place: u32,
}

/// Two halves of a cell, the low one first.
#[inline(always)]
pub(super) const fn halves(cell: u64) -> (u32, u32) {
    (cell as u32, (cell >> 32) as u32)
}

/// A cell of two halves, the low one first.
#[inline(always)]
pub(super) const fn cell(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// What an execution of a block counts: instructions, loads and stores in 20 bits each.
#[derive(Clone, Copy)]
pub(crate) struct Shape(pub(super) u64);

impl Shape {
    const MASK: u64 = (1 << 20) - 1;

    fn of(block: &Block) -> Shape {
        let stores = block.refs.iter().filter(|r| r.kind == Kind::Store).count();
        let loads = block.refs.len() - stores;
        Shape(block.instrs.len() as u64 | (loads as u64) << 20 | (stores as u64) << 40)
    }
    #[inline(always)]
    pub fn instrs(self) -> u64 {
        self.0 & Shape::MASK
    }
    #[inline(always)]
    pub fn loads(self) -> u64 {
        self.0 >> 20 & Shape::MASK
    }
    #[inline(always)]
    pub fn stores(self) -> u64 {
        self.0 >> 40 & Shape::MASK
    }
    #[inline(always)]
    pub fn add_to(self, sums: &mut Totals) {
        sums.instructions += self.instrs();
        sums.loads += self.loads();
        sums.stores += self.stores();
    }
}

/// All blocks of the trace and the predictions of the current chunk.
#[derive(Debug)]
pub(crate) struct Model {
    /// By number; numbers begin at 1. Number 0 is no block; it precedes the first block of a chunk.
    pub(super) heads: Vec<Head>,
    /// Per block [`NAMES`] and [`SHAPE`], then for each address word its last value, and that minus the word before it
    /// in the stream.
    pub(super) cells: Vec<u64>,
    pub(super) blocks: Vec<Arc<Block>>,
    /// Numbers by id.
    pub(super) by_id: ByBlock,
    items: usize,
    /// Counts chunks from 1, so that fresh blocks (0) are always out of date.
    pub(super) chunk: u32,
    /// Number of the block executed last in this chunk.
    pub(super) current: u32,
    /// The address word executed last in this chunk.
    pub(super) address: u64,
}

/// Result of [`Model::define`].
pub(crate) enum Defined {
    New,
    Again(u32),
}

impl Model {
    pub fn new() -> Model {
        Model {
            heads: vec![Head { next: [0; 2], chunk: 0, place: 0 }],
            cells: vec![0; WORDS],
            blocks: vec![Arc::default()],
            by_id: ByBlock::default(),
            items: 0,
            chunk: 0,
            current: 0,
            address: 0,
        }
    }

    /// Forgets all predictions.
    pub fn begin_chunk(&mut self) {
        self.chunk += 1;
        self.current = 0;
        self.address = 0;
        self.heads[0].next = [0; 2];
    }

    /// Adds a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<Defined, String> {
        if id >= MAX_BLOCKS {
            return Err(format!("block id {id} is not below {MAX_BLOCKS}"));
        }
        if let Some(number) = self.by_id.get(id) {
            if self.blocks[number as usize] != *block {
                return Err(format!("block {id} is defined twice, differently"));
            }
            return Ok(Defined::Again(number));
        }
        block.validate().map_err(|why| format!("block {id}: {why}"))?;
        if block.instrs.len() > MAX_BLOCK_ITEMS || block.refs.len() > MAX_BLOCK_ITEMS {
            let i = with_noun(block.instrs.len() as u64, "instruction");
            let r = with_noun(block.refs.len() as u64, "reference");
            return Err(format!("block {id} has {i} and {r}; a file takes {MAX_BLOCK_ITEMS} of each"));
        }
        self.items += BLOCK_ITEMS + block.instrs.len() + block.refs.len();
        if self.items > MAX_DEFINED_ITEMS {
            return Err(format!(
                "block {id}: all blocks together have more than {MAX_DEFINED_ITEMS} instructions and references"
            ));
        }
        // At most two cells for each item, so that 31 bits are enough.
        let (number, place, words) = (self.heads.len() as u32, self.cells.len() as u32, block.words());
        self.by_id.insert(id, number);
        self.heads.push(Head { next: [0; 2], chunk: 0, place });
        self.cells.extend([cell(id, words as u32), Shape::of(block).0]);
        self.cells.resize(self.cells.len() + 2 * words, 0);
        self.blocks.push(Arc::clone(block));
        Ok(Defined::New)
    }

    /// The block with this number in the file.
    pub fn block(&self, number: u32) -> Option<(u32, &Arc<Block>)> {
        let head = self.heads.get(number as usize).filter(|_| number != 0)?;
        let (id, _) = halves(self.cells[head.place as usize + NAMES]);
        Some((id, &self.blocks[number as usize]))
    }

    /// Whether a block with this id was defined, and has this number of bytes of code.
    pub fn check_code(&self, id: u32, bytes: &[u8]) -> Result<(), String> {
        let number = self.by_id.get(id).ok_or_else(|| format!("code of block {id}, which was never defined"))?;
        self.blocks[number as usize].validate_code(bytes.len()).map_err(|why| format!("block {id} has {why}"))
    }

    /// See [`refresh`].
    pub(super) fn refresh(&mut self, number: u32) {
        refresh(&mut self.heads[number as usize], &mut self.cells, self.chunk);
    }

    /// See [`uncount`].
    pub(super) fn uncount(&self, id: u32, word: usize, sums: &mut Totals) -> Result<(), Broken> {
        uncount(&self.by_id, &self.blocks, id, word, sums)
    }
}

/// Gives a block fresh predictions, as this chunk has not executed it yet.
#[inline(never)]
pub(super) fn refresh(head: &mut Head, cells: &mut [u64], chunk: u32) {
    (head.next, head.chunk) = ([0; 2], chunk);
    let place = head.place as usize;
    let (_, words) = halves(cells[place + NAMES]);
    cells[place + WORDS..][..2 * words as usize].fill(0);
}

/// Subtracts the reference of address word `word` of the block with this id, which did not happen, from the sums.
#[cold]
pub(super) fn uncount(
    by_id: &ByBlock,
    blocks: &[Arc<Block>],
    id: u32,
    word: usize,
    sums: &mut Totals,
) -> Result<(), Broken> {
    let number = by_id.get(id).expect("it is executed");
    let r = blocks[number as usize].only_user(word).ok_or(Broken::SharedAbsence { id })?;
    let count = if r.kind == Kind::Store { &mut sums.stores } else { &mut sums.loads };
    *count -= 1;
    Ok(())
}
