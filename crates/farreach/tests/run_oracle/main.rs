//! Operating systems and whole machines against the plain oracle, on hostile streams of events: several address spaces that map,
//! unmap, move, grow, protect, drop, fork, copy on write, exec and exit; stray and forbidden references, references that cross
//! pages, blocks of all shapes; memories so tight that reservations are taken back, and endless ones; traces that never say
//! what is mapped.
//!
//! * [`ca_38_translations_agree_step_by_step`]: the operating system alone, side by side with the oracle, compared after each
//!   reference and event: every translation, every count, and the frames (XC-6).
//! * The others: [`Lab`] with several machines at once, as a user runs it. Every count of hardware and system, lookups and
//!   references, the entries at the end with their translations must be the oracle's; and a run with shortcuts must end in the very
//!   same result as one without.
//!
//! A failure is shrunk first (events are left out while it stays one) and printed with seed and configuration. To repeat one
//! stream: `FARREACH_ORACLE_SEED=123 cargo test --test run_oracle`. `FARREACH_ORACLE_STREAMS` sets how many streams a test runs.
//! Covers XC-1, XC-3, XC-5, XC-6, T94-40 to T94-61, AMB-2, 6 to 13, 22 to 24; CA-38.

mod oracle;

use farreach::addr::{Asid, BASE_SHIFT, Vpn};
use farreach::counts::{OsCounts, RunResult};
use farreach::event::{
    Access, Advice, Backing, Batch, Block, Blocks, DataRef, End, Instr, Item, Kind, Mapping, NOT_EXECUTED, Op, Prot,
};
use farreach::hw::tlb::{EntryView, PageTableView};
use farreach::machine::{Lab, MachineSpec, Options};
use farreach::os::Os;
use farreach::trace::open_trace;
use oracle::os::{Class, OsConfig, PlainOs};
use oracle::run::{OracleResult, RunConfig, run};
use oracle::tlb::{Replacement, TlbConfig, TlbKind};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use serde_json::Value as Json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// Counts of the system that the oracle does not have: the work of page tables and allocators.
/// What only policies do that the plain model does not know; `tests/big_memory` is about them.
const OTHER_POLICIES: &[&str] = &[
    "chunk_pages",
    "chunk_requests",
    "chunk_unused_pages",
    "collapses",
    "compactions",
    "compactions_failed",
    "eager_missing",
    "eager_pages",
    "eager_refused",
    "eager_requests",
    "huge_rest_pages",
    "mapping_missing",
    "mapping_pages",
    "mapping_taken",
    "populated_in_superpages",
    "reclaimed_pages",
    "superpage_fallbacks",
    "superpage_faults",
    "zeroed_pages",
];
const OS_SKIP: &[&str] = &["pt_probes", "alloc_steps"];

// ------------------------------------------------------------------------------------------------------------- chance

/// Seeded choices.
struct Dice(Pcg64Mcg);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Pcg64Mcg::seed_from_u64(seed))
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
    fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

// ------------------------------------------------------------------------------------------------------------ streams

/// What one step of a stream does.
#[derive(Clone, Debug)]
enum Act {
    /// An event.
    Op(Op),
    /// A block by its number, with its addresses.
    Run(usize, Vec<u64>),
    /// A batch ends, nothing happens.
    Cut,
    /// A batch with nothing in it.
    Empty,
}

#[derive(Clone, Debug)]
struct Step {
    asid: Asid,
    act: Act,
}

/// A program; any part of it is one too.
#[derive(Clone)]
struct Stream {
    blocks: Vec<Arc<Block>>,
    steps: Vec<Step>,
}

impl Stream {
    /// As the laboratory gets it.
    fn batches(&self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut defined = BTreeSet::new();
        let mut cut = true;
        for Step { asid, act } in &self.steps {
            if cut || batches.last().is_none_or(|b| b.asid != *asid) {
                batches.push(Batch::new(*asid));
            }
            cut = matches!(act, Act::Cut | Act::Empty);
            let last = batches.last_mut().expect("just pushed");
            match act {
                Act::Op(op) => last.push_op(op.clone()),
                Act::Run(id, addrs) => {
                    if defined.insert(*id) {
                        last.push_op(Op::Define { id: *id as u32, block: Arc::clone(&self.blocks[*id]) });
                    }
                    last.push_block(*id as u32, addrs);
                }
                Act::Cut => {}
                Act::Empty => batches.push(Batch::new(*asid)),
            }
        }
        batches
    }

    /// As the oracle gets it.
    fn items(&self) -> Vec<(Asid, Item<'_>)> {
        let mut items = Vec::new();
        for Step { asid, act } in &self.steps {
            match act {
                Act::Op(op) => items.push((*asid, Item::Op(op))),
                Act::Run(id, addrs) => {
                    let block = &self.blocks[*id];
                    for fetched in 0..=block.instrs.len() {
                        for (r, &addr) in block.refs.iter().zip(addrs).filter(|(r, _)| r.after as usize == fetched) {
                            if addr != NOT_EXECUTED {
                                items.push((*asid, Item::Access(Access { kind: r.kind, addr, size: r.size })));
                            }
                        }
                        if let Some(i) = block.instrs.get(fetched) {
                            items.push((*asid, Item::Access(Access { kind: Kind::Fetch, addr: i.pc, size: i.len })));
                        }
                    }
                }
                Act::Cut | Act::Empty => {}
            }
        }
        items
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Step { asid, act } in &self.steps {
            match act {
                Act::Run(id, addrs) => {
                    let block = &self.blocks[*id];
                    let kinds: Vec<String> =
                        block.refs.iter().map(|r| format!("{:?}/{}@{}", r.kind, r.size, r.after)).collect();
                    let pcs: Vec<String> = block.instrs.iter().map(|i| format!("{:x}/{}", i.pc, i.len)).collect();
                    writeln!(f, "  {}: run {pcs:?} {kinds:?} {addrs:x?}", asid.0)?;
                }
                act => writeln!(f, "  {}: {act:x?}", asid.0)?,
            }
        }
        Ok(())
    }
}

