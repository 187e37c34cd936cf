//! A stream as instructions, one after the other, each with its references and its successor.

use std::io::Write;

use hashbrown::HashMap;

use super::code::{Code, Disassembler};
use super::{Holds, Sink, Step, Stop, Written};
use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS};
use farreach_types::event::{
    Access, Batch, Block, Blocks, ById, Guest, Instr, Kind, NOT_EXECUTED, OP_BIT, Op, block_id,
};
use farreach_types::plural::with_noun;

/// Bytes that are passed on at a time.
const BUFFER: usize = 1 << 18;
/// Most data references of a step: a trace may have no instructions.
const MOST: usize = 64;
/// Bits of an address, and of one of a whole system.
const BITS: u32 = 64;
const PAGE: u64 = 4096;

/// See the module.
pub(super) struct Steps<'a> {
    blocks: Blocks,
    codes: ById<Box<[Code]>>,
    disassembler: Disassembler,
    threads: Threads,
    rest: Rest<'a>,
}

/// What has been read and not passed on, and what takes it.
struct Rest<'a> {
    sink: Box<dyn Sink>,
    holds: Holds,
    /// Name of the format.
    name: &'static str,
    bytes: Vec<u8>,
    out: &'a mut dyn Write,
    pending: Option<Pending>,
    /// Those of `pending`.
    data: Vec<Access>,
    counts: Counts,
    /// Addresses are shifted left and back by this number of bits, which makes copies of the highest.
    unused: u32,
}

/// The last instruction, whose successor is not known yet.
struct Pending {
    asid: Asid,
    thread: u32,
    instr: Option<Instr>,
    /// Its block and its number there.
    place: (u32, usize),
}

/// What is written and what is not.
#[derive(Default)]
struct Counts {
    written: Written,
    mappings: u64,
    kernel_stores: u64,
    processes: u64,
    threads: u64,
    system: u64,
    spaces: u64,
    crossing: u64,
}

/// Which thread runs.
#[derive(Default)]
struct Threads {
    /// Address space of the batch.
    asid: Option<Asid>,
    /// The number, in its process, of the thread that runs in an address space.
    running: HashMap<Asid, u32>,
    /// Numbers in the whole trace of those that have references.
    known: HashMap<(Asid, u32), u32>,
    numbered: u32,
    /// That of the running one, once it has a reference.
    current: Option<u32>,
}

impl Threads {
    fn current(&mut self, asid: Asid) -> u32 {
        *self.current.get_or_insert_with(|| {
            let thread = self.running.get(&asid).copied().unwrap_or(0);
            *self.known.entry((asid, thread)).or_insert_with(|| {
                self.numbered += 1;
                self.numbered - 1
            })
        })
    }

    /// Takes out those of an address space, or all, in the order of their numbers.
    fn take(&mut self, asid: Option<Asid>) -> Vec<(Asid, u32)> {
        let ended = |key: &(Asid, u32), _: &mut u32| asid.is_none_or(|asid| key.0 == asid);
        let mut all: Vec<_> = self.known.extract_if(ended).map(|((asid, _), number)| (asid, number)).collect();
        all.sort_unstable_by_key(|&(_, number)| number);
        self.current = None;
        all
    }
}

