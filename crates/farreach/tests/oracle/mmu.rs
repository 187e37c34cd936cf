//! First-level TLBs by side and size, what stands behind them, and the walker (DS13-36, RMM15-1 to RMM15-14, RMM15-41, RMM15-42, DS13-1 to
//! DS13-5), as lists with a time of begin and of last use in every entry.
//!
//! * OM-1 Slots: data side of the first level, array by array, fetch side, then the second level (`l2`, then `l2i`) and the range TLB, or
//!   the clusters. A set is the page number, in units of the entry, mod sets.
//! * OM-2 An entry of the first level gets the largest size of its level that is not larger than the mapping. The second level holds a
//!   page if it has a size of the same leaf (4 KB, 2 MB, 1 GB) that is not larger than the mapping, or any such size with `l2_fracture`.
//!   Of what answered from the second level, the first holds that entry's size, or a smaller one of its own.
//! * OM-3 An entry of more than one page, filled, drops what it covers in its own level: `covered_drops` of all levels.
//! * OM-4 `coalesce`: a mapping smaller than that counts as that large if all pages of the aligned group have contiguous frames, aligned
//!   alike, and the same attributes; what the mapping itself did not have is `preloaded`.
//! * OM-5 `evictions` are those of what stands behind the first level; of the first level where nothing does for that side. Evicted ranges
//!   are counted apart. `invalidations`: entries of all levels, ranges apart, and pages of clusters.
//! * OM-6 A walk uses the deepest cached entry, which is used by it, and caches all it reads but the leaf, top first. Any change of a
//!   mapping of a process drops all cached entries of the process.
//! * OM-7 `fills`: one per miss. `merges`: misses that joined a cluster.
//! * OM-11 Clusters of 2, 4 or 8 pages. In runs, not groups: the page that missed, and those before and after it as long as each has the next frame
//!   and the same attributes. What the same frames say of pages of the cluster is one entry.
//! * OM-13 Runs: entries of any pages in a row in frames in a row with equal attributes, up to a limit, and superpages, beside the second level (they
//!   follow its slots). A walk brings the page and those before and after it in its line of eight, as long as each fits on and has no entry; it
//!   lengthens the entry that ends before it, then is lengthened by the one that begins after it, each if both together are within the limit;
//!   the lower entry's slot and time of begin stay. A lone page is no entry. Superpages drop what they cover. A change of any page drops the entry,
//!   all of whose pages count; splitting a superpage drops superpages only, which count one. Asked `first`, a hit is all that happens.
//! * OM-12 Several segments: the registers of the process that runs hold its largest ranges. They are loaded before a lookup if another process's
//!   are in them, or a change met one of them, or the miss before was of a page in a range while the ranges were others than when they were
//!   loaded.
//! * OM-10 `range_control = counters` looks at the counters after every 4096 misses of the first level, before the next: on turns off if
//!   fewer than 16 lookups were answered by ranges alone and fewer than 256 walks met the range bit; off turns on at 256 of these.
//! * OM-8 A range that is filled drops the ranges it overlaps, uncounted. The range used last is none after it was dropped.

use super::tlb::Replacement;
use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::hw::tlb::{Attr, EntryView, Lookup, Outcome, PageTableView, Pte, Range, Translation};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Orders, entries, ways (0: all).
pub type Array = (&'static [u8], usize, usize);

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behind {
    Pages,
    Clusters {
        entries: usize,
        ways: usize,
        pages: u64,
        /// CoLT.
        runs: bool,
    },
    /// CoLT-FA.
    Runs {
        entries: usize,
        limit: u64,
        first: bool,
        fills_l2: bool,
    },
    Ranges {
        entries: usize,
        random: bool,
        order: RangeOrder,
        mru: bool,
        on: bool,
        control: bool,
        hint: Hint,
        cooperation: bool,
    },
}

/// OM-9 Which walks search the range table. A predictor has a counter for each 2 MB, by its low bits: 0 at first and after a search that
/// found something, 15 after one in vain; above 0 there is no search, and it counts down.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Hint {
    Bit,
    Always,
    Predictor(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RangeOrder {
    Parallel,
    Serial,
    First,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SegmentMode {
    None,
    Registers,
    Emulated,
    Several(usize),
}

#[derive(Clone, Debug)]
pub struct Config {
    pub l1d: &'static [Array],
    pub l1i: &'static [Array],
    pub l2: &'static [Array],
    /// `None`: shared.
    pub l2i: Option<&'static [Array]>,
    pub fracture: bool,
    pub coalesce: u8,
    pub levels: usize,
    /// Entries of the caches, from the page directory up.
    pub pwc: [usize; 4],
    pub replacement: Replacement,
    pub process_ids: bool,
    pub behind: Behind,
    pub segment: SegmentMode,
    pub seed: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    asid: Asid,
    /// In units of its size.
    number: u64,
    order: u8,
    pfn: u64,
    attr: Attr,
    begun: u64,
    last: u64,
}

impl Entry {
    fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.number == vpn.0 >> self.order
    }
    fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        let (first, n) = (self.number << self.order, 1u64 << self.order);
        self.asid == asid && first < pages.start.0 + pages.pages && pages.start.0 < first + n
    }
    fn says(&self, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.pfn + (vpn.0 - (self.number << self.order))), attr: self.attr }
    }
}

