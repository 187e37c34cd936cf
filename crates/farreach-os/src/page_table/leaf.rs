//! Leaf tables: an entry for each page, or one entry that all pages share.

use super::entry::Entry;
use crate::bits;
use farreach_types::addr::Pfn;

/// Pages per leaf table.
pub(super) const LEAF: u64 = 512;

/// One bit per page of a leaf.
pub(super) type Bits = [u64; (LEAF / 64) as usize];

#[derive(Clone, Debug)]
pub(super) enum Leaf {
    /// An entry for each page, and how many are mapped.
    Table(Box<[Entry; LEAF as usize]>, u32),
    /// One for all that are mapped.
    Run(Box<Alike>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Alike {
    /// The shared entry. Its frame is that of the leaf's first page, mapped or not.
    pub common: Entry,
    pub present: Bits,
    pub dirty: Bits,
    pub touched: Bits,
    pub accessed: Bits,
    pub populated: Bits,
}

#[inline]
fn has(bits: &Bits, at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

fn set(bits: &mut Bits, at: usize, on: bool) {
    bits[at / 64] = bits[at / 64] & !(1 << (at % 64)) | u64::from(on) << (at % 64);
}

/// The bits of some pages of a leaf.
pub(super) fn page_bits(first: u64, pages: u64) -> Bits {
    let mut all = Bits::default();
    bits::groups(first, pages, 64).for_each(|(word, at, n)| all[word as usize] = bits::mask(at, n));
    all
}

pub(super) fn count(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

impl Alike {
    #[inline]
    pub fn get(&self, at: usize) -> Option<Entry> {
        has(&self.present, at).then(|| Entry {
            pfn: Pfn(self.common.pfn.0.wrapping_add(at as u64)),
            dirty: has(&self.dirty, at),
            touched: has(&self.touched, at),
            accessed: has(&self.accessed, at),
            populated: has(&self.populated, at),
            ..self.common
        })
    }

    /// Sets the bits of a page that shares the entry.
    pub fn put(&mut self, at: usize, entry: &Entry) {
        set(&mut self.present, at, true);
        set(&mut self.dirty, at, entry.dirty);
        set(&mut self.touched, at, entry.touched);
        set(&mut self.accessed, at, entry.accessed);
        set(&mut self.populated, at, entry.populated);
    }

    /// Sets the state of pages that are not mapped.
    pub fn put_all(&mut self, pages: &Bits, entry: &Entry) {
        for (i, pages) in pages.iter().enumerate() {
            self.present[i] |= pages;
            self.dirty[i] |= if entry.dirty { *pages } else { 0 };
            self.touched[i] |= if entry.touched { *pages } else { 0 };
            self.accessed[i] |= if entry.accessed { *pages } else { 0 };
            self.populated[i] |= if entry.populated { *pages } else { 0 };
        }
    }

    pub fn clear(&mut self, pages: &Bits) {
        for (i, pages) in pages.iter().enumerate() {
            let Alike { present, dirty, touched, accessed, populated, .. } = self;
            for bits in [present, dirty, touched, accessed, populated] {
                bits[i] &= !pages;
            }
        }
    }

    pub fn unused(&self, pages: &Bits) -> Bits {
        std::array::from_fn(|i| self.present[i] & self.populated[i] & !self.touched[i] & pages[i])
    }

    pub fn table(&self) -> Leaf {
        let entries = std::array::from_fn(|at| self.get(at).unwrap_or_default());
        Leaf::Table(Box::new(entries), count(&self.present) as u32)
    }
}

impl Leaf {
    /// The pages of a table as a run; `None` if they cannot share an entry.
    pub fn alike(entries: &[Entry; LEAF as usize]) -> Option<Alike> {
        let (first, entry) = entries.iter().enumerate().find(|(_, e)| e.present)?;
        let mut alike = Alike { common: entry.common(first as u64), ..Alike::default() };
        for (at, entry) in entries.iter().enumerate().filter(|(_, e)| e.present) {
            if entry.common(at as u64) != alike.common {
                return None;
            }
            alike.put(at, entry);
        }
        Some(alike)
    }
}
