//! TLB prefetching (PB): a buffer behind the second level that answers last-level misses. A prefetcher predicts pages
//! at a miss and walks for them in the background, and walks bring in neighbours of their page for free.
//!
//! One miss goes in the order of PB-5: buffer, sampler, walk, fill of the TLBs, neighbours of the walk, prediction, and
//! for each page predicted filter, walk, fill, neighbours; last the prefetcher learns.

mod buffer;
mod free;
mod keys;
mod predictors;
mod queue;

pub use keys::{LISTED, PREDICTORS_ON_SWITCH};

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, only_native};
use crate::cache::Purpose;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::hierarchy::nodes::{Entry as Node, RADIX};
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::tables::Walked;
use buffer::{Buffer, Entry, Source};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Pte, Translation};
use free::{Free, LINE, Use};
use keys::*;
use predictors::{Predictor, Trigger};

/// Orders of pages: of leaves of the page table, from below.
const ORDERS: [u8; 3] = [0, RADIX, 2 * RADIX];

/// log2 of the pages that are programs' (PB-6): 47 bits of addresses.
const PROGRAMS: u32 = 47 - 12;

/// The order of the page table's leaf in a mapping of `2^order` pages.
fn leaf_order(order: u8) -> u8 {
    RADIX * leaf_level(order, RADIX)
}

/// The place of an order in [`ORDERS`].
fn index(order: u8) -> usize {
    usize::from(order / RADIX)
}

/// A page of the size of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Page {
    asid: Asid,
    /// log2 of its base pages.
    order: u8,
    /// Its number, in pages of this size.
    number: u64,
}

impl Page {
    /// The page of this size that holds a base page.
    fn of(asid: Asid, vpn: Vpn, order: u8) -> Page {
        Page { asid, order, number: vpn.group(order.into()) }
    }
    /// Its first base page.
    fn first(self) -> Vpn {
        Vpn(self.number << self.order)
    }
    fn base_pages(self) -> VpnRange {
        VpnRange { start: self.first(), pages: 1 << self.order }
    }
}

/// Where predicted pages are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    Second,
    Both,
    None,
}

/// See the module.
struct Prefetch {
    buffer: Buffer,
    free: Free,
    /// By page size; one, if all sizes share it; none without a prefetcher.
    predictors: Vec<Box<dyn Predictor>>,
    filter: Filter,
    into_second: bool,
    /// Only walks make the prefetcher predict.
    on_walks: bool,
    /// The prefetcher acts on fetches alone (MOR-1).
    for_fetches: bool,
    /// The sides that the buffer serves: data, fetch.
    serves: [bool; 2],
    delay: u64,
    flushes: bool,
    fills_walk_caches: bool,
    /// A prefetch is one reference to the page table's entry (RP-5).
    reads_entries: bool,
    process_ids: bool,
    candidates: Vec<i64>,
}

impl Prefetch {
    fn new(params: &Params) -> Result<Prefetch, String> {
        let one_for_all = params.text(PREDICT_UNIT.name) == "base";
        let side = params.text(PB_FOR.name);
        Ok(Prefetch {
            buffer: Buffer::new(params.int(PB_ENTRIES.name) as usize),
            free: Free::new(params)?,
            predictors: predictors::build(params, if one_for_all { 1 } else { ORDERS.len() })?,
            filter: match params.text(PREFETCH_FILTER.name) {
                "l1" => Filter::Both,
                "none" => Filter::None,
                _ => Filter::Second,
            },
            into_second: params.text(PREFETCH_INTO.name) == "l2",
            on_walks: params.text(PREFETCH_ON.name) == "walk",
            for_fetches: predictors::chosen(params).is_some_and(|listed| listed.for_fetches),
            serves: [side != "fetch", side != "data"],
            delay: params.int(PREFETCH_DELAY.name),
            flushes: params.text(PREDICTORS_ON_SWITCH.name) == "flush",
            fills_walk_caches: params.flag(PREFETCH_FILLS_PWC.name),
            reads_entries: predictors::reads_entries(params),
            process_ids: params.flag(PROCESS_IDS.name),
            candidates: Vec::with_capacity(64),
        })
    }

