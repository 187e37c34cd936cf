//! Pages of the kernel that are not global, on x86-64. With isolated page tables nearly all of them are so. An entry
//! for one belongs to the PCID under which it was filled. With `tags = pcid` each process has two, one for each of its
//! roots, and a slot for both (SHD-4, SHD-5).
//!
//! So hardware gives such an entry the tag of the address space that runs, and all other entries of the upper half that
//! of [`KERNEL`]: see [`Os::tag_of`]. The page table of both is one, so what changes there is told for all tags.

use super::Guest;
use super::flush::whole_leaves;
use super::format::WORDS;
use super::registers::Processor;
use crate::contract::{Change, What};
use crate::os::Os;
use crate::placement::guest::Tags;
use farreach_types::addr::{Asid, KERNEL, Vpn, VpnRange};

/// The root for programs is the frame behind that for the kernel.
const ROOTS_DIFFER: u64 = 1 << 12;

impl Os {
    /// From now on the caller asks [`Os::tag_of`], and says which address space runs ([`Os::run`]).
    pub fn tag_local_pages(&mut self) {
        if let Some(guest) = &mut self.guest {
            guest.tags_local = guest.policy.tags != Tags::All;
        }
    }

    /// Whether entries of the upper half may have other tags than that of [`KERNEL`].
    pub fn has_local_tags(&self) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.tags_local && guest.local_most > 0)
    }

    /// The tag of an entry for a page that is mapped, where this address space runs.
    #[inline]
    pub fn tag_of(&self, running: Asid, vpn: Vpn) -> Asid {
        match &self.guest {
            Some(guest) if self.is_upper(vpn) => guest.tag(running, vpn),
            _ => running,
        }
    }

    /// This address space runs on the processor from now on.
    pub fn run(&mut self, asid: Asid) {
        let Some(guest) = self.guest.as_mut().filter(|guest| guest.tags_local) else { return };
        guest.processor().has_program = asid != KERNEL;
        if asid != KERNEL {
            self.with_guest(|guest, os| guest.enter(os, asid));
        }
    }

    /// The address space whose page table has a page.
    #[inline]
    pub(crate) fn owner(&self, asid: Asid, vpn: Vpn) -> Asid {
        if self.guest.is_some() && self.is_upper(vpn) { KERNEL } else { asid }
    }
}

impl Guest {
    fn tag(&self, running: Asid, vpn: Vpn) -> Asid {
        let local = |(first, local): (&u64, &super::pages::Local)| vpn.0 - first < local.pages;
        let is_local = self.tags_local && self.local.range(..=vpn.0).next_back().is_some_and(local);
        if is_local { running } else { KERNEL }
    }

    /// Whether the running processor gives entries of the kernel's pages one tag, that of [`KERNEL`].
    pub(super) fn keeps_untagged(&self) -> bool {
        !self.tags_local || !self.processors[self.current].has_program
    }

    /// A space runs next on the processor (SHD-4).
    pub(super) fn take_slot(&mut self, os: &mut Os, asid: Asid) {
        if self.processors[self.current].has_slot(asid) {
            return;
        }
        let other = if self.tags_local { self.other_root(asid) } else { None };
        for lost in self.processor().take_slot(asid, other) {
            self.flush(os, lost, os.half(false), false);
            self.flush_tagged(os, lost, os.half(true));
        }
    }

    /// The space of the other root of a process, with isolated page tables: that for programs has a part of the entries
    /// that the one for the kernel has in the upper half.
    fn other_root(&self, asid: Asid) -> Option<Asid> {
        let address = self.roots.get(&asid)?.address;
        let upper = |address: u64| &self.mirror.frame(address >> 12)[WORDS / 2..];
        let (kernel, programs) = (upper(address & !ROOTS_DIFFER), upper(address | ROOTS_DIFFER));
        let (mut more, mut others) = (false, false);
        for (kernel, programs) in kernel.iter().zip(programs) {
            more |= *kernel != 0 && *programs == 0;
            others |= *kernel == 0 && *programs != 0;
        }
        let with = |(_, root): &(&Asid, &super::format::Root)| root.address == address ^ ROOTS_DIFFER;
        // A root that is used again has the highest number.
        if more && !others { self.roots.iter().filter(with).map(|(&asid, _)| asid).max() } else { None }
    }

    /// Both PCIDs of a process, or the one that it has.
    pub(super) fn flush_slot(&mut self, os: &mut Os, asid: Asid) {
        for asid in self.processors[self.current].slot_of(asid) {
            self.flush(os, asid, os.half(false), false);
            self.flush_tagged(os, asid, os.half(true));
        }
    }

    /// The kernel's pages that have the tag of this address space.
    pub(super) fn flush_tagged(&mut self, os: &mut Os, asid: Asid, pages: VpnRange) {
        if self.tags_local && !self.local.is_empty() {
            self.counts.flushes += 1;
            os.change(asid, pages, What::Flushed);
            self.end_stale_local(os, pages);
        }
    }

    /// An invalidation of these pages of the kernel: of the tag that runs; and with isolated page tables Linux drops
    /// all that other PCIDs have, when they run next (SHD-5).
    pub(super) fn flush_tagged_pages(&mut self, os: &mut Os, asid: Asid, pages: VpnRange) {
        let pages = whole_leaves(os, KERNEL, pages);
        self.flush_tagged(os, asid, pages);
        let processor = &self.processors[self.current];
        if processor.is_isolated() {
            let own = processor.slot_of(asid);
            let others: Vec<Asid> = processor.in_slots().filter(|other| !own.contains(other)).collect();
            own.iter().skip(1).for_each(|other| self.flush_tagged(os, *other, pages));
            for other in others {
                self.flush(os, other, os.half(false), false);
                self.flush_tagged(os, other, os.half(true));
            }
        }
    }

    /// Repeats what was said of the kernel's pages for all tags that entries of them may have.
    pub(super) fn tell_tags(&self, changes: &mut Vec<Change>, from: usize) {
        if !self.tags_local || self.local_most == 0 {
            return;
        }
        let tags = self.holders();
        for i in from..changes.len() {
            let change = changes[i];
            if change.asid == KERNEL && matches!(change.what, What::Stale | What::Demoted) {
                changes.extend(tags.iter().map(|&asid| Change { asid, ..change }));
            }
        }
    }

    /// The address spaces whose tags entries of the kernel's pages may have, but for [`KERNEL`].
    fn holders(&self) -> Vec<Asid> {
        let of = |processor: &Processor| -> Vec<Asid> {
            match self.policy.tags {
                Tags::Pcid => processor.in_slots().collect(),
                _ => processor.by_tag.values().copied().collect(),
            }
        };
        let mut all: Vec<Asid> = self.processors.iter().flat_map(of).filter(|_| self.tags_local).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// All tags that entries of the kernel's pages may have.
    pub(super) fn tags(&self) -> Vec<Asid> {
        std::iter::once(KERNEL).chain(self.holders()).collect()
    }
}
