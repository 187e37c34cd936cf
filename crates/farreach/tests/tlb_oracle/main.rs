//! Every TLB design against the plain oracle, through the public contract only: thousands of seeded streams per kind, made to
//! hurt (full sets, sweeps just above capacity, unaligned and mixed regions, superpages of several orders, invalidations,
//! several spaces).
//!
//! Compared: the outcome of every lookup; counts, entries and translations at intervals and at the end. Further: a lookup
//! that a design calls quiet is repeated at once and must change nothing, and a twin of the design that never sees quiet
//! lookups must end up the same (see `Noise`). A failure names the stream (`kind`, seed), the configuration, the first
//! differing step and both sides. To repeat one stream: `FARREACH_ORACLE_SEED=123 cargo test --test tlb_oracle partial`.
//! `FARREACH_ORACLE_STREAMS` sets how many streams run per kind.
//!
//! Whether the streams are cruel enough is tested too: every counter moves, and every deliberate mistake in [`Mutation`] must be
//! found. Covers T94-3 to T94-25, T94-42, AMB-3, 5, 6, 13, 14, 20; CA-15, CA-16, CA-39.

mod oracle;
mod tlb_common;

use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::hw::tlb::{
    Answer, Attr, Design, EntryView, Lookup, Noise, Outcome, PageTableView, Pte, Tlb, Translation, design,
};
use farreach::params::{Allowed, Key, Params};
use oracle::tlb::{Mutation, PlainTlb, Preload, Replacement, SizeLookup, TlbConfig, TlbKind};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, Value as Json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tlb_common::world::{Step, World as Memory, apply};

const KINDS: [(TlbKind, &str); 5] = [
    (TlbKind::Single, "single"),
    (TlbKind::Superpage, "superpage"),
    (TlbKind::Complete, "complete"),
    (TlbKind::Partial, "partial"),
    (TlbKind::Integrated, "integrated"),
];

/// Streams per kind when nothing else is asked for.
const STREAMS: u64 = 1000;

fn name(kind: TlbKind) -> &'static str {
    KINDS.iter().find(|k| k.0 == kind).expect("listed").1
}

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

// ----------------------------------------------------------------------------------------------------- configurations

/// Keys by which a design is asked for what [`TlbConfig`] says. A design that lacks one fails at the end, after the streams.
const COMMON_KEYS: [&str; 6] = ["entries", "ways", "replacement", "seed", "process_ids", "fill_sets_used"];

fn expected_keys(kind: TlbKind) -> Vec<&'static str> {
    let own: &[&str] = match kind {
        TlbKind::Single => &[],
        TlbKind::Superpage => &["sizes", "lookup", "size_entries"],
        TlbKind::Complete => &["factor", "preload", "assisted_check"],
        TlbKind::Partial => &["factor", "preload", "assisted_check", "all_valid"],
        TlbKind::Integrated => &["factor", "preload", "assisted_check", "sizes", "lookup"],
    };
    COMMON_KEYS.iter().chain(own).copied().collect()
}

/// A configuration of this kind; keys the subject does not have keep their plain value.
fn sample(kind: TlbKind, dice: &mut Dice, has: &dyn Fn(&str) -> bool) -> TlbConfig {
    let mut c = TlbConfig::new(kind);
    let fully = [1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 33, 64];
    if has("ways") && dice.percent(50) {
        c.ways = dice.pick(&[1, 2, 2, 4, 4, 8]);
        c.entries = c.ways * dice.pick(&[1, 2, 2, 4, 8, 16]);
    } else {
        c.entries = dice.pick(&fully);
    }
    if has("factor") {
        c.factor = dice.pick(&[1, 2, 4, 4, 4, 8, 8, 16, 16, 64]);
    }
    if has("sizes") && kind == TlbKind::Integrated {
        let k = c.factor.trailing_zeros() as u8;
        c.orders = dice.pick(&[vec![0, k], vec![0, k, k + 1], vec![0, k, k + 3], vec![0, k, k + 1, k + 2, k + 3]]);
        c.orders.dedup();
    } else if has("sizes") {
        c.orders = dice.pick(&[vec![0, 4], vec![0, 2], vec![0, 1, 2, 3, 4], vec![0, 2, 4, 6], vec![0, 3], vec![0]]);
    }
    if has("lookup") && kind == TlbKind::Superpage {
        c.lookup = dice.pick(&[SizeLookup::Probe, SizeLookup::PerSize]);
    }
    if c.lookup == SizeLookup::PerSize && has("size_entries") && dice.percent(50) {
        let unit = c.ways.max(1);
        c.size_entries = c.orders.iter().map(|_| unit * dice.pick(&[1, 2, 4, 8])).collect();
    }
    let policies = [Replacement::UsedBit, Replacement::UsedBit, Replacement::Lru, Replacement::Fifo, Replacement::Random];
    if has("replacement") {
        c.replacement = dice.pick(&policies);
    }
    c.fill_sets_used = !has("fill_sets_used") || dice.percent(70);
    if has("preload") && kind != TlbKind::Single && kind != TlbKind::Superpage {
        c.preload = dice.pick(&[Preload::None, Preload::None, Preload::SameEntry, Preload::Region]);
    }
    c.assisted_check = has("assisted_check") && dice.percent(30);
    c.all_valid = kind != TlbKind::Integrated && has("all_valid") && dice.percent(25);
    if c.all_valid {
        c.preload = Preload::None;
    }
    c.process_ids = !has("process_ids") || dice.percent(75);
    c.seed = if has("seed") { dice.below(1 << 32) } else { 0 };
    c
}

