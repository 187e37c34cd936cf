//! Linux of today (LNX; 6.18): private anonymous memory by sizes that are set one by one, compaction at a fault by
//! `defrag`, khugepaged with its limits, MADV_COLLAPSE, pages of zeros, blocks that stay whole when they are partly
//! unmapped, superpages that are split since most of their pages hold zeros, and a page cache with large folios (PGC).

mod files;

use super::contract::{Effort, FrameRequest, Placement, PlacementKind};
use super::thp::{ALLOCATOR, NONE, SHMEM, SHMEM_SIZE, SIZE, THP, order};
use crate::background::TICKS_PER_MS;
use crate::background::collapse::Collapse;
use crate::background::contract::Daemon;
use crate::background::khugepaged::{Khugepaged, Settings};
use crate::memory::Memory;
use crate::memory::folios::Underused;
use crate::page_cache::PageCache;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};

/// Which memory one size is for.
const MODES: Allowed = Allowed::OneOf(&["inherit", "always", "madvise", "never"]);
const PMD: Key = Key {
    name: "thp_size_enabled",
    default: "inherit",
    allowed: MODES,
    about: "which memory gets superpages of thp_size; inherit: that of the key thp (LNX-1)",
};
const SIZES: Allowed = Allowed::PageSizesOrNone { min: 16384, max: 1 << 29 };
const ALWAYS: Key = Key {
    name: "mthp_always",
    default: "none",
    allowed: SIZES,
    about: "smaller superpages that all memory gets which does not refuse (hugepages-<size>/enabled, LNX-1)",
};
const MADVISE: Key = Key {
    name: "mthp_madvise",
    default: "none",
    allowed: SIZES,
    about: "smaller superpages for memory that asked by madvise",
};
const INHERIT: Key = Key {
    name: "mthp_inherit",
    default: "none",
    allowed: SIZES,
    about: "smaller superpages for the memory that the key thp says",
};
pub(super) const DEFRAG: Key = Key {
    name: "defrag",
    default: "madvise",
    allowed: Allowed::OneOf(&["always", "defer", "defer+madvise", "madvise", "never"]),
    about: "whose faults compact memory if there is no block for a superpage, and whose wake compaction (LNX-5)",
};
pub(super) const PAGES: Key = Key {
    name: "pages_to_scan",
    default: "4096",
    allowed: Allowed::Int { min: 0, max: 1 << 40 },
    about: "base pages that khugepaged looks at in one wake (LNX-10); 0: it does not work",
};
pub(super) const SLEEP: Key = Key {
    name: "scan_sleep_ms",
    default: "10000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "milliseconds between two wakes of khugepaged; see ticks_per_ms",
};
pub(super) const ALLOC_SLEEP: Key = Key {
    name: "alloc_sleep_ms",
    default: "60000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "milliseconds that khugepaged sleeps when there was no block",
};
const FIRST: Key = Key {
    name: "first_sleep_ms",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 40 },
    about: "milliseconds from the moment when a process enters khugepaged's list to the next wake, where there was \
            none on it; 0: it wakes at once, as where no other program runs",
};
pub(super) const COMPACTS: Key = Key {
    name: "khugepaged_defrag",
    default: "true",
    allowed: Allowed::Flag,
    about: "khugepaged may compact memory for a block",
};
pub(super) const SHARED: Key = Key {
    name: "max_ptes_shared",
    default: "256",
    allowed: Allowed::Int { min: 0, max: 1 << 18 },
    about: "base pages of a group that other processes may map, too, when it is collapsed (LNX-12)",
};
const SPLIT: Key = Key {
    name: "deferred_split",
    default: "pressure",
    allowed: Allowed::OneOf(&["pressure", "immediate"]),
    about: "when the unmapped part of a superpage becomes free: when memory is short, or at once (LNX-21)",
};

const UNDERUSED: Key = Key {
    name: "shrink_underused",
    default: "true",
    allowed: Allowed::Flag,
    about: "with a limited memory and deferred_split = pressure: superpages of thp_size of which more than \
            max_ptes_none pages hold zeros, as far as a trace tells, are split when memory is short, and these freed \
            (LNX-22)",
};
const ZERO_PAGE: Key = Key {
    name: "zero_page",
    default: "false",
    allowed: Allowed::Flag,
    about: "loads of untouched private memory map a page of zeros that all share, where a superpage would do one of \
            these, and the first store replaces it (LNX-2, LNX-4); false: they get memory of their own",
};
const HUGE_ZERO_PAGE: Key = Key {
    name: "huge_zero_page",
    default: "true",
    allowed: Allowed::Flag,
    about: "with zero_page: a load that could have a superpage of thp_size maps one of zeros (use_zero_page); false: \
            it gets one of memory, or one page of zeros if there is no block",
};
const CONTPTE: Key = Key {
    name: "contpte",
    default: "4K",
    allowed: Allowed::PageSize { min: 4096, max: 2 << 20 },
    about: "what entries with the contiguous bit of arm64 map together: parts of a superpage that is split (CPT-1); \
            4K: there is no such bit",
};

