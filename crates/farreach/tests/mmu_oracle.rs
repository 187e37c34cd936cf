//! Hierarchies of TLBs, with ranges, clusters and segments, against a plain model, on random streams: pages of 4 KB to 1 GB, aligned
//! and scattered frames, ranges that grow and break, promotion, splitting, unmapping, several processes. Every lookup is compared,
//! entries and counts at intervals; a twin that never hears of quiet lookups must end up the same. Covers DS13-1 to DS13-5, DS13-25,
//! DS13-36, RMM15-1 to RMM15-14, RMM15-41, RMM15-42, CoLT-SA and CoLT-FA, AMB-63, 65, 80, 85, 86, 89, 91; F-5, F-6, F-8, F-12, F-13; CA-30, CA-34, CA-38.

mod oracle;
mod tlb_common;

use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::event::Kind;
use farreach::hw::tlb::{Attr, Lookup, Noise, Outcome, PageTableView, Pte, Range, RangeWalk, Segment, Tlb};
use oracle::mmu::{Array, Behind, Config, Hint, PlainMmu, RangeOrder, SegmentMode};
use oracle::tlb::Replacement;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use tlb_common::tlb;

/// Contiguous pages on contiguous frames.
#[derive(Clone, Copy)]
struct Extent {
    asid: Asid,
    first: u64,
    pages: u64,
    pfn: u64,
    attr: Attr,
    order: u8,
    /// It is in the range table.
    ranged: bool,
}

impl Extent {
    fn has(&self, asid: Asid, vpn: u64) -> bool {
        self.asid == asid && (self.first..self.first + self.pages).contains(&vpn)
    }
    fn part(&self, from: u64, to: u64, order: u8) -> Option<Extent> {
        let pages = to.checked_sub(from).filter(|n| *n > 0)?;
        Some(Extent { first: from, pages, pfn: self.pfn + from - self.first, order, ..*self })
    }
    fn range(&self) -> VpnRange {
        VpnRange { start: Vpn(self.first), pages: self.pages }
    }
}

/// What is mapped, as a list.
#[derive(Default)]
struct Table {
    extents: Vec<Extent>,
    segments: BTreeMap<Asid, Segment>,
}

impl Table {
    fn at(&self, asid: Asid, vpn: Vpn) -> Option<&Extent> {
        self.extents.iter().find(|e| e.has(asid, vpn.0))
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.at(asid, vpn).map(|e| Pte { pfn: Pfn(e.pfn + vpn.0 - e.first), attr: e.attr, order: e.order })
    }
    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        let e = self.at(asid, vpn).filter(|e| e.ranged)?;
        Some(Range { first: Vpn(e.first), pages: e.pages, pfn: Pfn(e.pfn), attr: e.attr })
    }
    fn range_walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 1 + (vpn.0 % 3) as u32, found: self.range(asid, vpn) }
    }
    fn largest_ranges(&self, asid: Asid, most: usize) -> Vec<Range> {
        let ranged = self.extents.iter().filter(|e| e.asid == asid && e.ranged);
        let mut all: Vec<Range> = ranged.filter_map(|e| self.range(asid, Vpn(e.first))).collect();
        all.sort_by_key(|r| (std::cmp::Reverse(r.pages), r.first));
        all.truncate(most);
        all
    }
    fn ranges_version(&self, asid: Asid) -> u64 {
        let ranged = self.extents.iter().filter(|e| e.asid == asid && e.ranged);
        ranged.map(|e| (e.first ^ e.pages << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15)).fold(0, u64::wrapping_add)
    }
    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.segments.get(&asid).copied()
    }
}

/// What happens.
#[derive(Debug)]
enum Step {
    Access(Lookup, Pte),
    Invalidate(Asid, VpnRange),
    Demote(Asid, VpnRange),
    Gone(Asid),
    Switch(Asid),
    Segment(Asid),
}

const SPACES: u64 = 3;
/// Places per space, 2 GB apart.
const PLACES: u64 = 24;

struct World {
    table: Table,
    rng: Pcg64Mcg,
    frame: u64,
    now: Asid,
    /// Likely pages.
    hot: Vec<(Asid, u64)>,
    later: Vec<Step>,
}