/// What the design is told.
fn params(design: &Design, c: &TlbConfig) -> Result<Params, String> {
    let text = |t: &str| Json::from(t);
    let replacement = match c.replacement {
        Replacement::UsedBit => "used-bit",
        Replacement::Lru => "lru",
        Replacement::Fifo => "fifo",
        Replacement::Random => "random",
    };
    let preload = match c.preload {
        Preload::None => "none",
        Preload::SameEntry => "same-entry",
        Preload::Region => "region",
    };
    let lookup = if c.lookup == SizeLookup::Probe { "probe" } else { "per-size" };
    let mut all = vec![
        ("entries", Json::from(c.entries)),
        ("ways", Json::from(c.ways)),
        ("factor", Json::from(c.factor)),
        ("sizes", Json::from(c.orders.iter().map(|o| 4096u64 << o).collect::<Vec<_>>())),
        ("replacement", text(replacement)),
        ("fill_sets_used", Json::from(c.fill_sets_used)),
        ("preload", text(preload)),
        ("assisted_check", Json::from(c.assisted_check)),
        ("all_valid", Json::from(c.all_valid)),
        ("process_ids", Json::from(c.process_ids)),
        ("seed", Json::from(c.seed)),
    ];
    if !c.size_entries.is_empty() {
        all.push(("size_entries", Json::from(c.size_entries.iter().map(usize::to_string).collect::<Vec<_>>())));
    }
    if c.ways > 0 || c.lookup == SizeLookup::PerSize {
        all.push(("lookup", text(lookup)));
    }
    let mut given = Map::new();
    for (key, value) in all {
        if declares(design, key) {
            given.insert(key.to_owned(), value);
        }
    }
    Params::resolve(design.keys, &given)
}

fn declares(design: &Design, key: &str) -> bool {
    design.keys.iter().any(|k| k.name == key)
}

fn must_have(kind: TlbKind) -> &'static Design {
    design(name(kind)).unwrap_or_else(|| panic!("kind '{}' is not in farreach::hw::tlb::DESIGNS", name(kind)))
}

// -------------------------------------------------------------------------------------------------------- page tables

/// Page tables of several spaces. All have the same regions of `2^order` pages, each laid out when it is first touched.
struct World {
    table: BTreeMap<(Asid, u64), Pte>,
    laid: BTreeSet<(Asid, u64)>,
    spaces: Vec<Asid>,
    base: u64,
    order: u8,
    regions: u64,
    /// Orders of superpages that may stand in the tables.
    orders: Vec<u8>,
    /// In percent: regions that are simply aligned and uniform.
    plain: u64,
    /// In percent, of the others: regions of superpages.
    superpages: u64,
}

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.table.get(&(asid, vpn.0)).copied()
    }
}

const ATTRS: [u8; 4] = [Attr::READ | Attr::WRITE, Attr::READ | Attr::WRITE | 0x80, Attr::READ, Attr::READ | Attr::EXEC];
const RWX: u8 = Attr::READ | Attr::WRITE | Attr::EXEC;

impl World {
    fn new(c: &TlbConfig, dice: &mut Dice) -> World {
        let k = c.factor.trailing_zeros() as u8;
        let orders: Vec<u8> = match c.kind {
            TlbKind::Single => vec![0, 0, 2],
            TlbKind::Superpage => {
                let largest = *c.orders.last().expect("a size");
                let mut o = c.orders.clone();
                o.extend([largest + 1, largest.saturating_sub(1), 0]);
                o
            }
            TlbKind::Complete | TlbKind::Partial => vec![0, 0, 1, k],
            TlbKind::Integrated => vec![0, k.saturating_sub(1), k, k, k + 1, k + 3],
        };
        let order = match c.kind {
            TlbKind::Single => 4,
            _ => *orders.iter().max().expect("orders"),
        };
        // So many regions that the entries of some size do not hold them all.
        let tag = match c.kind {
            TlbKind::Single => 0,
            TlbKind::Superpage => dice.pick(&c.orders),
            TlbKind::Integrated => dice.pick(&c.orders).max(k),
            TlbKind::Complete | TlbKind::Partial => k,
        };
        let sets = c.entries.checked_div(c.ways).unwrap_or(1) as u64;
        let tags = c.entries as u64 + 3 + 2 * sets;
        let few = (tags >> (order - tag)) + 2;
        let regions = dice.pick(&[few, few, few, c.entries as u64 + 3]);
        let base = dice.pick(&[0, 0, 0x7_f000_0000, (1 << 52) - (regions << order)]) >> order << order;
        let spaces = dice.pick(&[vec![Asid(0)], vec![Asid(0), Asid(1)], vec![Asid(3), Asid(4095), Asid(0)], vec![Asid(5)]]);
        let (plain, superpages) = (dice.pick(&[0, 0, 30, 90]), dice.pick(&[10, 30, 90]));
        World { table: BTreeMap::new(), laid: BTreeSet::new(), spaces, base, order, regions, orders, plain, superpages }
    }

