//! The stream as columns, one element for each reference, and back: for programs that work on arrays.
//!
//! [`Expander`] writes a stream out, block by block: what never changes of a block is copied as a whole, and only the
//! addresses of data are put in. [`Collector`] makes a stream of single references.

use crate::assemble::Assembler;
use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::{
    Batch, Block, Blocks, ById, Kind, MAX_INSTR_BYTES, MAX_REF_BYTES, NOT_EXECUTED, OP_BIT, Op, addresses, block_id,
};
use std::ops::Range;

/// References in program order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    /// Virtual address of the first byte.
    pub address: Vec<u64>,
    /// Bytes.
    pub size: Vec<u32>,
    /// [`code`] of the kind.
    pub kind: Vec<u8>,
    /// Address space.
    pub space: Vec<u32>,
    /// Events between the references, definitions of blocks left out: how many references stand before it, address
    /// space, event.
    pub events: Vec<(usize, Asid, Op)>,
}

impl Columns {
    /// References.
    pub fn len(&self) -> usize {
        self.address.len()
    }
    /// Neither references nor events.
    pub fn is_empty(&self) -> bool {
        self.address.is_empty() && self.events.is_empty()
    }
}

/// The number that stands for a kind in a column: 0 fetch, 1 load, 2 store.
pub const fn code(kind: Kind) -> u8 {
    kind as u8
}

/// The kind that a number stands for.
fn kind(code: u8) -> Option<Kind> {
    [Kind::Fetch, Kind::Load, Kind::Store].into_iter().find(|&kind| kind as u8 == code)
}

/// A block as it stands in columns.
struct Template {
    address: Box<[u64]>,
    size: Box<[u32]>,
    kind: Box<[u8]>,
    /// Where data addresses go, and what they are made of.
    data: Box<[Hole]>,
    words: usize,
}

struct Hole {
    at: u32,
    word: u32,
    offset: u32,
}

impl Template {
    fn of(block: &Block) -> Template {
        let (mut address, mut size, mut kind, mut data) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut put = |addr, bytes, what| {
            address.push(addr);
            size.push(bytes);
            kind.push(code(what));
            address.len() as u32 - 1
        };
        let mut fetched = 0;
        for r in &block.refs {
            for instr in &block.instrs[fetched..r.after as usize] {
                put(instr.pc, instr.len, Kind::Fetch);
            }
            fetched = r.after as usize;
            let at = put(0, r.size, r.kind);
            data.push(Hole { at, word: r.word, offset: r.offset });
        }
        for instr in &block.instrs[fetched..] {
            put(instr.pc, instr.len, Kind::Fetch);
        }
        let (address, size, kind, data) = (address.into(), size.into(), kind.into(), data.into());
        Template { address, size, kind, data, words: block.words() }
    }
}

/// Writes a stream out as columns.
#[derive(Default)]
pub struct Expander {
    /// For their checks, and for the rare block that is written out reference by reference.
    blocks: Blocks,
    templates: ById<Template>,
}

impl Expander {
    /// Appends the words of a batch from `from` on to `columns`, until these have `enough` references or more. Returns
    /// the word to go on with; at the end, the number of words.
    ///
    /// # Errors
    /// [`Error::Trace`]: the batch breaks the contract of [`farreach_types::event`].
    pub fn expand(&mut self, batch: &Batch, from: usize, enough: usize, columns: &mut Columns) -> Result<usize> {
        let words = &batch.words[..];
        let mut at = from;
        while at < words.len() && columns.len() < enough {
            let word = words[at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| batch.broken(at, why))?;
                match op {
                    Op::Define { id, block } => {
                        self.blocks.define(*id, block).map_err(|why| batch.broken(at, why))?;
                        if self.templates.get(*id).is_none() {
                            self.templates.insert(*id, Template::of(block));
                        }
                    }
                    // What a block is, as definitions.
                    Op::Code { .. } => {}
                    op => columns.events.push((columns.len(), batch.asid, op.clone())),
                }
                at += 1;
                continue;
            }
            let known = self
                .templates
                .get(block_id(word))
                .and_then(|template| Some((template, addresses(words, at, template.words).ok()?)));
            let Some((template, addrs)) = known else {
                // It says what is wrong.
                self.blocks.execution(words, at).map_err(|why| batch.broken(at, why))?;
                unreachable!("every block that is defined has a template");
            };
            if addrs.contains(&NOT_EXECUTED) {
                self.conditional(words, at, columns).map_err(|why| batch.broken(at, why))?;
            } else {
                let first = columns.address.len();
                columns.address.extend_from_slice(&template.address);
                columns.size.extend_from_slice(&template.size);
                columns.kind.extend_from_slice(&template.kind);
                let address = &mut columns.address[first..];
                for hole in &template.data {
                    address[hole.at as usize] = addrs[hole.word as usize].wrapping_add(hole.offset.into());
                }
            }
            at += 1 + addrs.len();
        }
        columns.space.resize(columns.address.len(), batch.asid.0);
        Ok(at)
    }

    /// An execution of which some references did not happen.
    #[cold]
    fn conditional(&self, words: &[u64], at: usize, columns: &mut Columns) -> std::result::Result<(), String> {
        let (block, addrs) = self.blocks.execution(words, at).map_err(|why| why.to_string())?;
        let mut put = |addr, size, kind| {
            columns.address.push(addr);
            columns.size.push(size);
            columns.kind.push(code(kind));
        };
        let mut fetched = 0;
        for (r, addr) in block.data(addrs) {
            for instr in &block.instrs[fetched..r.after as usize] {
                put(instr.pc, instr.len, Kind::Fetch);
            }
            fetched = r.after as usize;
            if addr != NOT_EXECUTED {
                put(addr, r.size, r.kind);
            }
        }
        for instr in &block.instrs[fetched..] {
            put(instr.pc, instr.len, Kind::Fetch);
        }
        Ok(())
    }
}

