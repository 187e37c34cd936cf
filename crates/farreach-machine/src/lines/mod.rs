//! The loop of the machines that see every reference by cache line ([`farreach_hw::system`]).
//!
//! It expands the stream once for all of them: the operating system serves the faults in program order, references
//! become pieces of 16 bytes, and the collected pieces go as a *span* to each machine in turn. A span ends before
//! anything changes in the page table, so every machine sees the table as it was at each of its references.

mod fetches;
mod guest;
mod parts;
mod program;

use super::SAMPLES;
use super::guest::GuestRun;
use super::lifetimes::RegionLifetimes;
use super::marks::Marks;
use super::memory_profile::MemoryProfile;
use super::profile::{FIRST_SLICE, MAX_SLICES, Profile};
use super::tally::{Footprint, ProcessCounts, Progress, Tally, counter_of};
use super::threads::Threads;
use super::worker_pool::BatchEngine;
use farreach_hw::system::{Item, PIECE_SHIFT, System};
use farreach_os::{Change, Os, What};
use farreach_types::Error;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, owner};
use farreach_types::counts::{Lookups, SystemCounts, TlbCounts};
use farreach_types::event::{Batch, Block, Instr, Kind, NOT_EXECUTED, OP_BIT, Op, address_in, block_id};
use farreach_types::translation::{Attr, PageTableView};
use fetches::Fetches;
use program::{Crossings, Program, Shape, Step};
use std::ops::Range;

/// Most items in a span, which stays in the nearest caches of the host.
const SPAN: usize = 1 << 12;
/// Pages that [`ServedPages`] remembers, by kind.
const SERVED: usize = 1 << 10;

/// One machine, or a family of machines.
pub(super) struct SystemInstance {
    /// As the user wrote it; of a family, the first.
    pub name: String,
    pub system: Box<dyn System>,
    /// The references that needed a translation, over time and by region.
    pub profile: Profile,
    /// It is a TLB with caches: its misses are walks, which [`RegionLifetimes`] counts by region.
    pub walks: bool,
    /// Their number by kind: fetches, loads, stores.
    pub translated: [u64; 3],
    /// Its machines among those of the engine.
    pub members: Range<usize>,
}

impl SystemInstance {
    /// A machine without any counts. `walks`: it is a TLB with caches. `members`: its machines among those of the
    /// engine.
    pub fn new(name: String, system: Box<dyn System>, walks: bool, members: Range<usize>) -> SystemInstance {
        SystemInstance { name, system, profile: Profile::new(0), walks, translated: [0; 3], members }
    }

    /// Its counts, in terms of a TLB: a miss is a reference that needed a translation.
    pub fn translations(&self, counts: &SystemCounts) -> TlbCounts {
        let [fetch, load, store] = self.translated;
        TlbCounts {
            misses: fetch + load + store,
            fetch_misses: fetch,
            data_misses: load + store,
            load_misses: load,
            store_misses: store,
            tag_misses: fetch + load + store,
            fills: fetch + load + store,
            invalidations: counts.tlb_invalidations,
            ..TlbCounts::default()
        }
    }
}

/// Pages that the operating system has served, by kind of reference. Direct-mapped; a page that lost its slot is served
/// again.
struct ServedPages([[u64; SERVED]; 3]);

impl ServedPages {
    #[inline(always)]
    fn has(&self, vpn: u64, kind: Kind) -> bool {
        self.0[kind as usize][vpn as usize % SERVED] == vpn
    }
    fn add(&mut self, vpn: u64, kind: Kind) {
        self.0[kind as usize][vpn as usize % SERVED] = vpn;
    }
    fn clear(&mut self) {
        self.0 = [[u64::MAX; SERVED]; 3];
    }
}

