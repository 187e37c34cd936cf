//! A system under random events, and the properties that must hold after each of them. The plain model of ranges is a
//! scan of the page table, page by page; that of hardware is the list of everything that was read and not invalidated.

use farreach_machine::MachineSpec;
use farreach_oracle::dice::seeds;
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{Attr, PageTableView, Pte, Range, RangeTableView, Segment, SegmentView};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};

/// Pages of each address space that events speak of.
pub const PAGES: u64 = 384;
/// No page that an event can reach is behind these.
const ALL: u64 = PAGES + 128;
const READ_ONLY: Prot = Prot { read: true, write: false, exec: false };

/// The system of a single-page-size machine with these keys.
pub fn os(keys: &str) -> Os {
    let spec = MachineSpec::from_toml("test", "kind = \"single\"", keys, 1).unwrap_or_else(|e| panic!("{keys}: {e}"));
    Os::new(&spec.params).unwrap()
}

/// The one address space of the tests written by hand.
pub const A: Asid = Asid(0);
/// Children of it.
pub const B: Asid = Asid(1);
pub const C: Asid = Asid(2);

pub fn map(os: &mut Os, start: u64, pages: u64, backing: Backing) {
    os.apply(A, &Op::Map(Mapping { start: start << 12, len: pages << 12, prot: Prot::RW, shared: false, backing }));
}

pub fn touch(os: &mut Os, vpn: u64, kind: Kind) {
    os.touch(A, Vpn(vpn), kind).unwrap_or_else(|e| panic!("{}", os.explain(e)));
}

pub fn frame(os: &Os, vpn: u64) -> Option<u64> {
    os.pte(A, Vpn(vpn)).map(|pte| pte.pfn.0)
}

