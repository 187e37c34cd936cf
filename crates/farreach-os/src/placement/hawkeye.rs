//! HawkEye (HWE; Panwar et al., ASPLOS 2019): superpages in the background, of the groups of which most pages are
//! accessed; free blocks that are filled with zeros ahead, so that faults can map superpages cheaply; and pages of
//! zeros that are taken out of superpages when memory is short. The daemons are in
//! [`background::hawkeye`](crate::background::hawkeye), [`recovery`](crate::background::recovery) and
//! [`prezero`](crate::background::prezero).
//!
//! OAMB-10: bins are by logarithm, the period is 30 s.

use super::contract::{FrameRequest, Placement, PlacementKind};
use super::ingens::COMPACTS;
use super::linux::{self, SHARED, SLEEP};
use super::thp::{NONE, SIZE, THP, order};
use crate::accessed::ACCESS_BITS;
use crate::background::TICKS_PER_MS;
use crate::background::bins::BinRule;
use crate::background::collapse::Collapse;
use crate::background::contract::Daemon;
use crate::background::hawkeye::{HawkEye, Settings};
use crate::background::overhead::Overhead;
use crate::background::prezero::Prezero;
use crate::background::recovery::Recovery;
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Bytes, Pfn};
use farreach_types::params::{Allowed, Key, Params};

const BINS: Key = Key {
    name: "bins",
    default: "log2",
    allowed: Allowed::OneOf(&["log2", "50"]),
    about: "bins of groups by accessed pages: their logarithm, or fifty to a bin (HWE-3, OAMB-10)",
};
/// The other value of [`CHOICE`].
pub(crate) const BY_OVERHEAD: &str = "overhead";
pub(crate) const CHOICE: Key = Key {
    name: "process_choice",
    default: "coverage",
    allowed: Allowed::OneOf(&["coverage", BY_OVERHEAD]),
    about: "whose groups are promoted: those of the highest bin of all processes; or of the process that spends the \
            largest part of its time on page walks, whose pages of zeros are also taken last (G and PMU of HWE-4)",
};
const LEAST: Key = Key {
    name: "overhead_least",
    default: "2",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "with process_choice = overhead: percent of its time on walks with which a process gets superpages",
};
/// Assumed: some of its references hit caches.
const WALK: Key = Key {
    name: "overhead_walk_ticks",
    default: "50",
    allowed: Allowed::Int { min: 0, max: 1 << 30 },
    about: "with process_choice = overhead: the time of a page walk, in instructions",
};
const PERIOD: Key = Key {
    name: "coverage_ms",
    default: "30000",
    about: "milliseconds from one count of accessed pages to the next (HWE-2); see ticks_per_ms",
    ..SLEEP
};
const WINDOW: Key = Key {
    name: "coverage_window_ms",
    default: "1000",
    about: "milliseconds from clearing the accessed bits to counting them",
    ..SLEEP
};
const PAGES: Key = Key { about: "base pages that are promoted in one round (HWE-5); 0: none", ..linux::PAGES };
const ROUND: Key = Key {
    name: "promote_sleep_ms",
    about: "milliseconds between two rounds of promotion, of pages_to_scan base pages each (HWE-5)",
    ..SLEEP
};
const START: Key = Key {
    name: "recovery_start",
    default: "15",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "percent of memory: with less free, pages of zeros are taken out of superpages (HWE-7); 0: never",
};
const END: Key = Key {
    name: "recovery_end",
    default: "30",
    about: "percent of memory: with as much free, no more are; at least recovery_start",
    ..START
};
const RATE: Key = Key {
    name: "prezero_rate",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 30 },
    about: "free blocks that are filled with zeros ahead in a period; then faults map superpages (HWE-6); 0: none, and \
            faults map base pages",
};
const BLOCK: Key = Key {
    name: "prezero_block",
    default: "4M",
    allowed: Allowed::PageSize { min: 4096, max: 1 << 30 },
    about: "the free blocks that are filled with zeros ahead",
};
const PREZERO_PERIOD: Key = Key {
    name: "prezero_ms",
    default: "1000",
    about: "milliseconds from filling free blocks to filling the next",
    ..SLEEP
};
/// The list of free blocks has a head and a tail.
const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["buddy"]),
    about: "the frame allocator: zeroing ahead needs the free lists of the buddy allocator (HWE-6)",
};