    fn first(&self, region: u64) -> u64 {
        self.base + (region << self.order)
    }

    fn pages(&self) -> u64 {
        self.regions << self.order
    }

    /// A frame group as large as a region; few, so that different pages share groups.
    fn group(&self, dice: &mut Dice) -> u64 {
        let group = dice.pick(&[0, 1, 2, 3, 1000]) + dice.below(3);
        group << self.order
    }

    fn put(&mut self, asid: Asid, v: u64, pfn: u64, attr: u8, order: u8) {
        self.table.insert((asid, v), Pte { pfn: Pfn(pfn), attr: Attr(attr), order });
    }

    /// Lays a region out anew. What stood there must have been invalidated.
    fn lay(&mut self, dice: &mut Dice, asid: Asid, region: u64) {
        self.laid.insert((asid, region));
        let (first, n) = (self.first(region), 1u64 << self.order);
        for v in first..first + n {
            self.table.remove(&(asid, v));
        }
        let (home, attr) = (self.group(dice), dice.pick(&[RWX, RWX, ATTRS[0], ATTRS[3]]));
        let other = self.group(dice);
        let style = match () {
            () if dice.percent(self.plain) => 0,
            () if dice.percent(self.superpages) => 7,
            () => dice.pick(&[0, 1, 2, 3, 4, 5, 6, 8, 8]),
        };
        if style == 7 {
            // Superpages of one order, with some blocks of base pages in between.
            let order = dice.pick(&self.orders);
            for block in 0..1u64 << (self.order - order) {
                let frame = self.group(dice) + (dice.below(1 << (self.order - order)) << order);
                let attr = dice.pick(&[attr, attr, ATTRS[1]]);
                let order_here = if dice.percent(80) { order } else { 0 };
                for i in 0..1u64 << order {
                    self.put(asid, first + (block << order) + i, frame + i, attr, order_here);
                }
            }
            return;
        }
        for i in 0..n {
            let v = first + i;
            let (pfn, attr, present) = match style {
                0 => (home + i, attr, true),
                1 => (home + i, dice.pick(&[attr, attr, ATTRS[1], ATTRS[3]]), true),
                2 => (home + i + 1, attr, true),
                3 => (dice.below(1 << 36), attr, true),
                4 => (dice.pick(&[home, other]) + i, attr, true),
                5 => (home + i, attr, dice.percent(80)),
                // A single hole, which a fault may fill in place.
                8 => (home + i, dice.pick(&[attr, attr, ATTRS[1]]), i % 8 != 3),
                _ => {
                    let odd = other + dice.below(n);
                    (
                        dice.pick(&[home + i, home + i, other + i, odd]),
                        dice.pick(&[attr, attr, RWX, ATTRS[2]]),
                        dice.percent(85),
                    )
                }
            };
            if present {
                self.put(asid, v, pfn, attr, 0);
            }
        }
    }

    /// Makes sure the page is mapped, as a page fault would: no invalidation is needed.
    fn fault(&mut self, dice: &mut Dice, asid: Asid, v: u64) {
        let region = (v - self.base) >> self.order;
        if !self.laid.contains(&(asid, region)) {
            self.lay(dice, asid, region);
        }
        if self.table.contains_key(&(asid, v)) {
            return;
        }
        // In place next to a neighbour if there is one.
        let first = self.first(region);
        let near = (first..first + (1 << self.order)).find_map(|w| Some((w, *self.table.get(&(asid, w))?)));
        let (pfn, attr) = match near {
            Some((w, pte)) if dice.percent(75) && pte.pfn.0 + v >= w => (pte.pfn.0 + v - w, pte.attr.0),
            _ => (self.group(dice) + (v - first), RWX),
        };
        self.put(asid, v, pfn, attr, 0);
    }

    /// Splits the superpage around `v`.
    fn demote(&mut self, asid: Asid, v: u64) -> VpnRange {
        let order = self.table.get(&(asid, v)).map_or(0, |p| p.order);
        let first = v >> order << order;
        for w in first..first + (1 << order) {
            if let Some(pte) = self.table.get_mut(&(asid, w)) {
                pte.order = 0;
            }
        }
        VpnRange { start: Vpn(first), pages: 1 << order }
    }

    /// Makes a superpage of base pages that allow it.
    fn promote(&mut self, asid: Asid, v: u64, order: u8) -> Option<VpnRange> {
        let first = v >> order << order;
        let head = *self.table.get(&(asid, first))?;
        let fits = |(i, w): (u64, u64)| {
            self.table.get(&(asid, w)).is_some_and(|p| p.pfn.0 == head.pfn.0 + i && p.attr == head.attr && p.order < order)
        };
        if order > self.order || head.pfn.0 >> order << order != head.pfn.0 {
            return None;
        }
        if !(0..1u64 << order).map(|i| (i, first + i)).all(fits) {
            return None;
        }
        for w in first..first + (1 << order) {
            self.table.get_mut(&(asid, w)).expect("checked").order = order;
        }
        Some(VpnRange { start: Vpn(first), pages: 1 << order })
    }
}

// ------------------------------------------------------------------------------------------------------------- steps

