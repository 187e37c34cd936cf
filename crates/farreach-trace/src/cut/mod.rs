//! Pieces of runs: a stream without what comes before a place, or behind a number of instructions, with boundaries
//! where a warm-up or a phase ends.
//!
//! * What is left out are executions of blocks, and stores of the kernel. Other events stay: processes start, fork and
//!   end, memory is mapped, code is defined. So a page that was touched only in what was left out was never touched.
//! * A place is where the program executes an address or a function for the first time, or the pieces between marks
//!   that it executes ([`Place`]). What is counted is counted from there on: first [`Piece::skip`], which is left out,
//!   then [`Piece::warmup`], behind which [`Boundary::Counted`] stands, then [`Piece::limit`], at which the stream
//!   ends. [`Boundary::Phase`] stands behind each [`Piece::every`] instructions of that last part.
//! * The unit is the instruction; in a stream without instruction fetches, the reference, as for `--limit` everywhere.
//!   A boundary lies behind the references of an instruction and before the next fetch. It is exact: a block in which
//!   it lies is executed as two, which are defined where they are first needed (`parts`). References without a fetch,
//!   such as the rest of an instruction that faulted, go with what comes behind the boundary; and what a block does
//!   before its first fetch goes with that.
//!
//! Ids of such blocks begin at the largest that there may be, and go down.

mod parts;
mod piece;
mod symbols;

pub use piece::{Piece, Place};

use farreach_types::addr::Asid;
use farreach_types::counts::PieceUse;
use farreach_types::error::{Error, Result};
use farreach_types::event::{
    Batch, Block, Boundary, ById, NOT_EXECUTED, OP_BIT, Op, Source, addresses, block_id, words_behind,
};
use farreach_types::plural::with_noun;
use hashbrown::HashSet;
use parts::{Out, Parts};
use std::sync::Arc;
use symbols::Symbols;

/// What a stream is cut by. See the module.
pub struct Cutter {
    piece: Piece,
    blocks: ById<Known>,
    /// Their ids, in the order of definition.
    ids: Vec<u32>,
    parts: Parts,
    gates: Gates,
    /// Whether what is executed now is wanted at all.
    open: bool,
    /// It was, at some time.
    opened: bool,
    stage: Stage,
    /// Where the stage, or a part of it, ends; what of it has passed.
    until: u64,
    count: u64,
    /// What of the limit is left behind that end.
    limit_left: u64,
    /// Something was executed that counts.
    counted: bool,
    /// Whether there was an instruction: until then references are counted.
    fetches: bool,
    skipped: u64,
}

/// What happens to what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It is left out.
    Skip,
    /// It passes, and a boundary will follow.
    WarmUp,
    /// It passes.
    Count,
    /// The limit was reached.
    Done,
}

/// A block, and where in it gates are: each before the instruction of this index, in ascending order.
struct Known {
    block: Arc<Block>,
    gates: Box<[(u32, Gate)]>,
}

/// What an execution does to [`Cutter::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gate {
    Open,
    /// In the address spaces that have the function there.
    OpenAt(u64),
    Close,
}

/// Where gates are.
enum Gates {
    /// Nowhere.
    None,
    /// Behind a mark of a begin, and before one of an end. Whether any code was seen.
    Marks(bool),
    Address(u64),
    /// The function, and where it lies in each address space.
    Function(Box<Symbols>, HashSet<(Asid, u64)>),
}

impl Cutter {
    /// That of a piece.
    pub fn new(piece: Piece) -> Cutter {
        let gates = match &piece.from {
            None => Gates::None,
            Some(Place::Mark) => Gates::Marks(false),
            Some(Place::Address(address)) => Gates::Address(*address),
            Some(Place::Function(name)) => Gates::Function(Box::new(Symbols::new(name)), HashSet::new()),
        };
        let mut cutter = Cutter {
            blocks: ById::default(),
            ids: Vec::new(),
            parts: Parts::default(),
            open: piece.from.is_none(),
            opened: piece.from.is_none(),
            gates,
            stage: Stage::Skip,
            until: piece.skip,
            count: 0,
            limit_left: piece.limit.unwrap_or(u64::MAX),
            fetches: false,
            skipped: 0,
            counted: false,
            piece,
        };
        if cutter.until == 0 {
            cutter.next_stage(None);
        }
        cutter
    }

    /// The stream ends here.
    pub fn done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// What was cut, for results; `None` if the piece is the whole.
    pub fn used(&self) -> Option<PieceUse> {
        let Piece { from, skip, warmup, every, .. } = &self.piece;
        (from.is_some() || *skip > 0 || *warmup > 0 || every.is_some()).then(|| PieceUse {
            from: from.as_ref().map(ToString::to_string),
            skipped_instructions: self.skipped,
            warmup_instructions: *warmup,
            phase_instructions: *every,
        })
    }

