//! Several cores, each with TLBs and segment registers of its own, over one page table (XC-7). The threads of the
//! program are assigned to the cores in the order in which they first run; the stream says which thread runs. Changes
//! by the operating system reach the other cores by shootdown: an interrupt to each core that may hold translations of
//! the process, which drops them as the sender does (RMM15-12, DS13-24). Other ways are in [`mechanisms`].
//!
//! The stream has one reference after the other, so a shootdown ends before the next. [`crate::shootdown`] models the
//! time while its messages are under way.
//!
//! Some things are there once: with `l2_shared` the second level ([`super::shared`]); the places of the page table in
//! memory, and the caches ([`crate::cache::Levels`]), which go with the port from core to core.

pub mod mechanisms;

use super::host::GUEST;
use super::numa;
use super::shared::sharers;
use super::walk::{by_caches, levels};
use crate::cache::Port;
use crate::tlb::contract::{
    Answer, Capabilities, EntryView, FlushRequest, Lookup, OnDemotion, OnMap, OnRequest, OnSegment, OnSwitch, OnThread,
    OnTime, Timed, Tlb,
};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mechanisms::{AtSwitch, Late, Mechanism, Plan, SHOOTDOWN};
use std::cell::OnceCell;

/// XC-7.
pub const CORES: Key = Key {
    name: "cores",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "cores with TLBs of their own, to which the threads of the program are dealt out; mappings change by \
            shootdown",
};
/// Assumed: as much as a trap that changes a mapping, on the core that sends and waits and on the one that is
/// interrupted together.
pub const IPI_CYCLES: Key = Key {
    name: "ipi_cycles",
    default: "2000",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles per interrupt that a shootdown sends to another core",
};

/// A design on as many cores as the keys say, each built by its number from 0 on; on one, the design itself.
pub(in crate::tlb) fn on_cores(
    params: &Params,
    build: impl Fn(&Params, usize, Option<(numa::Handle, u8)>) -> Result<Box<dyn Tlb>, String>,
) -> Result<Box<dyn Tlb>, String> {
    let cores = params.int(CORES.name);
    let guest = params.text(GUEST.name);
    let mechanism = mechanisms::build(params, cores)?;
    if cores == 1 && mechanism.is_none() {
        return build(params, 0, None);
    }
    if mechanism.is_some() && (guest != GUEST.default || sharers(params) > 1) {
        let with = if guest != GUEST.default { format!("guest = {guest}") } else { "l2_shared = true".into() };
        return Err(format!(
            "shootdown = {} is not allowed with {with}: it is defined for cores without a host that share no TLB \
             (OS-SHD-1); shootdown must be {}",
            params.text(SHOOTDOWN.name),
            SHOOTDOWN.default
        ));
    }
    if cores > 1 && by_caches(params) && guest != GUEST.default {
        return Err(format!(
            "cores = {cores} is not allowed with walk_cost = caches and guest = {guest}: where a host's tables lie is \
             defined for one core (HW-12); cores must be 1, guest none or walk_cost fixed"
        ));
    }
    let mut counts = TlbCounts::default();
    let numa = numa::Handle::new(params, levels(params), &mut counts)?;
    let core = |i: u64| {
        let node = numa.clone().map(|tables| (tables.clone(), tables.get().node(i as usize)));
        Ok(Core { tlb: build(params, i as usize, node)?, running: None })
    };
    let mut part = 0;
    if let Some(counters) = mechanisms::counters(params) {
        let names: Vec<_> = counters.iter().map(|counter| counter.name).collect();
        part = counts.parts.add(mechanisms::PART, &names);
    }
    Ok(Box::new(Cores {
        cores: (0..cores).map(core).collect::<Result<_, String>>()?,
        now: 0,
        threads: HashMap::default(),
        dealt: 0,
        current: HashMap::default(),
        may_hold: HashMap::default(),
        process_ids: params.flag(keys::PROCESS_IDS.name),
        mechanism,
        numa,
        plan: None,
        part,
        own: counts,
        ignored_report: Unfiltered::default(),
        sum: OnceCell::new(),
    }))
}

