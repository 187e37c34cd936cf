//! The upper half of the addresses: one address space, [`KERNEL`], under the root that each processor has loaded.
//!
//! Roots of x86-64 have entries for both halves, and those of the upper half point to the same tables in all of them.
//! So only the root that is loaded is linked. Where another root is loaded that points elsewhere, as with the isolated
//! page tables of Linux, the pages below are compared: those that the new tables translate otherwise go. Pages that
//! they do not have stay, as nothing can refer to them meanwhile.

use super::Guest;
use super::format::{Reading, Rights, Root};
use super::links::Link;
use super::walk::top;
use crate::os::Os;
use farreach_types::addr::{KERNEL, Vpn, VpnRange};
use std::collections::BTreeMap;

/// The loaded root of the kernel's half.
#[derive(Default)]
pub(super) struct KernelRoot {
    root: Option<Root>,
    /// The entries of the root by which tables were linked last.
    entries: BTreeMap<u64, u64>,
    /// Pairs of entries below which all pages were equal, and the number of the change of pages before that.
    agreed: BTreeMap<(u64, u64), u64>,
    changes: u64,
}

impl KernelRoot {
    /// A table was linked by this entry.
    pub fn note(&mut self, at: u64, word: u64) {
        self.entries.insert(at, word);
    }

    /// The entry for this page no longer points to a table, if the root has one for it.
    pub fn forget(&mut self, first: u64) {
        if let Some(root) = self.root {
            let each = 1 << root.format.order(root.height);
            self.entries.retain(|at, _| root.first + at * each != first);
        }
    }

    /// Pages of the kernel came or went.
    pub fn changed(&mut self) {
        self.changes += 1;
    }

    /// The loaded root.
    pub fn root(&self) -> Option<Root> {
        self.root
    }
}

impl Guest {
    /// The running processor may have loaded another root.
    pub(super) fn follow_kernel_root(&mut self, os: &mut Os) {
        let Some(arch) = self.arch else { return };
        // A processor that starts has not all registers yet.
        let Ok(root) = Root::of(arch, &self.processors[self.current].registers, true) else { return };
        let Some(old) = self.kernel.root.replace(root).filter(|old| *old != root) else { return };
        os.space(KERNEL);
        if (old.format, old.height, old.first) != (root.format, root.height, root.first) {
            self.unlink(top(KERNEL, old));
            self.remove(os, KERNEL, os.half(true));
            self.kernel.entries.clear();
            return;
        }
        let mut linked = false;
        for (frame, link) in top(KERNEL, old).parts() {
            linked |= self.links.remove(frame, &link);
        }
        if linked {
            top(KERNEL, root).parts().for_each(|(frame, link)| _ = self.links.add(frame, &link));
        }
        for (at, before) in self.kernel.entries.clone() {
            let now = self.mirror.word(root.address + 8 * at);
            let read = |word| root.format.read(word, at as usize, root.height, Rights::ALL);
            if read(now) == read(before) || read(now) == Reading::Absent {
                continue;
            }
            self.compare_below(os, root, at, before, now);
            self.kernel.entries.insert(at, now);
        }
    }

    /// A word of the loaded root that the recording tells after the root was loaded: other roots have had an entry
    /// there, below which pages are known. Returns whether it is one.
    pub(super) fn kernel_entry_told(&mut self, os: &mut Os, frame: u64, link: &Link, at: usize) -> bool {
        let Some(root) = self.kernel.root.filter(|root| link.asid == KERNEL && link.height == root.height) else {
            return false;
        };
        let number = (link.page(at) - root.first) / link.each();
        let Some(&before) = self.kernel.entries.get(&number) else { return false };
        let now = self.mirror.frame(frame)[at];
        let read = |word| root.format.read(word, at, root.height, Rights::ALL);
        if !matches!(read(now), Reading::Table(..)) {
            return false;
        }
        if read(now) != read(before) {
            self.compare_below(os, root, number, before, now);
        }
        self.kernel.entries.insert(number, now);
        true
    }

    /// The pages below an entry of the root, which pointed elsewhere before. Those that differ go.
    fn compare_below(&mut self, os: &mut Os, root: Root, at: u64, before: u64, now: u64) {
        if self.kernel.agreed.get(&(before, now)) == Some(&self.kernel.changes) {
            return;
        }
        let order = root.format.order(root.height);
        let all = VpnRange { start: Vpn(root.first + (at << order)), pages: 1 << order };
        let mut page = all.start.0;
        for run in os.spaces[KERNEL.0 as usize].table.runs_in(all) {
            page = page.max(run.first.0);
            while page < run.first.0 + run.pages {
                let (pfn, attr) = (run.entry.pfn.0 + (page - run.first.0), run.entry.attr);
                let Ok((frame, link, number)) = self.descend(os, KERNEL, root, page) else {
                    page += 1;
                    continue;
                };
                let leaf = link.format.leaf(self.mirror.frame(frame), number, link.height, link.rights);
                let leaf = leaf.expect("the walk ended there");
                let first = link.page(number);
                let end = (first + link.each()).min(run.first.0 + run.pages);
                if (leaf.pfn + (page - first), leaf.attr) != (pfn, attr) {
                    // All of the mapping that it was part of.
                    let (order, start) = (u32::from(run.entry.order), Vpn(page));
                    let mapping = VpnRange { start: start.align_down(order), pages: 1 << order };
                    self.remove(os, KERNEL, mapping);
                }
                page = end;
            }
        }
        // Both ways: they alternate.
        let changes = self.kernel.changes;
        self.kernel.agreed.extend([((before, now), changes), ((now, before), changes)]);
    }
}
