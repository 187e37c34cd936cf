//! The kernel's direct map (F-2, DS13-43): all physical memory once more, in one piece, in every address space.
//!
//! A stream with references of a kernel maps it like other memory that the kernel provides: shared, at Linux's address
//! ([`DIRECT_MAP`]). Page number and frame number differ by a constant. These frames are memory of the recorded
//! machine, not memory that this system allocates. They are numbered from [`numbers::DIRECT_MAP`] on and are never
//! allocated, freed or moved.
//!
//! A kernel maps all of it before anything runs, so a first touch is no fault and needs no frame. The page table gets
//! the page at its first touch, with its neighbours in a leaf of `direct_map_page`, so that it grows with the part in
//! use.

use crate::base_pages::Piece;
use crate::contract::What;
use crate::frames::numbers;
use crate::labels;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use farreach_types::addr::{Asid, DIRECT_MAP, KERNEL, Pfn, Vpn, VpnRange};
use farreach_types::event::Backing;
use farreach_types::translation::{KernelSegment, Segment};

impl Os {
    fn direct_start(&self) -> Vpn {
        Vpn(DIRECT_MAP.start >> self.shift)
    }

    /// Whether this is, or is a part of, the direct map.
    pub(super) fn is_direct_map(&self, mapping: &Piece) -> bool {
        let start = mapping.range.start.0 << self.shift;
        mapping.backing == Backing::Kernel && mapping.shared && DIRECT_MAP.contains(&start)
    }

    fn is_named_so(&self, label: u32) -> bool {
        self.labels.name(label) == labels::DIRECT_MAP
    }

    /// The registers of a kernel segment.
    pub(super) fn direct_map(&self, asid: Asid) -> Option<KernelSegment> {
        if let Some(guest) = &self.guest {
            return guest.direct_map().filter(|_| asid == KERNEL);
        }
        let pages = self.spaces.get(asid.0 as usize)?.direct_map_pages?;
        let segment = Segment { base: pages.start, limit: pages.end(), pfn: Pfn(numbers::DIRECT_MAP) };
        Some(segment.into())
    }

    /// After an event: reports to the hardware if the direct map appeared, disappeared or changed its end.
    pub(super) fn follow_direct_map(&mut self, asid: Asid) {
        let start = self.direct_start();
        let region = self.space(asid).regions.find(start).map(|r| (r.range, r.label));
        let now =
            region.filter(|(range, label)| range.start == start && self.is_named_so(*label)).map(|(range, _)| range);
        let before = std::mem::replace(&mut self.space(asid).direct_map_pages, now);
        if before != now {
            let whole = before.into_iter().chain(now).max_by_key(|range| range.pages);
            self.change(asid, whole.expect("one of the two"), What::Segment);
        }
    }

    /// The first touch of a page of the direct map. False if the page is not in it.
    pub(super) fn direct_page(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let start = self.direct_start();
        if vpn < start || vpn.0 >= DIRECT_MAP.end >> self.shift {
            return false;
        }
        let space = &self.spaces[asid.0 as usize];
        let Some(region) = space.regions.find(vpn).filter(|r| self.is_named_so(r.label)) else { return false };
        let leaf = |order: u32| VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let whole = leaf(self.direct_order);
        // A leaf does not fit at the ends, nor where some of its pages are mapped already.
        let fits = whole.and(region.range) == whole && !space.table.any_in(whole);
        let order = if fits { self.direct_order } else { 0 };
        let pages = leaf(order);
        let pfn = Pfn(numbers::DIRECT_MAP + (pages.start.0 - start.0));
        let entry = Entry {
            pfn,
            label: region.label,
            attr: attributes(region.prot, false),
            order: order as u8,
            ..Entry::default()
        };
        self.map_run(asid, pages, Entry { present: true, ..entry });
        true
    }
}
