//! A program that depends on copy-on-write: an in-memory store that repeatedly forks a child to write a snapshot while
//! it keeps serving (CW-10). Its blocks have instructions, so that counts per instruction make sense.

use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::error::Result;
use farreach_types::event::{Backing, Batch, Block, DataRef, End, Instr, Kind, Mapping, Op, Prot, Source};
use std::sync::Arc;

/// A store that forks a child to write it out, again and again (CW-10).
pub const SNAPSHOTS: &str = "micro/snapshots";

/// First bytes of text, data and of the child's buffer.
const TEXT: u64 = 0x40_0000;
const DATA: u64 = 0x60_0000;
const BUFFER: u64 = DATA + (PAGES << BASE_SHIFT);
/// Pages of the store: 2 MB.
const PAGES: u64 = 512;
const BUFFER_PAGES: u64 = 4;
/// Snapshots.
const ROUNDS: u32 = 6;
/// The child reads this many pages at a time, one word of every 16 bytes. Then the store serves a few requests.
const SLICE: u64 = 32;
const STRIDE: u64 = 16;
const REQUESTS_MEANWHILE: u64 = 50;
/// Requests between two snapshots.
const REQUESTS: u64 = 20_000;
/// Steps of a round: requests and the fork, the slices of both processes, the end of the child.
const STEPS: u32 = 2 + 2 * (PAGES / SLICE) as u32;

/// Blocks: a request, a step of the child's loop, the same with a store to its buffer.
const REQUEST: u32 = 0;
const READ: u32 = 1;
const WRITE: u32 = 2;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    (name == SNAPSHOTS).then(|| Box::new(Snapshots::default()) as Box<dyn Source + Send>)
}

/// The program as a stream, a batch per step.
#[derive(Default)]
struct Snapshots {
    step: u32,
    state: u64,
}

impl Snapshots {
    /// A linear congruential generator: its upper bits.
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.state) * u128::from(below)) >> 64) as u64
    }

    /// A request looks a key up and changes the value behind it.
    fn requests(&mut self, batch: &mut Batch, n: u64) {
        for _ in 0..n {
            let (key, value) = (self.random(PAGES << BASE_SHIFT), self.random(PAGES << BASE_SHIFT));
            let [key, value] = [key, value].map(|at| DATA + at / 8 * 8);
            batch.push_block(REQUEST, &[key, value, value]);
        }
    }

    fn begin() -> Batch {
        let mut batch = Batch::new(Asid(0));
        batch.push_op(Op::Start { pid: 1, parent: None, program: SNAPSHOTS.into() });
        let rx = Prot { read: true, write: false, exec: true };
        let text = Backing::File { path: SNAPSHOTS.into(), offset: 0 };
        let heap = (PAGES + BUFFER_PAGES) << BASE_SHIFT;
        for (start, len, prot, backing) in [(TEXT, 1 << BASE_SHIFT, rx, text), (DATA, heap, Prot::RW, Backing::Heap)] {
            batch.push_op(Op::Map(Mapping { start, len, prot, shared: false, backing }));
        }
        for (id, at, instrs, refs) in [
            (REQUEST, 0, 24, vec![(8, Kind::Load), (16, Kind::Load), (20, Kind::Store)]),
            (READ, 0x100, 5, vec![(2, Kind::Load)]),
            (WRITE, 0x140, 8, vec![(2, Kind::Load), (6, Kind::Store)]),
        ] {
            let instrs = (0..instrs).map(|i| Instr { pc: TEXT + at + 4 * i, len: 4 }).collect();
            let refs = (0..).zip(refs).map(|(word, (after, kind))| DataRef::new(after, kind, 8, word)).collect();
            batch.push_op(Op::Define { id, block: Arc::new(Block { instrs, refs }) });
        }
        batch
    }
}

impl Source for Snapshots {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let (round, step) = (self.step / STEPS, self.step % STEPS);
        let child = Asid(round + 1);
        let mut batch = if self.step == 0 { Snapshots::begin() } else { Batch::new(Asid(0)) };
        self.step += 1;
        match (round, step) {
            (ROUNDS, 0) => batch.push_op(Op::End(End::Exit(0))),
            (ROUNDS.., _) => return Ok(None),
            (_, 0) => {
                self.requests(&mut batch, REQUESTS);
                batch.push_op(Op::Fork { child });
            }
            (_, last) if last == STEPS - 1 => {
                batch.asid = child;
                batch.push_op(Op::End(End::Exit(0)));
            }
            (_, even) if even % 2 == 0 => self.requests(&mut batch, REQUESTS_MEANWHILE),
            (_, odd) => {
                batch.asid = child;
                let from = u64::from(odd / 2) * (SLICE << BASE_SHIFT);
                for at in (from..from + (SLICE << BASE_SHIFT)).step_by(STRIDE as usize) {
                    // Four words make a line of output.
                    match at / STRIDE % 4 {
                        3 => batch.push_block(WRITE, &[DATA + at, BUFFER + at % (BUFFER_PAGES << BASE_SHIFT)]),
                        _ => batch.push_block(READ, &[DATA + at]),
                    }
                }
            }
        }
        Ok(Some(batch))
    }
}
