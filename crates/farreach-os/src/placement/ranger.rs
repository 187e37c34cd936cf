//! Translation Ranger (RNG; Yan and others, ISCA 2019) over transparent huge pages: a daemon moves the pages of each
//! region to frames that follow each other from an anchor on. A frame that is in use is exchanged, so that no free
//! memory is needed.
//!
//! Where the rules are silent:
//!
//! * A range is kept until its first page is unmapped, moved or mapped anew. The first one begins with its region.
//! * A superpage moves as a whole, and to where nothing but free frames or one of the same size lies.
//! * Where no pair that differs from the anchor before can be had, pages stay where they are until one can.
//! * A superpage that lies in two regions, as advice leaves it, belongs to the first.
//! * A page that is mapped more than once does not move, nor does memory of the kernel.
//! * Of the regions of a process `ranger_percentile` takes that part, rounded up: the largest, of equal ones the first.
//! * With `thp = never` there are no superpages, so nothing is rounded.

use super::contract::{CollapsePolicy, FrameRequest, Placement, PlacementKind};
use super::thp::{ALLOCATOR, EVERY, GROUPS, NONE, SHMEM, SHMEM_SIZE, SIZE, SIZES, THP, THP_KIND, order};
use crate::background::TICKS_PER_MS;
use crate::background::contract::Daemon;
use crate::compaction::mover::Owners;
use crate::labels::KERNEL;
use crate::memory::Memory;
use crate::os::Os;
use crate::page_table::entry::Run;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
use std::collections::BTreeMap;

const PERIOD: Key = Key {
    name: "ranger_period_ms",
    default: "5000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "milliseconds from one run of the daemon to the next (RNG-1); see ticks_per_ms",
};
const PERCENTILE: Key = Key {
    name: "ranger_percentile",
    default: "100",
    allowed: Allowed::Int { min: 1, max: 100 },
    about: "the largest regions of a process that it works on, in percent of their number (RNG-1)",
};

/// Registry entry.
pub const RANGER: PlacementKind = PlacementKind {
    name: "ranger",
    about: "as thp, and a daemon that moves and exchanges pages so that regions lie in one piece (Translation Ranger)",
    keys: &[
        &PERIOD,
        &PERCENTILE,
        &TICKS_PER_MS,
        &THP,
        &SIZE,
        &SIZES,
        &EVERY,
        &GROUPS,
        &NONE,
        &SHMEM,
        &SHMEM_SIZE,
        &ALLOCATOR,
    ],
    build,
};

struct Ranger {
    thp: Box<dyn Placement>,
    daemon: Option<Defrag>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let thp = (THP_KIND.build)(params)?;
    let largest = order(params, &SIZE, params.int(SIZE.name))?;
    let order = if params.text(THP.name) == "never" { 0 } else { largest };
    let period = params.int(PERIOD.name).saturating_mul(params.int(TICKS_PER_MS.name));
    let percentile = params.int(PERCENTILE.name);
    let daemon = Defrag { order, period, percentile, due: period, ranges: BTreeMap::new(), tally: Tally::default() };
    Ok(Box::new(Ranger { thp, daemon: Some(daemon) }))
}

impl Placement for Ranger {
    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        self.daemon.take().into_iter().map(|daemon| Box::new(daemon) as Box<dyn Daemon>).collect()
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.thp.allocate(memory, request)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        self.thp.superpage_orders(memory, region, request, advice)
    }

    fn merges_neighbours(&self) -> bool {
        self.thp.merges_neighbours()
    }

    fn reuses_superpages(&self, order: u8) -> bool {
        self.thp.reuses_superpages(order)
    }

    fn collapse_policy(&self) -> Option<CollapsePolicy> {
        self.thp.collapse_policy()
    }
}

/// A page and a frame, rounded down to a superpage, from which the places of a range follow (RNG-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Anchor {
    vpn: Vpn,
    pfn: Pfn,
}

impl Anchor {
    /// Where a page belongs. `None`: there is no such frame.
    fn place(&self, vpn: Vpn) -> Option<Pfn> {
        (self.pfn.0 + vpn.0).checked_sub(self.vpn.0).map(Pfn)
    }
}

#[derive(Default)]
struct Tally {
    runs: u64,
    ranges: u64,
    in_place: u64,
    copied: u64,
    exchanged: u64,
    failed: u64,
    promoted: u64,
}