/// What the operating system tells a design.
#[derive(Clone, Copy, Debug)]
enum Told {
    Pages(Asid, VpnRange),
    Split(Asid, VpnRange),
    Space(Asid),
    Switch(Asid),
}

fn tell(tlb: &mut dyn Tlb, told: Told, noise: &mut Noise) {
    match told {
        Told::Pages(asid, pages) => tlb.invalidate(asid, pages, noise),
        Told::Split(asid, pages) => tlb.demote(asid, pages, noise),
        Told::Space(asid) => tlb.invalidate_space(asid, noise),
        Told::Switch(to) => tlb.switch(to, noise),
    }
}

/// Changes a page table, at a page that is in use or anywhere, and says what must be told (T94-18).
fn change(world: &mut World, dice: &mut Dice, in_use: (Asid, u64)) -> Vec<Told> {
    let anywhere = (dice.pick(&world.spaces), world.base + dice.below(world.pages()));
    let (asid, v) = if dice.percent(60) { in_use } else { anywhere };
    let region = (v - world.base) >> world.order;
    let whole = VpnRange { start: Vpn(world.first(region)), pages: 1 << world.order };
    let one = VpnRange::one(Vpn(v));
    let mut told = Vec::new();
    match dice.below(14) {
        // One page moves, changes its attributes, or goes.
        what @ 0..=4 => {
            let group = world.demote(asid, v);
            match dice.below(3) {
                0 => told.push(Told::Pages(asid, group)),
                1 => told.push(Told::Pages(asid, one)),
                _ => told.extend([Told::Split(asid, group), Told::Pages(asid, one)]),
            }
            if let Some(pte) = world.table.remove(&(asid, v)) {
                match what {
                    0 => world.put(asid, v, dice.below(1 << 36), pte.attr.0, 0),
                    1 | 2 => world.put(asid, v, pte.pfn.0, dice.pick(&ATTRS), 0),
                    3 => world.put(asid, v, world.group(dice) + v - world.first(region), pte.attr.0, 0),
                    _ => {}
                }
            }
        }
        // A region is laid out anew.
        5 => {
            told.push(Told::Pages(asid, whole));
            world.lay(dice, asid, region);
        }
        6 | 7 | 12 | 13 => {
            // Any order that the pages allow.
            let (n, from) = (world.orders.len(), dice.below(world.orders.len() as u64) as usize);
            let orders: Vec<u8> = (0..n).map(|i| world.orders[(from + i) % n]).collect();
            let promoted = orders.into_iter().find_map(|order| world.promote(asid, v, order));
            if let Some(pages) = promoted.filter(|_| dice.percent(20)) {
                told.push(Told::Pages(asid, pages));
            }
        }
        8 => {
            let pages = world.demote(asid, v);
            told.push(if dice.percent(70) { Told::Split(asid, pages) } else { Told::Pages(asid, pages) });
        }
        // Nothing changed, told all the same: any range, empty, cut, over several regions, everything.
        9 => {
            let pages = dice.pick(&[0, 1, 2, 3, 5, 1 << world.order, 3 << world.order]).min((1 << 52) - v);
            let range = VpnRange { start: Vpn(v), pages };
            told.push(if dice.percent(70) { Told::Pages(asid, range) } else { Told::Split(asid, range) });
        }
        10 if dice.percent(20) => {
            let everything = VpnRange { start: Vpn(0), pages: 1 << 52 };
            told.push(if dice.percent(50) { Told::Pages(asid, everything) } else { Told::Split(asid, everything) });
        }
        11 if dice.percent(20) => {
            world.table.retain(|(a, _), _| *a != asid);
            world.laid.retain(|(a, _)| *a != asid);
            told.push(Told::Space(asid));
        }
        _ => told.push(Told::Pages(asid, one)),
    }
    told
}

/// Which pages come next.
struct Pattern {
    pages: Vec<(Asid, u64)>,
    at: usize,
    in_order: bool,
}

impl Pattern {
    fn new(world: &World, c: &TlbConfig, dice: &mut Dice) -> Pattern {
        let subblocks = !matches!(c.kind, TlbKind::Single | TlbKind::Superpage);
        let tag = if subblocks { c.factor.trailing_zeros() as u8 } else { dice.pick(&c.orders) };
        let (n, all) = (1u64 << tag, world.pages());
        let tags = (all >> tag).max(1);
        let space = dice.pick(&world.spaces);
        let mut pages = Vec::new();
        let over = dice.below(4);
        let mut in_order = dice.percent(70);
        match dice.below(7) {
            // One page of each of just too many tags.
            0 | 1 => {
                let (from, offset) = (dice.below(tags), dice.below(n));
                for i in 0..c.entries as u64 + over {
                    pages.push(((from + i) % tags) * n + offset);
                }
            }
            // Just too many pages in a row.
            2 => {
                let from = dice.below(all);
                pages.extend((0..c.entries as u64 + over).map(|i| (from + i) % all));
            }
            // Just too many tags of one set.
            3 if c.ways > 0 => {
                let sets = (c.entries / c.ways) as u64;
                let set = dice.below(sets);
                for i in 0..c.ways as u64 + over {
                    pages.push(((set + i * sets) % tags) * n + dice.below(n));
                }
            }
            // Whole tags, one after the other, forwards or backwards.
            4 => {
                let from = dice.below(tags);
                for i in 0..1 + over {
                    pages.extend((0..n.min(64)).map(|j| ((from + i) % tags) * n + j));
                }
                if dice.percent(30) {
                    pages.reverse();
                }
            }
            // A small hot set.
            5 => {
                pages.extend((0..3 + c.entries as u64 / 2).map(|_| dice.below(all)));
                in_order = false;
            }
            // Anywhere.
            _ => {
                pages.extend((0..200).map(|_| dice.below(all)));
            }
        }
        let one_space = dice.percent(60);
        let place = |p: u64| (if one_space { space } else { dice.pick(&world.spaces) }, world.base + p % all);
        Pattern { pages: pages.into_iter().map(place).collect(), at: 0, in_order }
    }

