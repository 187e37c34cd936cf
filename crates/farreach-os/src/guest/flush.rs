//! Entries of translation hardware that the guest drops while their mappings stay: invalidations, and writes of
//! registers (see `tags`). And the pages whose words changed before the guest invalidated them (see `stale`): the old
//! translation counts until then. With several processors the first invalidation that covers a page ends it for all.

use super::Guest;
use super::format::{LA57, PAE, PCIDE, PGE, PSE, Root, SMEP};
use super::pages::joined;
use super::registers::Processor;
use crate::contract::What;
use crate::fault::needs;
use crate::os::Os;
use crate::placement::guest::Tags;
use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS, KERNEL, Vpn, VpnRange};
use farreach_types::event::{Arch, Invalidate, Kind, Register};

/// Set in a value for CR3: nothing is flushed.
const KEEP: u64 = 1 << 63;
/// Roots in CR3.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// A leaf whose word changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StaleLeaf {
    /// Its pages.
    pub pages: u64,
    /// A lookup of one was counted.
    pub used: bool,
}

impl Guest {
    /// A user page of this address space is about to be used by the running processor.
    pub(super) fn enter(&mut self, os: &mut Os, asid: Asid) {
        if self.processor().running == Some(asid) && self.processor().settled {
            return;
        }
        os.space(asid);
        let (arch, tags) = (self.arch, self.policy.tags);
        let processor = self.processor();
        let tag = arch.map(|arch| processor.registers.tag(arch));
        let had_tag = tag.and_then(|tag| processor.by_tag.insert(tag, asid));
        if had_tag != Some(asid) {
            // A tag that it had before means no entry of it any more.
            processor.by_tag.retain(|other, of| *of != asid || Some(*other) == tag);
        }
        let root = arch.and_then(|arch| Root::of(arch, &processor.registers, false).ok());
        let switched = processor.running.replace(asid).is_some_and(|before| before != asid);
        processor.settled = true;
        let pcide = processor.registers.control.unwrap_or(0) & PCIDE != 0;
        let kept = pcide && processor.registers.root0.unwrap_or(0) & KEEP != 0;
        self.counts.space_switches += u64::from(switched);
        if let Some(root) = root {
            self.follow_root(os, asid, root);
        }
        if tags == Tags::Pcid {
            self.take_slot(os, asid);
        }
        // No entry of the space outlives a load of its root that keeps none, with any tag that it had before. So no
        // leaf of it that changed meanwhile waits for the guest to say so. If it had the tag, the load has flushed it.
        if arch == Some(Arch::X86) && tags == Tags::Guest && !kept && had_tag != Some(asid) {
            self.flush_slot(os, asid);
        }
        if tags != Tags::Guest && switched {
            // SHD-4: a space whose tables changed meanwhile is flushed when it runs again.
            let all = os.half(false);
            if !self.stale_in(asid, all).is_empty() {
                self.flush(os, asid, all, false);
            }
        }
    }

    /// A register has another value than before.
    pub(super) fn write(&mut self, os: &mut Os, register: Register, value: u64) {
        let Some(arch) = self.arch else { return };
        let tags = self.policy.tags;
        let processor = &mut self.processors[self.current];
        let tag_before = processor.registers.tag(arch);
        let before = processor.registers.of(register).replace(value);
        processor.settled = false;
        let (running, tag) = (processor.running, processor.registers.tag(arch));
        let pcide = processor.registers.control.unwrap_or(0) & PCIDE != 0;
        let by_tag = processor.by_tag.get(&tag).copied();
        match (arch, register) {
            (Arch::X86, Register::Root0) => {
                let reload = before.is_some_and(|before| before & FRAME == value & FRAME);
                let kept = pcide && value & KEEP != 0;
                let space = match tags {
                    Tags::Guest if pcide => by_tag,
                    Tags::Guest => running,
                    // Only a write of the same root means a flush.
                    Tags::Pcid | Tags::All => running.filter(|_| reload),
                };
                if !kept {
                    space.into_iter().for_each(|asid| self.flush_slot(os, asid));
                }
                // With tags of their own they are dropped with the space that has them; without, here.
                if self.keeps_untagged() && (!kept && (tags != Tags::All || reload) || tags == Tags::Pcid && !reload) {
                    self.flush_local(os, os.half(true), false);
                }
            }
            (Arch::X86, Register::Control) => {
                let (old, new) = (before.unwrap_or(value), value);
                let changed = (old ^ new) & (PGE | PAE | LA57 | PSE) != 0;
                if changed || old & !new & PCIDE != 0 || new & !old & SMEP != 0 {
                    self.flush_all(os, false);
                }
            }
            // Entries that are not global belong to the tag.
            _ if tag != tag_before && tags != Tags::All => self.flush_local(os, os.half(true), false),
            _ => {}
        }
        self.follow_kernel_root(os);
    }

