//! Page tables of several spaces, their changes, and the references to them.

use super::*;

/// Page tables of several spaces. All have the same regions of `2^order` pages, each laid out when it is first touched.
pub(super) struct World {
    pub(super) table: BTreeMap<(Asid, u64), Pte>,
    pub(super) laid: BTreeSet<(Asid, u64)>,
    pub(super) spaces: Vec<Asid>,
    pub(super) base: u64,
    pub(super) order: u8,
    pub(super) regions: u64,
    /// Orders of superpages that may be in the tables.
    pub(super) orders: Vec<u8>,
    /// In percent: regions that are aligned and uniform.
    pub(super) plain: u64,
    /// In percent, of the others: regions of superpages.
    pub(super) superpages: u64,
}

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.table.get(&(asid, vpn.0)).copied()
    }
}

pub(super) const ATTRS: [u8; 4] =
    [Attr::READ | Attr::WRITE, Attr::READ | Attr::WRITE | 0x80, Attr::READ, Attr::READ | Attr::EXEC];
pub(super) const RWX: u8 = Attr::READ | Attr::WRITE | Attr::EXEC;

impl World {
    pub(super) fn new(c: &TlbConfig, dice: &mut Dice) -> World {
        let k = c.factor.trailing_zeros() as u8;
        let orders: Vec<u8> = match c.kind {
            TlbKind::Single | TlbKind::Skewed => vec![0, 0, 2],
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
            TlbKind::Single | TlbKind::Skewed => 4,
            _ => *orders.iter().max().expect("orders"),
        };
        // More regions than the entries of some size can hold.
        let tag = match c.kind {
            TlbKind::Single | TlbKind::Skewed => 0,
            TlbKind::Superpage => dice.pick(&c.orders),
            TlbKind::Integrated => dice.pick(&c.orders).max(k),
            TlbKind::Complete | TlbKind::Partial => k,
        };
        let sets = c.entries.checked_div(c.ways).unwrap_or(1) as u64;
        let tags = c.entries as u64 + 3 + 2 * sets;
        let few = (tags >> (order - tag)) + 2;
        let regions = dice.pick(&[few, few, few, c.entries as u64 + 3]);
        let base = dice.pick(&[0, 0, 0x7_f000_0000, (1 << 52) - (regions << order)]) >> order << order;
        let spaces =
            dice.pick(&[vec![Asid(0)], vec![Asid(0), Asid(1)], vec![Asid(3), Asid(4095), Asid(0)], vec![Asid(5)]]);
        let (plain, superpages) = (dice.pick(&[0, 0, 30, 90]), dice.pick(&[10, 30, 90]));
        World { table: BTreeMap::new(), laid: BTreeSet::new(), spaces, base, order, regions, orders, plain, superpages }
    }

    pub(super) fn first(&self, region: u64) -> u64 {
        self.base + (region << self.order)
    }

    pub(super) fn pages(&self) -> u64 {
        self.regions << self.order
    }

    /// A frame group as large as a region; few, so that different pages share groups.
    pub(super) fn group(&self, dice: &mut Dice) -> u64 {
        let group = dice.pick(&[0, 1, 2, 3, 1000]) + dice.below(3);
        group << self.order
    }

    pub(super) fn put(&mut self, asid: Asid, v: u64, pfn: u64, attr: u8, order: u8) {
        self.table.insert((asid, v), Pte { pfn: Pfn(pfn), attr: Attr(attr), order });
    }