/// Where mappings lie: first pages of windows of 64 pages and a bit.
const WINDOWS: [u64; 5] = [0x40, 0x400, 0x1000, 0x7_fff0_0000, (1 << 52) - 128];
const PATHS: [&str; 4] = ["/bin/prog", "/lib/x.so", "/nfs/data", "/nfs/bin/tool"];

/// How a space looks, roughly: enough to aim at it.
#[derive(Clone, Default)]
struct Sketch {
    maps: Vec<(u64, u64)>,
    heap_end: u64,
    stack_low: u64,
    protected: Vec<(u64, u64)>,
}

struct Generator {
    dice: Dice,
    blocks: Vec<Arc<Block>>,
    steps: Vec<Step>,
    live: BTreeMap<Asid, Sketch>,
    current: Asid,
    next: u32,
    /// The stream says what is mapped.
    maps: bool,
}

/// A stream of so many actions.
fn stream(seed: u64, actions: u64, maps: bool) -> Stream {
    let mut dice = Dice::new(seed);
    let blocks = blocks(&mut dice);
    let first = Asid(dice.pick(&[0, 0, 3]));
    let mut g = Generator { dice, blocks, steps: Vec::new(), live: BTreeMap::new(), current: first, next: first.0 + 1, maps };
    g.begin(None);
    for _ in 0..actions {
        g.act();
    }
    Stream { blocks: g.blocks, steps: g.steps }
}

fn blocks(dice: &mut Dice) -> Vec<Arc<Block>> {
    let data = |kind, size| DataRef { after: 0, kind, size };
    let mut all = vec![
        Block { instrs: [].into(), refs: [data(Kind::Load, 8)].into() },
        Block { instrs: [].into(), refs: [data(Kind::Store, 8)].into() },
        Block { instrs: [].into(), refs: [data(Kind::Load, 4), data(Kind::Store, 4)].into() },
    ];
    for _ in 0..6 + dice.below(8) {
        let mut pc = (WINDOWS[0] + dice.below(48)) << 12 | dice.pick(&[0, 0x7f0, 0xff8, 0xffe]);
        let mut instrs = Vec::new();
        for _ in 0..dice.below(7) {
            let len = 1 + dice.below(15) as u32;
            instrs.push(Instr { pc, len });
            pc += u64::from(len);
            if dice.percent(20) {
                pc = (pc + (dice.below(4) << 12)) | dice.below(4096);
            }
        }
        let refs = dice.below(6) + u64::from(instrs.is_empty());
        let mut after: Vec<u32> = (0..refs).map(|_| dice.below(instrs.len() as u64 + 1) as u32).collect();
        after.sort_unstable();
        let sizes = [1, 8, 8, 8, 16, 64, 4096, 5000, 12_300];
        let refs = after.into_iter().map(|after| DataRef {
            after,
            kind: dice.pick(&[Kind::Load, Kind::Load, Kind::Store]),
            size: dice.pick(&sizes),
        });
        all.push(Block { refs: refs.collect(), instrs: instrs.into() });
    }
    all.into_iter().map(Arc::new).collect()
}

impl Generator {
    fn op(&mut self, op: Op) {
        self.steps.push(Step { asid: self.current, act: Act::Op(op) });
    }
    fn sketch(&mut self) -> &mut Sketch {
        self.live.get_mut(&self.current).expect("it lives")
    }

    /// A new space, which runs from here on.
    fn begin(&mut self, parent: Option<Asid>) {
        let heap_end = WINDOWS[1] + self.dice.below(20);
        let stack_low = WINDOWS[3] + 60 - self.dice.below(20);
        self.live.insert(self.current, Sketch { heap_end, stack_low, ..Sketch::default() });
        if self.dice.percent(90) {
            self.op(Op::Start { pid: 7, parent, program: "/bin/prog".into() });
        }
        if self.maps {
            let len = 24 + self.dice.below(24);
            let offset = self.dice.below(4) << 12;
            let prot = Prot { read: true, write: false, exec: true };
            let start = WINDOWS[0] + self.dice.below(2) * 3;
            self.map(start, len, prot, false, Backing::File { path: PATHS[0].into(), offset });
        }
    }

    fn range(&mut self) -> (u64, u64) {
        let odd = 1 + self.dice.below(40);
        let len = self.dice.pick(&[1, 2, 3, 4, 15, 16, 16, 32, odd, odd]);
        let start = self.dice.pick(&WINDOWS) + self.dice.below(64);
        (if self.dice.percent(50) { start & !15 } else { start }, len)
    }

    /// Mostly something that is mapped.
    fn known(&mut self) -> (u64, u64) {
        let maps = self.sketch().maps.clone();
        if maps.is_empty() || self.dice.percent(8) { self.range() } else { self.dice.pick(&maps) }
    }

