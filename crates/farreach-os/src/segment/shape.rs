//! Changes of the segment of a process after an event: it shrinks, grows, moves, or is created (SEG-6 to SEG-10,
//! SEG-15).

use super::resize::{range, without};
use super::windows::{Eligible, Window};
use crate::labels::HEAP;
use crate::os::Os;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::Segment;
use std::cmp::Reverse;

impl Os {
    /// Shapes the segment of a process (SEG-6).
    pub(crate) fn shape_segment(&mut self, asid: Asid) {
        let Some(policy) = self.placement.segment_policy() else { return };
        let eligible = self.eligible(asid, policy);
        let primary = eligible.best(self.all_pages(), self.memory.pool.frames()).map_or(0, |window| window.covers);
        let admitted = self.admitted(asid, primary, policy);
        self.shrink(asid, &eligible);
        if let Some(segment) = self.spaces[asid.0 as usize].segment {
            let grown = self.growth(asid, &segment, &eligible);
            // SEG-9: eligible pages are compared with eligible pages. No window covers more than the primary region.
            let worth = 2 * eligible.covered(grown);
            let moves = admitted && primary > worth && self.best_without(&segment, &eligible) > worth;
            self.resize(asid, if moves { None } else { Some(grown) });
        }
        if admitted && self.spaces[asid.0 as usize].segment.is_none() {
            self.create(asid, &eligible);
        }
        self.note_use();
    }

    /// Shrinks the segment to its best window (SEG-7).
    fn shrink(&mut self, asid: Asid, eligible: &Eligible) {
        if let Some(segment) = self.spaces[asid.0 as usize].segment {
            self.resize(asid, eligible.best(range(&segment), u64::MAX).map(|window| window.range));
        }
    }

    /// Pages leave the segment, which keeps the best window outside them (SEG-15).
    pub(crate) fn leave_segment(&mut self, asid: Asid, pages: VpnRange) {
        let Some(policy) = self.placement.segment_policy() else { return };
        let Some(segment) = self.spaces[asid.0 as usize].segment.filter(|s| range(s).overlaps(&pages)) else { return };
        let eligible = self.eligible(asid, policy);
        let rest = without(range(&segment), pages).into_iter().filter_map(|part| eligible.best(part, u64::MAX));
        let kept = rest.max_by_key(Window::rank).map(|window| window.range);
        self.resize(asid, kept);
    }

    /// The segment as it can grow (SEG-8, DS13-21): page by page beyond its ends, as long as the next frame serves the
    /// next page, up to the last such page that is eligible.
    fn growth(&self, asid: Asid, s: &Segment, eligible: &Eligible) -> VpnRange {
        let frame = |vpn: Vpn| vpn.0.wrapping_sub(s.base.0).wrapping_add(s.pfn.0);
        let (mut base, mut limit) = (s.base, s.limit);
        let mut served = s.limit;
        for run in eligible.stretch_of(s.base).filter(|run| run.end() > s.limit) {
            served = self.served_up(asid, served, run.end(), frame);
            limit = if served > run.start { served } else { limit };
            if served < run.end() {
                break;
            }
        }
        served = s.base;
        for run in eligible.stretch_of(s.base).rev().filter(|run| run.start < s.base) {
            served = self.served_down(asid, served, run.start, frame);
            base = if served < run.end() { served } else { base };
            if served > run.start {
                break;
            }
        }
        VpnRange::between(base, limit)
    }

    /// From `from` on the first page that its frame cannot serve, `to` at most.
    fn served_up(&self, asid: Asid, from: Vpn, to: Vpn, frame: impl Fn(Vpn) -> u64) -> Vpn {
        let mut vpn = from;
        while vpn < to {
            match self.memory.pool.open_from(frame(vpn)) {
                0 if self.in_place(asid, vpn, frame(vpn)) => vpn.0 += 1,
                0 => break,
                open => vpn = Vpn(vpn.0 + open).min(to),
            }
        }
        vpn
    }

    /// Below `from` the lowest page up to which frames serve all pages, `to` at least.
    fn served_down(&self, asid: Asid, from: Vpn, to: Vpn, frame: impl Fn(Vpn) -> u64) -> Vpn {
        let mut vpn = from;
        while vpn > to {
            let next = Vpn(vpn.0 - 1);
            match self.memory.pool.open_before(frame(vpn)) {
                0 if self.in_place(asid, next, frame(next)) => vpn = next,
                0 => break,
                open => vpn = Vpn(vpn.0.saturating_sub(open)).max(to),
            }
        }
        vpn
    }

    /// Whether a page lies in this frame of the pool already, alone, and no segment has the frame.
    fn in_place(&self, asid: Asid, vpn: Vpn, frame: u64) -> bool {
        let entry = self.spaces[asid.0 as usize].table.get(vpn);
        let here = entry.is_some_and(|e| e.pfn.0 == frame && self.memory.mappings(e.pfn) == 1);
        here && self.memory.pool.unclaimed(frame)
    }

    /// Pages that a new segment would cover if this one were removed: used pages keep their frames (SEG-9).
    fn best_without(&self, segment: &Segment, eligible: &Eligible) -> u64 {
        let piece = self.memory.pool.pieces(Some(segment.pfn)).map(|(_, n)| n).max().unwrap_or(0);
        eligible.best(self.all_pages(), piece).map_or(0, |window| window.covers)
    }

    /// Creates a segment in the largest piece of the pool (SEG-10, DS13-15, DS13-16).
    fn create(&mut self, asid: Asid, eligible: &Eligible) {
        let largest = self.memory.pool.pieces(None).max_by_key(|&(first, n)| (n, Reverse(first)));
        let Some((first, n)) = largest else {
            self.segments.used.refused += 1;
            return;
        };
        let window = eligible.best(self.all_pages(), n).expect("an admitted process has eligible memory");
        let Window { range, covers } = window;
        let stretch: u64 = eligible.stretch_of(range.start).map(|run| run.pages).sum();
        self.segments.used.created += 1;
        self.segments.used.first_part += u64::from(covers < stretch);
        let region = self.region(asid, range.start);
        let heap = self.labels.name(region.label) == HEAP;
        let pfn = Pfn(if heap { first } else { first + n - range.pages });
        self.set(asid, Some(Segment { base: range.start, limit: range.end(), pfn }));
    }
}
