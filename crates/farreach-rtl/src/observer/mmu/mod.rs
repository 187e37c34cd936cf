//! A hierarchy, with a module for each structure in it. The simulator's design is one object; what happened in its
//! parts follows from what it counted and from the entries it shows.

mod behind;
mod build;
mod held;
mod walkers;

use super::changes::Running;
use super::{Checker, Shared};
use crate::part::{Part, Stop};
use crate::request::{Expected, Op, Request};
use behind::{Clusters, Ranges, SegmentRegisters};
use farreach_hw::cache::Port;
use farreach_hw::tlb::{
    Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSegment, OnSwitch, Outcome, Tlb, Unfiltered,
};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};
use held::Held;
use std::ops::Range;
use walkers::{PageWalker, search};

/// The observer.
pub struct Mmu {
    tlb: Box<dyn Tlb>,
    structures: Structures,
    running: Running,
    shared: Shared,
    stopped: bool,
}

/// What has a module.
struct Structures {
    /// Data, fetch.
    l1: [Vec<Held>; 2],
    l2: Vec<Held>,
    /// Of fetches, if it is another.
    l2_fetch: Option<Vec<Held>>,
    clusters: Option<Clusters>,
    ranges: Option<Ranges>,
    /// Ranges are looked at before the first level.
    ranges_first: bool,
    segment: Option<SegmentRegisters>,
    walker: PageWalker,
    range_walker: Option<Part>,
}

/// Counters that tell what happened.
#[derive(Clone, Copy)]
struct Seen {
    second_level: u64,
    range_alone: u64,
    range_searches: u64,
    range_hits: u64,
    range_walks: u64,
    range_evictions: u64,
    walks: u64,
    reads: u64,
    evictions: u64,
}

impl Seen {
    fn of(counts: &TlbCounts) -> Seen {
        let range = &counts.range;
        Seen {
            second_level: counts.second_level_fetch_hits + counts.second_level_data_hits,
            range_alone: range.sole_hits,
            range_searches: range.mru_hits + range.full_searches,
            range_hits: range.hits,
            range_walks: range.walks,
            range_evictions: range.evictions,
            walks: counts.walk.walks,
            reads: counts.walk.references(),
            evictions: counts.evictions,
        }
    }

    fn since(self, before: Seen) -> Seen {
        Seen {
            second_level: self.second_level - before.second_level,
            range_alone: self.range_alone - before.range_alone,
            range_searches: self.range_searches - before.range_searches,
            range_hits: self.range_hits - before.range_hits,
            range_walks: self.range_walks - before.range_walks,
            range_evictions: self.range_evictions - before.range_evictions,
            walks: self.walks - before.walks,
            reads: self.reads - before.reads,
            evictions: self.evictions - before.evictions,
        }
    }
}

impl Structures {
    /// The second level of a side.
    fn second(&mut self, kind: Kind) -> &mut Vec<Held> {
        match &mut self.l2_fetch {
            Some(own) if kind == Kind::Fetch => own,
            _ => &mut self.l2,
        }
    }

    /// The slots of the first level of a side.
    fn first_level(&self, side: usize) -> Range<usize> {
        let arrays = &self.l1[side];
        let end = |array: &Held| array.first + array.part.shape().0;
        arrays.first().map_or(0, |array| array.first)..arrays.last().map_or(0, end)
    }

    fn arrays(&mut self) -> impl Iterator<Item = &mut Held> {
        self.l1.iter_mut().flatten().chain(&mut self.l2).chain(self.l2_fetch.iter_mut().flatten())
    }

