//! The only loop. It takes batches of the stream and delivers references to the designs and events to the operating
//! systems.
//!
//! Exactness rests on one observation: a block all of whose lookups are filtered for all designs changes nothing but
//! counters. The fast path looks at a block as a whole and, if so, counts it. Any other block goes through
//! [`Engine::plain_block`], reference by reference in program order; this defines what the laboratory computes. With
//! `plain` everything runs that way and every lookup goes to every design; the tests compare the two.

mod audit;
mod events;
mod fetches;
mod guest;
mod lookup;
mod trap;
mod windows;

use super::compiled::{Compiled, Hot, INLINE_WORDS, Quick};
use super::filter::{self, FastTags, Filter};
use super::guest::GuestRun;
use super::instance::{Group, TlbInstance};
use super::lifetimes::RegionLifetimes;
use super::marks::{Counted, Marks, Moment};
use super::tally::{Footprint, ORDERS, ProcessCounts, Tally, counter_of};
use super::threads::Threads;
use super::traps::MappedPages;
use audit::Audit;
use farreach_hw::tlb::filter::times::{LookupStamper, LookupTimes};
use farreach_hw::tlb::{Lookup, Unfiltered};
use farreach_os::Change;
use farreach_types::Error;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::event::{Batch, Block, Instr, Kind, NOT_EXECUTED, OP_BIT, block_id, words_behind};
use fetches::Fetches;
use prefetch_index::prefetch_index;
use std::hint::select_unpredictable;
use windows::Sampling;

/// Prefetch distance in words: one page.
const AHEAD: usize = 4096 / size_of::<u64>();

/// Ticks of the clock of lookups that one block takes at most if it is a [`Hot`], and one lookup with all that designs
/// do at it.
const TICKS: u32 = 4096;
/// Ticks for each word of a [`Hot`] at most.
const TICKS_PER_WORD: u32 = 512;

/// See the module.
pub(super) struct Engine {
    pub groups: Vec<Group>,
    /// By design.
    pub instances: Vec<TlbInstance>,
    pub tally: Tally,
    pub footprint: Footprint,
    /// Lifetimes of regions, if a design walks page tables.
    pub lifetimes: Option<RegionLifetimes>,
    pub process_counts: ProcessCounts,
    compiled: Compiled,
    filter: Filter,
    full: u32,
    /// Whether a design wants to know the order of lookups.
    ordered: bool,
    /// The sample of filtered lookups that is repeated.
    audit: Audit,
    /// By order: designs whose base page still holds a reference that continues into a 4 KB page aligned to this order.
    inside: [u32; ORDERS],
    /// Designs on operating systems that read the counters of their processors or want to know of walks.
    readers: u32,
    current: Option<Asid>,
    running: Threads,
    /// What is known of a whole system, if the stream is one.
    pub guest: Option<Box<GuestRun>>,
    pub fetches: Fetches,
    limit: u64,
    plain: bool,
    /// The parts of the run.
    pub marks: Marks,
    /// If windows alone are simulated.
    pub sampling: Option<Box<Sampling>>,
    /// Where its phase ends; nowhere without it.
    phase_end: u64,
    /// Whether an operating system or a design works by itself at times of its own.
    timed: bool,
    /// When the next of the designs does something by itself.
    designs_due: u64,
    /// Where the loop must stop next: where the phase ends, or such work is due.
    boundary: u64,
    /// The designs see nothing now.
    skips: bool,
    /// What they see is not counted.
    uncounted: bool,
    /// Driven by traps: what stands in the place of the filter.
    pub mapped: Option<MappedPages>,
    /// The report of accesses outside the filter.
    unfiltered: Unfiltered,
    /// Reports of TLBs that do not run.
    ignored_report: Unfiltered,
    /// Whether it matters to an operating system if the instruction of a load also stores there.
    tells_changes: bool,
    /// The load under way is of an instruction that also stores there.
    changes_there: bool,
    /// Why an event could not be served.
    unserved: Option<Error>,
    /// A guest has dropped all entries of an address space, as far as changes were passed on.
    flushed_space: bool,
    changes: Vec<Change>,
    ops: u64,
}

