//! DMT: leaf entries of regions in arrays (TEA), found by registers (DM-1 to DM-5).

use super::book::Book;
use super::radix::{Radix, Shape};
use super::{Found, PlainTable, SIZES};
use std::collections::BTreeMap;

/// Regions that have one TEA.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u64,
    pages: u64,
    /// DM-1: how large it is.
    weight: u64,
    /// Pages of each size; base pages always have an array.
    sizes: [u64; 3],
    /// The first frame of the array of base pages.
    frame: u64,
}

impl Group {
    fn end(&self) -> u64 {
        self.first + self.pages
    }

    fn has(&self, vpn: u64) -> bool {
        self.first <= vpn && vpn < self.end()
    }

    /// Entries of the arrays for this part of the group.
    fn entries(&self, first: u64, end: u64) -> Vec<u64> {
        let arrays = SIZES.into_iter().zip(self.sizes).filter(|array| array.0 == 0 || array.1 > 0);
        arrays.map(|(order, _)| ((end - 1) >> order) - (first >> order) + 1).collect()
    }

    fn frames(&self) -> u64 {
        (8 * self.pages).div_ceil(4096)
    }
}

/// Tables and registers of a machine.
pub struct Dmt {
    registers: usize,
    tree: Radix,
    /// By process: pages, and how large it is, by first page.
    regions: BTreeMap<u32, BTreeMap<u64, (u64, u64)>>,
    /// In ascending order.
    groups: BTreeMap<u32, Vec<Group>>,
    /// The running process, and first pages of the groups in registers.
    loaded: Option<(u32, Vec<u64>)>,
    /// Mappings outside groups, by process and level-1 node (OW-33).
    outside: BTreeMap<(u32, u64), u64>,
    /// The frame behind all TEAs.
    next_frame: u64,
    book: Book,
}

impl Dmt {
    /// Without processes.
    pub fn new(registers: usize, levels: u8) -> Dmt {
        Dmt {
            registers,
            tree: Radix::new(Shape::plain(levels)),
            regions: BTreeMap::new(),
            groups: BTreeMap::new(),
            loaded: None,
            outside: BTreeMap::new(),
            next_frame: 0,
            book: Book::new(&["covered", "conventional"]),
        }
    }

    /// A region begins, or has another number of pages now. Regions do not overlap.
    pub fn region(&mut self, asid: u32, first: u64, pages: u64) {
        self.region_with(asid, first, pages, pages);
    }

    /// As before, with the number of its mapped pages (OW-31).
    pub fn region_with(&mut self, asid: u32, first: u64, pages: u64, mapped: u64) {
        assert!(pages > 0);
        self.regions.entry(asid).or_default().insert(first, (pages, mapped));
        self.regroup(asid);
    }

    /// A region ends.
    pub fn end_region(&mut self, asid: u32, first: u64) {
        self.regions.entry(asid).or_default().remove(&first);
        self.regroup(asid);
    }

    /// DM-5: groups by first page, end, and pages of the regions.
    fn groups_of(&self, asid: u32) -> Vec<(u64, u64, u64)> {
        let mut groups: Vec<(u64, u64, u64)> = Vec::new();
        for (&first, &(pages, weight)) in &self.regions[&asid] {
            match groups.last_mut() {
                Some((_, end, sum)) if 50 * (first - *end) < *sum + weight => {
                    (*end, *sum) = (first + pages, *sum + weight)
                }
                _ => groups.push((first, first + pages, weight)),
            }
        }
        groups
    }

    /// DM-4.
    fn regroup(&mut self, asid: u32) {
        let old = self.groups.remove(&asid).unwrap_or_default();
        let mut new = Vec::new();
        for (first, end, weight) in self.groups_of(asid) {
            let mut group = Group { first, pages: end - first, weight, sizes: [0; 3], frame: 0 };
            let mut in_place = false;
            for held in &old {
                let overlap = (held.first.max(first), held.end().min(end));
                if overlap.0 >= overlap.1 {
                    continue;
                }
                let more = group.frames().saturating_sub(held.frames());
                let last = held.frame + held.frames() == self.next_frame;
                if held.first == first && (more == 0 || last) {
                    in_place = true;
                    group.frame = held.frame;
                    self.next_frame += more;
                } else {
                    self.book.add("moves", held.entries(overlap.0, overlap.1).iter().sum());
                }
            }
            if !in_place {
                group.frame = self.next_frame;
                self.next_frame += group.frames();
            }
            new.push(group);
        }
        self.groups.insert(asid, new);
        self.outside.retain(|key, _| key.0 != asid);
        for (of, vpn, order) in self.tree.pages.all() {
            if of == asid {
                self.note(asid, vpn, order, true);
            }
        }
        if self.loaded.as_ref().is_some_and(|loaded| loaded.0 == asid) {
            self.load(asid);
        }
        self.measure();
    }

