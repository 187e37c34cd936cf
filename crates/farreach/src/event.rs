//! The one record between producers (recorder, trace readers, generators) and consumers (machines, writers, checkers).
//!
//! A program is a stream of [`Batch`]es. Each batch belongs to one address space and carries *words*:
//!
//! * a word with [`OP_BIT`] set is an [`Op`], an event other than a reference: `batch.ops[word & !OP_BIT]`;
//! * any other word ([`block_word`]) is an execution of a [`Block`] from its first to its last instruction: the id of the block in the low
//!   half, above it the number of address words that follow, exactly `block.refs.len()`, one for each data reference, in program order.
//!   An address of [`NOT_EXECUTED`] marks a conditional reference (a masked move) that did not happen. So the next block is found
//!   without knowing this one.
//!
//! A block is defined once, by [`Op::Define`], before its first use; ids are unique in the whole trace, whatever the process.
//! So what never changes (instruction addresses and lengths, kind and size of each reference) is said once, what changes
//! (addresses) costs eight bytes, and the stream is lossless: it expands to every fetch, load and store in program order
//! ([`Blocks::expand`]). A consumer may also look at a block as a whole, which is what makes simulation fast.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

use crate::addr::Asid;
use crate::nouns::several;

/// Set in a word that names an [`Op`].
pub const OP_BIT: u64 = 1 << 63;

/// The address word of a conditional reference that did not happen.
pub const NOT_EXECUTED: u64 = u64::MAX;

/// The word that stands for an execution of block `id`, with so many address words behind it.
#[inline(always)]
pub const fn block_word(id: u32, refs: usize) -> u64 {
    id as u64 | (refs as u64) << 32
}
/// The block that a word without [`OP_BIT`] executes.
#[inline(always)]
pub const fn block_id(word: u64) -> u32 {
    word as u32
}
/// Address words that follow a word without [`OP_BIT`], as it says.
#[inline(always)]
pub const fn refs_behind(word: u64) -> usize {
    (word >> 32) as usize
}

/// What a reference does (XC-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Instruction fetch.
    Fetch,
    /// Data read.
    Load,
    /// Data write. A read-modify-write is a load followed by a store.
    Store,
}

/// One instruction of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Instr {
    /// Virtual address of its first byte.
    pub pc: u64,
    /// Length in bytes, at least 1.
    pub len: u32,
}

/// One data reference of a block, without its address, which comes with each execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct DataRef {
    /// How many instructions of the block are fetched before this reference: `1..=instrs.len()` for a reference of
    /// instruction `after - 1`, 0 for a reference that precedes every fetch of the block (a block may have no fetch at all).
    pub after: u32,
    /// Load or store, never fetch.
    pub kind: Kind,
    /// Size in bytes, at least 1.
    pub size: u32,
}

/// A straight piece of program: always executed from beginning to end.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Block {
    /// Instructions in the order of their fetches. Need not be adjacent in memory.
    pub instrs: Box<[Instr]>,
    /// Data references in program order; `after` never decreases.
    pub refs: Box<[DataRef]>,
}

impl Block {
    /// Checks what every consumer relies on; the message says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        if self.instrs.is_empty() && self.refs.is_empty() {
            return Err("a block without instructions and references".into());
        }
        for (i, instr) in self.instrs.iter().enumerate() {
            if instr.len == 0 || instr.len > 64 || instr.pc.checked_add(u64::from(instr.len)).is_none() {
                return Err(format!("instruction {i} at {:#x} has length {} (1 to 64 allowed)", instr.pc, instr.len));
            }
        }
        let mut before = 0;
        for (i, r) in self.refs.iter().enumerate() {
            if r.kind == Kind::Fetch {
                return Err(format!("data reference {i} is marked as a fetch"));
            }
            if r.size == 0 || r.size > MAX_REF_BYTES {
                return Err(format!("data reference {i} has size {} (1 to {MAX_REF_BYTES} allowed)", r.size));
            }
            if r.after < before || r.after as usize > self.instrs.len() {
                return Err(format!(
                    "data reference {i} stands after {} of {}",
                    r.after,
                    several(self.instrs.len() as u64, "instruction")
                ));
            }
            before = r.after;
        }
        if self.refs.len() as u64 >= OP_BIT >> 32 {
            return Err(format!("{} (fewer than 2^31 allowed)", several(self.refs.len() as u64, "data reference")));
        }
        Ok(())
    }
}

/// Largest size of one data reference. XSAVE areas stay below it.
pub const MAX_REF_BYTES: u32 = 1 << 16;

/// Protection of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Prot {
    /// Loads allowed.
    pub read: bool,
    /// Stores allowed.
    pub write: bool,
    /// Fetches allowed.
    pub exec: bool,
}

impl Prot {
    /// Read and write.
    pub const RW: Prot = Prot { read: true, write: true, exec: false };
    /// Everything allowed: what a trace without map events gets.
    pub const RWX: Prot = Prot { read: true, write: true, exec: true };
    /// Nothing allowed: a guard.
    pub const NONE: Prot = Prot { read: false, write: false, exec: false };
}

