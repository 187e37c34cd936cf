//! Makes blocks of single references, for readers of formats that have no blocks.
//!
//! Instructions that follow one another become one block of up to [`RUN_INSTRS`], with the references between them: the
//! order of all references stays, and a block seen before costs one word.

use hashbrown::HashTable;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::frt::{BLOCK_ITEMS, MAX_DEFINED_ITEMS};
use farreach_types::addr::Asid;
use farreach_types::error::Error;
use farreach_types::event::{Batch, Block, DataRef, Instr, Kind, MAX_BLOCKS, Op, Source};

/// Most instructions of a block made from a run of adjacent ones. Longer blocks save words, but make more distinct
/// blocks.
const RUN_INSTRS: usize = 16;
/// A run with this many references takes no further instruction; without instructions, no further reference.
const RUN_REFS: usize = 64;
const BATCH_WORDS: usize = 1 << 14;

/// The block being collected.
#[derive(Default)]
struct Run {
    instrs: Vec<Instr>,
    refs: Vec<DataRef>,
    addrs: Vec<u64>,
    /// Where an adjacent instruction would begin.
    next_pc: u64,
    hash: u64,
}

/// Every block of the trace, once.
#[derive(Default)]
struct Known {
    table: HashTable<u32>,
    blocks: Vec<Arc<Block>>,
    hashes: Vec<u64>,
    items: usize,
}

/// The batch being collected, and the block at its end. Errors are texts that say which limit was passed.
pub(super) struct Assembler {
    run: Run,
    known: Known,
    batch: Batch,
    /// Batches of address spaces before this one.
    ready: VecDeque<Batch>,
    /// Largest gap in bytes between two instructions of a run.
    slack: u64,
}

/// A reader of such a format.
pub(super) trait Reader {
    /// The assembler that gets its references.
    fn assembler(&mut self) -> &mut Assembler;
    /// Reads a piece of the trace; false at its end.
    fn read_more(&mut self) -> Result<bool, Error>;
    /// What a message says of a trace without references, behind that.
    fn without_references(&self) -> &'static str {
        ""
    }
    /// An error at the place where it is.
    fn fail(&self, what: String) -> Error;
}

/// The stream of a reader. What was read before an error comes before it, and nothing follows it.
pub(super) struct Assembled<R> {
    reader: R,
    ended: bool,
    /// Why it ended, if not at the end of the trace.
    failure: Option<Error>,
    /// The error was returned.
    failed: bool,
}

impl<R: Reader> Assembled<R> {
    /// From where the reader is.
    pub fn new(reader: R) -> Assembled<R> {
        Assembled { reader, ended: false, failure: None, failed: false }
    }

    fn next(&mut self) -> Result<Option<Batch>, Error> {
        let Assembled { reader, ended, failure, .. } = self;
        while !*ended && !reader.assembler().is_full() {
            match reader.read_more() {
                Ok(more) => *ended = !more,
                Err(e) => (*ended, *failure) = (true, Some(e)),
            }
            if *ended && let Err(what) = reader.assembler().flush() {
                failure.get_or_insert_with(|| reader.fail(what));
            }
        }
        let batch = reader.assembler().take();
        if batch.is_none()
            && let Some(e) = failure.take()
        {
            return Err(e);
        }
        if batch.is_none() && reader.assembler().is_blank() {
            let why = reader.without_references();
            return Err(reader.fail(format!("the trace ends here and has no references{why}")));
        }
        Ok(batch)
    }
}

impl<R: Reader> Source for Assembled<R> {
    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        if self.failed {
            return Ok(None);
        }
        let result = self.next();
        self.failed = result.is_err();
        result
    }
}

