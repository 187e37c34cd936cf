//! Counts of blocks and runs.

use std::num::NonZeroU64;

use farreach_types::event::{Block, Kind};
use farreach_types::plural::with_noun;

use super::layout::{BLOCK_INSTRS, CHUNK_WORDS};

/// References received, counted block by block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Loads, those whose condition was false included.
    pub loads: u64,
    /// Stores, those whose condition was false included.
    pub stores: u64,
}

impl Counts {
    /// The sum that the recorder computes independently (`FR_TALLY`).
    pub fn tally(&self) -> u64 {
        self.instructions.wrapping_add(self.loads << 10).wrapping_add(self.stores << 20)
    }
    pub(super) fn add(&mut self, other: &Counts) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

/// The counts of a block in one word: stores, loads, instructions and address words in 16 bits each, from the lowest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape(NonZeroU64);

impl Shape {
    pub fn of(block: &Block) -> Result<Shape, String> {
        if block.instrs.len() > BLOCK_INSTRS || block.refs.len() >= CHUNK_WORDS {
            let (i, r) =
                (with_noun(block.instrs.len() as u64, "instruction"), with_noun(block.refs.len() as u64, "reference"));
            return Err(format!("a block of {i} and {r}; at most {BLOCK_INSTRS} and {} are allowed", CHUNK_WORDS - 1));
        }
        let stores = block.refs.iter().filter(|r| r.kind == Kind::Store).count();
        let loads = block.refs.len() - stores;
        let fields = [block.words(), block.instrs.len(), loads, stores];
        let shape = fields.into_iter().fold(0, |shape, n| shape << 16 | n as u64);
        Ok(Shape(NonZeroU64::new(shape).ok_or("a block of nothing")?))
    }
    /// Address words of an execution.
    #[inline(always)]
    pub fn words(self) -> usize {
        (self.0.get() >> 48) as usize
    }
}

/// Shapes added up, two fields to a word. No field outgrows its 32 bits within a chunk, which has at most
/// [`CHUNK_WORDS`] blocks.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    /// Instructions, stores.
    even: u64,
    /// Address words, loads.
    odd: u64,
}

impl Sum {
    #[inline(always)]
    pub fn add(&mut self, shape: Shape) {
        const EVEN: u64 = 0xffff_0000_ffff;
        self.even += shape.0.get() & EVEN;
        self.odd += shape.0.get() >> 16 & EVEN;
    }
    pub fn counts(self) -> Counts {
        Counts { instructions: self.even >> 32, loads: self.odd & 0xffff_ffff, stores: self.even & 0xffff_ffff }
    }
}