    /// A lookup that ended so, while the design counted this.
    fn follow(
        &mut self,
        at: Lookup,
        pte: Pte,
        table: &dyn PageTableView,
        outcome: Outcome,
        seen: Seen,
        entries: impl FnOnce(Range<usize>) -> Vec<EntryView>,
    ) -> Result<(), Stop> {
        if let Some(segment) = &mut self.segment
            && segment.lookup(at, pte, table)?
        {
            return Ok(());
        }
        let range_hit = seen.range_hits > 0;
        if let Some(ranges) = self.ranges.as_mut().filter(|_| seen.range_searches > 0 && self.ranges_first) {
            ranges.lookup(at, pte, range_hit)?;
            if range_hit {
                return Ok(());
            }
        }
        let hit = outcome == Outcome::Hit && seen.second_level == 0 && seen.range_alone == 0;
        let side = usize::from(at.kind == Kind::Fetch);
        let mut hits = 0;
        for array in &mut self.l1[side] {
            hits += usize::from(array.lookup(at, pte)?);
        }
        if hits != usize::from(hit) {
            return Err(Stop::Failure(format!(
                "{at:?}: {hits} first-level arrays have it, the simulator says {outcome:?}"
            )));
        }
        if hit {
            return Ok(());
        }
        for array in self.second(at.kind) {
            array.lookup(at, pte)?;
        }
        if let Some(clusters) = &mut self.clusters {
            clusters.lookup(at, pte, seen.second_level > 0)?;
        }
        if let Some(ranges) = self.ranges.as_mut().filter(|_| seen.range_searches > 0 && !self.ranges_first) {
            ranges.lookup(at, pte, range_hit)?;
        }
        if seen.walks > 0 {
            self.walker.walk(at, pte, seen.reads as u32)?;
        }
        // A hit of the second level changes nothing but the first: listing all entries of a large machine at each takes
        // longer than its modules do.
        let first_only = seen.second_level > 0 && seen.walks == 0 && seen.range_walks == 0;
        let views = entries(if first_only { self.first_level(side) } else { 0..usize::MAX });
        if let Some(clusters) = self.clusters.as_mut().filter(|_| seen.walks > 0 && pte.order < 9) {
            clusters.fill(at, pte, table, &views, seen.evictions > 0)?;
        }
        if seen.range_walks > 0 {
            if let Some(walker) = &mut self.range_walker {
                search(walker, at, table)?;
            }
            if let Some(range) = table.ranges().walk(at.asid, at.vpn).found
                && let Some(ranges) = &mut self.ranges
            {
                ranges.fill(at.asid, &range, &views, seen.range_evictions > 0)?;
            }
        }
        if !first_only {
            for array in self.second(at.kind) {
                array.fill(at, pte, &views)?;
            }
        }
        let mut filled = 0;
        for array in &mut self.l1[side] {
            filled += usize::from(array.fill(at, pte, &views)?);
        }
        if filled != 1 {
            return Err(Stop::Failure(format!("{at:?}: {filled} first-level arrays were filled")));
        }
        Ok(())
    }

    /// From now on all parts keep what they are asked.
    fn keep(&mut self, table: &dyn PageTableView, views: &[EntryView]) {
        for array in self.arrays() {
            array.refresh(views);
            array.part.keep(array.contents(table));
        }
        if let Some(clusters) = &mut self.clusters {
            clusters.part.keep(clusters.contents(table, views));
        }
        if let Some(ranges) = &mut self.ranges {
            ranges.part.keep(ranges.contents(table, views));
        }
        if let Some(segment) = &mut self.segment {
            segment.keep();
        }
        self.walker.part.keep(Vec::new());
        self.range_walker.iter_mut().for_each(|walker| walker.keep(Vec::new()));
    }

    /// Mappings changed, or (`demoted`) superpages were split.
    fn drop_pages(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        demoted: bool,
        before: &[EntryView],
        now: &[EntryView],
    ) -> Result<(), Stop> {
        self.walker.forget(asid)?;
        for array in self.arrays().filter(|array| !demoted || array.order > 0) {
            array.drop_pages(asid, pages, now)?;
        }
        if let Some(clusters) = self.clusters.as_mut().filter(|_| !demoted) {
            clusters.drop_pages(asid, pages, before)?;
        }
        self.ranges.as_mut().map_or(Ok(()), |ranges| ranges.drop_pages(asid, pages, before))
    }

    /// An address space is gone, or (`None`) everything.
    fn drop_space(&mut self, asid: Option<Asid>, now: &[EntryView]) -> Result<(), Stop> {
        match asid {
            Some(asid) => self.walker.gone(asid)?,
            None => self.walker.forget_all()?,
        }
        for array in self.arrays() {
            array.drop_space(asid, now)?;
        }
        let request = match asid {
            Some(asid) => Request::new(Op::DropSpace, asid.0, 0),
            None => Request::new(Op::DropAll, 0, 0),
        };
        let behind = [self.clusters.as_mut().map(|c| &mut c.part), self.ranges.as_mut().map(|r| &mut r.part)];
        for part in behind.into_iter().flatten() {
            part.ask(&request, Expected::Done, None)?;
        }
        Ok(())
    }