struct Core {
    tlb: Box<dyn Tlb>,
    /// The process it ran last.
    running: Option<Asid>,
}

/// See the module.
struct Cores {
    cores: Vec<Core>,
    /// The core that runs.
    now: usize,
    /// The core of each thread. `None` is the thread of a process that no event has named yet.
    threads: HashMap<(Asid, Option<u32>), usize, FixedState>,
    /// Threads that got a core so far.
    dealt: usize,
    /// The thread that runs, or ran last, in each process.
    current: HashMap<Asid, u32, FixedState>,
    /// Cores that may hold entries of a process, as bits: those that ran it. Without process ids, until they run
    /// another.
    may_hold: HashMap<Asid, u64, FixedState>,
    process_ids: bool,
    /// How other cores learn of changes, if not by interrupts to all that may hold entries.
    mechanism: Option<Box<dyn Mechanism>>,
    /// Where pages of page tables lie, if memory has nodes.
    numa: Option<numa::Handle>,
    /// What the mechanism has decided for the changes of this address space that come now.
    plan: Option<(FlushRequest, Plan)>,
    /// The place of the mechanism's counters.
    part: usize,
    /// What is not counted by a core.
    own: TlbCounts,
    /// Reports of cores that do not run. A process that continues on such a core starts with an empty filter.
    ignored_report: Unfiltered,
    /// Counts of all cores, cached until one of them changes.
    sum: OnceCell<TlbCounts>,
}

impl Cores {
    /// The core of the thread that runs in a process.
    fn core_of(&mut self, asid: Asid) -> usize {
        let thread = self.current.get(&asid).copied();
        let (dealt, cores) = (&mut self.dealt, self.cores.len());
        *self.threads.entry((asid, thread)).or_insert_with(|| {
            *dealt += 1;
            (*dealt - 1) % cores
        })
    }

    /// The process continues, on the core of its thread.
    fn run(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.sum.take();
        self.plan = None;
        let core = self.core_of(asid);
        let resumes = core != self.now || self.cores[core].running != Some(asid);
        if core != self.now {
            if let Some(timed) = self.timed() {
                timed.settle(unfiltered);
            }
            self.hand_over(core);
            // The filter holds what another core reported.
            unfiltered.add_all();
        }
        if self.cores[core].running != Some(asid) {
            // Not when the stream comes back to a core that ran on with the same process.
            self.serve(core, unfiltered);
            self.cores[core].running = Some(asid);
            self.cores[core].tlb.switch(asid, unfiltered);
            if !self.process_ids {
                self.may_hold.values_mut().for_each(|cores| *cores &= !(1 << core));
            }
        }
        *self.may_hold.entry(asid).or_default() |= 1 << core;
        if resumes {
            self.catch_up(core, asid, unfiltered);
        }
    }

    /// A core takes up a process: drops first what the mechanism says.
    fn catch_up(&mut self, core: usize, asid: Asid, unfiltered: &mut Unfiltered) {
        let Some(mechanism) = &mut self.mechanism else { return };
        let tags = mechanism.tags();
        let spaces = match mechanism.switch(core, asid) {
            AtSwitch::Nothing => return,
            AtSwitch::Space(of) => vec![of],
            AtSwitch::Everything => self.may_hold.keys().copied().collect(),
        };
        for of in spaces {
            self.cores[core].tlb.invalidate(of, VpnRange::ALL, unfiltered);
        }
        self.count(mechanisms::SPACE, tags);
        self.count(mechanisms::AT_SWITCH, 1);
    }

    /// A core drops what waits for it (OS-SHD-10).
    fn serve(&mut self, core: usize, unfiltered: &mut Unfiltered) {
        let Some(deferring) = self.mechanism.as_mut().and_then(|m| m.deferring()) else { return };
        let late = deferring.serve(core);
        late.into_iter().for_each(|late| self.drop_late(late, unfiltered));
    }

