//! What daemons that collapse base pages into superpages have in common: which groups qualify, and the work itself
//! (LNX-10 to LNX-13).

use crate::frames::numbers;
use crate::os::Os;
use crate::placement::contract::Effort;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// Which groups of pages are collapsed, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collapse {
    /// log2 of the base pages of the superpage.
    pub order: u8,
    /// Whether memory may be compacted for a block.
    pub compacts: bool,
    /// Most pages of a group that may be missing.
    pub missing: u64,
    /// Most pages of a group that other processes may map, too.
    pub shared: u64,
    /// Whether some page of a group must have been accessed.
    pub accessed: bool,
}

/// Work of a daemon, in base pages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    /// Page table entries looked at.
    pub scanned: u64,
    /// Groups that qualified, and for which there was no block.
    pub failed: u64,
    /// Copied, for the block, too.
    pub copied: u64,
    /// Filled with zeros.
    pub zeroed: u64,
}

/// What came of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It does not qualify.
    Unfit,
    /// It qualifies, and there is no block.
    NoBlock,
    /// It is a superpage now.
    Collapsed,
}

impl Collapse {
    /// Base pages of a group.
    pub fn pages(&self) -> u64 {
        1 << self.order
    }

    /// The group around a page.
    pub fn group(&self, at: Vpn) -> VpnRange {
        VpnRange { start: at.align_down(self.order.into()), pages: self.pages() }
    }

    /// Whether the group around a page lies in its region, whose memory may have superpages of this size.
    pub fn is_candidate(&self, os: &Os, asid: Asid, at: Vpn, region: &Region) -> bool {
        let group = self.group(at);
        group.and(region.range) == group && os.may_collapse(asid, region, self.order)
    }

    /// Whether a region has room for a superpage that it may have.
    pub fn has_room(&self, os: &Os, asid: Asid, region: &Region) -> bool {
        let first = Vpn(region.range.start.0.next_multiple_of(self.pages()));
        self.is_candidate(os, asid, first, region)
    }

    /// The region of a group, if it may be collapsed at all.
    pub fn region_of(&self, os: &Os, asid: Asid, first: Vpn) -> Option<Region> {
        let region = os.spaces.get(asid.0 as usize)?.regions.find(first)?;
        self.is_candidate(os, asid, first, region).then(|| region.clone())
    }

    /// The first group of a process from a page on that may be collapsed at all.
    pub fn next_group(&self, os: &Os, asid: Asid, from: Vpn) -> Option<(VpnRange, Region)> {
        let regions = &os.spaces.get(asid.0 as usize)?.regions;
        regions.from(from).filter(|region| os.may_collapse(asid, region, self.order)).find_map(|region| {
            let start = Vpn(from.max(region.range.start).0.next_multiple_of(self.pages()));
            let group = VpnRange { start, pages: self.pages() };
            (group.and(region.range) == group).then(|| (group, region.clone()))
        })
    }

    /// LNX-12: not empty, no superpage yet, few pages missing or shared, and one that was accessed. Pages of zeros are
    /// missing.
    pub fn qualifies(&self, os: &Os, asid: Asid, group: VpnRange) -> bool {
        let table = &os.spaces[asid.0 as usize].table;
        let mut entries: Vec<_> = table.mapped_in(group).into_iter().filter_map(|vpn| table.get(vpn)).collect();
        let small = entries.first().is_some_and(|first| first.order < self.order);
        entries.retain(|entry| !numbers::is_zeros(entry.pfn));
        let shared = entries.iter().filter(|e| os.memory.mappings(e.pfn) > 1).count() as u64;
        small
            && group.pages - entries.len() as u64 <= self.missing
            && shared <= self.shared
            && (!self.accessed || entries.iter().any(|entry| os.is_young(entry)))
    }

    /// LNX-13, if the group qualifies.
    pub fn look(&self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region, work: &mut Work) -> Outcome {
        work.scanned += group.pages;
        let outcome = self.attempt(os, asid, group, region, work);
        work.failed += u64::from(outcome == Outcome::NoBlock);
        outcome
    }

    /// As [`Collapse::look`], which counts what is scanned and what fails.
    pub fn attempt(&self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region, work: &mut Work) -> Outcome {
        if !self.qualifies(os, asid, group) {
            return Outcome::Unfit;
        }
        let effort = if self.compacts { Effort::Direct } else { Effort::Fail };
        // What it does in all, compaction for the block included.
        let before = (os.memory.counts.gathered_pages, os.memory.counts.zeroed_pages);
        let collapsed = os.collapse_group(asid, group, region, effort);
        os.sync_ranges(asid);
        work.copied += os.memory.counts.gathered_pages - before.0;
        work.zeroed += os.memory.counts.zeroed_pages - before.1;
        if collapsed { Outcome::Collapsed } else { Outcome::NoBlock }
    }
}