    fn next(&mut self, dice: &mut Dice) -> (Asid, u64) {
        self.at = if self.in_order { self.at + 1 } else { dice.below(1 << 20) as usize };
        self.pages[self.at % self.pages.len()]
    }
}

fn kind_for(pte: Pte, dice: &mut Dice) -> Kind {
    let mut kinds = vec![Kind::Load];
    if pte.attr.0 & Attr::WRITE != 0 {
        kinds.push(Kind::Store);
    }
    if pte.attr.0 & Attr::EXEC != 0 {
        kinds.push(Kind::Fetch);
    }
    dice.pick(&kinds)
}

/// A design that does not see the lookups it called quiet, as the machine runs it.
struct Skipper {
    tlb: Box<dyn Tlb>,
    quiet: BTreeSet<(Asid, u64, Kind)>,
}

impl Skipper {
    fn hear(&mut self, noise: &Noise) {
        self.quiet.retain(|&(asid, v, _)| !noise.names(asid, Vpn(v)));
    }
    fn access(&mut self, at: Lookup, pte: Pte, world: &World) {
        if self.quiet.contains(&(at.asid, at.vpn.0, at.kind)) {
            return;
        }
        let mut noise = Noise::default();
        let answer = self.tlb.access(at, pte, world, &mut noise);
        self.hear(&noise);
        if answer.quiet {
            self.quiet.insert((at.asid, at.vpn.0, at.kind));
            if at.kind == Kind::Store {
                self.quiet.insert((at.asid, at.vpn.0, Kind::Load));
            }
        }
    }
    fn told(&mut self, told: Told) {
        let mut noise = Noise::default();
        tell(self.tlb.as_mut(), told, &mut noise);
        self.hear(&noise);
    }
}

#[test]
fn noise_names_what_it_was_told() {
    let mut noise = Noise::default();
    let named = |noise: &Noise| (0..128).filter(|&v| noise.names(Asid(3), Vpn(v))).collect::<Vec<u64>>();
    assert!(named(&noise).is_empty());
    noise.pages(Asid(3), Vpn(40), 0b101);
    noise.pages(Asid(3), Vpn(64), 1 << 63);
    noise.pages(Asid(0), Vpn(0), u64::MAX);
    assert_eq!(named(&noise), [40, 42, 127]);
    noise.all();
    assert_eq!(named(&noise).len(), 128);
    noise.clear();
    assert!(named(&noise).is_empty());
}

// -------------------------------------------------------------------------------------------------------------- driver

/// Runs one stream; `Err` says where subject and oracle part.
fn drive(c: &TlbConfig, make: &dyn Fn() -> Box<dyn Tlb>, dice: &mut Dice, step: &Cell<u64>) -> Result<TlbCounts, String> {
    let mut world = World::new(c, dice);
    let (mut oracle, mut subject) = (PlainTlb::new(c.clone()), make());
    let mut skipper = Skipper { tlb: make(), quiet: BTreeSet::new() };
    let mut pattern = Pattern::new(&world, c, dice);
    let mut current = None;
    let steps = dice.pick(&[60, 300, 700, 1200]);
    let (changes, phase) = (dice.pick(&[0, 1, 5, 20, 30]), dice.pick(&[20, 100, 400]));
    for i in 0..steps {
        step.set(i);
        if i % phase == phase - 1 {
            pattern = Pattern::new(&world, c, dice);
        }
        let (mut told, mut next) = (Vec::new(), None);
        if dice.percent(changes) {
            let in_use = pattern.next(dice);
            told = change(&mut world, dice, in_use);
            // The neighbours of what changed are of interest.
            let (asid, v) = in_use;
            let region = world.first((v - world.base) >> world.order);
            next = dice.percent(50).then(|| (asid, region + dice.below(1 << world.order)));
        }
        let (asid, v) = next.unwrap_or_else(|| pattern.next(dice));
        if current.is_some_and(|now| now != asid) || dice.percent(1) {
            told.push(Told::Switch(asid));
        }
        current = Some(asid);
        for &t in &told {
            tell(&mut oracle, t, &mut Noise::default());
            tell(subject.as_mut(), t, &mut Noise::default());
            skipper.told(t);
        }
        world.fault(dice, asid, v);
        let pte = world.pte(asid, Vpn(v)).expect("just mapped");
        let at = Lookup { asid, vpn: Vpn(v), kind: kind_for(pte, dice) };
        let before = oracle.views();
        let want = oracle.lookup(at, pte, &world);
        let got = subject.access(at, pte, &world, &mut Noise::default());
        if got.outcome != want {
            return Err(format!(
                "told {told:?}, then {at:?} {pte:?}: oracle {want:?}, got {:?}\nbefore: {before:#?}",
                got.outcome
            ));
        }
        if got.quiet && dice.percent(20) {
            let (entries, counts) = (subject.entries(), subject.counts().clone());
            let again = subject.access(at, pte, &world, &mut Noise::default());
            if again.outcome != Outcome::Hit || subject.entries() != entries || *subject.counts() != counts {
                return Err(format!("{at:?} was called quiet, but a repetition is {again:?} or changes something"));
            }
        }
        skipper.access(at, pte, &world);
        if dice.percent(10) || i + 1 == steps {
            same(&oracle, subject.as_ref(), "design")?;
            same(&oracle, skipper.tlb.as_ref(), "design that skips quiet lookups")?;
        }
        let w = if dice.percent(50) { v } else { world.base + dice.below(world.pages()) };
        let (mine, its) = (oracle.probe(asid, Vpn(w), at.kind), subject.probe(asid, Vpn(w), at.kind));
        if mine != its {
            return Err(format!("told {told:?}, then {at:?}: probe of {w:#x}: oracle {mine:?}, got {its:?}"));
        }
        if let Some(t) = mine {
            let pte = world.pte(asid, Vpn(w)).expect("XC-3: the oracle translates a page that is not mapped");
            assert_eq!((t.pfn, t.attr), (pte.pfn, pte.attr), "XC-3: the oracle is wrong");
        }
    }
    check_sums(oracle.counts(), c);
    Ok(oracle.counts().clone())
}