    /// A part of it.
    fn part(&mut self) -> (u64, u64) {
        let (start, len) = self.known();
        match self.dice.below(4) {
            0 => (start, len),
            1 => (start, 1 + self.dice.below(len)),
            2 => {
                let cut = self.dice.below(len);
                (start + cut, len - cut)
            }
            _ => {
                let cut = self.dice.below(len);
                (start + cut, 1 + self.dice.below(len - cut))
            }
        }
    }

    fn prot(&mut self) -> Prot {
        let read = Prot { read: true, ..Prot::NONE };
        let code = Prot { exec: true, ..read };
        self.dice.pick(&[Prot::RW, Prot::RW, Prot::RW, Prot::RW, Prot::RWX, Prot::RWX, read, read, code, Prot::NONE])
    }

    fn map(&mut self, start: u64, len: u64, prot: Prot, shared: bool, backing: Backing) {
        self.op(Op::Map(Mapping { start: start << 12, len: len << 12, prot, shared, backing }));
        self.sketch().maps.push((start, len));
    }

    fn map_something(&mut self) {
        let (start, len) = self.range();
        let prot = self.prot();
        match self.dice.below(20) {
            0..=4 => self.map(start, len, prot, false, Backing::Anonymous),
            5..=6 => self.map(start, len, prot, true, Backing::Anonymous),
            7 => self.map(start, len, prot, false, Backing::Kernel),
            8..=10 => {
                let at = self.sketch().heap_end;
                self.map(at, len, Prot::RW, false, Backing::Heap);
                self.sketch().heap_end = if at > WINDOWS[1] + 64 { WINDOWS[1] + len } else { at + len };
            }
            11 => self.map(start, len, prot, false, Backing::Heap),
            12..=13 => {
                let low = self.sketch().stack_low.saturating_sub(len).max(WINDOWS[3] - 64);
                let top = self.sketch().stack_low;
                if low < top {
                    self.map(low, top - low, Prot::RW, false, Backing::Stack);
                    self.sketch().stack_low = low;
                }
            }
            14 => self.map(start, len, prot, false, Backing::Stack),
            _ => {
                let path = self.dice.pick(&PATHS).into();
                let offset = match self.dice.below(3) {
                    0 => 0,
                    1 => (start & 31) << 12,
                    _ => self.dice.below(24) << 12,
                };
                let shared = self.dice.percent(40);
                self.map(start, len, prot, shared, Backing::File { path, offset });
            }
        }
    }

    fn unmap(&mut self) {
        let (start, len) = if self.dice.percent(20) {
            let (end, len) = (self.sketch().heap_end, 1 + self.dice.below(12));
            self.sketch().heap_end = (end - len).max(WINDOWS[1]);
            (end - len, len)
        } else {
            self.part()
        };
        self.op(Op::Unmap { start: start << 12, len: len << 12 });
        if self.dice.percent(70) {
            self.sketch().maps.retain(|m| m.0 + m.1 <= start || start + len <= m.0);
        }
    }

    fn remap(&mut self) {
        let (old, old_len) = if self.dice.percent(60) { self.known() } else { self.part() };
        let old_len = if self.dice.percent(4) { 0 } else { old_len };
        let len = 1 + self.dice.pick(&[self.live.len() as u64, old_len / 2, old_len, old_len + 5, 20]);
        let new = if self.dice.percent(40) { old } else { self.range().0 };
        self.op(Op::Remap { old_start: old << 12, old_len: old_len << 12, new_start: new << 12, new_len: len << 12 });
        self.sketch().maps.push((new, len));
    }

    fn protect(&mut self) {
        let before = self.sketch().protected.clone();
        let (range, prot) = if !before.is_empty() && self.dice.percent(40) {
            (self.dice.pick(&before), self.dice.pick(&[Prot::RW, Prot::RWX]))
        } else {
            (self.part(), self.prot())
        };
        self.sketch().protected.push(range);
        self.op(Op::Protect { start: range.0 << 12, len: range.1 << 12, prot });
    }

    fn fork(&mut self) {
        if self.live.len() < 4 {
            let child = Asid(self.next);
            self.next += 1;
            self.op(Op::Fork { child });
            let copy = self.sketch().clone();
            self.live.insert(child, copy);
        }
    }

    /// Something else: advice, life and death, threads.
    fn life(&mut self) {
        match self.dice.below(10) {
            0 if self.live.len() > 1 => {
                let end = self.dice.pick(&[End::Exit(0), End::Signal(9), End::Lost]);
                self.op(Op::End(end));
                self.live.remove(&self.current);
                self.switch();
            }
            1 => {
                self.op(Op::End(End::Exec));
                self.live.remove(&self.current);
                let parent = self.current;
                self.current = Asid(self.next);
                self.next += 1;
                self.begin(Some(parent));
            }
            2 => self.op(Op::ThreadStart { thread: 1 }),
            3 => self.op(Op::Switch { thread: 1 }),
            4 => self.steps.push(Step { asid: self.current, act: Act::Cut }),
            5 => {
                let spaces: Vec<Asid> = self.live.keys().copied().collect();
                let asid = self.dice.pick(&spaces);
                self.steps.push(Step { asid, act: Act::Empty });
            }
            _ => {
                let (start, len) = self.part();
                let advice = self.dice.pick(&[Advice::DontNeed, Advice::DontNeed, Advice::DontNeed, Advice::WillNeed]);
                self.op(Op::Advise { start: start << 12, len: len << 12, advice });
            }
        }
    }

    fn switch(&mut self) {
        let spaces: Vec<Asid> = self.live.keys().copied().collect();
        self.current = self.dice.pick(&spaces);
    }

