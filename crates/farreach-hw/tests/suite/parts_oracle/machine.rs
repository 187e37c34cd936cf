//! Machines with a part and without.

use super::*;

/// Keys of the TLBs: the slots of data, fetch, and second level are counted from the left.
const LEVELS: [[(&str, &str); 3]; 3] = [
    [("l1d", "4K:2+2M:1+1G:1"), ("l1i", "4K:2+2M:1"), ("l2", "4K|2M|1G:4")],
    [("l1d", "4K:4/2+2M:2+1G:1"), ("l1i", "4K:2+2M:1"), ("l2", "4K|2M|1G:16/4")],
    [("l1d", "4K:1+2M:1"), ("l1i", "4K:1"), ("l2", "4K|2M:8/2+1G:1")],
];
/// Slots of the first level, on each side, and of the second.
const SLOTS: [[usize; 3]; 3] = [[4, 3, 4], [7, 3, 16], [2, 1, 9]];

/// A configuration of a machine with a part.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub levels: usize,
    pub process_ids: bool,
    /// Of page-directory, pointer and PML4 entries.
    pub walk_caches: [usize; 3],
    /// Name in the counts, and its keys.
    pub part: &'static str,
    pub keys: Vec<(&'static str, String)>,
    pub lookups: u64,
    /// Whether there are pages of 1 GB.
    pub giants: bool,
    /// Of the system (UTO-1): then superpages are not split.
    pub restsegs: Vec<RestSeg>,
}

impl Setting {
    pub fn new(dice: &mut Dice, part: &'static str, keys: Vec<(&'static str, String)>) -> Setting {
        Setting {
            levels: dice.below(3) as usize,
            process_ids: dice.percent(60),
            walk_caches: dice.pick(&[[0, 0, 0], [0, 0, 0], [3, 2, 1], [2, 0, 1], [0, 2, 0]]),
            part,
            keys,
            lookups: 60 + dice.below(120),
            giants: true,
            restsegs: Vec::new(),
        }
    }

    /// With the part or without.
    fn given(&self, with: bool) -> Map<String, Value> {
        let caches = ["pwc_pd", "pwc_pdpt", "pwc_pml4"].into_iter().zip(self.walk_caches.map(|n| n.to_string()));
        let ids = ("process_ids", self.process_ids.to_string());
        let levels = LEVELS[self.levels].map(|(key, value)| (key, value.to_owned()));
        let lru = ("replacement", "lru".to_owned());
        let own = self.keys.iter().filter(|&_| with).cloned();
        let all = levels.into_iter().chain([ids, lru]).chain(caches).chain(own);
        all.map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
    }
}

/// A hierarchy, with its caches where it has some.
pub(super) struct Machine {
    pub tlb: Box<dyn Tlb>,
    caches: Option<Box<Levels>>,
    unfiltered: Unfiltered,
    slots: [usize; 3],
}

impl Machine {
    pub fn new(setting: &Setting, with: bool) -> Machine {
        let (given, design) = (setting.given(with), design("hierarchy").unwrap());
        let params = Params::resolve(&keys_of(design, &given), &given).unwrap_or_else(|e| panic!("{given:?}: {e}"));
        let mut tlb = (design.build)(&params).unwrap_or_else(|e| panic!("{given:?}: {e}"));
        let caches = tlb.port().map(|_| Box::new(Levels::new(&params).unwrap()));
        Machine { tlb, caches, unfiltered: Unfiltered::default(), slots: SLOTS[setting.levels] }
    }

    fn exchange(&mut self) {
        if let Some(caches) = &mut self.caches {
            self.tlb.port().unwrap().exchange(caches);
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered) -> R) -> R {
        self.exchange();
        let result = act(&mut *self.tlb, &mut self.unfiltered);
        self.tlb.lost_lines();
        self.exchange();
        self.unfiltered.clear();
        result
    }

    /// Whether the TLBs or the part answered.
    pub fn look(&mut self, look: &Look, world: &World) -> bool {
        self.tlb.latest_fetch(look.pc);
        self.tlb.position(look.position);
        let answer = self.with(|tlb, unfiltered| tlb.access(look.at, look.pte, world, unfiltered));
        if let Some(caches) = &mut self.caches {
            caches.reference(usize::from(!look.fetch()), data_line(look), false);
            self.with(|_, _| ());
        }
        answer.outcome == Outcome::Hit
    }

    pub fn tell(&mut self, step: &Step, world: &World) {
        self.with(|tlb, unfiltered| match *step {
            Step::Look(_) => {}
            Step::Change(asid, pages) => {
                tlb.invalidate(Asid(asid), pages, unfiltered);
                tlb.unmapped(Asid(asid), pages, world);
            }
            Step::Split(asid, pages) => {
                tlb.demote(Asid(asid), pages, unfiltered);
                tlb.mapped(Asid(asid), pages, world);
            }
            Step::Mapped(asid, pages) => tlb.mapped(Asid(asid), pages, world),
            Step::Gone(asid) => tlb.invalidate_space(Asid(asid), unfiltered),
            Step::Switch(to) => tlb.switch(Asid(to), unfiltered),
        });
    }

    pub fn levels(&self) -> Vec<EntryView> {
        self.tlb.entries_in(0..self.slots.iter().sum())
    }

    pub fn second(&self) -> Vec<EntryView> {
        let first = self.slots[0] + self.slots[1];
        self.tlb.entries_in(first..first + self.slots[2])
    }

    /// Entries of the part.
    pub fn behind(&self) -> Vec<(u32, u64, u8, u64)> {
        let all = self.tlb.entries_in(self.slots.iter().sum()..usize::MAX);
        all.iter().map(|e| (e.asid.0, e.base.0, e.order, e.pages[0].1.pfn.0)).collect()
    }

    /// Whether the first level of a side, or the second level, holds the page.
    pub fn holds(&self, level: usize, asid: u32, vpn: u64) -> bool {
        let first: usize = self.slots[..level].iter().sum();
        let views = self.tlb.entries_in(first..first + self.slots[level]);
        views.iter().any(|e| e.asid.0 == asid && vpn.wrapping_sub(e.base.0) < 1 << e.order)
    }
}

/// The line of data that a lookup's instruction reads or is.
pub(super) fn data_line(look: &Look) -> u64 {
    (look.pte.pfn.0 << 6) | (look.vpn() % 64)
}