fn same(oracle: &PlainTlb, subject: &dyn Tlb, who: &str) -> Result<(), String> {
    let (mine, its) = (oracle.views(), subject.entries());
    if mine != its {
        let first = mine.iter().zip(&its).position(|(a, b)| a != b).unwrap_or(mine.len().min(its.len()));
        let (a, b) = (mine.get(first), its.get(first));
        return Err(format!(
            "{who}: entries differ ({} and {}), first the {first}th: oracle {a:#?}, got {b:#?}",
            mine.len(),
            its.len()
        ));
    }
    let numbers = |c: &TlbCounts| serde_json::to_value(TlbCounts { lookups: 0, ..c.clone() }).expect("counts are numbers");
    let (mine, its) = (numbers(oracle.counts()), numbers(subject.counts()));
    let differ: Vec<String> = mine
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(key, n)| its[key.as_str()] != **n)
        .map(|(key, n)| format!("{key}: oracle {n}, got {}", its[key.as_str()]))
        .collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("{who}: counts differ: {}", differ.join("; "))) }
}

/// What must hold whatever the stream.
fn check_sums(n: &TlbCounts, c: &TlbConfig) {
    assert_eq!(n.misses, n.fetch_misses + n.data_misses);
    assert_eq!(n.data_misses, n.load_misses + n.store_misses);
    assert_eq!(n.misses, n.tag_misses + n.subblock_misses);
    assert!(n.merges <= n.misses && n.fills >= n.misses && n.fills - n.misses <= n.preloaded);
    assert!(c.preload != Preload::None || n.fills == n.misses && (c.all_valid || n.preloaded == 0));
    assert!(n.preloaded <= n.extra_pte_reads || c.assisted_check, "what was loaded was read");
    // Entries begun and gone again.
    assert!(n.evictions + n.covered_drops <= n.fills - n.merges);
    let splits = n.split_unaligned + n.split_frames + n.split_attributes;
    assert!(splits <= n.fills - n.merges);
}

/// One stream of a kind; the text says which and where.
fn stream(
    kind: TlbKind,
    seed: u64,
    has: &dyn Fn(&str) -> bool,
    make: &dyn Fn(&TlbConfig) -> Box<dyn Tlb>,
) -> Result<TlbCounts, String> {
    let mut dice = Dice::new(seed);
    let c = sample(kind, &mut dice, has);
    let step = Cell::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| drive(&c, &|| make(&c), &mut dice, &step)));
    let why = match result {
        Ok(Ok(counts)) => return Ok(counts),
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_else(|| "panic".into())
        }
    };
    Err(format!("{} seed {seed} step {}: {why}\n{c:?}", name(kind), step.get()))
}

fn env(key: &str) -> Option<u64> {
    std::env::var(key).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{key} must be a number")))
}

fn compare(kind: TlbKind) {
    compare_with(kind, must_have(kind));
}

