//! The checks of every policy: random programs on it, with a check of the whole system at intervals.

use super::configurations::build;
use super::need;
use super::program::{FIRST, PAGES, Program};
use super::system::System;
use farreach_types::addr::Asid;
use farreach_types::counts::{MemoryUse, OsCounts};
use farreach_types::event::{Backing, Kind, Mapping, Op, Prot};
use farreach_types::translation::Pte;

const STREAMS: u64 = 2;
const EVENTS: usize = 300;
/// Touches after an event, at most.
const TOUCHES: u64 = 24;
/// Events between checks.
const EVERY: usize = 12;

/// The outcome of a stream.
type Outcome = (Vec<Option<Pte>>, OsCounts, MemoryUse);

pub fn conform(placement: &str, keys: &str) -> Result<(), String> {
    for seed in 0..STREAMS {
        let run = || stream(placement, keys, seed).map_err(|what| format!("{placement}/{keys}: stream {seed}: {what}"));
        let first = run()?;
        need(first == run()?, || format!("{placement}/{keys}: stream {seed}: equal seeds give different results"))?;
    }
    Ok(())
}

/// Fails if no program has a superpage on this policy, so that the other tests say nothing of them: or, if it is to
/// make none, if one has.
pub fn superpages(placement: &str, keys: &str, none: bool) -> Result<(), String> {
    let mut made = false;
    for seed in 0..STREAMS {
        made |= stream(placement, keys, seed)?.0.iter().flatten().any(|pte| pte.order > 0);
    }
    need(made != none, || {
        let what = if made { "there are" } else { "there are no" };
        format!(
            "{what} superpages with {placement}/{keys}; in configurations.rs, SMALL has keys that make sizes fit \
             programs of {PAGES} pages, and BASE_PAGES the policies that make none"
        )
    })
}

fn stream(placement: &str, keys: &str, seed: u64) -> Result<Outcome, String> {
    let os = build(placement, keys, seed)?;
    let mut program = Program::new(seed, seed % 2 == 1, os.page_shift());
    let mut system = System::new(os, keys.contains("hugetlb_round=true"));
    let mut seen = Vec::new();
    for n in 0..EVENTS {
        let (asid, op) = program.event();
        system.apply(asid, &op);
        let at = |what| format!("event {n}, {asid:?} {op:?}: {what}");
        let full = touches(&mut program, &mut system, &mut seen).map_err(at)?;
        if full || n % EVERY == 0 {
            system
                .check(&program)
                .map_err(|what| at(format!("{}{what}", if full { "memory was full; " } else { "" })))?;
        }
    }
    let counts = (system.os.counts(), system.os.memory_use());
    let last: Vec<Asid> = program.spaces.keys().copied().collect();
    for asid in last {
        let op = program.end(asid);
        system.apply(asid, &op);
    }
    system.check_end()?;
    once_more(&mut system)?;
    Ok((seen, counts.0, counts.1))
}

/// Some touches; whether memory was full.
fn touches(program: &mut Program, system: &mut System, seen: &mut Vec<Option<Pte>>) -> Result<bool, String> {
    let all: Vec<Asid> = program.spaces.keys().copied().collect();
    if all.is_empty() {
        return Ok(false);
    }
    let asid = program.pick(&all);
    let mut vpn = FIRST + program.below(PAGES);
    let mut full = false;
    for _ in 0..program.below(TOUCHES) {
        // Mostly the next page.
        vpn = if program.below(4) > 0 { vpn + 1 } else { FIRST + program.below(PAGES) };
        let Some((&page, &of)) = program.spaces[&asid].range(vpn..).next() else { continue };
        vpn = page;
        let allowed = [(Kind::Load, of.prot.read), (Kind::Store, of.prot.write), (Kind::Fetch, of.prot.exec)];
        let kinds: Vec<Kind> = allowed.into_iter().filter(|(_, may)| *may).map(|(kind, _)| kind).collect();
        if kinds.is_empty() {
            continue;
        }
        let kind = program.pick(&kinds);
        let pte = system.touch(program, asid, vpn, kind)?;
        full |= pte.is_none();
        seen.push(pte);
    }
    Ok(full)
}

/// Another process uses the memory that the others freed.
fn once_more(system: &mut System) -> Result<(), String> {
    let asid = Asid(1_000);
    system.apply(asid, &Op::Start { pid: 2, parent: None, program: "/bin/other".into() });
    let (start, len) = (FIRST << system.os.page_shift(), 1 << system.os.page_shift());
    system.apply(asid, &Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing: Backing::Anonymous }));
    let touched = system.os.touch(asid, farreach_types::addr::Vpn(FIRST), Kind::Store);
    // A policy may have set all of it aside.
    let none = system.os.frames().free == Some(0);
    need(touched.is_ok() || none, || format!("all processes ended, and memory is full: {:?}", system.os.frames()))
}
