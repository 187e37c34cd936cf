//! Words of tables that change. What was below an entry that points elsewhere goes, and is linked again when it is
//! touched. A leaf that changed goes, too, or becomes stale; a new one comes.

use super::Guest;
use super::flush::StaleLeaf;
use super::format::{Leaf, Reading, WORDS};
use super::links::{Link, Table};
use super::walk::{Place, top};
use crate::contract::What;
use crate::os::Os;
use farreach_types::addr::{Asid, KERNEL, Vpn, VpnRange};
use std::collections::BTreeSet;

impl Guest {
    /// Words of a table, from a physical address on.
    pub(super) fn entries(&mut self, os: &mut Os, address: u64, values: &[u64]) {
        let frame = address >> 12;
        let changed = self.mirror.differing(address, values);
        self.counts.table_words += changed.len() as u64;
        let of = |link: &Link| -> Vec<(usize, u64)> {
            changed.iter().filter(|(at, _)| link.words.contains(at)).copied().collect()
        };
        // Before the words are written: what is below them is found by the old ones.
        for link in self.links.of(frame).to_vec().iter().filter(|link| link.height > 0) {
            for (at, before) in of(link) {
                // A table that was below one of these words may have been this one.
                if self.links.has(frame, link) {
                    let now = values[at - (address >> 3) as usize % WORDS];
                    self.drop_below(os, link, at, (before, now));
                }
            }
        }
        self.mirror.write(address, values);
        for link in self.links.of(frame).to_vec() {
            let mine = of(&link);
            let now = self.mirror.frame(frame);
            let run = |&(at, before): &(usize, u64)| {
                let [old, new] = [before, now[at]].map(|word| link.format.run(word, link.height));
                let bits = old.max(new);
                let first = at >> bits << bits;
                first..first + (1 << bits)
            };
            let concerned: BTreeSet<usize> = mine.iter().flat_map(run).filter(|at| link.words.contains(at)).collect();
            for at in concerned {
                if !self.kernel_entry_told(os, frame, &link, at) {
                    self.refresh(os, frame, &link, at);
                }
            }
            if mine.iter().any(|&(at, _)| self.mirror.frame(frame)[at] == 0) {
                self.leave_empty_root(frame, &link);
            }
        }
    }

    /// A root without entries for programs is not followed until its address space runs again: the address space has
    /// ended, most times, and its frame may become anything. Read as a root, the words of a lower table can be leaves
    /// of 1 GB.
    fn leave_empty_root(&mut self, frame: u64, link: &Link) {
        let Some(root) = self.roots.get(&link.asid).filter(|_| link.asid != KERNEL) else { return };
        let table = top(link.asid, *root);
        let is_empty = |(frame, link): (u64, Link)| self.mirror.frame(frame)[link.words].iter().all(|&word| word == 0);
        if table.height == link.height && table.parts().any(|part| part.0 == frame) && table.parts().all(is_empty) {
            self.unlink(table);
        }
    }

    /// A word changes: the table below it goes, if it does not point there any more.
    fn drop_below(&mut self, os: &mut Os, link: &Link, at: usize, (before, now): (u64, u64)) {
        let read = |word| link.format.read(word, at, link.height, link.rights);
        let was = read(before);
        if let Reading::Table(address, rights) = was
            && was != read(now)
        {
            let first = link.page(at);
            self.unlink(link.below(address, first, rights));
            self.remove(os, link.asid, VpnRange { start: Vpn(first), pages: link.each() });
            if link.asid == KERNEL {
                self.kernel.forget(first);
            }
        }
    }

    /// A table is no longer at its place, nor are those below it.
    pub(super) fn unlink(&mut self, table: Table) {
        for (frame, link) in table.parts() {
            if self.links.remove(frame, &link) && link.height > 0 {
                let words = *self.mirror.frame(frame);
                for at in link.words.clone().filter(|&at| words[at] != 0) {
                    let below = link.format.read(words[at], at, link.height, link.rights);
                    if let Reading::Table(address, rights) = below {
                        self.unlink(link.below(address, link.page(at), rights));
                    }
                }
            }
        }
    }

    /// The page table follows the entry of a linked table, and all that are in one run with it.
    pub(super) fn refresh_run(&mut self, os: &mut Os, (frame, link, at): &Place) {
        let bits = link.format.run(self.mirror.frame(*frame)[*at], link.height);
        let first = at >> bits << bits;
        for at in (first..first + (1 << bits)).filter(|at| link.words.contains(at)) {
            self.refresh(os, *frame, link, at);
        }
    }

    /// The page table follows the entry of a linked table.
    fn refresh(&mut self, os: &mut Os, frame: u64, link: &Link, at: usize) {
        let asid = link.asid;
        let pages = VpnRange { start: Vpn(link.page(at)), pages: link.each() };
        let own = link.format.order(link.height) as u8;
        let wanted = link.format.leaf(self.mirror.frame(frame), at, link.height, link.rights);
        let cached = os.spaces[asid.0 as usize].table.get(pages.start);
        let was_global = asid != KERNEL || !self.local.contains_key(&pages.start.0);
        let same = wanted.is_some_and(|leaf| {
            let equal = cached.is_some_and(|e| (e.pfn.0, e.attr) == (leaf.pfn, leaf.attr));
            equal && (asid != KERNEL || was_global == leaf.global)
        });
        if same && self.stale.remove(&(asid, pages.start.0)).is_some() {
            // It is again what it was.
            return self.refresh_run(os, &(frame, link.clone(), at));
        }
        // Pages of a run that are stale translate otherwise than the others: it is none until they are not.
        let wanted =
            wanted.map(|leaf| if self.is_whole(asid, pages, leaf) { leaf } else { Leaf { order: own, ..leaf } });
        if same {
            let (before, now) = (cached.map_or(0, |e| e.order), wanted.map_or(0, |leaf| leaf.order));
            if before != now {
                os.keep_census(asid);
                os.spaces[asid.0 as usize].table.set_order(pages, now);
                os.change(asid, pages, if now < before { What::Demoted } else { What::Promoted });
            }
            return;
        }
        if self.stale.contains_key(&(asid, pages.start.0)) {
            return;
        }
        if let Some(entry) = cached {
            self.counts.leaves_changed += 1;
            // An entry that was there before, for more than this leaf, is not one to wait for.
            if self.policy.keeps_stale && entry.order >= own {
                if entry.order > own {
                    os.spaces[asid.0 as usize].table.set_order(pages, own);
                    os.change(asid, pages, What::Demoted);
                }
                self.stale.insert((asid, pages.start.0), StaleLeaf { pages: pages.pages, used: false });
                // The next lookup must be seen.
                os.change(asid, pages, What::Writable);
                return;
            }
        }
        self.remove(os, asid, pages);
        if let Some(leaf) = wanted {
            self.counts.leaves_added += u64::from(cached.is_none());
            self.insert(os, asid, pages, leaf);
        }
    }

    /// Whether nothing in the run of a leaf is stale.
    fn is_whole(&self, asid: Asid, pages: VpnRange, leaf: Leaf) -> bool {
        let run = VpnRange { start: pages.start.align_down(leaf.order.into()), pages: 1 << leaf.order };
        self.stale.is_empty() || run.pages == pages.pages || self.stale_in(asid, run).is_empty()
    }
}