/// Registry entry.
pub const HAWKEYE: PlacementKind = PlacementKind {
    name: "hawkeye",
    about: "superpages by access coverage, zeros ahead, pages of zeros taken back (Panwar et al. 2019)",
    keys: &[
        &THP,
        &SIZE,
        &BINS,
        &CHOICE,
        &LEAST,
        &WALK,
        &PERIOD,
        &WINDOW,
        &PAGES,
        &ROUND,
        &COMPACTS,
        &NONE,
        &SHARED,
        &START,
        &END,
        &RATE,
        &BLOCK,
        &PREZERO_PERIOD,
        &ACCESS_BITS,
        &TICKS_PER_MS,
        &ALLOCATOR,
    ],
    build,
};

struct Policy {
    /// Which memory gets superpages: all that does not refuse, or none that does not ask.
    always: bool,
    /// The size, unless there are none.
    orders: Vec<u8>,
    /// Blocks that are filled ahead: log2 of their frames and their size.
    prezero: Option<(u32, u64)>,
    daemons: Vec<Box<dyn Daemon>>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let size = order(params, &SIZE, params.int(SIZE.name))?;
    let orders: Vec<u8> = (params.text(THP.name) != "never").then_some(size).into_iter().collect();
    let ms = |key: &Key| params.int(key.name).saturating_mul(params.int(TICKS_PER_MS.name));
    let (start, end) = (params.int(START.name), params.int(END.name));
    if end < start {
        return Err(format!(
            "{} = {end} is not allowed with {} = {start}: it must be at least as much",
            END.name, START.name
        ));
    }
    let block = params.int(BLOCK.name).max(params.int("page_size"));
    let prezero =
        (params.int(RATE.name) > 0).then(|| params.order(BLOCK.name, block).map(|order| (order, block))).transpose()?;
    let mut daemons: Vec<Box<dyn Daemon>> = Vec::new();
    daemons.extend(orders.first().map(|&order| {
        Box::new(HawkEye::new(Settings {
            collapse: Collapse {
                order,
                compacts: params.flag(COMPACTS.name),
                missing: params.int(NONE.name),
                shared: params.int(SHARED.name),
                accessed: true,
            },
            bins: if params.text(BINS.name) == "log2" { BinRule::Log2 } else { BinRule::Fifty },
            period: ms(&PERIOD),
            window: ms(&WINDOW),
            pages: params.int(PAGES.name),
            sleep: ms(&ROUND),
            overhead: (params.text(CHOICE.name) == BY_OVERHEAD)
                .then(|| Overhead::new(params.int(WALK.name), params.int(LEAST.name))),
            recovery: (start > 0).then(|| Recovery::new(start, end)),
        })) as Box<dyn Daemon>
    }));
    if let Some((order, _)) = prezero {
        daemons.push(Box::new(Prezero::new(order, params.int(RATE.name), ms(&PREZERO_PERIOD))));
    }
    Ok(Box::new(Policy { always: params.text(THP.name) == "always", orders, prezero, daemons }))
}

impl Policy {
    fn allowed(&self, advice: HugeAdvice) -> &[u8] {
        match advice {
            HugeAdvice::Huge => &self.orders,
            HugeAdvice::None if self.always => &self.orders,
            _ => &[],
        }
    }
}

impl Placement for Policy {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        memory.watches_contents = true;
        let Some((order, block)) = self.prezero else { return Ok(()) };
        let bytes = memory.page_bytes();
        let blocks = memory.alloc.blocks_mut().expect("the key 'allocator' allows no other");
        if order >= blocks.max_order() {
            return Err(format!(
                "{} = {} is not allowed: the allocator has blocks of {} at most (max_order = {})",
                BLOCK.name,
                Bytes(block),
                Bytes(blocks.max_block() * bytes),
                blocks.max_order()
            ));
        }
        blocks.mark_zeroed();
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, _: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let object = memory.objects.get(request.object);
        if self.prezero.is_some() && object.private && !object.kind.is_file() { self.allowed(advice) } else { &[] }
    }

    fn collapses_into(
        &self,
        memory: &Memory,
        _: &Region,
        request: FrameRequest,
        advice: HugeAdvice,
        order: u8,
    ) -> bool {
        let _ = (memory, request);
        self.allowed(advice).contains(&order)
    }

    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        std::mem::take(&mut self.daemons)
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let used = self.prezero.map(|_| ("zeroed_ahead_used".to_owned(), memory.zeroed_ahead));
        used.into_iter().collect()
    }
}
