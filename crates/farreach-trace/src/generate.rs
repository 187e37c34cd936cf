//! Streams from a seed, for tests and benches: no program needed, the same bytes on every machine.
//!
//! Every generator begins with `Start` and its `Map`s and ends with `End`; [`Checker`](super::Checker) accepts them
//! all.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

use farreach_types::addr::Asid;
use farreach_types::error::Result;
use farreach_types::event::{
    Advice, Backing, Batch, Block, DataRef, End, Instr, Kind, Mapping, NOT_EXECUTED, Op, Prot, Source,
};

mod system;

pub use system::{System, system};

/// Where the code of generated programs lies.
pub const CODE: u64 = 0x40_0000;
/// Where their data begins.
pub const DATA: u64 = 0x10_0000_0000;
/// First byte past their stack.
pub const STACK_END: u64 = 0x7fff_ffff_f000;

const BATCH_WORDS: usize = 1 << 14;

/// One loop over one array. Each turn fetches three instructions, loads eight bytes, and stores to them if it is an
/// update.
pub struct Loop {
    turns: u64,
    done: u64,
    bytes: u64,
    update: bool,
    next: Box<dyn FnMut(u64) -> u64 + Send>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Running,
    After,
}

/// Updates of uniformly random words of `pages` 4 KB pages (GUPS): `turns` loads, each with its store. `pages` at least
/// 1.
pub fn uniform(seed: u64, pages: u64, turns: u64) -> Loop {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let words = pages.max(1) * 512;
    Loop::new(turns, words * 8, true, Box::new(move |_| rng.random_range(0..words) * 8))
}

/// Loads every eighth byte of `pages` 4 KB pages in order, again and again, `turns` loads in all.
pub fn sequential(pages: u64, turns: u64) -> Loop {
    strided(8, pages, turns)
}

/// Loads every `stride` bytes of `pages` 4 KB pages, beginning anew at the end, `turns` loads in all.
pub fn strided(stride: u64, pages: u64, turns: u64) -> Loop {
    let (stride, bytes) = (stride.max(1), pages.max(1) * 4096);
    let steps = ((bytes - 8) / stride + 1).max(1);
    Loop::new(turns, bytes, false, Box::new(move |turn| turn % steps * stride))
}

impl Loop {
    fn new(turns: u64, bytes: u64, update: bool, next: Box<dyn FnMut(u64) -> u64 + Send>) -> Loop {
        Loop { turns, done: 0, bytes, update, next, state: State::Before }
    }

    fn begin(&mut self, batch: &mut Batch) {
        batch.push_op(Op::Start { pid: 1, parent: None, program: "generated".into() });
        batch.push_op(map(CODE, 4096, Prot { read: true, write: false, exec: true }, Backing::Anonymous));
        batch.push_op(map(DATA, self.bytes, Prot::RW, Backing::Anonymous));
        let instrs = [0, 4, 8].map(|o| Instr { pc: CODE + o, len: 4 }).into();
        let load = DataRef::new(1, Kind::Load, 8, 0);
        let store = DataRef::new(2, Kind::Store, 8, 1);
        let refs = if self.update { vec![load, store] } else { vec![load] };
        batch.push_op(Op::Define { id: 0, block: Arc::new(Block { instrs, refs: refs.into() }) });
    }
}

impl Source for Loop {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let mut batch = Batch::new(Asid(0));
        match self.state {
            State::Before => self.begin(&mut batch),
            State::Running => {}
            State::After => return Ok(None),
        }
        self.state = State::Running;
        while batch.words.len() < BATCH_WORDS && self.done < self.turns {
            let addr = DATA + (self.next)(self.done);
            batch.push_block(0, &[addr, addr][..1 + usize::from(self.update)]);
            self.done += 1;
        }
        if self.done == self.turns {
            batch.push_op(Op::End(End::Exit(0)));
            self.state = State::After;
        }
        Ok(Some(batch))
    }
}

/// A program with everything a trace can have: loops over code, a stack, heap objects, conditional references, mappings
/// that are made, moved and removed, threads, forks, sometimes an exec, and ends. `steps` is the number of steps (a run
/// of blocks or an event).
pub fn program(seed: u64, steps: u64) -> Program {
    Program {
        rng: Pcg64Mcg::seed_from_u64(seed),
        steps,
        done: 0,
        spaces: Vec::new(),
        blocks: Vec::new(),
        next_asid: 0,
        state: State::Before,
    }
}

/// See [`program`].
pub struct Program {
    rng: Pcg64Mcg,
    steps: u64,
    done: u64,
    /// Address spaces that have not ended.
    spaces: Vec<LiveSpace>,
    blocks: Vec<Arc<Block>>,
    next_asid: u32,
    state: State,
}