    fn serves(&self, kind: Kind) -> bool {
        self.serves[usize::from(kind == Kind::Fetch)]
    }

    /// Brings in a page, of whose first base page or any other this is the entry. `at` is the miss that led to it.
    fn bring(&mut self, page: Page, (vpn, pte): (Vpn, Pte), source: Source, miss: &Miss, context: &mut Context) {
        let counter = if source == Source::Prefetched { PREFETCHED } else { FREE };
        *context.own().at(counter) += 1;
        if self.into_second {
            context.fill_second(Lookup { vpn, ..miss.at }, pte);
            *context.own().at(INTO_L2) += 1;
            return;
        }
        let evicts = self.buffer.put(page, Entry::new(page, pte, source, miss.position + self.delay));
        *context.own().at(EVICTED_UNUSED) += u64::from(evicts);
        *context.own().at(RESIDENT) = self.buffer.len() as u64;
    }

    /// The neighbours of a page whose entry a walk read (SBFP-3).
    fn take_neighbours(&mut self, page: Page, miss: &Miss, context: &mut Context) {
        if !self.free.is_on() {
            return;
        }
        let slot = page.number as i64 % LINE;
        for distance in (-slot..LINE - slot).filter(|distance| *distance != 0) {
            let neighbour = Page { number: page.number.wrapping_add_signed(distance), ..page };
            let (vpn, distance) = (neighbour.first(), distance as i8);
            let found = context.table.pte(page.asid, vpn).filter(|pte| leaf_order(pte.order) == page.order);
            let Some(pte) = found else { continue };
            match self.free.use_of(page.order, distance) {
                Use::Nothing => {}
                Use::Sample => self.free.sample(neighbour, distance),
                Use::Fill => {
                    let there =
                        context.in_second(page.asid, vpn, miss.at.kind) || self.buffer.find(page.asid, vpn).is_some();
                    if !there {
                        self.bring(neighbour, (vpn, pte), Source::Free(distance), miss, context);
                    }
                }
            }
        }
    }

    /// Whether a predicted page is dropped without cost (PB-6); `page` is that of the miss.
    fn filters(&self, candidate: i64, page: i64, unit: u8, at: Lookup, context: &Context) -> bool {
        if candidate == page || !(0..1 << (PROGRAMS - u32::from(unit))).contains(&candidate) {
            return true;
        }
        let vpn = Vpn((candidate as u64) << unit);
        self.buffer.find(at.asid, vpn).is_some()
            || self.filter != Filter::None && context.in_second(at.asid, vpn, at.kind)
            || self.filter == Filter::Both && context.in_first(at.asid, vpn, at.kind)
    }

    /// The entry of a predicted page, with what it took to get it (PB-7, RP-5). Nothing faults (HW-10).
    fn find(&mut self, asid: Asid, vpn: Vpn, context: &mut Context) -> Walked {
        if !self.reads_entries {
            return match self.fills_walk_caches {
                true => context.walk_ahead(asid, vpn),
                false => context.walk_aside(asid, vpn),
            };
        }
        let found = context.table.pte(asid, vpn);
        let level = found.map_or(0, |pte| leaf_level(pte.order, RADIX));
        let address = match context.port.by_caches() {
            true => context.port.place(Node::on_the_way(asid, vpn, level)).address,
            false => 0,
        };
        context.step(Purpose::Background, &[address]);
        Walked { references: 1, found, ..Walked::default() }
    }

    /// One predicted page: filter, walk, fill (PB-5). Returns the page that was brought in.
    fn follow(&mut self, candidate: i64, page: i64, unit: u8, miss: &Miss, context: &mut Context) -> Option<Page> {
        *context.own().at(CANDIDATES) += 1;
        if self.filters(candidate, page, unit, miss.at, context) {
            *context.own().at(FILTERED) += 1;
            return None;
        }
        let (asid, vpn) = (miss.at.asid, Vpn((candidate as u64) << unit));
        let walked = self.find(asid, vpn, context);
        let own = context.own();
        *own.at(WALKS) += 1;
        *own.at(NODES) += walked.references;
        let Some(pte) = walked.found else {
            *own.at(FAULTING) += 1;
            return None;
        };
        let page = Page::of(asid, vpn, leaf_order(pte.order));
        self.bring(page, (vpn, pte), Source::Prefetched, miss, context);
        Some(page)
    }

