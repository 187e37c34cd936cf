//! Small streams written by hand, and machines to run them through.

use farreach_hw::tlb::EntryView;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::addr::Asid;
use farreach_types::counts::{MachineResult, RunResult};
use farreach_types::event::{Advice, Backing, Batch, Block, DataRef, End, Instr, Kind, Mapping, Op, Prot};
use std::sync::Arc;

/// Block that loads 8 bytes; one that stores 8 bytes.
const LOAD: u32 = 1;
const STORE: u32 = 2;

/// A stream of page touches and events.
pub struct Stream {
    pub batches: Vec<Batch>,
    fetches: std::collections::HashMap<u64, u32>,
}

impl Stream {
    pub fn new() -> Stream {
        let mut s = Stream { batches: vec![Batch::new(Asid(0))], fetches: Default::default() };
        for (id, kind) in [(LOAD, Kind::Load), (STORE, Kind::Store)] {
            let block = Arc::new(Block { instrs: [].into(), refs: [DataRef::new(0, kind, 8, 0)].into() });
            s.op(Op::Define { id, block });
        }
        s
    }
    fn last(&mut self) -> &mut Batch {
        self.batches.last_mut().unwrap()
    }
    pub fn space(&mut self, asid: u32) -> &mut Self {
        self.batches.push(Batch::new(Asid(asid)));
        self
    }
    pub fn op(&mut self, op: Op) -> &mut Self {
        self.last().push_op(op);
        self
    }
    pub fn start(&mut self) -> &mut Self {
        self.op(Op::Start { pid: 1, parent: None, program: "test".into() })
    }
    pub fn load(&mut self, page: u64) -> &mut Self {
        self.last().push_block(LOAD, &[page << 12]);
        self
    }
    pub fn store(&mut self, page: u64) -> &mut Self {
        self.last().push_block(STORE, &[page << 12]);
        self
    }
    pub fn loads(&mut self, pages: impl IntoIterator<Item = u64>) -> &mut Self {
        for p in pages {
            self.load(p);
        }
        self
    }
    pub fn fetch(&mut self, page: u64) -> &mut Self {
        let next = 100 + self.fetches.len() as u32;
        let id = *self.fetches.entry(page).or_insert(next);
        if id == next {
            let block = Arc::new(Block { instrs: [Instr { pc: page << 12, len: 4 }].into(), refs: [].into() });
            self.op(Op::Define { id, block });
        }
        self.last().push_block(id, &[]);
        self
    }
    pub fn map(&mut self, start: u64, pages: u64, prot: Prot, shared: bool, backing: Backing) -> &mut Self {
        self.op(Op::Map(Mapping { start: start << 12, len: pages << 12, prot, shared, backing }))
    }
    pub fn anon(&mut self, start: u64, pages: u64) -> &mut Self {
        self.map(start, pages, Prot::RW, false, Backing::Anonymous)
    }
    /// A shared, writable mapping of a file from its beginning.
    pub fn file(&mut self, start: u64, pages: u64, path: &str) -> &mut Self {
        self.map(start, pages, Prot::RW, true, Backing::File { path: path.into(), offset: 0 })
    }
    pub fn unmap(&mut self, start: u64, pages: u64) -> &mut Self {
        self.op(Op::Unmap { start: start << 12, len: pages << 12 })
    }
    pub fn protect(&mut self, start: u64, pages: u64, prot: Prot) -> &mut Self {
        self.op(Op::Protect { start: start << 12, len: pages << 12, prot })
    }
}

/// Processes that start and end at random, and map, unmap, protect, advise and fork.
pub struct RandomProcesses {
    live: Vec<u32>,
    next: u32,
    /// Where the heap of the first process ends, if it grows.
    top: Option<u64>,
}

impl RandomProcesses {
    /// One process, with 64 pages of heap from page 0x100 on.
    pub fn new(s: &mut Stream, heap: Prot, grows: bool) -> RandomProcesses {
        s.start().map(0x100, 64, heap, false, Backing::Heap);
        RandomProcesses { live: vec![0], next: 1, top: grows.then_some(0x140) }
    }

    /// An event of one of them, or none; false if it ended by that. `below` gives numbers below another.
    pub fn act(&mut self, s: &mut Stream, below: &mut impl FnMut(u64) -> u64) -> bool {
        let asid = self.live[below(self.live.len() as u64) as usize];
        s.space(asid);
        let (start, len) = (0x100 + 8 * below(80), 8 * (1 + below(12)));
        match (below(12), &mut self.top) {
            (0..4, _) => _ = s.anon(start, len),
            (4, _) => _ = s.unmap(start, len),
            (5, _) => {
                _ = s.protect(start, len, if below(2) == 0 { Prot::RW } else { Prot { write: false, ..Prot::RW } })
            }
            (6, _) => {
                let advice = [Advice::HugePage, Advice::DontNeed][below(2) as usize];
                s.op(Op::Advise { start: start << 12, len: len << 12, advice });
            }
            (7, Some(top)) if asid == 0 => {
                s.map(*top, 16, Prot::RW, false, Backing::Heap);
                *top += 16;
            }
            (8, _) if self.live.len() < 3 => {
                s.op(Op::Fork { child: Asid(self.next) });
                self.live.push(self.next);
                self.next += 1;
            }
            (9, _) if asid != 0 => {
                s.op(Op::End(End::Exit(0)));
                self.live.retain(|a| *a != asid);
                return false;
            }
            _ => {}
        }
        true
    }
}

/// The state at the end of a run.
pub struct Outcome {
    pub result: RunResult,
    pub entries: Vec<Vec<EntryView>>,
}

impl Outcome {
    pub fn machine(&self, i: usize) -> &MachineResult {
        &self.result.machines[i]
    }
    pub fn misses(&self) -> Vec<u64> {
        self.result.machines.iter().map(|m| m.counts.tlb.misses).collect()
    }
    /// Frames by page as the valid entries of machine `i` give them.
    pub fn frames(&self, i: usize) -> std::collections::BTreeMap<u64, u64> {
        let pages = self.entries[i].iter().flat_map(|e| e.pages.iter().map(|(o, t, _)| (e.base.0 + o, t.pfn.0)));
        pages.collect()
    }
}

pub fn lab(machines: &[&str], plain: bool, threads: usize) -> Lab {
    let specs = machines.iter().map(|m| MachineSpec::parse(m, 7).unwrap()).collect();
    Lab::new(specs, Options { plain, seed: 7, threads, twice: true, ..Options::default() }).unwrap()
}

pub fn run_batches(machines: &[&str], batches: &[Batch], plain: bool, threads: usize) -> Outcome {
    let mut lab = lab(machines, plain, threads);
    loop {
        for batch in batches {
            lab.feed(batch).unwrap();
        }
        lab.finish().unwrap();
        if !lab.again().unwrap() {
            break;
        }
    }
    Outcome { result: lab.result("test", None), entries: lab.entries() }
}

/// Runs the stream with and without shortcuts, on one thread and on three, and returns the one result (XC-4).
pub fn run(machines: &[&str], stream: &Stream) -> Outcome {
    let fast = run_batches(machines, &stream.batches, false, 1);
    for (plain, threads) in [(true, 1), (false, 3)] {
        let other = run_batches(machines, &stream.batches, plain, threads);
        assert_eq!(fast.result, other.result, "plain {plain}, {threads} threads: nothing may change");
        assert_eq!(fast.entries, other.entries, "plain {plain}, {threads} threads: nothing may change");
    }
    fast
}
