//! The page table of one address space: the authority on translations (XC-3). Always seen by base page; a superpage is
//! a mark on the entries of its pages (T94-56), so merging and splitting never change a translation.
//!
//! If the pages of a leaf table lie in consecutive frames and have equal attributes, they share one entry and have a
//! few bits each. So contiguous memory costs next to nothing, touched or not. The leaf becomes a table of entries when
//! one of its pages differs.

pub mod entry;
mod leaf;
mod scan;
mod upper;

use crate::bits;
use entry::Entry;
use farreach_types::addr::{Pfn, Vpn, VpnRange};
use farreach_types::translation::Pte;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use leaf::{Alike, Bits, LEAF, Leaf, count, page_bits};
use upper::Upper;

/// Leaf tables by leading page number; memory grows with what is mapped.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    index: HashMap<u64, u32, FixedState>,
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    upper: Upper,
    present: u64,
}

impl PageTable {
    /// Mapped base pages.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Nodes of a radix tree of four levels with these pages. As Linux does, it keeps the leaf tables of pages that are
    /// parts of a superpage, so that one can be split.
    pub fn nodes(&self) -> u64 {
        (self.index.len() + self.upper.nodes()) as u64
    }

    /// The entry of a page, if it is mapped.
    #[inline]
    pub fn get(&self, vpn: Vpn) -> Option<Entry> {
        let leaf = *self.index.get(&(vpn.0 / LEAF))?;
        let at = (vpn.0 % LEAF) as usize;
        match &self.leaves[leaf as usize] {
            Leaf::Table(entries, _) => Some(entries[at]).filter(|e| e.present),
            Leaf::Run(alike) => alike.get(at),
        }
    }

    /// Changes the entry of a page, if it is mapped; `present` must stay as it is.
    pub fn update<R>(&mut self, vpn: Vpn, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        let leaf = *self.index.get(&(vpn.0 / LEAF))?;
        let at = (vpn.0 % LEAF) as usize;
        let leaf = &mut self.leaves[leaf as usize];
        match leaf {
            Leaf::Table(entries, _) => Some(&mut entries[at]).filter(|e| e.present).map(change),
            Leaf::Run(alike) => {
                let mut entry = alike.get(at)?;
                let result = change(&mut entry);
                let common = entry.common(at as u64);
                if common == alike.common {
                    alike.put(at, &entry);
                } else if count(&alike.present) == 1 {
                    alike.common = common;
                    alike.put(at, &entry);
                } else {
                    *leaf = alike.table();
                    let Leaf::Table(entries, _) = leaf else { unreachable!("it was just made one") };
                    entries[at] = entry;
                }
                Some(result)
            }
        }
    }

    /// The leaf table with this number. A new one is an empty run with this shared entry.
    fn leaf_for(&mut self, number: u64, common: Entry) -> &mut Leaf {
        let leaf = *self.index.entry(number).or_insert_with(|| {
            self.upper.enter(number);
            let empty = Leaf::Run(Box::new(Alike { common, ..Alike::default() }));
            match self.free.pop() {
                Some(slot) => {
                    self.leaves[slot as usize] = empty;
                    slot
                }
                None => {
                    self.leaves.push(empty);
                    self.leaves.len() as u32 - 1
                }
            }
        });
        &mut self.leaves[leaf as usize]
    }

    /// Maps a page that is not mapped.
    pub fn insert(&mut self, vpn: Vpn, entry: Entry) {
        debug_assert!(entry.present && self.get(vpn).is_none(), "page {vpn:?} is mapped already");
        let (at, common) = ((vpn.0 % LEAF) as usize, entry.common(vpn.0 % LEAF));
        let leaf = self.leaf_for(vpn.0 / LEAF, common);
        if let Leaf::Run(alike) = leaf {
            if alike.common == common {
                alike.put(at, &entry);
            } else {
                *leaf = alike.table();
            }
        }
        if let Leaf::Table(entries, present) = leaf {
            entries[at] = entry;
            *present += 1;
        }
        self.present += 1;
    }

    /// Maps unmapped pages to consecutive frames. `entry` is the entry of the first.
    pub fn insert_run(&mut self, pages: VpnRange, entry: Entry) {
        let mut entry = entry;
        for (number, at, n) in bits::groups(pages.start.0, pages.pages, LEAF) {
            let common = entry.common(at);
            match self.leaf_for(number, common) {
                Leaf::Run(alike) if alike.common == common => {
                    let new = page_bits(at, n);
                    debug_assert!(
                        alike.present.iter().zip(&new).all(|(old, new)| old & new == 0),
                        "a page is mapped already"
                    );
                    alike.put_all(&new, &entry);
                    self.present += n;
                }
                _ => (0..n).for_each(|i| {
                    let pfn = Pfn(entry.pfn.0 + i);
                    self.insert(Vpn(number * LEAF + at + i), Entry { pfn, ..entry });
                }),
            }
            entry.pfn.0 += n;
        }
    }

    /// Unmaps a page and returns its entry.
    pub fn remove(&mut self, vpn: Vpn) -> Option<Entry> {
        let entry = self.get(vpn)?;
        self.clear(VpnRange::one(vpn));
        Some(entry)
    }

