//! Questions about all mapped pages of a range.

use super::PageTable;
use super::entry::{Entry, Run};
use super::leaf::{Bits, LEAF, Leaf, count, page_bits};
use crate::bits;
use farreach_types::addr::{Pfn, Vpn, VpnRange};

impl PageTable {
    /// The mapped pages of a range, ascending, in the longest runs.
    pub fn runs_in(&self, range: VpnRange) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut add = |first: u64, pages: u64, entry: Entry, unused: u64| {
            if let Some(last) = runs.last_mut()
                && last.first.0 + last.pages == first
                && last.entry == entry.common(last.pages)
            {
                (last.pages, last.unused) = (last.pages + pages, last.unused + unused);
                return;
            }
            runs.push(Run { first: Vpn(first), pages, entry: entry.common(0), unused });
        };
        for number in self.leaves_in(range) {
            let part = VpnRange { start: Vpn(number * LEAF), pages: LEAF }.and(range);
            let at = part.start.0 % LEAF;
            match &self.leaves[self.index[&number] as usize] {
                Leaf::Table(entries, _) => {
                    let pages = entries.iter().enumerate().skip(at as usize).take(part.pages as usize);
                    for (at, entry) in pages.filter(|(_, e)| e.present) {
                        add(number * LEAF + at as u64, 1, *entry, u64::from(entry.is_unused()));
                    }
                }
                Leaf::Run(alike) => {
                    let wanted = page_bits(at, part.pages);
                    let here: Bits = std::array::from_fn(|i| alike.present[i] & wanted[i]);
                    for (at, n) in bits::runs(&here) {
                        let pfn = Pfn(alike.common.pfn.0.wrapping_add(at));
                        let unused = count(&alike.unused(&page_bits(at, n)));
                        add(number * LEAF + at, n, Entry { pfn, ..alike.common }, unused);
                    }
                }
            }
        }
        runs
    }

    /// The mapped pages of a range, ascending.
    pub fn mapped_in(&self, range: VpnRange) -> Vec<Vpn> {
        self.runs_in(range).iter().flat_map(|run| VpnRange { start: run.first, pages: run.pages }.iter()).collect()
    }

    /// How many mapped pages of a range are dirty.
    pub fn dirty_in(&self, range: VpnRange) -> u64 {
        let mut dirty = 0;
        for (number, at, n) in bits::groups(range.start.0, range.pages, LEAF) {
            let Some(&slot) = self.index.get(&number) else { continue };
            dirty += match &self.leaves[slot as usize] {
                Leaf::Table(entries, _) => {
                    entries[at as usize..(at + n) as usize].iter().filter(|e| e.present && e.dirty).count() as u64
                }
                Leaf::Run(alike) => {
                    let wanted = page_bits(at, n);
                    count(&std::array::from_fn(|i| alike.present[i] & alike.dirty[i] & wanted[i]))
                }
            };
        }
        dirty
    }

    /// The frames of the referenced pages of a range.
    pub fn touched_in(&self, range: VpnRange) -> Vec<Pfn> {
        let mut frames = Vec::new();
        for number in self.leaves_in(range) {
            let part = VpnRange { start: Vpn(number * LEAF), pages: LEAF }.and(range);
            let at = part.start.0 % LEAF;
            match &self.leaves[self.index[&number] as usize] {
                Leaf::Table(entries, _) => {
                    let pages = &entries[at as usize..(at + part.pages) as usize];
                    frames.extend(pages.iter().filter(|e| e.present && e.touched).map(|e| e.pfn));
                }
                Leaf::Run(alike) => {
                    let wanted = page_bits(at, part.pages);
                    let here: Bits = std::array::from_fn(|i| alike.present[i] & alike.touched[i] & wanted[i]);
                    let pages = bits::runs(&here).flat_map(|(at, n)| at..at + n);
                    frames.extend(pages.map(|at| Pfn(alike.common.pfn.0.wrapping_add(at))));
                }
            }
        }
        frames
    }

    /// Pages that were mapped together with others and never referenced.
    pub fn unused(&self) -> u64 {
        let of = |leaf: &u32| match &self.leaves[*leaf as usize] {
            Leaf::Table(entries, _) => entries.iter().filter(|e| e.is_unused()).count() as u64,
            Leaf::Run(alike) => count(&alike.unused(&[u64::MAX; 8])),
        };
        self.index.values().map(of).sum()
    }

    /// The first `most` unused pages that are neither copy-on-write nor in a segment, ascending.
    pub fn idle(&self, most: usize, all: VpnRange) -> Vec<Vpn> {
        let mut idle = Vec::new();
        for number in self.leaves_in(all) {
            let base = number * LEAF;
            match &self.leaves[self.index[&number] as usize] {
                Leaf::Table(entries, _) => {
                    let pages = entries.iter().enumerate().filter(|(_, e)| e.is_unused() && !e.cow && !e.segment);
                    idle.extend(pages.map(|(at, _)| Vpn(base + at as u64)));
                }
                Leaf::Run(alike) if !alike.common.cow && !alike.common.segment => {
                    let unused = alike.unused(&[u64::MAX; 8]);
                    idle.extend(bits::runs(&unused).flat_map(|(at, n)| at..at + n).map(|at| Vpn(base + at)));
                }
                Leaf::Run(_) => {}
            }
            if idle.len() >= most {
                break;
            }
        }
        idle.truncate(most);
        idle
    }
}
