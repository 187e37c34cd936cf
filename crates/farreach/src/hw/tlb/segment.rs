//! A direct segment (DS13): registers that translate the data references inside [BASE, LIMIT), in front of a hierarchy for all the rest.

use super::hierarchy::{self, Hierarchy, KEYS, Paging, joined};
use super::walker::NodeRead;
use super::{Answer, Attr, Design, EntryView, Lookup, Noise, Outcome, PageTableView, Pte, Segment, Tlb, Translation};
use crate::addr::{Asid, Vpn, VpnRange};
use crate::counts::TlbCounts;
use crate::event::Kind;
use crate::params::{Allowed, Key, Params};

/// DS13-1 and DS13-25.
pub const SERVED_BY: Key = Key {
    name: "segment_served_by",
    default: "registers",
    allowed: Allowed::OneOf(&["registers", "pages"]),
    about: "what translates inside the segment: registers, or pages like all others, and their misses are counted apart",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "segment",
    about: "a direct segment in front of a hierarchy of page TLBs (DS13)",
    keys: &joined::<29>(&[&SERVED_BY], KEYS),
    build: |params| Ok(Box::new(SegmentTlb::new(params)?)),
    bits: |_| None,
    reach: hierarchy::DESIGN.reach, // of the page TLBs: a segment has no largest size
};

/// The registers as they were loaded (DS13-17).
#[derive(Clone, Copy)]
struct Registers {
    asid: Asid,
    segment: Option<Segment>,
    /// The one protection of the segment (DS13-10), as the page table has it; known once a page of it was looked up.
    attr: Option<Attr>,
}

/// The design. Lookups inside the segment do not reach the TLBs (AMB-65) and change nothing, so that they are quiet for good.
pub struct SegmentTlb {
    paging: Hierarchy<Paging>,
    /// `None`: to be loaded before the next lookup.
    registers: Option<Registers>,
    by_pages: bool,
}

impl SegmentTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<SegmentTlb, String> {
        Ok(SegmentTlb {
            paging: Hierarchy::new(params, Paging::new(params)?)?,
            registers: None,
            by_pages: params.text("segment_served_by") == "pages",
        })
    }

    /// The registers, loaded if another process runs or its segment changed.
    fn loaded(&mut self, asid: Asid, table: &dyn PageTableView) -> &mut Registers {
        let registers = self.registers.filter(|r| r.asid == asid);
        self.registers.insert(registers.unwrap_or_else(|| Registers { asid, segment: table.segment(asid), attr: None }))
    }
}

impl Tlb for SegmentTlb {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, noise: &mut Noise) -> Answer {
        // DS13-5, AMB-63: fetches are not served.
        let by_pages = self.by_pages;
        let registers = self.loaded(at.asid, table);
        let frame = registers.segment.filter(|_| at.kind != Kind::Fetch).and_then(|s| s.translate(at.vpn));
        let Some(frame) = frame else { return self.paging.answer(at, pte, table, noise) };
        debug_assert_eq!(frame, pte.pfn, "XC-3: {at:?}");
        if by_pages {
            let answer = self.paging.answer(at, pte, table, noise);
            self.paging.counts.segment.misses_inside += u64::from(answer.outcome != Outcome::Hit);
            return answer;
        }
        let attr = *registers.attr.get_or_insert(pte.attr);
        debug_assert_eq!(attr, pte.attr, "DS13-10: {at:?} has another protection than the segment");
        Answer { outcome: Outcome::Hit, quiet: true }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, noise: &mut Noise) {
        // Perhaps the protection of the segment changed.
        let inside = |s: Segment| VpnRange::between(s.base, s.limit).overlaps(&pages);
        if self.registers.is_some_and(|r| r.asid == asid && r.segment.is_some_and(inside)) {
            self.segment_changed(asid, noise);
        }
        self.paging.invalidate(asid, pages, noise);
    }

    fn demote(&mut self, asid: Asid, pages: VpnRange, noise: &mut Noise) {
        self.paging.demote(asid, pages, noise);
    }

    fn invalidate_space(&mut self, asid: Asid, noise: &mut Noise) {
        self.segment_changed(asid, noise);
        self.paging.invalidate_space(asid, noise);
    }

    fn switch(&mut self, to: Asid, noise: &mut Noise) {
        self.paging.switch(to, noise);
    }

    fn segment_changed(&mut self, asid: Asid, noise: &mut Noise) {
        if self.registers.is_some_and(|r| r.asid == asid) {
            self.registers = None;
        }
        noise.all();
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let registers = self.registers.filter(|r| !self.by_pages && kind != Kind::Fetch && r.asid == asid);
        if let Some(frame) = registers.and_then(|r| r.segment?.translate(vpn)) {
            return Some(Translation { pfn: frame, attr: registers?.attr? });
        }
        self.paging.probe(asid, vpn, kind)
    }

    /// Of the page TLBs; the registers are no entry.
    fn entries(&self) -> Vec<EntryView> {
        self.paging.entries()
    }

    fn counts(&self) -> &TlbCounts {
        self.paging.counts()
    }

    fn reads(&mut self) -> Option<&mut Vec<NodeRead>> {
        self.paging.reads()
    }
}
