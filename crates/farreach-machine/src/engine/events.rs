//! Events of the stream, changes of the operating systems, switches of processes and threads, and their delivery to the
//! designs.

use super::super::SAMPLES;
use super::super::compiled::Compiled;
use super::super::filter;
use super::super::instance::{Group, TlbInstance};
use super::super::memory_profile::MemoryProfile;
use super::super::profile::Profile;
use super::{Counted, Engine, Moment, TICKS};
use farreach_hw::tlb::{FlushRequest, Tlb, Unfiltered};
use farreach_os::{Change, Os, What};
use farreach_types::Error;
use farreach_types::addr::{Asid, KERNEL, Vpn, VpnRange};
use farreach_types::event::{Boundary, Op};

impl Engine {
    /// Passes the changes of an operating system on to the designs of its group.
    #[inline]
    pub(super) fn follow(&mut self, g: usize) {
        if self.groups[g].os.has_changes() {
            self.follow_changes(g);
        }
    }

    fn follow_changes(&mut self, g: usize) {
        let group = &mut self.groups[g];
        group.os.take_changes(&mut self.changes);
        let (mask, k) = (group.mask(), group.order());
        for (at, change) in self.changes.iter().enumerate() {
            let request = request(&self.changes[at..]);
            for design in group.designs.clone() {
                let instance = &mut self.instances[design];
                if let Some(request) = request {
                    instance.each().for_each(|(tlb, _)| tlb.requested(request));
                }
                let os = &group.os;
                let unfiltered = match &self.mapped {
                    Some(_) => &mut self.unfiltered,
                    None => self.filter.report(k),
                };
                unfiltered.clear();
                let flushed = matches!(change.what, What::Flushed | What::FlushedEverywhere);
                self.flushed_space |= flushed && change.pages == group.os.programs_half();
                let before = if flushed { instance.invalidations() } else { 0 };
                for (tlb, sees) in instance.each() {
                    unfiltered.set_sides(sees);
                    tell(&mut **tlb, change, os, unfiltered);
                }
                let mut told = 1;
                if change.what != What::Flushed {
                    // Other processors. The filter has nothing of theirs.
                    told += instance.parked.iter().flatten().count() as u64;
                    instance.each_parked().for_each(|tlb| tell(&mut **tlb, change, os, &mut self.ignored_report));
                    self.ignored_report.clear();
                }
                if let Some(guest) = self.guest.as_mut().filter(|_| flushed) {
                    guest.flushed(design, told, instance.invalidations() - before);
                }
                if let Some(mapped) = &mut self.mapped {
                    mapped.unfilter(&self.unfiltered, k);
                } else if let Some(current) = self.current {
                    self.filter.unfilter(current, design, k);
                }
            }
            if change.what == What::Mapped {
                continue; // No TLB had them.
            }
            // Also for designs without these pages: the next reference must reach the operating system.
            if let Some(mapped) = &mut self.mapped {
                mapped.remove(change.asid, change.pages.finer(k));
                continue;
            }
            let kernels = self.guest.is_some() && change.asid == KERNEL;
            if self.current != Some(change.asid) && !kernels {
                continue;
            }
            if change.pages.pages <= filter::SLOTS as u64 >> k {
                change.pages.finer(k).iter().for_each(|vpn| self.filter.clear_page(vpn, mask, mask));
            } else {
                self.filter.clear();
            }
        }
    }

    /// Operating systems do the work of their own that is due, between two blocks or events (OSC-1).
    #[inline(never)]
    pub(super) fn keep_time(&mut self) {
        let now = self.tally.limit_count();
        for g in 0..self.groups.len() {
            self.work_until(g, now);
        }
        if self.designs_due <= now {
            self.designs_until(now);
        }
        self.set_boundary();
    }

    /// An operating system does its work that is due by then.
    pub(super) fn work_until(&mut self, g: usize, now: u64) {
        let Group { os, memory_profile, .. } = &mut self.groups[g];
        os.note_time(now);
        if os.due() <= now {
            memory_profile.before(self.tally.clock(), os);
            os.advance(now);
            self.follow(g);
        }
    }

    /// Designs do what they do at times of their own (OS-SHD-10).
    #[cold]
    fn designs_until(&mut self, now: u64) {
        for (design, instance) in self.instances.iter_mut().enumerate() {
            let unfiltered = self.filter.report(instance.order);
            unfiltered.clear();
            let mut worked = false;
            for (tlb, sees) in instance.each() {
                if let Some(design) = tlb.on_time().filter(|design| design.due() <= now) {
                    unfiltered.set_sides(sees);
                    design.advance(now, unfiltered);
                    worked = true;
                }
            }
            if let Some(current) = self.current.filter(|_| worked) {
                self.filter.unfilter(current, design, instance.order);
            }
        }
        self.designs_due = self.instances.iter_mut().map(TlbInstance::due).min().unwrap_or(u64::MAX);
    }