    /// Counts entries that a change dropped.
    fn dropped(&self, many: u64, account: &mut Account) {
        *account.own().at(INVALIDATED) += many;
        *account.own().at(RESIDENT) = self.buffer.len() as u64;
    }
}

impl Addition for Prefetch {
    /// PB-2, and the sampler (PB-5).
    fn missed(&mut self, miss: &Miss, context: &mut Context) -> Option<Translation> {
        let Lookup { asid, vpn, kind } = miss.at;
        if !self.serves(kind) {
            return None;
        }
        let own = context.own();
        let Some((page, entry)) = self.buffer.take(asid, vpn) else {
            self.free.missed(Page::of(asid, vpn, leaf_order(miss.pte.order)), own);
            return None;
        };
        *own.at(RESIDENT) = self.buffer.len() as u64;
        *own.at(HITS) += 1;
        *own.at(if entry.source == Source::Prefetched { HITS_PREFETCHED } else { HITS_FREE }) += 1;
        *own.at(LATE) += u64::from(miss.position < entry.ready);
        self.free.hit(page, entry.source, own);
        Some(entry.translate(page, vpn))
    }

    fn filled(&mut self, miss: &Miss, by: By, victim: Option<Victim>, context: &mut Context) {
        let Lookup { asid, vpn, kind } = miss.at;
        if !self.serves(kind) {
            return;
        }
        let page = Page::of(asid, vpn, leaf_order(miss.pte.order));
        if by == By::Walk {
            self.take_neighbours(page, miss, context);
        }
        if self.predictors.is_empty() || self.for_fetches && kind != Kind::Fetch {
            return;
        }
        let unit = if self.predictors.len() > 1 { page.order } else { 0 };
        let number = (page.first().0 >> unit) as i64;
        let place = index(unit);
        if self.on_walks && by != By::Walk {
            let passed = Trigger { asid, page: number, order: unit, pc: miss.pc, victim, free: &self.free };
            self.predictors[place].passed(&passed, context.own());
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let trigger = Trigger { asid, page: number, order: unit, pc: miss.pc, victim, free: &self.free };
        self.predictors[place].predict(&trigger, &mut candidates, context.own());
        for (i, candidate) in candidates.drain(..).enumerate() {
            if let Some(page) = self.follow(candidate, number, unit, miss, context)
                && self.predictors[place].takes_neighbours(i)
            {
                self.take_neighbours(page, miss, context);
            }
        }
        self.candidates = candidates;
        let trigger = Trigger { asid, page: number, order: unit, pc: miss.pc, victim, free: &self.free };
        self.predictors[place].train(&trigger, context.own());
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, account: &mut Account) -> u64 {
        let dropped = self.buffer.drop_pages(asid, pages);
        self.dropped(dropped, account);
        if !demoted {
            self.predictors.iter_mut().for_each(|predictor| predictor.unmapped(asid, pages));
        }
        0
    }

    fn drop_space(&mut self, asid: Asid, account: &mut Account) -> u64 {
        let dropped = self.buffer.drop_space(asid);
        self.dropped(dropped, account);
        self.predictors.iter_mut().for_each(|predictor| predictor.gone(asid));
        0
    }

    /// HW-9.
    fn switch(&mut self, to: Asid, account: &mut Account) -> u64 {
        if !self.process_ids {
            let dropped = self.buffer.drop_others(to);
            self.dropped(dropped, account);
            self.free.drop_others(to);
        }
        if self.flushes {
            self.predictors.iter_mut().for_each(|predictor| predictor.forget());
            self.free.forget();
        }
        0
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        if self.serves(kind) { self.buffer.probe(asid, vpn) } else { None }
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.buffer.views(before, into);
    }

    fn entries(&self) -> usize {
        self.buffer.most()
    }
}

#[cfg(test)]
mod tests;
