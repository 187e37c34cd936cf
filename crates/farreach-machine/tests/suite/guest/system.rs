//! A whole system that does things at random: page tables of x86-64 with four levels in its memory, a kernel in the
//! upper half of all address spaces, processes, virtual processors.

use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS, KERNEL, kernel_half};
use farreach_types::event::{Arch, Batch, Block, DataRef, Guest, Instr, Invalidate, Kind, Op, Register};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::sync::Arc;

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXEC: u64 = 1 << 63;

/// First pages of the areas in which programs, and the kernel, have pages.
pub const PROGRAM: [u64; 3] = [0x400, 0x5_5555_5400, 0x7_ffff_f000];
pub const KERNEL_AREAS: [u64; 3] = [0xf_fff8_8800_0000, 0xf_fffc_9000_0000, 0xf_ffff_fff8_1000];

/// Where a direct map is, if there is one.
pub const DIRECT_MAP: u64 = 0xf_fff8_a000_0000;

/// A page number as streams have it, of one with all bits.
pub fn in_stream(vpn: u64) -> u64 {
    vpn & ((1 << (GUEST_ADDRESS_BITS - 12)) - 1)
}

/// A leaf of the page table.
#[derive(Clone, Copy)]
struct Leaf {
    frame: u64,
    /// 1 or 512.
    pages: u64,
    flags: u64,
}

struct Space {
    asid: Asid,
    root: u64,
    leaves: BTreeMap<u64, Leaf>,
}

#[derive(Clone)]
struct Processor {
    space: usize,
    kernel: bool,
    /// Invalidations of others that it has not made yet.
    pending: Vec<Invalidate>,
}

/// See the module.
pub struct System {
    rng: Pcg64Mcg,
    pub batches: Vec<Batch>,
    tables: BTreeMap<u64, Box<[u64; 512]>>,
    next_frame: u64,
    /// The first is the kernel's half, whose root is that of space 0.
    spaces: Vec<Space>,
    processors: Vec<Processor>,
    running: usize,
    blocks: BTreeMap<(u64, u64), u32>,
}

/// A stream of this number of actions on these processors.
pub fn stream(seed: u64, processors: u32, actions: u64) -> Vec<Batch> {
    let mut system = System::new(seed, processors);
    for _ in 0..actions {
        system.act();
    }
    system.batches
}

impl System {
    pub fn new(seed: u64, processors: u32) -> System {
        let mut system = System {
            rng: Pcg64Mcg::seed_from_u64(seed),
            batches: vec![Batch::new(KERNEL)],
            tables: BTreeMap::new(),
            next_frame: 0x1000,
            spaces: Vec::new(),
            processors: vec![Processor { space: 0, kernel: true, pending: Vec::new() }; processors as usize],
            running: 0,
            blocks: BTreeMap::new(),
        };
        system.op(Guest::Machine { arch: Arch::X86, processors, memory: 1 << 30 });
        let root = system.table();
        system.spaces.push(Space { asid: KERNEL, root, leaves: BTreeMap::new() });
        for processor in (0..processors).rev() {
            if processors > 1 {
                system.last().push_op(Op::Switch { thread: processor });
            }
            system.op(Guest::Register { register: Register::Control, value: 1 << 5 | 1 << 7 });
            system.op(Guest::Register { register: Register::Root0, value: root << 12 });
        }
        for area in KERNEL_AREAS {
            for page in 0..8 {
                system.map(0, in_stream(area) + page, 1, if page < 4 { 0 } else { NO_EXEC });
            }
        }
        system.new_space();
        system
    }