    /// Where the loop must stop next.
    pub(super) fn set_boundary(&mut self) {
        let systems = self.groups.iter().map(|g| g.os.due()).min().unwrap_or(u64::MAX);
        self.boundary = self.phase_end.min(systems).min(self.designs_due);
    }

    pub(super) fn op(&mut self, compiled: &mut Compiled, asid: Asid, op: &Op) -> Result<(), String> {
        match op {
            Op::Code { .. } => return Ok(()),
            Op::Pages => {
                // Its blocks do not say which load and store are of one instruction.
                self.tells_changes = false;
                return Ok(());
            }
            Op::Samples => return Err(SAMPLES.into()),
            _ => {}
        }
        if let Op::Boundary(boundary) = op {
            return self.pass(*boundary);
        }
        if let Op::Define { id, block } = op {
            return compiled.define(*id, block).map_err(|e| format!("block {id}: {e}"));
        }
        self.follow_op(asid, op)
    }

    /// A part of the run ends.
    #[cold]
    fn pass(&mut self, boundary: Boundary) -> Result<(), String> {
        if self.guest.is_some() {
            return Err("--warmup and --every are not for whole systems: counts by context would not be divided".into());
        }
        if boundary == Boundary::Counted {
            self.uncounted = false;
            let clock = self.tally.clock();
            self.instances.iter_mut().for_each(|instance| instance.profile = Profile::new(clock));
            self.groups.iter_mut().for_each(|group| group.memory_profile = MemoryProfile::new(clock));
        }
        let now = self.moment();
        self.marks.pass(boundary, now)
    }

    /// What was counted so far.
    pub fn moment(&self) -> Moment {
        Moment { tally: self.tally, machines: (0..self.instances.len()).map(|design| self.counted(design)).collect() }
    }

    /// What a design and its operating system counted so far.
    pub fn counted(&self, design: usize) -> Counted {
        let instance = &self.instances[design];
        let os = &self.groups[instance.group].os;
        Counted {
            tlb: instance.counts(),
            os: os.counts(),
            resident_bytes: os.in_use().resident << os.page_shift(),
            ..Counted::default()
        }
    }