/// An array in sets.
struct Slots<E> {
    slots: Vec<Option<E>>,
    ways: usize,
    policy: Replacement,
    rng: Pcg64Mcg,
}

impl<E: Copy> Slots<E> {
    fn new(entries: usize, ways: usize, policy: Replacement, seed: u64) -> Slots<E> {
        let ways = if ways == 0 { entries } else { ways };
        Slots { slots: vec![None; entries], ways, policy, rng: Pcg64Mcg::seed_from_u64(seed) }
    }
    /// The slot for something with this number, and whether it is taken.
    fn victim(&mut self, number: u64, times: impl Fn(&E) -> (u64, u64)) -> (usize, bool) {
        let set = number as usize % (self.slots.len() / self.ways);
        let all = set * self.ways..(set + 1) * self.ways;
        if let Some(free) = all.clone().find(|&i| self.slots[i].is_none()) {
            return (free, false);
        }
        let oldest = |time: &dyn Fn(&E) -> u64| all.clone().min_by_key(|&i| time(self.slots[i].as_ref().unwrap())).unwrap();
        let slot = match self.policy {
            Replacement::Lru => oldest(&|e| times(e).1),
            Replacement::Fifo => oldest(&|e| times(e).0),
            _ => all.start + ((u64::from(self.rng.next_u32()) * self.ways as u64) >> 32) as usize,
        };
        (slot, true)
    }
    fn drop_if(&mut self, goes: impl Fn(&E) -> bool) -> Vec<E> {
        let doomed = self.slots.iter_mut().filter(|e| e.as_ref().is_some_and(&goes));
        doomed.filter_map(Option::take).collect()
    }
}

struct Level {
    arrays: Vec<(&'static [u8], Slots<Entry>)>,
}

impl Level {
    fn new(arrays: &[Array], config: &Config, seed: u64) -> Level {
        let slots = |(i, &(orders, entries, ways)): (usize, &Array)| {
            (orders, Slots::new(entries, ways, config.replacement, config.seed + seed + i as u64))
        };
        Level { arrays: arrays.iter().enumerate().map(slots).collect() }
    }
    fn entry(&mut self, asid: Asid, vpn: Vpn) -> Option<&mut Entry> {
        let all = self.arrays.iter_mut().flat_map(|a| a.1.slots.iter_mut().flatten());
        let mut found: Vec<_> = all.filter(|e| e.has(asid, vpn)).collect();
        assert!(found.len() < 2, "one entry of a level translates a page");
        found.pop()
    }
    fn says(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let mut all = self.arrays.iter().flat_map(|a| a.1.slots.iter().flatten());
        all.find(|e| e.has(asid, vpn)).map(|e| e.says(vpn))
    }
    fn sizes(&self) -> Vec<u8> {
        self.arrays.iter().flat_map(|a| a.0.iter().copied()).collect()
    }
    fn drop_if(&mut self, goes: impl Fn(&Entry) -> bool) -> u64 {
        self.arrays.iter_mut().map(|a| a.1.drop_if(&goes).len() as u64).sum()
    }
    /// Covered and evicted entries.
    fn fill(&mut self, at: Lookup, page: Translation, order: u8, now: u64) -> (u64, u64) {
        let number = at.vpn.0 >> order;
        let covers = VpnRange { start: Vpn(number << order), pages: 1 << order };
        let covered = if order > 0 { self.drop_if(|e| e.meets(at.asid, covers)) } else { 0 };
        let array = &mut self.arrays.iter_mut().find(|a| a.0.contains(&order)).unwrap().1;
        let (slot, taken) = array.victim(number, |e| (e.begun, e.last));
        let pfn = page.pfn.0 - (at.vpn.0 - covers.start.0);
        array.slots[slot] = Some(Entry { asid: at.asid, number, order, pfn, attr: page.attr, begun: now, last: now });
        (covered, taken.into())
    }
    fn len(&self) -> usize {
        self.arrays.iter().map(|a| a.1.slots.len()).sum()
    }
    fn views(&self, before: usize, out: &mut Vec<EntryView>) {
        let all = self.arrays.iter().flat_map(|a| &a.1.slots).enumerate();
        out.extend(all.filter_map(|(i, e)| {
            let e = e.as_ref()?;
            let base = Vpn(e.number << e.order);
            let pages = vec![(0, e.says(base), false)];
            Some(EntryView { slot: before + i, asid: e.asid, base, order: e.order, pages, sb_enabled: None, used: None })
        }));
    }
}

#[derive(Clone, Copy)]
struct Cluster {
    asid: Asid,
    number: u64,
    frames: u64,
    attr: Attr,
    pages: [Option<u64>; 8],
    begun: u64,
    last: u64,
}

/// OM-13: pages of a run with their frames; or a superpage.
#[derive(Clone)]
struct Row {
    asid: Asid,
    pages: std::collections::BTreeMap<u64, u64>,
    superpage: Option<(u64, u64, u8)>,
    attr: Attr,
    begun: u64,
    last: u64,
}

impl Row {
    fn says(&self, vpn: Vpn) -> Option<(Translation, u8)> {
        let (pfn, order) = match self.superpage {
            Some((first, pfn, order)) => ((vpn.0 >> order == first >> order).then(|| pfn + vpn.0 - first)?, order),
            None => (*self.pages.get(&vpn.0)?, 0),
        };
        Some((Translation { pfn: Pfn(pfn), attr: self.attr }, order))
    }
    fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        let superpage = self
            .superpage
            .is_some_and(|(first, _, order)| first < pages.start.0 + pages.pages && pages.start.0 < first + (1 << order));
        self.asid == asid && (superpage || self.pages.keys().any(|&v| pages.contains(Vpn(v))))
    }
}

