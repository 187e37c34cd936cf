//! A memory that records all references to it.

use super::memory::{Element, Memory, STEPS, Site, System};
use farreach_trace::generate::{CODE, DATA, STACK_END};
use farreach_types::addr::{Asid, DIRECT_MAP, VARIABLE_MAPPINGS};
use farreach_types::event::{Backing, Batch, Block, DataRef, End, Instr, Kind, Mapping, Op, Prot, block_word};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

const PAGE: u64 = 4096;
/// Bytes of one instruction, and of a site, which has room for eight.
const INSTR: u64 = 4;
const SITE_BYTES: u64 = 8 * INSTR;
const STACK_BYTES: u64 = 128 << 10;
/// First byte past the mappings of large arrays, which are placed one below the other.
const MAPPINGS_END: u64 = 0x7fff_0000_0000;
/// From this size on, glibc gives an array a mapping of its own, after a header of 16 bytes.
const LARGE: u64 = 128 << 10;
const HEADER: u64 = 16;

const BATCH_WORDS: usize = 1 << 14;
/// The reader was dropped. Unwinding carries this through the kernel without calling the panic hook.
struct Stopped;

/// Where an allocator puts arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One after the other in the brk heap, as in the papers of the nineties.
    Heap,
    /// Arrays of 128 KB or more get a mapping of their own, as with glibc; smaller ones lie in the heap.
    Mapped,
}

/// What a memory must know of its program.
pub(super) struct Program {
    /// Name of the kernel.
    pub name: &'static str,
    /// Where its arrays lie.
    pub layout: Layout,
    /// Length of its text in pages of 4 KB.
    pub text_pages: u32,
}

/// A memory that traces.
pub struct Traced {
    out: SyncSender<Batch>,
    batch: Batch,
    /// By site: block id + 1; 0 while not defined.
    ids: Vec<u32>,
    defined: u32,
    made: u64,
    budget: u64,
    layout: Layout,
    keep_opaque: bool,
    /// The break, and the end of the mapped heap.
    brk: u64,
    heap_end: u64,
    mappings: u64,
    stack: u64,
}

/// An array of a [`Traced`] memory. An opaque one keeps no values.
pub struct TracedArray<T> {
    base: u64,
    len: usize,
    values: Vec<T>,
}

impl<T: Element> TracedArray<T> {
    #[inline(always)]
    fn addr(&self, i: usize) -> u64 {
        self.base + (i * size_of::<T>()) as u64
    }
    #[inline(always)]
    fn get(&self, i: usize) -> T {
        match self.values.get(i) {
            Some(value) => *value,
            None => self.unknown(i),
        }
    }
    #[inline(always)]
    fn set(&mut self, i: usize, value: T) {
        match self.values.get_mut(i) {
            Some(slot) => *slot = value,
            None => drop(self.unknown(i)),
        }
    }
    #[inline(always)]
    fn unknown(&self, i: usize) -> T {
        assert!(i < self.len && self.values.is_empty(), "element {i} of {}", self.len);
        T::default()
    }
}

impl Traced {
    pub(super) fn new(out: SyncSender<Batch>, program: &Program, budget: u64, keep_opaque: bool) -> Traced {
        let mut traced = Traced {
            out,
            batch: Batch::new(Asid(0)),
            ids: vec![0; (program.text_pages * STEPS) as usize],
            defined: 0,
            made: 0,
            budget,
            layout: program.layout,
            keep_opaque,
            brk: DATA,
            heap_end: DATA,
            mappings: MAPPINGS_END,
            stack: STACK_END - PAGE,
        };
        let path: Arc<str> = format!("kernel/{}", program.name).into();
        traced.batch.push_op(Op::Start { pid: 1, parent: None, program: Arc::clone(&path) });
        let text = Prot { read: true, write: false, exec: true };
        traced.map(CODE, u64::from(program.text_pages) * PAGE, text, Backing::File { path, offset: 0 });
        traced.map(STACK_END - STACK_BYTES, STACK_BYTES, Prot::RW, Backing::Stack);
        traced
    }

    fn map(&mut self, start: u64, len: u64, prot: Prot, backing: Backing) {
        let shared = backing == Backing::Kernel;
        self.batch.push_op(Op::Map(Mapping { start, len, prot, shared, backing }));
    }

    /// Room for `bytes`; its first address.
    fn place(&mut self, bytes: u64) -> u64 {
        if self.layout == Layout::Mapped && bytes >= LARGE {
            let len = (bytes + HEADER).next_multiple_of(PAGE);
            self.mappings -= len;
            self.map(self.mappings, len, Prot::RW, Backing::Anonymous);
            return self.mappings + HEADER;
        }
        let start = self.brk;
        self.brk += bytes.next_multiple_of(16);
        if self.brk > self.heap_end {
            let (from, to) = (self.heap_end, self.brk.next_multiple_of(PAGE));
            self.map(from, to - from, Prot::RW, Backing::Heap);
            self.heap_end = to;
        }
        start
    }

