//! The TLB lines that are in the second-level cache, and what they translate (VIC-1).

use crate::cache::PART;
use crate::tlb::contract::EntryView;
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{PageTableView, Translation};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Translations in a line.
pub(super) const WIDTH: usize = 8;

/// Bits of the number of a line that choose its set, at most; above them is its slot.
const SET_BITS: u32 = 26;

/// What a line is of: a process, the level of the leaves (0: base pages, 1: 2 MB), and `page div 8`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Name {
    pub asid: Asid,
    pub level: u8,
    group: u64,
}

impl Name {
    /// That of the line with this page.
    pub fn of(asid: Asid, vpn: Vpn, level: u8) -> Name {
        Name { asid, level, group: vpn.0 >> (RADIX * level) >> WIDTH.ilog2() }
    }

    /// The first base page.
    pub fn first(self) -> Vpn {
        Vpn(self.group << WIDTH.ilog2() << (RADIX * self.level))
    }

    /// The translations of the line in memory: those of leaves of this level (VIC-3).
    pub fn translations(self, table: &dyn PageTableView) -> Translations {
        std::array::from_fn(|i| {
            let page = Vpn(self.first().0 + ((i as u64) << (RADIX * self.level)));
            let pte = table.pte(self.asid, page).filter(|pte| leaf_level(pte.order, RADIX) == self.level)?;
            Some(Translation { pfn: pte.pfn, attr: pte.attr })
        })
    }

    /// Which translation of the line is that of this page.
    fn place(self, vpn: Vpn) -> usize {
        (vpn.0 >> (RADIX * self.level)) as usize % WIDTH
    }
}

/// Those that are valid, of the first base page of each page.
pub(super) type Translations = [Option<Translation>; WIDTH];

/// See the module.
pub(super) struct Lines {
    slots: HashMap<Name, u32, FixedState>,
    /// By slot.
    lines: Vec<Option<(Name, Translations)>>,
    free: Vec<u32>,
    /// Lines that the cache can hold.
    most: usize,
}

impl Lines {
    pub fn new(most: usize) -> Lines {
        // While one enters, the one that leaves for it is still known.
        let free = (0..=most as u32).rev().collect();
        Lines { slots: HashMap::default(), lines: vec![None; most + 1], free, most }
    }

    /// Lines that it can hold, counted by slots.
    pub fn most(&self) -> usize {
        self.most + 1
    }

    /// The number, in the cache, of the line in a slot.
    pub fn number_of(&self, slot: u32) -> u64 {
        let (name, _) = self.lines[slot as usize].as_ref().expect("a slot in use");
        PART | u64::from(slot) << SET_BITS | name.group & ((1 << SET_BITS) - 1)
    }

    /// The number of a line, if it is there.
    pub fn number(&self, name: Name) -> Option<u64> {
        self.slots.get(&name).map(|&slot| self.number_of(slot))
    }

    /// The translation of a page, and the number of its line; base pages first.
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<(u64, Translation)> {
        [0, 1].into_iter().find_map(|level| {
            let name = Name::of(asid, vpn, level);
            let &slot = self.slots.get(&name)?;
            let found = self.lines[slot as usize].as_ref()?.1[name.place(vpn)]?;
            let pfn = Pfn(found.pfn.0 + vpn.offset_in((RADIX * level).into()));
            Some((self.number_of(slot), Translation { pfn, ..found }))
        })
    }

    /// Adds a line that is not there. Returns its number.
    pub fn add(&mut self, name: Name, pages: Translations) -> u64 {
        let slot = self.free.pop().expect("the cache holds no more lines than there are slots");
        self.lines[slot as usize] = Some((name, pages));
        self.slots.insert(name, slot);
        self.number_of(slot)
    }

    /// What a line that is there translates is read again.
    pub fn renew(&mut self, name: Name, pages: Translations) {
        self.lines[self.slots[&name] as usize] = Some((name, pages));
    }

    /// The line of this number left the cache.
    pub fn forget(&mut self, number: u64) {
        let slot = ((number & !PART) >> SET_BITS) as u32;
        let (name, _) = self.lines[slot as usize].take().expect("a slot in use");
        self.slots.remove(&name);
        self.free.push(slot);
    }

    /// Drops the translations of these pages. Returns the slots of lines that have none left.
    pub fn drop_pages(&mut self, asid: Asid, pages: VpnRange) -> Vec<u32> {
        let mut emptied = Vec::new();
        if self.slots.is_empty() || pages.pages == 0 {
            return emptied;
        }
        let last = Vpn(pages.end().0 - 1);
        for level in [0, 1] {
            let [from, to] = [pages.start, last].map(|vpn| Name::of(asid, vpn, level).group);
            if to - from < self.slots.len() as u64 {
                let slots = (from..=to).filter_map(|group| self.slots.get(&Name { asid, level, group }).copied());
                for slot in slots.collect::<Vec<_>>() {
                    self.drop_in(slot, pages, &mut emptied);
                }
            } else {
                for slot in 0..self.lines.len() as u32 {
                    let is_meant = |name: &Name| name.asid == asid && name.level == level;
                    if self.lines[slot as usize].as_ref().is_some_and(|(name, _)| is_meant(name)) {
                        self.drop_in(slot, pages, &mut emptied);
                    }
                }
            }
        }
        emptied
    }

    fn drop_in(&mut self, slot: u32, pages: VpnRange, emptied: &mut Vec<u32>) {
        let Some((name, translations)) = &mut self.lines[slot as usize] else { return };
        let order = RADIX * name.level;
        for (i, page) in translations.iter_mut().enumerate() {
            let own = VpnRange { start: Vpn(name.first().0 + ((i as u64) << order)), pages: 1 << order };
            if own.overlaps(&pages) {
                *page = None;
            }
        }
        if translations.iter().all(Option::is_none) {
            emptied.push(slot);
        }
    }

    /// The slots of the lines of these processes.
    pub fn of(&self, theirs: impl Fn(Asid) -> bool) -> Vec<u32> {
        let slots = (0u32..).zip(&self.lines);
        slots.filter_map(|(slot, line)| line.as_ref().filter(|(name, _)| theirs(name.asid)).map(|_| slot)).collect()
    }

    /// What is valid, a translation each.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        for (slot, (name, pages)) in self.lines.iter().enumerate().filter_map(|(i, line)| Some((i, line.as_ref()?))) {
            let order = RADIX * name.level;
            let valid = pages.iter().enumerate().filter_map(|(i, page)| Some((i, (*page)?)));
            into.extend(valid.map(|(i, page)| EntryView {
                slot: before + slot * WIDTH + i,
                asid: name.asid,
                base: Vpn(name.first().0 + ((i as u64) << order)),
                order,
                pages: vec![(0, page, false)],
                sb_enabled: None,
                used: None,
            }));
        }
    }
}
