//! The one record between producers (recorder, trace readers, generators) and consumers (machines, writers, checkers).
//!
//! A program is a stream of [`Batch`]es. Each batch belongs to one address space and carries *words*:
//!
//! * a word with [`OP_BIT`] set is an [`Op`], an event other than a reference: `batch.ops[word & !OP_BIT]`;
//! * any other word ([`block_word`]) is an execution of a [`Block`] from its first to its last instruction: the id of
//!   the block in the low half, above it the number of address words that follow, exactly `block.words()`. So the next
//!   block is found without knowing this one. A data reference names a word and an offset, whose sum is its address:
//!   references whose addresses differ by the same amount at every execution (a push after a push, fields of one
//!   object) can share a word. A word of [`NOT_EXECUTED`] marks a conditional reference (a masked move) that did not
//!   happen; such a reference shares its word with no other.
//!
//! A block is defined once, by [`Op::Define`], before its first use; ids are unique in the whole trace, across
//! processes. So the constant part (instruction addresses and lengths, kind and size of each reference) is stored once,
//! an address costs eight bytes, and the stream is lossless: it expands to every fetch, load and store in program order
//! ([`Blocks::expand`]). A consumer may also look at a block as a whole, which is what makes simulation fast.

mod blocks;
mod by_id;
mod guest;
mod op;

pub use blocks::{Blocks, Broken, MAX_BLOCKS, StreamError, addresses};
pub use by_id::ById;
pub use guest::{Arch, Guest, Invalidate, MOST_PROCESSORS, Register};
pub use op::{Advice, Backing, Boundary, End, MAX_KERNEL_STORE, Mapping, Op, Prot, ThpRule};

use crate::Error;
use crate::addr::Asid;
use crate::plural::with_noun;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Set in a word that names an [`Op`].
pub const OP_BIT: u64 = 1 << 63;

/// The address word of a conditional reference that did not happen.
pub const NOT_EXECUTED: u64 = u64::MAX;

/// The word for an execution of block `id`, with the number of address words that follow it.
#[inline(always)]
pub const fn block_word(id: u32, words: usize) -> u64 {
    id as u64 | (words as u64) << 32
}
/// The block that a word without [`OP_BIT`] executes.
#[inline(always)]
pub const fn block_id(word: u64) -> u32 {
    word as u32
}
/// Number of address words that follow a word without [`OP_BIT`].
#[inline(always)]
pub const fn words_behind(word: u64) -> usize {
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

/// One data reference of a block. Its address comes with each execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct DataRef {
    /// How many instructions of the block are fetched before this reference: `1..=instrs.len()` for a reference of
    /// instruction `after - 1`, 0 for a reference that precedes every fetch of the block (a block may have no fetch at
    /// all).
    pub after: u32,
    /// Load or store, never fetch.
    pub kind: Kind,
    /// Size in bytes, at least 1.
    pub size: u32,
    /// Which address word of an execution its address is in. Words are numbered in the order in which references begin
    /// to use them, from 0.
    pub word: u32,
    /// Offset of its address from that word, in bytes. 0 if the word is its own.
    pub offset: u32,
}

impl DataRef {
    /// A reference with a word of its own.
    pub const fn new(after: u32, kind: Kind, size: u32, word: u32) -> DataRef {
        DataRef { after, kind, size, word, offset: 0 }
    }

    /// Its address in an execution with these address words; [`NOT_EXECUTED`] if it did not happen.
    #[inline(always)]
    pub fn address(&self, words: &[u64]) -> u64 {
        address_in(words, self.word, self.offset)
    }
}

