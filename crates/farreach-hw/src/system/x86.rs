//! An x86-like machine: physical caches, and a TLB filled by a hardware walker of a two-level table.

use super::global::cached;
use super::random_tlb::{self, RandomTlb};
use super::tables::{Organisation, radix};
use super::{Item, NONE, PIECE_SHIFT, Space, System, SystemKind, keys};
use crate::cache::{Found, Side};
use farreach_types::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach_types::counts::{SideCounts, SystemCounts};
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Translation};

/// See the module.
pub const X86: SystemKind = SystemKind {
    kind: "x86",
    about: "TLB filled by a hardware walker of a two-level table, physical caches",
    keys: &[
        &random_tlb::ENTRIES,
        &random_tlb::SPLIT,
        &crate::tlb::keys::PROCESS_IDS,
        &keys::L1_SIZE,
        &keys::L2_SIZE,
        &keys::CACHE_LINE,
        &keys::L2_LINE,
        &keys::L1_WAYS,
        &keys::L2_WAYS,
        &keys::SEED,
    ],
    build: |family, plain| Ok(Box::new(X86Machine::new(family[0], plain)?)),
    alike: |_| false,
    reach: |params| {
        (params.int(random_tlb::ENTRIES.name) << BASE_SHIFT) * if params.flag(random_tlb::SPLIT.name) { 2 } else { 1 }
    },
    parts: &[],
};

/// The page a side looked up last.
#[derive(Clone, Copy)]
struct Recent {
    /// Page of the program.
    vpn: u64,
    /// First line of its frame.
    base: u64,
}

const NO_PAGE: Recent = Recent { vpn: NONE, base: 0 };

struct X86Machine {
    sides: [Side; 2],
    tlbs: Vec<RandomTlb>,
    space: Space,
    table: radix::Radix,
    path: Vec<u64>,
    line_shift: u32,
    recent: [Recent; 2],
    last: [u64; 3],
    asid: Asid,
    process_ids: bool,
    plain: bool,
    counts: SystemCounts,
    misses: Vec<Item>,
}

impl X86Machine {
    fn new(params: &Params, plain: bool) -> Result<X86Machine, String> {
        let (l1, l2) = keys::shapes(params);
        let side = Side::new(&[l1], l2)?;
        let mut tlbs = vec![RandomTlb::new(params, 0)?];
        if params.flag(random_tlb::SPLIT.name) {
            tlbs.push(RandomTlb::new(params, 0)?);
        }
        Ok(X86Machine {
            sides: [side.clone(), side],
            tlbs,
            space: Space::new(super::global::ID_BITS),
            table: radix::Radix::default(),
            path: Vec::with_capacity(4),
            line_shift: l1.line.trailing_zeros(),
            recent: [NO_PAGE; 2],
            last: [NONE; 3],
            asid: Asid(0),
            process_ids: params.flag(crate::tlb::keys::PROCESS_IDS.name),
            plain,
            counts: SystemCounts::default(),
            misses: Vec::new(),
        })
    }

    fn forget(&mut self) {
        (self.recent, self.last) = ([NO_PAGE; 2], [NONE; 3]);
    }

    fn side_counts(&mut self, side: usize) -> &mut SideCounts {
        if side == 0 { &mut self.counts.fetch } else { &mut self.counts.data }
    }

    /// Finds the frame of a page; returns whether the TLB had to be filled.
    #[inline(never)]
    fn look_up(&mut self, item: Item, table: &dyn PageTableView) -> bool {
        let (side, vpn) = (item.side(), item.vpn());
        let entered = self.space.enter(self.asid, Space::chunk(vpn.0 << BASE_SHIFT));
        self.counts.segment_loads += u64::from(entered.loaded);
        self.counts.segment_ids += u64::from(entered.fresh);
        let page = super::global::global(entered.segment.id, vpn.0 << BASE_SHIFT) >> BASE_SHIFT;
        let of_side = usize::from(side == 0 && self.tlbs.len() > 1);
        let pte = table.pte(self.asid, vpn).expect("the operating system has served the fault");
        let (pfn, filled) = match self.tlbs[of_side].find(page) {
            Some(found) => (found.pfn, false),
            None => {
                self.walk(item, page);
                self.tlbs[of_side].fill(page, Translation { pfn: pte.pfn, attr: pte.attr });
                self.forget();
                (pte.pfn, true)
            }
        };
        debug_assert_eq!(pfn, pte.pfn, "XC-3: the TLB translates {item:?} otherwise than the page table");
        self.recent[side] = Recent { vpn: vpn.0, base: pfn.0 << (BASE_SHIFT - self.line_shift) };
        filled
    }