    fn last(&mut self) -> &mut Batch {
        self.batches.last_mut().unwrap()
    }
    /// An event.
    pub fn op(&mut self, guest: Guest) {
        self.last().push_op(Op::Guest(guest));
    }
    fn below(&mut self, n: u64) -> u64 {
        self.rng.random_range(0..n)
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A new frame of a page table. Frames of zeros need not be told.
    fn table(&mut self) -> u64 {
        let frame = self.frames(1);
        self.tables.insert(frame, Box::new([0; 512]));
        frame
    }
    /// New frames, aligned to their number.
    fn frames(&mut self, pages: u64) -> u64 {
        let skip = if self.below(4) == 0 { 1 + self.below(5) } else { 0 };
        let first = (self.next_frame + skip).next_multiple_of(pages);
        self.next_frame = first + pages;
        first
    }
    fn write(&mut self, table: u64, index: usize, value: u64) {
        self.tables.get_mut(&table).unwrap()[index] = value;
        self.op(Guest::Entries { address: (table << 12) + index as u64 * 8, values: [value].into() });
    }

    /// The table and index of the entry of a page at a level: 0 for leaves of 4 KB, 1 for 2 MB.
    fn entry(&mut self, space: usize, vpn: u64, level: u32) -> (u64, usize) {
        let index = |level: u32| (vpn >> (9 * level)) as usize % 512;
        let mut table = self.spaces[space].root;
        for above in (level + 1..4).rev() {
            let at = index(above);
            let word = self.tables[&table][at];
            table = if word & PRESENT != 0 {
                assert_eq!(word & LARGE, 0, "a superpage is in the way");
                word << 1 >> 13
            } else {
                let next = self.table();
                let word = next << 12 | PRESENT | WRITE | USER;
                self.write(table, at, word);
                // The kernel's half is the same in all roots.
                if above == 3 && kernel_half(vpn) {
                    for root in self.spaces.iter().map(|s| s.root).filter(|&r| r != table).collect::<Vec<_>>() {
                        self.write(root, at, word);
                    }
                }
                next
            };
        }
        (table, index(level))
    }

    /// Maps pages, one or 512, to new frames.
    fn map(&mut self, space: usize, vpn: u64, pages: u64, flags: u64) {
        let frame = self.frames(pages);
        let half = if kernel_half(vpn) { GLOBAL } else { USER };
        self.put(space, vpn, Leaf { frame, pages, flags: flags | half | PRESENT | WRITE });
    }
    fn put(&mut self, space: usize, vpn: u64, leaf: Leaf) {
        let level = u32::from(leaf.pages > 1);
        let (table, index) = self.entry(space, vpn, level);
        let large = if leaf.pages > 1 { LARGE } else { 0 };
        self.write(table, index, leaf.frame << 12 | leaf.flags | large);
        self.spaces[space].leaves.insert(vpn, leaf);
    }
    /// A direct map: pages from [`DIRECT_MAP`] on, in the frames of their numbers. 512 of 4 KB, of which every
    /// eleventh may not be written and every thirteenth is not there, and 1024 of 2 MB.
    pub fn direct_map(&mut self) {
        for page in (512..1024).filter(|page| page % 13 > 0) {
            let write = if page % 11 > 0 { WRITE } else { 0 };
            let flags = PRESENT | GLOBAL | NO_EXEC | write;
            self.put(0, in_stream(DIRECT_MAP) + page, Leaf { frame: page, pages: 1, flags });
        }
        for page in [1024, 1536] {
            let flags = PRESENT | GLOBAL | NO_EXEC | WRITE;
            self.put(0, in_stream(DIRECT_MAP) + page, Leaf { frame: page, pages: 512, flags });
        }
    }
    /// Takes a leaf away. Its table, if empty, goes with it, so that a superpage can come.
    fn remove(&mut self, space: usize, vpn: u64) {
        let leaf = self.spaces[space].leaves.remove(&vpn).unwrap();
        let (table, index) = self.entry(space, vpn, u32::from(leaf.pages > 1));
        self.write(table, index, 0);
        if leaf.pages == 1 && self.tables[&table].iter().all(|word| *word == 0) {
            let (above, index) = self.entry(space, vpn, 1);
            self.write(above, index, 0);
        }
    }
    /// The guest says that a leaf is no longer valid, on all processors; on others when they run.
    fn invalidate(&mut self, vpn: u64, pages: u64) {
        let bytes = Some((vpn << 12, pages << 12));
        let one = Invalidate { tag: None, bytes, global: true, leaves: false, broadcast: false };
        for processor in &mut self.processors {
            processor.pending.push(one);
        }
        // Some come late.
        if self.below(3) > 0 {
            self.catch_up();
        }
    }
    fn catch_up(&mut self) {
        for one in std::mem::take(&mut self.processors[self.running].pending) {
            self.op(Guest::Invalidate(one));
        }
    }

    /// A process begins, and runs on the processor that does.
    pub fn new_space(&mut self) {
        let root = self.table();
        let asid = Asid(self.spaces.len() as u32);
        let kernel = *self.tables[&self.spaces[0].root].clone();
        for (index, word) in kernel.into_iter().enumerate().skip(256).filter(|(_, word)| *word != 0) {
            self.write(root, index, word);
        }
        self.spaces.push(Space { asid, root, leaves: BTreeMap::new() });
        let space = self.spaces.len() - 1;
        for area in PROGRAM {
            for page in 0..6 {
                self.map(space, area + page, 1, if page < 3 { 0 } else { NO_EXEC });
            }
        }
        self.go_to(space);
        let name = self.pick(&["sh", "make", "cc1"]);
        self.op(Guest::Name(name.into()));
    }
    /// Another address space runs.
    pub fn go_to(&mut self, space: usize) {
        let Space { root, asid, .. } = self.spaces[space];
        self.op(Guest::Register { register: Register::Root0, value: root << 12 });
        self.processors[self.running].space = space;
        self.batches.push(Batch::new(asid));
    }
    /// The kernel runs, or the program.
    pub fn privilege(&mut self, kernel: bool) {
        if std::mem::replace(&mut self.processors[self.running].kernel, kernel) != kernel {
            self.op(Guest::Privilege { kernel });
        }
    }

    /// Another processor runs.
    pub fn run_on(&mut self, processor: usize) {
        self.last().push_op(Op::Switch { thread: processor as u32 });
        self.running = processor;
        let asid = self.spaces[self.processors[processor].space].asid;
        if self.last().asid != asid {
            self.batches.push(Batch::new(asid));
        }
        self.catch_up();
    }

    /// This many loads of one page.
    pub fn load(&mut self, page: u64, times: u64) {
        let next = self.blocks.len() as u32 + 1;
        let id = *self.blocks.entry((u64::MAX, 0)).or_insert(next);
        if id == next {
            let block = Block { instrs: [].into(), refs: [DataRef::new(0, Kind::Load, 8, 0)].into() };
            self.last().push_op(Op::Define { id, block: Arc::new(block) });
        }
        for _ in 0..times {
            self.last().push_block(id, &[page << 12]);
        }
    }

    /// Something that a system does.
    pub fn act(&mut self) {
        match self.below(25) {
            0..10 => self.run(),
            10..15 => self.change(),
            15 | 16 => {
                self.op(Guest::Exception { vector: 14 });
                self.privilege(true);
            }
            17 | 18 if self.processors[self.running].space > 0 => self.privilege(false),
            19 | 20 => {
                self.privilege(true);
                let space = self.below(self.spaces.len() as u64) as usize;
                self.go_to(space);
            }
            21 if self.spaces.len() < 6 => {
                self.privilege(true);
                self.new_space();
            }
            22 | 23 if self.processors.len() > 1 => {
                let to = self.below(self.processors.len() as u64) as usize;
                self.run_on(to);
            }
            24 => self.use_stale(),
            _ => {}
        }
    }

    /// Loads of a page, mapped or not, by a translation that the processor is said to have still.
    fn use_stale(&mut self) {
        let page = match self.processors[self.running].kernel {
            true => in_stream(self.pick(&KERNEL_AREAS)),
            false => self.pick(&PROGRAM),
        } + 8
            + self.below(24);
        let address = self.below(1 << 20) << 12;
        self.op(Guest::Stale { page: page << 12, address });
        let times = 1 + self.below(3);
        self.load(page, times);
    }

    /// The page table changes, in the running space or the kernel's half.
    fn change(&mut self) {
        let space = if self.below(3) == 0 { 0 } else { self.processors[self.running].space };
        let area = if space == 0 { in_stream(self.pick(&KERNEL_AREAS)) } else { self.pick(&PROGRAM) };
        let many = if self.below(3) == 0 { 512 } else { 1 };
        // The first pages stay: code.
        let vpn = area + if many == 1 { 8 + self.below(24) } else { 512 * (1 + self.below(3)) };
        let overlaps = |(at, leaf): (&u64, &Leaf)| *at < vpn + many && at + leaf.pages > vpn;
        let there: Vec<u64> =
            self.spaces[space].leaves.iter().filter(|&(at, leaf)| overlaps((at, leaf))).map(|(at, _)| *at).collect();
        if there.is_empty() {
            let flags = self.pick(&[0, NO_EXEC]);
            return self.map(space, vpn, many, flags);
        }
        for at in there {
            let leaf = self.spaces[space].leaves[&at];
            match self.below(4) {
                0 => {
                    // Split, or taken away.
                    self.remove(space, at);
                    if leaf.pages > 1 {
                        for page in 0..16 {
                            let frame = leaf.frame + page;
                            self.put(space, at + page, Leaf { frame, pages: 1, ..leaf });
                        }
                    }
                }
                1 => self.put(space, at, Leaf { flags: leaf.flags ^ WRITE, ..leaf }),
                2 => {
                    let frame = self.frames(leaf.pages);
                    self.put(space, at, Leaf { frame, ..leaf });
                }
                _ => self.remove(space, at),
            }
            self.invalidate(at, leaf.pages);
        }
    }

    /// Pages that a reference may touch where the processor is, as (page, leaf).
    fn pages(&self, allowed: impl Fn(u64, &Leaf) -> bool) -> Vec<u64> {
        let space = self.processors[self.running].space;
        let spaces = if space == 0 { vec![0] } else { vec![0, space] };
        let all = spaces.into_iter().flat_map(|space| &self.spaces[space].leaves);
        let pages = all.filter(|(at, leaf)| allowed(**at, leaf));
        pages
            .flat_map(|(at, leaf)| (0..leaf.pages).step_by((leaf.pages / 4).max(1) as usize).map(move |i| at + i))
            .collect()
    }

    /// Blocks, over a few pages.
    fn run(&mut self) {
        let kernel = self.processors[self.running].kernel;
        let code = self.pages(|at, leaf| leaf.flags & NO_EXEC == 0 && kernel_half(at) == kernel);
        let data = self.pages(|at, _| kernel || !kernel_half(at));
        let writable = self.pages(|at, leaf| leaf.flags & WRITE != 0 && (kernel || !kernel_half(at)));
        let few = |system: &mut System, pages: &[u64]| -> Vec<u64> { (0..5).map(|_| system.pick(pages)).collect() };
        let (code, data, writable) = (few(self, &code), few(self, &data), few(self, &writable));
        for _ in 0..10 + self.below(60) {
            let (page, shape) = (self.pick(&code), self.below(SHAPES.len() as u64));
            let shapes = SHAPES[shape as usize];
            let id = self.block(page, shape);
            let words: Vec<u64> = shapes
                .iter()
                .map(|kind| {
                    let from = if *kind == Kind::Store { &writable } else { &data };
                    self.pick(from) << 12 | (self.below(512) * 8)
                })
                .collect();
            for _ in 0..1 + self.below(4) {
                self.last().push_block(id, &words);
            }
        }
    }

    fn block(&mut self, page: u64, shape: u64) -> u32 {
        let next = self.blocks.len() as u32 + 1;
        let id = *self.blocks.entry((page, shape)).or_insert(next);
        if id == next {
            let pc = (page << 12) + 64 * shape;
            let instrs = (0..3).map(|i| Instr { pc: pc + 4 * i, len: 4 }).collect();
            let refs = SHAPES[shape as usize].iter().zip(0..);
            let refs = refs.map(|(kind, word)| DataRef::new(1 + word % 3, *kind, 8, word)).collect::<Vec<_>>();
            let mut refs = refs;
            refs.sort_by_key(|r| (r.after, r.word));
            for (word, r) in refs.iter_mut().enumerate() {
                r.word = word as u32;
                r.kind = SHAPES[shape as usize][word];
            }
            let block = Arc::new(Block { instrs, refs: refs.into() });
            self.last().push_op(Op::Define { id, block });
        }
        id
    }
}

/// References of blocks.
const SHAPES: [&[Kind]; 6] = [
    &[],
    &[Kind::Load],
    &[Kind::Store],
    &[Kind::Load, Kind::Store],
    &[Kind::Load, Kind::Load, Kind::Store],
    &[Kind::Load, Kind::Store, Kind::Load, Kind::Load, Kind::Store],
];