/// What stands behind a mapping (XC-2). A guard is any mapping whose protection is [`Prot::NONE`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Backing {
    /// Anonymous memory from mmap.
    Anonymous,
    /// The brk heap.
    Heap,
    /// A stack; it grows downwards by further `Map`s of kind `Stack` that end where it starts.
    Stack,
    /// A file, mapped from byte `offset` on.
    File {
        /// Absolute path, as the kernel names it.
        path: Arc<str>,
        /// Offset in the file of the first byte of the mapping; a multiple of the base page.
        offset: u64,
    },
    /// vdso, vvar and other pages that the kernel provides.
    Kernel,
}

/// A new mapping. It replaces whatever was mapped in its bytes before.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Virtual address of the first byte; a multiple of 4096.
    pub start: u64,
    /// Length in bytes; a multiple of 4096, not 0.
    pub len: u64,
    /// Protection.
    pub prot: Prot,
    /// Whether stores are seen by others (MAP_SHARED).
    pub shared: bool,
    /// What stands behind it.
    pub backing: Backing,
}

/// Advice of madvise that changes memory or page sizes; other advice is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Advice {
    /// MADV_DONTNEED, MADV_FREE and MADV_REMOVE: the contents are dropped.
    DontNeed,
    /// MADV_HUGEPAGE.
    HugePage,
    /// MADV_NOHUGEPAGE.
    NoHugePage,
    /// MADV_WILLNEED or MADV_POPULATE_*.
    WillNeed,
}

/// How an address space ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum End {
    /// exit or exit_group with this status.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Replaced by a new program; the new address space is the next `Start` with this one as its parent.
    Exec,
    /// The recorder vanished without a word (SIGKILL): everything up to here was recovered.
    Lost,
}

/// Every event that is not a reference. All concern the address space of their batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Defines block `id`.
    Define {
        /// Unique in the trace, below 2^31.
        id: u32,
        /// The block.
        block: Arc<Block>,
    },
    /// The first event of an address space that no `Fork` announced: the first program, and each exec.
    Start {
        /// Operating-system process id, for people.
        pid: u32,
        /// The address space before the exec, if there was one.
        parent: Option<Asid>,
        /// Path of the program.
        program: Arc<str>,
    },
    /// From here on `child` is a copy-on-write copy of this address space.
    Fork {
        /// The new address space.
        child: Asid,
    },
    /// New mapping.
    Map(Mapping),
    /// The bytes `[start, start+len)` are mapped no more.
    Unmap {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
    },
    /// mremap: the pages of the old place, with their contents, are now at the new place. Same start: grown or shrunk in place.
    Remap {
        /// Old first byte.
        old_start: u64,
        /// Old length.
        old_len: u64,
        /// New first byte.
        new_start: u64,
        /// New length.
        new_len: u64,
    },
    /// mprotect.
    Protect {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
        /// New protection.
        prot: Prot,
    },
    /// madvise.
    Advise {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
        /// What was advised.
        advice: Advice,
    },
    /// A thread begins.
    ThreadStart {
        /// Thread number inside its process.
        thread: u32,
    },
    /// A thread ends.
    ThreadExit {
        /// Thread number inside its process.
        thread: u32,
    },
    /// From here on the references are this thread's.
    Switch {
        /// Thread number inside its process.
        thread: u32,
    },
    /// The address space is gone.
    End(End),
}

/// A piece of the stream: some references and events of one address space, in program order. Immutable once built.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The address space all of it belongs to.
    pub asid: Asid,
    /// See the module text.
    pub words: Vec<u64>,
    /// The events that words name.
    pub ops: Vec<Op>,
}

impl From<Batch> for Cow<'_, Batch> {
    fn from(batch: Batch) -> Self {
        Cow::Owned(batch)
    }
}

impl<'b> From<&'b Batch> for Cow<'b, Batch> {
    fn from(batch: &'b Batch) -> Self {
        Cow::Borrowed(batch)
    }
}

impl Batch {
    /// An empty batch of `asid`.
    pub fn new(asid: Asid) -> Batch {
        Batch { asid, ..Batch::default() }
    }
    /// Appends an event.
    pub fn push_op(&mut self, op: Op) {
        self.words.push(OP_BIT | self.ops.len() as u64);
        self.ops.push(op);
    }
    /// Appends one execution of block `id`; `addrs` has one word per data reference of that block.
    pub fn push_block(&mut self, id: u32, addrs: &[u64]) {
        self.words.push(block_word(id, addrs.len()));
        self.words.extend_from_slice(addrs);
    }
    /// The event that a word with [`OP_BIT`] names.
    #[inline]
    pub fn op(&self, word: u64) -> Result<&Op, Broken> {
        let index = word & !OP_BIT;
        let op = usize::try_from(index).ok().and_then(|i| self.ops.get(i));
        op.ok_or(Broken::BadOp { index, have: self.ops.len() })
    }
    /// Nothing in it.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// One fetch, load or store, as every consumer that does not care for blocks wants it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// What it does.
    pub kind: Kind,
    /// Virtual address of its first byte.
    pub addr: u64,
    /// Bytes, at least 1.
    pub size: u32,
}