impl Engine {
    /// `limit`: instructions after which to stop. `plain`: without shortcuts.
    pub fn new(groups: Vec<Group>, mut instances: Vec<TlbInstance>, limit: Option<u64>, plain: bool) -> Engine {
        let ordered = instances.iter_mut().any(TlbInstance::orders_lookups);
        let opaque = (0..instances.len()).filter(|&i| instances[i].each().any(|(tlb, _)| tlb.opaque()));
        let audit = Audit::new(opaque.fold(0, |mask, design| mask | 1 << design));
        let fetches = Fetches::new(&mut instances);
        let designs_due = instances.iter_mut().map(TlbInstance::due).min().unwrap_or(u64::MAX);
        let mask = |those: &dyn Fn(&Group) -> bool| groups.iter().filter(|g| those(g)).fold(0, |m, g| m | g.mask());
        let tells_changes = groups.iter().any(|g| g.os.has_pages_of_zeros());
        Engine {
            full: mask(&|_| true),
            inside: std::array::from_fn(|begins| mask(&|g| (begins as u32) < g.order())),
            ordered,
            audit,
            filter: Filter::new(instances.len(), groups.len()),
            timed: groups.iter().any(|g| g.os.keeps_time()) || designs_due < u64::MAX,
            designs_due,
            readers: mask(&|g| g.os.reads_counters() || g.os.counts_walks()),
            lifetimes: instances.iter().any(|instance| instance.walks).then(|| RegionLifetimes::new(instances.len())),
            groups,
            instances,
            tally: Tally::default(),
            footprint: Footprint::default(),
            process_counts: ProcessCounts::default(),
            compiled: Compiled::new(ordered),
            current: None,
            running: Threads::default(),
            guest: None,
            fetches,
            limit: limit.unwrap_or(u64::MAX),
            plain,
            marks: Marks::default(),
            sampling: None,
            phase_end: u64::MAX,
            boundary: u64::MAX,
            skips: false,
            uncounted: false,
            mapped: None,
            unfiltered: Unfiltered::default(),
            ignored_report: Unfiltered::default(),
            tells_changes,
            changes_there: false,
            unserved: None,
            flushed_space: false,
            changes: Vec::new(),
            ops: 0,
        }
    }

    /// A warm-up comes first.
    pub fn warm_up(&mut self) {
        self.marks = Marks::new(true);
        self.uncounted = true;
    }

    /// The limit was reached: further batches would be ignored.
    pub fn done(&self) -> bool {
        self.tally.limit_count() >= self.limit
    }