    /// Some cores drop what waited for them.
    fn drop_late(&mut self, Late { request, cores }: Late, unfiltered: &mut Unfiltered) {
        self.sum.take();
        let tags = self.mechanism.as_ref().map_or(1, |m| m.tags());
        let here = self.now;
        for (i, core) in self.cores.iter_mut().enumerate().filter(|(i, _)| cores >> i & 1 != 0) {
            let before = dropped(&*core.tlb);
            let report = if i == here { &mut *unfiltered } else { &mut self.ignored_report };
            core.tlb.invalidate(request.asid, request.pages, report);
            self.own.shootdown.remote_invalidations += dropped(&*core.tlb) - before;
        }
        self.ignored_report.clear();
        let times = tags * u64::from(cores.count_ones());
        match request.pages == VpnRange::ALL {
            true => self.count(mechanisms::SPACE, times),
            false => self.count(mechanisms::ENTRY, times * request.strides()),
        }
    }

    /// Pages are mapped whose drop still waits: the cores are interrupted now.
    fn drop_reused(&mut self, asid: Asid, pages: VpnRange) {
        let Some(deferring) = self.mechanism.as_mut().and_then(|m| m.deferring()) else { return };
        for late in deferring.reused(asid, pages) {
            self.own.shootdown.sent += 1;
            self.own.shootdown.ipis += u64::from((late.cores & !(1 << self.now)).count_ones());
            self.count(mechanisms::REUSED, 1);
            // No filter has what the running core drops: see `access`.
            self.drop_late(late, &mut Unfiltered::default());
        }
    }

    /// What the mechanism decides for a request; counts it.
    fn plan_for(&mut self, request: FlushRequest) -> Plan {
        let Some(mechanism) = &mut self.mechanism else { return Plan::default() };
        let plan = mechanism.request(&request, self.now);
        let interrupts = u64::from(plan.interrupted.count_ones());
        let tags = mechanism.tags();
        self.sum.take();
        self.own.shootdown.sent += u64::from(interrupts > 0);
        self.own.shootdown.ipis += interrupts;
        self.count(mechanisms::REQUESTS, 1);
        self.count(mechanisms::BROADCAST, plan.broadcasts);
        if plan.broadcasts == 0 {
            self.count(mechanisms::ENTRY, tags * u64::from(plan.pages.count_ones()) * request.strides());
            self.count(mechanisms::SPACE, tags * u64::from((plan.whole & !plan.unreachable).count_ones()));
        }
        if plan.deferred != 0 {
            self.count(mechanisms::LATE, 1);
        }
        if plan.is_crowded {
            self.count(mechanisms::CROWDED, 1);
        }
        plan
    }

    fn count(&mut self, place: usize, times: u64) {
        self.own.parts.at(self.part).counters.add(place, times);
    }

    /// This core runs from now on, with the port.
    fn hand_over(&mut self, core: usize) {
        let cores = self.cores.get_disjoint_mut([self.now, core]);
        let [from, to] = cores.expect("two cores").map(|core| core.tlb.port());
        if let (Some(from), Some(to)) = (from, to) {
            from.hand_over(to, core);
        }
        self.now = core;
    }

    /// A change for some pages of a process.
    fn change_pages(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        unfiltered: &mut Unfiltered,
        mut change: impl FnMut(&mut dyn Tlb, &mut Unfiltered),
    ) {
        if self.mechanism.is_none() {
            return self.shoot((asid, Some(pages)), unfiltered, change);
        }
        self.sum.take();
        let announced = self.plan.filter(|(request, _)| request.asid == asid);
        let plan = match announced {
            Some((_, plan)) => plan,
            // A change that was not announced is a request of its own.
            _ => self.plan_for(FlushRequest { asid, pages, order: 0, tables: false, unmapped: false }),
        };
        for (i, core) in self.cores.iter_mut().enumerate() {
            let report = if i == self.now { &mut *unfiltered } else { &mut self.ignored_report };
            let before = dropped(&*core.tlb);
            match plan.whole(i) {
                Some(true) => core.tlb.invalidate(asid, VpnRange::ALL, report),
                Some(false) => {
                    change(&mut *core.tlb, report);
                    // What lies between the changes of a request is dropped, too (OS-SHD-6).
                    if let Some((request, _)) = announced {
                        core.tlb.invalidate(asid, request.pages, report);
                    }
                }
                None => {}
            }
            if i != self.now {
                self.own.shootdown.remote_invalidations += dropped(&*core.tlb) - before;
            }
        }
        self.ignored_report.clear();
    }

