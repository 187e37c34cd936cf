//! Pages of 1 GB as Trident makes them (TRI; Ram and others, MICRO 2021): a fault brings in 1 GB, else 2 MB, else a
//! base page; khugepaged tries 1 GB before 2 MB, and memory is compacted such that little is copied for a block of 1 GB
//! (`compaction = smart`). Exchanges of a guest with its host (TRI-4) need both systems, and are not there.

use super::cap::ALLOCATOR;
use super::contract::{Effort, FrameRequest, Placement, PlacementKind};
use super::linux::{ALLOC_SLEEP, COMPACTS, DEFRAG, PAGES, SHARED, SLEEP, efforts, settings};
use super::thp::{NONE, SIZE, THP, order};
use super::tps::MAX_ORDER;
use crate::background::TICKS_PER_MS;
use crate::background::collapse::Collapse;
use crate::background::contract::Daemon;
use crate::background::khugepaged::{Khugepaged, Settings};
use crate::compaction::policy::COMPACTION;
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const LARGE: Key = Key {
    name: "tri_size",
    default: "1G",
    allowed: Allowed::PageSize { min: 16384, max: 1 << 30 },
    about: "the larger superpage, which faults and khugepaged try first (TRI-1); it is made of those of thp_size",
};
const LARGE_NONE: Key = Key {
    name: "tri_max_none",
    default: "262143",
    allowed: Allowed::Int { min: 0, max: 1 << 18 },
    about: "base pages of a larger group that may be missing when it is collapsed (TRI-2)",
};
/// TRI-2: two of 1 GB.
const SCAN: Key = Key { default: "524288", ..PAGES };
const SMART: Key = Key { default: "smart", ..COMPACTION };

/// Registry entry.
pub const TRIDENT: PlacementKind = PlacementKind {
    name: "trident",
    about: "superpages of 1 GB and of 2 MB at faults and by khugepaged, with compaction that copies little (Trident)",
    keys: &[
        &LARGE,
        &LARGE_NONE,
        &THP,
        &SIZE,
        &DEFRAG,
        &SCAN,
        &SLEEP,
        &ALLOC_SLEEP,
        &COMPACTS,
        &NONE,
        &SHARED,
        &TICKS_PER_MS,
        &SMART,
        &ALLOCATOR,
        &MAX_ORDER,
    ],
    build,
};

struct Trident {
    /// The larger one first; empty: there are none.
    orders: Vec<u8>,
    /// Memory has superpages without advice.
    always: bool,
    /// For advised memory, and other.
    effort: [Effort; 2],
    khugepaged: Option<Khugepaged>,
    /// The larger superpages that were made.
    made: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let [small, large] = [&SIZE, &LARGE].map(|key| order(params, key, params.int(key.name)));
    let (small, large) = (small?, large?);
    if large <= small {
        return Err(format!(
            "{} = {} is not allowed: it must be larger than {} = {}",
            LARGE.name,
            params.int(LARGE.name),
            SIZE.name,
            params.int(SIZE.name)
        ));
    }
    let blocks = params.int(MAX_ORDER.name);
    if u64::from(large) >= blocks {
        return Err(format!(
            "{} = {blocks} is not allowed: it must be larger than {large}, so that blocks are as large as {} = {}",
            MAX_ORDER.name,
            LARGE.name,
            params.int(LARGE.name)
        ));
    }
    let orders = if params.text(THP.name) == "never" { Vec::new() } else { vec![large, small] };
    let works = params.int(SCAN.name) > 0 && !orders.is_empty();
    let khugepaged = works.then(|| {
        let settings = settings(params, small);
        // No page of the large group may be shared (TRI-2).
        let large = Collapse { order: large, missing: params.int(LARGE_NONE.name), shared: 0, ..settings.collapse };
        Khugepaged::new(Settings { large: Some(large), ..settings })
    });
    let (always, effort) = (params.text(THP.name) == "always", efforts(params));
    Ok(Box::new(Trident { orders, always, effort, khugepaged, made: 0 }))
}

impl Placement for Trident {
    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        self.khugepaged.take().into_iter().map(|daemon| Box::new(daemon) as Box<dyn Daemon>).collect()
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let wanted = advice == HugeAdvice::Huge || (advice == HugeAdvice::None && self.always);
        if wanted && memory.objects.get(region.object).private { &self.orders } else { &[] }
    }

    fn superpage_block(&mut self, memory: &mut Memory, _: FrameRequest, order: u8) -> Option<Pfn> {
        let block = memory.alloc_block(order.into());
        self.made += u64::from(block.is_some() && self.orders.first() == Some(&order));
        block
    }

    /// TRI-1: a fault takes a large block that is free, and makes none.
    fn effort(&self, advice: HugeAdvice, order: u8) -> Effort {
        match self.orders.first() {
            Some(&large) if large == order => Effort::Fail,
            _ => self.effort[usize::from(advice != HugeAdvice::Huge)],
        }
    }

    fn copies_parts(&self) -> bool {
        true
    }

    fn split_into(&self, order: u32) -> u32 {
        match self.orders[..] {
            [large, small] if u32::from(large) == order => small.into(),
            _ => 0,
        }
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn counters(&self, _: &Memory) -> Vec<(String, u64)> {
        vec![("large_pages".to_owned(), self.made)]
    }
}

#[cfg(test)]
mod tests;