impl World {
    fn new(seed: u64) -> World {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6d6d75);
        let mut w = World { table: Table::default(), rng, frame: 1 << 20, now: Asid(0), hot: vec![], later: vec![] };
        for asid in 0..SPACES {
            (0..PLACES).for_each(|place| w.lay(Asid(asid as u32), place));
        }
        (0..60).for_each(|_| w.warm());
        w
    }
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }
    fn frames(&mut self, pages: u64, align: u64, skew: u64) -> u64 {
        let first = self.frame.next_multiple_of(align) + skew;
        self.frame = first + pages;
        first
    }

    /// Maps something at a place.
    fn lay(&mut self, asid: Asid, place: u64) {
        let at = (place + 1) << 19;
        let attr = Attr([7, 3][self.below(2) as usize]);
        let add = |w: &mut World, first, pages, pfn, order, ranged| {
            w.table.extents.push(Extent { asid, first, pages, pfn, attr, order, ranged });
        };
        match self.below(8) {
            // Pages of their own, shuffled in groups of 8 or 16 frames, some groups straight.
            0..=1 => {
                let (group, mess) = ([8, 16][self.below(2) as usize], self.below(3));
                for first in (at..at + 64).step_by(group as usize) {
                    let pfn = self.frames(group, group, 0);
                    let key = if mess == 0 { 0 } else { self.below(group) };
                    for i in 0..group {
                        if i == 0 || self.below(4) > 0 {
                            add(self, first + i, 1, pfn + (i ^ key), 0, false);
                        }
                    }
                }
            }
            // Runs of pages on aligned or other frames, mostly with a range.
            2..=4 => {
                let (pages, skew) = (1 + self.below(700), self.below(3));
                let (from, ranged) = (at + self.below(40), pages >= 8 && self.below(8) > 0);
                let pfn = self.frames(pages + 1024, 512, skew + from % 512);
                add(self, from, pages, pfn, 0, ranged);
                if self.below(2) == 0 {
                    let pfn = self.frames(64, 64, 0);
                    let ranged = self.below(2) == 0;
                    add(self, from + pages, 40, pfn, 0, ranged);
                }
            }
            // The contiguous bit of groups of 16.
            5 => {
                let groups = 1 + self.below(12);
                let pfn = self.frames(16 * groups, 16, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 16 * groups, pfn, 4, ranged);
            }
            6 => {
                let (n, order) = (2 * (1 + self.below(6)), [9, 9, 10][self.below(3) as usize]);
                let pfn = self.frames(512 * n, 1024, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 512 * n, pfn, order, ranged);
            }
            _ => {
                let pfn = self.frames(1 << 18, 1 << 18, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 1 << 18, pfn, 18, ranged);
            }
        }
    }

    fn warm(&mut self) {
        let i = self.any();
        let e = self.table.extents[i];
        let from = self.below(e.pages);
        let step = [1, 1, 7, 512][self.below(4) as usize];
        let n = 1 + self.below(12);
        let run = (0..n).map(|i| e.first + from + i * step);
        self.hot.extend(run.filter(|&vpn| e.has(e.asid, vpn)).map(|vpn| (e.asid, vpn)));
        if self.hot.len() > 120 {
            let cut = 30 + self.below(40) as usize;
            self.hot.drain(..cut);
        }
    }

    fn access(&mut self) -> Step {
        for _ in 0..1000 {
            let i = self.below(self.hot.len() as u64) as usize;
            let (asid, vpn) = self.hot[i];
            if let Some(pte) = self.table.pte(asid, Vpn(vpn)).filter(|_| asid == self.now || self.below(8) == 0) {
                if asid != self.now {
                    self.now = asid;
                    self.later.push(Step::Access(Lookup { asid, vpn: Vpn(vpn), kind: Kind::Load }, pte));
                    return Step::Switch(asid);
                }
                let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store][self.below(4) as usize];
                return Step::Access(Lookup { asid, vpn: Vpn(vpn), kind }, pte);
            }
            self.warm();
        }
        unreachable!("something is mapped")
    }

    /// The next thing. The table shows it already, and everybody hears of it in this order.
    fn step(&mut self) -> Step {
        if let Some(step) = self.later.pop() {
            return step;
        }
        match self.below(1000) {
            0..=30 => self.warm(),
            31..=34 => return self.remap(),
            35..=40 => return self.hole(),
            41..=44 => return self.demote(),
            45..=48 => self.promote(),
            49..=52 => self.merge(),
            56..=110 => self.fault(),
            53..=54 => return self.change_segment(),
            55 => return self.gone(),
            _ => {}
        }
        self.access()
    }

    fn any(&mut self) -> usize {
        self.below(self.table.extents.len() as u64) as usize
    }
    /// The OS does not touch what a segment holds while it does.
    fn free(&self, e: &Extent) -> bool {
        self.table.segments.get(&e.asid).is_none_or(|s| e.first >= s.limit.0 || e.first + e.pages <= s.base.0)
    }

    /// A place is mapped anew.
    fn remap(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if !self.free(&e) {
            return self.access();
        }
        let place = (e.first >> 19) - 1;
        let here = |x: &Extent| x.asid == e.asid && (x.first >> 19) - 1 == place;
        if self.table.extents.iter().any(|x| here(x) && !self.free(x)) {
            return self.access();
        }
        self.table.extents.retain(|x| !here(x));
        self.lay(e.asid, place);
        Step::Invalidate(e.asid, VpnRange { start: Vpn((place + 1) << 19), pages: 1 << 19 })
    }

    /// Some pages go; a superpage falls to base pages, a range breaks in two or goes.
    fn hole(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if e.pages < 3 || e.order >= 18 || !self.free(&e) {
            return self.access();
        }
        let from = e.first + self.below(e.pages);
        let to = (from + 1 + self.below(40)).min(e.first + e.pages);
        self.table.extents.swap_remove(i);
        let keep = self.below(2) == 0;
        for part in [e.part(e.first, from, 0), e.part(to, e.first + e.pages, 0)].into_iter().flatten() {
            self.table.extents.push(Extent { ranged: e.ranged && keep && part.pages >= 8, ..part });
        }
        if self.table.extents.is_empty() {
            self.lay(e.asid, 0);
        }
        self.later.push(Step::Invalidate(e.asid, VpnRange::between(Vpn(from), Vpn(to))));
        Step::Demote(e.asid, e.range())
    }

    fn demote(&mut self) -> Step {
        let i = self.any();
        let free = self.free(&self.table.extents[i]);
        let e = &mut self.table.extents[i];
        if !free {
            return self.access();
        }
        e.order = if e.order > 9 { 9 } else { 0 };
        e.ranged = false;
        Step::Demote(e.asid, e.range())
    }

    /// Properly placed pages become superpages, or get a range; nobody is told.
    fn promote(&mut self) {
        let i = self.any();
        let e = &mut self.table.extents[i];
        let fits = |order: u8| [e.first, e.pages, e.pfn].iter().all(|n| n.is_multiple_of(1 << order));
        match e.order {
            0 if fits(9) => e.order = 9,
            0 if fits(4) => e.order = 4,
            _ => {}
        }
        e.ranged |= e.pages >= 8;
    }

    /// Ranges that lie side by side become one (RMM15-21); nobody is told.
    fn merge(&mut self) {
        let i = self.any();
        let e = self.table.extents[i];
        let next = |x: &Extent| {
            (x.asid, x.first, x.pfn, x.attr, x.order) == (e.asid, e.first + e.pages, e.pfn + e.pages, e.attr, e.order)
        };
        if let Some(j) = self.table.extents.iter().position(next) {
            let pages = e.pages + self.table.extents[j].pages;
            self.table.extents[i] = Extent { pages, ranged: pages >= 8, ..e };
            self.table.extents.swap_remove(j);
        }
    }

    /// A segment comes over an extent or goes (DS13-20, DS13-22).
    fn change_segment(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if self.table.segments.remove(&e.asid).is_none() {
            let segment = Segment { base: Vpn(e.first), limit: Vpn(e.first + e.pages), pfn: Pfn(e.pfn) };
            self.table.segments.insert(e.asid, segment);
            self.table.extents[i].ranged = false;
            self.later.push(Step::Invalidate(e.asid, e.range()));
            self.hot.extend((0..e.pages.min(20)).map(|i| (e.asid, e.first + i)));
        }
        Step::Segment(e.asid)
    }

    /// A page beside one that stands alone is mapped, in the same group of frames; nobody has an entry for it.
    fn fault(&mut self) {
        let i = self.below(self.hot.len() as u64) as usize;
        let (asid, vpn) = self.hot[i];
        let Some(&e) = self.table.at(asid, Vpn(vpn)).filter(|e| e.pages == 1 && e.order == 0 && !e.ranged) else { return };
        if self.table.at(asid, Vpn(vpn ^ 1)).is_none() && self.table.extents.iter().all(|x| x.pfn != e.pfn ^ 1) {
            self.table.extents.push(Extent { first: vpn ^ 1, pfn: e.pfn ^ 1, ..e });
            self.hot.push((asid, vpn ^ 1));
        }
    }

    fn gone(&mut self) -> Step {
        let asid = Asid(self.below(SPACES) as u32);
        self.table.segments.remove(&asid);
        Step::Gone(asid)
    }
}