    fn offset(&mut self) -> u64 {
        if self.dice.percent(15) { 4095 - self.dice.below(9) } else { self.dice.below(4088) }
    }

    /// One page of references.
    fn reference(&mut self, page: u64, block: usize) {
        let refs = self.blocks[block].refs.len();
        let mut addrs = Vec::new();
        for _ in 0..refs {
            let (start, len) = self.known();
            let at = if self.dice.percent(70) { page } else { start + self.dice.below(len) };
            let addr = at << 12 | self.offset();
            addrs.push(if self.dice.percent(8) { NOT_EXECUTED } else { addr });
        }
        self.steps.push(Step { asid: self.current, act: Act::Run(block, addrs) });
    }

    fn sweep(&mut self) {
        let (start, len) = self.part();
        let usual = self.dice.pick(&[0, 0, 1, 1, 2]);
        let (backwards, twice) = (self.dice.percent(15), self.dice.percent(25));
        for i in (0..len).chain((0..len).filter(|_| twice)) {
            let page = start + if backwards { len - 1 - i } else { i };
            let any = self.dice.below(self.blocks.len() as u64) as usize;
            let block = if self.dice.percent(75) { usual } else { any };
            if block < 3 {
                let addr = page << 12 | self.offset();
                let addrs = vec![addr; self.blocks[block].refs.len()];
                self.steps.push(Step { asid: self.current, act: Act::Run(block, addrs) });
            } else {
                self.reference(page, block);
            }
        }
    }

    /// The same few blocks again and again: what the shortcut is for.
    fn work(&mut self) {
        let (start, len) = self.part();
        let first = self.steps.len();
        for _ in 0..1 + self.dice.below(4) {
            let block = self.dice.below(self.blocks.len() as u64) as usize;
            let page = start + self.dice.below(len);
            self.reference(page, block);
        }
        let loop_body = self.steps[first..].to_vec();
        for _ in 0..self.dice.below(5) {
            self.steps.extend(loop_body.clone());
        }
    }

    fn act(&mut self) {
        if !self.maps {
            return match self.dice.below(40) {
                0..=19 => self.sweep_anywhere(),
                20..=30 => self.work(),
                31 => self.unmap(),
                32 => self.protect(),
                33 => self.remap(),
                34 => self.fork(),
                35..=36 => self.life(),
                _ => self.switch(),
            };
        }
        match self.dice.below(100) {
            0..=29 => self.sweep(),
            30..=44 => self.work(),
            45..=62 => self.map_something(),
            63..=67 => self.unmap(),
            68..=71 => self.remap(),
            72..=78 => self.protect(),
            79..=82 => self.fork(),
            83..=89 => self.life(),
            _ => self.switch(),
        }
    }

    fn sweep_anywhere(&mut self) {
        let range = self.range();
        self.sketch().maps.push(range);
        self.sweep();
    }
}

// ----------------------------------------------------------------------------------------------------------- machines

/// A machine as the laboratory and as the oracle know it.
#[derive(Clone)]
struct Machine {
    text: String,
    run: RunConfig,
    /// The hardware is compared too, not only the system.
    hardware: bool,
}

/// In base pages of 2^k pages of 4 KB.
fn size(pages: u64, k: u32) -> String {
    (pages << (BASE_SHIFT + k)).to_string()
}

fn sizes(pages: &[u64], k: u32) -> String {
    if pages.is_empty() { "none".into() } else { pages.iter().map(|&p| size(p, k)).collect::<Vec<_>>().join("+") }
}

fn classes(dice: &mut Dice) -> (String, Vec<Class>) {
    let memory = ("heap", vec![Class::Memory, Class::SharedMemory]);
    let (disk, nfs) = (("file", vec![Class::DiskFile]), ("nfs", vec![Class::NfsFile]));
    let all = vec![disk.clone(), nfs.clone(), memory.clone()];
    let chosen = dice.pick(&[all.clone(), all.clone(), all.clone(), all, vec![memory.clone()], vec![disk, nfs], vec![memory]]);
    (chosen.iter().map(|c| c.0).collect::<Vec<_>>().join("+"), chosen.into_iter().flat_map(|c| c.1).collect())
}

