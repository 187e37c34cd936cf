//! Huge pages from a pool that was set aside when the system started, as hugetlbfs and libhugetlbfs give them to heaps
//! and other private anonymous memory. Memory that is not a whole aligned huge page inside its region gets base pages,
//! or is rounded up to one.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Bytes, Pfn};
use farreach_types::params::{Allowed, Key, Params};

const HUGE_PAGE: Key = Key {
    name: "huge_page",
    default: "1G",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 39 },
    about: "size of the huge pages",
};
const POOL: Key = Key {
    name: "pool",
    default: "1G",
    allowed: Allowed::Size { min: 0, or: "none" },
    about: "memory set aside for huge pages when the system starts, a whole number of them",
};

const ROUND: Key = Key {
    name: "hugetlb_round",
    default: "false",
    allowed: Allowed::Flag,
    about: "memory that shares its huge page with nothing but heap and private anonymous memory is rounded up to it \
            (libhugetlbfs)",
};

/// Registry entry.
pub const HUGETLB: PlacementKind = PlacementKind {
    name: "hugetlb",
    about: "huge pages from a pool set aside at the start, for heaps and private anonymous memory",
    keys: &[&HUGE_PAGE, &POOL, &ROUND],
    build,
};

struct HugeTlb {
    order: [u8; 1],
    size: u64,
    pool: u64,
    rounds_up: bool,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let (size, pool) = (params.int(HUGE_PAGE.name), params.size(POOL.name).unwrap_or(0));
    let order = params.order(HUGE_PAGE.name, size)? as u8;
    if order == 0 || !pool.is_multiple_of(size) {
        let (size, pool) = (Bytes(size), Bytes(pool));
        return Err(format!(
            "huge_page = {size}, pool = {pool} is not allowed: a huge page must be larger than page_size, the pool a \
             multiple of it"
        ));
    }
    Ok(Box::new(HugeTlb { order: [order], size, pool, rounds_up: params.flag(ROUND.name) }))
}

impl Placement for HugeTlb {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let got = memory.set_aside(self.pool / self.size, self.order[0].into());
        if got < self.pool / self.size {
            let (pool, size) = (Bytes(self.pool), Bytes(self.size));
            return Err(format!(
                "pool = {pool} is not allowed: memory has only {got} free aligned blocks of {size}; give larger \
                 memory, less fragmentation, or (allocator = buddy) a larger max_order"
            ));
        }
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, _: HugeAdvice) -> &[u8] {
        if memory.objects.get(region.object).private { &self.order } else { &[] }
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn rounds_up(&self) -> bool {
        self.rounds_up
    }

    fn huge_order(&self) -> Option<u8> {
        Some(self.order[0])
    }

    fn superpage_block(&mut self, memory: &mut Memory, _: FrameRequest, order: u8) -> Option<Pfn> {
        memory.pool.take_block(order.into())
    }
}