    /// Simulates one batch.
    pub fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        // The blocks are moved out of `self`, so that they need not be copied while the rest changes.
        let mut compiled = std::mem::take(&mut self.compiled);
        let outcome = match (self.ordered, self.fetches.wanted()) {
            (false, false) => self.feed_blocks::<false, false>(&mut compiled, batch),
            (true, false) => self.feed_blocks::<true, false>(&mut compiled, batch),
            (false, true) => self.feed_blocks::<false, true>(&mut compiled, batch),
            (true, true) => self.feed_blocks::<true, true>(&mut compiled, batch),
        };
        self.compiled = compiled;
        outcome
    }

    /// `ORDERED`: notes the order of lookups. `PC`: notes the latest fetch, too.
    fn feed_blocks<const ORDERED: bool, const PC: bool>(
        &mut self,
        compiled: &mut Compiled,
        batch: &Batch,
    ) -> Result<(), Error> {
        // Nothing after the limit may have an effect: how much of the stream arrives after it depends on the number of
        // threads.
        if self.done() {
            return Ok(());
        }
        if self.current != Some(batch.asid) && !batch.is_empty() && self.guest.is_none() {
            self.switch(batch.asid);
        }
        let words = &batch.words[..];
        let mut at = 0;
        loop {
            if self.timed {
                self.keep_time();
            }
            if self.phase_end != u64::MAX && self.tally.limit_count() >= self.phase_end {
                self.next_phase();
            }
            if self.guest.is_some() && words.get(at).is_some_and(|word| word & OP_BIT == 0) {
                self.enter(batch.asid);
            }
            if !self.plain {
                let from = at;
                at = match self.limit.min(self.boundary) {
                    u64::MAX => self.count_filtered::<false, ORDERED>(compiled, batch.asid, words, at),
                    _ => self.count_filtered::<true, ORDERED>(compiled, batch.asid, words, at),
                };
                if PC {
                    self.fetches.counted(from..at);
                }
                // Before an event, as without shortcuts.
                if self.boundary != u64::MAX && self.tally.limit_count() >= self.boundary {
                    continue;
                }
                let room = |hot: &Hot| self.limit - self.tally.limit_count() >= hot.limit_count();
                if let Some(hot) = compiled.hot(words, at).filter(room) {
                    at += 1 + hot.addrs.len();
                    if PC {
                        self.fetches.before(hot.begins_with_fetch(), compiled, words);
                    }
                    self.hot_block::<ORDERED, PC>(batch.asid, hot)?;
                    continue;
                }
            }
            if at >= words.len() || self.done() {
                if PC {
                    self.fetches.before(false, compiled, words);
                }
                return Ok(());
            }
            let word = words[at];
            if word & OP_BIT != 0 {
                if PC {
                    self.fetches.before(false, compiled, words);
                }
                let op = batch.op(word).map_err(|why| batch.broken(at, why))?;
                self.op(compiled, batch.asid, op).map_err(|why| batch.broken(at, why))?;
                if let Some(full) = self.unserved.take() {
                    return Err(full);
                }
                at += 1;
                continue;
            }
            let (block, addrs) = compiled.blocks.execution(words, at).map_err(|why| batch.broken(at, why))?;
            at += 1 + addrs.len();
            if PC {
                let fetches_first = !block.instrs.is_empty() && block.refs.first().is_none_or(|r| r.after > 0);
                self.fetches.before(fetches_first, compiled, words);
            }
            self.plain_block(batch.asid, block, addrs)?;
        }
    }

    /// Counts blocks from `from` on while they are filtered. Returns where it stopped: at an event, at a block that is
    /// not filtered or not valid, at the limit, or near the end. `ORDERED`: notes their order.
    #[inline(never)]
    fn count_filtered<const LIMITED: bool, const ORDERED: bool>(
        &mut self,
        compiled: &Compiled,
        asid: Asid,
        words: &[u64],
        from: usize,
    ) -> usize {
        let room = self.limit.min(self.boundary).saturating_sub(self.tally.limit_count());
        let skips = self.skips;
        let Engine { filter, groups, instances, .. } = self;
        let (tags, times) = filter.fast_path();
        let words = &words[..words.len().min(from + (times.room() / TICKS_PER_WORD) as usize)];
        let mut times = times.stamper();
        let mut now = times.now();
        let (mut fetches, mut loads, mut stores) = (0u64, 0u64, 0u64);
        let mut rest = &words[from..];
        // The last few blocks need not be fast. The word of an event announces more addresses than any fast block has.
        while let Some(window) = rest.first_chunk() {
            // Words queued ahead are in memory, and the hardware prefetcher stops at the end of a page.
            prefetch_index(rest, AHEAD);
            let (word, many) = (window[0], words_behind(window[0]));
            let Some(quick) = compiled.quick(block_id(word)).filter(|quick| usize::from(quick.words) == many) else {
                break;
            };
            // Near the limit every block goes the plain way.
            if LIMITED {
                let refs = u64::from(quick.loads) + u64::from(quick.stores);
                if fetches.max(loads + stores) + refs.max(quick.instrs.into()) > room {
                    break;
                }
            }
            let vpn = quick.vpn();
            let hash = LookupTimes::hash(vpn);
            if tags.mismatch(vpn, filter::FETCHES + hash) != 0 {
                break;
            }
            let fetch = filter::SLOTS + hash;
            // The branch depends on the word alone, so the processor resolves it early and predicts it as well as the
            // program's own branches. Each branch computes the start of the next block: with one common exit this loop
            // takes 1.1 times as long, with a jump table for up to four addresses 1.3 times.
            let counted = match many {
                0 => count_refs::<0, ORDERED>(tags, &mut times, now, quick, window, fetch).map(|now| (now, &rest[1..])),
                1 => count_refs::<1, ORDERED>(tags, &mut times, now, quick, window, fetch).map(|now| (now, &rest[2..])),
                2 => count_refs::<2, ORDERED>(tags, &mut times, now, quick, window, fetch).map(|now| (now, &rest[3..])),
                _ => {
                    let mut then = now;
                    let behind = count_more::<ORDERED>(compiled, tags, &mut times, &mut then, quick, rest, fetch);
                    behind.map(|behind| (then, behind))
                }
            };
            let Some((then, behind)) = counted else { break };
            now = then;
            if cfg!(debug_assertions) && !skips {
                verify(compiled, groups, instances, asid, words, words.len() - rest.len());
            }
            fetches += u64::from(quick.instrs);
            loads += u64::from(quick.loads);
            stores += u64::from(quick.stores);
            rest = behind;
        }
        times.go_on(now);
        let references = &mut self.tally.references;
        references.fetch += fetches;
        references.load += loads;
        references.store += stores;
        words.len() - rest.len()
    }

    /// One block that is a [`Hot`]. As [`Engine::plain_block`], but filtered lookups are only counted, and of the
    /// filtered fetches between two data references only the last gets a time.
    #[inline(always)]
    fn hot_block<const ORDERED: bool, const PC: bool>(&mut self, asid: Asid, hot: Hot) -> Result<(), Error> {
        self.make_room_for_times();
        // Fetches so far, and the end of those known to be filtered, which any access of a design resets. Fetches whose
        // time is noted.
        let (mut fetched, mut filtered_until, mut stamped) = (0, 0, 0);
        for (i, r) in hot.refs.iter().enumerate() {
            let addr = r.address(hot.addrs);
            if r.after() > filtered_until {
                (fetched, filtered_until) = self.simulate_fetches::<PC>(asid, hot, fetched, r.after())?;
                stamped = fetched;
            }
            if ORDERED {
                self.stamp_fetches(hot, &mut stamped, r.after());
            }
            let vpn = addr >> BASE_SHIFT;
            let hash = LookupTimes::hash(vpn);
            let (tags, times) = self.filter.fast_path();
            if tags.mismatch(vpn, hash + r.table()) | r.reach(addr) >> BASE_SHIFT == 0 {
                times.stamp(hash);
                *counter_of(&mut self.tally.references, r.kind()) += 1;
            } else if addr != NOT_EXECUTED {
                self.stamp_fetches(hot, &mut stamped, r.after());
                self.tally.references.fetch += u64::from(r.after() - fetched);
                (fetched, filtered_until) = (r.after(), r.after());
                if PC {
                    self.fetches.note(hot, fetched);
                }
                self.changes_there = self.tells_changes && hot.changes(i, addr);
                self.data(asid, r.kind(), addr, r.size())?;
            }
        }
        if hot.instrs > filtered_until {
            (fetched, _) = self.simulate_fetches::<PC>(asid, hot, fetched, hot.instrs)?;
            stamped = fetched;
        }
        self.stamp_fetches(hot, &mut stamped, hot.instrs);
        self.tally.references.fetch += u64::from(hot.instrs - fetched);
        if PC {
            self.fetches.note(hot, hot.instrs);
        }
        Ok(())
    }

    /// Notes the time of the last fetch of a block before `until`, a filtered one, unless it is noted.
    #[inline(always)]
    fn stamp_fetches(&mut self, hot: Hot, stamped: &mut u32, until: u32) {
        if *stamped < until {
            *stamped = until;
            self.filter.stamp(filter::SLOTS + LookupTimes::hash(hot.vpn));
        }
    }

    /// Simulates the next fetches of a block before `until`, up to the first that is filtered. Returns the number of
    /// fetches so far, and the end of the fetches that are known to be filtered.
    #[inline(always)]
    fn simulate_fetches<const PC: bool>(
        &mut self,
        asid: Asid,
        hot: Hot,
        mut fetched: u32,
        until: u32,
    ) -> Result<(u32, u32), Error> {
        while fetched < until {
            if self.filter.fast_path().0.mismatch(hot.vpn, filter::FETCHES + LookupTimes::hash(hot.vpn)) == 0 {
                return Ok((fetched, hot.instrs));
            }
            fetched += 1;
            self.tally.references.fetch += 1;
            if PC {
                self.fetches.note(hot, fetched);
            }
            self.lookup(asid, hot.vpn, Kind::Fetch, 0)?;
        }
        Ok((fetched, fetched))
    }

    /// One block, reference by reference, up to the limit.
    fn plain_block(&mut self, asid: Asid, block: &Block, words: &[u64]) -> Result<(), Error> {
        let mut instrs = block.instrs.iter();
        // The page whose fetches are known to be filtered, until a lookup changes something; where the order of lookups
        // is noted, until there is another.
        let mut filtered_page = None;
        let mut fetched = 0;
        for (i, (r, addr)) in block.data(words).enumerate() {
            for instr in instrs.by_ref().take((r.after - fetched) as usize) {
                if !self.fetch(asid, instr, &mut filtered_page)? {
                    return Ok(());
                }
            }
            fetched = r.after;
            if block.instrs.is_empty() && self.done() {
                return Ok(());
            }
            self.changes_there = self.tells_changes && block.changes(i, words);
            if addr != NOT_EXECUTED && (self.data(asid, r.kind, addr, u64::from(r.size))? || self.ordered) {
                filtered_page = None;
            }
        }
        for instr in instrs {
            if !self.fetch(asid, instr, &mut filtered_page)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One fetch; false if the limit was reached before it.
    fn fetch(&mut self, asid: Asid, instr: &Instr, filtered_page: &mut Option<u64>) -> Result<bool, Error> {
        if self.done() {
            return Ok(false);
        }
        self.tally.references.fetch += 1;
        self.fetches.latest.address = Some(instr.pc);
        let first = instr.pc >> BASE_SHIFT;
        if *filtered_page != Some(first) {
            *filtered_page = (!self.lookup(asid, first, Kind::Fetch, 0)?).then_some(first);
        }
        for vpn in first + 1..=(instr.pc + u64::from(instr.len) - 1) >> BASE_SHIFT {
            *filtered_page = (!self.lookup_further(asid, vpn, Kind::Fetch)?).then_some(vpn);
        }
        Ok(true)
    }

    /// One load or store. Returns whether a lookup of it was not filtered.
    #[inline]
    fn data(&mut self, asid: Asid, kind: Kind, addr: u64, size: u64) -> Result<bool, Error> {
        *counter_of(&mut self.tally.references, kind) += 1;
        let (first, last) = (addr >> BASE_SHIFT, addr.saturating_add(size - 1) >> BASE_SHIFT);
        let mut unfiltered = self.lookup(asid, first, kind, 0)?;
        for vpn in first + 1..=last {
            unfiltered |= self.lookup_further(asid, vpn, kind)?;
        }
        Ok(unfiltered)
    }
}

/// If all references of this block are filtered, notes the lookups of its `N` address words, and of its fetches at this
/// slot, from `now` on; `ORDERED`: the last ones, in their order. Returns the time of the next lookup if they are.
#[inline(always)]
fn count_refs<const N: usize, const ORDERED: bool>(
    tags: FastTags,
    times: &mut LookupStamper,
    now: u32,
    quick: &Quick,
    window: &[u64; 1 + INLINE_WORDS],
    fetch: usize,
) -> Option<u32> {
    let (mut mismatch, mut reaches, mut hashes) = (0, 0, [0; INLINE_WORDS]);
    for i in 0..N {
        let (r, addr) = (quick.first[i], window[1 + i]);
        let vpn = addr >> BASE_SHIFT;
        hashes[i] = LookupTimes::hash(vpn);
        mismatch |= tags.mismatch(vpn, hashes[i] + r.table());
        reaches |= r.reach::<ORDERED>(addr);
    }
    if mismatch | reaches >> BASE_SHIFT != 0 {
        return None;
    }
    if !ORDERED {
        hashes[..N].iter().for_each(|&hash| times.stamp(hash, now));
        times.stamp(fetch, now);
        return Some(now);
    }
    for i in 0..N {
        let hash = match N {
            1 => hashes[0],
            2 => select_unpredictable(quick.first[0].place() == i, hashes[0], hashes[1]),
            _ => hashes[quick.first[i].place()],
        };
        times.stamp(hash, now + 2 * i as u32 + 1);
    }
    times.stamp(fetch, now + if N == 0 { 0 } else { 2 * quick.words_before_fetch() });
    Some(now + 2 * N as u32 + 1)
}

/// The same for a block of more addresses. Also returns the rest of the words.
#[inline(never)]
fn count_more<'w, const ORDERED: bool>(
    compiled: &Compiled,
    tags: FastTags,
    times: &mut LookupStamper,
    now: &mut u32,
    quick: &Quick,
    words: &'w [u64],
    fetch: usize,
) -> Option<&'w [u64]> {
    const { assert!(INLINE_WORDS == 4, "the loop takes up to two addresses itself, here are the others") }
    let many = usize::from(quick.words);
    if many <= INLINE_WORDS {
        let window = words.first_chunk()?;
        let then = match many {
            3 => count_refs::<3, ORDERED>(tags, times, *now, quick, window, fetch),
            _ => count_refs::<4, ORDERED>(tags, times, *now, quick, window, fetch),
        };
        *now = then?;
        return Some(&words[1 + many..]);
    }
    let (addrs, behind) = words[1..].split_at_checked(many)?;
    let (mut mismatch, mut reaches) = (0, 0);
    for (r, &addr) in compiled.all_of(quick).iter().zip(addrs) {
        let vpn = addr >> BASE_SHIFT;
        mismatch |= tags.mismatch(vpn, LookupTimes::hash(vpn) + r.table());
        reaches |= r.reach::<ORDERED>(addr);
    }
    if mismatch | reaches >> BASE_SHIFT != 0 {
        return None;
    }
    if !ORDERED {
        addrs.iter().for_each(|addr| times.stamp(LookupTimes::hash(addr >> BASE_SHIFT), *now));
        times.stamp(fetch, *now);
        return Some(behind);
    }
    let mut stamp = |slot| {
        times.stamp(slot, *now);
        *now += 1;
    };
    let mut fetches = Some(fetch);
    for r in compiled.refs_of(quick) {
        if r.after() == u32::from(quick.instrs)
            && let Some(last) = fetches.take()
        {
            stamp(last);
        }
        stamp(LookupTimes::hash(r.address(addrs) >> BASE_SHIFT));
    }
    fetches.into_iter().for_each(stamp);
    Some(behind)
}

/// XC-3 on the fast path: every lookup that was only counted is a hit with the translation of the page table.
fn verify(compiled: &Compiled, groups: &[Group], instances: &[TlbInstance], asid: Asid, words: &[u64], at: usize) {
    let (block, addrs) = compiled.blocks.execution(words, at).expect("it was looked at");
    let fetches = block.instrs.iter().map(|i| (Kind::Fetch, i.pc));
    let data = block.data(addrs).map(|(r, addr)| (r.kind, addr));
    for (kind, addr) in fetches.chain(data) {
        for instance in instances {
            let os = &groups[instance.group].os;
            let vpn = Vpn(addr >> os.page_shift());
            instance.check(os, Lookup { asid: os.tag_of(asid, vpn), vpn, kind });
        }
    }
}