#[inline]
fn mix(hash: u64, value: u64) -> u64 {
    let wide = u128::from(hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (wide as u64) ^ (wide >> 64) as u64
}

impl Assembler {
    /// Nothing yet, in address space 0.
    pub fn new(slack: u64) -> Assembler {
        Assembler {
            run: Run::default(),
            known: Known::default(),
            batch: Batch::new(Asid(0)),
            ready: VecDeque::new(),
            slack,
        }
    }

    /// Whether a batch is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.words.len() >= BATCH_WORDS || !self.ready.is_empty()
    }
    /// Whether there was no reference yet, except perhaps in the last run.
    pub fn is_blank(&self) -> bool {
        self.known.blocks.is_empty()
    }
    /// The next batch; at the end, the remaining references, the last run included.
    pub fn take(&mut self) -> Option<Batch> {
        self.ready.pop_front().or_else(|| {
            let next = Batch::new(self.batch.asid);
            (!self.batch.is_empty()).then(|| std::mem::replace(&mut self.batch, next))
        })
    }

    /// What follows belongs to this address space.
    #[inline]
    pub fn space(&mut self, asid: Asid) -> Result<(), String> {
        if asid != self.batch.asid {
            self.flush()?;
            let former = std::mem::replace(&mut self.batch, Batch::new(asid));
            self.ready.extend((!former.is_empty()).then_some(former));
        }
        Ok(())
    }

    /// A fetch.
    #[inline]
    pub fn instr(&mut self, pc: u64, len: u32) -> Result<(), String> {
        let run = &self.run;
        let gap = pc.wrapping_sub(run.next_pc);
        if gap > self.slack || run.instrs.len() >= RUN_INSTRS || run.instrs.is_empty() || run.refs.len() >= RUN_REFS {
            self.flush()?;
        }
        let run = &mut self.run;
        run.instrs.push(Instr { pc, len });
        run.next_pc = pc.wrapping_add(u64::from(len));
        run.hash = mix(run.hash, pc << 7 ^ u64::from(len));
        Ok(())
    }

    /// A load or a store.
    #[inline]
    pub fn data(&mut self, addr: u64, size: u32, kind: Kind) -> Result<(), String> {
        if self.run.refs.len() >= RUN_REFS || self.run.instrs.is_empty() {
            self.flush()?;
        }
        let run = &mut self.run;
        let after = run.instrs.len() as u32;
        run.refs.push(DataRef::new(after, kind, size, run.addrs.len() as u32));
        run.addrs.push(addr);
        run.hash = mix(run.hash, !(u64::from(after) << 20 ^ u64::from(size) << 1 ^ u64::from(kind == Kind::Store)));
        Ok(())
    }

    /// Any event but a definition, in its place.
    pub fn op(&mut self, op: Op) -> Result<(), String> {
        self.flush()?;
        self.batch.push_op(op);
        Ok(())
    }

    /// Ends the run: its block, defined now if it is new, is executed once.
    pub fn flush(&mut self) -> Result<(), String> {
        let Run { instrs, refs, addrs, hash, .. } = &mut self.run;
        if instrs.is_empty() && refs.is_empty() {
            return Ok(());
        }
        let Known { table, blocks, hashes, items } = &mut self.known;
        let same = |&n: &u32| *blocks[n as usize].instrs == instrs[..] && *blocks[n as usize].refs == refs[..];
        let id = match table.find(*hash, same) {
            Some(&id) => id,
            None => {
                let id = blocks.len() as u32;
                *items += BLOCK_ITEMS + instrs.len() + refs.len();
                if id >= MAX_BLOCKS || *items > MAX_DEFINED_ITEMS {
                    return Err(format!("the program has more than {MAX_DEFINED_ITEMS} different instructions"));
                }
                let block = Arc::new(Block { instrs: instrs[..].into(), refs: refs[..].into() });
                self.batch.push_op(Op::Define { id, block: Arc::clone(&block) });
                blocks.push(block);
                hashes.push(*hash);
                table.insert_unique(*hash, id, |&n| hashes[n as usize]);
                id
            }
        };
        self.batch.push_block(id, addrs);
        instrs.clear();
        refs.clear();
        addrs.clear();
        *hash = 0;
        Ok(())
    }
}
