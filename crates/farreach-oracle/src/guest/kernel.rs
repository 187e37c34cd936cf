//! A kernel that plays at random: processes, page tables in physical memory, and the stream that a recorder would make
//! of it. For tests of what reads such streams.
//!
//! It knows what it means each page to translate to, and writes tables by [`mod@format`] alone, so that a walk can be
//! held to it ([`Kernel::known`]).
//!
//! * A *right* kernel says that a translation is no longer valid before anything uses it again. It breaks a translation
//!   before it makes another of its pages.
//! * A *late* kernel says so some steps later, and frees frames at once.

pub mod format;
mod frames;
mod shoot;
mod steps;
mod stream;
mod tables;

use super::Memory;
use crate::dice::Dice;
use farreach_types::event::{Arch, Batch, Block, Guest, Op};
use format::{Format, Means};
use frames::Frames;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct KernelConfig {
    pub format: Format,
    pub processors: usize,
    pub late: bool,
    /// x86-64: PCIDE. AArch64, where processes always have tags: A1, they are in TTBR1. RISC-V always has tags, too.
    pub tags: bool,
    /// Some pages of the kernel are not global.
    pub local_kernel: bool,
    /// Most processes.
    pub processes: usize,
}

/// A leaf, or one of a contiguous run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Physical address.
    pub at: u64,
    pub level: u32,
    pub means: Means,
    /// Part of a contiguous run.
    pub run: bool,
    /// Bits of the word that mean nothing to a walk.
    extra: u64,
}

/// Space, page of 4 KB, and if it is mapped its leaf and physical address.
pub type Known = (u32, u64, Option<(Leaf, u64)>);

/// The number of the space of the upper half, and that of the space without a program.
const KERNEL: u32 = 0;
const IDLE: u32 = 1;

struct Space {
    /// Physical address of its highest table.
    root: u64,
    /// Lower tables, by level and the address bits above.
    tables: BTreeMap<(u32, u64), u64>,
    /// By first address.
    leaves: BTreeMap<u64, Leaf>,
    /// ASID.
    tag: u16,
}

#[derive(Default)]
struct Processor {
    /// It has registers.
    ready: bool,
    space: u32,
    /// PCIDs from 1, and which spaces have them here.
    slots: [u32; 3],
    next_slot: usize,
    tag: u16,
    /// Spaces whose next load must drop their entries.
    pending: BTreeSet<u32>,
    /// A program runs.
    user: bool,
    page_global: bool,
}

/// A place where something can be mapped.
#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u64,
    level: u32,
    run: bool,
}

/// An invalidation that is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    space: u32,
    address: u64,
    bytes: u64,
    /// A table was unlinked, and not only a leaf.
    tables: bool,
}

pub struct Kernel {
    pub config: KernelConfig,
    dice: Dice,
    memory: Memory,
    /// What the stream said, and of which frames it says all.
    told: Memory,
    watched: BTreeSet<u64>,
    /// Tables whose entries above forbid stores.
    read_only: BTreeSet<u64>,
    frames: Frames,
    spaces: BTreeMap<u32, Space>,
    next_space: u32,
    retired_tags: Vec<u16>,
    next_tag: u16,
    processors: Vec<Processor>,
    running: usize,
    slots: [Vec<Slot>; 2],
    due: Vec<Due>,
    used: BTreeSet<(u32, u64)>,
    blocks: HashMap<Block, u32>,
    batch: Batch,
    out: Vec<Batch>,
}

impl Kernel {
    pub fn new(config: KernelConfig, seed: u64) -> Kernel {
        let format = config.format;
        let mut kernel = Kernel {
            config,
            dice: Dice::new(seed),
            memory: Memory::new(),
            told: Memory::new(),
            watched: BTreeSet::new(),
            read_only: BTreeSet::new(),
            frames: Frames::new(format),
            spaces: BTreeMap::new(),
            next_space: IDLE,
            retired_tags: Vec::new(),
            next_tag: 0,
            processors: (0..config.processors)
                .map(|_| Processor { page_global: true, ..Processor::default() })
                .collect(),
            running: 0,
            slots: [tables::slots(format, 0), tables::slots(format, format.upper())],
            due: Vec::new(),
            used: BTreeSet::new(),
            blocks: HashMap::new(),
            batch: Batch::default(),
            out: Vec::new(),
        };
        let (arch, processors) = (format.arch, config.processors as u32);
        kernel.op(Op::Guest(Guest::Machine { arch, processors, memory: 1 << 36 }));
        kernel.set_up();
        kernel
    }

    /// The kernel's text and the space without a program.
    fn set_up(&mut self) {
        let root = self.frames.root();
        let space = |root| Space { root, tables: BTreeMap::new(), leaves: BTreeMap::new(), tag: 0 };
        self.spaces.insert(KERNEL, space(root));
        // But for AArch64 both halves have one root. Its words of the upper half are made once and copied.
        let idle = if self.config.format.one_root() { root } else { self.frames.root() };
        self.spaces.insert(IDLE, space(idle));
        (self.next_space, self.next_tag) = (IDLE + 1, 1);
        if self.config.format.one_root() {
            for slot in self.slots[1].clone() {
                self.make_table(KERNEL, slot.address, self.config.format.levels() - 2);
            }
        }
        self.map_text(KERNEL);
        self.resume(0);
    }

    fn x86(&self) -> bool {
        self.config.format.arch == Arch::X86
    }

    fn riscv(&self) -> bool {
        self.config.format.arch == Arch::Riscv64
    }

    fn late(&self) -> bool {
        self.config.late
    }

    /// Plays some steps, and says what of the stream is new.
    pub fn play(&mut self, steps: usize) -> Vec<Batch> {
        (0..steps).for_each(|_| self.step());
        self.turn(self.batch.asid.0);
        std::mem::take(&mut self.out)
    }

    /// What is mapped, for all pages that were used and whose tables the stream has.
    pub fn known(&self) -> Vec<Known> {
        let alive = self.used.iter().filter(|(space, _)| self.spaces.contains_key(space));
        let known = alive.filter_map(|&(space, page)| {
            let address = page << 12;
            let path = self.path(space, address);
            path.iter().all(|at| self.watched.contains(&(at >> 12))).then_some(())?;
            let leaf = self.leaf_at(space, address);
            Some((space, page, leaf.map(|(first, leaf)| (leaf, leaf.at + (address - first)))))
        });
        known.collect()
    }

    fn op(&mut self, op: Op) {
        self.batch.push_op(op);
    }

    fn define(&mut self, block: Block) -> u32 {
        if let Some(id) = self.blocks.get(&block) {
            return *id;
        }
        let id = self.blocks.len() as u32 + 1;
        self.op(Op::Define { id, block: Arc::new(block.clone()) });
        self.blocks.insert(block, id);
        id
    }
}