/// A system, as overrides and for the oracle; memory without end.
fn system(dice: &mut Dice) -> (String, OsConfig) {
    let mut c = OsConfig::demand();
    c.k = dice.pick(&[0, 0, 0, 0, 1, 2, 2, 4, 6, 9]);
    let mut text = format!("page_size={},", size(1, c.k));
    c.region = dice.pick(&[1, 2, 4, 4, 8, 16, 16, 16, 64]);
    c.reservation = dice.percent(65);
    if c.reservation {
        (c.clip, c.prefetch) = (dice.percent(60), dice.percent(50));
        let (names, reserve) = classes(dice);
        c.reserve = reserve;
        write!(text, "placement=reservation,region={},clip={},", size(c.region, c.k), c.clip).unwrap();
        write!(text, "prefetch={},reserve={names}", c.prefetch).unwrap();
    } else if c.region > 1 && dice.percent(60) {
        let (least, spare) = (dice.pick(&[0, 4, 16, 40]), dice.pick(&[0, 0, 3, 20]));
        c.two_size = Some((least, spare));
        let (names, large) = classes(dice);
        c.reserve = large;
        write!(text, "placement=two-size,large={},large_object={},", size(c.region, c.k), size(least, c.k)).unwrap();
        write!(text, "large_free={},large_kinds={names}", size(spare, c.k)).unwrap();
    } else {
        text.push_str("placement=demand");
    }
    let own = if c.region > 1 { vec![c.region] } else { vec![2] };
    let promote: [Vec<u64>; 7] = [vec![], vec![], own.clone(), own.clone(), own, vec![2, 8], vec![4, 16, 32]];
    c.promote = dice.pick(&promote);
    let (names, promoted) = classes(dice);
    c.promote_classes = promoted;
    let thresholds = [0.0, 0.25, 0.5, 0.75, 0.8, 1.0, 1.0];
    (c.threshold_memory, c.threshold_disk, c.threshold_nfs) =
        (dice.pick(&thresholds), dice.pick(&thresholds), dice.pick(&thresholds));
    c.strict = dice.percent(15);
    write!(text, ",promote={},promote_kinds={names}", sizes(&c.promote, c.k)).unwrap();
    write!(text, ",threshold_heap={},threshold_file={}", c.threshold_memory, c.threshold_disk).unwrap();
    write!(text, ",threshold_nfs={},strict_threshold={}", c.threshold_nfs, c.strict).unwrap();
    c.nfs_prefixes = dice.pick(&[vec![], vec!["/nfs/".to_owned()], vec!["/nfs/bin".to_owned(), "/lib".to_owned()]]);
    c.reclaim_batch = dice.pick(&[1, 1, 1, 2, 7]);
    write!(text, ",nfs={},reclaim_batch={}", c.nfs_prefixes.join("+"), c.reclaim_batch).unwrap();
    (text, c)
}

/// Hardware: preset, overrides, the oracle's view, whether to compare.
fn hardware(dice: &mut Dice, seed: u64, k: u32) -> (String, TlbConfig, bool) {
    let (kind, mut preset) = dice.pick(&[
        (TlbKind::Single, "single"),
        (TlbKind::Superpage, "superpage"),
        (TlbKind::Superpage, "superpage"),
        (TlbKind::Complete, "complete"),
        (TlbKind::Partial, "partial"),
        (TlbKind::Partial, "partial"),
        (TlbKind::Integrated, "integrated"),
    ]);
    let mut c = TlbConfig { seed, ..TlbConfig::new(kind) };
    c.entries = dice.pick(&[1, 2, 3, 4, 6, 8, 16, 64]);
    let mut text = String::new();
    let in_sets = matches!(kind, TlbKind::Single | TlbKind::Complete | TlbKind::Partial);
    if in_sets && dice.percent(40) {
        c.ways = dice.pick(&[1, 2, 4]);
        c.entries = c.ways * dice.pick(&[1, 2, 4, 16]);
        if kind == TlbKind::Single {
            preset = "set-associative";
        }
    }
    if kind != TlbKind::Integrated {
        write!(text, "ways={},", c.ways).unwrap();
    }
    match kind {
        TlbKind::Superpage => {
            c.orders = dice.pick(&[vec![0, 4], vec![0, 4], vec![0, 2], vec![0, 1, 3, 6], vec![0, 1, 2, 3, 4, 5, 6], vec![0]]);
            write!(text, "sizes={},", sizes(&c.orders.iter().map(|o| 1 << o).collect::<Vec<_>>(), k)).unwrap();
        }
        TlbKind::Complete | TlbKind::Partial => {
            c.factor = dice.pick(&[2, 4, 8, 16, 16, 16, 32]);
            write!(text, "factor={},", c.factor).unwrap();
        }
        TlbKind::Integrated => write!(text, "sizes={},", sizes(&[1, 16, 256], k)).unwrap(),
        TlbKind::Single => {}
    }
    let (replacement, name) = dice.pick(&[
        (Replacement::UsedBit, "used-bit"),
        (Replacement::UsedBit, "used-bit"),
        (Replacement::Lru, "lru"),
        (Replacement::Fifo, "fifo"),
        (Replacement::Random, "random"),
    ]);
    c.replacement = replacement;
    c.fill_sets_used = dice.percent(75);
    c.process_ids = !matches!(kind, TlbKind::Single | TlbKind::Superpage) || dice.percent(70);
    write!(text, "entries={},replacement={name},process_ids={}", c.entries, c.process_ids).unwrap();
    write!(text, ",fill_sets_used={}", c.fill_sets_used).unwrap();
    (format!("t94/{preset}:{text}"), c, kind != TlbKind::Integrated)
}

/// Which memories the machines of a test have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemorySize {
    Endless,
    /// Just enough for what the program needs without reservations; these must go when it is used up.
    Tight,
    Either,
}

/// Frames beyond what a program needs.
const SPARE_FRAMES: [u64; 8] = [0, 0, 1, 2, 5, 16, 40, 100];