    /// A change for a process: applied here, and by interrupt on the other cores that may hold its entries.
    /// `pages`: those that it concerns, if not all.
    fn shoot(
        &mut self,
        (asid, pages): (Asid, Option<VpnRange>),
        unfiltered: &mut Unfiltered,
        mut change: impl FnMut(&mut dyn Tlb, &mut Unfiltered),
    ) {
        self.sum.take();
        change(&mut *self.cores[self.now].tlb, unfiltered);
        let mut others = self.may_hold.get(&asid).map_or(0, |cores| cores & !(1 << self.now));
        if let (Some(numa), Some(pages)) = (&self.numa, pages)
            && let Some(cores) = numa.get().cores_with(asid, pages)
        {
            others &= cores;
        }
        if others == 0 {
            return;
        }
        self.own.shootdown.sent += 1;
        for (i, core) in self.cores.iter_mut().enumerate().filter(|(i, _)| others >> i & 1 != 0) {
            debug_assert_ne!(i, self.now);
            let before = dropped(&*core.tlb);
            change(&mut *core.tlb, &mut self.ignored_report);
            self.own.shootdown.ipis += 1;
            self.own.shootdown.remote_invalidations += dropped(&*core.tlb) - before;
        }
        self.ignored_report.clear();
    }
}

/// Number of translations and ranges dropped from a TLB.
fn dropped(tlb: &dyn Tlb) -> u64 {
    tlb.counts().invalidations + tlb.counts().range.invalidations
}

impl Tlb for Cores {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if self.cores[self.now].running != Some(at.asid) {
            self.run(at.asid, unfiltered);
        }
        self.sum.take();
        self.plan = None;
        let answer = self.cores[self.now].tlb.access(at, pte, table, unfiltered);
        // A page that is mapped anew makes this core drop the others of a record, which nobody reports then.
        let waits = self.mechanism.as_ref().is_some_and(|m| m.is_late(self.now, at.asid, VpnRange::ALL));
        Answer { filterable: answer.filterable && !waits, ..answer }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.change_pages(asid, pages, unfiltered, |tlb, unfiltered| tlb.invalidate(asid, pages, unfiltered));
    }

    /// No core is interrupted: none runs the process any more, and its id is not reused before all have dropped its
    /// entries.
    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.sum.take();
        for (i, core) in self.cores.iter_mut().enumerate() {
            let unfiltered = if i == self.now { &mut *unfiltered } else { &mut self.ignored_report };
            core.tlb.invalidate_space(asid, unfiltered);
        }
        self.ignored_report.clear();
        self.threads.retain(|(of, _), _| *of != asid);
        self.current.remove(&asid);
        self.may_hold.remove(&asid);
        self.plan = None;
        if let Some(mechanism) = &mut self.mechanism {
            mechanism.ended(asid);
            // What takes its number, after an exec say, is another process, which must be loaded.
            self.cores.iter_mut().filter(|core| core.running == Some(asid)).for_each(|core| core.running = None);
        }
        if let Some(numa) = &self.numa {
            numa.get().gone(asid);
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.cores[self.now].tlb.probe(asid, vpn, kind)
    }

    /// Core after core; slots go on in steps of 2^20. Without entries that a core must drop before the program can need
    /// them again: of processes, before it runs them, and of pages, before they are mapped.
    fn entries(&self) -> Vec<EntryView> {
        let pages = |e: &EntryView| VpnRange { start: e.base, pages: 1 << e.order };
        let is_late = |m: &dyn Mechanism, i, e: &EntryView| m.is_behind(i, e.asid) || m.is_late(i, e.asid, pages(e));
        let counts = |i: usize, e: &EntryView| self.mechanism.as_ref().is_none_or(|m| !is_late(&**m, i, e));
        let of = |(i, core): (usize, &Core)| {
            let valid = core.tlb.entries().into_iter().filter(|e| counts(i, e));
            valid.map(|e| EntryView { slot: e.slot + (i << 20), ..e }).collect::<Vec<_>>()
        };
        self.cores.iter().enumerate().flat_map(of).collect()
    }

    fn counts(&self) -> &TlbCounts {
        self.sum.get_or_init(|| {
            let mut sum = self.own.clone();
            self.cores.iter().for_each(|core| sum += core.tlb.counts());
            if let Some(numa) = &self.numa {
                numa.get().count_into(&mut sum);
            }
            sum
        })
    }
}