    /// After the end of the stream.
    ///
    /// # Errors
    /// What was asked for never came: nothing was counted.
    pub fn end(&self) -> Result<()> {
        let Piece { from, skip, warmup, .. } = &self.piece;
        let of = || if self.fetches { "instruction" } else { "reference" };
        let fail = |place: String, what| Err(Error::Trace { file: Error::STREAM.into(), place, what });
        let nothing_simulated = || {
            let what = format!("the run ended after {}; nothing was simulated", with_noun(self.skipped, of()));
            fail(format!("--skip {skip}"), what)
        };
        match self.stage {
            _ if !self.opened => {
                let place = from.as_ref().expect("it waits for one");
                fail(format!("--from {place}"), self.why_closed())
            }
            // A run that ends where the next part would begin has none of it either.
            Stage::Skip => nothing_simulated(),
            Stage::Count if !self.counted && *skip > 0 && *warmup == 0 => nothing_simulated(),
            Stage::WarmUp | Stage::Count if !self.counted && *warmup > 0 => {
                let warm = if self.stage == Stage::WarmUp { self.count } else { *warmup };
                let what = format!("the run ended in it, after {}; nothing was counted", with_noun(warm, of()));
                fail(format!("--warmup {warmup}"), what)
            }
            Stage::WarmUp | Stage::Count | Stage::Done => Ok(()),
        }
    }

    /// Why what was asked for never began.
    fn why_closed(&self) -> String {
        match &self.gates {
            Gates::Function(symbols, found) if found.is_empty() => symbols.why_missing(),
            Gates::Marks(false) => "the trace has no code, in which marks are found; record the program anew".into(),
            Gates::Marks(true) => "FARREACH_BEGIN() of farreach-mark.h was never executed".into(),
            _ => "it was never executed".into(),
        }
    }

    /// Nothing is cut, and nothing watched for.
    fn passes(&self) -> bool {
        self.open && matches!(self.gates, Gates::None) && self.stage == Stage::Count && self.until == u64::MAX
    }

    /// What is executed now is left out.
    fn leaves_out(&self) -> bool {
        !self.open || self.stage == Stage::Skip
    }

    /// The part of a batch that stays.
    ///
    /// # Errors
    /// The batch is invalid; the files of the program cannot be read.
    pub fn apply(&mut self, mut batch: Batch) -> Result<Batch> {
        let asid = batch.asid;
        if self.passes() {
            self.counted |= batch.words.len() > batch.ops.len();
            // New blocks may have the ids of parts.
            let blocks = batch.ops.iter().filter(|op| !self.parts.is_empty() && op.is_definition());
            let blocks: Vec<Op> = blocks.cloned().collect();
            let broken = |what| Error::Trace { file: Error::STREAM.into(), place: "definitions".into(), what };
            blocks.iter().try_for_each(|op| self.op(asid, op).map_err(broken))?;
            if !self.parts.renames() {
                return Ok(batch);
            }
        }
        let words = std::mem::take(&mut batch.words);
        let mut out = Out::new(&words, std::mem::take(&mut batch.ops));
        let mut at = 0;
        while at < words.len() && !self.done() {
            let word = words[at];
            let broken = |what: String| Error::Trace {
                file: Error::STREAM.into(),
                place: format!("address space {}, word {at}", asid.0),
                what,
            };
            if word & OP_BIT != 0 {
                let index = (word & !OP_BIT) as usize;
                let op = out.ops.get(index).ok_or_else(|| broken(format!("event {index} of {}", out.ops.len())))?;
                self.op(asid, op).map_err(broken)?;
                match self.renamed(op) {
                    _ if matches!(op, Op::KernelStore { .. }) && self.leaves_out() => {}
                    Some(op) => out.push_op(op),
                    None => out.pass(at..at + 1),
                }
                at += 1;
                continue;
            }
            let end = at + 1 + words_behind(word);
            let id = block_id(word);
            let known = self.blocks.get(id).ok_or_else(|| broken(format!("block {id} was never defined")))?;
            let (instrs, gates) = (known.block.instrs.len() as u64, !known.gates.is_empty());
            let unit = if instrs > 0 || self.fetches { instrs } else { known.block.refs.len() as u64 };
            if instrs > 0 && !self.fetches {
                (self.fetches, self.count) = (true, 0);
            }
            if gates || (self.open && self.count + unit >= self.until) {
                let block = Arc::clone(&known.block);
                let addrs = addresses(&words, at, block.words()).map_err(|why| broken(why.to_string()))?;
                self.in_parts(asid, id, &block, addrs, at..end, &mut out).map_err(broken)?;
            } else if !self.open {
                self.skipped += instrs;
            } else {
                let unit = if instrs > 0 || self.fetches { instrs } else { executed(&words, at, end, known) };
                self.count += unit;
                self.counted |= self.stage == Stage::Count;
                match self.stage {
                    Stage::Skip => self.skipped += unit,
                    _ if end > words.len() => return Err(broken(format!("block {id} is cut off"))),
                    _ if self.parts.name(id) != id => out.push_block(self.parts.name(id), &words[at + 1..end]),
                    _ => out.pass(at..end),
                }
            }
            at = end;
        }
        (batch.words, batch.ops) = out.finish();
        if batch.words.is_empty() {
            batch.ops.clear();
        }
        Ok(batch)
    }

