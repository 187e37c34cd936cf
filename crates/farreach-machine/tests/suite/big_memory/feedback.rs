//! The threshold that follows the misses of the range TLB (F-4): in the loop, against a plain loop and a plain model of
//! the rule.

use crate::common::{Outcome, Stream, run};
use farreach_hw::tlb::{Lookup, Tlb, Unfiltered, design};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_os::ranges::RangeUse;
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, RangeTableView};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Small first levels and no second one, so that lookups outside ranges are walked for.
const MACHINE: &str = "rmm15/range:l1d=4K:4,l2=none,memory=64M";

/// The first page of a mapping. They lie apart, so that no two make one range.
fn start(i: u64) -> u64 {
    0x1000 + 0x100 * i
}
const SHORT: u64 = 60;
const LONG: u64 = 16;

enum Step {
    Space(u32),
    Op(Op),
    Load(u64),
}

struct Program {
    steps: Vec<Step>,
    rng: Pcg64Mcg,
}

impl Program {
    fn new() -> Program {
        Program { steps: Vec::new(), rng: Pcg64Mcg::seed_from_u64(4) }
    }
    /// 60 mappings of 8 pages, 16 of 64.
    fn begin(&mut self, asid: u32) -> &mut Program {
        self.steps.push(Step::Space(asid));
        self.steps.push(Step::Op(Op::Start { pid: 1 + asid, parent: None, program: "test".into() }));
        for i in 0..SHORT + LONG {
            let (start, len) = (start(i) << 12, Program::pages(i) << 12);
            let map = Mapping { start, len, prot: Prot::RW, shared: false, backing: Backing::Anonymous };
            self.steps.push(Step::Op(Op::Map(map)));
        }
        self
    }
    fn pages(i: u64) -> u64 {
        if i < SHORT { 8 } else { 64 }
    }
    fn load_in(&mut self, i: u64) {
        let page = start(i) + self.rng.random_range(0..Program::pages(i));
        self.steps.push(Step::Load(page));
    }
    /// Loads anywhere, of which a quarter are in short mappings.
    fn mixed(&mut self, loads: u64) -> &mut Program {
        for _ in 0..loads {
            let short = self.rng.random_range(0..4u32) == 0;
            let i = if short { self.rng.random_range(0..SHORT) } else { SHORT + self.rng.random_range(0..LONG) };
            self.load_in(i);
        }
        self
    }
    /// Loads in a few of the short ones.
    fn short(&mut self, loads: u64) -> &mut Program {
        for _ in 0..loads {
            let i = self.rng.random_range(0..12);
            self.load_in(i);
        }
        self
    }
    fn stream(&self) -> Stream {
        let mut s = Stream::new();
        for step in &self.steps {
            match step {
                Step::Space(asid) => _ = s.space(*asid),
                Step::Op(op) => _ = s.op(op.clone()),
                Step::Load(page) => _ = s.load(*page),
            }
        }
        s
    }
}

fn walks(out: &Outcome, i: usize) -> u64 {
    out.machine(i).counts.tlb.misses
}

/// Threshold at the end, largest, moves.
fn moved(out: &Outcome, i: usize) -> (u64, u64, u64) {
    let c = out.machine(i).contiguity.as_ref().unwrap();
    (c.last_threshold, c.threshold, c.threshold_moves)
}

#[test]
fn f_4_misses_move_the_threshold() {
    let s = Program::new().begin(0).mixed(100_000).stream();
    let machines =
        ["range_entries=20", "range_entries=20,range_feedback=true", "range_entries=128,range_feedback=true"];
    let machines = machines.map(|keys| format!("{MACHINE},{keys}"));
    let out = run(&machines.each_ref().map(String::as_str), &s);
    // The program and its ranges are the same. Where all ranges fit, nothing misses and nothing moves; where they do
    // not, only the long ones are kept, and fit.
    assert_eq!([0, 1, 2].map(|i| moved(&out, i)), [(8, 8, 0), (16, 16, 1), (8, 8, 0)]);
    assert_eq!(out.machine(2).counts.tlb.range.evictions, 0);
    assert!(10 * walks(&out, 1) < 9 * walks(&out, 0), "{} of {} walks", walks(&out, 1), walks(&out, 0));
}

#[test]
fn f_4_a_load_that_stays_as_it_is_comes_to_rest() {
    let moves = |loads| {
        let s = Program::new().begin(0).mixed(loads).stream();
        moved(&run(&[&format!("{MACHINE},range_entries=20,range_feedback=true")], &s), 0)
    };
    assert_eq!(moves(30_000), moves(300_000));
    // Equal ranges that do not fit: a higher threshold would leave none, and nothing is tried.
    let mut program = Program::new();
    program.begin(0);
    for i in 0..SHORT {
        program.steps.push(Step::Op(Op::Unmap { start: start(i) << 12, len: 8 << 12 }));
    }
    (0..100_000).for_each(|_| {
        let i = SHORT + program.rng.random_range(0..LONG);
        program.load_in(i);
    });
    let out = run(&[&format!("{MACHINE},range_entries=8,range_feedback=true")], &program.stream());
    assert_eq!(moved(&out, 0), (8, 8, 0));
    assert!(out.machine(0).counts.tlb.range.evictions > 10_000);
}