#[derive(Clone, Copy)]
struct Held {
    asid: Asid,
    range: Range,
    last: u64,
}

impl Held {
    fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.range.first <= vpn && vpn.0 < self.range.first.0 + self.range.pages
    }
    fn meets(&self, asid: Asid, first: u64, pages: u64) -> bool {
        let r = self.range;
        self.asid == asid && r.first.0 < first + pages && first < r.first.0 + r.pages
    }
    fn says(&self, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.range.pfn.0 + vpn.0 - self.range.first.0), attr: self.range.attr }
    }
}

/// A cached entry of the page table: process, its number at its level, last use.
type Pointer = (Asid, u64, u64, u64);

/// The model.
pub struct PlainMmu {
    config: Config,
    l1: [Level; 2],
    l2: Option<Level>,
    l2i: Option<Level>,
    clusters: Option<Slots<Cluster>>,
    ranges: Option<Slots<Held>>,
    rows: Vec<Option<Row>>,
    row_rng: Pcg64Mcg,
    newest: Option<usize>,
    /// OM-12: whose, the version, the ranges.
    registers: Option<(Asid, u64, Vec<Range>)>,
    /// OM-11.
    cluster: (u64, bool),
    /// OM-9.
    waits: Vec<u8>,
    /// OM-10: misses of the first level, lookups answered by ranges alone, walks to a range bit.
    window: [u64; 3],
    caches: Vec<Slots<Pointer>>,
    counts: TlbCounts,
    now: u64,
}

fn leaf(order: u8) -> u8 {
    if order >= 18 {
        2
    } else if order >= 9 {
        1
    } else {
        0
    }
}

impl PlainMmu {
    pub fn new(config: Config) -> PlainMmu {
        let c = &config;
        let some = |arrays: &[Array], seed| (!arrays.is_empty()).then(|| Level::new(arrays, c, seed));
        let paged = !matches!(c.behind, Behind::Clusters { .. });
        PlainMmu {
            l1: [Level::new(c.l1d, c, 0), Level::new(c.l1i, c, 8)],
            l2: if paged { some(c.l2, 16) } else { None },
            l2i: c.l2i.filter(|_| paged).and_then(|arrays| some(arrays, 24)),
            clusters: match c.behind {
                Behind::Clusters { entries, ways, .. } => Some(Slots::new(entries, ways, c.replacement, c.seed + 64)),
                _ => None,
            },
            ranges: match c.behind {
                Behind::Ranges { entries, random, .. } => {
                    let policy = if random { Replacement::Random } else { Replacement::Lru };
                    Some(Slots::new(entries, 0, policy, c.seed + 64))
                }
                _ => None,
            },
            rows: match c.behind {
                Behind::Runs { entries, .. } => vec![None; entries],
                _ => Vec::new(),
            },
            row_rng: Pcg64Mcg::seed_from_u64(c.seed + 64),
            newest: None,
            registers: None,
            cluster: match c.behind {
                Behind::Clusters { pages, runs, .. } => (pages, runs),
                _ => (8, false),
            },
            waits: vec![0; 256],
            window: [0; 3],
            caches: (1..c.levels).map(|l| Slots::new(c.pwc[l - 1], 0, c.replacement, c.seed + 32 + l as u64)).collect(),
            counts: TlbCounts::default(),
            now: 0,
            config,
        }
    }

