//! How changes of a page table reach the TLBs of several cores (OS-SHD-1 to OS-SHD-6, OS-SHD-8 to OS-SHD-10), as lists.
//! TLBs are large enough for all entries. Drops that wait for a tick are in `late`.
//!
//! * OL-1 A thread gets a core when it first runs, in turn. A switch to a process is one to the thread of it that ran
//!   last; if none has run yet, nothing happens before one does. All cores but the running one are idle with
//!   `other_cores = idle`, and keep their process loaded (lazy).
//! * OL-2 The requester is the running core, also for a process that another core has loaded. It is not interrupted. If
//!   it has not loaded the process, it does nothing.
//! * OL-3 What is dropped one by one is the range of the request, also what lies between its changes (OS-SHD-6). A
//!   change that nothing announced is part of the last announced request if that is of its process, and no lookup,
//!   switch or end came since. Otherwise it is a request of its pages, each a mapping of order 0.
//! * OL-4 An interrupt that finds a lazy core counts as one. The core has nothing loaded then, and flushes nothing: the
//!   next switch to the process does (OS-SHD-3).
//! * OL-5 The end of a process is no request (XC-7). It takes all its entries from all cores at no price. A core that
//!   had it loaded has nothing loaded. Its slots stay in turn. A process with the same number is another one.
//! * OL-6 A switch that flushes, also a slot that was empty, counts in `local_inval_all` and in `switch_flushes`. So
//!   does the return of a lazy core that is behind. Without process ids a core has one slot (OS-SHD-4).
//! * OL-7 Ids of `broadcast` are given at switches; one is the kernel's. When all are given, a new generation begins:
//!   processes that a core has loaded keep theirs, but that which this core leaves; each core drops everything at its
//!   next switch to another process, this one at once. Ids of ended processes are free in the next generation.
//! * OL-8 `broadcast_ranges`: one instruction for each scale of 2^16, 2^11, 2^6 and 2 mappings that the rest of the
//!   range has at least once and at most 32 times, and one for an odd mapping. 2^21 mappings are the whole process.
//! * OL-9 The request at which a process is looked at (OS-SHD-9) interrupts as before, and its cores are counted
//!   before. With it each core that is reached changes to the new id, by dropping all; on others the entries of the old
//!   id are out of reach, at no price. Slots that they had stay in turn.
//! * OL-18 With `kpti` each drop by a core itself counts for two tags (OS-SHD-5): `local_inval_entry` and
//!   `local_inval_all`. A switch that flushes is still one, and so is an instruction for all cores.

mod late;

use late::Record;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    Generations,
    Broadcast,
    GlobalIds,
    /// OS-SHD-10. All but unmaps are as with generations.
    Late,
}

/// Keys of the machine, by their names. `pcid_slots` is 1 without process ids.
#[derive(Clone, Debug)]
pub struct ShootdownConfig {
    pub mechanism: Mechanism,
    pub cores: usize,
    pub pcid_slots: usize,
    pub flush_ceiling: u64,
    pub idle: bool,
    pub space_ids: usize,
    pub broadcast_most: u64,
    pub broadcast_ranges: bool,
    pub broadcast_pages: u64,
    pub global_id_cores: usize,
    pub shd_consider: u64,
    /// With records: how many a core may have.
    pub latr_records: Option<usize>,
    pub latr_tick: u64,
    pub kpti: bool,
}

/// From the first page to the last of what changed in a process.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub asid: u32,
    pub first: u64,
    pub pages: u64,
    pub order: u8,
    pub tables: bool,
    /// The program gave the pages back.
    pub unmapped: bool,
}

impl Request {
    fn strides(&self) -> u64 {
        self.pages.div_ceil(1 << self.order)
    }

    /// Whether it concerns an entry of this size.
    fn hits(&self, page: u64, size: u8) -> bool {
        page < self.first + self.pages && self.first < page + (1 << size)
    }
}

/// Process, first page, order.
type Entry = (u32, u64, u8);

#[derive(Clone, Default)]
struct Core {
    entries: BTreeSet<Entry>,
    loaded: Option<u32>,
    /// Process and generation reached.
    slots: Vec<Option<(u32, u64)>>,
    next: usize,
    /// A new generation of ids has begun.
    drops_all: bool,
}

#[derive(Clone, Copy, Default)]
struct Process {
    /// One for each request.
    generation: u64,
    is_global: bool,
}

