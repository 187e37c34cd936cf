//! Several cores (XC-7): TLBs of their own, threads dealt out, shootdowns. CA-27's messages are in `hw::shootdown`.

use crate::common::{Stream, run};
use farreach_hw::tlb::{Outcome, Tlb, Unfiltered};
use farreach_oracle::driver::tlb;
use farreach_oracle::driver::world::{Step, World, apply};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::{ShootdownCounts, TlbCounts};
use farreach_types::event::{Backing, End, Kind, Op, Prot};
use farreach_types::translation::{Attr, KernelSegment, PageTableView, Pte, Segment, SegmentView};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};

fn shootdown(sent: u64, ipis: u64, remote_invalidations: u64) -> ShootdownCounts {
    ShootdownCounts { sent, ipis, remote_invalidations }
}

fn thread(s: &mut Stream, thread: u32) -> &mut Stream {
    s.op(Op::Switch { thread })
}

#[test]
fn each_core_walks_for_itself_and_is_told() {
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 }).anon(0x10, 16).load(0x10);
    s.op(Op::ThreadStart { thread: 2 });
    // Another core must walk; the first one still has the page.
    thread(&mut s, 2).load(0x10);
    thread(&mut s, 1).load(0x10);
    let out = run(&["ds13/4k:cores=2", "ds13/4k"], &s);
    assert_eq!(out.misses(), [2, 1]);
    assert_eq!(out.machine(0).counts.tlb.shootdown, shootdown(0, 0, 0), "nothing changed");
    // Thread 1 unmaps the page: one interrupt, and the other core drops it in both levels.
    s.unmap(0x10, 1);
    let out = run(&["ds13/4k:cores=2"], &s);
    let tlb = &out.machine(0).counts.tlb;
    assert_eq!((&tlb.shootdown, tlb.invalidations), (&shootdown(1, 1, 2), 4));
    assert!(out.entries[0].is_empty());
    let out = run(&["ds13/4k", "ds13/4k:cores=2"], &s);
    let line = out.machine(1).ledger.iter().find(|l| l.unit == "interrupts").unwrap();
    assert_eq!((line.count, line.cycles), (1, Some(2000)));
    assert_eq!(out.machine(1).cost.os_cycles, out.machine(0).cost.os_cycles + 2000);
    // A third thread gets the first core again, or one of its own.
    s.op(Op::ThreadStart { thread: 3 });
    thread(&mut s, 3).load(0x11);
    thread(&mut s, 1).load(0x11);
    let out = run(&["ds13/4k:cores=2", "ds13/4k:cores=3"], &s);
    assert_eq!(out.misses(), [3, 4]);
}

/// A segment whose end can be raised, and all pages on frames behind it.
struct Grown(Segment);

impl PageTableView for Grown {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Pte { pfn: Pfn(vpn.0 + self.0.pfn.0 - self.0.base.0), attr: Attr(3), order: 0 })
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl SegmentView for Grown {
    fn segment(&self, _: Asid) -> Option<Segment> {
        Some(self.0)
    }
    fn kernel_segment(&self, _: Asid) -> Option<KernelSegment> {
        None
    }
}

#[test]
fn ds13_24_registers_change_on_all_cores() {
    let mut design = tlb("segment", "cores=3");
    let mut table = Grown(Segment { base: Vpn(0x100), limit: Vpn(0x140), pfn: Pfn(0x9100) });
    let load = |design: &mut dyn Tlb, table: &Grown, vpn: u64| {
        let pte = table.pte(Asid(0), Vpn(vpn)).unwrap();
        design.access(farreach_oracle::driver::at(vpn, Kind::Load), pte, table, &mut Unfiltered::default()).outcome
    };
    let thread = |design: &mut dyn Tlb, thread| design.thread(Asid(0), thread, &mut Unfiltered::default());
    for core in 1..=2 {
        thread(&mut *design, core);
        let outcomes = [0x100, 0x13f, 0x140].map(|vpn| load(&mut *design, &table, vpn));
        assert_eq!(outcomes, [Outcome::Hit, Outcome::Hit, Outcome::TagMiss], "core {core}");
    }
    // The third core has never run the process: it is not interrupted, and loads the registers when it does.
    table.0.limit = Vpn(0x180);
    design.segment_changed(Asid(0), &mut Unfiltered::default());
    assert_eq!(design.counts().shootdown, shootdown(1, 1, 0));
    for core in 1..=3 {
        thread(&mut *design, core);
        assert_eq!(load(&mut *design, &table, 0x17f), Outcome::Hit, "core {core}");
    }
    assert_eq!(design.counts().misses, 2);
}

