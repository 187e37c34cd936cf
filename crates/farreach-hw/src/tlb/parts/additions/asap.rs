//! ASAP: the system keeps the lower two levels of the page table of large regions in virtual order, so that their
//! entries for a page that misses can be read at once, while the walk begins at the top (ASA). Walks and their nodes
//! are counted as without it (ASA-4).

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, shown, speculation};
use crate::cache::levels::{L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES};
use crate::cache::{LastWalk, Purpose, answered_at};
use crate::tlb::contract::EntryView;
use crate::tlb::parts::hierarchy::nodes::{Entry, RADIX};
use crate::tlb::parts::hierarchy::walk::{by_caches, leaf_level};
use crate::tlb::parts::tables::TABLE;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::MemoryCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Translation};

/// ASA-1.
pub const ASAP_REGISTERS: Key = Key {
    name: "asap_registers",
    default: "16",
    allowed: Allowed::Int { min: 1, max: 4096 },
    about: "range registers, loaded with the largest regions of the running process",
};

const COVERED: usize = 0;
const HUGE: usize = 1;
const PREFETCHES: usize = 2;

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "asap",
    about: "reads the lower two levels of the page table ahead, while the walk begins (ASAP)",
    keys: &[&ASAP_REGISTERS],
    counters: &[
        Counter::new("covered", "walks in a region that has a register"),
        Counter::new("huge", "of these, to pages of 2 MB"),
        Counter::new("prefetches", "entries read ahead"),
    ],
    laws: &[
        Law {
            name: "ASA-3",
            sides: |part, _| {
                let of = |name| part.counters.get(name);
                (of("prefetches") + of("huge"), 2 * of("covered"))
            },
        },
        Law {
            name: "ASA-2",
            sides: |part, _| (part.counters.get("prefetches"), part.memory.made.background_references),
        },
    ],
    check: |params| {
        speculation::check(params)?;
        if params.text(TABLE.name) != TABLE.default {
            return Err(format!(
                "{} is not allowed with {} = {}: only a radix tree has levels to read ahead",
                shown(params),
                TABLE.name,
                params.text(TABLE.name)
            ));
        }
        Ok(())
    },
    build: |params, _| Ok(Box::new(Asap::new(params))),
    ..ListedAddition::NEW
};

/// See the module.
struct Asap {
    most: usize,
    /// The regions of this process, at this version of them.
    loaded: Option<(Asid, u64)>,
    registers: Vec<VpnRange>,
    /// Of each cache level and of memory, where references go through caches.
    latencies: Option<[f64; 4]>,
}

impl Asap {
    fn new(params: &Params) -> Asap {
        let cycles = || [L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES].map(|key| params.number(key.name));
        Asap {
            most: params.int(ASAP_REGISTERS.name) as usize,
            loaded: None,
            registers: Vec::new(),
            latencies: by_caches(params).then(cycles),
        }
    }

    /// Whether a register has the page. Loads them anew if the regions changed (ASA-1).
    fn covers(&mut self, asid: Asid, vpn: Vpn, table: &dyn PageTableView) -> bool {
        let now = (asid, table.regions_version(asid));
        if self.loaded != Some(now) {
            self.registers = table.largest_regions(asid, self.most);
            self.loaded = Some(now);
        }
        self.registers.iter().any(|region| region.contains(vpn))
    }

    /// Counts what the program did not wait for (ASA-3): the nodes above and the reads ahead go on at the same time, so
    /// that it waits for the longer of the two.
    fn hide(&self, walk: &LastWalk, memory: &mut MemoryCounts) {
        let above: u64 = walk.by_level[2..].iter().sum();
        let Some(latencies) = self.latencies.filter(|_| walk.answers().next().is_some()) else {
            memory.hidden_references += walk.steps - above.max(1);
            return;
        };
        let cycles = |at| latencies[at as usize];
        let top: f64 = walk.answers().filter(|(level, _)| *level >= 2).map(|(_, at)| cycles(at)).sum();
        let low = walk.answers().filter(|(level, _)| *level < 2).map(|(_, at)| at).max().expect("it read the leaf");
        // The slowest of those read ahead is waited for, or all above; the rest is hidden.
        let waits_for_low = cycles(low) > top;
        let slowest = walk.answers().position(|(level, at)| level < 2 && at == low);
        for (step, (level, at)) in walk.answers().enumerate() {
            let waited = if waits_for_low { Some(step) == slowest } else { level >= 2 };
            if !waited {
                memory.hidden_references += 1;
                *answered_at(&mut memory.hidden_answered, at) += 1;
            }
        }
    }
}

impl Addition for Asap {
    /// ASA-2. Caches see the reads ahead when the walk is over: they are of lines that the walk has read.
    fn filled(&mut self, miss: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        let leaf = leaf_level(miss.pte.order, RADIX);
        let (asid, vpn) = (miss.at.asid, miss.at.vpn);
        if by != By::Walk || leaf > 1 || !self.covers(asid, vpn, context.table) {
            return;
        }
        let walk = context.port.last_walk();
        self.hide(&walk, context.memory());
        let mut addresses = [0; 2];
        if context.port.by_caches() {
            let address = |level| context.port.place(Entry::on_the_way(asid, vpn, level)).address;
            addresses = [1, 0].map(address);
        }
        let read = &addresses[..2 - usize::from(leaf)];
        context.step(Purpose::Background, read);
        *context.own().at(COVERED) += 1;
        *context.own().at(HUGE) += u64::from(leaf == 1);
        *context.own().at(PREFETCHES) += read.len() as u64;
    }

    fn drop_pages(&mut self, _: Asid, _: VpnRange, _: bool, _: &mut Account) -> u64 {
        0
    }

    fn drop_space(&mut self, _: Asid, _: &mut Account) -> u64 {
        self.loaded = None;
        0
    }

    fn switch(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    /// It answers nothing.
    fn probe(&self, _: Asid, _: Vpn, _: Kind) -> Option<Translation> {
        None
    }

    fn views(&self, _: usize, _: &mut Vec<EntryView>) {}

    fn entries(&self) -> usize {
        0
    }
}