    fn new_array<T: Element>(&mut self, base: u64, len: usize, keep: bool) -> TracedArray<T> {
        TracedArray { base, len, values: if keep { vec![T::default(); len] } else { Vec::new() } }
    }

    /// The word for an execution of a site's block. Defines the block at its first execution.
    #[inline(always)]
    fn block(&mut self, at: Site, refs: &'static [Kind], size: usize) -> u64 {
        let id = match self.ids[at.0 as usize] {
            0 => self.define(at, refs, size),
            id => id - 1,
        };
        block_word(id, refs.len())
    }

    /// A reference takes three instructions and is made by the second. An update takes four, a block without references
    /// eight.
    #[cold]
    fn define(&mut self, at: Site, refs: &'static [Kind], size: usize) -> u32 {
        let count = [8, 3, 4][refs.len()];
        let pc = CODE + u64::from(at.0) * SITE_BYTES;
        let instrs = (0..count).map(|i| Instr { pc: pc + i * INSTR, len: INSTR as u32 }).collect();
        let refs = (0..).zip(refs).map(|(word, &kind)| DataRef::new(2 + word, kind, size as u32, word)).collect();
        let id = self.defined;
        self.batch.push_op(Op::Define { id, block: Arc::new(Block { instrs, refs }) });
        self.defined += 1;
        self.ids[at.0 as usize] = self.defined;
        id
    }

    #[inline(always)]
    fn emit<const N: usize>(&mut self, words: [u64; N], refs: u64) {
        self.made += refs;
        self.batch.words.extend_from_slice(&words);
        if self.batch.words.len() >= BATCH_WORDS {
            self.hand_over();
        }
    }

    /// The program exits.
    pub(super) fn end(&mut self) {
        self.batch.push_op(Op::End(End::Exit(0)));
        self.hand_over();
    }

    #[cold]
    fn hand_over(&mut self) {
        let mut next = Batch::new(Asid(0));
        next.words.reserve_exact(BATCH_WORDS + 64);
        if self.out.send(std::mem::replace(&mut self.batch, next)).is_err() {
            resume_unwind(Box::new(Stopped));
        }
    }
}

impl Memory for Traced {
    type Array<T: Element> = TracedArray<T>;

    fn array<T: Element>(&mut self, len: usize) -> TracedArray<T> {
        let base = self.place((len * size_of::<T>()) as u64);
        self.new_array(base, len, true)
    }
    fn opaque<T: Element>(&mut self, len: usize) -> TracedArray<T> {
        let base = self.place((len * size_of::<T>()) as u64);
        self.new_array(base, len, self.keep_opaque)
    }
    fn system<T: Element>(&mut self, of: System, len: usize) -> TracedArray<T> {
        let start = match of {
            System::DirectMap => DIRECT_MAP.start,
            System::Variable => VARIABLE_MAPPINGS,
        };
        self.map(start, ((len * size_of::<T>()) as u64).next_multiple_of(PAGE), Prot::RW, Backing::Kernel);
        self.new_array(start, len, self.keep_opaque)
    }
    fn stack<T: Element>(&mut self, len: usize) -> TracedArray<T> {
        self.stack -= ((len * size_of::<T>()) as u64).next_multiple_of(16);
        assert!(self.stack >= STACK_END - STACK_BYTES, "the stack is full");
        self.new_array(self.stack, len, true)
    }
    fn read<T: Element>(&mut self, into: &mut TracedArray<T>, values: impl Iterator<Item = T>) {
        into.values.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    }
    #[inline(always)]
    fn load<T: Element>(&mut self, at: Site, from: &TracedArray<T>, i: usize) -> T {
        let block = self.block(at, &[Kind::Load], size_of::<T>());
        self.emit([block, from.addr(i)], 1);
        from.get(i)
    }
    #[inline(always)]
    fn store<T: Element>(&mut self, at: Site, to: &mut TracedArray<T>, i: usize, value: T) {
        let block = self.block(at, &[Kind::Store], size_of::<T>());
        self.emit([block, to.addr(i)], 1);
        to.set(i, value);
    }
    #[inline(always)]
    fn update<T: Element>(&mut self, at: Site, of: &mut TracedArray<T>, i: usize, f: impl FnOnce(T) -> T) -> T {
        let block = self.block(at, &[Kind::Load, Kind::Store], size_of::<T>());
        let addr = of.addr(i);
        self.emit([block, addr, addr], 2);
        let value = f(of.get(i));
        of.set(i, value);
        value
    }
    #[inline(always)]
    fn work(&mut self, at: Site) {
        let block = self.block(at, &[], 0);
        self.emit([block], 0);
    }
    #[inline(always)]
    fn budget_left(&mut self) -> bool {
        self.made < self.budget
    }
}