fn tell(step: &Step, design: &mut dyn Tlb, table: &Table, noise: &mut Noise) -> Option<(Outcome, bool)> {
    match *step {
        Step::Access(at, pte) => {
            let answer = design.access(at, pte, table, noise);
            return Some((answer.outcome, answer.quiet));
        }
        Step::Invalidate(asid, pages) => design.invalidate(asid, pages, noise),
        Step::Demote(asid, pages) => design.demote(asid, pages, noise),
        Step::Gone(asid) => design.invalidate_space(asid, noise),
        Step::Switch(to) => design.switch(to, noise),
        Step::Segment(asid) => design.segment_changed(asid, noise),
    }
    None
}

fn tell_oracle(step: &Step, oracle: &mut PlainMmu, table: &Table) -> Option<Outcome> {
    match *step {
        Step::Access(at, pte) => return Some(oracle.lookup(at, pte, table)),
        Step::Invalidate(asid, pages) => oracle.invalidate(asid, pages),
        Step::Demote(asid, pages) => oracle.demote(asid, pages),
        Step::Gone(asid) => oracle.drop_space(asid),
        Step::Switch(to) => oracle.switch(to),
        Step::Segment(_) => {}
    }
    None
}

/// One stream through the design, its twin that hears of no quiet lookup, and the model.
fn stream(config: Config, steps: usize) -> (farreach::counts::TlbCounts, usize) {
    let (kind, keys) = described(&config);
    let name = format!("{kind}:{keys}");
    let mut oracle = PlainMmu::new(config.clone());
    let (mut ours, mut twin) = (tlb(kind, &keys), tlb(kind, &keys));
    let mut world = World::new(config.seed);
    let (mut ignored, mut noise) = (Noise::default(), Noise::default());
    let mut quiet: BTreeSet<(Asid, Vpn, Kind)> = BTreeSet::new();
    let mut skipped = 0;
    for n in 0..steps {
        let step = world.step();
        let table = &world.table;
        let answer = tell(&step, &mut *ours, table, &mut ignored);
        ignored.clear();
        let expected = tell_oracle(&step, &mut oracle, table);
        assert_eq!(answer.map(|a| a.0), expected, "{name}: step {n}, {step:?}");
        noise.clear();
        match step {
            Step::Access(at, _) if quiet.contains(&(at.asid, at.vpn, at.kind)) => skipped += 1,
            _ => {
                let answer = tell(&step, &mut *twin, table, &mut noise);
                quiet.retain(|&(asid, vpn, _)| !noise.names(asid, vpn));
                if let (Step::Access(at, _), Some((_, true))) = (&step, answer) {
                    quiet.insert((at.asid, at.vpn, at.kind));
                    if at.kind == Kind::Store {
                        quiet.insert((at.asid, at.vpn, Kind::Load));
                    }
                }
            }
        }
        if let Step::Access(at, pte) = step {
            let found = ours.probe(at.asid, at.vpn, at.kind).expect("it was just looked up");
            assert_eq!((found.pfn, found.attr), (pte.pfn, pte.attr), "XC-3: {name}: step {n}, {step:?}");
        }
        if n % 16 == 0 || n + 1 == steps {
            assert_eq!(ours.entries(), oracle.views(), "{name}: after step {n}, {step:?}");
            assert_eq!(ours.counts(), oracle.counts(), "{name}: after step {n}, {step:?}");
            assert_eq!((twin.entries(), twin.counts()), (ours.entries(), ours.counts()), "{name}: twin, step {n}");
        }
    }
    (ours.counts().clone(), skipped)
}

