//! Maintenance of ranges while pages are mapped, unmapped and changed (RMM15-20, RMM15-21).

use super::feedback::RangeUse;
use super::policy::Cow;
use super::process::{Ranges, Tally};
use crate::contract::What;
use crate::os::Os;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::Contiguity;
use farreach_types::translation::{Attr, Range};

impl Os {
    /// Pages were mapped.
    pub(crate) fn ranges_mapped(&mut self, asid: Asid, pages: VpnRange, pfn: Pfn, attr: Attr) {
        if let Some(policy) = &self.ranges {
            let ranges = self.spaces[asid.0 as usize].ranges.get_or_insert_with(|| Ranges::new(policy));
            ranges.runs.insert(pages.start, pages.pages, pfn, attr, false);
        }
    }

    /// Pages were unmapped.
    pub(crate) fn ranges_unmapped(&mut self, asid: Asid, pages: VpnRange) {
        self.keep_census(asid);
        if let Some(ranges) = &mut self.spaces[asid.0 as usize].ranges {
            ranges.runs.remove(pages);
        }
    }

    /// Before pages or superpages of a space become fewer.
    pub(crate) fn keep_census(&mut self, asid: Asid) {
        let space = &mut self.spaces[asid.0 as usize];
        if let Some(ranges) = &mut space.ranges {
            ranges.before_shrinking(&space.table);
        }
    }

    /// The entries of these mapped pages, ascending, have other frames or attributes than before.
    pub(crate) fn ranges_changed(&mut self, asid: Asid, pages: &[Vpn]) {
        let space = &mut self.spaces[asid.0 as usize];
        let Some(ranges) = &mut space.ranges else { return };
        for run in pages.chunk_by(|a, b| a.0 + 1 == b.0) {
            ranges.runs.remove(VpnRange { start: run[0], pages: run.len() as u64 });
            for &vpn in run {
                let entry = space.table.get(vpn).expect("it is mapped");
                ranges.runs.insert(vpn, 1, entry.pfn, entry.attr, false);
            }
        }
    }

    /// Ends a fault or an event: range table and hardware follow.
    #[inline]
    pub(crate) fn sync_ranges(&mut self, asid: Asid) {
        if self.ranges.is_some() {
            self.sync_space(asid);
        }
    }

    fn sync_space(&mut self, asid: Asid) {
        let (Some(policy), Some(space)) = (&self.ranges, self.spaces.get_mut(asid.0 as usize)) else { return };
        if let Some(ranges) = space.ranges.as_mut().filter(|r| r.runs.changed) {
            for pages in ranges.sync(policy, &mut self.range_tally) {
                self.change(asid, pages, What::Demoted);
            }
        }
    }

    /// Whether the system reads the processor's counters: see [`Os::counted`].
    #[inline]
    pub fn reads_counters(&self) -> bool {
        self.ranges.as_ref().is_some_and(|policy| policy.feedback)
    }

    /// Reads the counters of the processor, which count from the beginning. Their increase belongs to the process that
    /// runs (F-4). To be called after each page walk and before each switch to another process. These are points of the
    /// stream, so the result depends on nothing else.
    pub fn counted(&mut self, asid: Asid, total: RangeUse) {
        let more = total.since(std::mem::replace(&mut self.range_use, total));
        if let Some(ranges) = self.spaces.get_mut(asid.0 as usize).and_then(|space| space.ranges.as_mut()) {
            ranges.counted(more);
            self.sync_space(asid);
        }
    }

    /// The range a page lies in.
    pub(crate) fn range_of(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.spaces.get(asid.0 as usize)?.ranges.as_ref()?.find(vpn)
    }

    /// A range becomes pages (RMM15-29).
    pub(crate) fn dissolve(&mut self, asid: Asid, vpn: Vpn) {
        if self.range_of(asid, vpn).is_some() {
            self.range_tally.dissolved += 1;
            let ranges = self.spaces[asid.0 as usize].ranges.as_mut();
            ranges.expect("it has a range").runs.dissolve(vpn);
        }
    }

    /// The pages that a store to a copy-on-write page copies or takes over: itself, or all of its range (RMM15-30).
    pub(crate) fn pages_to_copy(&mut self, asid: Asid, vpn: Vpn) -> VpnRange {
        match self.ranges.as_ref().map(|policy| policy.cow) {
            Some(Cow::Dissolve) => self.dissolve(asid, vpn),
            Some(Cow::Copy) => {
                if let Some(range) = self.range_of(asid, vpn) {
                    return VpnRange { start: range.first, pages: range.pages };
                }
            }
            Some(Cow::Split) | None => {}
        }
        VpnRange::one(vpn)
    }

    /// Before a space loses all its pages: stores its census.
    pub(crate) fn ranges_end(&mut self, asid: Asid) {
        let space = &self.spaces[asid.0 as usize];
        if let Some(ranges) = &space.ranges {
            let census = ranges.census(&space.table);
            if census.pages > self.census.pages {
                self.census = census;
            }
        }
    }

    /// Contiguity of the address space that had most pages, when it had most (RMM15-43, RMM15-44), and the costs of
    /// ranges.
    pub fn contiguity(&self) -> Option<Contiguity> {
        self.ranges.as_ref()?;
        let live = self.spaces.iter().filter_map(|s| Some(s.ranges.as_ref()?.census(&s.table)));
        let most = live.fold(self.census.clone(), |most, c| if c.pages > most.pages { c } else { most });
        let Tally { inserted, removed, most: most_ranges, nodes, dissolved, threshold, moves, last } = self.range_tally;
        Some(Contiguity {
            table_inserted: inserted,
            table_removed: removed,
            most_ranges,
            table_bytes: nodes * super::node::NODE_BYTES,
            dissolved,
            threshold,
            threshold_moves: moves,
            last_threshold: last,
            ..most.found
        })
    }
}
