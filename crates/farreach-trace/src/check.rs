//! The check that a stream keeps its contract. [`Checked`] passes batches through and stops at the first that breaks
//! it.
//!
//! Beyond the contract of [`farreach_types::event`] (blocks valid and defined once, before use; no word or event
//! missing), it requires
//! * the bytes of an event to start and end at page boundaries, below 2^64, and a `Map` or the new place of a `Remap`
//!   not to be empty;
//! * a reference to end below 2^64;
//! * in a trace with any `Start`: an address space to be announced by `Start` or `Fork` before its first item, once,
//!   and numbered densely in that order; the parent of a `Start` to be an address space before it;
//! * an address space to have no item after its `End`;
//! * in an address space with any `ThreadStart`: `Switch` and `ThreadExit` to name threads that run; a forked child
//!   runs the thread that forked.
//!
//! In the stream of a whole system, one with any [`Op::Guest`],
//! * `Machine` to be the first event behind the start of address space 0, and no event to be one of a program;
//! * `Switch` to name a processor of the machine;
//! * all registers that its instruction set translates by to be told before a processor's first reference;
//! * the kernel to run blocks of the upper half of the addresses, and programs those of the lower one;
//! * a reference to end within the [`GUEST_ADDRESS_BITS`];
//! * words of page tables to be aligned and in one frame, tags and exceptions to be those of the instruction set.
//!
//! Definitions belong to the trace, not to an address space: they may stand anywhere before their use. So does the mark
//! of a page trace, which stands before all else.

use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::guests::{Half, System};
use crate::frt::{MAX_ADDRESS_SPACES, Totals};
use crate::tally::{ByBlock, Processes};
use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS};
use farreach_types::error::{Error, Result};
use farreach_types::event::{
    Backing, Batch, Block, Broken, End, Guest, Kind, MAX_BLOCKS, MAX_REF_BYTES, MAX_SPREAD, NOT_EXECUTED, OP_BIT, Op,
    Source, addresses, block_id,
};
use farreach_types::plural::with_noun;

pub use self::guests::SystemInfo;

mod guests;

/// Alignment of everything that is mapped.
const PAGE: u64 = 4096;

/// What a stream contained, up to its end or its first violation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Sums over all address spaces.
    pub totals: Totals,
    /// Conditional references that did not happen.
    pub not_executed: u64,
    /// Batches.
    pub batches: u64,
    /// How often each event occurred, by its name; definitions included.
    pub events: BTreeMap<&'static str, u64>,
    /// What a whole system is, if the stream is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemInfo>,
    /// One row per address space, in the order in which they appear.
    pub spaces: Vec<Space>,
    /// The first violation; the rest of the stream was not checked.
    pub violation: Option<Violation>,
}

/// What one address space did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Space {
    /// Its number.
    pub asid: Asid,
    /// Process id, if a `Start` gives it.
    pub pid: Option<u32>,
    /// The address space it was forked from or began in by exec.
    pub parent: Option<Asid>,
    /// Its program; that of its parent after a fork; of a whole system the last name. Empty if unknown.
    pub program: Arc<str>,
    /// Instruction fetches.
    pub instructions: u64,
    /// Loads that happened.
    pub loads: u64,
    /// Stores that happened.
    pub stores: u64,
    /// Events, definitions not counted.
    pub ops: u64,
    /// Threads that started.
    pub threads: u64,
    /// How it ended.
    pub end: Option<End>,
}

/// A place where the stream breaks its contract.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// Number of the batch, from 0.
    pub batch: u64,
    /// Index of the word in its batch.
    pub word: usize,
    /// Address space of the batch.
    pub asid: Asid,
    /// Instructions executed before.
    pub instructions: u64,
    /// What is wrong.
    pub what: String,
}

/// Passes batches through and checks them. The batch with a violation is not passed: its place comes as an error.
pub struct Checked<S> {
    source: S,
    file: String,
    checker: Checker,
}

