//! A recorded system, batch by batch: what its memory and its registers have, and so what any page translates to.

use super::{Found, Memory, Mistake, Registers, Rights, walk};
use farreach_types::addr::{Asid, BASE_SHIFT, GUEST_ADDRESS_BITS, KERNEL, kernel_half, owner};
use farreach_types::event::{
    Access, Arch, Batch, Block, Blocks, Guest, Instr, Kind, NOT_EXECUTED, OP_BIT, Op, Register, block_id,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is heard while batches are read, after it took effect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Heard<'a> {
    /// A batch of a space begins.
    Batch(Asid),
    Access(Access),
    /// A register was written; before that the registers were these.
    Register(Registers, Register, u64),
    /// This page of 4 KB is no longer mapped by OZ-13.
    Unmapped(Asid, u64),
    Op(&'a Op),
}

#[derive(Clone, Debug)]
pub struct System {
    pub arch: Arch,
    pub memory: Memory,
    pub processors: Vec<Registers>,
    /// The processor that runs.
    pub running: usize,
    /// The space of the batch.
    pub space: Asid,
    /// CR3 when the upper half was used last (OZ-1).
    upper: u64,
    /// The registers of the processor that used an address last: those of one that starts are not complete.
    last: Option<Registers>,
    /// What CR3 or TTBR0 had when each space ran last.
    pub roots: BTreeMap<Asid, u64>,
    /// Whether each processor runs the kernel (OZ-9).
    pub kernel: Vec<bool>,
    pub mistake: Option<Mistake>,
    /// Frames of pages that are mapped by OZ-13.
    stale: BTreeMap<(Asid, u64), u64>,
    blocks: Blocks,
}

impl Default for System {
    fn default() -> System {
        System::new(None)
    }
}

impl System {
    pub fn new(mistake: Option<Mistake>) -> System {
        System {
            arch: Arch::X86,
            memory: Memory::new(),
            processors: Vec::new(),
            running: 0,
            space: KERNEL,
            upper: 0,
            last: None,
            roots: BTreeMap::new(),
            kernel: Vec::new(),
            mistake,
            stale: BTreeMap::new(),
            blocks: Blocks::default(),
        }
    }

    /// The registers by which a page of a space is translated (OZ-1).
    pub fn registers(&self, space: Asid, page: u64) -> Option<Registers> {
        let last = self.last?;
        let root0 = if kernel_half(page) { self.upper } else { *self.roots.get(&space)? };
        Some(Registers { root0, ..last })
    }

    /// What the tables say of a page of 4 KB now.
    pub fn walk(&self, space: Asid, page: u64) -> Option<Found> {
        walk(self.arch, &self.memory, &self.registers(space, page)?, page, self.mistake)
    }

    /// What a page of 4 KB translates to now.
    pub fn translate(&self, space: Asid, page: u64) -> Option<Found> {
        self.walk(space, page).or_else(|| {
            let frame = *self.stale.get(&(owner(space, page), page))?;
            let rights = Rights { user: true, write: true, user_exec: true, kernel_exec: true };
            Some(Found { frame, order: 0, leaf: 0, rights, global: kernel_half(page) })
        })
    }

    /// The tag of what the running processor uses.
    pub fn tag(&self) -> u16 {
        self.processors[self.running].tag(self.arch)
    }

    /// Reads a batch.
    pub fn read(&mut self, batch: &Batch, mut hear: impl FnMut(&System, Heard<'_>)) {
        self.space = batch.asid;
        if let Some(running) = self.processors.get(self.running)
            && batch.asid != KERNEL
        {
            self.roots.insert(batch.asid, running.root0);
        }
        hear(self, Heard::Batch(batch.asid));
        let mut at = 0;
        while at < batch.words.len() {
            let word = batch.words[at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).expect("a right stream");
                let ends = matches!(
                    op,
                    Op::Switch { .. }
                        | Op::Guest(Guest::Register { .. } | Guest::Entries { .. } | Guest::Invalidate(_))
                );
                let ended = if ends { std::mem::take(&mut self.stale) } else { BTreeMap::new() };
                ended.into_keys().for_each(|(space, page)| hear(self, Heard::Unmapped(space, page)));
                let heard = self.apply(op);
                hear(self, heard);
                at += 1;
                continue;
            }
            let (block, words) = self.blocks.execution(&batch.words, at).expect("a right stream");
            let (block, words) = (Arc::clone(block), words.to_vec());
            assert!(block_id(word) > 0, "blocks have numbers from 1");
            at += 1 + words.len();
            self.execute(&block, &words, &mut hear);
        }
    }

    fn execute(&mut self, block: &Block, words: &[u64], hear: &mut impl FnMut(&System, Heard<'_>)) {
        if let Some(first) = block.instrs.first() {
            self.kernel[self.running] = kernel_half(first.pc >> BASE_SHIFT);
        }
        let mut fetched = 0;
        let fetch = |instr: &Instr| Access { kind: Kind::Fetch, addr: instr.pc, size: instr.len };
        for (data, addr) in block.data(words) {
            while fetched < data.after as usize {
                self.access(fetch(&block.instrs[fetched]), hear);
                fetched += 1;
            }
            if addr != NOT_EXECUTED {
                self.access(Access { kind: data.kind, addr, size: data.size }, hear);
            }
        }
        for instr in &block.instrs[fetched..] {
            self.access(fetch(instr), hear);
        }
    }

    fn access(&mut self, access: Access, hear: &mut impl FnMut(&System, Heard<'_>)) {
        assert!(access.addr >> GUEST_ADDRESS_BITS == 0, "{access:x?} has more bits than addresses of the stream");
        let running = self.processors[self.running];
        self.last = Some(running);
        if kernel_half(access.addr >> BASE_SHIFT) {
            self.upper = running.root0;
        }
        hear(self, Heard::Access(access));
    }

    fn apply<'a>(&mut self, op: &'a Op) -> Heard<'a> {
        match op {
            Op::Define { id, block } => self.blocks.define(*id, block).expect("a right stream"),
            Op::Switch { thread } => self.running = *thread as usize,
            Op::Guest(Guest::Machine { arch, processors, .. }) => {
                self.arch = *arch;
                self.processors = vec![Registers::default(); *processors as usize];
                self.kernel = vec![true; *processors as usize];
            }
            Op::Guest(Guest::Register { register, value }) => {
                let before = self.processors[self.running];
                self.processors[self.running].set(*register, *value);
                return Heard::Register(before, *register, *value);
            }
            Op::Guest(Guest::Entries { address, values }) => {
                assert!(address.is_multiple_of(8) && address >> 12 == (address + 8 * values.len() as u64 - 8) >> 12);
                self.memory.extend((*address..).step_by(8).zip(values.iter().copied()));
            }
            Op::Guest(Guest::Stale { page, address }) => {
                let page = page >> BASE_SHIFT;
                self.stale.entry((owner(self.space, page), page)).or_insert(address >> BASE_SHIFT);
            }
            _ => {}
        }
        Heard::Op(op)
    }
}