fn machines(seed: u64, stream: &Stream, memory: MemorySize) -> Vec<Machine> {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let mut all = Vec::new();
    for _ in 0..dice.pick(&[1, 1, 2, 3]) {
        let (os_text, mut os) = system(&mut dice);
        let tight = match memory {
            MemorySize::Endless => false,
            MemorySize::Tight => true,
            MemorySize::Either => dice.percent(60),
        };
        if tight {
            let tlb = TlbConfig { entries: 1, ..TlbConfig::new(TlbKind::Single) };
            let items = stream.items();
            let mut frames =
                run(&RunConfig { tlb: tlb.clone(), os: os.clone() }, &items).peaks.busy.max(1) + dice.pick(&SPARE_FRAMES);
            os.frames = Some(frames);
            // Where frames lie decides what is promoted, and what is promoted may be populated: it can take more than without end.
            let short = |os: &OsConfig| caught(|| Ok(run(&RunConfig { tlb: tlb.clone(), os: os.clone() }, &items))).err();
            while (!os.promote.is_empty() || os.two_size.is_some()) && short(&os).is_some_and(|e| e.contains("out of memory")) {
                frames += 8;
                os.frames = Some(frames);
            }
        }
        let memory = os.frames.map_or("unlimited".to_owned(), |frames| size(frames, os.k));
        for _ in 0..dice.pick(&[1, 2, 3]) {
            let (tlb_text, tlb, hardware) = hardware(&mut dice, seed, os.k);
            let text = format!("{tlb_text},{os_text},memory={memory}");
            all.push(Machine { text, run: RunConfig { tlb, os: os.clone() }, hardware });
        }
    }
    all
}

fn specs(machines: &[Machine], seed: u64) -> Vec<MachineSpec> {
    machines.iter().map(|m| MachineSpec::parse(&m.text, seed).unwrap_or_else(|e| panic!("{e}"))).collect()
}

// --------------------------------------------------------------------------------------------------------- comparison

fn simulate(
    machines: &[Machine],
    batches: &[Batch],
    options: Options,
) -> Result<(RunResult, Vec<Vec<EntryView>>), farreach::Error> {
    let mut lab = Lab::new(specs(machines, options.seed), options)?;
    for batch in batches {
        lab.feed(batch)?;
    }
    Ok((lab.result("test", None), lab.entries()))
}

/// Names the fields in which two records differ.
fn differences(what: &str, skip: &[&str], ours: &impl Serialize, oracle: &impl Serialize) -> String {
    let (ours, oracle) = (serde_json::to_value(ours).unwrap(), serde_json::to_value(oracle).unwrap());
    let mut text = String::new();
    differ(what, skip, &ours, &oracle, &mut text);
    text
}

fn differ(what: &str, skip: &[&str], a: &Json, b: &Json, text: &mut String) {
    match (a, b) {
        _ if a == b => {}
        (Json::Object(a), Json::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|n| !a.contains_key(*n))).filter(|n| !skip.contains(&n.as_str())) {
                let (a, b) = (a.get(name).unwrap_or(&Json::Null), b.get(name).unwrap_or(&Json::Null));
                differ(&format!("{what}.{name}"), skip, a, b, text);
            }
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| differ(&format!("{what}[{i}]"), skip, a, b, text));
        }
        _ => writeln!(text, "  {what}: {a}, expected {b}").unwrap(),
    }
}

fn entry_differences(ours: &[EntryView], oracle: &[EntryView]) -> String {
    let mut text = String::new();
    for slot in ours.iter().chain(oracle).map(|e| e.slot).collect::<BTreeSet<_>>() {
        let of = |all: &[EntryView]| all.iter().find(|e| e.slot == slot).cloned();
        if of(ours) != of(oracle) {
            writeln!(text, "  entry {slot}: {:?}\n    expected {:?}", of(ours), of(oracle)).unwrap();
        }
    }
    text
}

/// The laboratory's results against those of the oracle, machine by machine; empty: no difference.
fn compare(machines: &[Machine], result: &RunResult, entries: &[Vec<EntryView>], oracle: &[OracleResult]) -> String {
    let mut text = String::new();
    for (((m, r), e), o) in machines.iter().zip(&result.machines).zip(entries).zip(oracle) {
        let mut found = differences("os", OS_SKIP, &r.counts.os, &o.os);
        found += &differences("lookups", &[], &result.workload.lookups, &o.lookups);
        found += &differences("references", &[], &result.workload.references, &o.references);
        let memory = [r.memory.resident_bytes, r.memory.reserved_bytes, r.memory.mapped_bytes, result.workload.touched_bytes];
        let pages = [o.peaks.busy, o.peaks.reserved, o.peaks.mapped].map(|n| n << (BASE_SHIFT + m.run.os.k));
        let peaks = [pages[0], pages[1], pages[2], o.touched << BASE_SHIFT];
        found += &differences("resident, reserved, mapped, touched", &[], &memory, &peaks);
        if m.hardware {
            found += &differences("tlb", &[], &r.counts.tlb, &o.tlb);
            found += &entry_differences(e, &o.entries);
        }
        if !found.is_empty() {
            writeln!(text, "{}\n{found}", m.text).unwrap();
        }
    }
    text
}