impl<S: Source> Checked<S> {
    /// `file` stands in messages.
    pub fn new(source: S, file: &str) -> Checked<S> {
        Checked { source, file: file.to_owned(), checker: Checker::default() }
    }

    /// Counts of the batches passed so far.
    pub fn report(&self) -> Report {
        self.checker.report()
    }
}

impl<S: Source> Source for Checked<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.checker.violation.is_some() {
            return Ok(None);
        }
        let Some(batch) = self.source.next_batch()? else { return Ok(None) };
        match self.checker.check(&batch) {
            Ok(()) => Ok(Some(batch)),
            Err(v) => Err(Error::Trace {
                file: self.file.clone(),
                place: format!(
                    "batch {}, word {}, address space {}, after {}",
                    v.batch,
                    v.word,
                    v.asid.0,
                    with_noun(v.instructions, "instruction")
                ),
                what: v.what,
            }),
        }
    }
}

/// Reads a stream to its end or its first violation.
///
/// # Errors
/// The source fails. A violation is no error: it stands in the report.
pub fn check(source: &mut dyn Source) -> Result<Report> {
    let mut checker = Checker::default();
    while let Some(batch) = source.next_batch()? {
        if checker.check(&batch).is_err() {
            break;
        }
    }
    Ok(checker.report())
}

/// The rules without a source, for callers that have the batches.
#[derive(Default)]
pub struct Checker {
    by_id: ByBlock,
    known: Vec<Known>,
    /// As many, in the same order.
    blocks: Vec<(Arc<Block>, Half)>,
    spaces: Vec<Watched>,
    by_asid: HashMap<Asid, usize>,
    any_start: bool,
    announced: u32,
    batches: u64,
    not_executed: u64,
    events: BTreeMap<&'static str, u64>,
    processes: Processes,
    system: Option<System>,
    violation: Option<Violation>,
}

/// What an execution of a block counts. Small, because a program has more blocks than fit the nearest caches.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Known {
    words: u32,
    instrs: u32,
    loads: u32,
    stores: u32,
}

#[derive(Default)]
struct Watched {
    space: Space,
    announced: bool,
    /// Threads that run, once one started.
    threads: Option<HashSet<u32>>,
    /// The thread that the last `Switch` or the first `ThreadStart` named.
    current: u32,
}

impl Checker {
    /// Checks the next batch.
    ///
    /// # Errors
    /// The first violation of the stream. Nothing after it can be judged.
    pub fn check(&mut self, batch: &Batch) -> std::result::Result<(), Violation> {
        if let Some(v) = &self.violation {
            return Err(v.clone());
        }
        let mut word = 0;
        let result = self.words(batch, &mut word).map_err(|what| {
            let instructions = self.spaces.iter().map(|s| s.space.instructions).sum();
            Violation { batch: self.batches, word, asid: batch.asid, instructions, what }
        });
        self.batches += 1;
        self.violation = result.as_ref().err().cloned();
        result
    }

    /// Everything seen so far.
    pub fn report(&self) -> Report {
        let sum = |f: fn(&Space) -> u64| self.spaces.iter().map(|s| f(&s.space)).sum();
        Report {
            totals: Totals {
                instructions: sum(|s| s.instructions),
                loads: sum(|s| s.loads),
                stores: sum(|s| s.stores),
                ops: sum(|s| s.ops),
                blocks: self.events.get("define").copied().unwrap_or(0),
                processes: self.processes.processes(),
                address_spaces: self.processes.address_spaces(),
            },
            not_executed: self.not_executed,
            batches: self.batches,
            events: self.events.clone(),
            system: self.system.as_ref().map(|system| system.info),
            spaces: self.spaces.iter().map(|s| s.space.clone()).collect(),
            violation: self.violation.clone(),
        }
    }