    /// A block in which something begins or ends.
    #[cold]
    fn in_parts(
        &mut self,
        asid: Asid,
        id: u32,
        block: &Arc<Block>,
        addrs: &[u64],
        place: std::ops::Range<usize>,
        out: &mut Out,
    ) -> std::result::Result<(), String> {
        let by_instruction = !block.instrs.is_empty();
        let len = if by_instruction { block.instrs.len() } else { block.refs.len() } as u32;
        // Of these positions, how many count.
        let counts = |from: u32, to: u32| match by_instruction {
            true => u64::from(to - from),
            false if self.fetches => 0,
            false => {
                let refs = &block.refs[from as usize..to as usize];
                refs.iter().filter(|r| r.address(addrs) != NOT_EXECUTED).count() as u64
            }
        };
        let counts: Vec<u64> = (0..len).map(|i| counts(i, i + 1)).collect();
        let gates = self.blocks.get(id).map(|known| known.gates.clone()).unwrap_or_default();
        let mut at = 0;
        loop {
            for (_, gate) in gates.iter().filter(|(index, _)| *index == at) {
                self.gate(asid, *gate);
            }
            if at >= len || self.done() {
                return Ok(());
            }
            let stop = gates.iter().map(|(index, _)| *index).find(|index| *index > at).unwrap_or(len).min(len);
            let (mut to, mut taken) = (at, 0);
            while to < stop && (!self.open || self.count + taken < self.until) {
                taken += counts[to as usize];
                to += 1;
            }
            match (self.open, self.stage) {
                (false, _) => self.skipped += taken,
                (true, Stage::Skip) => {
                    self.skipped += taken;
                    self.count += taken;
                }
                _ => {
                    self.count += taken;
                    self.counted |= self.stage == Stage::Count && to > at;
                    match (at, to) {
                        (0, to) if to == len && self.parts.name(id) == id => out.pass(place.clone()),
                        (0, to) if to == len => out.push_block(self.parts.name(id), addrs),
                        _ => {
                            let used = |id| self.blocks.get(id).is_some();
                            self.parts.execute(id, block, addrs, at..to, used, out)?;
                        }
                    }
                }
            }
            at = to;
            if self.open && self.count >= self.until {
                self.next_stage(Some(out));
            }
        }
    }

    fn gate(&mut self, asid: Asid, gate: Gate) {
        match (gate, &self.gates) {
            (Gate::Close, _) => self.open = false,
            (Gate::OpenAt(pc), Gates::Function(_, found)) if !found.contains(&(asid, pc)) => {}
            _ => (self.open, self.opened) = (true, true),
        }
        // A function or an address opens once.
        if self.open && !matches!(self.gates, Gates::None | Gates::Marks(_)) {
            self.gates = Gates::None;
            for id in std::mem::take(&mut self.ids) {
                self.blocks.get_mut(id).expect("it was defined").gates = Box::default();
            }
        }
    }

    /// The stage, or a part of it, is over.
    fn next_stage(&mut self, mut out: Option<&mut Out>) {
        let mut put = |boundary| out.iter_mut().for_each(|out| out.push_op(Op::Boundary(boundary)));
        let counted = std::mem::take(&mut self.count);
        match self.stage {
            Stage::Skip if self.piece.warmup > 0 => (self.stage, self.until) = (Stage::WarmUp, self.piece.warmup),
            Stage::Skip | Stage::WarmUp => {
                if self.stage == Stage::WarmUp {
                    put(Boundary::Counted);
                }
                self.stage = Stage::Count;
                self.until = self.limit_left.min(self.piece.every.unwrap_or(u64::MAX));
            }
            Stage::Count | Stage::Done => {
                self.limit_left -= counted;
                if self.limit_left == 0 {
                    self.stage = Stage::Done;
                } else {
                    put(Boundary::Phase);
                    self.until = self.limit_left.min(self.piece.every.unwrap_or(u64::MAX));
                }
            }
        }
    }