/// Threads of two processes that map, unmap, fork and end.
pub fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 }).map(0x100, 64, Prot::RWX, false, Backing::Heap);
    let mut live: Vec<(u32, Vec<u32>)> = vec![(0, vec![1])];
    let mut next = 1;
    for _ in 0..150 {
        let at = below(live.len() as u64) as usize;
        let (asid, threads) = &mut live[at];
        let asid = *asid;
        s.space(asid);
        if threads.len() < 4 && below(4) == 0 {
            let thread = (1..9).find(|t| !threads.contains(t)).unwrap();
            s.op(Op::ThreadStart { thread });
            threads.push(thread);
        }
        let running = threads[below(threads.len() as u64) as usize];
        thread(&mut s, running);
        let (start, len) = (0x100 + 8 * below(40), 8 * (1 + below(6)));
        match below(9) {
            0..3 => _ = s.anon(start, len),
            3 => _ = s.unmap(start, len),
            4 => _ = s.protect(start, len, if below(2) == 0 { Prot::RW } else { Prot { write: false, ..Prot::RW } }),
            5 if live.len() < 3 => {
                s.op(Op::Fork { child: Asid(next) });
                live.push((next, vec![running]));
                next += 1;
            }
            6 if asid != 0 => {
                s.op(Op::End(End::Exit(0)));
                live.remove(at);
                continue;
            }
            _ => {}
        }
        for _ in 0..30 {
            let page = 0x100 + below(0x140);
            match below(4) {
                0 => _ = s.fetch(0x100 + below(0x20)),
                1 => _ = s.store(page),
                _ => _ = s.load(page),
            }
        }
    }
    s
}

#[test]
fn xc_7_cores_in_the_loop() {
    let small = "l1d=4K:8,l1i=4K:4,memory=64M";
    let machines = [
        format!("ds13/4k:cores=3,l2=4K:16,{small}"),
        format!("ds13/4k:cores=2,process_ids=false,l2=4K:16,{small}"),
        format!("rmm15/range:cores=2,l2=4K:16,range_entries=4,{small}"),
        format!("rmm15/clustered:cores=4,cluster_entries=8,{small}"),
        format!("rmm15/colt-fa:cores=3,run_entries=4,l2=4K:16,{small}"),
        format!("ds13/segment:cores=2,segment_memory=2M,admit_min=64K,l2=none,{small}"),
        format!("rmm15/thp:cores=2,thp_size=64K,{small}"),
    ];
    for seed in 0..4 {
        // With and without shortcuts, on one thread and three.
        let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
        for m in &out.result.machines {
            let tlb = &m.counts.tlb;
            let ShootdownCounts { sent, ipis, remote_invalidations } = tlb.shootdown;
            assert!(0 < sent && sent <= ipis, "{}: {tlb:?}", m.name);
            assert!(remote_invalidations <= tlb.invalidations + tlb.range.invalidations, "{}", m.name);
            assert_eq!(tlb.walk.walks, tlb.misses, "{}", m.name);
        }
    }
}

#[test]
fn one_thread_needs_one_core() {
    let mut s = Stream::new();
    s.start().anon(0x100, 200);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for i in 0..2000 {
        match i % 100 {
            99 => _ = s.unmap(0x100 + rng.random_range(0..100), 8),
            _ => _ = s.load(0x100 + rng.random_range(0..200)),
        }
    }
    for kind in ["ds13/4k", "rmm15/range", "rmm15/clustered", "rmm15/colt-fa", "ds13/segment"] {
        let machines = [kind.to_string(), format!("{kind}:cores=1"), format!("{kind}:cores=4")];
        let out = run(&machines.each_ref().map(String::as_str), &s);
        let counts = out.result.machines.iter().map(|m| &m.counts).collect::<Vec<_>>();
        assert_eq!(counts[0], counts[1]);
        assert_eq!(counts[0], counts[2]);
    }
}

/// The same machines, apart: one design per core, and a list of the processes that ran on each.
struct Plain {
    cores: Vec<Box<dyn Tlb>>,
    last: Vec<Option<Asid>>,
    place: BTreeMap<(Asid, u32), usize>,
    ran: BTreeSet<(Asid, usize)>,
    now: usize,
    ids: bool,
    shootdown: ShootdownCounts,
}

