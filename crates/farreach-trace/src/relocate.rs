//! Other places for mappings, for streams whose addresses are recorded already: every new mapping begins at a multiple
//! of a given size (T94-53), or lies where Linux would put it, in a relocated address space.
//!
//! * A *cluster* is the memory that the recorded system placed by one decision. It moves as a whole, so that distances
//!   inside it stay. New clusters are: a new mapping, the new place of a moved one, the heap, a stack.
//! * Parts of an existing cluster are: growth of the heap and of a stack, growth in place, a mapping that replaces part
//!   of another one (the segments of a library, which the loader maps over a first mapping of the whole file), and
//!   before the first reference of a program, a mapping that begins where another ends (the segments of the program
//!   itself).
//! * Each cluster gets a place of its own above [`AREA`], where no program has addresses, with [`ROOM`] before and
//!   behind it to grow. Places are reused when a cluster is gone, the lowest first, so equal streams have equal
//!   addresses, and a program that maps and unmaps again and again does not use up the area.
//! * With [`Layout::Linux`] clusters that a running program maps have no room around them. A mapping that replaces a
//!   part of one and reaches beyond it is two mappings then, and growth in place for which there is no room is a move,
//!   as it is in Linux.
//! * Blocks are defined again under new numbers wherever their code lies in another place.
//! * References outside any mapping stay where they are. One that cannot be relocated (it lies in the area, or begins
//!   in one cluster and ends in another) is an error that names its address.
//!
//! The result is a renaming of pages: the sequence of references, their kinds, sizes and offsets in a page are the
//! same, and two of them are to the same page exactly if they were before. So designs that do not look at page numbers,
//! such as a fully associative TLB of one page size, miss exactly as before.

mod mappings;
mod places;
mod references;

use farreach_types::Error;
use farreach_types::addr::{Asid, BASE_SHIFT, Bytes};
use farreach_types::error::Result;
use farreach_types::event::{
    Backing, Batch, Block, Blocks, DataRef, Instr, MAX_BLOCKS, Mapping, NOT_EXECUTED, OP_BIT, Op, Source, block_id,
    block_word,
};
use hashbrown::{HashMap, HashSet};
pub use places::Layout;
use places::{Slot, TopDown};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where relocated addresses begin: beyond what a program on a 64-bit machine can map, and beyond the addresses of
/// whole systems (`farreach_types::addr::GUEST_ADDRESS_BITS`).
pub const AREA: u64 = 1 << 57;
/// Free room before and behind every cluster; also the largest alignment.
pub const ROOM: u64 = 1 << 36;
/// Where relocated addresses end.
const AREA_END: u64 = 1 << 63;
const PAGE: u64 = 1 << BASE_SHIFT;
/// Places remembered for data references.
const RECENT: usize = 1 << 10;

/// A stream with every new mapping aligned. See the module.
pub struct Relocated<S> {
    source: S,
    relocator: Relocator,
}

impl<S: Source> Relocated<S> {
    /// Aligns to `size` bytes.
    ///
    /// # Errors
    /// As [`Relocator::new`].
    pub fn new(source: S, size: u64) -> std::result::Result<Relocated<S>, String> {
        Relocated::with(source, Layout::Aligned(size))
    }

    /// Places mappings so.
    ///
    /// # Errors
    /// As [`Relocator::new`].
    pub fn with(source: S, layout: Layout) -> std::result::Result<Relocated<S>, String> {
        Ok(Relocated { source, relocator: Relocator::with(layout)? })
    }
}

impl<S: Source> Source for Relocated<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        self.source.next_batch()?.map(|batch| self.relocator.apply(&batch)).transpose()
    }
}

/// The transformation, for callers that have the batches.
pub struct Relocator {
    layout: Layout,
    blocks: Blocks,
    spaces: HashMap<Asid, Space>,
    /// New number of a block whose instructions begin at these addresses.
    placed: HashMap<(u32, Box<[u64]>), u32>,
}