pub struct Shootdowns {
    config: ShootdownConfig,
    cores: Vec<Core>,
    pub now: usize,
    places: BTreeMap<(u32, u32), usize>,
    dealt: usize,
    last: BTreeMap<u32, u32>,
    processes: BTreeMap<u32, Process>,
    /// Processes with an id of `broadcast`, and how many ids are used up.
    ids: BTreeSet<u32>,
    used: usize,
    /// The last request, and which cores drop its range one by one, or with `true` all.
    joins: Option<(Request, Vec<Option<bool>>)>,
    records: Vec<Record>,
    next_tick: u64,
    /// `requests`, `local_inval_entry`, `local_inval_all`, `switch_flushes`, `broadcast_inval`, `ipis`. With records
    /// there are three for these.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Shootdowns {
    pub fn new(config: ShootdownConfig) -> Shootdowns {
        let core = Core { slots: vec![None; config.pcid_slots], ..Core::default() };
        let known = ["requests", "local_inval_entry", "local_inval_all", "switch_flushes", "broadcast_inval", "ipis"];
        let late = ["records", "records_refused", "records_forced"];
        let late = if config.latr_records.is_some() { late.as_slice() } else { &[] };
        Shootdowns {
            cores: vec![core; config.cores],
            records: Vec::new(),
            next_tick: config.latr_tick,
            config,
            now: 0,
            places: BTreeMap::new(),
            dealt: 0,
            last: BTreeMap::new(),
            processes: BTreeMap::new(),
            ids: BTreeSet::new(),
            used: 0,
            joins: None,
            counts: known.iter().chain(late).map(|name| (*name, 0)).collect(),
        }
    }