/// See the module. All its machines run on one operating system.
pub(super) struct LineEngine {
    pub os: Os,
    pub instances: Vec<SystemInstance>,
    pub tally: Tally,
    pub footprint: Footprint,
    /// Lifetimes of regions, if a machine walks page tables.
    pub lifetimes: Option<RegionLifetimes>,
    pub process_counts: ProcessCounts,
    /// The running threads.
    threads: Threads,
    program: Program,
    /// Fetches, loads, stores.
    crossings: [Crossings; 3],
    served: Box<ServedPages>,
    span: Vec<Item>,
    fetches: Fetches,
    /// Number of lookups when the span, or its block, began.
    clock: u64,
    /// The span ends at this number of lookups, so that it lies in one slice of the timelines.
    slice_end: u64,
    slice: u64,
    /// Number of lookups where the first slice began.
    slices_from: u64,
    current: Option<Asid>,
    /// Whether it matters to the operating system if the instruction of a load also stores there.
    tells_changes: bool,
    /// The load under way is of an instruction that also stores there.
    changes_there: bool,
    /// Why an event could not be served.
    unserved: Option<Error>,
    /// What is known of a whole system, if the stream is one.
    pub guest: Option<Box<GuestRun>>,
    limit: u64,
    plain: bool,
    changes: Vec<Change>,
    /// Memory over time.
    pub memory_profile: MemoryProfile,
    /// The parts of the run.
    pub marks: Marks,
}

impl LineEngine {
    /// `limit`: instructions after which to stop. `plain`: reference by reference, nothing left out.
    pub fn new(os: Os, mut instances: Vec<SystemInstance>, limit: Option<u64>, plain: bool) -> LineEngine {
        let fetches = Fetches::new(&mut instances);
        let walks = instances.iter().any(|instance| instance.walks);
        LineEngine {
            tells_changes: os.has_pages_of_zeros(),
            os,
            lifetimes: walks.then(|| RegionLifetimes::new(instances.len())),
            instances,
            tally: Tally::default(),
            footprint: Footprint::default(),
            process_counts: ProcessCounts::default(),
            threads: Threads::default(),
            program: Program::default(),
            crossings: [Crossings::default(); 3],
            served: Box::new(ServedPages([[u64::MAX; SERVED]; 3])),
            span: Vec::with_capacity(SPAN + 64),
            // Blocks in steps leave out fetches that go on in the same piece.
            plain: plain || fetches.wanted(),
            fetches,
            clock: 0,
            slice_end: FIRST_SLICE,
            slice: FIRST_SLICE,
            slices_from: 0,
            current: None,
            changes_there: false,
            unserved: None,
            guest: None,
            limit: limit.unwrap_or(u64::MAX),
            changes: Vec::new(),
            memory_profile: MemoryProfile::new(0),
            marks: Marks::default(),
        }
    }

    /// First-level lines of `2^shift` bytes that fetches, and loads and stores, touched.
    pub fn accesses(&self, shift: u32) -> [u64; 2] {
        let r = &self.tally.references;
        let [fetch, load, store] = [0, 1, 2].map(|kind: usize| self.crossings[kind].at(shift));
        [r.fetch + fetch, r.load + r.store + load + store]
    }

    /// Passes the collected span to the machines.
    fn flush(&mut self) -> Result<(), Error> {
        if self.span.is_empty() {
            return Ok(());
        }
        let asid = self.current.expect("references belong to an address space");
        for (i, instance) in self.instances.iter_mut().enumerate() {
            instance.system.fetched(self.fetches.of_span());
            instance.system.run(asid, &self.span, &self.os);
            for item in instance.system.misses().drain(..) {
                // The page is served already: this only returns the name of the region.
                let touched = self
                    .os
                    .touch(owner(asid, item.vpn().0), item.vpn(), item.kind())
                    .map_err(|e| Error::Simulation { machine: instance.name.clone(), what: self.os.explain(e) })?;
                instance.translated[item.kind_index()] += 1;
                if self.marks.warming {
                    continue;
                }
                instance.profile.miss(self.clock, item.kind(), touched.label);
                if let Some(lifetimes) = self.lifetimes.as_mut().filter(|_| instance.walks) {
                    lifetimes.walk(asid, item.vpn().0, item.kind(), i);
                }
            }
        }
        debug_assert!(!self.os.has_changes(), "asking again changes nothing");
        self.span.clear();
        self.fetches.next_span();
        Ok(())
    }

