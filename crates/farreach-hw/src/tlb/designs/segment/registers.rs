//! The contents of the segment registers.

use crate::nested::Hypervisor;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, Range, Segment};

/// The registers as they were loaded (DS13-17).
pub(super) struct Registers {
    pub asid: Asid,
    pub held: Held,
    /// The second set, for the kernel.
    pub kernel: One,
}

impl Registers {
    /// The translation of a data page by them; with the protection if it is known.
    pub fn translate(&self, vpn: Vpn) -> Option<(Pfn, Option<Attr>)> {
        self.held.translate(vpn).or_else(|| self.kernel.translate(vpn))
    }

    pub fn overlaps(&self, pages: &VpnRange) -> bool {
        self.held.overlaps(pages) || self.kernel.overlaps(pages)
    }
}

/// One set.
#[derive(Default)]
pub(super) struct One {
    pub segment: Option<Segment>,
    /// The one protection of the segment (DS13-10), as the page table has it; known once a page of it was looked up.
    pub attr: Option<Attr>,
}

impl One {
    pub fn new(segment: Option<Segment>) -> One {
        One { segment: segment.filter(|s| s.base < s.limit), attr: None }
    }

    pub fn translate(&self, vpn: Vpn) -> Option<(Pfn, Option<Attr>)> {
        self.segment.as_ref()?.translate(vpn).map(|pfn| (pfn, self.attr))
    }

    pub fn overlaps(&self, pages: &VpnRange) -> bool {
        self.segment.is_some_and(|s| VpnRange::between(s.base, s.limit).overlaps(pages))
    }

    /// Takes over the protection of a page, if the page is in the segment.
    pub fn note(&mut self, vpn: Vpn, attr: Attr) {
        if self.attr.is_none() && self.translate(vpn).is_some() {
            self.attr = Some(attr);
        }
    }
}

/// The contents of the program's registers.
pub(super) enum Held {
    One(One),
    Several {
        ranges: Vec<Range>,
        /// [`RangeTableView::version`] when they were loaded.
        version: u64,
    },
}

impl Held {
    /// The translation of a data page by them; with the protection of a single segment if it is known.
    pub fn translate(&self, vpn: Vpn) -> Option<(Pfn, Option<Attr>)> {
        match self {
            Held::One(one) => one.translate(vpn),
            Held::Several { ranges, .. } => {
                let found = ranges.iter().find(|range| range.contains(vpn))?.translate(vpn);
                Some((found.pfn, Some(found.attr)))
            }
        }
    }

    /// The guest writes its registers; returns the segments that the hypervisor composes.
    pub fn compose(&mut self, hypervisor: &mut Hypervisor) {
        match self {
            Held::One(One { segment, .. }) => *segment = hypervisor.guest_loads(segment.as_slice()).pop(),
            Held::Several { ranges, .. } => {
                let segment = |r: &Range| Segment { base: r.first, limit: Vpn(r.first.0 + r.pages), pfn: r.pfn };
                let composed = hypervisor.guest_loads(&ranges.iter().map(segment).collect::<Vec<_>>());
                ranges.retain_mut(|range| {
                    let found = composed.iter().find(|s| s.base == range.first);
                    range.pfn = found.map_or(range.pfn, |s| s.pfn);
                    found.is_some()
                });
            }
        }
    }

    pub fn overlaps(&self, pages: &VpnRange) -> bool {
        match self {
            Held::One(one) => one.overlaps(pages),
            Held::Several { ranges, .. } => ranges.iter().any(|range| range.virtual_pages().overlaps(pages)),
        }
    }
}