/// An item of an expanded stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A reference.
    Access(Access),
    /// Any other event, definitions included.
    Op(&'a Op),
}

/// Things by block id: an array for ids that come about as densely as a recorder gives them, a map for the rest. So one hostile id
/// does not ask for memory up to it.
#[derive(Clone, Debug)]
pub struct ById<T> {
    dense: Vec<Option<T>>,
    sparse: std::collections::HashMap<u32, T>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        ById { dense: Vec::new(), sparse: Default::default() }
    }
}

impl<T> ById<T> {
    /// What stands at `id`.
    #[inline(always)]
    pub fn get(&self, id: u32) -> Option<&T> {
        match self.dense.get(id as usize) {
            Some(slot) => slot.as_ref(),
            None => self.get_sparse(id),
        }
    }
    #[cold]
    fn get_sparse(&self, id: u32) -> Option<&T> {
        self.sparse.get(&id)
    }
    /// Puts something at an id where nothing is.
    pub fn insert(&mut self, id: u32, value: T) {
        let at = id as usize;
        if at >= self.dense.len() {
            if at > 4 * self.dense.len() + (1 << 16) {
                self.sparse.insert(id, value);
                return;
            }
            let end = (at + 1).max(self.dense.len() * 2).max(1024);
            self.dense.resize_with(end, || None);
            // What waited in the map for the array to grow.
            let (moved, stay) = std::mem::take(&mut self.sparse).into_iter().partition(|(i, _)| (*i as usize) < end);
            self.sparse = stay;
            let moved: std::collections::HashMap<u32, T> = moved;
            for (i, value) in moved {
                self.dense[i as usize] = Some(value);
            }
        }
        self.dense[at] = Some(value);
    }
}

/// The blocks defined so far. One per consumer: it grows as `Define`s pass by.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    by_id: ById<Arc<Block>>,
}

/// How a stream breaks the contract of this module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// A block was executed that no `Define` announced.
    #[error("block {id} was never defined")]
    UndefinedBlock {
        /// The unknown block.
        id: u32,
    },
    /// A word announces another number of addresses than its block has references.
    #[error("block {id} has {}, its execution announces {says}", several(*need as u64, "data reference"))]
    WrongCount {
        /// The block.
        id: u32,
        /// Data references it has.
        need: usize,
        /// What the word says.
        says: usize,
    },
    /// The batch ends inside a block.
    #[error("block {id} needs {}, with {} left in the batch", several(*need as u64, "address"), several(*have as u64, "word"))]
    CutBlock {
        /// The block.
        id: u32,
        /// Address words it has.
        need: usize,
        /// Words left in the batch.
        have: usize,
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

/// The addresses behind `words[at]`, an execution of a block with `need` data references.
#[inline]
pub fn addresses(words: &[u64], at: usize, need: usize) -> Result<&[u64], Broken> {
    let (id, says) = (block_id(words[at]), refs_behind(words[at]));
    if says != need {
        return Err(Broken::WrongCount { id, need, says });
    }
    words.get(at + 1..at + 1 + need).ok_or(Broken::CutBlock { id, need, have: words.len() - at - 1 })
}

/// Most block ids a trace may have; keeps a hostile trace from asking for all memory.
pub const MAX_BLOCKS: u32 = 1 << 26;

impl Blocks {
    /// Takes in a definition. The same id may be defined again only as the same block.
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

    /// The block that `words[at]` executes, and the addresses of its references.
    #[inline]
    pub fn execution<'w>(&self, words: &'w [u64], at: usize) -> Result<(&Arc<Block>, &'w [u64]), Broken> {
        let id = block_id(words[at]);
        let block = self.get(id).ok_or(Broken::UndefinedBlock { id })?;
        Ok((block, addresses(words, at, block.refs.len())?))
    }

    /// Expands a batch: every fetch, load and store and every event in program order. The plain way to read a stream; `each`
    /// returns `false` to stop early.
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
            for (r, &addr) in block.refs.iter().zip(addrs) {
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

/// What produces a stream: a reader, a live recorder, a generator.
pub trait Source {
    /// The next batch; `None` at the end. Errors name file, place and cause.
    fn next_batch(&mut self) -> Result<Option<Batch>, crate::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_dense_and_far_apart() {
        let mut by_id = ById::default();
        let ids = [3, 0, MAX_BLOCKS - 1, 70_000, 1, 200_000, 500_000_000, 65_000, 300_000, 1_000_000, 140_000];
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(by_id.get(*id), None);
            by_id.insert(*id, i);
            for (k, id) in ids.iter().enumerate().take(i + 1) {
                assert_eq!(by_id.get(*id), Some(&k));
            }
        }
        assert_eq!((by_id.get(2), by_id.get(u32::MAX)), (None, None));
        assert!(by_id.dense.len() < 3_000_000, "one far id takes no array: {}", by_id.dense.len());
    }
}
