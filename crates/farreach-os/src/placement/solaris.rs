//! Multiple page sizes as in Solaris (SOL; MPSS): a segment has a preferred size, by advice or automatically, and a
//! fault brings in the largest size up to it for which there is a free page. Nothing is collapsed later.
//!
//! The preferred size is the largest of the list: a group lies inside its segment, so a smaller segment has a smaller
//! one. A superpage of which a part is unmapped or protected becomes base pages (SOL-2).

use super::contract::{FrameRequest, Placement, PlacementKind};
use super::thp::{ALLOCATOR, order};
use crate::memory::Memory;
use crate::object::Growth;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const SIZES: Key = Key {
    name: "sol_sizes",
    default: "2M",
    allowed: Allowed::PageSizesOrNone { min: 8192, max: 1 << 30 },
    about: "the superpage sizes (SOL-1); those of SPARC are 64K+512K+4M+32M+256M, with page_size = 8K",
};
const AUTO: Key = Key {
    name: "sol_auto",
    default: "heap+stack+text",
    allowed: Allowed::Texts,
    about: "segments that have superpages without advice: heap, stack, text (code of files), anon (other private \
            memory)",
};

/// Registry entry.
pub const SOLARIS: PlacementKind = PlacementKind {
    name: "solaris",
    about: "superpages of several sizes at faults, by advice and by kind of segment, never collapsed (Solaris)",
    keys: &[&SIZES, &AUTO, &ALLOCATOR],
    build,
};

/// Words of `sol_auto`.
const KINDS: [&str; 4] = ["heap", "stack", "text", "anon"];

struct Solaris {
    /// Largest first.
    orders: Vec<u8>,
    /// By kind.
    auto: [bool; KINDS.len()],
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let mut orders =
        params.sizes(SIZES.name).iter().map(|&size| order(params, &SIZES, size)).collect::<Result<Vec<_>, _>>()?;
    orders.reverse();
    let words = params.texts(AUTO.name);
    if let Some(word) = words.iter().find(|word| !KINDS.contains(&word.as_str())) {
        return Err(format!(
            "{} = {word} is not allowed: it must be a list of {}, joined by +",
            AUTO.name,
            KINDS.join(", ")
        ));
    }
    let auto = KINDS.map(|kind| words.iter().any(|word| word == kind));
    Ok(Box::new(Solaris { orders, auto }))
}

impl Solaris {
    /// SOL-1: whether a segment has a preferred size without advice.
    fn is_automatic(&self, memory: &Memory, region: &Region) -> bool {
        let object = memory.objects.get(region.object);
        let kind = match object.grows {
            _ if object.kind.is_file() => (region.prot.exec && !region.prot.write && !region.shared).then_some(2),
            Growth::Up => Some(0),
            Growth::Down => Some(1),
            Growth::None => object.private.then_some(3),
        };
        kind.is_some_and(|kind| self.auto[kind])
    }
}

impl Placement for Solaris {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, advice: HugeAdvice) -> &[u8] {
        match advice {
            HugeAdvice::Huge => &self.orders,
            HugeAdvice::None if self.is_automatic(memory, region) => &self.orders,
            _ => &[],
        }
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