/// Registry entry.
pub const LINUX: PlacementKind = PlacementKind {
    name: "linux",
    about: "Linux of today: superpages by size at faults, khugepaged by the clock, blocks that stay whole",
    keys: &[
        &THP,
        &SIZE,
        &PMD,
        &ALWAYS,
        &MADVISE,
        &INHERIT,
        &DEFRAG,
        &PAGES,
        &SLEEP,
        &ALLOC_SLEEP,
        &FIRST,
        &COMPACTS,
        &NONE,
        &SHARED,
        &SPLIT,
        &UNDERUSED,
        &ZERO_PAGE,
        &HUGE_ZERO_PAGE,
        &CONTPTE,
        &SHMEM,
        &SHMEM_SIZE,
        &files::SHARED_ALWAYS,
        &files::SHARED_WITHIN,
        &files::SHARED_ADVISE,
        &files::AROUND,
        &files::READAHEAD,
        &files::FOLIOS,
        &files::EXEC,
        &files::MISS,
        &TICKS_PER_MS,
        &ALLOCATOR,
    ],
    build,
};

struct Linux {
    /// Orders for memory that was advised, and for memory that was not, largest first.
    advised: Vec<u8>,
    others: Vec<u8>,
    /// Of shared memory.
    shared: Vec<u8>,
    shared_always: bool,
    /// For advised memory, and other.
    effort: [Effort; 2],
    deferred: bool,
    /// LNX-22.
    shrinks: Option<Underused>,
    /// Whether there are pages of zeros, and superpages of them.
    zero_page: Option<bool>,
    /// log2 of the pages that the contiguous bit joins; 0: there is none.
    contpte: u32,
    /// log2 of the pages of `thp_size`.
    largest: u8,
    around: u32,
    /// Until it is handed over to the memory.
    page_cache: Option<PageCache>,
    khugepaged: Option<Khugepaged>,
}

/// LNX-5: what faults do for a block, in memory that was advised and in other.
pub(super) fn efforts(params: &Params) -> [Effort; 2] {
    match params.text(DEFRAG.name) {
        "always" => [Effort::Direct, Effort::Direct],
        "defer" => [Effort::Wake, Effort::Wake],
        "defer+madvise" => [Effort::Direct, Effort::Wake],
        "madvise" => [Effort::Direct, Effort::Fail],
        _ => [Effort::Fail, Effort::Fail],
    }
}