/// Runs everything everywhere; the error says what differs. Returns what the oracle's systems counted.
fn check(seed: u64, stream: &Stream, machines: &[Machine]) -> Result<Vec<OsCounts>, String> {
    let batches = stream.batches();
    let items = stream.items();
    let options = |plain, limit| Options { plain, seed, limit, threads: 0 };
    let both = |limit| {
        let fast = simulate(machines, &batches, options(false, limit)).map_err(|e| format!("with shortcuts: {e}"))?;
        let plain = simulate(machines, &batches, options(true, limit)).map_err(|e| format!("without shortcuts: {e}"))?;
        if fast != plain {
            let mut text = differences("result", &[], &fast.0, &plain.0);
            fast.1.iter().zip(&plain.1).for_each(|(f, p)| text += &entry_differences(f, p));
            return Err(format!("the shortcut changes the result, limit {limit:?}:\n{text}"));
        }
        Ok(fast)
    };
    let (result, entries) = both(None)?;
    let oracle: Vec<OracleResult> = machines.iter().map(|m| run(&m.run, &items)).collect();
    let text = compare(machines, &result, &entries, &oracle);
    if !text.is_empty() {
        return Err(text);
    }
    // T94-47: without promotion the faults are the program's, whatever the placement and the memory.
    let plain = machines.iter().zip(&oracle).filter(|(m, _)| m.run.os.promote.is_empty() && m.run.os.two_size.is_none());
    let faults = |o: &OracleResult| [o.os.page_faults, o.os.protection_faults, o.os.cow_copies, o.os.dirty_pages];
    let faults: BTreeSet<_> = plain.map(|(m, o)| (m.run.os.k, faults(o))).collect();
    if faults.iter().zip(faults.iter().skip(1)).any(|(a, b)| a.0 == b.0) {
        return Err(format!("T94-47: page faults, protection faults, copies, dirty pages {faults:?}"));
    }
    if seed.is_multiple_of(3) {
        both(Some(result.workload.instructions / 2))?;
    }
    Ok(oracle.into_iter().map(|o| o.os).collect())
}

/// One system side by side with the oracle's, compared after every reference and event.
fn check_system(seed: u64, stream: &Stream, machine: &Machine) -> Result<(), String> {
    // Ranges are kept beside the page table and change nothing in it (RMM15-1): every second system keeps them.
    let text = match seed % 4 {
        0 => format!("{},ranges=true", machine.text),
        2 => format!("{},ranges=true,range_cow=split,range_table=list,range_threshold=2", machine.text),
        _ => machine.text.clone(),
    };
    let spec = MachineSpec::parse(&text, seed).map_err(|e| e.to_string())?;
    let mut ours = Os::new(&spec.params)?;
    let mut oracle = PlainOs::new(machine.run.os.clone());
    let mut spaces = BTreeSet::new();
    let mut seen: BTreeSet<(Asid, Vpn)> = BTreeSet::new();
    let mut changes = Vec::new();
    for (i, (asid, item)) in stream.items().into_iter().enumerate() {
        spaces.insert(asid);
        match &item {
            Item::Access(access) => {
                let shift = ours.page_shift();
                let last = (access.addr.saturating_add(u64::from(access.size) - 1)) >> shift;
                for vpn in (access.addr >> shift..=last).map(Vpn) {
                    let got = ours.touch(asid, vpn, access.kind).map_err(|e| ours.explain(e))?.pte;
                    oracle.touch(asid, vpn, access.kind);
                    if Some(got) != oracle.pte(asid, vpn) {
                        return Err(format!("item {i}, {item:x?}: {got:?}, expected {:?}", oracle.pte(asid, vpn)));
                    }
                    seen.insert((asid, vpn));
                }
            }
            Item::Op(op) => {
                ours.apply(asid, op);
                oracle.apply(asid, op);
                if let Op::Fork { child } = op {
                    spaces.insert(*child);
                }
            }
        }
        ours.take_changes(&mut changes);
        let counts = differences("os", OS_SKIP, &ours.counts(), &oracle.counts());
        if !counts.is_empty() {
            return Err(format!("after item {i}, {item:x?}:\n{counts}"));
        }
        if matches!(item, Item::Op(_)) || i % 64 == 0 {
            ours.check();
            oracle.check();
            for &asid in &spaces {
                seen.extend(oracle.translations(asid).into_iter().map(|(vpn, _)| (asid, vpn)));
            }
            for &(asid, vpn) in &seen {
                let (got, expected) = (ours.pte(asid, vpn), oracle.pte(asid, vpn));
                if got != expected {
                    return Err(format!("after item {i}, {item:x?}: {asid:?} {vpn:x?} is {got:?}, expected {expected:?}"));
                }
            }
        }
    }
    Ok(())
}

// ------------------------------------------------------------------------------------------------------------ failure

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A panic as an error, without its message on the screen.
fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info)
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_else(|| panic.downcast_ref::<&str>().map_or("?".into(), |t| (*t).into()))))
    })
}

/// A part of the stream that fails as well.
fn shrink(stream: &Stream, fails: impl Fn(&Stream) -> bool) -> Stream {
    let until = Instant::now() + Duration::from_secs(60);
    let mut best = stream.clone();
    let mut chunk = best.steps.len().div_ceil(2);
    while chunk > 0 && Instant::now() < until {
        let (mut at, mut shorter) = (0, false);
        while at < best.steps.len() && Instant::now() < until {
            let mut next = best.clone();
            next.steps.drain(at..(at + chunk).min(next.steps.len()));
            if fails(&next) {
                (best, shorter) = (next, true);
            } else {
                at += chunk;
            }
        }
        if !shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}

/// Runs `check` on the stream; a failure is shrunk and told.
fn must_pass<T>(
    seed: u64,
    stream: &Stream,
    machines: &[Machine],
    check: impl Fn(&Stream, &[Machine]) -> Result<T, String>,
) -> T {
    let why = match caught(|| check(stream, machines)) {
        Ok(done) => return done,
        Err(why) => why,
    };
    let fails = |s: &Stream, m: &[Machine]| {
        caught(|| check(s, m)).err().is_some_and(|e| e.contains("out of memory") == why.contains("out of memory"))
    };
    let one = machines.chunks(1).find(|m| fails(stream, m)).unwrap_or(machines);
    let short = shrink(stream, |s| fails(s, one));
    let why = caught(|| check(&short, one)).err().unwrap_or(why);
    let names: Vec<&str> = one.iter().map(|m| m.text.as_str()).collect();
    panic!("seed {seed}\n{}\n{short}{why}", names.join("\n"));
}

fn seeds(streams: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} = {text}")));
    match number("FARREACH_ORACLE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("FARREACH_ORACLE_STREAMS").unwrap_or(streams)).collect(),
    }
}

