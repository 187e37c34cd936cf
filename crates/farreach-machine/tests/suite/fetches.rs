//! The program counter at each lookup (HW-6): what a design is told, against the stream read fetch by fetch; and
//! machines that need it, with shortcuts and without.

use crate::common::{Stream, lab, run_batches};
use farreach_hw::tlb::{
    Answer, Capabilities, DESIGNS, Design, EntryView, Lookup, OnFetch, Outcome, Tlb, Unfiltered, keys,
};
use farreach_machine::{Lab, MachineSpec, Options, TrapLab};
use farreach_oracle::dice::{Dice, seeds};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::{Batch, Block, DataRef, End, Instr, Kind, Op};
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A lookup: process, page, kind, program counter.
type Told = (u32, u64, Kind, u64);

/// What the design under test was told; tests of it take turns.
static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// A design that holds all pages, lets every third lookup of a page into the filter, and notes the rest.
#[derive(Default)]
struct Witness {
    pc: u64,
    held: HashMap<(Asid, Vpn), Translation>,
    lookups: u64,
    counts: TlbCounts,
}

const WITNESS: Design = Design {
    kind: "witness",
    about: "notes the program counters",
    keys: &[&keys::PAGE_SIZE],
    build: |_| Ok(Box::new(Witness::default())),
    bits: |_| None,
    reach: |_| 4096,
};

impl Capabilities for Witness {
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        Some(self)
    }
}

impl OnFetch for Witness {
    fn latest_fetch(&mut self, address: u64) {
        self.pc = address;
    }
    fn because_of(&mut self) -> String {
        "kind = witness".into()
    }
}

impl Tlb for Witness {
    fn access(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, _: &mut Unfiltered) -> Answer {
        TOLD.lock().unwrap().push((at.asid.0, at.vpn.0, at.kind, self.pc));
        self.held.insert((at.asid, at.vpn), Translation { pfn: pte.pfn, attr: pte.attr });
        self.lookups += 1;
        Answer { outcome: Outcome::Hit, filterable: self.lookups.is_multiple_of(3) }
    }
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.held.retain(|(of, vpn), _| *of != asid || !pages.contains(*vpn));
        unfiltered.add_all();
    }
    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.held.get(&(asid, vpn)).copied()
    }
    fn entries(&self) -> Vec<EntryView> {
        Vec::new()
    }
    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

/// Blocks of all forms: on one page and across two, with data before the first fetch, with data alone, with none.
fn blocks(dice: &mut Dice) -> Vec<Block> {
    let block = |dice: &mut Dice| {
        let page = 0x1000 * (1 + dice.below(6));
        let start = page + dice.pick(&[0, 0x100, 0xff0]);
        let instrs: Box<[Instr]> =
            (0..dice.pick(&[1, 2, 5, 9, 0])).map(|i| Instr { pc: start + 4 * i, len: 4 }).collect();
        let refs = dice.below(5).max(u64::from(instrs.is_empty()));
        let mut after: Vec<u16> = (0..refs).map(|_| dice.below(instrs.len() as u64 + 1) as u16).collect();
        after.sort_unstable();
        if dice.below(3) > 0 && !instrs.is_empty() {
            after.iter_mut().for_each(|after| *after = 1.max(*after));
        }
        let data = |(i, after): (usize, u16)| {
            DataRef::new(after.into(), if dice.percent(40) { Kind::Store } else { Kind::Load }, 8, i as u32)
        };
        Block { instrs, refs: after.into_iter().enumerate().map(data).collect() }
    };
    (0..24).map(|_| block(dice)).collect()
}