/// LNX-10: khugepaged for superpages of `2^order` pages.
pub(super) fn settings(params: &Params, order: u8) -> Settings {
    let ms = |key: &Key| params.int(key.name).saturating_mul(params.int(TICKS_PER_MS.name));
    Settings {
        collapse: Collapse {
            order,
            compacts: params.flag(COMPACTS.name),
            missing: params.int(NONE.name),
            shared: params.int(SHARED.name),
            accessed: true,
        },
        pages: params.int(PAGES.name),
        sleep: ms(&SLEEP),
        alloc_sleep: ms(&ALLOC_SLEEP),
        large: None,
        first: 0,
    }
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let largest = order(params, &SIZE, params.int(SIZE.name))?;
    let top = params.text(THP.name);
    let (mut advised, mut others, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut set = |order: u8, mode: &str| {
        let mode = if mode == "inherit" { top } else { mode };
        advised.extend((mode != "never").then_some(order));
        others.extend((mode == "always").then_some(order));
    };
    set(largest, params.text(PMD.name));
    for (key, mode) in [(&ALWAYS, "always"), (&MADVISE, "madvise"), (&INHERIT, "inherit")] {
        for size in params.sizes(key.name) {
            let small = order(params, key, size)?;
            if small >= largest {
                return Err(format!(
                    "{} is not allowed: all of {} must be smaller than {}",
                    key.name, key.name, SIZE.name
                ));
            }
            if all.contains(&small) {
                return Err(format!("{} is not allowed: a size has one mode, and one of these has two", key.name));
            }
            all.push(small);
            set(small, mode);
        }
    }
    for orders in [&mut advised, &mut others] {
        orders.sort_unstable_by(|a, b| b.cmp(a));
    }
    let contpte = (params.int(CONTPTE.name) / params.int(PAGE_SIZE.name)).max(1).ilog2();
    let page_cache = files::page_cache(params, largest, contpte)?;
    let shared = match params.text(SHMEM.name) {
        _ if !page_cache.shared.is_empty() => Vec::new(),
        "never" => Vec::new(),
        _ => vec![order(params, &SHMEM_SIZE, params.int(SHMEM_SIZE.name))?],
    };
    let effort = efforts(params);
    let works = params.int(PAGES.name) > 0 && advised.contains(&largest);
    let khugepaged = works.then(|| {
        let first = params.int(FIRST.name).saturating_mul(params.int(TICKS_PER_MS.name));
        Khugepaged::new(Settings { first, ..settings(params, largest) })
    });
    let (shared_always, deferred) = (params.text(SHMEM.name) == "always", params.text(SPLIT.name) == "pressure");
    let shrinks = (deferred && params.flag(UNDERUSED.name))
        .then(|| Underused { order: largest.into(), zeros: params.int(NONE.name) });
    let zero_page = params.flag(ZERO_PAGE.name).then(|| params.flag(HUGE_ZERO_PAGE.name));
    Ok(Box::new(Linux {
        advised,
        others,
        shared,
        shared_always,
        effort,
        deferred,
        shrinks,
        zero_page,
        contpte,
        largest,
        around: page_cache.entries.around,
        page_cache: Some(page_cache),
        khugepaged,
    }))
}

impl Placement for Linux {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        memory.folios.deferred = self.deferred;
        // Unlimited memory is never short, so the contents of pages do not matter.
        self.shrinks = self.shrinks.filter(|_| memory.alloc.total().is_some());
        memory.folios.shrinks = self.shrinks;
        memory.watches_contents = self.shrinks.is_some();
        memory.page_cache = self.page_cache.take().unwrap_or_default();
        Ok(())
    }

    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        self.khugepaged.take().into_iter().map(|daemon| Box::new(daemon) as Box<dyn Daemon>).collect()
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let object = memory.objects.get(region.object);
        match (object.private, advice) {
            (true, HugeAdvice::Huge) => &self.advised,
            (true, HugeAdvice::None) => &self.others,
            (false, _) if object.kind.is_file() => &[],
            (false, HugeAdvice::Huge) => &self.shared,
            (false, HugeAdvice::None) if self.shared_always => &self.shared,
            _ => &[],
        }
    }

    fn effort(&self, advice: HugeAdvice, _: u8) -> Effort {
        self.effort[usize::from(advice != HugeAdvice::Huge)]
    }

    fn fault_around(&self) -> u32 {
        self.around
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    /// Only what one entry of a page directory maps; the others are entries of their own.
    fn reuses_superpages(&self, order: u8) -> bool {
        order == self.largest
    }

    /// CPT-1, and CPT-4 for what has the bit.
    fn split_into(&self, order: u32) -> u32 {
        if order > self.contpte { self.contpte } else { 0 }
    }

    fn zero_page(&self) -> Option<(u8, bool)> {
        self.zero_page.map(|of_zeros| (self.largest, of_zeros))
    }

    fn collapses_when_asked(&self) -> Option<u8> {
        Some(self.largest)
    }

    fn moves_superpages(&self) -> bool {
        true
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let (most, split) = memory.folios.tally();
        let (underused, of_zeros) = memory.folios.underused();
        let (zeros, huge_zeros) = memory.zero_faults;
        let all = [
            (self.deferred, "deferred_pages_at_most", most),
            (self.deferred, "deferred_pages_at_end", memory.folios.held()),
            (self.deferred, "deferred_splits", split),
            (self.shrinks.is_some(), "underused_splits", underused),
            (self.shrinks.is_some(), "underused_pages", of_zeros),
            // Which pages hold zeros is known as far as a trace tells (OSC-3).
            (self.shrinks.is_some(), "zero_unknown", 1),
            (self.zero_page.is_some(), "zero_page_faults", zeros),
            (self.zero_page == Some(true), "huge_zero_page_faults", huge_zeros),
        ];
        let mut counters = memory.page_cache.counters();
        if memory.page_cache.is_used() {
            counters.push(("unmapped_cache_pages_at_end".into(), memory.unmapped_cached()));
        }
        counters.extend(all.into_iter().filter(|all| all.0).map(|(_, name, count)| (name.to_owned(), count)));
        counters
    }
}

#[cfg(test)]
mod tests;
