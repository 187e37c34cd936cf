//! The only loop. It takes batches of the stream and delivers references to the designs and events to the operating systems.
//!
//! Exactness rests on one observation: a block all of whose lookups are quiet in all designs changes nothing but counters. The
//! fast path looks at a block as a whole and, if so, counts it; any other block goes through [`Engine::plain_block`],
//! reference by reference in program order, which is all that the laboratory *means*. `plain` runs everything that way, asking
//! every design at every lookup: the tests compare the two.

mod ask;
mod events;

use super::compiled::{Compiled, Hot, Quick, QuickRef, TOGETHER};
use super::lives::Lives;
use super::quiet::{self, Quiet, Silent};
use super::tally::{Crowd, Footprint, ORDERS, Tally};
use super::threads::Threads;
use super::unit::Group;
use crate::Error;
use crate::addr::{Asid, BASE_SHIFT, Vpn};
use crate::counts::Lookups;
use crate::event::{Batch, Block, Instr, Kind, NOT_EXECUTED, OP_BIT, block_id, refs_behind};
use crate::hw::tlb::{Lookup, Marks, Noise};
use crate::os::Change;

/// Chooses the code for so many references, or what is for more than [`TOGETHER`].
macro_rules! by_count {
    ($count:expr, $name:ident => $few:block, _ => $many:block) => {
        by_count!(@ $count, $name, $few, $many, 0 1 2 3 4)
    };
    (@ $count:expr, $name:ident, $few:tt, $many:tt, $($each:literal)*) => {
        match $count {
            $($each => { const $name: usize = $each; $few })*
            _ => $many
        }
    };
}

/// See the module.
pub(super) struct Engine {
    pub groups: Vec<Group>,
    pub tally: Tally,
    pub footprint: Footprint,
    /// If a design walks page tables.
    pub lives: Option<Lives>,
    pub crowd: Crowd,
    compiled: Compiled,
    quiet: Quiet,
    full: u32,
    /// By order: designs for which a reference that goes on into a page that begins there stays in its base page.
    inside: [u32; ORDERS],
    /// Groups, as bits, whose operating systems read the counters of their processors.
    readers: u32,
    current: Option<Asid>,
    running: Threads,
    limit: u64,
    plain: bool,
    /// For what is done without shortcuts.
    noise: Noise,
    changes: Vec<Change>,
    ops: u64,
}

impl Engine {
    /// `limit`: stop after so many instructions. `plain`: without shortcuts.
    pub fn new(groups: Vec<Group>, limit: Option<u64>, plain: bool) -> Engine {
        let designs: usize = groups.iter().map(|g| g.units.len()).sum();
        Engine {
            full: groups.iter().fold(0, |m, g| m | g.mask()),
            inside: std::array::from_fn(|begins| {
                groups.iter().filter(|g| (begins as u32) < g.order).fold(0, |m, g| m | g.mask())
            }),
            quiet: Quiet::new(designs, groups.len()),
            readers: (0..).zip(&groups).filter(|(_, g)| g.os.reads_counters()).fold(0, |m, (i, _)| m | 1 << i),
            lives: groups.iter().flat_map(|g| &g.units).any(|unit| unit.walks).then(|| Lives::new(designs)),
            groups,
            tally: Tally::default(),
            footprint: Footprint::default(),
            crowd: Crowd::default(),
            compiled: Compiled::default(),
            current: None,
            running: Threads::default(),
            limit: limit.unwrap_or(u64::MAX),
            plain,
            noise: Noise::default(),
            changes: Vec::new(),
            ops: 0,
        }
    }

    /// Lookups of the designs of a group, in its base pages.
    pub fn lookups(&self, group: usize) -> u64 {
        self.tally.lookups_in(self.groups[group].order)
    }

    /// The limit was reached: further batches would be ignored.
    pub fn done(&self) -> bool {
        self.tally.units() >= self.limit
    }