fn level(arrays: &[Array]) -> String {
    let size = |o: &u8| farreach::addr::Bytes(4096 << o).to_string();
    let array = |&(orders, entries, ways): &Array| {
        let ways = if ways == 0 { String::new() } else { format!("/{ways}") };
        format!("{}:{entries}{ways}", orders.iter().map(size).collect::<Vec<_>>().join("|"))
    };
    if arrays.is_empty() { "none".into() } else { arrays.iter().map(array).collect::<Vec<_>>().join("+") }
}

fn described(c: &Config) -> (&'static str, String) {
    let policy = match c.replacement {
        Replacement::Lru => "lru",
        Replacement::Fifo => "fifo",
        _ => "random",
    };
    let mut keys = format!(
        "l1d={},l1i={},coalesce={},walk_levels={},pwc_pd={},pwc_pdpt={},pwc_pml4={},pwc_pml5={},replacement={policy},\
         process_ids={},seed={}",
        level(c.l1d),
        level(c.l1i),
        4096u64 << c.coalesce,
        c.levels,
        c.pwc[0],
        c.pwc[1],
        c.pwc[2],
        c.pwc[3],
        c.process_ids,
        c.seed
    );
    if !matches!(c.behind, Behind::Clusters { .. }) {
        let own = c.l2i.map_or("shared".into(), level);
        keys += &format!(",l2={},l2i={own},l2_fracture={}", level(c.l2), c.fracture);
    }
    let kind = match c.behind {
        Behind::Clusters { entries, ways, pages, runs } => {
            let frames = if runs { "run" } else { "group" };
            keys += &format!(",cluster_entries={entries},cluster_ways={ways},cluster_pages={pages},cluster_frames={frames}");
            "clustered"
        }
        Behind::Runs { entries, limit, first, fills_l2 } => {
            let order = if first { "first" } else { "parallel" };
            keys += &format!(",run_entries={entries},run_pages={limit},run_order={order},run_fills_l2={fills_l2}");
            "coalesced"
        }
        Behind::Ranges { entries, random, order, mru, on, control, hint, cooperation } => {
            let order = match order {
                RangeOrder::Parallel => "parallel",
                RangeOrder::Serial => "serial",
                RangeOrder::First => "first",
            };
            let policy = if random { "random" } else { "lru" };
            let hint = match hint {
                Hint::Bit => "bit".to_owned(),
                Hint::Always => "always".to_owned(),
                Hint::Predictor(n) => format!("predictor,predictor_entries={n}"),
            };
            keys += &format!(
                ",range_entries={entries},range_replacement={policy},range_order={order},mru_pointer={mru},range_tlb={on},range_control={},\
                 range_hint={hint},l2_cooperation={cooperation}",
                if control { "counters" } else { "fixed" }
            );
            "range"
        }
        Behind::Pages => match c.segment {
            SegmentMode::None => "hierarchy",
            SegmentMode::Registers => "segment",
            SegmentMode::Emulated => {
                keys += ",segment_served_by=pages";
                "segment"
            }
            SegmentMode::Several(k) => {
                keys += &format!(",segments={k}");
                "segment"
            }
        },
    };
    (kind, keys)
}