impl Capabilities for Cores {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn on_thread(&mut self) -> Option<&mut dyn OnThread> {
        Some(self)
    }
    fn on_segment(&mut self) -> Option<&mut dyn OnSegment> {
        Some(self)
    }
    fn on_request(&mut self) -> Option<&mut dyn OnRequest> {
        if self.mechanism.is_some() || self.numa.is_some() { Some(self) } else { None }
    }
    fn on_map(&mut self) -> Option<&mut dyn OnMap> {
        let defers = self.mechanism.as_mut().is_some_and(|m| m.deferring().is_some());
        if self.numa.is_some() || defers { Some(self) } else { None }
    }
    fn on_time(&mut self) -> Option<&mut dyn OnTime> {
        if self.mechanism.as_mut()?.deferring().is_some() { Some(self) } else { None }
    }
    fn port(&mut self) -> Option<&mut Port> {
        self.cores[self.now].tlb.port()
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        self.cores[self.now].tlb.timed() // lookups are those of the core that runs
    }
}

impl OnRequest for Cores {
    fn requested(&mut self, request: FlushRequest) {
        if let Some(numa) = &self.numa {
            numa.get().requested(request.tables);
        }
        if self.mechanism.is_none() {
            return;
        }
        let plan = self.plan_for(request);
        self.plan = Some((request, plan));
    }
}

/// Cores serve records at their ticks.
impl OnTime for Cores {
    fn due(&self) -> u64 {
        self.mechanism.as_ref().map_or(u64::MAX, |m| m.next_tick())
    }

    fn advance(&mut self, now: u64, unfiltered: &mut Unfiltered) {
        (0..self.cores.len()).for_each(|core| self.serve(core, unfiltered));
        if let Some(deferring) = self.mechanism.as_mut().and_then(|m| m.deferring()) {
            deferring.ticked(now);
        }
    }
}

/// Pages of the page table have nodes; pages may be mapped before all cores have dropped what was there.
impl OnMap for Cores {
    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.sum.take();
        self.drop_reused(asid, pages);
        if let Some(numa) = &self.numa {
            let mut numa = numa.get();
            let node = numa.node(self.now);
            numa.mapped(asid, pages, table, node);
        }
    }

    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.sum.take();
        if let Some(numa) = &self.numa {
            let mut numa = numa.get();
            let node = numa.node(self.now);
            numa.unmapped(asid, pages, table, node);
        }
    }
}

impl OnDemotion for Cores {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.change_pages(asid, pages, unfiltered, |tlb, unfiltered| tlb.demote(asid, pages, unfiltered));
    }
}

impl OnSwitch for Cores {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.run(to, unfiltered);
    }
}

impl OnThread for Cores {
    fn thread(&mut self, asid: Asid, thread: u32, unfiltered: &mut Unfiltered) {
        let before = self.current.insert(asid, thread);
        if before.is_none()
            && let Some(core) = self.threads.remove(&(asid, None))
        {
            self.threads.insert((asid, Some(thread)), core);
        }
        self.run(asid, unfiltered);
    }
}

impl OnSegment for Cores {
    fn segment_changed(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.shoot((asid, None), unfiltered, |tlb, unfiltered| tlb.segment_changed(asid, unfiltered));
    }
}