/// One address space.
#[derive(Clone, Default)]
struct Space {
    /// What is mapped, by first byte.
    pieces: BTreeMap<u64, Piece>,
    clusters: Vec<Option<Cluster>>,
    /// All places so far, in ascending order, each with its cluster, if it has one.
    places: Vec<Slot>,
    /// Bytes of all first clusters of places, as if packed one behind the other.
    packed: u64,
    /// Clusters without a place of their own.
    stacked: TopDown,
    /// The program, until its first thread starts.
    program: Option<Arc<str>>,
    /// Bytes of other files that were mapped until then: the program's interpreter.
    interpreter: u64,
    /// Pages referenced while nothing was mapped there.
    wild: HashSet<u64>,
    /// Whether there was a reference.
    running: bool,
    /// Changes with every change of a mapping.
    generation: u64,
    /// New numbers of blocks, each with the generation in which it was found.
    code: HashMap<u32, (u64, u32)>,
    recent: Recent,
}

/// Mapped bytes of one cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    end: u64,
    cluster: usize,
    /// Its class, for the rules for new mappings.
    class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Heap,
    Stack,
    Other,
}

/// Memory that moves as a whole.
#[derive(Clone, Copy)]
struct Cluster {
    /// Added to an old address to get the new one.
    delta: u64,
    /// Mapped bytes.
    live: u64,
    /// Index of its place, if it has one of its own.
    place: Option<usize>,
}

/// Direct-mapped memory of page number, generation and delta. Empty until it is used.
#[derive(Clone, Default)]
struct Recent(Box<[(u64, u64, u64)]>);

/// Part of a range of old addresses: its bytes, and the cluster that is mapped there.
struct Part {
    start: u64,
    end: u64,
    piece: Option<Piece>,
}

impl Relocator {
    /// Aligns to `size` bytes.
    ///
    /// # Errors
    /// The size is not a power of two from 4 KB to 64 GB.
    pub fn new(size: u64) -> std::result::Result<Relocator, String> {
        Relocator::with(Layout::Aligned(size))
    }

    /// Places mappings so.
    ///
    /// # Errors
    /// As [`Relocator::new`].
    pub fn with(layout: Layout) -> std::result::Result<Relocator, String> {
        match layout {
            Layout::Aligned(size) if !size.is_power_of_two() || !(PAGE..=ROOM).contains(&size) => {
                let (least, most) = (Bytes(PAGE), Bytes(ROOM));
                Err(format!("mappings cannot be {layout}: a power of two from {least} to {most} is allowed"))
            }
            _ => Ok(Relocator { layout, blocks: Blocks::default(), spaces: HashMap::new(), placed: HashMap::new() }),
        }
    }

    /// The next batch of the stream, relocated.
    ///
    /// # Errors
    /// The stream breaks its contract, or has a reference that cannot be relocated.
    pub fn apply(&mut self, batch: &Batch) -> Result<Batch> {
        let mut out = Batch::new(batch.asid);
        let mut at = 0;
        self.words(batch, &mut at, &mut out).map_err(|what| Error::Trace {
            file: format!("mappings {}", self.layout),
            place: format!("address space {}, word {at}", batch.asid.0),
            what,
        })?;
        Ok(out)
    }

    fn words(&mut self, batch: &Batch, at: &mut usize, out: &mut Batch) -> std::result::Result<(), String> {
        let words = &batch.words[..];
        while let Some(&word) = words.get(*at) {
            if word & OP_BIT != 0 {
                self.op(batch.asid, batch.op(word).map_err(|why| why.to_string())?, out)?;
                *at += 1;
                continue;
            }
            let (block, addrs) = self.blocks.execution(words, *at).map_err(|why| why.to_string())?;
            let block = Arc::clone(block);
            let id = self.block(batch.asid, block_id(word), &block, out)?;
            // References that share an address word may lie in mappings that move apart.
            out.words.push(block_word(id, block.refs.len()));
            let space = self.spaces.entry(batch.asid).or_default();
            for (r, addr) in block.data(addrs) {
                out.words.push(space.reference(*r, addr)?);
            }
            *at += 1 + addrs.len();
        }
        Ok(())
    }

