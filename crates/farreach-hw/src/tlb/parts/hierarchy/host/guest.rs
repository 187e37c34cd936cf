//! The guest's table as a hypervisor follows it: its pages, and which entries are written. What the machine reports are
//! ranges of pages; SHD-2 and AGI-2 are about entries.

use super::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::PageTableView;
use std::collections::BTreeMap;

/// An entry that maps pages of the guest, or did, was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    /// The first of its pages.
    pub vpn: Vpn,
    /// log2 of its pages.
    pub order: u8,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// It maps a page that nothing mapped.
    Mapped,
    /// Its page is not mapped any more.
    Unmapped,
    /// It maps its page otherwise.
    Altered,
    /// It maps what a node of smaller pages mapped.
    Joined,
    /// It leads to a node of smaller pages, which was filled before.
    Split,
}

impl Written {
    pub fn pages(&self) -> VpnRange {
        VpnRange { start: self.vpn, pages: 1 << self.order }
    }

    /// The level of the entry.
    pub fn level(&self) -> u8 {
        self.order / RADIX
    }
}

/// A page of the guest.
#[derive(Clone, Copy, Debug)]
struct Page {
    order: u8,
    is_modified: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Guest {
    /// By process and first page.
    pages: BTreeMap<(Asid, u64), Page>,
    /// What the last report said, in ascending order.
    pub written: Vec<Written>,
}

/// What maps this page in the operating system's page table. Superpages of sizes between those of leaves are several.
fn in_view(asid: Asid, vpn: Vpn, table: &dyn PageTableView) -> Option<(Vpn, u8)> {
    let order = RADIX * leaf_level(table.pte(asid, vpn)?.order, RADIX);
    Some((vpn.align_down(order.into()), order))
}

impl Guest {
    /// First page and order of what maps this page.
    fn page(&self, asid: Asid, vpn: Vpn) -> Option<(Vpn, u8)> {
        let (&(of, first), page) = self.pages.range(..=(asid, vpn.0)).next_back()?;
        (of == asid && vpn.0 - first < 1 << page.order).then_some((Vpn(first), page.order))
    }

    /// Whether something maps one of these pages.
    pub fn any(&self, asid: Asid, pages: VpnRange) -> bool {
        let mut inside = self.pages.range((asid, pages.start.0)..(asid, pages.end().0));
        inside.next().is_some() || self.page(asid, pages.start).is_some()
    }

    /// The orders of the pages that begin in a range.
    pub fn inside(&self, asid: Asid, pages: VpnRange) -> impl Iterator<Item = (Vpn, u8)> {
        let inside = self.pages.range((asid, pages.start.0)..(asid, pages.end().0));
        inside.map(|(&(_, first), page)| (Vpn(first), page.order))
    }

    /// A store to this page. Whether it was clean.
    pub fn store(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let page = self.page(asid, vpn).and_then(|(first, _)| self.pages.get_mut(&(asid, first.0)));
        debug_assert!(page.is_some(), "SHD: {asid:?} {vpn:?} is mapped, and the hypervisor was not told");
        page.is_some_and(|page| !std::mem::replace(&mut page.is_modified, true))
    }

    fn add(&mut self, asid: Asid, (vpn, order): (Vpn, u8), is_modified: bool) {
        self.pages.insert((asid, vpn.0), Page { order, is_modified });
    }

    /// Takes away what maps pages of this range; whether one of them was modified.
    fn take(&mut self, asid: Asid, pages: VpnRange) -> bool {
        let mut is_modified = false;
        while let Some((&key, _)) = self.pages.range((asid, pages.start.0)..(asid, pages.end().0)).next() {
            is_modified |= self.pages.remove(&key).is_some_and(|page| page.is_modified);
        }
        is_modified
    }

    /// See [`crate::tlb::OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.written.clear();
        let mut vpn = pages.start;
        while vpn < pages.end() {
            let Some(new) = in_view(asid, vpn, table) else {
                let order = RADIX * table.absent_at(asid, vpn);
                vpn = Vpn(vpn.align_down(order.into()).0 + (1 << order));
                continue;
            };
            vpn = Vpn(new.0.0 + (1 << new.1));
            match self.page(asid, new.0) {
                Some(old) if old == new => {}
                Some(old) if old.1 > new.1 => self.split(asid, old, table),
                _ => {
                    let range = VpnRange { start: new.0, pages: 1 << new.1 };
                    let what = if self.any(asid, range) { What::Joined } else { What::Mapped };
                    let is_modified = self.take(asid, range);
                    self.add(asid, new, is_modified);
                    self.written.push(Written { vpn: new.0, order: new.1, what });
                }
            }
        }
    }

    /// A superpage is smaller pages now. Of these, what is unmapped already is no write of its own.
    fn split(&mut self, asid: Asid, (first, order): (Vpn, u8), table: &dyn PageTableView) {
        let range = VpnRange { start: first, pages: 1 << order };
        let is_modified = self.take(asid, range);
        let mut vpn = first;
        while vpn < range.end() {
            let part = in_view(asid, vpn, table);
            if let Some(part) = part {
                self.add(asid, part, is_modified);
            }
            vpn = Vpn(part.map_or(vpn.0 + 1, |part| part.0.0 + (1 << part.1)));
        }
        self.written.push(Written { vpn: first, order, what: What::Split });
    }

    /// See [`crate::tlb::OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.written.clear();
        let mut vpn = self.page(asid, pages.start).map_or(pages.start, |(first, _)| first);
        while vpn < pages.end()
            && let Some((&(_, first), page)) = self.pages.range((asid, vpn.0)..(asid, pages.end().0)).next()
        {
            let old = (Vpn(first), page.order);
            vpn = Vpn(first + (1 << old.1));
            let range = VpnRange { start: old.0, pages: 1 << old.1 };
            let what = if in_view(asid, old.0, table) == Some(old) {
                self.add(asid, old, false);
                What::Altered
            } else if old.1 > 0 && table.any_mapped(asid, range) {
                self.split(asid, old, table);
                continue;
            } else {
                self.take(asid, range);
                What::Unmapped
            };
            self.written.push(Written { vpn: old.0, order: old.1, what });
        }
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid) {
        self.take(asid, VpnRange::ALL);
    }
}