    /// The operating system serves a page before its reference is passed on.
    #[inline(never)]
    fn serve(&mut self, asid: Asid, vpn: u64, kind: Kind) -> Result<(), Error> {
        let asid = owner(asid, vpn);
        let needs = match kind {
            Kind::Fetch => Attr::EXEC,
            Kind::Load => Attr::READ,
            Kind::Store => Attr::WRITE,
        };
        // Only a fault changes anything for the machines, or that a recorded system has come to an address space.
        let (pte, guest) = (self.os.pte(asid, Vpn(vpn)), self.guest.is_some());
        if guest || pte.is_none_or(|pte| pte.attr.0 & needs == 0) {
            self.flush()?;
        }
        if pte.is_none() && !guest {
            self.instances.iter_mut().for_each(|instance| instance.system.faulting(asid, Vpn(vpn)));
        }
        self.memory_profile.before(self.tally.lookups().total(), &self.os);
        let as_store = self.changes_there && kind == Kind::Load && pte.is_none();
        if let Err(e) = self.os.touch(asid, Vpn(vpn), if as_store { Kind::Store } else { kind }) {
            let machine = self.instances.first().map_or_else(String::new, |instance| instance.name.clone());
            return Err(Error::Simulation { machine, what: self.os.explain(e) });
        }
        self.footprint.insert(asid, vpn);
        self.follow()?;
        if vpn != NOT_EXECUTED >> BASE_SHIFT {
            self.served.add(vpn, kind);
        }
        Ok(())
    }

    /// Passes the changes of the operating system on to the machines.
    fn follow(&mut self) -> Result<(), Error> {
        if !self.os.has_changes() {
            return Ok(());
        }
        debug_assert!(self.span.is_empty(), "spans end before changes");
        self.os.take_changes(&mut self.changes);
        for change in &self.changes {
            for (design, instance) in self.instances.iter_mut().enumerate() {
                let before = instance.system.invalidations();
                match change.what {
                    What::Stale => instance.system.changed(change.asid, change.pages, &self.os),
                    What::Gone => instance.system.gone(change.asid),
                    What::Flushed | What::FlushedEverywhere => instance.system.flushed(change.asid, change.pages),
                    What::Demoted => instance.system.demoted(change.asid, change.pages),
                    What::Segment => instance.system.segment_changed(change.asid),
                    What::Writable | What::Unaccessed | What::Promoted | What::Mapped => {}
                }
                if matches!(change.what, What::Flushed | What::FlushedEverywhere) {
                    let dropped = instance.system.invalidations() - before;
                    self.guest.iter_mut().for_each(|guest| guest.flushed(design, 1, dropped));
                }
                if matches!(change.what, What::Mapped | What::Promoted | What::Demoted) {
                    instance.system.mapped(change.asid, change.pages, &self.os);
                }
            }
        }
        self.served.clear();
        Ok(())
    }

    /// One block of the usual kind.
    fn block(&mut self, asid: Asid, shape: &Shape, addrs: &[u64]) -> Result<(), Error> {
        let left_out = self.steps(asid, shape, addrs)?;
        let Tally { references, further, .. } = &mut self.tally;
        references.fetch += u64::from(shape.instrs);
        references.load += u64::from(shape.loads) - left_out.load;
        references.store += u64::from(shape.refs - shape.loads) - left_out.store;
        further.fetch += u64::from(shape.page_crossings);
        Ok(())
    }

    /// Its steps; the data references that were not executed.
    #[inline(always)]
    fn steps(&mut self, asid: Asid, shape: &Shape, words: &[u64]) -> Result<Lookups, Error> {
        let mut left_out = Lookups::default();
        for at in shape.steps() {
            match self.program.step(at) {
                Step::Fetch(item, crossing) => {
                    let vpn = item.vpn().0;
                    if !self.served.has(vpn, Kind::Fetch) {
                        self.serve(asid, vpn, Kind::Fetch)?;
                    }
                    self.crossings[0].add(crossing);
                    self.span.push(item);
                }
                Step::Data { kind, past, word, offset } => {
                    let addr = address_in(words, word, offset.into());
                    let last = addr.saturating_add(u64::from(past));
                    if addr >> PIECE_SHIFT == last >> PIECE_SHIFT && self.served.has(addr >> BASE_SHIFT, kind) {
                        self.span.push(Item::new(kind, addr));
                    } else if addr != NOT_EXECUTED {
                        let rest = at + 1..shape.steps().end;
                        self.changes_there = self.tells_changes
                            && kind == Kind::Load
                            && shape.instrs > 0
                            && self.program.stores_next(rest, words, addr);
                        self.pieces(asid, kind, addr, last)?;
                    } else {
                        *counter_of(&mut left_out, kind) += 1;
                    }
                }
            }
        }
        Ok(left_out)
    }

