//! Midgard (MID-1 to MID-4): caches between two translations.
//!
//! Each region of each process has an interval of one *Midgard space*, by whose addresses all caches work. The front
//! side translates regions, of which there are few, at every reference. The back side translates pages, and only those
//! of lines that no cache has. So a page that changes its frame concerns the back side alone, whose translations no
//! other core holds; and lines need no translation as long as they stay in the caches.
//!
//! The walk of a reference comes before it in program order. Where several lines of a node of a VMA table miss, their
//! walks to memory are made one after the other. Modified lines that leave the last level must be translated as well;
//! rule MID-3 counts misses only, so those are in `memory_writes` alone. Pages of any size have base entries in the
//! table of the back side.
//!
//! Reading order: `regions.rs` (the space), `front.rs`, `back.rs`, then [`Midgard`] here.

mod back;
mod front;
mod lru;
mod regions;
#[cfg(test)]
mod tests;

use super::program_lines::ProgramLines;
use super::{Item, NONE, PIECE_SHIFT, System, SystemKind};
use crate::cache::levels::{self, LEVEL_KEYS, LINE_SHIFT};
use crate::cache::{At, Levels, answered_at};
use crate::tlb::{Counting, keys::PROCESS_IDS};
use back::Back;
use farreach_types::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach_types::counts::{CacheCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::{Key, Params};
use farreach_types::translation::PageTableView;
use front::{Hit, Vlbs};
use regions::Space;

/// See the module.
pub const MIDGARD: SystemKind = SystemKind {
    kind: "midgard",
    about: "caches by addresses of regions; pages are translated behind the last level (MID-1)",
    keys: &KEYS,
    build: |family, plain| Ok(Box::new(Midgard::new(family[0], plain)?)),
    alike: |_| false,
    reach: |params| (params.int(front::VLB_L1I.name) + params.int(front::VLB_L1D.name)) << BASE_SHIFT,
    parts: &[(FRONT, Counting::new(front::COUNTERS, front::LAWS)), (BACK, Counting::new(back::COUNTERS, back::LAWS))],
};

const OWN: [&Key; 7] = [
    &front::VLB_L1I,
    &front::VLB_L1D,
    &front::VLB_L2,
    &back::MLB_ENTRIES,
    &back::MLB_SLICES,
    &back::MLB_CYCLES,
    &PROCESS_IDS,
];
const KEYS: [&Key; OWN.len() + LEVEL_KEYS.len()] = {
    let mut keys = [&PROCESS_IDS; OWN.len() + LEVEL_KEYS.len()];
    let mut i = 0;
    while i < keys.len() {
        keys[i] = if i < OWN.len() { OWN[i] } else { LEVEL_KEYS[i - OWN.len()] };
        i += 1;
    }
    keys
};

/// Names of its parts in results, and their places.
const FRONT: &str = "front";
const BACK: &str = "back";
const FRONT_AT: usize = 0;
const BACK_AT: usize = 1;

/// log2 of the lines of a page.
const PAGE_LINES: u32 = BASE_SHIFT - LINE_SHIFT;

/// See the module.
struct Midgard {
    caches: Levels,
    vlbs: Vlbs,
    space: Space,
    back: Back,
    /// By side: the page looked up last, and its first line.
    recent: [(u64, u64); 2],
    lines: ProgramLines,
    asid: Asid,
    plain: bool,
    counts: TlbCounts,
    misses: Vec<Item>,
}

impl Midgard {
    fn new(params: &Params, plain: bool) -> Result<Midgard, String> {
        if params.text(levels::CACHE_LLC.name) == "none" {
            return Err("cache_llc = none is not allowed with kind = midgard: walks behind the caches begin in the \
                        last level (MID-3); cache_llc must be SIZE/WAYS"
                .into());
        }
        let mut counts = TlbCounts::default();
        for (name, part) in MIDGARD.parts {
            let names: Vec<&str> = part.counters.iter().map(|counter| counter.name).collect();
            counts.parts.add(name, &names);
        }
        Ok(Midgard {
            caches: Levels::new(params)?,
            vlbs: Vlbs::new(params),
            space: Space::default(),
            back: Back::new(params),
            recent: [(NONE, 0); 2],
            lines: ProgramLines::new(),
            asid: Asid(0),
            plain,
            counts,
            misses: Vec::new(),
        })
    }

    fn forget(&mut self) {
        self.recent = [(NONE, 0); 2];
        self.lines.forget();
    }

    /// The front side, for a page that its side did not look up last. Returns its first line.
    #[inline(never)]
    fn look_up(&mut self, item: Item) -> u64 {
        let (side, vpn) = (item.side(), item.vpn());
        let placed = match self.vlbs.find(side, self.asid, vpn) {
            Some(Hit::First(page)) => page,
            Some(Hit::Second(region)) => {
                let counts = &mut self.counts;
                let hits =
                    if side == 0 { &mut counts.second_level_fetch_hits } else { &mut counts.second_level_data_hits };
                *hits += 1;
                region
            }
            None => self.walk(item),
        };
        if cfg!(debug_assertions) {
            let truth = self.space.lookup(self.asid, vpn).expect("what a VLB holds has a place");
            assert_eq!(placed.page(vpn), truth.page(vpn), "XC-3: a VLB translates {item:?} otherwise than the table");
        }
        let base = placed.translate(vpn) << PAGE_LINES;
        self.recent[side] = (vpn.0, base);
        base
    }

    /// Walks the VMA table.
    fn walk(&mut self, item: Item) -> regions::Placed {
        let found = self.space.find(self.asid, item.vpn());
        self.count_miss(item);
        for lines in front::path(self.asid, &found) {
            let Midgard { caches, back, counts, .. } = self;
            let part = counts.parts.at(BACK_AT);
            let at = lines
                .map(|line| caches.walker_by(line, |caches| back.translate(line >> PAGE_LINES, None, caches, part)));
            let part = counts.parts.at(FRONT_AT);
            part.memory.made.steps += 1;
            part.memory.made.references += 2;
            *answered_at(&mut part.memory.answered, at[0].max(at[1])) += 1;
            *part.counters.at(front::LLC_MISSES) += at.iter().filter(|at| **at == At::Memory).count() as u64;
        }
        self.counts.evictions += u64::from(self.vlbs.fill(item.side(), found.placed, item.vpn()));
        // The walker may have evicted any line.
        self.lines.forget();
        found.placed
    }

    fn count_miss(&mut self, item: Item) {
        self.misses.push(item);
        let counts = &mut self.counts;
        *counts.parts.at(FRONT_AT).counters.at(front::WALKS) += 1;
        counts.walk.walks += 1;
        counts.misses += 1;
        counts.tag_misses += 1;
        counts.fills += 1;
        match item.kind_index() {
            0 => counts.fetch_misses += 1,
            1 => (counts.data_misses, counts.load_misses) = (counts.data_misses + 1, counts.load_misses + 1),
            _ => (counts.data_misses, counts.store_misses) = (counts.data_misses + 1, counts.store_misses + 1),
        }
    }

    /// A reference of the program to a line.
    #[inline(always)]
    fn reference(&mut self, item: Item, line: u64, table: &dyn PageTableView) {
        let Midgard { caches, back, counts, asid, .. } = self;
        let at = caches.reference_by(item.side(), line, item.kind() == Kind::Store, |caches| {
            let pte = table.pte(*asid, item.vpn()).expect("the operating system has served the fault");
            back.translate(line >> PAGE_LINES, Some(pte.pfn), caches, counts.parts.at(BACK_AT));
        });
        self.lines.referenced(item, line, at);
        if self.plain {
            self.forget();
        }
    }

    /// Regions may have changed.
    fn follow(&mut self, asid: Asid, table: &dyn PageTableView) {
        self.space.follow(asid, table);
        self.fall_out();
    }

    /// What changes of regions lead to (MID-1, MID-4).
    fn fall_out(&mut self) {
        let Midgard { caches, vlbs, space, back, counts, .. } = self;
        let fallout = &mut space.fallout;
        if fallout.regions.is_empty() && fallout.pages.is_empty() {
            return;
        }
        counts.invalidations += vlbs.forget(fallout);
        fallout.pages.sort_unstable_by_key(|pages| pages.start);
        fallout.pages.iter().for_each(|pages| back.forget(pages, counts.parts.at(BACK_AT)));
        let lines: Vec<_> = fallout.pages.iter().map(|p| p.start << PAGE_LINES..p.end << PAGE_LINES).collect();
        let [flushed, modified] = caches.flush(&lines);
        let counters = &mut counts.parts.at(FRONT_AT).counters;
        *counters.at(front::FLUSHED) += flushed;
        *counters.at(front::FLUSHED_MODIFIED) += modified;
        *counters.at(front::REGIONS) += fallout.regions.len() as u64;
        fallout.regions.clear();
        fallout.pages.clear();
        self.forget();
    }
}

impl System for Midgard {
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView) {
        debug_assert_eq!(asid, self.asid);
        self.follow(asid, table);
        for &item in span {
            let (vpn, base) = self.recent[item.side()];
            let base = if vpn == item.vpn().0 { base } else { self.look_up(item) };
            let line = base | item.piece() >> (LINE_SHIFT - PIECE_SHIFT) & ((1 << PAGE_LINES) - 1);
            if !self.lines.repeats(item, line) {
                self.reference(item, line, table);
            }
        }
    }

    /// Pages changed: of the back side alone, unless their regions did.
    fn changed(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.follow(asid, table);
        for midgard in self.space.midgard_of(asid, pages) {
            self.back.forget(&midgard, self.counts.parts.at(BACK_AT));
        }
    }

    fn gone(&mut self, asid: Asid) {
        self.space.end(asid);
        self.fall_out();
    }

    fn switch(&mut self, to: Asid) {
        if to != self.asid {
            self.counts.invalidations += self.vlbs.switch(to);
        }
        self.asid = to;
        self.forget();
    }

    fn misses(&mut self) -> &mut Vec<Item> {
        &mut self.misses
    }

    fn line_shift(&self) -> u32 {
        LINE_SHIFT
    }

    fn mmu(&self, accesses: [u64; 2]) -> Option<(TlbCounts, CacheCounts)> {
        let mut tlb = self.counts.clone();
        front::add_space(&mut tlb.parts.at(FRONT_AT).counters, self.space.intervals, self.space.moves);
        let caches = self.lines.counts(accesses, self.caches.memory_writes());
        if cfg!(debug_assertions) {
            let back = &tlb.parts;
            let misses = caches.fetch.llc_misses + caches.data.llc_misses + back.count(FRONT, "llc_misses");
            let translated = back.count(BACK, "walks") + back.count(BACK, "mlb_hits");
            assert_eq!(translated, misses, "MID-4: what misses in the last level is translated behind it");
        }
        Some((tlb, caches))
    }
}
