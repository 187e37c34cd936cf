//! Carrefour-LP (CLP; Gaud and others, ATC 2014) over transparent huge pages: memory has nodes, and a daemon moves
//! pages to the nodes whose threads use them. It splits superpages that several nodes use, if that helps, and hot ones.
//! The daemon is [`background::carrefour`](crate::background::carrefour).
//!
//! Where the rules are silent:
//!
//! * A page lies on the node of the thread that ran when it got its frame: nodes have no addresses, and each has room
//!   as long as memory has.
//! * Threads are dealt to the cores of the machine, and cores to nodes in equal runs. On a machine of one core they are
//!   dealt to as many cores as there are nodes, which share its TLB.
//! * Samples are page walks, as accesses that hit in a TLB are not seen.
//! * Walks that miss the second-level cache cannot be seen either: superpages are switched on by walks in percent of
//!   the instructions.

use super::contract::{CollapsePolicy, FrameRequest, NumaPolicy, Placement, PlacementKind};
use super::thp::{ALLOCATOR, EVERY, GROUPS, NONE, SHMEM, SHMEM_SIZE, SIZE, SIZES, THP, THP_KIND};
use crate::background::TICKS_PER_MS;
use crate::background::carrefour::{Balancer, Settings};
use crate::background::contract::Daemon;
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

/// CLP-1.
pub(crate) const NODES: Key = Key {
    name: "carrefour_nodes",
    default: "2",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "nodes of memory, each with as many of the cores (CLP-1); 1: as thp, and nothing moves",
};
const PERIOD: Key = Key {
    name: "carrefour_period_ms",
    default: "1000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "milliseconds from one run of the daemon to the next (CLP-1); see ticks_per_ms",
};
/// Assumed: a decision about 6 % of the samples needs several of these.
const LEAST: Key = Key {
    name: "carrefour_least_samples",
    default: "100",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "samples of a period below which nothing is moved or split",
};
const SAMPLE: Key = Key {
    name: "carrefour_sample",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "one of this number of page walks is a sample of the accesses",
};
const HOT: Key = Key {
    name: "carrefour_hot",
    default: "6",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "a superpage with more than this percent of the samples is hot: it is split, and its pages dealt to all \
            nodes",
};
const MOVED: Key = Key {
    name: "carrefour_moved",
    default: "15",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "points by which the local accesses must rise, in percent, for superpages to be moved whole",
};
const SPLIT: Key = Key {
    name: "carrefour_split",
    default: "5",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "points by which they must rise, where they do not so, for superpages of several nodes to be split",
};
const WALKS: Key = Key {
    name: "carrefour_walks",
    default: "5",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "percent of the instructions that walk, above which superpages are switched on again",
};
const FAULTS: Key = Key {
    name: "carrefour_faults",
    default: "5",
    allowed: Allowed::Int { min: 0, max: 100 },
    about: "percent of the time that faults take, above which superpages are switched on again",
};
/// As `farreach advise` measured on a Zen 5 with Linux 6.18.
const FAULT_TICKS: Key = Key {
    name: "carrefour_fault_ticks",
    default: "4500",
    allowed: Allowed::Int { min: 0, max: 1 << 30 },
    about: "time of a fault, in instructions, for carrefour_faults",
};
/// As before.
const PAGE_TICKS: Key = Key {
    name: "carrefour_page_ticks",
    default: "730",
    allowed: Allowed::Int { min: 0, max: 1 << 30 },
    about: "time of filling or copying a page at a fault, in instructions, for carrefour_faults",
};

/// The key of hardware with several cores.
const CORES: &str = "cores";
/// The key of hardware whose page tables lie on nodes.
const TABLE_NODES: &str = "numa_nodes";

/// Registry entry.
pub const CARREFOUR: PlacementKind = PlacementKind {
    name: "carrefour",
    about: "as thp, on nodes of memory: pages move to the nodes that use them, superpages of several are split \
            (Carrefour-LP)",
    keys: &[
        &NODES,
        &PERIOD,
        &LEAST,
        &SAMPLE,
        &HOT,
        &MOVED,
        &SPLIT,
        &WALKS,
        &FAULTS,
        &FAULT_TICKS,
        &PAGE_TICKS,
        &TICKS_PER_MS,
        &THP,
        &SIZE,
        &SIZES,
        &EVERY,
        &GROUPS,
        &NONE,
        &SHMEM,
        &SHMEM_SIZE,
        &ALLOCATOR,
    ],
    build,
};

struct Carrefour {
    thp: Box<dyn Placement>,
    numa: Option<NumaPolicy>,
    daemon: Option<Balancer>,
    /// Faults bring in superpages.
    at_faults: bool,
    /// Base pages are collapsed.
    collapsed: bool,
}

/// Nodes and cores. The error names the keys and what is allowed.
fn policy(params: &Params) -> Result<Option<NumaPolicy>, String> {
    let nodes = params.int(NODES.name);
    let of_hardware = |key: &str| if params.has(key) { params.int(key) } else { 1 };
    let cores = match of_hardware(CORES) {
        1 => nodes,
        cores => cores,
    };
    if !cores.is_multiple_of(nodes) {
        return Err(format!(
            "{} = {nodes} is not allowed with {CORES} = {cores}: each node has as many cores; {CORES} must be 1 or a \
             multiple of {}",
            NODES.name, NODES.name
        ));
    }
    if params.has(TABLE_NODES) && params.int(TABLE_NODES) != nodes {
        return Err(format!(
            "{} = {nodes} is not allowed with {TABLE_NODES} = {}: page tables and data lie on the same nodes; both \
             must be equal",
            NODES.name,
            params.int(TABLE_NODES)
        ));
    }
    let every = params.int(SAMPLE.name);
    Ok((nodes > 1).then_some(NumaPolicy { nodes: nodes as u8, cores, every }))
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let (thp, numa) = ((THP_KIND.build)(params)?, policy(params)?);
    let daemon = numa.map(|numa| {
        Balancer::new(Settings {
            nodes: numa.nodes,
            period: params.int(PERIOD.name).saturating_mul(params.int(TICKS_PER_MS.name)),
            least: params.int(LEAST.name),
            hot: params.int(HOT.name),
            moved: params.int(MOVED.name),
            split: params.int(SPLIT.name),
            walks: params.int(WALKS.name),
            faults: params.int(FAULTS.name),
            fault_ticks: params.int(FAULT_TICKS.name),
            page_ticks: params.int(PAGE_TICKS.name),
        })
    });
    Ok(Box::new(Carrefour { thp, numa, daemon, at_faults: true, collapsed: true }))
}

impl Placement for Carrefour {
    fn numa_policy(&self) -> Option<NumaPolicy> {
        self.numa
    }

    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        self.daemon.take().into_iter().map(|daemon| Box::new(daemon) as Box<dyn Daemon>).collect()
    }

    fn allow_superpages(&mut self, at_faults: bool, collapsed: bool) {
        (self.at_faults, self.collapsed) = (at_faults, collapsed);
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.thp.allocate(memory, request)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        match self.at_faults {
            true => self.thp.superpage_orders(memory, region, request, advice),
            false => &[],
        }
    }

    fn merges_neighbours(&self) -> bool {
        self.thp.merges_neighbours()
    }

    fn reuses_superpages(&self, order: u8) -> bool {
        self.thp.reuses_superpages(order)
    }

    fn collapse_policy(&self) -> Option<CollapsePolicy> {
        self.thp.collapse_policy().filter(|_| self.collapsed)
    }
}

#[cfg(test)]
mod tests;
