//! The direct map of a guest's kernel (DS13-43): where it maps its memory in one piece, page less frame being a
//! constant. For registers of a segment, which such a kernel would load once, when it starts.
//!
//! * The constant is the one that most touched pages of the kernel share, of those that may be read and written and not
//!   executed (DS13-5). So the size of its leaves does not matter.
//! * It reaches from the lowest to the highest page with that constant. A page between them that is not known, or not
//!   mapped, is part of it: nothing refers to such a page. What a kernel leaves out to catch stray references, as with
//!   `debug_pagealloc`, it would no longer catch.
//! * Pages between them with other rights, as those under write-protected text, are paged: a segment has one set of
//!   rights (DS13-10), and no translation is another than the page table's (XC-3).

use super::Guest;
use super::pages::joined;
use crate::os::Os;
use farreach_types::addr::{KERNEL, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, KernelSegment, Segment};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The rights of its pages.
const DATA: Attr = Attr(Attr::READ | Attr::WRITE);

/// See the module.
#[derive(Default)]
pub(super) struct DirectMap {
    /// By page less frame, touched pages of data.
    touched: HashMap<u64, u64, FixedState>,
    constant: Option<u64>,
    /// From its first to its last page.
    pages: Option<VpnRange>,
    /// All that is mapped with other rights or another constant, by first page.
    apart: BTreeMap<u64, u64>,
    /// Where it changed since that was asked last.
    changed: Option<VpnRange>,
}

impl DirectMap {
    /// A page was touched. Returns whether most have its constant now, and had another before; then
    /// [`DirectMap::begin`] follows.
    #[must_use]
    fn touch(&mut self, vpn: Vpn, pfn: Pfn, attr: Attr) -> bool {
        if attr != DATA {
            return false;
        }
        let constant = vpn.0.wrapping_sub(pfn.0);
        let touched = self.touched.entry(constant).or_default();
        *touched += 1;
        let most = *touched;
        let is_new = self.constant != Some(constant) && self.constant.is_none_or(|of| most > self.touched[&of]);
        if is_new {
            self.constant = Some(constant);
        }
        is_new
    }

    /// It has another constant. What is mapped follows by [`DirectMap::add`].
    fn begin(&mut self) {
        self.changed = hull(self.changed, self.pages.take());
        self.apart.clear();
    }

    /// Pages of the kernel in consecutive frames are mapped.
    pub fn add(&mut self, pages: VpnRange, pfn: Pfn, attr: Attr) {
        if attr == DATA && self.constant == Some(pages.start.0.wrapping_sub(pfn.0)) {
            let all = hull(self.pages, Some(pages));
            if all != self.pages {
                self.changed = hull(self.changed, all);
                self.pages = all;
            }
        } else {
            self.apart.insert(pages.start.0, pages.pages);
            self.note(pages);
        }
    }

    /// Pages went.
    pub fn take(&mut self, pages: VpnRange) {
        let (start, end) = (pages.start.0, pages.end().0);
        let reaches = |(&first, &pages): (&u64, &u64)| (first + pages > start).then_some((first, pages));
        while let Some((first, pages)) = self.apart.range(..end).next_back().and_then(reaches) {
            self.apart.remove(&first);
            self.note(VpnRange { start: Vpn(first), pages });
            let last = first + pages;
            let left = [(first, start.saturating_sub(first)), (end, last.saturating_sub(end))];
            self.apart.extend(left.into_iter().filter(|(_, pages)| *pages > 0));
        }
    }

    /// Pages that are apart came or went.
    fn note(&mut self, pages: VpnRange) {
        if self.pages.is_some_and(|all| all.overlaps(&pages)) {
            self.changed = hull(self.changed, Some(pages));
        }
    }

    /// Where it changed since the last call.
    pub fn changes(&mut self) -> Option<VpnRange> {
        self.changed.take()
    }

    /// What registers can hold of it.
    pub fn segment(&self) -> Option<KernelSegment> {
        let (all, constant) = (self.pages?, self.constant?);
        let segment = Segment { base: all.start, limit: all.end(), pfn: Pfn(all.start.0.wrapping_sub(constant)) };
        let inside = joined(self.apart.range(all.start.0..all.end().0).map(|(&first, &pages)| (first, pages)));
        let paged = inside.into_iter().map(|(first, pages)| VpnRange { start: Vpn(first), pages }).collect();
        Some(KernelSegment { segment, attr: Some(DATA), paged, tags: Vec::new() })
    }
}

/// The smallest range around both.
fn hull(a: Option<VpnRange>, b: Option<VpnRange>) -> Option<VpnRange> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(VpnRange::between(a.start.min(b.start), a.end().max(b.end())))
}

impl Guest {
    /// A page of the kernel was touched for the first time.
    pub(super) fn touch_direct_map(&mut self, os: &Os, vpn: Vpn, pfn: Pfn, attr: Attr) {
        if self.direct_map.touch(vpn, pfn, attr) {
            self.direct_map.begin();
            for run in os.spaces[KERNEL.0 as usize].table.runs_in(os.half(true)) {
                let pages = VpnRange { start: run.first, pages: run.pages };
                self.direct_map.add(pages, run.entry.pfn, run.entry.attr);
            }
        }
    }
}