    /// Simulates one batch.
    pub fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        // What comes after the limit is not even noticed: how much does depends on the number of threads.
        if self.done() {
            return Ok(());
        }
        if self.current != Some(batch.asid) && !batch.is_empty() {
            self.switch(batch.asid);
        }
        let words = &batch.words[..];
        let broken = |at: usize, what: String| Error::Trace {
            file: "event stream".into(),
            place: format!("address space {}, word {at}", batch.asid.0),
            what,
        };
        let mut at = 0;
        loop {
            at = match self.limit {
                _ if self.plain => at,
                u64::MAX => self.count_quiet::<false>(batch.asid, words, at),
                _ => self.count_quiet::<true>(batch.asid, words, at),
            };
            if at >= words.len() || self.done() {
                return Ok(());
            }
            let word = words[at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| broken(at, why.to_string()))?;
                self.op(batch.asid, op).map_err(|why| broken(at, why))?;
                at += 1;
                continue;
            }
            let (hot, addrs) = self.compiled.execution(words, at).map_err(|why| broken(at, why.to_string()))?;
            at += 1 + addrs.len();
            if hot.spread || self.plain || self.limit - self.tally.units() < u64::from(hot.instrs.max(hot.refs)) {
                // The blocks step aside, so that nothing of them need be copied while the rest changes.
                let blocks = std::mem::take(&mut self.compiled.blocks);
                let outcome = self.plain_block(batch.asid, blocks.get(block_id(word)).expect("it is compiled"), addrs);
                self.compiled.blocks = blocks;
                outcome?;
            } else {
                self.hot_block(batch.asid, &hot, addrs)?;
            }
        }
    }

    /// Counts blocks from `at` on as long as they are quiet, and says where it stopped: at an event, at a block that is not quiet
    /// or not as it should be, at the limit, or near the end.
    #[inline(never)]
    fn count_quiet<const LIMITED: bool>(&mut self, asid: Asid, words: &[u64], from: usize) -> usize {
        let room = self.limit - self.tally.units();
        let Engine { compiled, quiet, groups, .. } = self;
        let (silent, marks) = quiet.fast();
        let mut marks = marks.fast();
        let (mut fetches, mut loads, mut blocks) = (0u64, 0u64, 0);
        let mut rest = &words[from..];
        // What is left at the end need not be quick. A word that names an event announces more references than any quick block has.
        while let Some(window) = rest.first_chunk() {
            let (word, refs) = (window[0], refs_behind(window[0]));
            let Some(quick) = compiled.quick(block_id(word)).filter(|quick| usize::from(quick.refs) == refs) else { break };
            // Near the limit every block goes the plain way.
            let so_far = words.len() - rest.len() - from;
            if LIMITED && fetches.max(so_far as u64) + u64::from(quick.instrs).max(refs as u64) > room {
                break;
            }
            let fetch = Marks::place(quick.vpn);
            if silent.loud(quick.vpn, quiet::FETCHES + fetch) != 0 {
                break;
            }
            let behind;
            // The word says which way it goes, so that the processor knows early, and that is as foreseeable as the program.
            by_count!(refs, COUNT => {
                let Some(places) = quiet_refs::<COUNT>(silent, quick, window) else { break };
                places.iter().for_each(|&place| marks.mark(place));
                behind = &rest[1 + COUNT..];
            }, _ => {
                let Some((addrs, next)) = rest[1..].split_at_checked(refs) else { break };
                if !many_quiet_refs(silent, compiled.all_of(quick), addrs) {
                    break;
                }
                addrs.iter().for_each(|addr| marks.mark(Marks::place(addr >> BASE_SHIFT)));
                behind = next;
            });
            marks.mark(fetch + quiet::SLOTS);
            if cfg!(debug_assertions) {
                verify(compiled, groups, asid, words, words.len() - rest.len());
            }
            fetches += u64::from(quick.instrs);
            loads += u64::from(quick.loads);
            blocks += 1;
            rest = behind;
        }
        let at = words.len() - rest.len();
        for lookups in [&mut self.tally.references, &mut self.tally.lookups] {
            lookups.fetch += fetches;
            lookups.load += loads;
            lookups.store += (at - from - blocks) as u64 - loads;
        }
        at
    }

    /// One block that fetches from one page or not at all. The same as [`Engine::plain_block`], but what is quiet is only counted.
    fn hot_block(&mut self, asid: Asid, hot: &Hot, addrs: &[u64]) -> Result<(), Error> {
        let (mut next, mut fetched) = (0, 0);
        loop {
            // Up to the next lookup that somebody must be asked about. After it, what was quiet may be so no more.
            let refs = self.compiled.refs(hot);
            let (silent, marks) = self.quiet.fast();
            let fetch = Marks::place(hot.vpn);
            let fetch_is_loud = silent.loud(hot.vpn, quiet::FETCHES + fetch) != 0;
            let counts = [&mut self.tally.references, &mut self.tally.lookups];
            let (mut loads, mut stores, from) = (0, 0, fetched);
            let loud = loop {
                let until = refs.get(next).map_or(hot.instrs, |r| r.after);
                if until > fetched {
                    if fetch_is_loud {
                        break None;
                    }
                    marks.mark(fetch + quiet::SLOTS);
                    fetched = until;
                }
                let Some((r, &addr)) = refs.get(next).zip(addrs.get(next)) else { break None };
                let vpn = addr >> BASE_SHIFT;
                let place = Marks::place(vpn);
                next += 1;
                if silent.loud(vpn, place + r.table()) | r.reach(addr) >> BASE_SHIFT != 0 {
                    break Some((*r, addr));
                }
                marks.mark(place);
                loads += u64::from(r.kind() == Kind::Load);
                stores += u64::from(r.kind() == Kind::Store);
            };
            for n in counts {
                n.fetch += u64::from(fetched - from);
                n.load += loads;
                n.store += stores;
            }
            match loud {
                Some((r, addr)) if addr != NOT_EXECUTED => _ = self.data(asid, r.kind(), addr, r.size())?,
                Some(_) => {}
                None if fetched == hot.instrs => return Ok(()),
                None => {
                    fetched += 1;
                    self.tally.references.fetch += 1;
                    self.tally.lookups.fetch += 1;
                    self.lookup(asid, hot.vpn, Kind::Fetch)?;
                }
            }
        }
    }

    /// One block, reference by reference, up to the limit.
    fn plain_block(&mut self, asid: Asid, block: &Block, addrs: &[u64]) -> Result<(), Error> {
        let mut instrs = block.instrs.iter();
        // The page whose fetches are known to be quiet: until some lookup does something.
        let mut calm = None;
        let mut fetched = 0;
        for (r, &addr) in block.refs.iter().zip(addrs) {
            for instr in instrs.by_ref().take((r.after - fetched) as usize) {
                if !self.fetch(asid, instr, &mut calm)? {
                    return Ok(());
                }
            }
            fetched = r.after;
            if block.instrs.is_empty() && self.done() {
                return Ok(());
            }
            if addr != NOT_EXECUTED && self.data(asid, r.kind, addr, u64::from(r.size))? {
                calm = None;
            }
        }
        for instr in instrs {
            if !self.fetch(asid, instr, &mut calm)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One fetch; false if the limit was reached before it.
    fn fetch(&mut self, asid: Asid, instr: &Instr, calm: &mut Option<u64>) -> Result<bool, Error> {
        if self.done() {
            return Ok(false);
        }
        self.tally.references.fetch += 1;
        let first = instr.pc >> BASE_SHIFT;
        self.tally.lookups.fetch += 1;
        if *calm != Some(first) {
            *calm = (!self.lookup(asid, first, Kind::Fetch)?).then_some(first);
        }
        for vpn in first + 1..=(instr.pc + u64::from(instr.len) - 1) >> BASE_SHIFT {
            self.tally.lookups.fetch += 1;
            *calm = (!self.lookup_further(asid, vpn, Kind::Fetch)?).then_some(vpn);
        }
        Ok(true)
    }

    /// One load or store; whether a lookup did something.
    fn data(&mut self, asid: Asid, kind: Kind, addr: u64, size: u64) -> Result<bool, Error> {
        let last = addr.saturating_add(size - 1);
        let count = |n: &mut Lookups, by| *(if kind == Kind::Load { &mut n.load } else { &mut n.store }) += by;
        count(&mut self.tally.references, 1);
        count(&mut self.tally.lookups, 1);
        let mut acted = self.lookup(asid, addr >> BASE_SHIFT, kind)?;
        for vpn in (addr >> BASE_SHIFT) + 1..=last >> BASE_SHIFT {
            count(&mut self.tally.lookups, 1);
            acted |= self.lookup_further(asid, vpn, kind)?;
        }
        Ok(acted)
    }
}

/// The places of the `N` references of this block, to the addresses behind the first word, if they all are quiet.
#[inline(always)]
fn quiet_refs<const N: usize>(silent: Silent, quick: &Quick, window: &[u64; 1 + TOGETHER]) -> Option<[usize; N]> {
    let (mut loud, mut reaches, mut places) = (0, 0, [0; N]);
    for i in 0..N {
        let (r, addr) = (quick.first[i], window[1 + i]);
        let vpn = addr >> BASE_SHIFT;
        places[i] = Marks::place(vpn);
        loud |= silent.loud(vpn, places[i] + r.table());
        reaches |= r.reach(addr);
    }
    (loud | reaches >> BASE_SHIFT == 0).then_some(places)
}

/// Whether any number of references, to as many addresses, is quiet.
#[inline(always)]
fn many_quiet_refs(silent: Silent, refs: &[QuickRef], addrs: &[u64]) -> bool {
    let (mut loud, mut reaches) = (0, 0);
    for (r, &addr) in refs.iter().zip(addrs) {
        let vpn = addr >> BASE_SHIFT;
        loud |= silent.loud(vpn, Marks::place(vpn) + r.table());
        reaches |= r.reach(addr);
    }
    loud | reaches >> BASE_SHIFT == 0
}

/// XC-3 on the fast path: every lookup that was only counted is a hit with the translation of the page table.
fn verify(compiled: &Compiled, groups: &[Group], asid: Asid, words: &[u64], at: usize) {
    let (block, addrs) = compiled.blocks.execution(words, at).expect("it was looked at");
    let fetches = block.instrs.iter().map(|i| (Kind::Fetch, i.pc));
    let data = block.refs.iter().zip(addrs).map(|(r, &addr)| (r.kind, addr));
    for (kind, addr) in fetches.chain(data) {
        for group in groups {
            for unit in &group.units {
                unit.check(&group.os, Lookup { asid, vpn: Vpn(addr >> group.os.page_shift()), kind });
            }
        }
    }
}