    /// Every part, to be ended.
    fn parts(&mut self) -> Vec<&mut Part> {
        let Structures { l1, l2, l2_fetch, clusters, ranges, ranges_first: _, segment, walker, range_walker } = self;
        let arrays = l1.iter_mut().flatten().chain(l2).chain(l2_fetch.iter_mut().flatten()).map(|a| &mut a.part);
        let behind = [
            clusters.as_mut().map(|c| &mut c.part),
            ranges.as_mut().map(|r| &mut r.part),
            segment.as_mut().map(SegmentRegisters::part),
            Some(&mut walker.part),
            range_walker.as_mut(),
        ];
        arrays.chain(behind.into_iter().flatten()).collect()
    }
}

impl Mmu {
    /// Around the TLB of a machine.
    pub fn new(
        machine: &str,
        kind: &str,
        params: &Params,
        tlb: Box<dyn Tlb>,
        checker: &Checker,
    ) -> Result<Mmu, String> {
        Ok(Mmu {
            tlb,
            structures: build::structures(machine, kind, params, checker)?,
            running: Running::new(params.flag("process_ids")),
            shared: checker.shared.clone(),
            stopped: false,
        })
    }

    fn note(&mut self, what: Result<(), Stop>) {
        if let Err(why) = what {
            self.stopped = true;
            self.shared.stop(why);
        }
    }

    /// Nothing that the design does matters: the check is over, or has not begun.
    fn rests(&self) -> bool {
        self.stopped || !self.structures.walker.part.listens()
    }

    fn views(&self) -> Vec<EntryView> {
        if self.rests() { Vec::new() } else { self.tlb.entries() }
    }

    /// The design is told of a change of mappings.
    fn change(&mut self, asid: Asid, pages: VpnRange, demoted: bool, tell: impl FnOnce(&mut dyn Tlb)) {
        let before = self.views();
        tell(&mut *self.tlb);
        if !self.rests() {
            let now = self.views();
            let done = self.structures.drop_pages(asid, pages, demoted, &before, &now);
            self.note(done);
        }
    }
}

impl Tlb for Mmu {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if self.shared.keeps() && !self.structures.walker.part.keeps() && !self.stopped {
            self.structures.keep(table, &self.tlb.entries());
        }
        if self.rests() {
            return self.tlb.access(at, pte, table, unfiltered);
        }
        let before = Seen::of(self.tlb.counts());
        let answer = self.tlb.access(at, pte, table, unfiltered);
        let seen = Seen::of(self.tlb.counts()).since(before);
        let tlb = &self.tlb;
        let done = self.structures.follow(at, pte, table, answer.outcome, seen, |slots| tlb.entries_in(slots));
        self.note(done);
        answer
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.change(asid, pages, false, |tlb| tlb.invalidate(asid, pages, unfiltered));
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.tlb.invalidate_space(asid, unfiltered);
        if !self.rests() {
            let now = self.views();
            let done = self.structures.drop_space(Some(asid), &now);
            self.note(done);
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.tlb.probe(asid, vpn, kind)
    }
    fn entries(&self) -> Vec<EntryView> {
        self.tlb.entries()
    }
    fn counts(&self) -> &TlbCounts {
        self.tlb.counts()
    }
}

impl Capabilities for Mmu {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn on_segment(&mut self) -> Option<&mut dyn OnSegment> {
        self.tlb.on_segment()
    }
    fn port(&mut self) -> Option<&mut Port> {
        self.tlb.port()
    }
}

impl OnDemotion for Mmu {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.change(asid, pages, true, |tlb| tlb.demote(asid, pages, unfiltered));
    }
}

impl OnSwitch for Mmu {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.tlb.switch(to, unfiltered);
        if self.running.switch(to) && !self.rests() {
            let now = self.views();
            let done = self.structures.drop_space(None, &now);
            self.note(done);
        }
    }
}

impl Drop for Mmu {
    fn drop(&mut self) {
        for part in self.structures.parts() {
            self.shared.end(part);
        }
    }
}