fn compare_with(kind: TlbKind, design: &Design) {
    let missing: Vec<&str> = expected_keys(kind).into_iter().filter(|k| !declares(design, k)).collect();
    let make = |c: &TlbConfig| {
        let params = params(design, c).unwrap_or_else(|e| panic!("the design refuses the keys: {e}"));
        (design.build)(&params).unwrap_or_else(|e| panic!("the design refuses to be built: {e}"))
    };
    let seeds = match env("FARREACH_ORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("FARREACH_ORACLE_STREAMS").unwrap_or(STREAMS),
    };
    let total = seeds.end - seeds.start;
    let (mut sum, mut failures) = (TlbCounts::default(), Vec::new());
    for seed in seeds {
        match stream(kind, seed, &|k| declares(design, k), &make) {
            Ok(counts) => sum += &counts,
            Err(why) => failures.push(why),
        }
    }
    let shown: Vec<&str> = failures.iter().take(3).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {total} streams differ. The first:\n\n{}", failures.len(), shown.join("\n\n"));
    assert!(missing.is_empty(), "'{}' has no keys {missing:?}; their values were not compared", name(kind));
    if total >= 100 {
        let still: Vec<&str> = moving(kind, &sum).into_iter().filter(|(_, n)| *n < total / 5).map(|(key, _)| key).collect();
        assert!(still.is_empty(), "{still:?} hardly moved, so they were not compared: {sum:?}");
    }
}

/// The counters that this kind moves.
fn moving(kind: TlbKind, n: &TlbCounts) -> Vec<(&'static str, u64)> {
    let mut all = vec![
        ("fetch_misses", n.fetch_misses),
        ("load_misses", n.load_misses),
        ("store_misses", n.store_misses),
        ("tag_misses", n.tag_misses),
        ("superpage_misses", n.superpage_misses),
        ("fills", n.fills),
        ("evictions", n.evictions),
        ("invalidations", n.invalidations),
    ];
    let subblocks = [
        ("subblock_misses", n.subblock_misses),
        ("merges", n.merges),
        ("preloaded", n.preloaded),
        ("extra_pte_reads", n.extra_pte_reads),
    ];
    let split =
        [("split_unaligned", n.split_unaligned), ("split_frames", n.split_frames), ("split_attributes", n.split_attributes)];
    if !matches!(kind, TlbKind::Single | TlbKind::Superpage) {
        all.extend(subblocks);
    }
    if matches!(kind, TlbKind::Partial | TlbKind::Integrated) {
        all.extend(split);
    }
    if !matches!(kind, TlbKind::Single | TlbKind::Complete) {
        all.push(("covered_drops", n.covered_drops));
    }
    all
}

#[test]
fn single() {
    compare(TlbKind::Single);
}

#[test]
fn superpage() {
    compare(TlbKind::Superpage);
}

#[test]
fn complete() {
    compare(TlbKind::Complete);
}

#[test]
fn partial() {
    compare(TlbKind::Partial);
}

#[test]
fn integrated() {
    compare(TlbKind::Integrated);
}

/// CA-16: which set a page of unknown size belongs to must have been decided by the user.
#[test]
fn mixed_sizes_in_sets_are_refused_without_a_lookup() {
    let design = must_have(TlbKind::Superpage);
    let given = serde_json::json!({"entries": 64, "ways": 4, "sizes": [4096, 65536]});
    let refused = match Params::resolve(design.keys, given.as_object().expect("an object")) {
        Ok(params) => (design.build)(&params).is_err(),
        Err(_) => true,
    };
    assert!(refused, "a 4-way TLB for 4 KB and 64 KB pages was built though no lookup was chosen");
}

/// CA-39: without subblocks and superpages all designs are the single-page-size design.
#[test]
fn ca39_factor_1_is_single() {
    let policies = [
        ("used-bit", Replacement::UsedBit),
        ("lru", Replacement::Lru),
        ("fifo", Replacement::Fifo),
        ("random", Replacement::Random),
    ];
    for (word, replacement) in policies {
        for ways in [0, 4] {
            let mut single = PlainTlb::new(TlbConfig { entries: 32, ways, replacement, ..TlbConfig::new(TlbKind::Single) });
            let common = format!("entries=32,replacement={word},ways={ways}");
            let mut designs = [
                ("single", ""),
                ("superpage", ",sizes=4K"),
                ("complete", ",factor=1"),
                ("complete", ",factor=1,preload=region"),
                ("partial", ",factor=1"),
                ("partial", ",factor=1,preload=region"),
                ("partial", ",factor=1,all_valid=true"),
                ("integrated", ",factor=1,sizes=4K"),
            ]
            .map(|(kind, own)| tlb_common::tlb(kind, &format!("{common}{own}")));
            let mut memory = Memory::new(39);
            let mut noise = Noise::default();
            for _ in 0..20_000 {
                let step: Step = memory.step();
                let want = apply(&step, &mut single, &memory.table, &mut noise);
                for (i, d) in designs.iter_mut().enumerate() {
                    assert_eq!(apply(&step, &mut **d, &memory.table, &mut noise), want, "design {i}, {common}");
                }
                noise.clear();
            }
            let plain =
                |d: &dyn Tlb| -> Vec<_> { d.entries().into_iter().map(|e| EntryView { sb_enabled: None, ..e }).collect() };
            for (i, d) in designs.iter().enumerate() {
                assert_eq!(d.counts(), single.counts(), "design {i}, {common}");
                assert_eq!(plain(&**d), plain(&single), "design {i}, {common}");
            }
        }
    }
}

// ----------------------------------------------------------------------------------------------- the driver itself