/// A random stream of processes and threads, and the lookups of it with the program counter of each.
fn stream(seed: u64) -> (Vec<Batch>, Vec<Told>) {
    let mut dice = Dice::new(seed);
    let mut s = Stream::new();
    // The first thread to be named is the one that has been running.
    s.start().op(Op::ThreadStart { thread: 0 });
    let blocks = blocks(&mut dice);
    for (id, block) in blocks.iter().enumerate() {
        s.op(Op::Define { id: 200 + id as u32, block: Arc::new(block.clone()) });
    }
    // By process and thread; the running threads.
    let mut latest: HashMap<(u32, u32), u64> = HashMap::new();
    let mut threads: HashMap<u32, u32> = [(0, 0)].into();
    let (mut now, mut told) = (0, Vec::new());
    for _ in 0..4000 {
        match dice.below(200) {
            0..3 => {
                let thread = dice.below(3) as u32;
                threads.insert(now, thread);
                s.op(Op::Switch { thread });
            }
            3..6 => {
                now = dice.pick(
                    &threads.keys().copied().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
                );
                s.space(now);
            }
            6 if !threads.contains_key(&1) => {
                s.op(Op::Fork { child: Asid(1) });
                let thread = threads[&now];
                threads.insert(1, thread);
                if let Some(pc) = latest.get(&(now, thread)).copied() {
                    latest.insert((1, thread), pc);
                }
            }
            7 if now == 1 => {
                s.op(Op::End(End::Exit(0)));
                threads.remove(&1);
                latest.retain(|(of, _), _| *of != 1);
                now = 0;
                s.space(0);
            }
            _ => {}
        }
        let id = dice.below(blocks.len() as u64) as usize;
        let (block, thread) = (&blocks[id], threads[&now]);
        let begins_with_data = block.refs.first().is_some_and(|r| r.after == 0);
        if begins_with_data && !latest.contains_key(&(now, thread)) {
            continue;
        }
        let words: Vec<u64> =
            block.refs.iter().map(|_| 0x10_0000 + 0x1000 * dice.below(3) + dice.pick(&[0, 8, 0xffc])).collect();
        let mut fetched = 0;
        let fetch = |until: usize, fetched: &mut usize, latest: &mut HashMap<_, _>, told: &mut Vec<Told>| {
            for instr in &block.instrs[*fetched..until] {
                latest.insert((now, thread), instr.pc);
                let last = (instr.pc + 3) >> 12;
                told.extend((instr.pc >> 12..=last).map(|vpn| (now, vpn, Kind::Fetch, instr.pc)));
            }
            *fetched = until;
        };
        for (r, addr) in block.data(&words) {
            fetch(r.after as usize, &mut fetched, &mut latest, &mut told);
            let pc = latest[&(now, thread)];
            told.extend((addr >> 12..=(addr + 7) >> 12).map(|vpn| (now, vpn, r.kind, pc)));
        }
        fetch(block.instrs.len(), &mut fetched, &mut latest, &mut told);
        let words = &words[..block.words()];
        s.batches.last_mut().unwrap().push_block(200 + id as u32, words);
    }
    (s.batches, told)
}

fn told_in_a_run(batches: &[Batch], plain: bool) -> Vec<Told> {
    TOLD.lock().unwrap().clear();
    let designs: Vec<&Design> = DESIGNS.iter().copied().chain([&WITNESS]).collect();
    let spec = MachineSpec::with_designs("witness", "kind = 'witness'\nplacement = 'demand'", "", 0, &designs).unwrap();
    let mut lab = Lab::new(vec![spec], Options { plain, ..Options::default() }).unwrap();
    for batch in batches {
        lab.feed(batch).unwrap();
    }
    lab.finish().unwrap();
    std::mem::take(&mut TOLD.lock().unwrap())
}

#[test]
fn hw_6_the_program_counter_is_that_of_the_latest_fetch() {
    let (mut all, mut some) = (0, 0);
    for seed in seeds(30) {
        let (batches, expected) = stream(seed);
        assert_eq!(told_in_a_run(&batches, true), expected, "stream {seed}");
        let told = told_in_a_run(&batches, false);
        let mut rest = expected.iter();
        for lookup in &told {
            assert!(rest.any(|e| e == lookup), "stream {seed}: {lookup:x?} is none of the rest");
        }
        (all, some) = (all + expected.len(), some + told.len());
    }
    assert!(some > 10_000 && some < all / 2, "{some} of {all} lookups are not filtered");
}

/// Filter, threads of the laboratory and batches change nothing.
#[test]
fn hw_6_machines_that_need_it_count_alike_without_shortcuts() {
    let small = "l1d=4K:2,l1i=4K:2,l2=4K:4/2,placement=demand";
    let machines: Vec<String> =
        ["chirp", "chirp,chirp_renew=set-change,chirp_counters=16", "itp", "srrip", "lru", "same"]
            .iter()
            .map(|policy| format!("hierarchy:{small},l2_replacement={policy}"))
            .collect();
    let spec = |machine: &String| {
        let (kind, keys) = machine.split_once(':').unwrap();
        MachineSpec::from_toml(machine, &format!("kind = '{kind}'"), keys, 7).unwrap()
    };
    let run = |batches: &[Batch], plain: bool, threads: usize| {
        let mut lab =
            Lab::new(machines.iter().map(spec).collect(), Options { plain, seed: 7, threads, ..Options::default() })
                .unwrap();
        for batch in batches {
            lab.feed(batch).unwrap();
        }
        lab.finish().unwrap();
        (lab.result("test", None), lab.entries())
    };
    let mut dead = 0;
    for seed in seeds(10) {
        let (batches, _) = stream(seed);
        let fast = run(&batches, false, 1);
        for (plain, threads) in [(true, 1), (false, 3)] {
            assert_eq!(run(&batches, plain, threads), fast, "stream {seed}, plain {plain}, {threads} threads");
        }
        let counts = |i: usize| &fast.0.machines[i].counts.tlb;
        assert_eq!(counts(4), counts(5), "lru by name is that of the rest");
        dead += counts(0).replacement.get("dead_victims");
    }
    assert!(dead > 100, "{dead} victims were dead");
}