    /// Lays a region out anew. Its old mappings must have been invalidated.
    pub(super) fn lay(&mut self, dice: &mut Dice, asid: Asid, region: u64) {
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
    pub(super) fn fault(&mut self, dice: &mut Dice, asid: Asid, v: u64) {
        let region = (v - self.base) >> self.order;
        if !self.laid.contains(&(asid, region)) {
            self.lay(dice, asid, region);
        }
        if self.table.contains_key(&(asid, v)) {
            return;
        }
        // Placed to match a neighbour if there is one.
        let first = self.first(region);
        let near = (first..first + (1 << self.order)).find_map(|w| Some((w, *self.table.get(&(asid, w))?)));
        let (pfn, attr) = match near {
            Some((w, pte)) if dice.percent(75) && pte.pfn.0 + v >= w => (pte.pfn.0 + v - w, pte.attr.0),
            _ => (self.group(dice) + (v - first), RWX),
        };
        self.put(asid, v, pfn, attr, 0);
    }

    /// Splits the superpage around `v`.
    pub(super) fn demote(&mut self, asid: Asid, v: u64) -> VpnRange {
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
    pub(super) fn promote(&mut self, asid: Asid, v: u64, order: u8) -> Option<VpnRange> {
        let first = v >> order << order;
        let head = *self.table.get(&(asid, first))?;
        let fits = |(i, w): (u64, u64)| {
            self.table
                .get(&(asid, w))
                .is_some_and(|p| p.pfn.0 == head.pfn.0 + i && p.attr == head.attr && p.order < order)
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

/// Events of the operating system for a design.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Pages(Asid, VpnRange),
    Split(Asid, VpnRange),
    Space(Asid),
    Switch(Asid),
}

pub(super) fn apply_change(tlb: &mut dyn Tlb, applied: Change, unfiltered: &mut Unfiltered) {
    match applied {
        Change::Pages(asid, pages) => tlb.invalidate(asid, pages, unfiltered),
        Change::Split(asid, pages) => tlb.demote(asid, pages, unfiltered),
        Change::Space(asid) => tlb.invalidate_space(asid, unfiltered),
        Change::Switch(to) => tlb.switch(to, unfiltered),
    }
}

/// Changes a page table, at a page in use or anywhere, and returns the events to report (T94-18).
pub(super) fn change(world: &mut World, dice: &mut Dice, in_use: (Asid, u64)) -> Vec<Change> {
    let anywhere = (dice.pick(&world.spaces), world.base + dice.below(world.pages()));
    let (asid, v) = if dice.percent(60) { in_use } else { anywhere };
    let region = (v - world.base) >> world.order;
    let whole = VpnRange { start: Vpn(world.first(region)), pages: 1 << world.order };
    let one = VpnRange::one(Vpn(v));
    let mut applied = Vec::new();
    match dice.below(14) {
        // One page moves, changes its attributes, or is unmapped.
        what @ 0..=4 => {
            let group = world.demote(asid, v);
            match dice.below(3) {
                0 => applied.push(Change::Pages(asid, group)),
                1 => applied.push(Change::Pages(asid, one)),
                _ => applied.extend([Change::Split(asid, group), Change::Pages(asid, one)]),
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
            applied.push(Change::Pages(asid, whole));
            world.lay(dice, asid, region);
        }
        6 | 7 | 12 | 13 => {
            // Any order that the pages allow.
            let (n, from) = (world.orders.len(), dice.below(world.orders.len() as u64) as usize);
            let orders: Vec<u8> = (0..n).map(|i| world.orders[(from + i) % n]).collect();
            let promoted = orders.into_iter().find_map(|order| world.promote(asid, v, order));
            if let Some(pages) = promoted.filter(|_| dice.percent(20)) {
                applied.push(Change::Pages(asid, pages));
            }
        }
        8 => {
            let pages = world.demote(asid, v);
            applied.push(if dice.percent(70) { Change::Split(asid, pages) } else { Change::Pages(asid, pages) });
        }
        // Events without a change: any range, empty, cut, over several regions, everything.
        9 => {
            let pages = dice.pick(&[0, 1, 2, 3, 5, 1 << world.order, 3 << world.order]).min((1 << 52) - v);
            let range = VpnRange { start: Vpn(v), pages };
            applied.push(if dice.percent(70) { Change::Pages(asid, range) } else { Change::Split(asid, range) });
        }
        10 if dice.percent(20) => {
            let everything = VpnRange { start: Vpn(0), pages: 1 << 52 };
            applied.push(if dice.percent(50) {
                Change::Pages(asid, everything)
            } else {
                Change::Split(asid, everything)
            });
        }
        11 if dice.percent(20) => {
            world.table.retain(|(a, _), _| *a != asid);
            world.laid.retain(|(a, _)| *a != asid);
            applied.push(Change::Space(asid));
        }
        _ => applied.push(Change::Pages(asid, one)),
    }
    applied
}

/// The next pages to reference.
pub(super) struct Pattern {
    pub(super) pages: Vec<(Asid, u64)>,
    pub(super) at: usize,
    pub(super) in_order: bool,
}

impl Pattern {
    pub(super) fn new(world: &World, c: &TlbConfig, dice: &mut Dice) -> Pattern {
        let subblocks = !matches!(c.kind, TlbKind::Single | TlbKind::Superpage | TlbKind::Skewed);
        let tag = if subblocks { c.factor.trailing_zeros() as u8 } else { dice.pick(&c.orders) };
        let (n, all) = (1u64 << tag, world.pages());
        let tags = (all >> tag).max(1);
        let space = dice.pick(&world.spaces);
        let mut pages = Vec::new();
        let over = dice.below(4);
        let mut in_order = dice.percent(70);
        match dice.below(7) {
            // One page each of slightly more tags than entries.
            0 | 1 => {
                let (from, offset) = (dice.below(tags), dice.below(n));
                for i in 0..c.entries as u64 + over {
                    pages.push(((from + i) % tags) * n + offset);
                }
            }
            // Slightly more pages in a row than entries.
            2 => {
                let from = dice.below(all);
                pages.extend((0..c.entries as u64 + over).map(|i| (from + i) % all));
            }
            // Slightly more tags of one set than ways.
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

    pub(super) fn next(&mut self, dice: &mut Dice) -> (Asid, u64) {
        self.at = if self.in_order { self.at + 1 } else { dice.below(1 << 20) as usize };
        self.pages[self.at % self.pages.len()]
    }
}

pub(super) fn kind_for(pte: Pte, dice: &mut Dice) -> Kind {
    let mut kinds = vec![Kind::Load];
    if pte.attr.0 & Attr::WRITE != 0 {
        kinds.push(Kind::Store);
    }
    if pte.attr.0 & Attr::EXEC != 0 {
        kinds.push(Kind::Fetch);
    }
    dice.pick(&kinds)
}