/// A file of pinned frames.
pub fn pattern(name: &str, text: &str) -> String {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The state of a page after the last touch or event.
type Page = (Pte, bool);

pub struct World {
    pub os: Os,
    pub threshold: u64,
    /// A store to a copy-on-write page dissolves its range (RMM15-30).
    dissolves: bool,
    live: Vec<Asid>,
    next: u32,
    /// Page tables as they were after the last step, with the marks of dissolved pages.
    tables: BTreeMap<(Asid, u64), Page>,
    /// Everything that an unlimited range TLB holds.
    cached: Vec<(Asid, Range)>,
    /// Everything that an unlimited TLB holds.
    entries: BTreeMap<(Asid, u64), Pte>,
    registers: BTreeMap<Asid, Segment>,
    /// Pages with contents: they may not vanish unless an event says so.
    written: BTreeSet<(Asid, u64)>,
    /// Pages that the program mapped, by an event or by a reference to a hole. The rest of a huge page is mapped beside
    /// them, and goes when none of them remains in it.
    owned: BTreeSet<(Asid, u64)>,
    rng: Pcg64Mcg,
    pub log: Vec<String>,
}

impl World {
    pub fn new(keys: &str, threshold: u64, seed: u64) -> World {
        let mut os = os(keys);
        os.apply(Asid(0), &Op::Start { pid: 1, parent: None, program: "/bin/test".into() });
        World {
            os,
            threshold,
            dissolves: !keys.contains("range_cow"),
            live: vec![Asid(0)],
            next: 1,
            tables: BTreeMap::new(),
            cached: Vec::new(),
            entries: BTreeMap::new(),
            registers: BTreeMap::new(),
            written: BTreeSet::new(),
            owned: BTreeSet::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            log: Vec::new(),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.random_range(0..n)
    }

    fn span(&mut self) -> (u64, u64) {
        let len = [1, 3, 8, 16, 40, 100][self.below(6) as usize];
        let start = self.below(PAGES - len);
        // Aligned ends are where superpages are.
        if self.below(3) == 0 { (start & !15, (len + 15) & !15) } else { (start, len) }
    }

    fn prot(&mut self) -> Prot {
        [Prot::RW, Prot::RW, Prot::RW, READ_ONLY, Prot::RWX, Prot::NONE][self.below(6) as usize]
    }

    fn op(&mut self, asid: Asid) -> Op {
        let ((start, len), prot) = (self.span(), self.prot());
        let (start, len) = (start << 12, len << 12);
        match self.below(20) {
            0..7 => {
                let backing = match self.below(8) {
                    0 => Backing::File { path: "/lib/x".into(), offset: self.below(40) << 12 },
                    1 | 2 => Backing::Heap,
                    3 => Backing::Stack,
                    _ => Backing::Anonymous,
                };
                Op::Map(Mapping { start, len, prot, shared: self.below(8) == 0, backing })
            }
            7..10 => Op::Unmap { start, len },
            10..12 => Op::Protect { start, len, prot },
            12..14 => {
                let (new_start, new_len) = self.span();
                let new_start = if self.below(2) == 0 { start } else { new_start << 12 };
                Op::Remap { old_start: start, old_len: len, new_start, new_len: new_len << 12 }
            }
            14 => Op::Advise { start, len, advice: Advice::DontNeed },
            15 => Op::Advise { start, len, advice: Advice::HugePage },
            16 => Op::Advise { start, len, advice: Advice::NoHugePage },
            17 if self.live.len() < 3 => {
                let child = Asid(self.next);
                self.next += 1;
                Op::Fork { child }
            }
            18 if self.live.len() > 1 && asid != Asid(0) => Op::End(End::Exit(0)),
            _ => Op::Advise { start, len, advice: Advice::WillNeed },
        }
    }

    /// One event or a few touches.
    pub fn step(&mut self) {
        let which = self.below(self.live.len() as u64) as usize;
        let asid = self.live[which];
        if self.below(3) == 0 {
            let op = self.op(asid);
            self.log.push(format!("{asid:?} {op:x?}"));
            self.forget(asid, &op);
            self.os.apply(asid, &op);
            self.own(asid, &op);
            match op {
                Op::Fork { child } => {
                    self.live.push(child);
                    self.tables = self.scan(&self.tables);
                    let inherited: Vec<u64> =
                        self.written.iter().filter(|(a, _)| *a == asid).map(|(_, v)| *v).collect();
                    self.written.extend(inherited.into_iter().map(|v| (child, v)));
                }
                Op::End(_) => drop(self.live.swap_remove(which)),
                _ => {}
            }
            self.check_changes();
        } else {
            for _ in 0..1 + self.below(12) {
                let vpn = self.below(PAGES);
                self.touch(asid, vpn);
            }
        }
    }

    pub fn touch(&mut self, asid: Asid, vpn: u64) {
        let kind = if self.below(2) == 0 { Kind::Load } else { Kind::Store };
        self.log.push(format!("{asid:?} {kind:?} {vpn:#x}"));
        let before = self.os.pte(asid, Vpn(vpn));
        let around = self.expected(asid).into_iter().find(|r| (r.first.0..r.first.0 + r.pages).contains(&vpn));
        let Ok(touched) = self.os.touch(asid, Vpn(vpn), kind) else {
            self.log.push("memory is full".into());
            self.check_changes();
            return;
        };
        assert_eq!(Some(touched.pte), self.os.pte(asid, Vpn(vpn)));
        let writable = |pte: Pte| pte.attr.0 & Attr::WRITE != 0;
        if let (Some(before), Some(range)) = (before, around)
            && self.dissolves
            && !writable(before)
            && writable(touched.pte)
        {
            for v in range.first.0..range.first.0 + range.pages {
                self.tables.get_mut(&(asid, v)).unwrap().1 = true;
            }
        }
        if before.is_none() {
            self.owned.insert((asid, vpn));
        }
        if kind == Kind::Store && self.owned.contains(&(asid, vpn)) {
            self.written.insert((asid, vpn));
        }
        self.check_changes();
        self.entries.insert((asid, vpn), touched.pte);
        if let Some(range) = self.os.range(asid, Vpn(vpn)) {
            self.cached.push((asid, range));
        }
    }

    /// Follows which pages the program mapped.
    fn own(&mut self, asid: Asid, op: &Op) {
        let shift = self.os.page_shift();
        let pages = |start: u64, len: u64| (start >> shift..(start + len).div_ceil(1 << shift)).map(move |v| (asid, v));
        match *op {
            Op::Map(Mapping { start, len, .. }) => self.owned.extend(pages(start, len)),
            Op::Unmap { start, len } => {
                for page in pages(start, len) {
                    self.owned.remove(&page);
                }
            }
            Op::Remap { old_start, old_len, new_start, new_len } => {
                for page in pages(old_start, old_len) {
                    self.owned.remove(&page);
                }
                self.owned.extend(pages(new_start, new_len));
            }
            Op::Fork { child } => {
                let inherited: Vec<u64> = self.owned.iter().filter(|(a, _)| *a == asid).map(|(_, v)| *v).collect();
                self.owned.extend(inherited.into_iter().map(|v| (child, v)));
            }
            Op::End(_) => self.owned.retain(|(a, _)| *a != asid),
            _ => {}
        }
    }

    /// Pages that an event may take contents from.
    fn forget(&mut self, asid: Asid, op: &Op) {
        let gone: Vec<(u64, u64)> = match op {
            Op::Map(m) => vec![(m.start, m.len)],
            Op::Unmap { start, len } | Op::Advise { start, len, advice: Advice::DontNeed } => vec![(*start, *len)],
            Op::Remap { old_start, old_len, new_start, new_len } => {
                vec![(*old_start, *old_len), (*new_start, *new_len)]
            }
            Op::End(_) => vec![(0, u64::MAX)],
            _ => vec![],
        };
        let shift = self.os.page_shift();
        let within = |v: u64, start: u64, len: u64| v << shift < start.saturating_add(len) && (v + 1) << shift > start;
        self.written.retain(|&(a, v)| a != asid || !gone.iter().any(|(start, len)| within(v, *start, *len)));
    }

    /// The page tables now; a mark stays on a page whose entry is the same as before.
    fn scan(&self, before: &BTreeMap<(Asid, u64), Page>) -> BTreeMap<(Asid, u64), Page> {
        let pages = self.live.iter().flat_map(|&asid| (0..ALL).map(move |v| (asid, v)));
        let entry = |at: (Asid, u64)| {
            let pte = self.os.pte(at.0, Vpn(at.1))?;
            let same = |old: &&Page| (old.0.pfn, old.0.attr) == (pte.pfn, pte.attr);
            Some((at, (pte, before.get(&at).filter(same).is_some_and(|old| old.1))))
        };
        pages.filter_map(entry).collect()
    }

    /// The ranges of a space as a scan of its page table finds them (RMM15-20).
    fn expected(&self, asid: Asid) -> Vec<Range> {
        let mut runs: Vec<(Range, bool)> = Vec::new();
        for (&(_, v), &(pte, loose)) in self.tables.range((asid, 0)..(Asid(asid.0 + 1), 0)) {
            match runs.last_mut() {
                Some((r, l))
                    if r.first.0 + r.pages == v
                        && r.pfn.0 + r.pages == pte.pfn.0
                        && (r.attr, *l) == (pte.attr, loose) =>
                {
                    r.pages += 1;
                }
                _ => runs.push((Range { first: Vpn(v), pages: 1, pfn: pte.pfn, attr: pte.attr }, loose)),
            }
        }
        runs.into_iter().filter(|(r, loose)| r.pages >= self.threshold && !loose).map(|(r, _)| r).collect()
    }

    /// Follows the changes and checks everything.
    pub fn check_changes(&mut self) {
        let mut changes = Vec::new();
        self.os.take_changes(&mut changes);
        for change in changes {
            let hit = |asid: Asid, first: u64, pages: u64| {
                asid == change.asid
                    && first < change.pages.end().0
                    && change.pages.start.0 < first.saturating_add(pages)
            };
            let group = |vpn: u64, pte: &Pte| (vpn >> pte.order << pte.order, 1 << pte.order);
            match change.what {
                What::Stale | What::Gone => {
                    self.cached.retain(|(a, r)| !hit(*a, r.first.0, r.pages));
                    self.entries.retain(|&(a, v), pte| {
                        let (first, pages) = group(v, pte);
                        !hit(a, first, pages)
                    });
                }
                What::Demoted => {
                    self.cached.retain(|(a, r)| !hit(*a, r.first.0, r.pages));
                    // The base translation stays, the superpage does not.
                    for (&(a, v), pte) in &mut self.entries {
                        let (first, pages) = group(v, pte);
                        if hit(a, first, pages) {
                            pte.order = 0;
                        }
                    }
                }
                What::Writable
                | What::Unaccessed
                | What::Promoted
                | What::Segment
                | What::Mapped
                | What::Flushed
                | What::FlushedEverywhere => {}
            }
            if change.what == What::Segment {
                match self.os.segment(change.asid) {
                    Some(segment) => self.registers.insert(change.asid, segment),
                    None => self.registers.remove(&change.asid),
                };
            }
        }
        self.os.check();
        self.tables = self.scan(&self.tables);
        // CA-33: the range bit of every page, and the walker, agree with the scan.
        for &asid in &self.live {
            let expected = self.expected(asid);
            for v in 0..ALL {
                let truth = expected.iter().find(|r| (r.first.0..r.first.0 + r.pages).contains(&v)).copied();
                if self.threshold < u64::MAX {
                    assert_eq!(self.os.range(asid, Vpn(v)), truth, "{asid:?} page {v:#x}");
                    assert_eq!(self.os.walk(asid, Vpn(v)).found, truth, "{asid:?} page {v:#x}");
                }
            }
            // DS13-1, CA-26: the registers reported to the hardware are those of the process, and agree with the page
            // table.
            assert_eq!(
                self.os.segment(asid),
                self.registers.get(&asid).copied(),
                "{asid:?}: the hardware has other registers"
            );
        }
        // CA-38: nothing that hardware may still hold is wrong.
        for (asid, r) in &self.cached {
            for i in 0..r.pages {
                let pte = self.tables.get(&(*asid, r.first.0 + i)).unwrap_or_else(|| panic!("{asid:?} {r:?} is stale"));
                assert_eq!((pte.0.pfn.0, pte.0.attr), (r.pfn.0 + i, r.attr), "{asid:?} {r:?} is stale");
            }
        }
        for (&(asid, v), pte) in &self.entries {
            let truth = self.tables.get(&(asid, v)).unwrap_or_else(|| panic!("{asid:?} {v:#x} {pte:?} is stale"));
            assert_eq!((truth.0.pfn, truth.0.attr), (pte.pfn, pte.attr), "{asid:?} {v:#x} {pte:?} is stale");
            assert!(truth.0.order >= pte.order, "{asid:?} {v:#x}: the superpage was split");
        }
        for (&(asid, v), (pte, _)) in &self.tables {
            // Pte: congruent, and alike in the whole group.
            let size = 1 << pte.order;
            assert_eq!(v % size, pte.pfn.0 % size, "{asid:?} {v:#x} {pte:?}");
            let mate = self.tables.get(&(asid, v ^ (size >> 1))).expect("a superpage is mapped as a whole").0;
            assert_eq!((mate.order, mate.attr), (pte.order, pte.attr), "{asid:?} {v:#x}");
            if let Some(s) = self.registers.get(&asid).filter(|s| (s.base.0..s.limit.0).contains(&v)) {
                assert_eq!(pte.pfn.0, v - s.base.0 + s.pfn.0, "{asid:?} {v:#x}: segment and page table differ");
            }
        }
        for at in &self.written {
            assert!(self.tables.contains_key(at), "{at:?} lost its contents");
        }
    }
}

/// Runs `steps` steps for each seed, and prints the steps that led to a failure.
pub fn run(keys: &str, threshold: u64, cases: u64, steps: usize) -> Vec<World> {
    let mut worlds = Vec::new();
    for seed in seeds(cases) {
        let mut world = World::new(keys, threshold, seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (0..steps).for_each(|_| world.step())));
        if let Err(panic) = outcome {
            let last = world.log.len().saturating_sub(60);
            eprintln!("{keys}, seed {seed}, step {}:\n{}", world.log.len(), world.log[last..].join("\n"));
            std::panic::resume_unwind(panic);
        }
        worlds.push(world);
    }
    worlds
}