    /// The new number of a block, defined if need be.
    fn block(&mut self, asid: Asid, id: u32, block: &Block, out: &mut Batch) -> std::result::Result<u32, String> {
        let space = self.spaces.entry(asid).or_default();
        space.running = true;
        match space.code.get(&id) {
            Some(&(generation, new)) if generation == space.generation => return Ok(new),
            _ => {}
        }
        let move_one = |i: &Instr| Ok(Instr { pc: space.moved(i.pc, i.len, "instruction")?, ..*i });
        let instrs = block.instrs.iter().map(move_one).collect::<std::result::Result<Box<[Instr]>, String>>()?;
        let next = self.placed.len() as u32;
        let key = (id, instrs.iter().map(|i| i.pc).collect());
        let new = *self.placed.entry(key).or_insert(next);
        if new == next {
            if next >= MAX_BLOCKS {
                return Err(format!("more than {MAX_BLOCKS} blocks in all the places where code lay"));
            }
            out.push_op(Op::Define { id: new, block: Arc::new(Block { instrs, ..block.apart() }) });
        }
        space.code.insert(id, (space.generation, new));
        Ok(new)
    }

    fn op(&mut self, asid: Asid, op: &Op, out: &mut Batch) -> std::result::Result<(), String> {
        if let Op::Define { id, block } = op {
            return self.blocks.define(*id, block).map_err(|why| format!("block {id}: {why}"));
        }
        // It names a block by its old number, and machines do not look at it.
        if let Op::Code { .. } = op {
            return Ok(());
        }
        if op.is_mark() {
            out.push_op(op.clone());
            return Ok(());
        }
        let layout = self.layout;
        let space = self.spaces.entry(asid).or_default();
        match op {
            Op::Start { program, .. } => {
                space.program = Some(Arc::clone(program));
                out.push_op(op.clone());
            }
            Op::ThreadStart { .. } => {
                if let (Some(_), Layout::Linux) = (space.program.take(), layout) {
                    space.stacked.take_top(space.interpreter);
                }
                out.push_op(op.clone());
            }
            Op::Map(m) => space.map(m, layout, out)?,
            Op::Unmap { start, len } => space.unmap(*start, end(*start, *len)?, out)?,
            Op::Remap { old_start, old_len, new_start, new_len } => {
                space.remap(
                    (*old_start, end(*old_start, *old_len)?),
                    (*new_start, end(*new_start, *new_len)?),
                    layout,
                    out,
                )?;
            }
            Op::Protect { start, len, prot } => {
                for (start, len) in space.images(*start, end(*start, *len)?)? {
                    out.push_op(Op::Protect { start, len, prot: *prot });
                }
            }
            Op::Advise { start, len, advice } => {
                for (start, len) in space.images(*start, end(*start, *len)?)? {
                    out.push_op(Op::Advise { start, len, advice: *advice });
                }
            }
            Op::KernelStore { start, len } => {
                let end = end(*start, *len)?;
                space.uses(*start, end);
                for (start, len) in space.images(*start, end)? {
                    out.push_op(Op::KernelStore { start, len });
                }
            }
            Op::Fork { child } => {
                let copy = space.clone();
                self.spaces.insert(*child, copy);
                out.push_op(op.clone());
            }
            Op::End(_) => {
                self.spaces.remove(&asid);
                out.push_op(op.clone());
            }
            Op::Guest(_) => {
                return Err("a whole system cannot be relocated: its addresses are in its page tables".into());
            }
            _ => out.push_op(op.clone()),
        }
        Ok(())
    }
}

fn end(start: u64, len: u64) -> std::result::Result<u64, String> {
    start.checked_add(len).ok_or_else(|| format!("{len} bytes at {start:#x} reach past 2^64"))
}