    /// Unmaps all pages of a range.
    pub fn clear(&mut self, range: VpnRange) {
        for number in self.leaves_in(range) {
            let slot = self.index[&number];
            let part = VpnRange { start: Vpn(number * LEAF), pages: LEAF }.and(range);
            let at = part.start.0 % LEAF;
            let (gone, left) = match &mut self.leaves[slot as usize] {
                Leaf::Table(entries, present) => {
                    let before = *present;
                    for entry in &mut entries[at as usize..(at + part.pages) as usize] {
                        *present -= u32::from(std::mem::take(entry).present);
                    }
                    (u64::from(before - *present), u64::from(*present))
                }
                Leaf::Run(alike) => {
                    let before = count(&alike.present);
                    alike.clear(&page_bits(at, part.pages));
                    let left = count(&alike.present);
                    (before - left, left)
                }
            };
            self.present -= gone;
            if left == 0 {
                // An empty leaf may hold much memory that is of no use.
                self.leaves[slot as usize] = Leaf::Run(Box::default());
                self.index.remove(&number);
                self.upper.leave(number);
                self.free.push(slot);
            }
        }
    }

    /// Whether some page of a range is mapped.
    pub fn any_in(&self, range: VpnRange) -> bool {
        if range.pages / LEAF > self.index.len() as u64 {
            return self
                .leaves_in(range)
                .into_iter()
                .any(|number| self.any_in(VpnRange { start: Vpn(number * LEAF), pages: LEAF }.and(range)));
        }
        bits::groups(range.start.0, range.pages, LEAF).any(|(number, at, n)| {
            let Some(&slot) = self.index.get(&number) else { return false };
            match &self.leaves[slot as usize] {
                _ if n == LEAF => true,
                Leaf::Table(entries, _) => entries[at as usize..(at + n) as usize].iter().any(|e| e.present),
                Leaf::Run(alike) => alike.present.iter().zip(page_bits(at, n)).any(|(have, some)| have & some != 0),
            }
        })
    }

    /// The leaves that have a page in a range, ascending. Cost goes with what is mapped, not with the length of the
    /// range.
    fn leaves_in(&self, range: VpnRange) -> Vec<u64> {
        let (first, last) = (range.start.0 / LEAF, range.end().0.div_ceil(LEAF));
        let mut leaves: Vec<u64> = if last - first <= 2 * self.index.len() as u64 {
            (first..last).filter(|l| self.index.contains_key(l)).collect()
        } else {
            self.index.keys().copied().filter(|l| (first..last).contains(l)).collect()
        };
        leaves.sort_unstable();
        leaves
    }

    /// Gives the mapped pages of a range this order.
    pub fn set_order(&mut self, range: VpnRange, order: u8) {
        for number in self.leaves_in(range) {
            let part = VpnRange { start: Vpn(number * LEAF), pages: LEAF }.and(range);
            match &mut self.leaves[self.index[&number] as usize] {
                Leaf::Run(alike) if part.pages == LEAF => alike.common.order = order,
                _ => part.iter().for_each(|vpn| _ = self.update(vpn, |e| e.order = order)),
            }
        }
    }

    /// Gives the mapped pages of a range another label.
    pub fn set_label(&mut self, range: VpnRange, label: u32) {
        for run in self.runs_in(range).into_iter().filter(|run| run.entry.label != label) {
            let pages = VpnRange { start: run.first, pages: run.pages };
            pages.iter().for_each(|vpn| _ = self.update(vpn, |e| e.label = label));
            self.pack(pages);
        }
    }

    /// Sets the dirty bit of the mapped pages of a range. Returns how many were clean.
    pub fn set_dirty(&mut self, range: VpnRange) -> u64 {
        self.write_bit(range, true, |entry| &mut entry.dirty, |alike| &mut alike.dirty)
    }

    /// Sets or clears the accessed bit of the mapped pages of a range. Returns how many had the other value.
    pub fn set_accessed(&mut self, range: VpnRange, on: bool) -> u64 {
        self.write_bit(range, on, |entry| &mut entry.accessed, |alike| &mut alike.accessed)
    }

    /// Gives a bit of the mapped pages of a range this value. Returns how many had the other one.
    fn write_bit(
        &mut self,
        range: VpnRange,
        on: bool,
        of_entry: impl Fn(&mut Entry) -> &mut bool,
        of_run: impl Fn(&mut Alike) -> &mut Bits,
    ) -> u64 {
        let mut changed = 0;
        for (number, at, n) in bits::groups(range.start.0, range.pages, LEAF) {
            let Some(&slot) = self.index.get(&number) else { continue };
            match &mut self.leaves[slot as usize] {
                Leaf::Table(entries, _) => {
                    for entry in entries[at as usize..(at + n) as usize].iter_mut().filter(|e| e.present) {
                        changed += u64::from(std::mem::replace(of_entry(entry), on) != on);
                    }
                }
                Leaf::Run(alike) => {
                    let (wanted, present) = (page_bits(at, n), alike.present);
                    for (word, (wanted, present)) in of_run(alike).iter_mut().zip(wanted.iter().zip(present)) {
                        let new = wanted & present & if on { !*word } else { *word };
                        changed += u64::from(new.count_ones());
                        *word ^= new;
                    }
                }
            }
        }
        changed
    }

    /// Turns the leaf tables of a range into runs where their pages allow it. For use after pages were moved together.
    pub fn pack(&mut self, range: VpnRange) {
        for number in self.leaves_in(range) {
            let leaf = &mut self.leaves[self.index[&number] as usize];
            if let Leaf::Table(entries, _) = leaf
                && let Some(alike) = Leaf::alike(entries)
            {
                *leaf = Leaf::Run(Box::new(alike));
            }
        }
    }

    /// The hardware's view of one page.
    #[inline]
    pub fn pte(&self, vpn: Vpn) -> Option<Pte> {
        self.get(vpn).map(|e| Pte { pfn: e.pfn, attr: e.attr, order: e.order })
    }
}

#[cfg(test)]
mod tests;
