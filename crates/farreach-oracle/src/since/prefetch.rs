//! Prefetching behind the second level (section 2): the buffer (PB-1 to PB-12), predictors (SP-1, ASP-1, MP-1, DP-1,
//! RP-1, H2P-1, MASP-1, STP-1, ATP-1, MOR-1) and free entries (SBFP-1 to SBFP-6), as lists.
//!
//! A miss of the last level calls [`PlainPrefetch::missed`], then the caller walks if that said no, and fills its TLBs,
//! then it calls [`PlainPrefetch::filled`] (PB-5). Choices where the rules are silent:
//!
//! * OB-1 LRU in the buffer equals FIFO: a hit removes its entry, and probes of the filter touch nothing (PB-2, PB-6).
//! * OB-2 An address is beyond 47 bits from base page 2^35 on. The filter and the walk ask for the first base page of
//!   the candidate. A candidate is `v` itself if it has the same number in units of its instance.
//! * OB-3 A prefetch walk fills the mapping that it finds, of any size.
//! * OB-4 With `prefetch_into=l2` there is no buffer (PB-3), so that free entries go to the second level too. `into_l2`
//!   counts both.
//! * OB-5 `prefetch_on=walk`: on a hit of the buffer nothing is predicted and nothing is trained. The stack of RP is
//!   kept up all the same, because it is to hold what left the second level (RP-1).
//! * OB-6 A row is used by a lookup as well as by a write. The index of a program counter is its own low bits.
//! * OB-7 RP: one stack for each process, of all sizes (RP-6 over PB-8); a switch never touches it, since it is in the
//!   page table. Candidates are read off, and the page unlinked, before the victim is pushed on the stack of its own
//!   process. A page that is pushed while it is there moves. Pages that a change or the end of a process takes out
//!   write no pointers, so that at most 4 a miss remain. With `rp_reference=pte` the world does not walk.
//! * OB-8 RP with `prefetch_into=l2`: pages that a prefetch evicts are not pushed.
//! * OB-9 H2P with both signs: plus before minus, `v-b` before `b-a`, each page once.
//! * OB-10 `free=all` and `free=static` have no counters and no sampler, so `fdt_updates` is 0. What SBFP sends to the
//!   buffer is held against the second level and the buffer with every `filter`, since SBFP-3 says so.
//! * OB-11 Sampled pages are numbers in units of their size and are found by misses on mappings of this size. A leaf of
//!   1 GB has a line of 8 such leaves (SBFP-4 goes on).
//! * OB-12 At a switch with `flush`, predictors, ATP's counters and the FDT begin anew; the sampler is tagged, so it is
//!   kept with `process_ids` and emptied without (HW-9). The end of a process empties buffer and stack of it, not the
//!   sampler, which holds page numbers only. Entries dropped by a switch or an end count as invalidated.
//! * OB-13 FPQs get predictions before any filter, negative ones too, each followed by its free pages. H2P, MASP and
//!   STP inside ATP are trained at every trigger.
//! * OB-14 A hit is late if its position is less than that of the prefetch and the delay together.
//! * OB-15 Morrigan: tables are fully associative. A slot begins with confidence 0 and gains 1 when its successor comes
//!   again. Candidates in order of their slots; a slot that is replaced keeps its place. Of equal slots the first is
//!   the most confident, and leaves first; of equal rows the oldest leaves. A row begins with one miss; only rows that
//!   are there when their page misses gain one. A new row is put into the table of one slot. Distances and tables are
//!   for each size (PB-8).
//! * OB-16 `pb_for=fetch`: misses of data do nothing at all. With a shared buffer they look it up and bring free
//!   entries, but predict and train nothing (MOR-1).
//! * OB-17 An instance of `predict_unit=base` is held against the number of the first base page (PB-8): the other pages
//!   of a superpage are filtered by the TLBs, or not at all with `filter=none`.
//! * OB-18 A promotion in place may leave base pages in the buffer beside their superpage. The smallest answers.

mod atp;
mod bring;
mod buffer;
mod config;
mod events;
mod free;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hands;
#[cfg(test)]
mod laws;
mod morrigan;
mod predict;
mod recency;
mod rows;
#[cfg(test)]
mod tests;

pub use buffer::{Held, Source};
pub use config::{Atp, Config, Filter, Free, Kind};

use buffer::Buffer;
use free::{Sbfp, distances};
use predict::Predictor;
use recency::Stacks;
use std::collections::BTreeMap;

/// A miss of the last level (HW-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miss {
    pub asid: u32,
    /// Base page.
    pub vpn: u64,
    /// HW-6.
    pub pc: u64,
    /// Of an instruction.
    pub fetch: bool,
    /// Place in the stream, in instructions (HW-8).
    pub position: u64,
    /// Log2 of the base pages of the mapping: 0, 9 or 18.
    pub order: u8,
}