    /// A definition of a block that has another id now.
    fn renamed(&self, op: &Op) -> Option<Op> {
        match op {
            Op::Define { id, block } if self.parts.name(*id) != *id => {
                Some(Op::Define { id: self.parts.name(*id), block: Arc::clone(block) })
            }
            Op::Code { id, bytes } if self.parts.name(*id) != *id => {
                Some(Op::Code { id: self.parts.name(*id), bytes: Arc::clone(bytes) })
            }
            _ => None,
        }
    }

    /// Follows an event, which passes in any case.
    fn op(&mut self, asid: Asid, op: &Op) -> std::result::Result<(), String> {
        match op {
            Op::Define { id, block } if self.blocks.get(*id).is_none() => {
                block.validate().map_err(|why| format!("block {id}: {why}"))?;
                self.parts.defined(*id, |id| self.blocks.get(id).is_some())?;
                let gates = self.gates_at(block);
                self.blocks.insert(*id, Known { block: Arc::clone(block), gates });
                self.ids.push(*id);
            }
            Op::Code { id, bytes } => {
                self.parts.code(*id, bytes);
                if let (Gates::Marks(code), Some(known)) = (&mut self.gates, self.blocks.get_mut(*id)) {
                    *code = true;
                    known.gates = marks(&known.block, bytes);
                }
            }
            Op::Map(mapping) => {
                let Gates::Function(symbols, found) = &mut self.gates else { return Ok(()) };
                let Some(address) = symbols.in_mapping(mapping) else { return Ok(()) };
                if found.insert((asid, address)) {
                    for &id in &self.ids {
                        let known = self.blocks.get_mut(id).expect("it was defined");
                        known.gates = function_gates(&known.block, found);
                    }
                }
            }
            Op::Fork { child } => {
                if let Gates::Function(_, found) = &mut self.gates {
                    let more: Vec<_> =
                        found.iter().filter(|(of, _)| *of == asid).map(|(_, at)| (*child, *at)).collect();
                    found.extend(more);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Gates of a block that is defined.
    fn gates_at(&self, block: &Block) -> Box<[(u32, Gate)]> {
        match &self.gates {
            Gates::None | Gates::Marks(_) => Box::default(),
            Gates::Address(address) => {
                let at = block.instrs.iter().position(|instr| instr.pc == *address);
                at.map(|at| (at as u32, Gate::Open)).into_iter().collect()
            }
            Gates::Function(_, found) => function_gates(block, found),
        }
    }
}

fn function_gates(block: &Block, found: &HashSet<(Asid, u64)>) -> Box<[(u32, Gate)]> {
    if found.is_empty() {
        return Box::default();
    }
    let is_at = |pc: u64| found.iter().any(|(_, at)| *at == pc);
    let here = (0..).zip(&block.instrs).filter(|(_, instr)| is_at(instr.pc));
    here.map(|(i, instr)| (i, Gate::OpenAt(instr.pc))).collect()
}

/// The first bytes of a mark of x86-64, in front of its number (capture/qemu/farreach-mark.h).
const MARK: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
const MARK_BEGIN: u32 = 0x4652_1001;
const MARK_END: u32 = 0x4652_1002;

/// Gates at the marks of a block, which has this code.
fn marks(block: &Block, mut code: &[u8]) -> Box<[(u32, Gate)]> {
    let mut gates = Vec::new();
    for (i, instr) in (0..).zip(&block.instrs) {
        let Some((bytes, rest)) = code.split_at_checked(instr.len as usize) else { break };
        code = rest;
        let Some(number) = bytes.strip_prefix(&MARK) else { continue };
        match <[u8; 4]>::try_from(number).map(u32::from_le_bytes) {
            Ok(MARK_BEGIN) => gates.push((i + 1, Gate::Open)),
            Ok(MARK_END) => gates.push((i, Gate::Close)),
            _ => {}
        }
    }
    gates.into()
}

/// References of an execution that happened, for streams without instructions.
fn executed(words: &[u64], at: usize, end: usize, known: &Known) -> u64 {
    let Some(addrs) = words.get(at + 1..end).filter(|addrs| addrs.len() == known.block.words()) else { return 0 };
    known.block.data(addrs).filter(|(_, addr)| *addr != NOT_EXECUTED).count() as u64
}

/// A stream that is cut.
pub struct Cut<S> {
    source: S,
    cutter: Cutter,
}

impl<S: Source> Cut<S> {
    /// This piece of a source. Its end is that of the piece, or the error of [`Cutter::end`].
    pub fn new(source: S, piece: Piece) -> Cut<S> {
        Cut { source, cutter: Cutter::new(piece) }
    }
}

impl<S: Source> Source for Cut<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.cutter.done() {
            return Ok(None);
        }
        match self.source.next_batch()? {
            Some(batch) => self.cutter.apply(batch).map(Some),
            None => self.cutter.end().map(|()| None),
        }
    }
}