/// Slices of columns, for [`Collector::push`]. All have the same length; `None` stands for a column with one value.
#[derive(Clone, Copy)]
pub struct Slices<'a> {
    /// Virtual address of the first byte.
    pub address: &'a [u64],
    /// Bytes, or the number of all of them.
    pub size: std::result::Result<&'a [u32], u32>,
    /// [`code`]s, or that of all.
    pub kind: std::result::Result<&'a [u8], u8>,
    /// Address spaces, or that of all.
    pub space: std::result::Result<&'a [u32], u32>,
}

/// Makes a stream of single references: what follows one another becomes one block.
pub struct Collector {
    made: Assembler,
    /// Name for messages.
    name: String,
    /// References so far.
    seen: u64,
}

impl Collector {
    /// Nothing yet. `name` stands in messages.
    pub fn new(name: &str) -> Collector {
        Collector { made: Assembler::new(0), name: name.to_owned(), seen: 0 }
    }

    fn fail(&self, what: String) -> Error {
        Error::Trace { file: self.name.clone(), place: format!("reference {}", self.seen), what }
    }

    /// Appends these references.
    ///
    /// # Errors
    /// [`Error::Trace`] with the number of the reference, counted from 0, and what is allowed: its kind, its size, or
    /// that it reaches the end of the address space; or the stream has too many different instructions.
    pub fn push(&mut self, from: Slices, range: Range<usize>) -> Result<()> {
        for i in range {
            let of = |column: std::result::Result<&[u32], u32>| column.map_or_else(|one| one, |column| column[i]);
            let (addr, size, space) = (from.address[i], of(from.size), of(from.space));
            let number = from.kind.map_or_else(|one| one, |column| column[i]);
            self.one(addr, size, number, Asid(space)).map_err(|what| self.fail(what))?;
            self.seen += 1;
        }
        Ok(())
    }

    #[inline]
    fn one(&mut self, addr: u64, size: u32, number: u8, space: Asid) -> std::result::Result<(), String> {
        let kind = kind(number)
            .ok_or_else(|| format!("kind = {number} is not allowed: kind must be 0 (fetch), 1 (load) or 2 (store)"))?;
        let most = if kind == Kind::Fetch { MAX_INSTR_BYTES } else { MAX_REF_BYTES };
        if size == 0 || size > most {
            return Err(format!("size = {size} is not allowed: size must be from 1 to {most}"));
        }
        if addr.checked_add(u64::from(size)).is_none() {
            return Err(format!(
                "address = {addr:#x} is not allowed with size = {size}: the last byte must lie below 2^64-1"
            ));
        }
        self.made.space(space)?;
        match kind {
            Kind::Fetch => self.made.instr(addr, size),
            kind => self.made.data(addr, size, kind),
        }
    }

    /// Appends an event of an address space.
    ///
    /// # Errors
    /// As [`Collector::push`].
    pub fn op(&mut self, space: Asid, op: Op) -> Result<()> {
        let done = self.made.space(space).and_then(|()| self.made.op(op));
        done.map_err(|what| self.fail(what))
    }

    /// What is collected, once it is a batch; at the end of all references (`last`) whatever there is.
    ///
    /// # Errors
    /// As [`Collector::push`].
    pub fn take(&mut self, last: bool) -> Result<Option<Batch>> {
        if last {
            self.made.flush().map_err(|what| self.fail(what))?;
        }
        Ok(if last || self.made.is_full() { self.made.take() } else { None })
    }
}