    fn words(&mut self, batch: &Batch, at: &mut usize) -> std::result::Result<(), String> {
        if self.spaces.len() as u64 > MAX_ADDRESS_SPACES {
            return Err(format!("the trace has more than {MAX_ADDRESS_SPACES} address spaces"));
        }
        let words = &batch.words[..];
        // Position of the batch's address space, once it is known to be alive.
        let mut alive = None;
        while *at < words.len() {
            let word = words[*at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| why.to_string())?;
                *self.events.entry(name(op)).or_default() += 1;
                match op {
                    Op::Define { id, block } => self.define(*id, block)?,
                    Op::Code { id, bytes } => self.code(*id, bytes)?,
                    op if op.is_mark() && self.spaces.is_empty() => {}
                    Op::Pages => return Err("the mark of a page trace stands behind events or references".into()),
                    Op::Samples => return Err("the mark of samples stands behind events or references".into()),
                    op => {
                        self.op(batch.asid, op)?;
                        alive = None;
                    }
                }
                self.processes.see(batch.asid, Some(op));
                *at += 1;
                continue;
            }
            let space = match alive {
                Some(space) => space,
                None => {
                    self.processes.see(batch.asid, None);
                    *alive.insert(self.live_space(batch.asid)?)
                }
            };
            let id = block_id(word);
            let number = self.by_id.get(id).ok_or_else(|| Broken::UndefinedBlock { id }.to_string())? as usize;
            let known = self.known[number];
            let end = match &self.system {
                Some(system) => {
                    system.runs(self.blocks[number].1).map_err(|why| format!("block {id}: {why}"))?;
                    guests::END
                }
                None => u64::MAX,
            };
            let addrs = addresses(words, *at, known.words as usize).map_err(|why| why.to_string())?;
            let space = &mut self.spaces[space].space;
            space.instructions += u64::from(known.instrs);
            space.loads += u64::from(known.loads);
            space.stores += u64::from(known.stores);
            if addrs.iter().any(|&a| a >= end - u64::from(MAX_REF_BYTES + MAX_SPREAD)) {
                let block = &self.blocks[number].0;
                let absent = addrs.iter().enumerate().filter(|(_, word)| **word == NOT_EXECUTED);
                if absent.map(|(word, _)| word).any(|word| block.only_user(word).is_none()) {
                    return Err(Broken::SharedAbsence { id }.to_string());
                }
                for (r, addr) in block.data(addrs) {
                    if addr == NOT_EXECUTED {
                        self.not_executed += 1;
                        match r.kind {
                            Kind::Store => space.stores -= 1,
                            _ => space.loads -= 1,
                        }
                    } else if addr.checked_add(u64::from(r.size)).is_none_or(|behind| behind > end) {
                        let bits = if self.system.is_some() { GUEST_ADDRESS_BITS } else { 64 };
                        return Err(format!(
                            "block {id} refers to {} bytes at {addr:#x}, which reach past 2^{bits}",
                            r.size
                        ));
                    }
                }
            }
            *at += 1 + addrs.len();
        }
        Ok(())
    }

    fn code(&self, id: u32, bytes: &[u8]) -> std::result::Result<(), String> {
        let number = self.by_id.get(id).ok_or_else(|| format!("code of block {id}, which was never defined"))?;
        let block = &self.blocks[number as usize].0;
        block.validate_code(bytes.len()).map_err(|why| format!("block {id} has {why}"))
    }

    fn define(&mut self, id: u32, block: &Arc<Block>) -> std::result::Result<(), String> {
        if id >= MAX_BLOCKS {
            return Err(format!("block id {id} is not below {MAX_BLOCKS}"));
        }
        if let Some(known) = self.by_id.get(id) {
            let same = self.blocks[known as usize].0 == *block;
            return if same { Ok(()) } else { Err(format!("block {id} is defined twice, differently")) };
        }
        block.validate().map_err(|why| format!("block {id}: {why}"))?;
        let Ok(instrs) = u32::try_from(block.instrs.len()) else {
            return Err(format!("block {id} has {} instructions; fewer than 2^32 are allowed", block.instrs.len()));
        };
        let stores = block.refs.iter().filter(|r| r.kind == Kind::Store).count() as u32;
        self.by_id.insert(id, self.blocks.len() as u32);
        // It has fewer than 2^31 references.
        let (words, loads) = (block.words() as u32, block.refs.len() as u32 - stores);
        self.known.push(Known { words, instrs, loads, stores });
        self.blocks.push((Arc::clone(block), Half::of(block)));
        Ok(())
    }

    /// Position of an address space that may have items now.
    fn live_space(&mut self, asid: Asid) -> std::result::Result<usize, String> {
        let at = self.space(asid);
        let s = &self.spaces[at];
        if self.any_start && !s.announced {
            return Err(format!("address space {} was announced by no Start and no Fork", asid.0));
        }
        match s.space.end {
            Some(_) => Err(format!("address space {} goes on after its End", asid.0)),
            None => Ok(at),
        }
    }

    fn space(&mut self, asid: Asid) -> usize {
        *self.by_asid.entry(asid).or_insert_with(|| {
            self.spaces.push(Watched { space: Space { asid, ..Space::default() }, ..Watched::default() });
            self.spaces.len() - 1
        })
    }

    /// A new address space.
    fn announce(&mut self, asid: Asid) -> std::result::Result<usize, String> {
        if self.by_asid.contains_key(&asid) {
            return Err(format!("address space {} is announced, but was there before", asid.0));
        }
        if self.any_start && asid.0 != self.announced {
            return Err(format!("address space {} is announced, the next number is {}", asid.0, self.announced));
        }
        self.announced = self.announced.wrapping_add(1);
        let at = self.space(asid);
        self.spaces[at].announced = true;
        Ok(at)
    }

    fn op(&mut self, asid: Asid, op: &Op) -> std::result::Result<(), String> {
        if let Op::Start { pid, parent, program } = op {
            if let Some(p) = parent.filter(|p| !self.by_asid.contains_key(p)) {
                return Err(format!("the parent of address space {} is {}, which was never there", asid.0, p.0));
            }
            if !self.any_start && !self.spaces.is_empty() {
                return Err("the first Start stands behind other events or references".into());
            }
            self.any_start = true;
            self.system.as_mut().map_or(Ok(()), |system| system.see(op))?;
            let at = self.announce(asid)?;
            let space = &mut self.spaces[at].space;
            (space.pid, space.parent, space.program, space.ops) = (Some(*pid), *parent, Arc::clone(program), 1);
            return Ok(());
        }
        let at = self.live_space(asid)?;
        self.spaces[at].space.ops += 1;
        match (&mut self.system, op) {
            (Some(system), _) => system.see(op)?,
            (None, Op::Guest(guest)) => {
                let space = &self.spaces[at].space;
                let first = self.spaces.len() == 1 && space.ops == 1 + u64::from(self.any_start);
                let first = first && space.instructions + space.loads + space.stores == 0;
                self.system = Some(System::begin(asid, guest, first)?);
            }
            (None, _) => {}
        }
        match op {
            Op::Define { .. } | Op::Code { .. } | Op::Pages | Op::Samples | Op::Start { .. } => {
                unreachable!("handled before")
            }
            Op::Fork { child } => {
                let program = Arc::clone(&self.spaces[at].space.program);
                let (current, threads) = (self.spaces[at].current, self.spaces[at].threads.is_some());
                let new = self.announce(*child)?;
                (self.spaces[new].current, self.spaces[new].threads) =
                    (current, threads.then(|| HashSet::from([current])));
                let space = &mut self.spaces[new].space;
                (space.parent, space.program, space.threads) = (Some(asid), program, u64::from(threads));
            }
            Op::Map(m) => {
                range("a Map", m.start, m.len, false)?;
                if let Backing::File { path, offset } = &m.backing
                    && !offset.is_multiple_of(PAGE)
                {
                    return Err(format!("a Map of {path} begins at byte {offset}, not a multiple of {PAGE}"));
                }
            }
            Op::Unmap { start, len } => range("an Unmap", *start, *len, true)?,
            Op::Remap { old_start, old_len, new_start, new_len } => {
                range("the old place of a Remap", *old_start, *old_len, true)?;
                range("the new place of a Remap", *new_start, *new_len, false)?;
            }
            Op::Protect { start, len, .. } => range("a Protect", *start, *len, true)?,
            Op::Advise { start, len, .. } => range("an Advise", *start, *len, true)?,
            Op::KernelStore { start, len } => _ = Op::kernel_store(*start, *len)?,
            Op::Guest(Guest::Name(name)) => self.spaces[at].space.program = Arc::clone(name),
            Op::Boundary(_) => return Err("a boundary of parts of a run, which is nothing of a program".into()),
            Op::Thp(_) | Op::Guest(_) => {}
            Op::ThreadStart { thread } => {
                self.spaces[at].space.threads += 1;
                if self.spaces[at].threads.is_none() {
                    self.spaces[at].current = *thread;
                }
                if !self.spaces[at].threads.get_or_insert_default().insert(*thread) {
                    return Err(format!("thread {thread} starts, but runs already"));
                }
            }
            Op::ThreadExit { thread } => {
                if self.spaces[at].threads.as_mut().is_some_and(|t| !t.remove(thread)) {
                    return Err(format!("thread {thread} ends, but does not run"));
                }
            }
            Op::Switch { thread } => {
                if self.spaces[at].threads.as_ref().is_some_and(|t| !t.contains(thread)) {
                    return Err(format!("a switch to thread {thread}, which does not run"));
                }
                self.spaces[at].current = *thread;
            }
            Op::End(end) => self.spaces[at].space.end = Some(*end),
        }
        Ok(())
    }
}