#[derive(Clone)]
struct LiveSpace {
    asid: Asid,
    sp: u64,
    heap: u64,
    /// Mappings of the heap area, by start and length, in ascending order.
    maps: Vec<(u64, u64)>,
    threads: u32,
}

/// Most address spaces at one time.
const MOST_SPACES: usize = 6;

impl Program {
    fn new_asid(&mut self) -> Asid {
        self.next_asid += 1;
        Asid(self.next_asid - 1)
    }

    /// Begins an address space by `Start`.
    fn start(&mut self, asid: Asid, parent: Option<Asid>, batch: &mut Batch) -> LiveSpace {
        let code = Backing::File { path: format!("/usr/bin/prog{}", asid.0).into(), offset: 4096 * u64::from(asid.0) };
        let pid = 1000 + self.rng.random_range(0..100);
        batch.push_op(Op::Start { pid, parent, program: format!("/usr/bin/prog{}", asid.0).into() });
        batch.push_op(map(CODE, 1 << 20, Prot { read: true, write: false, exec: true }, code));
        batch.push_op(map(DATA, 1 << 20, Prot::RW, Backing::Heap));
        batch.push_op(map(STACK_END - (1 << 17), 1 << 17, Prot::RW, Backing::Stack));
        batch.push_op(map(STACK_END, 8192, Prot { read: true, write: false, exec: true }, Backing::Kernel));
        batch.push_op(Op::ThreadStart { thread: 1 });
        LiveSpace { asid, sp: STACK_END - 4096, heap: DATA, maps: vec![(DATA, 1 << 20)], threads: 1 }
    }

    /// A known block, or sometimes a new one.
    fn block(&mut self, batch: &mut Batch) -> u32 {
        if self.blocks.is_empty() || (self.blocks.len() < 2000 && self.rng.random_range(0..12) == 0) {
            let mut pc = CODE + self.rng.random_range(0..(1u64 << 20) - 256);
            let instrs: Box<[Instr]> = (0..self.rng.random_range(0..9))
                .map(|_| {
                    let len = self.rng.random_range(1..12);
                    pc += u64::from(len);
                    Instr { pc: pc - u64::from(len), len }
                })
                .collect();
            let most = if instrs.is_empty() { 1..2 } else { 0..5 };
            let mut after = 0;
            let refs: Box<[DataRef]> = (0..self.rng.random_range(most))
                .map(|word| {
                    after = self.rng.random_range(after..=instrs.len() as u32);
                    let kind = if self.rng.random_bool(0.3) { Kind::Store } else { Kind::Load };
                    DataRef::new(after, kind, 1 << self.rng.random_range(0..6), word)
                })
                .collect();
            let block = Arc::new(Block { instrs, refs });
            self.blocks.push(Arc::clone(&block));
            batch.push_op(Op::Define { id: self.blocks.len() as u32 - 1, block });
            return self.blocks.len() as u32 - 1;
        }
        self.rng.random_range(0..self.blocks.len()) as u32
    }

    /// Runs a few blocks a few times.
    fn run(&mut self, s: &mut LiveSpace, batch: &mut Batch) {
        let body: Vec<u32> = (0..self.rng.random_range(1..6)).map(|_| self.block(batch)).collect();
        s.sp = (s.sp - 256 + 16 * self.rng.random_range(0..32)).clamp(STACK_END - (1 << 16), STACK_END - 4096);
        for turn in 0..self.rng.random_range(1..40u64) {
            for &id in &body {
                let block = Arc::clone(&self.blocks[id as usize]);
                let addrs: Vec<u64> = (0..block.refs.len() as u64)
                    .map(|i| match self.rng.random_range(0..20) {
                        0 => NOT_EXECUTED,
                        1..8 => s.sp + 8 * i,
                        8..14 => s.heap + 64 * turn + 8 * i,
                        14..19 => {
                            let (start, len) = s.maps[self.rng.random_range(0..s.maps.len())];
                            start + self.rng.random_range(0..len - 64)
                        }
                        _ => self.rng.random_range(0..1 << 47),
                    })
                    .collect();
                batch.push_block(id, &addrs);
            }
        }
    }