/// The sum of one of these address words and `offset`.
#[inline(always)]
pub fn address_in(words: &[u64], word: u32, offset: u32) -> u64 {
    words[word as usize].wrapping_add(offset.into())
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
    /// Bytes of all instructions together.
    pub fn code_bytes(&self) -> usize {
        self.instrs.iter().map(|i| i.len as usize).sum()
    }

    /// Checks that [`Op::Code`] of this block may have this number of bytes; the message says why not.
    pub fn validate_code(&self, bytes: usize) -> Result<(), String> {
        match self.code_bytes() {
            need if need == bytes => Ok(()),
            need => Err(format!("{} of code, and its instructions have {need}", with_noun(bytes as u64, "byte"))),
        }
    }

    /// Address words of an execution.
    pub fn words(&self) -> usize {
        self.refs.iter().map(|r| r.word as usize + 1).max().unwrap_or(0)
    }

    /// The reference with this address word, if it is the only one.
    pub fn only_user(&self, word: usize) -> Option<&DataRef> {
        let mut users = self.refs.iter().filter(|r| r.word as usize == word);
        users.next().filter(|_| users.next().is_none())
    }

    /// The data references with their addresses in an execution with these address words; [`NOT_EXECUTED`] for those
    /// that did not happen.
    #[inline]
    pub fn data<'a>(&'a self, words: &'a [u64]) -> impl Iterator<Item = (&'a DataRef, u64)> {
        self.refs.iter().map(move |r| (r, r.address(words)))
    }

    /// Whether the instruction of the `i`-th reference, a load, also stores to its address in an execution with these
    /// address words, as `add` to memory does: such a load faults as a store. False in blocks without instructions.
    pub fn changes(&self, i: usize, words: &[u64]) -> bool {
        let load = self.refs[i];
        let same = |r: &&DataRef| r.after == load.after;
        !self.instrs.is_empty()
            && load.kind == Kind::Load
            && self.refs[i + 1..]
                .iter()
                .take_while(same)
                .any(|r| r.kind == Kind::Store && r.address(words) == load.address(words))
    }

    /// The same with a word for each reference, for consumers that give references addresses of their own.
    pub fn apart(&self) -> Block {
        let alone = |(word, r): (u32, &DataRef)| DataRef { word, offset: 0, ..*r };
        Block { instrs: self.instrs.clone(), refs: (0..).zip(&self.refs).map(alone).collect() }
    }

    /// Checks what every consumer relies on; the message says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        if self.instrs.is_empty() && self.refs.is_empty() {
            return Err("a block without instructions and references".into());
        }
        for (i, instr) in self.instrs.iter().enumerate() {
            if instr.len == 0 || instr.len > MAX_INSTR_BYTES || instr.pc.checked_add(u64::from(instr.len)).is_none() {
                return Err(format!(
                    "instruction {i} at {:#x} has length {} (1 to {MAX_INSTR_BYTES} allowed)",
                    instr.pc, instr.len
                ));
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
                    with_noun(self.instrs.len() as u64, "instruction")
                ));
            }
            before = r.after;
        }
        self.validate_words()?;
        if self.refs.len() as u64 >= OP_BIT >> 32 {
            return Err(format!("{} (fewer than 2^31 allowed)", with_noun(self.refs.len() as u64, "data reference")));
        }
        Ok(())
    }

    /// Words are numbered in order, and shared only by references that lie close together.
    fn validate_words(&self) -> Result<(), String> {
        let mut users = Vec::new();
        for (i, r) in self.refs.iter().enumerate() {
            if r.word as usize > users.len() {
                return Err(format!("data reference {i} has address word {}; {} is the next", r.word, users.len()));
            }
            if r.word as usize == users.len() {
                users.push(0u32);
            }
            users[r.word as usize] += 1;
        }
        for (i, r) in self.refs.iter().enumerate() {
            let shared = users[r.word as usize] > 1;
            if shared && r.offset.checked_add(r.size).is_none_or(|end| end > MAX_SPREAD) {
                return Err(format!(
                    "data reference {i} is {} at {} behind an address that it shares ({MAX_SPREAD} bytes in all \
                     allowed)",
                    with_noun(r.size.into(), "byte"),
                    r.offset
                ));
            }
            if !shared && r.offset != 0 {
                return Err(format!(
                    "data reference {i} is {} behind an address word of its own (0 allowed)",
                    with_noun(r.offset.into(), "byte")
                ));
            }
        }
        Ok(())
    }
}

/// Longest instruction.
pub const MAX_INSTR_BYTES: u32 = 64;

/// Largest size of one data reference. XSAVE areas stay below it.
pub const MAX_REF_BYTES: u32 = 1 << 16;

/// Most bytes between the first and the last that references with one address word touch.
pub const MAX_SPREAD: u32 = 128;

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
    /// Appends one execution of block `id` with the address words of that block.
    pub fn push_block(&mut self, id: u32, words: &[u64]) {
        self.words.push(block_word(id, words.len()));
        self.words.extend_from_slice(words);
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
    /// What is wrong with the word at this index, as an error.
    pub fn broken(&self, at: usize, what: impl ToString) -> Error {
        let place = format!("address space {}, word {at}", self.asid.0);
        Error::Trace { file: Error::STREAM.into(), place, what: what.to_string() }
    }
}

/// One fetch, load or store, for consumers that do not work on blocks.
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

/// What produces a stream: a reader, a live recorder, a generator.
pub trait Source {
    /// The next batch; `None` at the end. Errors name file, place and cause.
    fn next_batch(&mut self) -> Result<Option<Batch>, crate::Error>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>, crate::Error> {
        (**self).next_batch()
    }
}