/// The daemon.
struct Defrag {
    /// log2 of the base pages of a superpage; 0: there are none.
    order: u8,
    period: u64,
    percentile: u64,
    due: u64,
    /// The anchors of ranges, by process and first page. A range lasts to the next one, or to the end of the region.
    ranges: BTreeMap<(Asid, Vpn), Anchor>,
    tally: Tally,
}

impl Defrag {
    /// RNG-1: the regions of a process in order. Files have none, and shared memory must be aligned.
    fn regions(&self, os: &Os, asid: Asid) -> Vec<Region> {
        let aligned = |region: &Region| {
            region.range.start.offset_in(self.order.into()) == region.first_page & ((1 << self.order) - 1)
        };
        let fits = |region: &&Region| {
            let object = os.memory.objects.get(region.object);
            !object.kind.is_file() && !os.is_kernel(region) && (object.private || aligned(region))
        };
        let mut all: Vec<Region> = os.spaces[asid.0 as usize].regions.iter().filter(fits).cloned().collect();
        let most = (all.len() as u64 * self.percentile).div_ceil(100) as usize;
        all.sort_by_key(|region| (std::cmp::Reverse(region.range.pages), region.range.start));
        all.truncate(most);
        all.sort_by_key(|region| region.range.start);
        all
    }

    /// RNG-3: moves a page, or a superpage, to its place. False: it cannot.
    fn settle(&mut self, os: &mut Os, owners: &mut Owners, asid: Asid, pages: VpnRange, to: Pfn) -> bool {
        let from = os.spaces[asid.0 as usize].table.get(pages.start).expect("it is mapped").pfn;
        let frames = |first: Pfn| (first.0..first.0 + pages.pages).zip(0..);
        let is_at = |owners: &Owners, first: Pfn, (asid, vpn): (Asid, Vpn)| {
            frames(first).all(|(frame, i)| owners.get(&frame) == Some(&(asid, Vpn(vpn.0 + i))))
        };
        if from == to {
            self.tally.in_place += pages.pages;
            return true;
        }
        if !to.0.is_multiple_of(pages.pages) || !is_at(owners, from, (asid, pages.start)) {
            return false;
        }
        let there = owners.get(&to.0).copied();
        let order_at = |(asid, vpn): (Asid, Vpn)| {
            let order = os.spaces[asid.0 as usize].table.get(vpn).expect("owners are mapped").order;
            (vpn.offset_in(order.into()) == 0).then_some(1 << order)
        };
        let foreign = pages.pages == 1 && os.memory.others().contains(to.0);
        if os.memory.alloc.take(to, pages.pages) {
            os.move_run(asid, pages, to);
            os.memory.release_freed();
            frames(from).for_each(|(frame, _)| _ = owners.remove(&frame));
            self.tally.copied += pages.pages;
        } else if foreign || there.is_some_and(|it| order_at(it) == Some(pages.pages) && is_at(owners, to, it)) {
            os.exchange(asid, pages, there, to);
            for (frame, i) in frames(from) {
                match there {
                    Some((other, vpn)) => owners.insert(frame, (other, Vpn(vpn.0 + i))),
                    None => owners.remove(&frame),
                };
            }
            if let Some((other, _)) = there.filter(|(other, _)| *other != asid) {
                os.sync_ranges(other);
            }
            self.tally.exchanged += pages.pages;
        } else {
            return false;
        }
        frames(to).for_each(|(frame, i)| _ = owners.insert(frame, (asid, Vpn(pages.start.0 + i))));
        true
    }

