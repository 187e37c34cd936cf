//! The hashed page table of PowerPC (HB): one for the machine, in groups of eight entries. An entry lies in the group
//! of its first hash or of its second. What is in neither is put in again by software.

use super::memory::{LINE, OWN, WRITES, counted, took};
use super::{ListedTable, Mapping, PART, Places, Reads, Table, TableLaw};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// HB-6.
pub const HTAB_GROUPS: Key = Key {
    name: "htab_groups",
    default: "65536",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 26 },
    about: "table = htab: groups of eight entries; half the frames of memory at least, so the default is for 512 MB",
};
/// HB-1.
pub const HTAB_PTE: Key = Key {
    name: "htab_pte",
    default: "8",
    allowed: Allowed::PowerOfTwo { min: 8, max: 16 },
    about: "table = htab: bytes of an entry; with 16 a group is two lines",
};
/// HB-5.
pub const RELOAD_CYCLES: Key = Key {
    name: "reload_cycles",
    default: "200",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "table = htab: cycles in which software puts a mapped page into the table that a walk did not find there",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "htab",
    about: "one hash table for the machine, in groups of eight entries, refilled by software (HB, PowerPC)",
    keys: &[&HTAB_GROUPS, &HTAB_PTE, &RELOAD_CYCLES],
    counters: counted! {
        moves: "none here",
        collisions: "none here",
        Counter::new("found_primary", "walks that found the page in the group of the first hash"),
        Counter::new("found_secondary", "walks that found it in the group of the second"),
        Counter {
            name: "reloads",
            about: "walks that found it in neither, so that software put it in",
            price: Some(&RELOAD_CYCLES),
        },
        Counter::new("spills", "entries that were overwritten because both groups were full"),
    },
    laws: &[TableLaw {
        name: "HB-5: walks are found in the first group, in the second, or reloaded",
        sides: |part, walks| {
            let found = part.counters.get("found_primary") + part.counters.get("found_secondary");
            (walks, found + part.counters.get("reloads"))
        },
    }],
    build: |params, _| Ok(Box::new(Htab::new(params))),
    ..ListedTable::NEW
};

const FOUND_PRIMARY: usize = OWN;
const FOUND_SECONDARY: usize = OWN + 1;
const RELOADS: usize = OWN + 2;
const SPILLS: usize = OWN + 3;

/// Entries of a group.
const GROUP: usize = 8;

/// The page of an entry.
type Page = (Asid, Vpn);

/// See the module.
struct Htab {
    base: u64,
    /// Group by group.
    entries: Vec<Option<Page>>,
    groups: usize,
    /// Bytes of an entry.
    pte: u64,
    /// The slot that is overwritten next (HB-4).
    next: usize,
    /// Whether its memory was counted.
    counted: bool,
}

impl Htab {
    fn new(params: &Params) -> Htab {
        let (groups, pte) = (params.int(HTAB_GROUPS.name) as usize, params.int(HTAB_PTE.name));
        let bytes = (groups * GROUP) as u64 * pte;
        Htab {
            base: Places::of(params).take(bytes, LINE),
            entries: vec![None; groups * GROUP],
            groups,
            pte,
            next: 0,
            counted: false,
        }
    }

    /// The groups that may hold a page (HB-2).
    fn groups(&self, (asid, vpn): Page) -> [usize; 2] {
        let segment = (u64::from(asid.0) << 36).wrapping_add(vpn.0 >> 16);
        let hash = segment & ((1 << 39) - 1) ^ vpn.0 & 0xffff;
        [hash, !hash].map(|hash| hash as usize & (self.groups - 1))
    }

    /// Where the entry of a page is: first or second group, and the slot among all.
    fn find(&self, page: Page) -> Option<(usize, usize)> {
        let in_group = |group: usize| (group * GROUP..(group + 1) * GROUP).find(|&at| self.entries[at] == Some(page));
        let groups = self.groups(page).into_iter().enumerate();
        { groups }.find_map(|(which, group)| Some((which, in_group(group)?)))
    }

    /// Puts in a page that is not there (HB-4). Returns whether it overwrote another.
    fn insert(&mut self, page: Page) -> bool {
        let groups = self.groups(page);
        let slots = |group: usize| group * GROUP..(group + 1) * GROUP;
        let free = groups.into_iter().flat_map(slots).find(|&at| self.entries[at].is_none());
        let at = free.unwrap_or_else(|| {
            let slot = self.next % GROUP;
            self.next += 1;
            groups[0] * GROUP + slot
        });
        self.entries[at] = Some(page);
        free.is_none()
    }
}