impl<'a> Steps<'a> {
    pub fn new(sink: Box<dyn Sink>, name: &'static str, out: &'a mut dyn Write) -> Steps<'a> {
        let holds = sink.holds();
        Steps {
            blocks: Blocks::default(),
            codes: ById::default(),
            disassembler: Disassembler::new(),
            threads: Threads::default(),
            rest: Rest {
                sink,
                holds,
                name,
                bytes: Vec::with_capacity(2 * BUFFER),
                out,
                pending: None,
                data: Vec::with_capacity(MOST),
                counts: Counts::default(),
                unused: 0,
            },
        }
    }

    /// Takes a batch.
    pub fn batch(&mut self, batch: &Batch) -> Result<(), Stop> {
        if self.threads.asid.replace(batch.asid) != Some(batch.asid) {
            self.rest.counts.spaces += 1;
            self.threads.current = None;
        }
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            if word & OP_BIT != 0 {
                self.op(batch.asid, batch.op(word).map_err(|why| why.to_string())?)?;
                at += 1;
                continue;
            }
            let (block, addrs) = self.blocks.execution(&batch.words, at).map_err(|why| why.to_string())?;
            let thread = self.threads.current(batch.asid);
            self.rest.execution(&self.codes, (batch.asid, thread), (block_id(word), block), addrs)?;
            at += 1 + addrs.len();
        }
        Ok(())
    }

    fn op(&mut self, asid: Asid, op: &Op) -> Result<(), Stop> {
        let counts = &mut self.rest.counts;
        match op {
            Op::Define { id, block } => self.blocks.define(*id, block).map_err(|why| format!("block {id}: {why}"))?,
            Op::Code { id, bytes } => self.code(*id, bytes)?,
            Op::Pages => {
                let name = self.rest.name;
                let what = "this is a page trace: it has no addresses within pages, and";
                return Err(format!("{what} {name} must have them").into());
            }
            Op::Samples => {
                let name = self.rest.name;
                return Err(format!("these are samples: {name} cannot say so, and would pass for a whole trace").into());
            }
            Op::Boundary(_) => return Err("a boundary of parts of a run is not written".to_owned().into()),
            Op::Guest(guest) => {
                if !self.rest.holds.systems {
                    return Err(format!("this is a whole system, and {} is of programs", self.rest.name).into());
                }
                if let Guest::Machine { .. } = guest {
                    self.rest.unused = BITS - GUEST_ADDRESS_BITS;
                }
                counts.system += 1;
            }
            Op::Map(_) | Op::Unmap { .. } | Op::Remap { .. } | Op::Protect { .. } | Op::Advise { .. } | Op::Thp(_) => {
                counts.mappings += 1
            }
            Op::KernelStore { .. } => counts.kernel_stores += 1,
            Op::Start { .. } => counts.processes += 1,
            Op::Fork { child } => {
                counts.processes += 1;
                if let Some(&thread) = self.threads.running.get(&asid) {
                    self.threads.running.insert(*child, thread);
                }
            }
            Op::End(_) => {
                counts.processes += 1;
                let ended = self.threads.take(Some(asid));
                self.exit(ended)?;
            }
            Op::ThreadStart { thread } => {
                counts.threads += 1;
                self.threads.running.entry(asid).or_insert(*thread);
            }
            Op::Switch { thread } => {
                counts.threads += 1;
                self.threads.running.insert(asid, *thread);
                self.threads.current = None;
            }
            Op::ThreadExit { thread } => {
                counts.threads += 1;
                self.threads.current = None;
                let number = self.threads.known.remove(&(asid, *thread));
                self.exit(number.map(|number| (asid, number)))?;
            }
        }
        Ok(())
    }

    fn code(&mut self, id: u32, bytes: &[u8]) -> Result<(), String> {
        let block = self.blocks.get(id).ok_or_else(|| format!("code of block {id}, which was never defined"))?;
        block.validate_code(bytes.len()).map_err(|why| format!("block {id} has {why}"))?;
        if self.rest.holds.code
            && self.codes.get(id).is_none()
            && let Some(code) = self.disassembler.block(block, bytes)
        {
            self.codes.insert(id, code);
        }
        Ok(())
    }

    /// These threads have ended.
    fn exit(&mut self, threads: impl IntoIterator<Item = (Asid, u32)>) -> Result<(), Stop> {
        for (asid, thread) in threads {
            if self.rest.pending.as_ref().is_some_and(|last| last.thread == thread) {
                self.rest.pass_on(&self.codes, None)?;
            }
            self.rest.sink.exit(asid, thread, &mut self.rest.bytes);
        }
        Ok(())
    }

    /// The end of the stream.
    pub fn finish(&mut self) -> Result<(), Stop> {
        self.rest.pass_on(&self.codes, None)?;
        let ended = self.threads.take(None);
        self.exit(ended)?;
        let Rest { sink, bytes, out, counts, holds, .. } = &mut self.rest;
        let lost = sink.finish(bytes);
        counts.written.lost = counts.lost(holds).into_iter().chain(lost).collect();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Stop::Io)
    }

    /// What was written.
    pub fn written(self) -> Written {
        self.rest.counts.written
    }

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.rest.counts.written.instructions
    }
}