/// The rule in other words: all windows of a process are kept, and evaluated from the first one on each time.
#[derive(Default)]
struct Model {
    window: RangeUse,
    /// Threshold, lengths of the runs when it ended, counts.
    windows: Vec<(u64, Vec<u64>, RangeUse)>,
}

impl Model {
    /// The threshold after these windows.
    fn threshold(&self) -> u64 {
        fn some(lengths: &[u64], t: u64) -> u64 {
            lengths.iter().filter(|&&n| n >= t).count() as u64
        }
        let higher = |lengths: &[u64], now: u64| {
            let some = |t: u64| some(lengths, t);
            (1..40).map(|k| now << k).find(|&t| some(t) < some(now)).filter(|&t| some(t) > 0)
        };
        let share = |u: &RangeUse| [u.walks, u.in_range, u.evictions].map(|n| n as f64 / u.lookups as f64);
        let (mut now, mut at, mut patience, mut last) = (8, 0, 1, None);
        'trials: loop {
            let mut tried: Vec<(u64, [f64; 3])> = Vec::new();
            // A first window of each threshold is not judged.
            let begun = self.windows.get(at + 1).map_or(0, |(_, lengths, _)| some(lengths, 8));
            loop {
                let Some((threshold, lengths, seen)) = self.windows.get(at + 1) else { return now };
                assert_eq!(*threshold, now);
                tried.push((now, share(seen)));
                at += 2;
                match higher(lengths, now).filter(|_| share(seen)[2] > 1.0 / 64.0) {
                    Some(next) => now = next,
                    None => break,
                }
            }
            let mut best = tried[0];
            for &one in &tried {
                if one.1[0] < best.1[0] * 15.0 / 16.0 {
                    best = one;
                }
            }
            patience = if last == Some(best.0) { (2 * patience).min(1024) } else { 1 };
            last = Some(best.0);
            at += usize::from(now != best.0);
            now = best.0;
            for waited in 1.. {
                let Some((_, lengths, seen)) = self.windows.get(at) else { return now };
                at += 1;
                let differs = (0..3).any(|i| (share(seen)[i] - best.1[i]).abs() > 0.125);
                if waited >= patience && (differs || 4 * some(lengths, 8).abs_diff(begun) > begun) {
                    // Where it is the lowest already, the next window is judged.
                    at -= usize::from(now == 8);
                    now = 8;
                    continue 'trials;
                }
            }
        }
    }
}

/// Lengths of the runs of a process, found page by page.
fn lengths(os: &Os, asid: Asid) -> Vec<u64> {
    let mut runs: Vec<u64> = Vec::new();
    let mut last = None;
    for vpn in start(0)..start(SHORT + LONG) {
        let pte = os.pte(asid, Vpn(vpn));
        match (pte, last) {
            (Some(p), Some((pfn, attr))) if (p.pfn.0, p.attr) == (pfn, attr) => *runs.last_mut().unwrap() += 1,
            (Some(_), _) => runs.push(1),
            (None, _) => {}
        }
        last = pte.map(|p| (p.pfn.0 + 1, p.attr));
    }
    runs
}

struct Plain {
    os: Os,
    tlb: Box<dyn Tlb>,
    models: Vec<Model>,
    read: RangeUse,
    moves: u64,
}

impl Plain {
    fn follow(&mut self) {
        let (mut changes, mut unfiltered) = (Vec::new(), Unfiltered::default());
        self.os.take_changes(&mut changes);
        for c in changes {
            match c.what {
                What::Stale => self.tlb.invalidate(c.asid, c.pages, &mut unfiltered),
                What::Demoted => self.tlb.demote(c.asid, c.pages, &mut unfiltered),
                What::Gone => self.tlb.invalidate_space(c.asid, &mut unfiltered),
                _ => {}
            }
        }
    }
    /// A walk has ended, or a process switch follows.
    fn counters(&mut self, asid: u32) {
        let mut now = RangeUse::default();
        now.count(self.tlb.counts());
        let more = now.since(std::mem::replace(&mut self.read, now));
        self.os.counted(Asid(asid), now);
        self.follow();
        let model = &mut self.models[asid as usize];
        let w = &mut model.window;
        (w.lookups, w.walks) = (w.lookups + more.lookups, w.walks + more.walks);
        (w.in_range, w.evictions) = (w.in_range + more.in_range, w.evictions + more.evictions);
        if w.lookups < 4096 {
            return;
        }
        let lengths = lengths(&self.os, Asid(asid));
        let before = model.threshold();
        model.windows.push((before, lengths.clone(), std::mem::take(&mut model.window)));
        let after = model.threshold();
        self.moves += u64::from(before != after);
        let ranged =
            (start(0)..start(SHORT + LONG)).filter(|&v| self.os.range(Asid(asid), Vpn(v)).is_some()).count() as u64;
        assert_eq!(ranged, lengths.iter().filter(|&&n| n >= after).sum::<u64>(), "threshold {after} after {before}");
    }
}