impl Table for Htab {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        if !std::mem::replace(&mut self.counted, true) {
            took(own, self.entries.len() as u64 * self.pte);
        }
        // Of superpages, pages are put in when a walk asks for them (HB-6).
        if mapping.order == 0 {
            *own.at(WRITES) += 1;
            *own.at(SPILLS) += u64::from(self.insert((mapping.asid, mapping.vpn)));
        }
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        for page in 0..1 << mapping.order {
            if let Some((_, at)) = self.find((mapping.asid, Vpn(mapping.vpn.0 + page))) {
                self.entries[at] = None;
                *own.at(WRITES) += 1;
            }
        }
    }

    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        let page = (asid, vpn);
        let found = self.find(page);
        let lines = GROUP as u64 * self.pte / LINE;
        // HB-3: line by line, up to the one with the entry.
        'search: for (which, group) in self.groups(page).into_iter().enumerate() {
            for line in 0..lines {
                let byte = group as u64 * lines * LINE + line * LINE;
                reads.step(&[self.base + byte]);
                if found.is_some_and(|(of, at)| of == which && at as u64 * self.pte / LINE * LINE == byte) {
                    break 'search;
                }
            }
        }
        match found {
            Some((which, _)) => reads.count([FOUND_PRIMARY, FOUND_SECONDARY][which], 1),
            // Walks in the background call no software (HW-10).
            None if !reads.is_demand() => reads.fails(),
            None => {
                debug_assert!(mapping.is_some(), "{PART}: a walk for a page that is not mapped");
                reads.count(RELOADS, 1);
                reads.count(WRITES, 1);
                let spilled = self.insert(page);
                reads.count(SPILLS, u64::from(spilled));
            }
        }
        debug_assert!(found.is_none() || mapping.is_some(), "XC-3: {asid:?} {vpn:?} is found, and is not mapped");
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        if self.counted { self.entries.len() as u64 * self.pte } else { 0 }
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let all: Vec<Mapping> = mappings.collect();
        let covers = |mapping: &Mapping, (asid, vpn): Page| {
            mapping.asid == asid && mapping.vpn == vpn.align_down(mapping.order.into())
        };
        for (at, page) in self.entries.iter().enumerate() {
            let Some(page) = *page else { continue };
            assert!(self.groups(page).contains(&(at / GROUP)), "{page:?} lies in a group that is not its own");
            assert_eq!(self.find(page).map(|(_, at)| at), Some(at), "{page:?} is there twice");
            assert!(all.iter().any(|mapping| covers(mapping, page)), "{page:?} is not mapped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use farreach_types::addr::Asid;
    use serde_json::json;

    /// The hand-worked case of HB-6, with HB-5.
    #[test]
    fn the_ninth_page_of_a_group_overwrites_the_first() {
        let mut bench = Bench::new(json!({"table": "htab", "htab_groups": 1}));
        for page in 0..9 {
            bench.map(0, page, 0);
            assert_eq!(bench.walk(0, page).references, 1, "HB-3");
        }
        assert_eq!(bench.count("spills"), 1);
        let walked = bench.walk(0, 0);
        assert_eq!((walked.references, walked.steps, bench.count("reloads")), (2, 2, 1));
        assert_eq!(bench.walk(0, 0).references, 1);
        assert_eq!(bench.walk(0, 1).references, 2, "HB-4: the reload of 0 took the next slot");
        assert_eq!(bench.count("found_primary") + bench.count("reloads"), 12);
        assert_eq!(bench.count("table_bytes"), 64);
    }

    /// HB-1, HB-3: an entry of 16 bytes is in the first line of its group or in the second.
    #[test]
    fn larger_entries_need_more_lines() {
        let mut bench = Bench::new(json!({"table": "htab", "htab_groups": 2, "htab_pte": 16}));
        // All have an even hash: group 0, then group 1.
        (0..12).for_each(|page| bench.map(0, page * 2, 0));
        let references: Vec<u64> = (0..12).map(|page| bench.walk(0, page * 2).references).collect();
        assert_eq!(references, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!((bench.count("found_primary"), bench.count("found_secondary")), (8, 4));
        assert_eq!(bench.count("table_bytes"), 256);
        assert_eq!(bench.ahead(0, 1024), 4, "a page that is not mapped");
    }

    /// HB-6: a superpage is put in page by page, and goes as a whole. HB-2: the hash ignores most of the process.
    #[test]
    fn superpages_are_reloaded() {
        let mut bench = Bench::new(json!({"table": "htab", "htab_groups": 16}));
        bench.map(1, 512, 9);
        for page in [512, 700, 512] {
            bench.walk(1, page);
        }
        assert_eq!((bench.count("reloads"), bench.count("found_primary")), (2, 1));
        assert_eq!(bench.ahead(1, 513), 2, "HW-10: the background calls no software");
        assert_eq!(bench.count("reloads"), 2);
        bench.unmap(1, 512, 9);
        assert_eq!(bench.ahead(1, 700), 2);
        let table = super::Htab::new(&bench.params);
        let groups = |asid| table.groups((Asid(asid), farreach_types::addr::Vpn(0x12345)));
        assert_eq!(groups(0), groups(7), "the process is above the bits that choose a group");
        assert_eq!(groups(0), [(1 ^ 0x2345) & 15, !(1 ^ 0x2345) & 15]);
    }
}
