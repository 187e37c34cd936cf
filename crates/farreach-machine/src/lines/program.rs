//! Blocks in the form that the loop of lines uses: steps, each the fetch of one piece of 16 bytes or a data reference.
//! Steps that repeat the one before are left out.

use farreach_hw::system::{Item, PIECE_SHIFT};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::{Block, Blocks, Broken, ById, DataRef, Kind, address_in, addresses, block_id};
use std::ops::Range;
use std::sync::Arc;

/// Index of [`Crossings`] for references that cross nothing.
pub const NOTHING: u8 = 0;

/// References that continue in another piece, by the size of the largest aligned line that begins there: at index `i`
/// those that cross into a line of `2^(i-1)` pieces, and no larger one. The accesses at each line size follow from
/// these without being counted separately.
#[derive(Clone, Copy)]
pub struct Crossings([u64; 66]);

impl Default for Crossings {
    fn default() -> Crossings {
        Crossings([0; 66])
    }
}

impl Crossings {
    /// The index for going on in this piece.
    pub fn into_piece(piece: u64) -> u8 {
        piece.trailing_zeros() as u8 + 1
    }
    #[inline(always)]
    pub fn add(&mut self, index: u8) {
        self.0[usize::from(index)] += 1;
    }
    /// References that cross into another line of `2^shift` bytes, once for each line.
    pub fn at(&self, shift: u32) -> u64 {
        self.0[1 + (shift - PIECE_SHIFT) as usize..].iter().sum()
    }
}

/// One step of a block.
#[derive(Clone, Copy)]
pub enum Step {
    /// Fetch of a piece; the second field is for [`Crossings`].
    Fetch(Item, u8),
    /// A data reference: kind, bytes less one, and [where its address is](farreach_types::event::DataRef::address).
    Data { kind: Kind, past: u16, word: u32, offset: u8 },
}

/// The counts of a block, and the place of its steps.
#[derive(Clone, Copy)]
pub struct Shape {
    steps: (u32, u32),
    pub refs: u32,
    words: u32,
    pub instrs: u32,
    pub loads: u32,
    /// Pages that its fetches touch, beyond one per instruction.
    pub page_crossings: u32,
}

impl Shape {
    /// For [`Program::step`], in order.
    #[inline(always)]
    pub fn steps(&self) -> std::ops::Range<u32> {
        self.steps.0..self.steps.1
    }
}

/// All blocks.
#[derive(Default)]
pub struct Program {
    pub blocks: Blocks,
    shapes: ById<Shape>,
    steps: Vec<Step>,
}

impl Program {
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        self.blocks.define(id, block)?;
        if self.shapes.get(id).is_some() {
            return Ok(()); // The same block again.
        }
        let from = u32::try_from(self.steps.len()).map_err(|_| "more than 2^32 steps in all blocks")?;
        let mut refs = block.refs.iter().peekable();
        let mut page_crossings = 0;
        let mut before = None;
        // At most MAX_REF_BYTES, and MAX_SPREAD.
        let step =
            |r: &DataRef| Step::Data { kind: r.kind, past: (r.size - 1) as u16, word: r.word, offset: r.offset as u8 };
        for (i, instr) in block.instrs.iter().enumerate() {
            while let Some(r) = refs.next_if(|r| r.after as usize <= i) {
                self.steps.push(step(r));
                before = None;
            }
            let last = instr.pc + u64::from(instr.len) - 1;
            page_crossings += (last >> BASE_SHIFT) - (instr.pc >> BASE_SHIFT);
            let first = instr.pc >> PIECE_SHIFT;
            for piece in first..=last >> PIECE_SHIFT {
                if before != Some(piece) {
                    let crossing = if piece == first { NOTHING } else { Crossings::into_piece(piece) };
                    self.steps.push(Step::Fetch(Item::piece_of(Kind::Fetch, piece), crossing));
                }
                before = Some(piece);
            }
        }
        self.steps.extend(refs.map(step));
        let to = u32::try_from(self.steps.len()).map_err(|_| "more than 2^32 steps in all blocks")?;
        let shape = Shape {
            steps: (from, to),
            refs: block.refs.len() as u32,
            words: block.words() as u32,
            instrs: block.instrs.len() as u32,
            loads: block.refs.iter().filter(|r| r.kind == Kind::Load).count() as u32,
            page_crossings: page_crossings as u32,
        };
        self.shapes.insert(id, shape);
        Ok(())
    }

    /// The block that `words[at]` executes, and its address words.
    pub fn execution<'w>(&self, words: &'w [u64], at: usize) -> Result<(Shape, &'w [u64]), Broken> {
        let id = block_id(words[at]);
        let shape = *self.shapes.get(id).ok_or(Broken::UndefinedBlock { id })?;
        Ok((shape, addresses(words, at, shape.words as usize)?))
    }

    /// Whether one of these steps before the next fetch stores to this address.
    pub fn stores_next(&self, steps: Range<u32>, words: &[u64], addr: u64) -> bool {
        let mut data = steps.map_while(|at| match self.step(at) {
            Step::Fetch(..) => None,
            Step::Data { kind, word, offset, .. } => Some((kind, address_in(words, word, offset.into()))),
        });
        data.any(|of| of == (Kind::Store, addr))
    }

    #[inline(always)]
    pub fn step(&self, at: u32) -> Step {
        self.steps[at as usize]
    }
}