/// What is around the prefetcher.
pub trait World {
    /// First base page of the mapping, log2 of its pages, frame of the page that was asked for.
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8, u64)>;
    fn in_l1(&self, asid: u32, vpn: u64) -> bool;
    fn in_l2(&self, asid: u32, vpn: u64) -> bool;
    /// Walks for a page, mapped or not (PB-7): how many nodes it read.
    fn background_walk(&mut self, asid: u32, vpn: u64) -> u64;
    /// PB-3.
    fn fill_l2(&mut self, asid: u32, vpn: u64);
}

const NAMES: [&str; 12] = [
    "hits",
    "hits_free",
    "hits_prefetched",
    "late",
    "candidates",
    "filtered",
    "walks",
    "nodes",
    "faulting",
    "prefetched",
    "free",
    "evicted_unused",
];
const CHOICES: [&str; 4] = ["chosen_none", "chosen_h2p", "chosen_masp", "chosen_stp"];

/// The model.
pub struct PlainPrefetch {
    config: Config,
    buffer: Buffer,
    /// PB-8, by size; one of size 0 with `base_unit`.
    instances: BTreeMap<u8, Predictor>,
    stacks: Stacks,
    /// With `free=sbfp`.
    sbfp: Option<Sbfp>,
    running: Option<u32>,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainPrefetch {
    pub fn new(config: Config) -> PlainPrefetch {
        let sbfp = match config.free {
            Free::Sbfp { threshold, sampler, keep, per_size } => Some(Sbfp::new(threshold, sampler, keep, per_size)),
            _ => None,
        };
        PlainPrefetch {
            buffer: Buffer { entries: config.pb_entries, held: Vec::new() },
            instances: BTreeMap::new(),
            stacks: Stacks::default(),
            sbfp,
            running: None,
            counts: NAMES.into_iter().chain(CHOICES).chain(["invalidated", "into_l2"]).map(|name| (name, 0)).collect(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.entry(name).or_default() += n;
    }

    fn serves(&self, miss: &Miss) -> bool {
        self.config.pb_entries > 0 && (miss.fetch || !self.config.for_fetch)
    }

    /// PB-2, PB-5 (1) and (2). True if the buffer answered, which spares the walk.
    pub fn missed(&mut self, miss: &Miss) -> bool {
        self.running = Some(miss.asid);
        if !self.serves(miss) {
            return false;
        }
        let Some(held) = self.buffer.take(miss.asid, miss.vpn) else {
            if let Some(sbfp) = &mut self.sbfp {
                sbfp.search(miss.asid, miss.order, (miss.vpn >> miss.order) as i64);
            }
            return false;
        };
        self.add("hits", 1);
        self.add("late", u64::from(miss.position < held.position + self.config.delay));
        match held.source {
            Source::Prefetcher => self.add("hits_prefetched", 1),
            Source::Free(distance) => {
                self.add("hits_free", 1);
                if let Some(sbfp) = &mut self.sbfp {
                    sbfp.update(held.order, distance);
                }
            }
        }
        true
    }

    /// PB-5 (5) to (8), after the TLBs are filled. The victim is the process, the first base page and the order of what
    /// left the second level for this miss.
    pub fn filled(&mut self, miss: &Miss, by_buffer: bool, victim: Option<(u32, u64, u8)>, world: &mut dyn World) {
        if !self.serves(miss) {
            return;
        }
        if !by_buffer {
            self.bring_free(miss, miss.vpn, miss.order, world);
        }
        let triggered = !(by_buffer && self.config.on_walk);
        match self.config.predictor {
            Kind::Morrigan { .. } if !miss.fetch => {}
            Kind::Rp { prefetch, walk, leave } => {
                let page = miss.vpn >> miss.order << miss.order;
                let around = self.stacks.around(miss.asid, page, prefetch);
                self.stacks.unlink(miss.asid, page);
                for candidate in around.into_iter().filter(|_| triggered) {
                    let done = self.issue(miss, candidate as i64, page as i64, (true, !walk), world);
                    if done && leave {
                        self.stacks.unlink(miss.asid, candidate);
                    }
                }
                if let Some((asid, page, order)) = victim {
                    self.stacks.push(asid, page, order);
                }
            }
            _ if triggered => self.predict(miss, world),
            _ => {}
        }
    }

    fn predict(&mut self, miss: &Miss, world: &mut dyn World) {
        let unit = if self.config.base_unit { 0 } else { miss.order };
        let first = miss.vpn >> miss.order << miss.order;
        let v = (first >> unit) as i64;
        let mut instance = self.instances.remove(&unit).unwrap_or_else(|| Predictor::new(&self.config.predictor));
        for (page, free) in instance.predict(v, miss.pc) {
            self.issue(miss, page << unit, v << unit, (free, false), world);
        }
        if let Predictor::Atp(atp) = &mut instance {
            self.add(CHOICES[atp.chosen.map_or(0, |child| child + 1)], 1);
            let free = |page: i64| match &self.sbfp {
                Some(sbfp) => distances(page).filter(|d| sbfp.above(unit, *d)).map(|d| page + d).collect(),
                None => Vec::new(),
            };
            atp.remember(free, |page| page >= 0 && world.mapping(miss.asid, (page << unit) as u64).is_some());
        }
        instance.train(v, miss.pc);
        self.instances.insert(unit, instance);
    }
}
