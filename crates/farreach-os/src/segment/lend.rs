//! Memory is full: unused frames of the pool become ordinary frames (SEG-16, DS13-22).

use super::resize::range;
use crate::os::Os;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use std::cmp::Reverse;

/// Frames lent at a time.
const LOAN: u64 = 512;

/// Order in which unused pages of segments are lent: at an end before inside, long runs first, then the process with
/// the lowest number, then the highest run.
type Turn = (bool, u64, Reverse<Asid>, Vpn);

impl Os {
    /// Moves some frames of the pool to the allocator, for good. False if none can be lent.
    pub(crate) fn lend_from_pool(&mut self) -> bool {
        if !self.placement.segment_policy().is_some_and(|p| p.lend) {
            return false;
        }
        if self.memory.pool.pieces(None).next().is_none() {
            let Some((asid, pages)) = self.unused_in_segments() else { return false };
            self.leave_segment(asid, pages);
        }
        let Some((first, n)) = self.memory.pool.pieces(None).last() else { return false };
        let loan = n.min(LOAN);
        self.segments.used.lent_pages += loan;
        for frame in first + n - loan..first + n {
            self.memory.pool.remove(Pfn(frame));
            self.memory.alloc.free(Pfn(frame));
        }
        true
    }

    /// The unused pages that leave a segment: of its longest unused end as many as are lent, or all of its longest
    /// hole.
    fn unused_in_segments(&self) -> Option<(Asid, VpnRange)> {
        let mut first: Option<(Turn, VpnRange)> = None;
        for (i, space) in self.spaces.iter().enumerate() {
            let Some(segment) = space.segment else { continue };
            let mut from = segment.base;
            let runs = space.table.runs_in(range(&segment));
            let used = runs.iter().map(|run| VpnRange { start: run.first, pages: run.pages });
            for run in used.chain([VpnRange { start: segment.limit, pages: 0 }]) {
                let unused = VpnRange::between(from, run.start);
                let (low, high) = (unused.start == segment.base, unused.end() == segment.limit);
                from = run.end();
                let turn = (low || high, unused.pages, Reverse(Asid(i as u32)), unused.start);
                if unused.pages == 0 || first.as_ref().is_some_and(|(best, _)| *best >= turn) {
                    continue;
                }
                let leaves = match (low, high) {
                    (_, true) => {
                        VpnRange::between(Vpn(unused.end().0.saturating_sub(LOAN)).max(unused.start), unused.end())
                    }
                    (true, false) => VpnRange { pages: unused.pages.min(LOAN), ..unused },
                    (false, false) => unused,
                };
                first = Some((turn, leaves));
            }
        }
        first.map(|((.., Reverse(asid), _), pages)| (asid, pages))
    }
}