    fn count(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// OL-18.
    fn count_tags(&mut self, name: &'static str, n: u64) {
        self.count(name, if self.config.kpti { 2 * n } else { n });
    }

    fn process(&mut self, asid: u32) -> &mut Process {
        self.processes.entry(asid).or_default()
    }

    /// OL-1.
    pub fn switch(&mut self, asid: u32) {
        if let Some(&thread) = self.last.get(&asid) {
            self.thread(asid, thread);
        }
    }

    pub fn thread(&mut self, asid: u32, thread: u32) {
        self.joins = None;
        self.last.insert(asid, thread);
        let (dealt, cores) = (&mut self.dealt, self.config.cores);
        self.now = *self.places.entry((asid, thread)).or_insert_with(|| {
            *dealt += 1;
            (*dealt - 1) % cores
        });
        if self.cores[self.now].loaded != Some(asid) {
            self.serve_records(self.now);
        }
        let before = self.cores[self.now].loaded.replace(asid);
        match self.config.mechanism {
            Mechanism::Broadcast if before != Some(asid) => self.take_id(asid),
            Mechanism::Broadcast => {}
            _ => self.take_slot(asid),
        }
    }

    /// OS-SHD-3, OS-SHD-4, and OS-SHD-9 for a process with an id of all cores.
    fn take_slot(&mut self, asid: u32) {
        let Process { generation, is_global } = *self.process(asid);
        if is_global {
            return;
        }
        let core = &mut self.cores[self.now];
        let own = core.slots.iter().position(|slot| slot.is_some_and(|s| s.0 == asid));
        if own.is_some_and(|own| core.slots[own] == Some((asid, generation))) {
            return;
        }
        let place = own.unwrap_or(core.next);
        if own.is_none() {
            core.next = (core.next + 1) % core.slots.len();
        }
        let gone = core.slots[place].replace((asid, generation)).map(|s| s.0);
        // What has an id of all cores does not depend on its former slot.
        let lost = gone.filter(|of| !self.processes.get(of).is_some_and(|p| p.is_global));
        core.entries.retain(|e| Some(e.0) != lost);
        self.flushed_at_switch();
    }

    fn flushed_at_switch(&mut self) {
        self.count_tags("local_inval_all", 1);
        self.count("switch_flushes", 1);
    }

    /// OS-SHD-8.
    fn take_id(&mut self, asid: u32) {
        if !self.ids.contains(&asid) {
            if self.used == self.config.space_ids - 1 {
                let cores = &self.cores;
                self.ids.retain(|&id| cores.iter().any(|core| core.loaded == Some(id)));
                self.used = self.ids.len();
                self.cores.iter_mut().for_each(|core| core.drops_all = true);
            }
            self.ids.insert(asid);
            self.used += 1;
        }
        let core = &mut self.cores[self.now];
        if std::mem::take(&mut core.drops_all) {
            core.entries.clear();
            self.flushed_at_switch();
        }
    }

    /// Whether the running core had it.
    pub fn lookup(&mut self, asid: u32, first: u64, order: u8) -> bool {
        !self.cores[self.now].entries.insert((asid, first, order))
    }

    /// A lookup has reached the design.
    pub fn looked_up(&mut self) {
        self.joins = None;
    }

    /// Whether a change that nothing announces would be part of the last request.
    pub fn may_join(&self, asid: u32) -> bool {
        self.joins.as_ref().is_some_and(|(request, _)| request.asid == asid)
    }

    pub fn request(&mut self, request: Request) {
        let reached = self.serve(request);
        self.joins = Some((request, reached));
    }

    fn serve(&mut self, request: Request) -> Vec<Option<bool>> {
        self.count("requests", 1);
        let (asid, strides) = (request.asid, request.strides());
        let ShootdownConfig { flush_ceiling, broadcast_pages, broadcast_most, broadcast_ranges, .. } = self.config;
        if self.config.mechanism == Mechanism::Broadcast {
            let whole = strides >= if broadcast_ranges { 1 << 21 } else { broadcast_most };
            let instructions = if broadcast_ranges { by_ranges(strides) } else { strides };
            self.count("broadcast_inval", if whole { 1 } else { instructions });
            vec![Some(whole); self.cores.len()]
        } else if self.process(asid).is_global {
            let whole = strides > flush_ceiling;
            self.count("broadcast_inval", if whole { 1 } else { strides.div_ceil(broadcast_pages) });
            vec![Some(whole); self.cores.len()]
        } else {
            self.by_generation(request, strides)
        }
    }

    /// OS-SHD-1, OS-SHD-2, OS-SHD-9.
    fn by_generation(&mut self, request: Request, strides: u64) -> Vec<Option<bool>> {
        let ShootdownConfig { mechanism, shd_consider, global_id_cores, idle, flush_ceiling, .. } = self.config;
        let Request { asid, tables, .. } = request;
        self.process(asid).generation += 1;
        let (now, generation) = (self.now, self.process(asid).generation);
        let loaded: Vec<usize> = (0..self.cores.len()).filter(|&at| self.cores[at].loaded == Some(asid)).collect();
        let is_lazy = |at: usize| idle && at != now;
        let runs = loaded.iter().filter(|&&at| !is_lazy(at)).count() >= global_id_cores;
        let changes = mechanism == Mechanism::GlobalIds && generation % shd_consider == 0 && runs;
        let whole = changes || strides > flush_ceiling;
        let later = self.later(request, whole);
        let mut reached = vec![changes.then_some(true); self.cores.len()];
        for at in loaded.into_iter().filter(|&at| !is_lazy(at) || tables) {
            let waits = later.contains(&at);
            self.count("ipis", u64::from(at != now && !waits));
            let core = &mut self.cores[at];
            if is_lazy(at) {
                core.loaded = None;
                continue;
            }
            core.slots.iter_mut().flatten().filter(|s| s.0 == asid).for_each(|s| s.1 = generation);
            if waits {
                continue;
            }
            reached[at] = Some(whole);
            let (name, n) = if whole { ("local_inval_all", 1) } else { ("local_inval_entry", strides) };
            self.count_tags(name, n);
        }
        self.process(asid).is_global = changes;
        reached
    }

    /// These pages have changed: a part of a request, or one that nothing announced (OL-3).
    pub fn change(&mut self, asid: u32, first: u64, pages: u64) {
        let own = Request { asid, first, pages, order: 0, tables: false, unmapped: false };
        let (request, reached) = match &self.joins {
            Some((request, reached)) if request.asid == asid => (*request, reached.clone()),
            _ => (own, self.serve(own)),
        };
        for (core, whole) in self.cores.iter_mut().zip(reached) {
            let is_hit = |page: u64, size: u8| own.hits(page, size) || request.hits(page, size);
            core.entries.retain(|&(of, page, size)| of != asid || whole.is_none_or(|all| !all && !is_hit(page, size)));
        }
    }

    /// OL-5.
    pub fn end(&mut self, asid: u32) {
        self.joins = None;
        self.forget_records(asid);
        for core in &mut self.cores {
            core.entries.retain(|e| e.0 != asid);
            core.slots.iter_mut().filter(|slot| slot.is_some_and(|s| s.0 == asid)).for_each(|slot| *slot = None);
            if core.loaded == Some(asid) {
                core.loaded = None;
            }
        }
        self.places.retain(|place, _| place.0 != asid);
        self.last.remove(&asid);
        self.processes.remove(&asid);
        self.ids.remove(&asid);
    }

    /// Whether a core would use its entries of this process if it ran it now. Otherwise it drops them before.
    pub fn may_use(&self, core: usize, asid: u32) -> bool {
        let core = &self.cores[core];
        let Process { generation, is_global } = self.processes.get(&asid).copied().unwrap_or_default();
        match self.config.mechanism {
            Mechanism::Broadcast => core.loaded == Some(asid) || (!core.drops_all && self.ids.contains(&asid)),
            _ if is_global => true,
            _ => core.slots.contains(&Some((asid, generation))),
        }
    }

    /// Entries of a core that it may use, but those that it drops late.
    pub fn entries(&self, core: usize) -> BTreeSet<Entry> {
        let is_current = |e: &&Entry| self.may_use(core, e.0) && !self.is_late(core, **e);
        self.cores[core].entries.iter().filter(is_current).copied().collect()
    }
}

/// OL-8.
fn by_ranges(pages: u64) -> u64 {
    let (mut rest, mut instructions) = (pages, 0);
    for scale in [16, 11, 6, 1] {
        let times = (rest >> scale).min(32);
        rest -= times << scale;
        instructions += u64::from(times > 0);
    }
    instructions + rest
}