    /// The guest says that translations are no longer valid.
    pub(super) fn invalidate(&mut self, os: &mut Os, asid: Asid, what: Invalidate) {
        let Invalidate { tag, bytes, global, broadcast, .. } = what;
        if asid != KERNEL {
            self.enter(os, asid);
        }
        let counts = &mut self.counts;
        *match (bytes, tag) {
            (Some(_), _) => &mut counts.invalidations_pages,
            (None, Some(_)) => &mut counts.invalidations_spaces,
            (None, None) => &mut counts.invalidations_all,
        } += 1;
        counts.invalidations_broadcast += u64::from(broadcast);
        let range = bytes.map(|(start, len)| {
            let start = start & ((1 << GUEST_ADDRESS_BITS) - 1);
            VpnRange::of_bytes(start, len.min((1 << GUEST_ADDRESS_BITS) - start), os.shift)
        });
        let lower = range.map_or(os.half(false), |range| range.and(os.half(false)));
        let upper = range.map_or(os.half(true), |range| range.and(os.half(true)));
        if lower.pages > 0 {
            for asid in self.tagged(tag, broadcast) {
                // SHD-5: both PCIDs of the process.
                for asid in self.processors[self.current].slot_of(asid) {
                    self.flush(os, asid, lower, broadcast);
                }
            }
        }
        if upper.pages > 0 && self.tags_local {
            for asid in self.tagged(tag, broadcast) {
                self.flush_tagged_pages(os, asid, upper);
            }
        }
        if upper.pages > 0 && global {
            self.flush(os, KERNEL, upper, broadcast);
        } else if upper.pages > 0 && self.keeps_untagged() && self.is_loaded(tag, broadcast) {
            self.flush_local(os, upper, broadcast);
        }
    }

    /// Whether pages of the kernel that are not global have this tag now: on the running processor, or on one of all.
    fn is_loaded(&self, tag: Option<u16>, broadcast: bool) -> bool {
        let (Some(tag), Some(arch)) = (tag, self.arch) else { return true };
        let processors = self.concerned(broadcast).iter();
        self.is_untagged() || processors.map(|p| p.registers.tag(arch)).any(|loaded| loaded == tag)
    }

    fn concerned(&self, broadcast: bool) -> &[Processor] {
        if broadcast { &self.processors } else { std::slice::from_ref(&self.processors[self.current]) }
    }

    /// x86-64 without PCIDs: tags mean nothing.
    fn is_untagged(&self) -> bool {
        let control = self.processors[self.current].registers.control;
        self.arch == Some(Arch::X86) && control.unwrap_or(0) & PCIDE == 0
    }