impl Rest<'_> {
    fn execution(
        &mut self,
        codes: &ById<Box<[Code]>>,
        (asid, thread): (Asid, u32),
        (id, block): (u32, &Block),
        addrs: &[u64],
    ) -> Result<(), Stop> {
        let mut data = block.data(addrs).peekable();
        let instrs = std::iter::once(None).chain(block.instrs.iter().map(Some));
        for (fetched, instr) in instrs.enumerate() {
            if let Some(&Instr { pc, len }) = instr {
                let pc = self.whole(pc);
                let same = self.pending.as_ref().is_some_and(|last| last.thread == thread);
                self.pass_on(codes, same.then_some(pc))?;
                self.counts.written.instructions += 1;
                self.crosses(pc, len);
                let instr = Some(Instr { pc, len });
                self.pending = Some(Pending { asid, thread, instr, place: (id, fetched - 1) });
            }
            while let Some((r, addr)) = data.next_if(|(r, _)| r.after as usize == fetched) {
                if addr == NOT_EXECUTED {
                    continue;
                }
                let addr = self.whole(addr);
                let full = self.data.len() == MOST;
                if full || self.pending.as_ref().is_none_or(|last| last.thread != thread) {
                    self.pass_on(codes, None)?;
                    self.pending = Some(Pending { asid, thread, instr: None, place: (id, 0) });
                }
                *(if r.kind == Kind::Store {
                    &mut self.counts.written.stores
                } else {
                    &mut self.counts.written.loads
                }) += 1;
                self.crosses(addr, r.size);
                self.data.push(Access { kind: r.kind, addr, size: r.size });
            }
        }
        Ok(())
    }

    fn whole(&self, addr: u64) -> u64 {
        ((addr << self.unused) as i64 >> self.unused) as u64
    }

    fn crosses(&mut self, addr: u64, size: u32) {
        self.counts.crossing += u64::from(addr % PAGE + u64::from(size) > PAGE);
    }

    /// Passes on what is pending; `next` is its successor.
    fn pass_on(&mut self, codes: &ById<Box<[Code]>>, next: Option<u64>) -> Result<(), Stop> {
        let Some(Pending { asid, thread, instr, place: (id, at) }) = self.pending.take() else { return Ok(()) };
        let code = codes.get(id).filter(|_| instr.is_some()).map(|code| &code[at]);
        self.sink.step(&Step { asid, thread, instr, code, next, data: &self.data }, &mut self.bytes)?;
        self.data.clear();
        if self.bytes.len() >= BUFFER {
            self.out.write_all(&self.bytes).map_err(Stop::Io)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

impl Counts {
    /// A line for each kind of what a format does not hold.
    fn lost(&self, holds: &Holds) -> Vec<String> {
        let mut lost = Vec::new();
        let events = |n: u64, of: &str| format!("left out: {} of {of}", with_noun(n, "event"));
        if self.mappings > 0 {
            lost.push(events(self.mappings, "mappings"));
        }
        if self.kernel_stores > 0 {
            lost.push(events(self.kernel_stores, "stores of the kernel"));
        }
        if self.system > 0 {
            lost.push(events(self.system, "page tables and processors"));
        }
        if self.processes > 0 {
            lost.push(events(self.processes, "processes"));
        }
        let switches = self.spaces.saturating_sub(1);
        if !holds.spaces && switches > 0 {
            let many = with_noun(switches, "switch of address space");
            lost.push(format!("left out: {many}: all references are in one"));
        }
        if !holds.threads && self.threads > 0 {
            lost.push(events(self.threads, "threads"));
        }
        if !holds.sizes {
            let all = with_noun(self.written.references(), "reference");
            let pages = if self.crossing > 0 {
                format!(", and so {} of 4 KB that they reach into", with_noun(self.crossing, "second page"))
            } else {
                String::new()
            };
            lost.push(format!("left out: the sizes of {all}{pages}"));
        }
        lost
    }
}