    fn second(&mut self, kind: Kind) -> Option<&mut Level> {
        if kind == Kind::Fetch && self.config.l2i.is_some() { self.l2i.as_mut() } else { self.l2.as_mut() }
    }

    fn count_hit(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.counts.second_level_fetch_hits += 1,
            _ => self.counts.second_level_data_hits += 1,
        }
    }

    fn fill_second(&mut self, at: Lookup, page: Translation, order: u8) {
        let (fracture, now) = (self.config.fracture, self.now);
        let Some(level) = self.second(at.kind) else { return };
        let fits = level.sizes().into_iter().filter(|&o| o <= order).max();
        let Some(fit) = fits.filter(|&o| fracture || leaf(o) == leaf(order)) else { return };
        let (covered, evicted) = level.fill(at, page, fit, now);
        self.counts.covered_drops += covered;
        self.counts.evictions += evicted;
    }

    fn search_ranges(&mut self, at: Lookup, mru: bool) -> Option<Translation> {
        self.now += 1;
        let now = self.now;
        let held = &mut self.ranges.as_mut()?.slots;
        let hit = (0..held.len()).find(|&i| held[i].is_some_and(|h| h.has(at.asid, at.vpn)));
        let c = &mut self.counts.range;
        if mru && hit.is_some() && hit == self.newest {
            c.mru_hits += 1
        } else {
            c.full_searches += 1
        }
        let Some(i) = hit else {
            c.misses += 1;
            return None;
        };
        c.hits += 1;
        self.newest = hit;
        let held = held[i].as_mut()?;
        held.last = now;
        Some(held.says(at.vpn))
    }

    fn behind(&mut self, at: Lookup, pte: Pte) -> Option<(Translation, u8)> {
        let now = self.now;
        if let Some(clusters) = &mut self.clusters {
            let n = self.cluster.0;
            let offset = (at.vpn.0 % n) as usize;
            let mut all = clusters.slots.iter_mut().flatten();
            let hit = all.find(|c| c.asid == at.asid && c.number == at.vpn.0 / n && c.pages[offset].is_some())?;
            hit.last = now;
            let found = Translation { pfn: Pfn(hit.pages[offset]?), attr: hit.attr };
            self.count_hit(at.kind);
            return Some((found, 0));
        }
        if let Behind::Ranges { on, control: true, .. } = &mut self.config.behind {
            let [misses, saved, met] = self.window;
            if misses == 4096 {
                let now_on = met >= 256 || *on && saved >= 16;
                self.counts.range.switches += u64::from(now_on != *on);
                *on = now_on;
                self.window = [0; 3];
            }
            self.window[0] += 1;
        }
        let hit = self.second(at.kind).and_then(|level| level.entry(at.asid, at.vpn)).map(|e| {
            e.last = now;
            (e.says(at.vpn), e.order)
        });
        if hit.is_some() {
            self.count_hit(at.kind);
        }
        if let Behind::Runs { first: false, .. } = self.config.behind {
            let row = self.search_rows(at);
            if hit.is_none() && row.is_some() {
                self.count_hit(at.kind);
            }
            return hit.or(row);
        }
        let Behind::Ranges { order, mru, on: true, .. } = self.config.behind else { return hit };
        let asked = match order {
            RangeOrder::Parallel => true,
            RangeOrder::Serial => hit.is_none(),
            RangeOrder::First => false,
        };
        let range = if asked { self.search_ranges(at, mru) } else { None };
        if hit.is_some() {
            return hit;
        }
        let found = range?;
        self.counts.range.sole_hits += 1;
        self.window[1] += 1;
        if order == RangeOrder::Serial {
            self.fill_second(at, found, pte.order);
        }
        Some((found, 0))
    }

    fn walk(&mut self, at: Lookup, from: u8) {
        self.now += 1;
        let number = |level: u8| at.vpn.0 >> (9 * u32::from(level));
        let mut top = self.config.levels as u8;
        for level in from + 1..self.config.levels as u8 {
            let cached = self.caches[usize::from(level) - 1].slots.iter_mut().flatten();
            if let Some(p) = { cached }.find(|p| (p.0, p.1) == (at.asid, number(level))) {
                p.3 = self.now;
                let w = &mut self.counts.walk;
                *[&mut w.pd_cache_hits, &mut w.pdpt_cache_hits, &mut w.pml4_cache_hits, &mut w.pml5_cache_hits]
                    [usize::from(level) - 1] += 1;
                top = level;
                break;
            }
        }
        self.counts.walk.walks += 1;
        for level in (from..top).rev() {
            let w = &mut self.counts.walk;
            *[
                &mut w.pt_references,
                &mut w.pd_references,
                &mut w.pdpt_references,
                &mut w.pml4_references,
                &mut w.pml5_references,
            ][usize::from(level)] += 1;
            if level > from && !self.caches[usize::from(level) - 1].slots.is_empty() {
                let cache = &mut self.caches[usize::from(level) - 1];
                let (slot, _) = cache.victim(0, |p| (p.2, p.3));
                self.now += 1;
                cache.slots[slot] = Some((at.asid, number(level), self.now, self.now));
            }
        }
    }

    fn fill_behind(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView) {
        if self.clusters.is_some() {
            if leaf(order) == 0 {
                self.fill_cluster(at, page, table);
            }
            return;
        }
        if let Behind::Runs { fills_l2, .. } = self.config.behind {
            if !self.fill_rows(at, page, order, table) || fills_l2 {
                self.fill_second(at, page, order);
            }
            return;
        }
        let bit = table.range(at.asid, at.vpn).is_some();
        self.window[2] += u64::from(bit);
        let Behind::Ranges { on: true, hint, cooperation, .. } = self.config.behind else {
            return self.fill_second(at, page, order);
        };
        if !(cooperation && bit) {
            self.fill_second(at, page, order);
        }
        let counter = match hint {
            Hint::Predictor(n) => (at.vpn.0 / 512) as usize % n,
            _ => 0,
        };
        let search = match hint {
            Hint::Bit => bit,
            Hint::Always => true,
            Hint::Predictor(_) => self.waits[counter] == 0,
        };
        if !search {
            self.counts.range.missed_ranges += u64::from(bit);
            self.waits[counter] -= u8::from(hint != Hint::Bit);
            return;
        }
        if matches!(hint, Hint::Predictor(_)) {
            self.waits[counter] = if bit { 0 } else { 15 };
        }
        let walk = table.range_walk(at.asid, at.vpn);
        self.counts.range.walks += 1;
        self.counts.range.nodes += u64::from(walk.nodes);
        let Some(range) = walk.found else {
            self.counts.range.wasted_walks += 1;
            return;
        };
        self.drop_ranges(|h| h.meets(at.asid, range.first.0, range.pages));
        self.now += 1;
        let ranges = self.ranges.as_mut().unwrap();
        let (slot, taken) = ranges.victim(0, |h| (0, h.last));
        self.counts.range.evictions += u64::from(taken);
        ranges.slots[slot] = Some(Held { asid: at.asid, range, last: self.now });
        self.newest = Some(slot);
    }

    fn search_rows(&mut self, at: Lookup) -> Option<(Translation, u8)> {
        self.now += 1;
        let row = self.rows.iter_mut().flatten().find(|r| r.asid == at.asid && r.says(at.vpn).is_some())?;
        row.last = self.now;
        row.says(at.vpn)
    }

    /// Whether it was taken.
    fn fill_rows(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView) -> bool {
        let Behind::Runs { limit, .. } = self.config.behind else { unreachable!() };
        self.now += 1;
        let now = self.now;
        let mut row = Row { asid: at.asid, pages: Default::default(), superpage: None, attr: page.attr, begun: now, last: now };
        if leaf(order) > 0 {
            let inside = at.vpn.0 % (1 << order);
            row.superpage = Some((at.vpn.0 - inside, page.pfn.0 - inside, order));
            let covers = VpnRange { start: Vpn(at.vpn.0 - inside), pages: 1 << order };
            for slot in &mut self.rows {
                if slot.as_ref().is_some_and(|r| r.meets(at.asid, covers)) {
                    *slot = None;
                    self.counts.covered_drops += 1;
                }
            }
        } else {
            let fits = |v: u64| {
                let pte = table.pte(at.asid, Vpn(v)).filter(|p| p.pfn.0 + at.vpn.0 == page.pfn.0 + v && p.attr == page.attr);
                let had = self.rows.iter().flatten().any(|r| r.asid == at.asid && r.says(Vpn(v)).is_some());
                pte.filter(|_| !had).map(|p| p.pfn.0)
            };
            let line = at.vpn.0 / 8 * 8..at.vpn.0 / 8 * 8 + 8;
            for v in line {
                if (v.min(at.vpn.0)..=v.max(at.vpn.0)).all(|w| fits(w).is_some()) {
                    row.pages.insert(v, fits(v).unwrap());
                }
            }
            let fresh = row.pages.len() as u64;
            let joins = |low: &Row, high: &Row| {
                let (end, begin) = (low.pages.last_key_value(), high.pages.first_key_value());
                let next = end.zip(begin).is_some_and(|((v, p), (w, q))| (v + 1, p + 1) == (*w, *q));
                next && low.asid == high.asid && low.attr == high.attr && (low.pages.len() + high.pages.len()) as u64 <= limit
            };
            let low = (0..self.rows.len()).find(|&i| self.rows[i].as_ref().is_some_and(|r| joins(r, &row)));
            if let Some(i) = low {
                let old = self.rows[i].as_ref().unwrap();
                row.begun = old.begun;
                row.pages.extend(&old.pages);
            }
            let high = (0..self.rows.len()).find(|&i| self.rows[i].as_ref().is_some_and(|r| joins(&row, r)));
            if let Some(i) = high {
                let old = self.rows[i].take().unwrap();
                if low.is_none() {
                    row.begun = old.begun;
                }
                row.pages.extend(&old.pages);
            }
            if row.pages.len() == 1 {
                return false;
            }
            self.counts.preloaded += fresh - 1;
            if let Some(i) = low.or(high) {
                self.counts.merges += 1;
                self.rows[i] = Some(row);
                return true;
            }
        }
        let free = self.rows.iter().position(Option::is_none);
        let n = self.rows.len();
        let slot = free.unwrap_or_else(|| {
            self.counts.evictions += 1;
            let rows = &self.rows;
            match self.config.replacement {
                Replacement::Lru => (0..n).min_by_key(|&i| rows[i].as_ref().unwrap().last).unwrap(),
                Replacement::Fifo => (0..n).min_by_key(|&i| rows[i].as_ref().unwrap().begun).unwrap(),
                _ => ((u64::from(self.row_rng.next_u32()) * n as u64) >> 32) as usize,
            }
        });
        self.rows[slot] = Some(row);
        true
    }

    fn drop_rows(&mut self, goes: impl Fn(&Row) -> bool) {
        for slot in &mut self.rows {
            if let Some(row) = slot.as_ref().filter(|r| goes(r)) {
                self.counts.invalidations += row.superpage.map_or(row.pages.len() as u64, |_| 1);
                *slot = None;
            }
        }
    }

    fn fill_cluster(&mut self, at: Lookup, page: Translation, table: &dyn PageTableView) {
        let (n, runs) = self.cluster;
        let (number, place) = (at.vpn.0 / n, at.vpn.0 % n);
        // What entries of one cluster are told apart by.
        let frames = if runs { page.pfn.0 + n - place } else { page.pfn.0 / n };
        let fits = |i: u64| {
            let pte = table.pte(at.asid, Vpn(number * n + i)).filter(|p| i < n && p.attr == page.attr)?;
            (if runs { pte.pfn.0 + n - i == frames } else { pte.pfn.0 / n == frames }).then_some(pte.pfn.0)
        };
        let reached = |i: u64| !runs || (i.min(place)..=i.max(place)).all(|j| fits(j).is_some());
        let pages: [Option<u64>; 8] = std::array::from_fn(|i| fits(i as u64).filter(|_| reached(i as u64)));
        let count = |pages: &[Option<u64>; 8]| pages.iter().flatten().count() as u64;
        let now = self.now;
        let clusters = self.clusters.as_mut().unwrap();
        let same = |c: &&mut Cluster| (c.asid, c.number, c.frames, c.attr) == (at.asid, number, frames, page.attr);
        if let Some(old) = clusters.slots.iter_mut().flatten().find(same) {
            self.counts.merges += 1;
            let both = std::array::from_fn(|i| pages[i].or(old.pages[i]));
            self.counts.preloaded += count(&both) - count(&old.pages) - 1;
            (old.pages, old.last) = (both, now);
        } else {
            self.counts.preloaded += count(&pages) - 1;
            let (slot, taken) = clusters.victim(number, |c| (c.begun, c.last));
            self.counts.evictions += u64::from(taken);
            let asid = at.asid;
            clusters.slots[slot] = Some(Cluster { asid, number, frames, attr: page.attr, pages, begun: now, last: now });
        }
    }

    fn coalesced(&self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> u8 {
        let n = 1u64 << self.config.coalesce;
        if self.config.coalesce <= pte.order || at.vpn.0 % n != pte.pfn.0 % n {
            return pte.order;
        }
        let first = at.vpn.0 / n * n;
        let alike = (first..first + n).all(|v| {
            let expected = pte.pfn.0 / n * n + v - first;
            table.pte(at.asid, Vpn(v)).is_some_and(|p| p.pfn.0 == expected && p.attr == pte.attr)
        });
        if alike { self.config.coalesce } else { pte.order }
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        if let SegmentMode::Several(k) = self.config.segment {
            return self.several(at, pte, table, k);
        }
        let in_segment = at.kind != Kind::Fetch
            && self.config.segment != SegmentMode::None
            && table.segment(at.asid).is_some_and(|s| s.base <= at.vpn && at.vpn < s.limit);
        if in_segment && self.config.segment == SegmentMode::Registers {
            return Outcome::Hit;
        }
        let outcome = self.paged(at, pte, table);
        self.counts.segment.misses_inside += u64::from(in_segment && outcome != Outcome::Hit);
        outcome
    }

    fn several(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, k: usize) -> Outcome {
        if self.registers.as_ref().is_none_or(|r| r.0 != at.asid) {
            self.registers = Some((at.asid, table.ranges_version(at.asid), table.largest_ranges(at.asid, k)));
        }
        let (_, version, ranges) = self.registers.as_ref().unwrap();
        let inside = |r: &Range| r.first <= at.vpn && at.vpn.0 < r.first.0 + r.pages;
        if at.kind != Kind::Fetch && ranges.iter().any(inside) {
            return Outcome::Hit;
        }
        let stale = *version != table.ranges_version(at.asid) && table.range(at.asid, at.vpn).is_some();
        let outcome = self.paged(at, pte, table);
        if stale && outcome != Outcome::Hit {
            self.registers = None;
        }
        outcome
    }

    fn paged(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        self.now += 1;
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Behind::Ranges { order: RangeOrder::First, on: true, mru, .. } = self.config.behind
            && let Some(found) = self.search_ranges(at, mru)
        {
            assert_eq!(found, page);
            return Outcome::Hit;
        }
        if let Behind::Runs { first: true, .. } = self.config.behind
            && let Some((found, _)) = self.search_rows(at)
        {
            assert_eq!(found, page);
            return Outcome::Hit;
        }
        self.now += 1;
        let (side, now) = (usize::from(at.kind == Kind::Fetch), self.now);
        if let Some(e) = self.l1[side].entry(at.asid, at.vpn) {
            e.last = now;
            assert_eq!(e.says(at.vpn), page);
            return Outcome::Hit;
        }
        let (outcome, order) = match self.behind(at, pte) {
            Some((found, order)) => {
                assert_eq!(found, page);
                (Outcome::Hit, order)
            }
            None => {
                let c = &mut self.counts;
                c.misses += 1;
                c.tag_misses += 1;
                c.fills += 1;
                c.superpage_misses += u64::from(pte.order > 0);
                *(match at.kind {
                    Kind::Fetch => &mut c.fetch_misses,
                    Kind::Load => &mut c.load_misses,
                    Kind::Store => &mut c.store_misses,
                }) += 1;
                c.data_misses = c.load_misses + c.store_misses;
                self.walk(at, leaf(pte.order));
                let order = self.coalesced(at, pte, table);
                self.counts.preloaded += (1 << order) - (1 << pte.order);
                self.fill_behind(at, page, order, table);
                (Outcome::TagMiss, order)
            }
        };
        self.now += 1;
        let fit = self.l1[side].sizes().into_iter().filter(|&o| o <= order).max().unwrap();
        let (covered, evicted) = self.l1[side].fill(at, page, fit, self.now);
        self.counts.covered_drops += covered;
        if self.clusters.is_none() && self.rows.is_empty() && self.second(at.kind).is_none() {
            self.counts.evictions += evicted;
        }
        outcome
    }

    fn drop_ranges(&mut self, goes: impl Fn(&Held) -> bool) -> u64 {
        let Some(ranges) = &mut self.ranges else { return 0 };
        let gone = ranges.drop_if(goes).len() as u64;
        if self.newest.is_some_and(|i| ranges.slots[i].is_none()) {
            self.newest = None;
        }
        gone
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, from: u8) {
        let meets = |r: &Range| r.first.0 < pages.start.0 + pages.pages && pages.start.0 < r.first.0 + r.pages;
        if self.registers.as_ref().is_some_and(|r| r.0 == asid && r.2.iter().any(meets)) {
            self.registers = None;
        }
        let c = &mut self.counts.invalidations;
        for level in self.l1.iter_mut().chain(&mut self.l2).chain(&mut self.l2i) {
            *c += level.drop_if(|e| e.order >= from && e.meets(asid, pages));
        }
        if let Some(clusters) = self.clusters.as_mut().filter(|_| from == 0) {
            for slot in &mut clusters.slots {
                let Some(cluster) = slot.as_mut().filter(|c| c.asid == asid) else { continue };
                for i in 0..8 {
                    if i < self.cluster.0
                        && pages.contains(Vpn(cluster.number * self.cluster.0 + i))
                        && cluster.pages[i as usize].take().is_some()
                    {
                        *c += 1;
                    }
                }
                if cluster.pages == [None; 8] {
                    *slot = None;
                }
            }
        }
        self.drop_rows(|r| r.meets(asid, pages) && (from == 0 || r.superpage.is_some()));
        self.counts.range.invalidations += self.drop_ranges(|h| h.meets(asid, pages.start.0, pages.pages));
        self.caches.iter_mut().for_each(|cache| _ = cache.drop_if(|p| p.0 == asid));
    }

    pub fn invalidate(&mut self, asid: Asid, pages: VpnRange) {
        self.drop_pages(asid, pages, 0);
    }

    pub fn demote(&mut self, asid: Asid, pages: VpnRange) {
        self.drop_pages(asid, pages, 1);
    }

    fn drop_spaces(&mut self, goes: impl Fn(Asid) -> bool) {
        let c = &mut self.counts.invalidations;
        for level in self.l1.iter_mut().chain(&mut self.l2).chain(&mut self.l2i) {
            *c += level.drop_if(|e| goes(e.asid));
        }
        if let Some(clusters) = &mut self.clusters {
            *c += clusters.drop_if(|c| goes(c.asid)).iter().map(|c| c.pages.iter().flatten().count() as u64).sum::<u64>();
        }
        self.drop_rows(|r| goes(r.asid));
        self.counts.range.invalidations += self.drop_ranges(|h| goes(h.asid));
        self.caches.iter_mut().for_each(|cache| _ = cache.drop_if(|p| goes(p.0)));
    }

    pub fn drop_space(&mut self, asid: Asid) {
        self.registers = self.registers.take().filter(|r| r.0 != asid);
        self.drop_spaces(|a| a == asid);
    }

    pub fn switch(&mut self, to: Asid) {
        if !self.config.process_ids {
            self.drop_spaces(|a| a != to);
        }
    }

    pub fn counts(&self) -> &TlbCounts {
        &self.counts
    }

    /// What the entries that answer this kind say, without the segment.
    pub fn says(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let side = usize::from(kind == Kind::Fetch);
        let second = if side == 1 && self.config.l2i.is_some() { &self.l2i } else { &self.l2 };
        let cluster = || {
            let all = self.clusters.as_ref()?.slots.iter().flatten();
            { all }
                .filter(|c| c.asid == asid && c.number == vpn.0 / self.cluster.0)
                .find_map(|c| c.pages[(vpn.0 % self.cluster.0) as usize].map(|pfn| Translation { pfn: Pfn(pfn), attr: c.attr }))
        };
        let range = || self.ranges.as_ref()?.slots.iter().flatten().find(|h| h.has(asid, vpn)).map(|h| h.says(vpn));
        let paged = || second.as_ref().and_then(|level| level.says(asid, vpn));
        let row = || self.rows.iter().flatten().filter(|r| r.asid == asid).find_map(|r| r.says(vpn)).map(|(page, _)| page);
        self.l1[side].says(asid, vpn).or_else(paged).or_else(cluster).or_else(range).or_else(row)
    }

    pub fn views(&self) -> Vec<EntryView> {
        let (mut out, mut before) = (Vec::new(), 0);
        for level in self.l1.iter().chain(&self.l2).chain(&self.l2i) {
            level.views(before, &mut out);
            before += level.len();
        }
        if let Some(clusters) = &self.clusters {
            out.extend(clusters.slots.iter().enumerate().filter_map(|(i, c)| {
                let c = c.as_ref()?;
                let page = |i: usize| c.pages[i].map(|pfn| (i as u64, Translation { pfn: Pfn(pfn), attr: c.attr }, false));
                let (base, pages) = (Vpn(c.number * self.cluster.0), (0..8).filter_map(page).collect());
                let order = self.cluster.0.trailing_zeros() as u8;
                Some(EntryView { slot: before + i, asid: c.asid, base, order, pages, sb_enabled: None, used: None })
            }));
        }
        out.extend(self.rows.iter().enumerate().filter_map(|(i, r)| {
            let r = r.as_ref()?;
            let (first, n) = match r.superpage {
                Some((first, _, order)) => (first, 1 << order),
                None => (*r.pages.first_key_value()?.0, r.pages.len() as u64),
            };
            let page = |i: u64| (i, r.says(Vpn(first + i)).unwrap().0, false);
            let pages = if r.superpage.is_some() { vec![page(0)] } else { vec![page(0), page(n - 1)] };
            let order = (0..).find(|&o| 1u64 << o >= n)?;
            Some(EntryView { slot: before + i, asid: r.asid, base: Vpn(first), order, pages, sb_enabled: None, used: None })
        }));
        if let Some(ranges) = &self.ranges {
            out.extend(ranges.slots.iter().enumerate().filter_map(|(i, h)| {
                let h = h.as_ref()?;
                let Range { first, pages, .. } = h.range;
                let page = |i: u64| (i, h.says(Vpn(first.0 + i)), false);
                let ends = if pages == 1 { vec![page(0)] } else { vec![page(0), page(pages - 1)] };
                let order = (0..).find(|&o| 1u64 << o >= pages)?;
                Some(EntryView {
                    slot: before + i,
                    asid: h.asid,
                    base: first,
                    order,
                    pages: ends,
                    sb_enabled: None,
                    used: None,
                })
            }));
        }
        out
    }
}