fn range(what: &str, start: u64, len: u64, may_be_empty: bool) -> std::result::Result<(), String> {
    if !start.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
        return Err(format!("{what} has start {start:#x} and length {len:#x}; both must be multiples of {PAGE}"));
    }
    if len == 0 && !may_be_empty {
        return Err(format!("{what} at {start:#x} has no length"));
    }
    match start.checked_add(len) {
        Some(_) => Ok(()),
        None => Err(format!("{what} has start {start:#x} and length {len:#x}, which reach past 2^64")),
    }
}

/// Name of an event in reports.
pub(crate) fn name(op: &Op) -> &'static str {
    match op {
        Op::Define { .. } => "define",
        Op::Code { .. } => "code",
        Op::Pages => "pages",
        Op::Samples => "samples",
        Op::Boundary(_) => "boundary",
        Op::Start { .. } => "start",
        Op::Fork { .. } => "fork",
        Op::Map(_) => "map",
        Op::Unmap { .. } => "unmap",
        Op::Remap { .. } => "remap",
        Op::Protect { .. } => "protect",
        Op::Advise { .. } => "advise",
        Op::KernelStore { .. } => "kernel_store",
        Op::Thp(_) => "thp",
        Op::Guest(Guest::Machine { .. }) => "machine",
        Op::Guest(Guest::Privilege { .. }) => "privilege",
        Op::Guest(Guest::Register { .. }) => "register",
        Op::Guest(Guest::Entries { .. }) => "table_entries",
        Op::Guest(Guest::Invalidate(_)) => "invalidate",
        Op::Guest(Guest::Exception { .. }) => "exception",
        Op::Guest(Guest::Name(_)) => "name",
        Op::Guest(Guest::Stale { .. }) => "stale",
        Op::ThreadStart { .. } => "thread_start",
        Op::ThreadExit { .. } => "thread_exit",
        Op::Switch { .. } => "switch",
        Op::End(_) => "end",
    }
}

#[cfg(test)]
mod tests;
