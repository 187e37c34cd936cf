//! The page table of one address space: the authority on translations (XC-3). Always seen by base page; a superpage is a
//! mark on the entries of its pages (T94-56), so merging and splitting never change a translation.

use crate::addr::{Pfn, Vpn, VpnRange};
use crate::hw::tlb::{Attr, Pte};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Pages per leaf table.
const LEAF: u64 = 512;

/// One entry with what the operating system remembers about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Frame.
    pub pfn: Pfn,
    /// Name of the region it belongs to, an index into the labels of the operating system.
    pub label: u32,
    /// Attributes the hardware sees.
    pub attr: Attr,
    /// log2 of the pages of the mapping.
    pub order: u8,
    /// Mapped at all.
    pub present: bool,
    /// A store must copy the page first (or take it over when nobody else has it).
    pub cow: bool,
    /// Stored to since it was mapped.
    pub dirty: bool,
    /// Referenced since it was mapped.
    pub touched: bool,
    /// Mapped by promotion, not by a fault.
    pub populated: bool,
    /// An access that its protection forbids was counted.
    pub forbidden: bool,
    /// The page belongs to the direct segment (DS13-3): the hardware never sees this entry, which stands for the segment in all that
    /// reads the page table.
    pub segment: bool,
}

/// Leaf tables by leading page number; memory grows with what is mapped.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    index: HashMap<u64, u32, FixedState>,
    leaves: Vec<Leaf>,
    free: Vec<u32>,
    present: u64,
}

#[derive(Clone, Debug)]
struct Leaf {
    entries: Box<[Entry; LEAF as usize]>,
    present: u32,
}

impl PageTable {
    /// Mapped base pages.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// The entry of a page, if it is mapped.
    #[inline]
    pub fn get(&self, vpn: Vpn) -> Option<&Entry> {
        let leaf = *self.index.get(&(vpn.0 / LEAF))?;
        Some(&self.leaves[leaf as usize].entries[(vpn.0 % LEAF) as usize]).filter(|e| e.present)
    }

    /// As `get`, to change attributes and marks; `present` must stay as it is.
    #[inline]
    pub fn get_mut(&mut self, vpn: Vpn) -> Option<&mut Entry> {
        let leaf = *self.index.get(&(vpn.0 / LEAF))?;
        Some(&mut self.leaves[leaf as usize].entries[(vpn.0 % LEAF) as usize]).filter(|e| e.present)
    }

    /// Maps a page that is not mapped.
    pub fn insert(&mut self, vpn: Vpn, entry: Entry) {
        debug_assert!(entry.present && self.get(vpn).is_none(), "page {vpn:?} is mapped already");
        let leaf = *self.index.entry(vpn.0 / LEAF).or_insert_with(|| {
            let empty = Leaf { entries: Box::new([Entry::default(); LEAF as usize]), present: 0 };
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
        let leaf = &mut self.leaves[leaf as usize];
        leaf.entries[(vpn.0 % LEAF) as usize] = entry;
        leaf.present += 1;
        self.present += 1;
    }

    /// Unmaps a page and says what was there.
    pub fn remove(&mut self, vpn: Vpn) -> Option<Entry> {
        let slot = *self.index.get(&(vpn.0 / LEAF))?;
        let leaf = &mut self.leaves[slot as usize];
        let entry = std::mem::take(&mut leaf.entries[(vpn.0 % LEAF) as usize]);
        if !entry.present {
            return None;
        }
        leaf.present -= 1;
        self.present -= 1;
        if leaf.present == 0 {
            self.index.remove(&(vpn.0 / LEAF));
            self.free.push(slot);
        }
        Some(entry)
    }

    /// Whether some page of a range is mapped.
    pub fn any_in(&self, range: VpnRange) -> bool {
        let leaves = range.start.0 / LEAF..range.end().0.div_ceil(LEAF);
        leaves.filter(|leaf| self.index.contains_key(leaf)).any(|leaf| {
            let pages = VpnRange { start: Vpn(leaf * LEAF), pages: LEAF }.and(range);
            pages.pages == LEAF || pages.iter().any(|v| self.get(v).is_some())
        })
    }

    /// The mapped pages of a range, ascending. Cost goes with what is mapped, not with the length of the range.
    pub fn mapped_in(&self, range: VpnRange) -> Vec<Vpn> {
        let (first, last) = (range.start.0 / LEAF, range.end().0.div_ceil(LEAF));
        let mut leaves: Vec<u64> = if last - first <= 2 * self.index.len() as u64 {
            (first..last).filter(|l| self.index.contains_key(l)).collect()
        } else {
            self.index.keys().copied().filter(|l| (first..last).contains(l)).collect()
        };
        leaves.sort_unstable();
        let pages = leaves.into_iter().flat_map(|l| (l * LEAF..(l + 1) * LEAF).map(Vpn));
        pages.filter(|&v| range.contains(v) && self.get(v).is_some()).collect()
    }

    /// The hardware's view of one page.
    #[inline]
    pub fn pte(&self, vpn: Vpn) -> Option<Pte> {
        self.get(vpn).map(|e| Pte { pfn: e.pfn, attr: e.attr, order: e.order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pfn: u64) -> Entry {
        Entry { pfn: Pfn(pfn), present: true, ..Entry::default() }
    }

    #[test]
    fn insert_remove_and_list() {
        let mut t = PageTable::default();
        let pages = [0, 1, 511, 512, 5_000_000, (1 << 52) - 1];
        for (i, p) in pages.iter().enumerate() {
            t.insert(Vpn(*p), entry(i as u64));
        }
        let all = VpnRange { start: Vpn(0), pages: 1 << 52 };
        assert_eq!(t.mapped_in(all), pages.map(Vpn));
        assert_eq!(t.mapped_in(VpnRange { start: Vpn(1), pages: 511 }), [Vpn(1), Vpn(511)]);
        assert_eq!(t.remove(Vpn(512)).map(|e| e.pfn), Some(Pfn(3)));
        assert_eq!((t.remove(Vpn(512)), t.get(Vpn(512)), t.present()), (None, None, 5));
        t.insert(Vpn(700), entry(9));
        assert_eq!(t.leaves.len(), 4, "the empty leaf was used again");
    }
}