#[test]
fn f_4_a_plain_loop_and_a_plain_rule() {
    let mut program = Program::new();
    program.begin(1).begin(0);
    for round in 0..40 {
        program.steps.push(Step::Space(round % 2));
        // The second process does other work for a while, the first unmaps some at the end.
        if round % 2 == 1 && (12..24).contains(&round) {
            program.short(9000)
        } else {
            program.mixed(7000)
        };
        if round == 34 {
            (0..40).for_each(|i| program.steps.push(Step::Op(Op::Unmap { start: start(i) << 12, len: 8 << 12 })));
            (0..40).for_each(|i| {
                let map = Mapping {
                    start: start(i) << 12,
                    len: 4 << 12,
                    prot: Prot::RW,
                    shared: false,
                    backing: Backing::Anonymous,
                };
                program.steps.push(Step::Op(Op::Map(map)));
            });
        }
        if round > 34 {
            (0..100).for_each(|i| program.steps.push(Step::Load(start(i % 40) + i % 4)));
        }
    }
    for keys in
        ["range_entries=20", "range_entries=20,process_ids=false", "range_entries=24,range_order=serial,l2=4K:64/4"]
    {
        let machine = format!("{MACHINE},{keys},range_feedback=true");
        // A key is not given twice.
        let machine = if keys.contains("l2=") { machine.replace("l2=none,", "") } else { machine };
        let spec = MachineSpec::parse(&machine, 7).unwrap();
        let mut plain = Plain {
            os: Os::new(&spec.params).unwrap(),
            tlb: (design("range").unwrap().build)(&spec.params).unwrap(),
            models: vec![Model::default(), Model::default()],
            read: RangeUse::default(),
            moves: 0,
        };
        let (mut asid, mut running) = (0, None);
        for step in &program.steps {
            match step {
                Step::Space(a) => asid = *a,
                _ if running != Some(asid) => {
                    if let Some(from) = running {
                        plain.counters(from);
                    }
                    running = Some(asid);
                    plain.tlb.switch(Asid(asid), &mut Unfiltered::default());
                }
                _ => {}
            }
            match step {
                Step::Space(_) => {}
                Step::Op(op) => {
                    plain.os.apply(Asid(asid), op);
                    plain.follow();
                }
                Step::Load(page) => {
                    let at = Lookup { asid: Asid(asid), vpn: Vpn(*page), kind: Kind::Load };
                    let pte = plain.os.touch(at.asid, at.vpn, at.kind).unwrap().pte;
                    plain.follow();
                    let walks = plain.tlb.counts().misses;
                    plain.tlb.access(at, pte, &plain.os, &mut Unfiltered::default());
                    if plain.tlb.counts().misses > walks {
                        plain.counters(asid);
                    }
                }
            }
        }
        let out = run(&[&machine], &program.stream());
        let (ours, theirs) = (&out.machine(0).counts.tlb, plain.tlb.counts());
        assert_eq!(
            (ours.misses, &ours.range, ours.invalidations),
            (theirs.misses, &theirs.range, theirs.invalidations),
            "{keys}"
        );
        let c = out.machine(0).contiguity.as_ref().unwrap();
        assert_eq!((c.threshold_moves, c), (plain.moves, &plain.os.contiguity().unwrap()), "{keys}");
        assert!(plain.moves >= 4, "{keys}: {} moves", plain.moves);
    }
}

#[test]
fn f_4_machines_that_differ_in_hardware_have_systems_of_their_own() {
    let s = Program::new().begin(0).mixed(60_000).stream();
    let keys = ["range_entries=20", "range_entries=128", "range_entries=20", "range_entries=20,cores=2"];
    let machines = keys.map(|keys| format!("{MACHINE},{keys},range_feedback=true"));
    let together = run(&machines.each_ref().map(String::as_str), &s);
    for (i, machine) in machines.iter().enumerate() {
        let alone = run(&[machine], &s);
        let (a, b) = (alone.machine(0), together.machine(i));
        assert_eq!((&a.counts, &a.contiguity), (&b.counts, &b.contiguity), "{machine}");
    }
}

#[test]
fn f_4_needs_somebody_who_counts() {
    for (text, words) in [
        ("ds13/4k:ranges=true,range_feedback=true", ["kind = hierarchy", "no range TLB"]),
        ("rmm15/range:ranges=false,range_feedback=true", ["ranges = false", "threshold"]),
        ("rmm15/range:range_feedback=true,walk_cost=caches", ["walk_cost = caches", "spans"]),
    ] {
        let error = MachineSpec::parse(text, 1).err().expect(text).to_string();
        assert!(error.contains("range_feedback = true") && words.iter().all(|w| error.contains(w)), "{error}");
    }
    let spec = MachineSpec::parse("rmm15/range:range_feedback=true", 1).unwrap();
    assert!(Lab::new(vec![spec], Options::default()).is_ok());
}
