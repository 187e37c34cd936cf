//! Operating systems and whole machines against the plain oracle, on hostile streams of events: several address spaces
//! that map, unmap, move, grow, protect, drop, fork, copy on write, exec and exit; stray and forbidden references,
//! references that cross pages, blocks of all shapes; memories so tight that reservations are taken back, and unlimited
//! ones; traces without map events.
//!
//! * [`ca_38_translations_agree_step_by_step`]: the operating system alone, side by side with the oracle, compared
//!   after each reference and event: every translation, every count, and the frames (XC-6).
//! * The others: [`Lab`] with several machines at once, as a user runs it. Every count of hardware and system, lookups
//!   and references, the entries at the end with their translations must be the oracle's; and a run with shortcuts must
//!   end in the very same result as one without.
//!
//! A failure is shrunk first (events are left out while it stays one) and printed with seed and configuration. To
//! repeat one stream: `FARREACH_SEED=123 cargo test -p farreach-machine --test suite run_oracle`. Covers XC-1, XC-3,
//! XC-5, XC-6, T94-40 to T94-61, AMB-2, AMB-6, AMB-7, AMB-8, AMB-9, AMB-10, AMB-11, AMB-12, AMB-13, AMB-22, AMB-23,
//! AMB-24; CA-38.

mod compare;
mod generator;
mod machines;

use compare::{check, check_system, compare, simulate};
use farreach_hw::tlb::EntryView;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_oracle::dice::Dice;
use farreach_oracle::os::{Class, OsConfig, PlainOs};
use farreach_oracle::run::{OracleResult, RunConfig, run};
use farreach_oracle::tlb::{Replacement, TlbConfig, TlbKind};
use farreach_os::Os;
use farreach_trace::open_trace;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::counts::{OsCounts, RunResult};
use farreach_types::event::{
    Access, Advice, Backing, Batch, Block, Blocks, DataRef, End, Instr, Item, Kind, Mapping, NOT_EXECUTED, Op, Prot,
};
use farreach_types::translation::PageTableView;
use generator::stream;
use machines::{Machine, MemorySize, machines, specs};
use serde::Serialize;
use serde_json::Value as Json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// Counts of the system that the oracle does not have: the work of page tables and allocators. Counts of policies that
/// the plain model does not have; `tests/suite/big_memory` covers them.
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
];
const OS_SKIP: &[&str] = &["pt_probes", "alloc_steps"];

// ------------------------------------------------------------------------------------------------------------ streams

/// One step of a stream.
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

/// A stream of steps; any part of it is one too.
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

// ----------------------------------------------------------------------------------------------------------- machines
thread_local! {
    static MUTE_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// A panic as an error, without its message on the screen.
fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !MUTE_PANICS.get() {
                usual(info)
            }
        }));
    });
    MUTE_PANICS.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    MUTE_PANICS.set(false);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!(
            "panic: {}",
            text.unwrap_or_else(|| panic.downcast_ref::<&str>().map_or("?".into(), |t| (*t).into()))
        ))
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

/// Runs `check` on the stream; a failure is shrunk and printed.
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

/// Whole runs; returns the summed counts of the systems, to check that the streams exercise them.
fn runs(streams: u64, actions: u64, maps: bool, memory: MemorySize) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    for seed in farreach_oracle::dice::seeds(streams) {
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
    assert!(never.is_empty() || !farreach_oracle::dice::seeds(0).is_empty(), "never happened: {never:?}");
}

// -------------------------------------------------------------------------------------------------------------- tests

#[test]
fn ca_38_translations_agree_step_by_step() {
    for seed in farreach_oracle::dice::seeds(160) {
        let stream = stream(seed, 60, seed % 8 != 7);
        let memory = if seed % 2 == 0 { MemorySize::Endless } else { MemorySize::Tight };
        let machines = machines(seed, &stream, memory);
        must_pass(seed, &stream, &machines[..1], |s, m| check_system(seed, s, &m[0]));
    }
}

#[test]
fn xc_5_t94_40_to_60_runs_agree() {
    let totals = runs(120, 90, true, MemorySize::Either);
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
    all_happened(
        &totals,
        &["io_bytes", "pages_prefetched", "refused_small_object", "wild_faults", "forbidden_accesses"],
    );
}

/// A real program, traced by Valgrind's Lackey, through the default designs.
#[test]
fn xc_1_xc_3_a_real_program_agrees() {
    const REFERENCES: u64 = 200_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("true.lackey");
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
        let (result, entries) = simulate(&machines, &batches, Options { plain, seed, ..Options::default() }).unwrap();
        let text = compare(&machines, &result, &entries, &oracle);
        assert!(text.is_empty(), "plain {plain}:\n{text}");
    }
}
