//! Which memory of a process may lie in a direct segment, and which of it is best (SEG-1 to SEG-5, DS13-10 to DS13-14).

use crate::labels::HEAP;
use crate::os::Os;
use crate::placement::contract::SegmentPolicy;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Prot;
use std::cmp::Reverse;
use std::sync::Arc;

/// A piece of a stretch that begins and ends with an eligible page (SEG-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// Where.
    pub range: VpnRange,
    /// Its eligible pages.
    pub covers: u64,
}

impl Window {
    /// The best window has the largest rank (SEG-3).
    pub fn rank(&self) -> (u64, Reverse<u64>, Reverse<Vpn>) {
        (self.covers, Reverse(self.range.pages), Reverse(self.range.start))
    }
}

/// Eligible pages that follow each other.
#[derive(Debug)]
struct Run {
    pages: VpnRange,
    /// Eligible pages in the runs before it.
    before: u64,
    /// The number of its stretch.
    stretch: usize,
}

/// The eligible memory of an address space.
#[derive(Debug, Default)]
pub(super) struct Eligible {
    /// Ascending. Neighbours in one stretch are one run.
    runs: Vec<Run>,
    /// The first run of each stretch (SEG-2).
    stretches: Vec<usize>,
}

impl Eligible {
    /// Adds the pages of a region. `parted`: something that is not eligible lies between it and the region before.
    fn add(&mut self, pages: VpnRange, parted: bool, over_holes: bool) {
        let last = self.runs.last_mut().filter(|_| !parted);
        let adjacent = last.as_ref().is_some_and(|last| last.pages.end() == pages.start);
        match last {
            Some(last) if adjacent => last.pages.pages += pages.pages,
            last => {
                if last.is_none() || !over_holes {
                    self.stretches.push(self.runs.len());
                }
                let before = self.runs.last().map_or(0, |last| last.before + last.pages.pages);
                self.runs.push(Run { pages, before, stretch: self.stretches.len() - 1 });
            }
        }
    }

    /// The runs of a stretch.
    fn runs_of(&self, stretch: usize) -> &[Run] {
        let end = self.stretches.get(stretch + 1).copied().unwrap_or(self.runs.len());
        &self.runs[self.stretches[stretch]..end]
    }

    /// Eligible pages below a page.
    fn below(&self, vpn: Vpn) -> u64 {
        let after = self.runs.partition_point(|run| run.pages.start < vpn);
        let Some(run) = after.checked_sub(1).map(|i| &self.runs[i]) else { return 0 };
        run.before + run.pages.pages.min(vpn.0 - run.pages.start.0)
    }

    /// Eligible pages in a range.
    pub fn covered(&self, range: VpnRange) -> u64 {
        self.below(range.end()) - self.below(range.start)
    }

    /// The runs of the stretch in which an eligible page lies, ascending.
    pub fn stretch_of(&self, vpn: Vpn) -> impl DoubleEndedIterator<Item = VpnRange> {
        let after = self.runs.partition_point(|run| run.pages.start <= vpn);
        let stretch = self.runs[after.checked_sub(1).expect("the page is eligible")].stretch;
        self.runs_of(stretch).iter().map(|run| run.pages)
    }

    /// The best window inside a range that is at most `most` pages long (SEG-3).
    ///
    /// It begins with a run: moved down by a page, a window that begins inside one gains a page, loses one at most, and
    /// is lower.
    pub fn best(&self, within: VpnRange, most: u64) -> Option<Window> {
        let most = most.min(within.pages);
        let inside = self.runs.iter().filter(|run| run.pages.overlaps(&within));
        let windows = inside.filter_map(|run| {
            let up = VpnRange { start: run.pages.start.max(within.start), pages: most };
            self.trim(up.and(within), run.stretch)
        });
        windows.max_by_key(Window::rank)
    }

    /// The window in a range of a stretch, without the holes at its ends.
    fn trim(&self, range: VpnRange, stretch: usize) -> Option<Window> {
        let runs = self.runs_of(stretch);
        let low = runs.get(runs.partition_point(|run| run.pages.end() <= range.start))?;
        let high = runs.get(runs.partition_point(|run| run.pages.start < range.end()).checked_sub(1)?)?;
        let range = VpnRange::between(range.start.max(low.pages.start), range.end().min(high.pages.end()));
        (range.pages > 0).then(|| Window { range, covers: self.covered(range) })
    }
}

impl Os {
    /// Whether a region may lie in a segment (SEG-1, DS13-12).
    fn is_eligible(&self, region: &Region, policy: &SegmentPolicy) -> bool {
        let object = self.memory.objects.get(region.object);
        let stack = self.labels.is_stack_or_kernel(region.label);
        let memory = !object.kind.is_file() && object.private && region.prot == Prot::RW && !stack;
        memory && (!policy.heap_only || self.labels.name(region.label) == HEAP) && region.range.pages >= policy.least
    }

    /// The eligible memory of a process, in stretches (SEG-2).
    pub(super) fn eligible(&self, asid: Asid, policy: &SegmentPolicy) -> Eligible {
        let mut eligible = Eligible::default();
        let mut parted = true;
        for region in self.spaces[asid.0 as usize].regions.iter() {
            let fits = self.is_eligible(region, policy);
            if fits {
                eligible.add(region.range, parted, policy.eager);
            }
            parted = !fits;
        }
        eligible
    }

    /// Whether a process gets a segment (SEG-5, DS13-14). `covers`: pages of its primary region.
    pub(super) fn admitted(&self, asid: Asid, covers: u64, policy: &SegmentPolicy) -> bool {
        let space = &self.spaces[asid.0 as usize];
        let named = |program: &Arc<str>| {
            let name = program.rsplit('/').next().unwrap_or(program);
            policy.programs.iter().any(|p| **p == **program || p == name)
        };
        let wanted = if policy.programs.is_empty() {
            covers >= policy.admit.min(self.memory.pool.frames())
        } else {
            space.program.as_ref().is_some_and(named)
        };
        covers > 0 && wanted && space.paged_until_exit_of.is_empty()
    }

    /// A sample of the protection statistic (DS13-34).
    pub(crate) fn sample_protection(&mut self, asid: Asid) {
        let Some(policy) = self.placement.segment_policy() else { return };
        let all = SegmentPolicy { heap_only: false, least: 0, programs: Vec::new(), ..*policy };
        let regions = &self.spaces[asid.0 as usize].regions;
        let eligible = regions.iter().filter(|r| self.is_eligible(r, &all)).map(|r| r.range.pages).sum::<u64>();
        self.segments.used.mapped_page_samples += regions.pages();
        self.segments.used.read_write_page_samples += eligible;
    }
}