    /// A mapping begins or ends: arrays of its size, or nodes outside.
    fn note(&mut self, asid: u32, vpn: u64, order: u8, mapped: bool) {
        let group = self.groups.get_mut(&asid).and_then(|all| all.iter_mut().find(|group| group.has(vpn)));
        match group {
            Some(group) => {
                let n = &mut group.sizes[usize::from(order / 9)];
                *n = if mapped { *n + 1 } else { *n - 1 };
            }
            None if order == 0 => {
                let n = self.outside.entry((asid, vpn / 512)).or_default();
                *n = if mapped { *n + 1 } else { *n - 1 };
                self.outside.retain(|_, n| *n > 0);
            }
            None => {}
        }
    }

    /// OW-30.
    fn load(&mut self, asid: u32) {
        let mut all: Vec<Group> = self.groups.get(&asid).cloned().unwrap_or_default();
        all.sort_by_key(|group| (u64::MAX - group.weight, group.first));
        self.loaded = Some((asid, all.iter().take(self.registers).map(|group| group.first).collect()));
    }

    /// Arrays that a walk of the running process reads, if a register covers the page (DM-2, DM-3).
    fn arrays(&self, asid: u32, vpn: u64) -> Option<u64> {
        let group = self.groups.get(&asid)?.iter().find(|group| group.has(vpn))?;
        let (_, registers) = self.loaded.as_ref().unwrap();
        let larger = group.sizes[1..].iter().filter(|n| **n > 0).count() as u64;
        registers.contains(&group.first).then_some(1 + larger)
    }

    /// The sum of arrays and nodes, and the largest.
    pub fn parts(&self) -> (u64, u64) {
        let arrays = self.groups.values().flatten().flat_map(|group| group.entries(group.first, group.end()));
        let bytes: Vec<u64> = arrays.map(|entries| 8 * entries).collect();
        let (nodes, node) = self.tree.bytes(2);
        let outside = 4096 * self.outside.len() as u64;
        (bytes.iter().sum::<u64>() + nodes + outside, bytes.into_iter().max().unwrap_or(0).max(node))
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.parts();
        self.book.memory(bytes, largest);
    }

    fn runs(&mut self, asid: u32) {
        if self.loaded.as_ref().is_none_or(|loaded| loaded.0 != asid) {
            self.load(asid);
        }
    }
}

impl PlainTable for Dmt {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.tree.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        if self.tree.pages.order(asid, vpn).is_none() {
            self.note(asid, vpn, order, true);
        }
        let writes = self.tree.add(asid, vpn, order);
        self.book.add("table_writes", writes);
        self.measure();
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        let writes = self.tree.take(asid, vpn, order);
        self.note(asid, vpn, order, false);
        self.book.add("table_writes", writes);
        self.measure();
    }

    fn gone(&mut self, asid: u32) {
        self.tree.end(asid);
        self.regions.remove(&asid);
        self.groups.remove(&asid);
        self.outside.retain(|key, _| key.0 != asid);
        self.loaded.take_if(|loaded| loaded.0 == asid);
        self.measure();
    }

    fn switch(&mut self, to: u32) {
        self.load(to);
    }

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let order = self.tree.pages.order(asid, vpn).expect("the page is mapped");
        self.runs(asid);
        if let Some(arrays) = self.arrays(asid, vpn) {
            self.book.add("covered", 1);
            return self.book.walk(arrays, 1);
        }
        self.book.add("conventional", 1);
        let read = self.tree.path(asid, vpn, Some(order)).len() as u64;
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        assert_eq!(self.tree.pages.order(asid, vpn), None);
        self.runs(asid);
        let read = self.arrays(asid, vpn).unwrap_or_else(|| self.tree.path(asid, vpn, None).len() as u64);
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