    /// The address spaces of user pages with a tag: on the running processor, or on all.
    fn tagged(&self, tag: Option<u16>, broadcast: bool) -> Vec<Asid> {
        let Some(tag) = tag else { return self.spaces() };
        if self.is_untagged() {
            return self.processors[self.current].running.into_iter().collect();
        }
        let processors = self.concerned(broadcast).iter();
        let mut spaces: Vec<Asid> = processors.filter_map(|p| p.by_tag.get(&tag).copied()).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    fn spaces(&self) -> Vec<Asid> {
        let mut all: Vec<Asid> = self.roots.keys().copied().collect();
        all.sort_unstable();
        all
    }

    fn flush_all(&mut self, os: &mut Os, everywhere: bool) {
        for asid in self.spaces() {
            self.flush(os, asid, os.half(false), everywhere);
            self.flush_tagged(os, asid, os.half(true));
        }
        self.flush(os, KERNEL, os.half(true), everywhere);
    }

    /// The pages of the kernel in a range that are not global.
    fn flush_local(&mut self, os: &mut Os, range: VpnRange, everywhere: bool) {
        let touched = self.local.iter().filter(|(_, local)| local.touched).map(|(&first, local)| (first, local.pages));
        let inside = touched.filter(|&(start, pages)| range.overlaps(&VpnRange { start: Vpn(start), pages }));
        for (first, pages) in joined(inside) {
            self.flush(os, KERNEL, VpnRange { start: Vpn(first), pages }, everywhere);
        }
    }

    /// Entries go. Nothing is said of pages that no entry can be about.
    pub(super) fn flush(&mut self, os: &mut Os, asid: Asid, pages: VpnRange, everywhere: bool) {
        let pages = whole_leaves(os, asid, pages);
        if !os.spaces.get(asid.0 as usize).is_some_and(|space| space.table.any_in(pages)) {
            return;
        }
        self.counts.flushes += 1;
        os.change(asid, pages, if everywhere { What::FlushedEverywhere } else { What::Flushed });
        for (first, pages) in self.stale_in(asid, pages) {
            self.remove(os, asid, VpnRange { start: Vpn(first), pages });
            self.find_again(os, asid, first);
        }
    }

    /// Stale pages of the kernel that are not global are so no longer.
    pub(super) fn end_stale_local(&mut self, os: &mut Os, pages: VpnRange) {
        for (first, pages) in self.stale_in(KERNEL, pages) {
            if self.local.contains_key(&first) {
                self.remove(os, KERNEL, VpnRange { start: Vpn(first), pages });
                self.find_again(os, KERNEL, first);
            }
        }
    }

    /// What the guest's tables say of a page that was stale.
    fn find_again(&mut self, os: &mut Os, asid: Asid, page: u64) {
        let upper = os.is_upper(Vpn(page));
        let root = if upper { self.kernel.root() } else { self.roots.get(&asid).copied() };
        if let Some(place) = root.and_then(|root| self.descend(os, asid, root, page).ok()) {
            self.refresh_run(os, &place);
        }
    }

    /// The stale leaves that have pages in a range: first page and pages.
    pub(super) fn stale_in(&self, asid: Asid, range: VpnRange) -> Vec<(u64, u64)> {
        // They do not overlap, so at most one that begins before the range reaches into it.
        let start = self.stale.range((asid, 0)..=(asid, range.start.0)).next_back();
        let from = start.filter(|((_, first), leaf)| first + leaf.pages > range.start.0).map(|(&(_, first), _)| first);
        let inside = self.stale.range((asid, from.unwrap_or(range.start.0))..(asid, range.end().0));
        inside.map(|(&(_, first), leaf)| (first, leaf.pages)).collect()
    }

    /// These pages are no longer mapped.
    pub(super) fn forget_stale(&mut self, asid: Asid, range: VpnRange) {
        for (first, _) in self.stale_in(asid, range) {
            self.stale.remove(&(asid, first));
        }
    }

    /// A lookup of a page that may be stale. A fault of one access too many drops the entry, as hardware does.
    pub(super) fn use_stale(&mut self, os: &mut Os, asid: Asid, vpn: Vpn, kind: Kind) -> Result<(), String> {
        let Some(&(first, pages)) = self.stale_in(asid, VpnRange::one(vpn)).first() else { return Ok(()) };
        let entry = os.spaces[asid.0 as usize].table.get(vpn).expect("stale pages are mapped");
        if entry.attr.0 & needs(kind) == 0 {
            self.remove(os, asid, VpnRange { start: Vpn(first), pages });
            return self.bring_in(os, asid, vpn, os.is_upper(vpn));
        }
        let leaf = self.stale.get_mut(&(asid, first)).expect("just found");
        if !leaf.used {
            leaf.used = true;
            self.counts.stale_lookups += 1;
        }
        Ok(())
    }
}

/// A range with all pages of the large leaves at its ends: one of its addresses means a page of any size, in however
/// many entries it is. A run of leaves counts as several.
pub(super) fn whole_leaves(os: &Os, asid: Asid, pages: VpnRange) -> VpnRange {
    let Some(space) = os.spaces.get(asid.0 as usize).filter(|_| pages.pages > 0) else { return pages };
    let index_bits = os.shift - 3;
    let leaf = |vpn: Vpn| {
        let order = space.table.get(vpn).map_or(0, |entry| u32::from(entry.order) / index_bits * index_bits);
        (vpn.align_down(order).0, 1 << order)
    };
    let (start, _) = leaf(pages.start);
    let (last, more) = leaf(Vpn(pages.end().0 - 1));
    VpnRange::between(Vpn(start), Vpn(last + more))
}
