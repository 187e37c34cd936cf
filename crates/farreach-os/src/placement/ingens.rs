//! Ingens (ING; Kwon et al., OSDI 2016): a fault brings in a base page, and groups of pages become superpages in the
//! background once most of their pages are in use. Which pages are accessed is sampled by their accessed bits. The
//! daemons are in [`background::ingens`](crate::background::ingens) and
//! [`background::tracker`](crate::background::tracker).
//!
//! OAMB-9: a scan clears the bits of 20 % of the hot pages, and fairness has the metric of the authors' kernel. Left
//! out are page sharing (ING-8), the metric of the paper, which takes idle superpages from other processes (ING-4), and
//! with both what splits an idle superpage (ING-5).

use super::contract::{FrameRequest, Placement, PlacementKind};
use super::linux::{self, SHARED, SLEEP};
use super::thp::{ALLOCATOR, NONE, SIZE, THP, order};
use crate::accessed::ACCESS_BITS;
use crate::background::TICKS_PER_MS;
use crate::background::collapse::Collapse;
use crate::background::contract::Daemon;
use crate::background::ingens::{Promoter, Settings};
use crate::background::tracker::Tracker;
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params, SEED};

const THRESHOLD: Key = Key {
    name: "util_threshold",
    default: "90",
    allowed: Allowed::Int { min: 1, max: 100 },
    about: "percent of a group's pages that faulted when it is queued to become a superpage (ING-2)",
};
const ADAPTIVE: Key = Key {
    name: "adaptive",
    default: "false",
    allowed: Allowed::Flag,
    about: "one page of a group is enough as long as free memory is little fragmented (index below 0.5, ING-6)",
};
const FAIRNESS: Key = Key {
    name: "fairness",
    default: "false",
    allowed: Allowed::Flag,
    about: "behind the queue, the process comes first that has fewest superpages for what it wants (ING-4); otherwise \
            one process after the other",
};
const WEIGHTS: Key = Key {
    name: "fairness_weights",
    default: "1",
    allowed: Allowed::Texts,
    about: "weights of the processes in the order in which they start, joined by +, the last for all others, too; 0: \
            not considered (ING-4)",
};
const PAGES: Key =
    Key { about: "base pages that the promoter looks at in one wake (LNX-10); 0: it does not work", ..linux::PAGES };
const ALLOC_SLEEP: Key =
    Key { about: "milliseconds that the promoter sleeps when there was no block", ..linux::ALLOC_SLEEP };
pub(super) const COMPACTS: Key =
    Key { name: "promoter_defrag", about: "the promoter may compact memory for a block", ..linux::COMPACTS };
const PROMOTE_SLEEP: Key = Key {
    name: "promote_sleep_ms",
    about: "milliseconds between two wakes of the promoter, if no group is queued; see ticks_per_ms",
    ..SLEEP
};
const TRACK_SLEEP: Key = Key {
    default: "4000",
    about: "milliseconds between two scans of the accessed bits (ING-5); see ticks_per_ms",
    ..SLEEP
};
const SAMPLE: Key = Key {
    name: "hot_sample",
    default: "20",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "of a hundred hot pages, those whose accessed bits a scan clears, at random (ING-5)",
};

/// Registry entry.
pub const INGENS: PlacementKind = PlacementKind {
    name: "ingens",
    about: "base pages at faults; superpages in the background, of groups that are mostly in use (Kwon et al. 2016)",
    keys: &[
        &THP,
        &SIZE,
        &THRESHOLD,
        &ADAPTIVE,
        &FAIRNESS,
        &WEIGHTS,
        &PAGES,
        &PROMOTE_SLEEP,
        &ALLOC_SLEEP,
        &COMPACTS,
        &NONE,
        &SHARED,
        &TRACK_SLEEP,
        &SAMPLE,
        &ACCESS_BITS,
        &TICKS_PER_MS,
        &ALLOCATOR,
    ],
    build,
};

struct Ingens {
    /// Which memory gets superpages: all that does not refuse, or none that does not ask.
    always: bool,
    /// The size, unless there are none.
    order: Option<u8>,
    daemons: Vec<Box<dyn Daemon>>,
}

/// The weights of processes. The error names the key and what is allowed.
fn weights(params: &Params) -> Result<Vec<u64>, String> {
    let words = params.texts(WEIGHTS.name);
    let weights: Vec<u64> = words.iter().filter_map(|word| word.parse().ok().filter(|n| *n <= 1 << 20)).collect();
    if weights.is_empty() || weights.len() != words.len() {
        return Err(format!(
            "{} = {} is not allowed: it must be whole numbers from 0 to 1048576, joined by +",
            WEIGHTS.name,
            words.join("+")
        ));
    }
    Ok(weights)
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let (size, weights) = (order(params, &SIZE, params.int(SIZE.name))?, weights(params)?);
    let ms = |key: &Key| params.int(key.name).saturating_mul(params.int(TICKS_PER_MS.name));
    let order = (params.text(THP.name) != "never").then_some(size);
    let promoter = order.filter(|_| params.int(PAGES.name) > 0).map(|order| {
        Promoter::new(Settings {
            collapse: Collapse {
                order,
                compacts: params.flag(COMPACTS.name),
                missing: params.int(NONE.name),
                shared: params.int(SHARED.name),
                accessed: true,
            },
            pages: params.int(PAGES.name),
            sleep: ms(&PROMOTE_SLEEP),
            alloc_sleep: ms(&ALLOC_SLEEP),
            percent: params.int(THRESHOLD.name),
            adaptive: params.flag(ADAPTIVE.name),
            weights: params.flag(FAIRNESS.name).then_some(weights),
        })
    });
    let tracker = Tracker::new(ms(&TRACK_SLEEP), params.int(SAMPLE.name), params.int(SEED.name));
    // Of two that are due together the promoter works first.
    let mut daemons: Vec<Box<dyn Daemon>> = Vec::new();
    daemons.extend(promoter.map(|promoter| Box::new(promoter) as Box<dyn Daemon>));
    daemons.push(Box::new(tracker));
    Ok(Box::new(Ingens { always: params.text(THP.name) == "always", order, daemons }))
}

impl Placement for Ingens {
    /// ING-1.
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
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
        self.order == Some(order)
            && match advice {
                HugeAdvice::Huge => true,
                HugeAdvice::None => self.always,
                HugeAdvice::NoHuge | HugeAdvice::Rest => false,
            }
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
}
