//! Streams of whole systems: not of any kernel, but every event that there is, in a sound order.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::sync::Arc;

use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS, KERNEL};
use farreach_types::error::Result;
use farreach_types::event::{Arch, Batch, Block, DataRef, End, Guest, Instr, Invalidate, Kind, Op, Register, Source};

/// Where the upper half of the addresses begins.
const UPPER: u64 = 1 << (GUEST_ADDRESS_BITS - 1);
const PROCESSORS: u32 = 3;
const MEMORY: u64 = 1 << 30;

/// A whole system with random events. See [`system`].
pub struct System {
    rng: Pcg64Mcg,
    arch: Arch,
    steps: u64,
    running: u32,
    processors: [Processor; PROCESSORS as usize],
    spaces: u32,
    ready: VecDeque<Batch>,
    begun: bool,
}

#[derive(Clone, Copy, Default)]
struct Processor {
    began: bool,
    kernel: bool,
    space: u32,
}

/// A whole system of about this number of executions: three processors, address spaces that come, page tables that are
/// no real ones.
pub fn system(seed: u64, steps: u64) -> System {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let arch = Arch::ALL[rng.random_range(0..Arch::ALL.len())];
    let processors = [Processor::default(); PROCESSORS as usize];
    System { rng, arch, steps, running: 0, processors, spaces: 0, ready: VecDeque::new(), begun: false }
}

impl System {
    fn begin(&mut self) {
        let mut first = Batch::new(KERNEL);
        first.push_op(Op::Start { pid: 0, parent: None, program: "kernel".into() });
        first.push_op(Op::Guest(Guest::Machine { arch: self.arch, processors: PROCESSORS, memory: MEMORY }));
        for (id, start) in [(0, 0x40_0000), (1, UPPER + 0x8000_0000)] {
            let instrs = [0, 4, 8].map(|at| Instr { pc: start + at, len: 4 }).into();
            let refs = [DataRef::new(1, Kind::Load, 8, 0), DataRef::new(3, Kind::Store, 4, 1)].into();
            first.push_op(Op::Define { id, block: Arc::new(Block { instrs, refs }) });
        }
        self.ready.push_back(first);
        self.begun = true;
    }

    /// The next batch: a processor runs in one address space.
    fn run(&mut self) {
        let rng = &mut self.rng;
        let switches = rng.random_range(0..4) == 0 || self.spaces == 0;
        if switches {
            self.running = rng.random_range(0..PROCESSORS);
        }
        let processor = &mut self.processors[self.running as usize];
        if processor.space == 0 || rng.random_range(0..3) == 0 {
            processor.space = rng.random_range(1..=(self.spaces + 1).min(40));
        }
        let (arch, space) = (self.arch, processor.space);
        let mut batch = Batch::new(Asid(space));
        if space > self.spaces {
            self.spaces = space;
            batch.push_op(Op::Start { pid: space, parent: None, program: "".into() });
        }
        if switches {
            batch.push_op(Op::Switch { thread: self.running });
        }
        if !processor.began {
            processor.began = true;
            let all = match arch {
                Arch::X86 => &[Register::Root0, Register::Control][..],
                Arch::Aarch64 => &Register::ALL,
                Arch::Riscv64 => &[Register::Root0],
            };
            all.iter()
                .for_each(|&register| batch.push_op(Op::Guest(Guest::Register { register, value: rng.random() })));
            batch.push_op(Op::Guest(Guest::Privilege { kernel: processor.kernel }));
        }
        for _ in 0..rng.random_range(1..40).min(self.steps) {
            self.steps -= 1;
            if rng.random_range(0..3) == 0 {
                event(rng, arch, processor, &mut batch);
            }
            let half = if processor.kernel { UPPER } else { 0 };
            // A kernel reads memory of programs, too.
            let places = [half, if rng.random() { half } else { 0 }];
            let words = places.map(|half| half + rng.random_range(0..UPPER / 4096) * 8);
            batch.push_block(processor.kernel.into(), &words);
        }
        self.ready.push_back(batch);
    }
}

/// Some event of the processor that runs.
fn event(rng: &mut Pcg64Mcg, arch: Arch, processor: &mut Processor, batch: &mut Batch) {
    let guest = match rng.random_range(0..8) {
        0 => {
            processor.kernel = !processor.kernel;
            Guest::Privilege { kernel: processor.kernel }
        }
        1 => Guest::Register { register: Register::Root0, value: rng.random_range(0..MEMORY / 4096) * 4096 },
        2 | 3 => {
            let word = rng.random_range(0..512u64);
            let most = (512 - word).min(1 << rng.random_range(0..10));
            let (first, step) = (rng.random::<u64>() >> rng.random_range(0..64), rng.random_range(0..3) << 21);
            let value = |n: u64| if n % 17 == 16 { 0 } else { first.wrapping_add(n * step) };
            let values = (0..most).map(value).collect();
            Guest::Entries { address: rng.random_range(0..MEMORY / 4096) * 4096 + 8 * word, values }
        }
        4 => Guest::Invalidate(Invalidate {
            tag: rng.random::<bool>().then(|| rng.random_range(0..4096)),
            bytes: rng.random::<bool>().then(|| (rng.random_range(0..1 << 44) << 12, rng.random_range(1..64) << 12)),
            global: rng.random(),
            leaves: rng.random(),
            broadcast: rng.random(),
        }),
        5 => Guest::Exception { vector: if arch == Arch::Aarch64 { 0x400 } else { 14 } },
        6 => Guest::Stale {
            page: rng.random_range(0..2 * UPPER / 4096) * 4096,
            address: rng.random_range(0..MEMORY / 4096) * 4096,
        },
        _ => Guest::Name(format!("program {}", rng.random_range(0..9)).into()),
    };
    batch.push_op(Op::Guest(guest));
}

impl Source for System {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if !self.begun {
            self.begin();
        } else if self.ready.is_empty() && self.steps > 0 {
            self.run();
            if self.steps == 0 {
                for asid in (0..=self.spaces).map(Asid) {
                    let mut last = Batch::new(asid);
                    last.push_op(Op::End(End::Exit(0)));
                    self.ready.push_back(last);
                }
            }
        }
        Ok(self.ready.pop_front())
    }
}