    /// RNG-2 and RNG-3 for a region: its pages upwards.
    fn defragment(&mut self, os: &mut Os, owners: &mut Owners, asid: Asid, region: &Region) {
        let order = self.order;
        let round = |at: u64| at >> order << order;
        let mut unseen = region.range.start;
        // Where the next range begins, and the anchor that it must not have.
        let (mut anchor, mut fresh) = (None, Some((unseen, None)));
        for at in os.spaces[asid.0 as usize].table.mapped_in(region.range) {
            let entry = os.spaces[asid.0 as usize].table.get(at).expect("just listed");
            // What begins in the region before was there.
            if at.offset_in(entry.order.into()) > 0 {
                continue;
            }
            let pages = VpnRange { start: at, pages: 1 << entry.order };
            // A range that was kept may begin inside of the superpage before this page.
            if let Some((_, kept)) = self.ranges.range((asid, unseen)..=(asid, at)).next_back() {
                (anchor, fresh) = (Some(*kept), None);
            }
            unseen = Vpn(at.0 + 1);
            if let Some((first, before)) = fresh {
                let new = Anchor { vpn: Vpn(round(at.0)), pfn: Pfn(round(entry.pfn.0)) };
                if Some(new) == before {
                    self.tally.failed += pages.pages;
                    continue;
                }
                (anchor, fresh) = (Some(new), None);
                self.ranges.insert((asid, first), new);
                self.tally.ranges += 1;
            }
            let place = anchor.and_then(|anchor: Anchor| anchor.place(at));
            if !place.is_some_and(|to| self.settle(os, owners, asid, pages, to)) {
                self.tally.failed += pages.pages;
                fresh = Some((pages.end(), anchor));
            }
        }
    }

    /// RNG-4: superpages whose pages lie in order are promoted.
    fn promote_whole(&mut self, os: &mut Os, asid: Asid, region: &Region) {
        if self.order == 0 {
            return;
        }
        let pages = 1 << self.order;
        let first = region.range.start.0.next_multiple_of(pages);
        for start in (first..region.range.end().0.saturating_sub(pages - 1)).step_by(pages as usize).map(Vpn) {
            let runs = os.spaces[asid.0 as usize].table.runs_in(VpnRange { start, pages });
            let whole = runs.first().filter(|run| run.entry.order < self.order).is_some_and(|first| {
                let in_order = |run: &Run| run.entry.pfn.0.wrapping_sub(first.entry.pfn.0) == run.first.0 - start.0;
                runs.iter().map(|run| run.pages).sum::<u64>() == pages && runs.iter().all(in_order)
            });
            if whole {
                self.promote(os, asid, start, region);
            }
        }
    }

    fn promote(&mut self, os: &mut Os, asid: Asid, vpn: Vpn, region: &Region) {
        if os.may_collapse(asid, region, self.order) {
            let before = os.memory.counts.promotions;
            os.try_promotion(asid, vpn, region, self.order.into());
            self.tally.promoted += os.memory.counts.promotions - before;
        }
    }
}

impl Os {
    /// RNG-3: the pages that move, or make room. Memory of the kernel is pinned.
    fn movable_pages(&self) -> Owners {
        let mut owners = self.owners(self.memory.alloc.total().unwrap_or(u64::MAX));
        for space in &self.spaces {
            for region in space.regions.iter().filter(|region| self.is_kernel(region)) {
                let entries = space.table.mapped_in(region.range).into_iter().filter_map(|vpn| space.table.get(vpn));
                entries.for_each(|entry| _ = owners.remove(&entry.pfn.0));
            }
        }
        owners
    }

    /// Whether memory is that of the kernel, which is pinned.
    pub(crate) fn is_kernel(&self, region: &Region) -> bool {
        self.labels.name(region.label) == KERNEL
    }
}

impl Daemon for Defrag {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.tally.runs += 1;
        let mut owners = os.movable_pages();
        for asid in (0..os.spaces.len() as u32).map(Asid) {
            for region in self.regions(os, asid) {
                self.defragment(os, &mut owners, asid, &region);
                self.promote_whole(os, asid, &region);
                os.sync_ranges(asid);
            }
        }
        self.due = now.saturating_add(self.period);
    }

    fn left(&mut self, asid: Asid, range: VpnRange) {
        self.ranges.retain(|(of, first), _| *of != asid || !range.contains(*first));
    }

    fn ended(&mut self, asid: Asid) {
        self.ranges.retain(|(of, _), _| *of != asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Tally { runs, ranges, in_place, copied, exchanged, failed, promoted } = self.tally;
        vec![
            ("ranger_runs", runs),
            ("ranger_in_place", in_place),
            ("copied_pages", copied),
            ("exchanged_pages", exchanged),
            ("ranger_failed_pages", failed),
            ("ranger_promotions", promoted),
            ("ranger_ranges", ranges),
        ]
    }
}

#[cfg(test)]
mod tests;