/// Machines with caches are told the same: the walks of a machine do not depend on what they cost.
#[test]
fn hw_6_machines_with_caches_count_as_those_without() {
    let parts = [
        "l2_replacement=chirp,chirp_renew=set-change,chirp_counters=16",
        "behind=prefetch,prefetcher=masp,pb_entries=4",
        "behind=prefetch,prefetcher=stride,prefetch_delay=40",
        "behind=spot,spot_run=1",
        "behind=dppred",
    ];
    let machines: Vec<String> = ["fixed", "caches"]
        .iter()
        .flat_map(|cost| {
            let small = format!("l1d=4K:2,l1i=4K:2,l2=4K:4/2,placement=demand,walk_cost={cost}");
            parts.map(|part| format!("{small},{part}"))
        })
        .collect();
    let (mut counted, mut late) = ([0; 4], 0);
    for seed in seeds(10) {
        let (batches, _) = stream(seed);
        for plain in [false, true] {
            let specs = machines.iter().map(|m| MachineSpec::from_toml(m, "kind = 'hierarchy'", m, 7).unwrap());
            let mut lab = Lab::new(specs.collect(), Options { plain, seed: 7, ..Options::default() }).unwrap();
            for batch in &batches {
                lab.feed(batch).unwrap();
            }
            lab.finish().unwrap();
            let outcome = lab.result("test", None);
            let of = |machine: usize| {
                let tlb = &outcome.machines[machine].counts.tlb;
                let parts: Vec<_> =
                    tlb.parts.iter().map(|(name, part)| (name.to_owned(), part.counters.clone())).collect();
                (tlb.misses, tlb.fills, tlb.evictions, tlb.replacement.clone(), parts)
            };
            for (part, name) in parts.iter().enumerate() {
                assert_eq!(of(part), of(part + parts.len()), "stream {seed}, plain {plain}, {name}");
            }
            for (what, part, counter) in [
                (0, "prefetch", "candidates"),
                (1, "prefetch", "candidates"),
                (2, "spot", "correct"),
                (3, "dppred", "bypasses"),
            ] {
                counted[what] += outcome.machines[what + 1].counts.tlb.parts.count(part, counter);
            }
            late += outcome.machines[2].counts.tlb.parts.count("prefetch", "late");
        }
    }
    assert!(counted.iter().all(|&n| n > 100) && late > 0, "{counted:?}, {late} late");
}

#[test]
fn hw_4_results_have_the_keys_of_the_policy_alone() {
    let mut s = Stream::new();
    s.start().anon(0x100, 4).fetch(0x50).load(0x100);
    let named = ["l2_replacement", "srrip_bits", "chirp_counters", "chirp_dead_at", "chirp_renew", "itp_hits"];
    let of = |machine: &str| {
        let outcome = run_batches(&[machine], &s.batches, false, 1);
        named.map(|key| outcome.machine(0).config.contains_key(key))
    };
    assert_eq!(of("today/skylake"), [false; 6]);
    assert_eq!(of("today/skylake:l2_replacement=fifo"), [true, false, false, false, false, false]);
    let why = MachineSpec::parse("today/skylake:l2_replacement=fifo,chirp_dead_at=3", 0).err().unwrap().to_string();
    assert!(why.contains("chirp_dead_at") && why.contains("l2_replacement = chirp"), "{why}");
    assert_eq!(of("since/chirp"), [true, false, true, true, true, false]);
    assert_eq!(of("since/itp"), [true, false, false, false, false, true]);
}

#[test]
fn hw_6_streams_without_fetches_are_refused() {
    let mut s = Stream::new();
    s.start().anon(0x100, 4).load(0x100);
    for name in ["since/chirp", "since/chirp:walk_cost=caches"] {
        let mut machine = lab(&[name], false, 1);
        let why = s.batches.iter().find_map(|batch| machine.feed(batch).err()).or(machine.finish().err());
        let why = why.unwrap().to_string();
        for part in [name, "l2_replacement = chirp", "page 0x100", "before the first fetch", "instruction fetches"] {
            assert!(why.contains(part), "{why}");
        }
    }
    // Others take it.
    for machine in ["since/srrip", "since/itp"] {
        assert_eq!(run_batches(&[machine], &s.batches, false, 1).misses(), [1]);
    }
}

#[test]
fn hw_6_traps_do_not_know_it() {
    let spec = |keys: &str| MachineSpec::parse(&format!("since/chirp:l1_replacement=fifo{keys}"), 0).unwrap();
    let why = TrapLab::new(vec![spec("")], 0).err().expect("it is refused").to_string();
    for part in ["since/chirp", "l2_replacement = chirp cannot be driven by traps", "program counter"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(TrapLab::new(vec![spec(",l2_replacement=srrip")], 0).is_ok());
}
