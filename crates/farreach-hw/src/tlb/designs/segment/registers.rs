//! The contents of the segment registers.

use crate::nested::Hypervisor;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, KernelSegment, Range, Segment};

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

    pub fn depend_on(&self, pages: &VpnRange) -> bool {
        self.held.depends_on(pages) || self.kernel.depends_on(pages)
    }
}

/// One set.
#[derive(Default)]
pub(super) struct One {
    pub segment: Option<Segment>,
    /// The one protection of the segment (DS13-10), as the page table has it; known once a page of it was looked up, or
    /// if the kernel said so.
    pub attr: Option<Attr>,
    /// Whether the kernel said so. Then it also says when that changes.
    told: bool,
    /// Pages in it that are paged, ascending.
    paged: Vec<VpnRange>,
}

impl One {
    pub fn new(segment: Option<Segment>) -> One {
        One { segment: segment.filter(|s| s.base < s.limit), ..One::default() }
    }

    /// Registers for the direct map of a kernel.
    pub fn of_kernel(kernel: Option<KernelSegment>) -> One {
        let Some(KernelSegment { segment, attr, paged, .. }) = kernel else { return One::default() };
        One { attr, told: attr.is_some(), paged, ..One::new(Some(segment)) }
    }

    pub fn translate(&self, vpn: Vpn) -> Option<(Pfn, Option<Attr>)> {
        let pfn = self.segment.as_ref()?.translate(vpn)?;
        let before = self.paged.partition_point(|range| range.start <= vpn);
        let is_paged = before > 0 && self.paged[before - 1].contains(vpn);
        (!is_paged).then_some((pfn, self.attr))
    }

    /// Whether a change of the mappings of these pages may be one of its protection.
    pub fn depends_on(&self, pages: &VpnRange) -> bool {
        !self.told && self.segment.is_some_and(|s| VpnRange::between(s.base, s.limit).overlaps(pages))
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

    fn depends_on(&self, pages: &VpnRange) -> bool {
        match self {
            Held::One(one) => one.depends_on(pages),
            Held::Several { ranges, .. } => ranges.iter().any(|range| range.virtual_pages().overlaps(pages)),
        }
    }
}