/// The oracle equals itself, so a difference is never the driver's doing.
#[test]
fn the_oracle_equals_itself() {
    for (kind, _) in KINDS {
        for seed in 0..300 {
            stream(kind, seed, &|_| true, &|c| Box::new(PlainTlb::new(c.clone()))).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Every deliberate mistake is found, and not by luck: in some kind by at least `ENOUGH` streams.
#[test]
fn mistakes_are_found() {
    const STREAMS_FOR_MISTAKES: u64 = 200;
    const ENOUGH: usize = 3;
    // Most mistakes show in the first, so the others need not be tried.
    const CRUEL_FIRST: [TlbKind; 5] =
        [TlbKind::Partial, TlbKind::Integrated, TlbKind::Superpage, TlbKind::Complete, TlbKind::Single];
    let mut unseen = Vec::new();
    for mutation in Mutation::ALL {
        let mut found = BTreeMap::new();
        for (kind, name) in CRUEL_FIRST.map(|kind| (kind, name(kind))) {
            let make = |c: &TlbConfig| Box::new(PlainTlb::mutant(c.clone(), mutation)) as Box<dyn Tlb>;
            let differ = (0..STREAMS_FOR_MISTAKES).filter(|&seed| stream(kind, seed, &|_| true, &make).is_err());
            let n = differ.take(ENOUGH).count();
            found.insert(name, n);
            if n == ENOUGH {
                break;
            }
        }
        println!("{mutation:?}: {found:?}");
        if found.values().all(|&n| n < ENOUGH) {
            unseen.push((mutation, found));
        }
    }
    assert!(unseen.is_empty(), "streams are not cruel enough for {unseen:?}");
}

/// The oracle dressed as a design: what `params` says arrives as it was meant.
#[test]
fn keys_arrive() {
    const fn key(name: &'static str, default: &'static str, allowed: Allowed) -> Key {
        Key { name, default, allowed, about: "" }
    }
    const ANY: Allowed = Allowed::Int { min: 0, max: u64::MAX };
    const KEYS: &[&Key] = &[
        &key("entries", "64", ANY),
        &key("ways", "0", ANY),
        &key("seed", "0", ANY),
        &key("factor", "16", Allowed::PowerOfTwo { min: 1, max: 64 }),
        &key("replacement", "used-bit", Allowed::OneOf(&["used-bit", "lru", "fifo", "random"])),
        &key("preload", "none", Allowed::OneOf(&["none", "same-entry", "region"])),
        &key("fill_sets_used", "true", Allowed::Flag),
        &key("process_ids", "true", Allowed::Flag),
        &key("assisted_check", "false", Allowed::Flag),
        &key("all_valid", "false", Allowed::Flag),
    ];
    fn build(p: &Params) -> Result<Box<dyn Tlb>, String> {
        let replacement = match p.text("replacement") {
            "used-bit" => Replacement::UsedBit,
            "lru" => Replacement::Lru,
            "fifo" => Replacement::Fifo,
            _ => Replacement::Random,
        };
        let preload = match p.text("preload") {
            "none" => Preload::None,
            "same-entry" => Preload::SameEntry,
            _ => Preload::Region,
        };
        Ok(Box::new(PlainTlb::new(TlbConfig {
            entries: p.int("entries") as usize,
            ways: p.int("ways") as usize,
            factor: p.int("factor"),
            replacement,
            preload,
            fill_sets_used: p.flag("fill_sets_used"),
            process_ids: p.flag("process_ids"),
            assisted_check: p.flag("assisted_check"),
            all_valid: p.flag("all_valid"),
            seed: p.int("seed"),
            ..TlbConfig::new(TlbKind::Partial)
        })))
    }
    let dressed = Design { kind: "partial", about: "", keys: KEYS, build, bits: |_| None, reach: |_| 0 };
    compare_with(TlbKind::Partial, &dressed);
}

/// An oracle that lies about what is quiet.
struct Liar {
    tlb: PlainTlb,
    /// Calls every lookup quiet and names nothing; otherwise calls only misses quiet and names everything always.
    mute: bool,
}

impl Tlb for Liar {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, noise: &mut Noise) -> Answer {
        if !self.mute {
            noise.all();
        }
        let outcome = self.tlb.lookup(at, pte, table);
        Answer { outcome, quiet: self.mute || outcome != Outcome::Hit }
    }
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, noise: &mut Noise) {
        self.tlb.invalidate(asid, pages, noise);
    }
    fn demote(&mut self, asid: Asid, pages: VpnRange, noise: &mut Noise) {
        self.tlb.demote(asid, pages, noise);
    }
    fn invalidate_space(&mut self, asid: Asid, noise: &mut Noise) {
        self.tlb.invalidate_space(asid, noise);
    }
    fn switch(&mut self, to: Asid, noise: &mut Noise) {
        self.tlb.switch(to, noise);
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.tlb.probe(asid, vpn, kind)
    }
    fn entries(&self) -> Vec<EntryView> {
        self.tlb.entries()
    }
    fn counts(&self) -> &TlbCounts {
        self.tlb.counts()
    }
}

#[test]
fn lies_about_quiet_lookups_are_found() {
    for (kind, name) in KINDS {
        for mute in [true, false] {
            let make = |c: &TlbConfig| Box::new(Liar { tlb: PlainTlb::new(c.clone()), mute }) as Box<dyn Tlb>;
            let found = (0..200).filter(|&seed| stream(kind, seed, &|_| true, &make).is_err()).take(3).count();
            assert_eq!(found, 3, "{name}, mute: {mute}");
        }
    }
}
