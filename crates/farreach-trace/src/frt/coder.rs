//! Codes batches into chunks.

use super::columns::Columns;
use super::encode::{prefetch, put_blocks};
use super::model::{Defined, Model, STEP_OP};
use super::ops::{OpState, put_asid, put_op, put_redefine};
use super::*;
use crate::ahead::LookAhead;
use crate::tally::Processes;
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, Block, OP_BIT, Op};
use std::sync::Arc;

/// Words of batches after which a chunk is closed at the end of a batch, however few words of the file it has: so each
/// such part of a stream can be coded by itself. Most parts have nearly the words of a full chunk then.
pub(super) const PART_WORDS: usize = 5 << 20;

/// The columns of a chunk before compression.
#[derive(Default)]
pub(super) struct Chunk {
    pub asid: u32,
    pub records: u32,
    pub words: usize,
    pub sums: Totals,
    pub columns: Columns,
}

impl Chunk {
    fn begin(&mut self, asid: Asid) {
        *self = Chunk { asid: asid.0, columns: std::mem::take(&mut self.columns), ..Chunk::default() };
        self.columns.clear();
    }
}

/// Why coding stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The batch breaks the contract: number of the word, and what is wrong.
    Broken(usize, String),
    /// What chunks are passed to has ended.
    Gone,
}

/// Where chunks go. What is returned is used for the next.
pub(super) type Emit<'a> = &'a mut dyn FnMut(Box<Chunk>) -> std::result::Result<Box<Chunk>, Stop>;

/// Of what a stream is, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// Events of a whole system.
    pub guests: bool,
    /// Anything of a program.
    pub program: bool,
}

impl Known {
    /// An event. False: it may not stand here.
    pub fn see(&mut self, op: &Op) -> bool {
        match op {
            Op::Guest(_) if self.program && !self.guests => return false,
            Op::Guest(_) => self.guests = true,
            Op::Define { .. } | Op::Code { .. } | Op::Pages | Op::Samples | Op::Start { .. } => {}
            _ => self.program = true,
        }
        true
    }
}

/// See the module.
pub(super) struct Coder {
    chunk: Box<Chunk>,
    asid: Asid,
    model: Model,
    op_state: OpState,
    pub totals: Totals,
    pub processes: Processes,
    pub known: Known,
    /// Words of batches since the part began.
    part: usize,
    chunk_words: usize,
    part_words: usize,
}

impl Coder {
    pub fn new() -> Coder {
        let mut model = Model::new();
        model.begin_chunk();
        Coder {
            chunk: Box::default(),
            asid: Asid(0),
            model,
            op_state: OpState::default(),
            totals: Totals::default(),
            processes: Processes::default(),
            known: Known::default(),
            part: 0,
            chunk_words: CHUNK_WORDS,
            part_words: PART_WORDS,
        }
    }

    /// Sets the words of a chunk and of a part.
    pub fn set_sizes(&mut self, chunk_words: usize, part_words: usize) {
        (self.chunk_words, self.part_words) = (chunk_words, part_words);
    }

    /// Sums over what was coded so far.
    pub fn sums(&self) -> Totals {
        let (mut totals, sums) = (self.totals, &self.chunk.sums);
        totals.instructions += sums.instructions;
        totals.loads += sums.loads;
        totals.stores += sums.stores;
        totals
    }

    /// A block that another coder has put into the file, which gives it its number. What is wrong with it, that one
    /// says.
    pub fn learn(&mut self, id: u32, block: &Arc<Block>) {
        let _ = self.model.define(id, block);
    }

    /// Appends a batch.
    pub fn put(&mut self, batch: &Batch, emit: Emit) -> std::result::Result<(), Stop> {
        if batch.words.is_empty() {
            return Ok(());
        }
        self.change_asid(batch.asid);
        let words = &batch.words[..];
        let mut ahead = LookAhead::new(words, |id| prefetch(&self.model, id));
        let (mut at, mut executed) = (0, false);
        while at < words.len() {
            if words[at] & OP_BIT == 0 {
                let Chunk { columns, sums, words: size, .. } = &mut *self.chunk;
                let run = put_blocks(&mut self.model, words, at, self.chunk_words - *size, &mut ahead, columns, sums);
                executed |= run.end > at;
                self.known.program |= executed && !self.known.guests;
                (at, *size) = (run.end, *size + run.end - at);
                if let Some(why) = run.broken {
                    return Err(Stop::Broken(at, why.to_string()));
                }
            } else {
                ahead.step(words, |id| prefetch(&self.model, id));
                let op = batch.op(words[at]).map_err(|why| Stop::Broken(at, why.to_string()))?;
                self.put_op(op).map_err(|what| Stop::Broken(at, what))?;
                self.processes.see(batch.asid, Some(op));
                at += 1;
                self.chunk.words += 1;
            }
            if self.chunk.words >= self.chunk_words || self.chunk.columns.ops.len() >= CHUNK_OP_BYTES {
                self.close(emit)?;
            }
        }
        if executed {
            self.processes.see(batch.asid, None);
        }
        if self.processes.address_spaces() > MAX_ADDRESS_SPACES {
            return Err(Stop::Broken(0, too_many_spaces()));
        }
        self.part += words.len();
        if self.part >= self.part_words {
            self.close(emit)?;
            self.part = 0;
        }
        Ok(())
    }

    fn change_asid(&mut self, asid: Asid) {
        if self.chunk.words == 0 {
            self.chunk.asid = asid.0;
        } else if asid != self.asid {
            self.chunk.columns.steps.push(STEP_OP);
            put_asid(&mut self.chunk.columns.ops, asid);
            self.chunk.records += 1;
        }
        self.asid = asid;
    }

    fn put_op(&mut self, op: &Op) -> std::result::Result<(), String> {
        if !self.known.see(op) {
            return Err("an event of a whole system in the trace of a program, which has begun".into());
        }
        let column = &mut self.chunk.columns.ops;
        if let Op::Define { id, block } = op {
            match self.model.define(*id, block)? {
                Defined::New => self.op_state.put_define(column, *id, block),
                Defined::Again(number) => put_redefine(column, number),
            }
            self.totals.blocks += 1;
        } else {
            if let Op::Code { id, bytes } = op {
                self.model.check_code(*id, bytes)?;
            }
            put_op(column, op, &mut self.op_state)?;
            self.totals.ops += u64::from(!op.is_mark() && !op.is_definition());
        }
        self.chunk.columns.steps.push(STEP_OP);
        self.chunk.records += 1;
        Ok(())
    }

    /// Passes the chunk on, if there is anything in it, and begins another.
    pub fn close(&mut self, emit: Emit) -> std::result::Result<(), Stop> {
        if self.chunk.words == 0 {
            return Ok(());
        }
        self.totals = self.sums();
        self.chunk = emit(std::mem::take(&mut self.chunk))?;
        self.chunk.begin(self.asid);
        self.model.begin_chunk();
        self.op_state = OpState::default();
        Ok(())
    }
}

pub(super) fn too_many_spaces() -> String {
    format!("the trace has more than {MAX_ADDRESS_SPACES} address spaces")
}