/// Whole runs; returns everything the systems counted, summed, to see that the streams reach it.
fn runs(streams: u64, actions: u64, maps: bool, memory: MemorySize) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    for seed in seeds(streams) {
        let stream = stream(seed, actions, maps);
        let machines = machines(seed, &stream, memory);
        for counts in must_pass(seed, &stream, &machines, |s, m| check(seed, s, m)) {
            let Json::Object(fields) = serde_json::to_value(&counts).unwrap() else { unreachable!() };
            for (name, n) in fields {
                *totals.entry(name).or_insert(0) += n.as_u64().unwrap();
            }
        }
    }
    totals
}

fn all_happened(totals: &BTreeMap<String, u64>, but: &[&str]) {
    let unknown = ["pt_probes", "alloc_steps", "gathered_pages"];
    let never = totals
        .iter()
        .filter(|(_, n)| **n == 0)
        .filter(|(name, _)| ![&unknown[..], OTHER_POLICIES, but].iter().any(|list| list.contains(&name.as_str())));
    let never: Vec<&String> = never.map(|(name, _)| name).collect();
    assert!(never.is_empty() || seeds(0).len() == 1, "never happened: {never:?}");
}

// -------------------------------------------------------------------------------------------------------------- tests

#[test]
fn ca_38_translations_agree_step_by_step() {
    for seed in seeds(400) {
        let stream = stream(seed, 60, seed % 8 != 7);
        let memory = if seed % 2 == 0 { MemorySize::Endless } else { MemorySize::Tight };
        let machines = machines(seed, &stream, memory);
        must_pass(seed, &stream, &machines[..1], |s, m| check_system(seed, s, &m[0]));
    }
}

#[test]
fn xc_5_t94_40_to_60_runs_agree() {
    let totals = runs(150, 90, true, MemorySize::Either);
    all_happened(&totals, &[]);
}

#[test]
fn xc_6_t94_46_runs_in_tight_memory_agree() {
    let totals = runs(120, 90, true, MemorySize::Tight);
    all_happened(&totals, &[]);
}

#[test]
fn xc_1_xc_3_runs_without_map_events_agree() {
    let totals = runs(60, 60, false, MemorySize::Either);
    all_happened(&totals, &["io_bytes", "pages_prefetched", "refused_small_object", "wild_faults", "forbidden_accesses"]);
}

/// A real program, as Valgrind's Lackey tells it, through the default designs.
#[test]
fn xc_1_xc_3_a_real_program_agrees() {
    const REFERENCES: u64 = 200_000;
    let file = std::env::temp_dir().join(format!("farreach-run-oracle-{}.lackey", std::process::id()));
    let log = format!("--log-file={}", file.display());
    let valgrind = Command::new("valgrind").args(["--tool=lackey", "--trace-mem=yes", &log, "/bin/true"]).output();
    let done = match valgrind {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: valgrind is not installed");
            return;
        }
        other => other.expect("valgrind runs"),
    };
    assert!(done.status.success(), "valgrind: {}", String::from_utf8_lossy(&done.stderr));
    let mut source = open_trace(file.to_str().unwrap(), None).unwrap().source;
    let (mut batches, mut blocks, mut references) = (Vec::new(), Blocks::default(), 0);
    while references < REFERENCES
        && let Some(batch) = source.next_batch().unwrap()
    {
        let count = |item: Item<'_>| {
            references += u64::from(matches!(item, Item::Access(_)));
            true
        };
        blocks.expand(&batch, count).unwrap();
        batches.push(batch);
    }
    std::fs::remove_file(&file).unwrap();
    assert!(references > 50_000, "only {references} references");

    let mut blocks = Blocks::default();
    let mut items = Vec::new();
    for batch in &batches {
        let each = |item| {
            items.push((batch.asid, item));
            true
        };
        blocks.expand(batch, each).unwrap();
    }
    let seed = 5;
    let prefetching = OsConfig { prefetch: true, ..OsConfig::reservation(16) };
    let design = |preset: &str, kind, os| {
        let (text, tlb) = (format!("t94/{preset}"), TlbConfig { seed, ..TlbConfig::new(kind) });
        Machine { text, run: RunConfig { tlb, os }, hardware: true }
    };
    let mut sets = design("set-associative", TlbKind::Single, OsConfig::demand());
    (sets.run.tlb.entries, sets.run.tlb.ways, sets.run.tlb.replacement) = (256, 4, Replacement::Random);
    let machines = [
        design("single", TlbKind::Single, OsConfig::demand()),
        design("superpage", TlbKind::Superpage, OsConfig::superpages(16)),
        design("complete", TlbKind::Complete, OsConfig::demand()),
        design("partial", TlbKind::Partial, prefetching),
        sets,
    ];
    let oracle: Vec<OracleResult> = machines.iter().map(|m| run(&m.run, &items)).collect();
    for plain in [false, true] {
        let (result, entries) = simulate(&machines, &batches, Options { plain, seed, limit: None, threads: 0 }).unwrap();
        let text = compare(&machines, &result, &entries, &oracle);
        assert!(text.is_empty(), "plain {plain}:\n{text}");
    }
}