    /// Two loads through the data side.
    fn walk(&mut self, item: Item, page: u64) {
        self.misses.push(item);
        self.counts.tlb_misses += 1;
        let rows = &mut self.counts.handler;
        *(if item.side() == 0 { &mut rows.fetch_runs } else { &mut rows.data_runs }) += 1;
        let root = self.space.root(self.asid, page);
        self.path.clear();
        self.table.path(page, root, 0, &mut self.path);
        for &physical in &self.path {
            let line = cached(physical) >> self.line_shift;
            let found = self.sides[1].reference(line, false);
            rows.loads += 1;
            rows.l1d_misses += u64::from(!matches!(found, Found::L1(_)));
            if found == Found::Memory {
                rows.l2d_misses += 1;
                let lost = self.sides[1].insert(line, Attr(Attr::READ | Attr::WRITE), false);
                self.counts.dirty_victims += u64::from(lost.is_some_and(|lost| lost.dirty));
            }
        }
    }

    /// A reference that missed the first level.
    #[inline(never)]
    fn miss(&mut self, item: Item, line: u64, filled: bool) {
        let (side, store) = (item.side(), item.kind_index() == 2);
        let counts = self.side_counts(side);
        counts.l1_misses += 1;
        if self.sides[side].reference(line, store) != Found::Memory {
            self.side_counts(side).events[2 + usize::from(filled)] += 1;
            return;
        }
        let counts = self.side_counts(side);
        counts.l2_misses += 1;
        counts.events[4 + usize::from(filled)] += 1;
        // Physical lines carry no protection: the TLB has it.
        let lost = self.sides[side].insert(line, Attr(0), store);
        self.counts.dirty_victims += u64::from(lost.is_some_and(|lost| lost.dirty));
    }
}

impl System for X86Machine {
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView) {
        debug_assert_eq!(asid, self.asid);
        let over = self.line_shift - PIECE_SHIFT;
        let in_page = (1 << (BASE_SHIFT - self.line_shift)) - 1;
        for &item in span {
            let (kind, side, number) = (item.kind_index(), item.side(), item.piece() >> over);
            if number == self.last[kind] {
                continue;
            }
            let filled = item.vpn().0 != self.recent[side].vpn && self.look_up(item, table);
            let line = self.recent[side].base | number & in_page;
            let dirty = match self.sides[side].first(line) {
                Some(found) => {
                    if kind == 2 {
                        found.set_dirty();
                    }
                    let dirty = found.dirty();
                    if filled {
                        self.side_counts(side).events[1] += 1;
                    }
                    dirty
                }
                None => {
                    self.miss(item, line, filled);
                    kind == 2
                }
            };
            match kind {
                0 => self.last[0] = number,
                _ => (self.last[1], self.last[2]) = (number, if dirty { number } else { NONE }),
            }
            if self.plain {
                self.last = [NONE; 3];
            }
        }
    }

    fn changed(&mut self, asid: Asid, pages: VpnRange, _: &dyn PageTableView) {
        self.flushed(asid, pages);
    }

    fn flushed(&mut self, asid: Asid, pages: VpnRange) {
        self.forget();
        let space = &self.space;
        let dropped = self.tlbs.iter_mut().map(|tlb| tlb.remove(|page| space.lies_in(page, asid, pages)));
        self.counts.tlb_invalidations += dropped.sum::<u64>();
    }

    fn gone(&mut self, asid: Asid) {
        self.forget();
        let ids = self.space.end(asid);
        let of_them = |page: u64| super::global::id_of(page << BASE_SHIFT).is_some_and(|id| ids.contains(&id));
        self.counts.tlb_invalidations += self.tlbs.iter_mut().map(|tlb| tlb.remove(of_them)).sum::<u64>();
        ids.iter().for_each(|&id| self.table.gone(id));
    }

    fn switch(&mut self, to: Asid) {
        self.forget();
        if to != self.asid && !self.process_ids {
            self.counts.tlb_invalidations += self.tlbs.iter_mut().map(|tlb| tlb.remove(|_| true)).sum::<u64>();
        }
        self.asid = to;
    }

    fn misses(&mut self) -> &mut Vec<Item> {
        &mut self.misses
    }

    fn line_shift(&self) -> u32 {
        self.line_shift
    }

    fn counts(&self, _: usize, accesses: [u64; 2]) -> SystemCounts {
        self.counts.clone().completed(accesses)
    }
}