    /// An event that is no definition.
    pub(super) fn follow_op(&mut self, asid: Asid, op: &Op) -> Result<(), String> {
        self.process_counts.follow(asid, op)?;
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes.op(asid, op, self.tally.time());
        }
        // Before the systems: what they say to the processor that runs is for the TLBs of that one.
        let whole_system = self.follow_guest(asid, op)?;
        for g in 0..self.groups.len() {
            let Group { os, memory_profile, designs } = &mut self.groups[g];
            memory_profile.before(self.tally.clock(), os);
            self.flushed_space = false;
            os.note_time(self.tally.limit_count());
            os.apply(asid, op);
            if let Some(e) = os.take_unserved() {
                let machine = self.instances[designs.start].name.clone();
                self.unserved = Some(Error::Simulation { machine, what: os.explain(e) });
            }
            if let Some(refusal) = os.refusal() {
                return Err(format!("{}: {refusal}", self.instances[designs.start].name));
            }
            self.follow(g);
            if self.flushed_space {
                self.count_kept(g);
            }
        }
        if !whole_system {
            self.follow_threads(asid, op);
        }
        self.ops += 1;
        // The consistency check takes time in proportion to memory: at first at every event, then at intervals.
        if cfg!(debug_assertions) && (self.ops < 1000 || self.ops.is_multiple_of(512)) {
            self.groups.iter().for_each(|g| g.os.check());
        }
        Ok(())
    }

    /// After a flush of an address space: what stays in the TLBs of the processor that runs.
    #[cold]
    pub(super) fn count_kept(&mut self, g: usize) {
        let Some(guest) = &mut self.guest else { return };
        for design in self.groups[g].designs.clone() {
            let tlbs = self.instances[design].each();
            guest.kept(design, tlbs.flat_map(|(tlb, _)| tlb.entries()).map(|entry| entry.asid));
        }
    }

    /// Threads of programs.
    fn follow_threads(&mut self, asid: Asid, op: &Op) {
        let before = self.running.of(asid);
        if let Some(thread) = self.running.follow(asid, op) {
            // The first to be named is the one that has been running.
            if before.is_some() {
                self.fetches.go_on((asid, before), (asid, Some(thread)));
            }
            self.run_thread(asid, thread);
        }
        self.fetches.follow(asid, self.running.of(asid), op);
    }

    pub(super) fn switch(&mut self, to: Asid) {
        if let Some(from) = self.current {
            self.read_counters(from, None, self.readers);
            self.fetches.go_on((from, self.running.of(from)), (to, self.running.of(to)));
        }
        self.turn_to(to);
        self.tell_switch(to);
        if let Some(thread) = self.running.of(to) {
            self.run_thread(to, thread);
        }
    }

    /// The filter has the pages of this address space from now on.
    pub(super) fn turn_to(&mut self, to: Asid) {
        self.flush_lookups(true);
        self.current = Some(to);
        self.filter.set_asid(to);
    }

    /// The designs learn of a switch.
    pub(super) fn tell_switch(&mut self, to: Asid) {
        for instance in &mut self.instances {
            self.unfiltered.clear();
            instance.each().for_each(|(tlb, _)| tlb.switch(to, &mut self.unfiltered));
            if let Some(mapped) = &mut self.mapped {
                mapped.unfilter(&self.unfiltered, instance.order);
            }
        }
    }

    /// Another thread of the running address space continues.
    fn run_thread(&mut self, asid: Asid, thread: u32) {
        if self.mapped.is_some() {
            return; // Nothing says which thread runs, and no machine that is driven by traps asks.
        }
        for (design, instance) in self.instances.iter_mut().enumerate() {
            let unfiltered = self.filter.report(instance.order);
            unfiltered.clear();
            instance.each().for_each(|(tlb, _)| tlb.thread(asid, thread, unfiltered));
            self.filter.unfilter(asid, design, instance.order);
        }
    }

    /// Passes the filtered lookups on to the designs. `forget`: empties the filter, too.
    pub fn flush_lookups(&mut self, forget: bool) {
        let lookups = self.filter.lookups(forget);
        if let Some(asid) = self.current {
            self.note_lookups(asid, &lookups);
        }
    }

    /// Makes room for the times of one more lookup or block.
    #[inline(always)]
    pub(super) fn make_room_for_times(&mut self) {
        if self.filter.room_for_times() < TICKS {
            self.restart_times();
        }
    }

    #[cold]
    fn restart_times(&mut self) {
        self.flush_lookups(false);
        self.filter.restart_times();
    }

    /// Passes these lookups on to the designs.
    pub fn note_lookups(&mut self, asid: Asid, lookups: &[(bool, Vpn, u64)]) {
        if self.skips {
            return;
        }
        for instance in &mut self.instances {
            instance.note_lookups(asid, lookups, self.groups[instance.group].os.has_local_tags());
        }
    }
}

/// The request to drop translations that the first of these changes begins, if it does (OS-SHD-6).
#[inline]
fn request(changes: &[Change]) -> Option<FlushRequest> {
    let is_request = |change: &Change| matches!(change.what, What::Stale | What::Demoted);
    let first = changes.first().filter(|first| is_request(first) && !first.flush.joins)?;
    let mut request = FlushRequest {
        asid: first.asid,
        pages: first.pages,
        order: first.flush.order,
        tables: first.flush.tables,
        unmapped: first.flush.unmapped,
    };
    for next in changes[1..].iter().take_while(|next| next.flush.joins) {
        request.pages = VpnRange::between(request.pages.start, next.pages.end());
        request.order = if request.order == next.flush.order { request.order } else { 0 };
        request.unmapped &= next.flush.unmapped;
    }
    Some(request)
}

/// Passes a change on to a TLB.
fn tell(tlb: &mut dyn Tlb, change: &Change, os: &Os, unfiltered: &mut Unfiltered) {
    match change.what {
        What::Stale | What::Flushed | What::FlushedEverywhere => {
            tlb.invalidate(change.asid, change.pages, unfiltered);
        }
        What::Demoted => tlb.demote(change.asid, change.pages, unfiltered),
        What::Gone => tlb.invalidate_space(change.asid, unfiltered),
        What::Segment => tlb.segment_changed(change.asid, unfiltered),
        What::Writable | What::Unaccessed | What::Promoted | What::Mapped => {}
    }
    match change.what {
        What::Stale => tlb.unmapped(change.asid, change.pages, os),
        What::Mapped | What::Promoted | What::Demoted => tlb.mapped(change.asid, change.pages, os),
        // What is flushed stays mapped.
        What::Gone | What::Segment | What::Writable | What::Unaccessed | What::Flushed | What::FlushedEverywhere => {}
    }
}