    fn event(&mut self, s: &mut LiveSpace, batch: &mut Batch) {
        let pick = self.rng.random_range(0..s.maps.len());
        let (start, len) = s.maps[pick];
        let pages = 4096 * self.rng.random_range(1..64);
        let free = s.maps.last().map_or(DATA, |m| m.0 + m.1) + pages;
        match self.rng.random_range(0..9) {
            0 => {
                let backing = Backing::File { path: "/usr/lib/libc.so.6".into(), offset: pages };
                let backing = if self.rng.random_bool(0.5) { Backing::Anonymous } else { backing };
                let prot = if self.rng.random_bool(0.1) { Prot::NONE } else { Prot::RW };
                batch.push_op(Op::Map(Mapping {
                    start: free,
                    len: pages,
                    prot,
                    shared: self.rng.random_bool(0.2),
                    backing,
                }));
                s.maps.push((free, pages));
            }
            1 if pick > 0 => {
                batch.push_op(Op::Unmap { start, len });
                s.maps.remove(pick);
            }
            2 if pick > 0 => {
                batch.push_op(Op::Remap { old_start: start, old_len: len, new_start: free, new_len: pages });
                s.maps.remove(pick);
                s.maps.push((free, pages));
            }
            3 => batch.push_op(Op::Protect { start, len, prot: Prot { read: true, write: false, exec: false } }),
            4 | 5 => {
                let all = [Advice::DontNeed, Advice::HugePage, Advice::NoHugePage, Advice::WillNeed];
                batch.push_op(Op::Advise { start, len, advice: all[self.rng.random_range(0..4)] });
            }
            6 if s.threads < 8 => {
                s.threads += 1;
                batch.push_op(Op::ThreadStart { thread: s.threads });
            }
            7 if s.threads > 1 => {
                batch.push_op(Op::Switch { thread: 1 });
                batch.push_op(Op::ThreadExit { thread: s.threads });
                s.threads -= 1;
            }
            _ => batch.push_op(Op::Switch { thread: self.rng.random_range(1..=s.threads) }),
        }
    }

    /// One step of one address space.
    fn turn(&mut self) -> Batch {
        let at = self.rng.random_range(0..self.spaces.len());
        let mut s = self.spaces.swap_remove(at);
        let mut batch = Batch::new(s.asid);
        for _ in 0..self.rng.random_range(1..40) {
            self.done += 1;
            match self.rng.random_range(0..40) {
                0..30 => self.run(&mut s, &mut batch),
                30..38 => self.event(&mut s, &mut batch),
                38 if self.spaces.len() + 1 < MOST_SPACES => {
                    let child = self.new_asid();
                    // The child's only thread is the one that forks.
                    batch.push_op(Op::Switch { thread: 1 });
                    batch.push_op(Op::Fork { child });
                    self.spaces.push(LiveSpace { asid: child, threads: 1, ..s.clone() });
                }
                39 if self.next_asid > 1 && self.rng.random_bool(0.2) => {
                    let ends = [End::Exit(3), End::Signal(9), End::Exec, End::Lost];
                    let end = ends[self.rng.random_range(0..4)];
                    batch.push_op(Op::End(end));
                    if end == End::Exec || self.spaces.is_empty() {
                        // When the last process has ended, a new one must start.
                        self.state = State::Before;
                    }
                    return batch;
                }
                _ => {}
            }
        }
        self.spaces.push(s);
        batch
    }
}

impl Source for Program {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.state == State::After {
            return Ok(None);
        }
        if self.state == State::Before {
            self.state = State::Running;
            let parent = self.next_asid.checked_sub(1).map(Asid);
            let asid = self.new_asid();
            let mut batch = Batch::new(asid);
            let space = self.start(asid, parent, &mut batch);
            self.spaces.push(space);
            return Ok(Some(batch));
        }
        if self.done >= self.steps {
            let Some(s) = self.spaces.pop() else {
                self.state = State::After;
                return Ok(None);
            };
            let mut batch = Batch::new(s.asid);
            batch.push_op(Op::End(End::Exit(-1)));
            return Ok(Some(batch));
        }
        loop {
            let batch = self.turn();
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }
}

fn map(start: u64, len: u64, prot: Prot, backing: Backing) -> Op {
    Op::Map(Mapping { start, len, prot, shared: false, backing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn every_generator_is_sound_and_repeats() {
        for seed in 0..20 {
            let report = check(&mut program(seed, 400)).expect("no input, no failure");
            assert_eq!(report.violation, None, "seed {seed}");
            let (mut a, mut b) = (program(seed, 50), program(seed, 50));
            while let Some(batch) = a.next_batch().expect("none") {
                assert_eq!(Some(batch), b.next_batch().expect("none"));
            }
        }
        let report = check(&mut uniform(1, 64, 20_000)).expect("none");
        assert_eq!((report.violation, report.totals.loads, report.totals.stores), (None, 20_000, 20_000));
        let report = check(&mut strided(4096, 8, 100)).expect("none");
        assert_eq!((report.violation, report.totals.loads, report.totals.instructions), (None, 100, 300));
        assert_eq!(check(&mut sequential(1, 1000)).expect("none").totals.loads, 1000);
    }

    #[test]
    fn a_stride_covers_its_pages_and_wraps() {
        let batch = strided(4096, 3, 7).next_batch().expect("none").expect("one batch");
        let addrs: Vec<u64> = batch.words.iter().copied().filter(|w| (DATA..DATA + 3 * 4096).contains(w)).collect();
        assert_eq!(addrs, [0, 1, 2, 0, 1, 2, 0].map(|p| DATA + p * 4096));
    }
}