    /// All pieces of a reference. Counts the pages beyond the first, not the reference.
    fn pieces(&mut self, asid: Asid, kind: Kind, addr: u64, last: u64) -> Result<(), Error> {
        let first = addr >> PIECE_SHIFT;
        for piece in first..=last >> PIECE_SHIFT {
            let item = Item::piece_of(kind, piece);
            let vpn = item.vpn().0;
            if piece > first {
                self.crossings[kind as usize].add(Crossings::into_piece(piece));
                let page = piece.trailing_zeros() >= BASE_SHIFT - PIECE_SHIFT;
                *counter_of(&mut self.tally.further, kind) += u64::from(page);
            }
            if !self.served.has(vpn, kind) {
                self.serve(asid, vpn, kind)?;
            }
            self.span.push(item);
        }
        Ok(())
    }

    /// One block, reference by reference, up to the limit.
    fn plain_block(&mut self, asid: Asid, block: &Block, words: &[u64]) -> Result<(), Error> {
        let mut instrs = block.instrs.iter();
        let mut fetched = 0;
        for (i, (r, addr)) in block.data(words).enumerate() {
            for instr in instrs.by_ref().take((r.after - fetched) as usize) {
                if !self.fetch(asid, instr)? {
                    return Ok(());
                }
            }
            fetched = r.after;
            if block.instrs.is_empty() && self.done() {
                return Ok(());
            }
            self.changes_there = self.tells_changes && block.changes(i, words);
            if addr != NOT_EXECUTED {
                self.reference(asid, r.kind, addr, u64::from(r.size))?;
            }
        }
        for instr in instrs {
            if !self.fetch(asid, instr)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One fetch; false if the limit was reached before it.
    fn fetch(&mut self, asid: Asid, instr: &Instr) -> Result<bool, Error> {
        if self.done() {
            return Ok(false);
        }
        self.fetches.fetch(self.span.len(), instr.pc, self.tally.references.fetch + 1);
        self.reference(asid, Kind::Fetch, instr.pc, u64::from(instr.len))?;
        Ok(true)
    }

    fn reference(&mut self, asid: Asid, kind: Kind, addr: u64, size: u64) -> Result<(), Error> {
        self.fetches.check(&mut self.instances, (asid, addr >> BASE_SHIFT, kind))?;
        self.pieces(asid, kind, addr, addr.saturating_add(size - 1))?;
        *counter_of(&mut self.tally.references, kind) += 1;
        Ok(())
    }

    /// The operating system does the work of its own that is due, between two blocks or events (OSC-1).
    #[inline(always)]
    fn keep_time(&mut self) -> Result<(), Error> {
        if self.os.due() <= self.tally.limit_count() {
            self.flush()?;
            self.memory_profile.before(self.tally.lookups().total(), &self.os);
            self.os.advance(self.tally.limit_count());
            self.follow()?;
        }
        Ok(())
    }

    fn op(&mut self, asid: Asid, op: &Op) -> Result<(), String> {
        if let Op::Define { id, block } = op {
            return self.program.define(*id, block).map_err(|e| format!("block {id}: {e}"));
        }
        if let Op::Code { .. } = op {
            return Ok(());
        }
        if let Op::Boundary(boundary) = op {
            return self.pass(*boundary);
        }
        if *op == Op::Samples {
            return Err(SAMPLES.into());
        }
        if *op == Op::Pages {
            let machine = self.instances.first().map_or("", |instance| &instance.name);
            return Err(format!(
                "{machine}: it looks at the lines of references, and this is a page trace, which has \
                                their pages alone; record the program without --pages-only"
            ));
        }
        self.process_counts.follow(asid, op)?;
        self.flush().map_err(|e| e.to_string())?;
        let whole_system = self.follow_guest(asid, op)?;
        self.memory_profile.before(self.tally.lookups().total(), &self.os);
        if let Some(lifetimes) = &mut self.lifetimes {
            lifetimes.op(asid, op, self.tally.time());
        }
        self.os.note_time(self.tally.limit_count());
        self.os.apply(asid, op);
        if let Some(e) = self.os.take_unserved() {
            let machine = self.instances.first().map_or_else(String::new, |instance| instance.name.clone());
            self.unserved = Some(Error::Simulation { machine, what: self.os.explain(e) });
        }
        if let Some(refusal) = self.os.refusal() {
            let machine = self.instances.first().map_or("", |instance| &instance.name);
            return Err(format!("{machine}: {refusal}"));
        }
        self.follow().map_err(|e| e.to_string())?;
        if whole_system {
            return Ok(());
        }
        let before = self.threads.of(asid);
        if let Some(thread) = self.threads.follow(asid, op) {
            // The first to be named is the one that has been running.
            if before.is_some() {
                self.fetches.go_on((asid, before), (asid, Some(thread)));
            }
            self.instances.iter_mut().for_each(|instance| instance.system.thread(asid, thread));
        }
        self.fetches.follow(asid, self.threads.of(asid), op);
        Ok(())
    }

    /// Another address space continues, with the thread that ran in it last.
    fn switch(&mut self, to: Asid) {
        let thread = self.threads.of(to);
        if let Some(from) = self.current {
            self.fetches.go_on((from, self.threads.of(from)), (to, thread));
        }
        self.turn_to(to);
        if let Some(thread) = thread {
            self.instances.iter_mut().for_each(|instance| instance.system.thread(to, thread));
        }
    }

    fn turn_to(&mut self, to: Asid) {
        self.current = Some(to);
        self.served.clear();
        self.instances.iter_mut().for_each(|instance| instance.system.switch(to));
    }

    /// Ends a span when it is full, or at the end of a slice of the timelines. So each span lies in one slice, up to
    /// the block that ends it.
    #[inline(always)]
    fn end_span_if_due(&mut self) -> Result<(), Error> {
        let lookups = self.tally.lookups().total();
        if self.span.len() < SPAN && lookups < self.slice_end {
            return Ok(());
        }
        self.flush()?;
        self.clock = lookups;
        while self.slice_end <= lookups {
            self.slice_end += self.slice;
            let behind = self.slice_end - self.slices_from;
            if behind / self.slice > MAX_SLICES as u64 {
                self.slice *= 2;
                self.slice_end = self.slices_from + behind.next_multiple_of(self.slice);
            }
        }
        Ok(())
    }
}

impl BatchEngine for LineEngine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        let (asid, words) = (batch.asid, &batch.words[..]);
        // Nothing after the limit may have an effect: how much of the stream arrives after it depends on the number of
        // threads.
        if self.done() {
            return Ok(());
        }
        if self.current != Some(asid) && !batch.is_empty() && self.guest.is_none() {
            self.switch(asid);
        }
        let mut at = 0;
        loop {
            self.keep_time()?;
            if at >= words.len() || self.done() {
                break;
            }
            let word = words[at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| batch.broken(at, why))?;
                self.op(asid, op).map_err(|why| batch.broken(at, why))?;
                if let Some(full) = self.unserved.take() {
                    return Err(full);
                }
                at += 1;
                continue;
            }
            self.enter(asid);
            let (shape, addrs) = self.program.execution(words, at).map_err(|why| batch.broken(at, why))?;
            let end = at + 1 + addrs.len();
            if self.plain || self.limit - self.tally.limit_count() < u64::from(shape.instrs.max(shape.refs)) {
                let blocks = std::mem::take(&mut self.program.blocks);
                let outcome = self.plain_block(asid, blocks.get(block_id(word)).expect("it is compiled"), addrs);
                self.program.blocks = blocks;
                outcome?;
            } else {
                self.block(asid, &shape, addrs)?;
            }
            self.end_span_if_due()?;
            at = end;
        }
        // The next batch may be of another address space.
        self.flush()?;
        self.clock = self.tally.lookups().total();
        Ok(())
    }

    fn done(&self) -> bool {
        self.tally.limit_count() >= self.limit
    }

    fn progress(&self) -> Progress {
        self.tally.progress()
    }
}