const SMALL: &[Array] = &[(&[0], 16, 4), (&[9], 8, 4), (&[18], 2, 0)];
const PLAIN: &[Array] = &[(&[0], 4, 0)];
const SHARED: &[Array] = &[(&[0, 2, 4, 9], 12, 0)];
const SETS: &[Array] = &[(&[0, 2, 9], 64, 4), (&[18], 4, 0)];
const FOUR: &[Array] = &[(&[0], 48, 3)];

fn config(seed: u64) -> Config {
    let pick = |list: &[&'static [Array]], n: u64| list[(seed / n) as usize % list.len()];
    Config {
        l1d: pick(&[SMALL, SHARED, PLAIN], 1),
        l1i: pick(&[SMALL, PLAIN, SHARED, SMALL], 1),
        l2: pick(&[FOUR, SETS, &[], FOUR, SETS], 1),
        l2i: [None, None, Some(FOUR), Some(&[] as &[Array])][seed as usize % 7 % 4],
        fracture: seed % 3 == 1,
        coalesce: [0, 2, 0, 3][(seed / 2) as usize % 4],
        levels: 4 + (seed / 3 % 2) as usize,
        pwc: [[0; 4], [8, 4, 2, 3 * (seed / 3 % 2) as usize], [2, 0, 1, 0]][(seed / 2) as usize % 3],
        replacement: [Replacement::Lru, Replacement::Lru, Replacement::Fifo, Replacement::Random][seed as usize % 4],
        process_ids: seed % 5 != 4,
        behind: Behind::Pages,
        segment: SegmentMode::None,
        seed,
    }
}

/// Streams of each test, and their steps.
const STREAMS: u64 = 40;
const STEPS: usize = 4000;

fn all(change: impl Fn(u64, &mut Config)) -> farreach::counts::TlbCounts {
    let mut sum = farreach::counts::TlbCounts::default();
    let mut skipped = 0;
    for seed in 0..STREAMS {
        let mut config = config(seed);
        change(seed, &mut config);
        let (counts, quiet) = stream(config, STEPS);
        sum += &counts;
        skipped += quiet;
    }
    assert!(skipped > 1000, "{skipped} lookups were quiet");
    sum
}

#[test]
fn ds13_36_hierarchies_agree_with_the_plain_model() {
    let c = all(|_, _| {});
    let w = &c.walk;
    for (what, n) in [
        ("second_level_fetch_hits", c.second_level_fetch_hits),
        ("second_level_data_hits", c.second_level_data_hits),
        ("evictions", c.evictions),
        ("covered_drops", c.covered_drops),
        ("preloaded", c.preloaded),
        ("invalidations", c.invalidations),
        ("pml5_references", w.pml5_references),
        ("pd_cache_hits", w.pd_cache_hits),
        ("pdpt_cache_hits", w.pdpt_cache_hits),
        ("pml4_cache_hits", w.pml4_cache_hits),
        ("pml5_cache_hits", w.pml5_cache_hits),
    ] {
        assert!(n > 20, "{what} moved {n} times");
    }
    assert_eq!(w.walks, c.misses);
}

#[test]
fn rmm15_2_range_tlbs_agree_with_the_plain_model() {
    let c = all(|seed, c| {
        c.behind = Behind::Ranges {
            entries: [4, 1, 16][seed as usize % 3],
            random: seed % 4 == 1,
            order: [RangeOrder::Parallel, RangeOrder::Serial, RangeOrder::First][(seed / 2) as usize % 3],
            mru: seed % 2 == 0,
            on: seed % 11 < 9,
            control: seed % 11 > 7 && (seed / 2) % 3 != 2,
            hint: [Hint::Bit, Hint::Bit, Hint::Always, Hint::Predictor(8), Hint::Bit][seed as usize % 5],
            cooperation: seed % 7 == 1,
        }
    });
    let r = &c.range;
    for n in [r.sole_hits, r.mru_hits, r.full_searches, r.nodes, r.wasted_walks, r.missed_ranges, r.evictions, r.invalidations]
    {
        assert!(n > 20, "{r:?}");
    }
    assert_eq!(r.hits + r.misses, r.mru_hits + r.full_searches);
}

#[test]
fn rmm15_42_clusters_agree_with_the_plain_model() {
    for runs in [false, true] {
        let c = all(|seed, c| {
            c.behind = Behind::Clusters {
                entries: [8, 16, 64][seed as usize % 3],
                ways: [0, 4][seed as usize % 2],
                pages: [8, 4, 8, 2, 4][seed as usize % 5],
                runs,
            }
        });
        assert!(c.merges > 20 && c.preloaded > 1000, "{c:?}");
    }
}

#[test]
fn runs_that_grow_agree_with_the_plain_model() {
    let c = all(|seed, c| {
        c.behind = Behind::Runs {
            entries: [4, 8, 1, 16][seed as usize % 4],
            limit: [64, 8, 1024, 2][(seed / 3) as usize % 4],
            first: seed % 5 == 3,
            fills_l2: seed % 2 == 0,
        }
    });
    for n in [c.merges, c.preloaded, c.evictions, c.covered_drops, c.second_level_data_hits, c.invalidations] {
        assert!(n > 20, "{c:?}");
    }
}

#[test]
fn ds13_2_segments_agree_with_the_plain_model() {
    all(|_, c| c.segment = SegmentMode::Registers);
    let several = all(|seed, c| c.segment = SegmentMode::Several([2, 3, 8][seed as usize % 3]));
    let none = all(|_, _| {});
    assert!(several.misses < none.misses - 1000, "{} of {} misses", several.misses, none.misses);
    let c = all(|_, c| c.segment = SegmentMode::Emulated);
    assert!(c.segment.misses_inside > 100, "{c:?}");
}