impl Plain {
    fn run(&mut self, asid: Asid, thread: u32) {
        let next = self.place.len() % self.cores.len();
        self.now = *self.place.entry((asid, thread)).or_insert(next);
        if self.last[self.now] != Some(asid) {
            self.last[self.now] = Some(asid);
            self.cores[self.now].switch(asid, &mut Unfiltered::default());
            if !self.ids {
                let now = self.now;
                self.ran.retain(|(_, core)| *core != now);
            }
        }
        self.ran.insert((asid, self.now));
    }
    fn change(&mut self, asid: Asid, step: &Step, world: &World) {
        let mut others = 0;
        for i in 0..self.cores.len() {
            let before = self.cores[i].counts().invalidations;
            let interrupted = i == self.now || self.ran.contains(&(asid, i));
            if interrupted {
                apply(step, &mut *self.cores[i], &world.table, &mut Unfiltered::default());
            }
            if interrupted && i != self.now {
                others += 1;
                self.shootdown.remote_invalidations += self.cores[i].counts().invalidations - before;
            }
        }
        self.shootdown.ipis += others;
        self.shootdown.sent += u64::from(others > 0);
    }
}

#[test]
fn xc_7_a_plain_model_of_cores() {
    let keys = "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4";
    for (cores, ids) in [(2, true), (2, false), (3, true)] {
        let mut design = tlb("hierarchy", &format!("cores={cores},process_ids={ids},{keys}"));
        let mut plain = Plain {
            cores: (0..cores).map(|_| tlb("hierarchy", &format!("process_ids={ids},{keys}"))).collect(),
            last: vec![None; cores],
            place: BTreeMap::new(),
            ran: BTreeSet::new(),
            now: 0,
            ids,
            shootdown: ShootdownCounts::default(),
        };
        let mut world = World::new(cores as u64);
        let mut rng = Pcg64Mcg::seed_from_u64(9);
        let mut running: BTreeMap<Asid, u32> = BTreeMap::new();
        let mut asid = Asid(0);
        let mut unfiltered = Unfiltered::default();
        for n in 0..30_000 {
            let step = world.step();
            let mut go = |design: &mut dyn Tlb, plain: &mut Plain, to: Asid, thread: u32| {
                // The thread that ran in it last, then perhaps another.
                if let Some(before) = running.insert(to, thread) {
                    plain.run(to, before);
                }
                design.switch(to, &mut unfiltered);
                design.thread(to, thread, &mut unfiltered);
                unfiltered.clear();
                plain.run(to, thread);
            };
            match &step {
                Step::Access(at, _) => {
                    if at.asid != asid || n == 0 || rng.random_range(0..20) == 0 {
                        asid = at.asid;
                        let thread = rng.random_range(0..5);
                        go(&mut *design, &mut plain, asid, thread);
                    }
                    let expected = apply(&step, &mut *plain.cores[plain.now], &world.table, &mut Unfiltered::default());
                    let found = apply(&step, &mut *design, &world.table, &mut Unfiltered::default());
                    assert_eq!(found, expected, "step {n}");
                    assert_eq!(
                        design.probe(at.asid, at.vpn, at.kind),
                        plain.cores[plain.now].probe(at.asid, at.vpn, at.kind)
                    );
                }
                Step::Invalidate(of, _) | Step::Demote(of, _) => {
                    plain.change(*of, &step, &world);
                    apply(&step, &mut *design, &world.table, &mut Unfiltered::default());
                }
                // Threads keep their cores in this model, so no process ends.
                Step::InvalidateSpace(_) | Step::Switch(_) => {}
            }
            if n % 500 == 0 {
                let mut sum = TlbCounts { shootdown: plain.shootdown.clone(), ..TlbCounts::default() };
                plain.cores.iter().for_each(|core| sum += core.counts());
                assert_eq!(*design.counts(), sum, "step {n}");
                let entries: Vec<_> =
                    plain.cores.iter().flat_map(|core| core.entries()).map(|e| (e.base, e.pages)).collect();
                assert_eq!(
                    design.entries().into_iter().map(|e| (e.base, e.pages)).collect::<Vec<_>>(),
                    entries,
                    "step {n}"
                );
            }
        }
        assert!(plain.shootdown.remote_invalidations > 20 && plain.shootdown.ipis > 50, "{:?}", plain.shootdown);
    }
}

/// A lookup by hand: the first core answers.
#[test]
fn a_lookup_without_a_switch_is_on_the_first_core() {
    let mut design = tlb("hierarchy", "cores=2");
    let table = farreach_oracle::driver::Table::of(&[(5, 9)]);
    assert_eq!(farreach_oracle::driver::access(&mut *design, &table, 5, Kind::Load), Outcome::TagMiss);
    assert_eq!(design.probe(Asid(0), Vpn(5), Kind::Load).map(|t| t.pfn.0), Some(9));
}
