//! Two-level virtual caches, split, over the global space, for softvm and the machines with a TLB beside virtual
//! caches.

mod changes;

use super::family::L1Misses;
use super::global::{SEGMENT_SHIFT, cached};
use super::keys::{self, Synonyms};
use super::pages::Pages;
use super::{Item, NEEDS, NONE, PIECE_SHIFT, Space};
use crate::cache::{Found, Side};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::counts::{SideCounts, SystemCounts};
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};

/// Lines of kernel memory: for loads, stores and fetches of handlers.
const KERNEL: Attr = Attr(Attr::READ | Attr::WRITE | Attr::EXEC);
/// Pieces of a segment.
const CHUNK_SHIFT: u32 = SEGMENT_SHIFT - PIECE_SHIFT;

/// The segment a side looked at last.
#[derive(Clone, Copy)]
struct Recent {
    chunk: u64,
    /// Line number of its first byte.
    base: u64,
    attr: Attr,
}

const NO_SEGMENT: Recent = Recent { chunk: NONE, base: 0, attr: Attr(0) };

/// The caches with the state that software keeps about their contents.
pub(super) struct Caches {
    /// Instructions, data.
    pub sides: [Side; 2],
    pub space: Space,
    pub pages: Pages,
    /// Counts that are equal in all machines of the family.
    pub counts: SystemCounts,
    /// Counts that differ.
    pub l1_misses: L1Misses,
    /// References that needed a translation, until the loop takes them.
    pub misses: Vec<Item>,
    /// Modified lines evicted from the second level, to be written back.
    pub pending: Vec<u64>,
    /// Identifiers without cached lines, for page tables to drop.
    pub freed: Vec<u32>,
    pub asid: Asid,
    line_shift: u32,
    recent: [Recent; 2],
    /// By kind: the line that, referenced again, is a hit that changes nothing.
    last: [u64; 3],
    plain: bool,
    lazy_raise: bool,
    synonyms: Synonyms,
    /// Changed pages stay cached, only to show the resulting error (SV97-21).
    leave: bool,
    /// Lines with another protection than their page, set by software (SV97-23).
    own: hashbrown::HashMap<u64, Attr, foldhash::fast::FixedState>,
    /// Pages that must not be cached now (SV97-19).
    barred: hashbrown::HashSet<(Asid, Vpn), foldhash::fast::FixedState>,
}

impl Caches {
    /// `family`: machines that differ in the size of the first level alone, ascending.
    pub fn new(family: &[&Params], plain: bool) -> Result<Caches, String> {
        let params = family[0];
        let l1_shapes: Vec<_> = family.iter().map(|member| keys::shapes(member).0).collect();
        let (l1, l2) = keys::shapes(params);
        let side = Side::new(&l1_shapes, l2)?;
        Ok(Caches {
            sides: [side.clone(), side.clone()],
            space: Space::new(params.int(keys::ID_BITS.name) as u32),
            pages: Pages::default(),
            counts: SystemCounts::default(),
            l1_misses: L1Misses::default(),
            misses: Vec::new(),
            pending: Vec::new(),
            freed: Vec::new(),
            asid: Asid(0),
            line_shift: l1.line.trailing_zeros(),
            recent: [NO_SEGMENT; 2],
            last: [NONE; 3],
            plain,
            lazy_raise: params.flag(keys::LAZY_RAISE.name),
            synonyms: Synonyms::of(params)?,
            leave: params.text(keys::ON_REMAP.name) == "leave",
            own: Default::default(),
            barred: Default::default(),
        })
    }

    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// log2 of the lines of a page.
    fn page_lines(&self) -> u32 {
        BASE_SHIFT - self.line_shift
    }

    /// The global page of a line.
    pub fn page_of(&self, line: u64) -> u64 {
        line >> self.page_lines()
    }

    /// Physical address of the root entry for a page, as the running process finds it.
    pub fn root(&self, page: u64) -> u64 {
        self.space.root(self.asid, page)
    }

    /// The line under which a physical address is cached.
    pub fn physical_line(&self, physical: u64) -> u64 {
        cached(physical) >> self.line_shift
    }

    /// The line of a reference, in the program's numbering. `None` if repeating the last reference is a hit without
    /// effect.
    #[inline(always)]
    pub fn unfiltered_line(&self, item: Item) -> Option<u64> {
        let line = item.piece() >> (self.line_shift - PIECE_SHIFT);
        (line != self.last[item.kind_index()]).then_some(line)
    }

    /// The line of a reference in the global space.
    #[inline(always)]
    pub fn global_line(&mut self, item: Item) -> u64 {
        let (chunk, side) = (item.piece() >> CHUNK_SHIFT, item.side());
        if chunk != self.recent[side].chunk {
            self.enter(side, chunk);
        }
        self.recent[side].base | (item.piece() & ((1 << CHUNK_SHIFT) - 1)) >> (self.line_shift - PIECE_SHIFT)
    }

    /// References the line if the smallest first level has it.
    #[inline(always)]
    pub fn hit(&mut self, item: Item, line: u64, global: u64, table: &dyn PageTableView) -> bool {
        let (side, kind) = (item.side(), item.kind_index());
        let Some(found) = self.sides[side].first(global) else { return false };
        if kind == 2 {
            found.set_dirty();
        }
        let (attr, dirty) = (Attr(found.attr().0 & self.recent[side].attr.0), found.dirty());
        if attr.0 & NEEDS[kind] == 0 {
            self.trap(item, global, table);
            // This line is the most recent one now, and nothing to be skipped.
            self.forget_last();
            return true;
        }
        let skippable = |kind: usize| if attr.0 & NEEDS[kind] != 0 { line } else { NONE };
        if kind == 0 {
            self.last[0] = skippable(0);
        } else {
            self.last[1] = skippable(1);
            self.last[2] = if dirty { skippable(2) } else { NONE };
        }
        if self.plain {
            self.last = [NONE; 3];
        }
        if cfg!(debug_assertions) {
            self.check(item, global, table);
        }
        true
    }

    /// XC-3: a line that is hit has the frame and the protection of the page table.
    fn check(&self, item: Item, global: u64, table: &dyn PageTableView) {
        if self.leave {
            return;
        }
        let truth = table.pte(self.asid, item.vpn()).expect("a page that is referenced is mapped");
        let known = self
            .pages
            .get(self.page_of(global))
            .unwrap_or_else(|| panic!("XC-3: a line of {item:?} came from nowhere"));
        assert_eq!(
            (known.pfn, known.attr),
            (truth.pfn, truth.attr),
            "XC-3: {item:?} is cached otherwise than the page table says"
        );
        let line = self.sides[item.side()].l1().peek(global).expect("it was hit");
        let raised = self.lazy_raise && line.attr().0 & !truth.attr.0 == 0;
        let right = line.attr() == truth.attr || raised || self.own.contains_key(&global);
        assert!(right, "XC-3: {item:?} has protection {:?}, the page table says {:?}", line.attr(), truth.attr);
    }

    /// Line or segment forbid an access that the operating system allowed. Lines with outdated, lower protection are
    /// updated; at other traps software lets the program go on (SV97-3).
    #[cold]
    fn trap(&mut self, item: Item, global: u64, table: &dyn PageTableView) {
        let needs = NEEDS[item.kind_index()];
        let truth = table.pte(self.asid, item.vpn()).map_or(Attr(0), |pte| pte.attr);
        if truth.0 & needs == 0 {
            return; // The trace makes an access that its own mappings forbid; the operating system counted it.
        }
        let segment = self.recent[item.side()].attr.0;
        if segment & needs != 0 && !self.own.contains_key(&global) {
            self.counts.lazy_traps += 1;
            self.set_line_attr(global, truth);
        } else {
            self.counts.protection_traps += 1;
        }
    }

    /// Clears the last lines: the next reference must be looked up.
    pub fn forget_last(&mut self) {
        self.last = [NONE; 3];
    }

    fn set_line_attr(&mut self, global: u64, attr: Attr) {
        for side in &mut self.sides {
            side.protect_first(global, attr);
            side.protect_second(global, attr);
        }
        self.forget_last();
    }

    /// Makes the chunk accessible and stores it as the last one of this side.
    #[cold]
    fn enter(&mut self, side: usize, chunk: u64) {
        let entered = self.space.enter(self.asid, chunk);
        if entered.loaded {
            self.counts.segment_loads += 1;
            self.recent = [NO_SEGMENT; 2];
            self.forget_last();
        }
        self.counts.segment_ids += u64::from(entered.fresh);
        if let Some(id) = entered.reused {
            self.counts.ids_reused += 1;
            self.flush_id(id);
        }
        let base = u64::from(entered.segment.id) << (SEGMENT_SHIFT - self.line_shift);
        self.recent[side] = Recent { chunk, base, attr: entered.segment.attr };
    }

    /// The protection of a line: that of its page, unless software set another.
    pub fn attr_of(&self, global: u64, pte: Pte) -> Attr {
        self.own.get(&global).copied().unwrap_or(pte.attr)
    }

    pub fn side_counts(&mut self, side: usize) -> &mut SideCounts {
        if side == 0 { &mut self.counts.fetch } else { &mut self.counts.data }
    }

    /// A reference of the program that not all first levels hit; true if the second level misses as well, so that the
    /// line must be brought in. `filled`: the TLB had to be filled.
    pub fn beyond(&mut self, item: Item, global: u64, filled: bool) -> bool {
        let (side, store) = (item.side(), item.kind_index() == 2);
        self.forget_last();
        let found = self.sides[side].reference(global, store);
        self.l1_misses.program[side][usize::from(filled)].add(self.sides[side].missed(found));
        if found != Found::Memory {
            return false;
        }
        let counts = self.side_counts(side);
        counts.l2_misses += 1;
        counts.events[4 + usize::from(filled)] += 1;
        true
    }

    /// A load of kernel memory, or of a page table entry, by a handler that runs for a miss or, `write_back`, again:
    /// true if it is in no level and to be brought in.
    pub fn kernel(&mut self, side: usize, line: u64, write_back: bool) -> bool {
        let found = self.sides[side].reference(line, false);
        let rows = if write_back { &mut self.l1_misses.write_back } else { &mut self.l1_misses.handler };
        rows[side].add(self.sides[side].missed(found));
        found == Found::Memory
    }

    /// The counts of a member of the family.
    pub fn counted(&self, member: usize, accesses: [u64; 2]) -> SystemCounts {
        self.l1_misses.complete(member, self.counts.clone()).completed(accesses)
    }

    /// Brings a line of kernel memory or page table in.
    pub fn insert_kernel(&mut self, side: usize, line: u64) {
        self.insert(side, line, KERNEL, false);
    }

    /// Brings a line in.
    pub fn insert(&mut self, side: usize, line: u64, attr: Attr, store: bool) {
        let Some(lost) = self.sides[side].insert(line, attr, store) else { return };
        if lost.dirty {
            self.pending.push(lost.number);
        }
    }

    /// Software records that a line of this page is brought in, and handles synonyms (SV97-17).
    pub fn bring(&mut self, item: Item, global: u64, pte: Pte) {
        let page = self.page_of(global);
        let writable = pte.attr.0 & Attr::WRITE != 0;
        let other = self.pages.bring(page, self.asid, item.vpn(), pte);
        // Memory that neither page can write is never stale.
        let Some((other, known)) = other.and_then(|page| Some((page, *self.pages.get(page)?))) else { return };
        if !writable && known.attr.0 & Attr::WRITE == 0 {
            return;
        }
        self.counts.synonym_misses += 1;
        if self.synonyms.must_flush(page, other) {
            self.counts.synonym_flushes += 1;
            self.flush_page(other);
        }
    }

    /// The global page of a page of the program, if its chunk was touched.
    fn global_page(&self, asid: Asid, vpn: Vpn) -> Option<u64> {
        let addr = vpn.0 << BASE_SHIFT;
        let segment = self.space.known(asid, Space::chunk(addr))?;
        Some(super::global::global(segment.id, addr) >> BASE_SHIFT)
    }

    /// The lines of both levels in which a byte of the program is cached on a side, first level first.
    pub fn cached_lines(&self, side: usize, asid: Asid, addr: u64) -> [Option<crate::cache::Line>; 2] {
        let Some(page) = self.global_page(asid, Vpn(addr >> BASE_SHIFT)) else { return [None; 2] };
        let line = (page << BASE_SHIFT | addr & ((1 << BASE_SHIFT) - 1)) >> self.line_shift;
        let side = &self.sides[side];
        [side.l1().peek(line), side.l2().peek(line / side.parts())]
    }

    /// Whether the page of a reference is kept out of the caches: then the program waits.
    pub fn barred(&mut self, item: Item) -> bool {
        let barred = !self.barred.is_empty() && self.barred.contains(&(self.asid, item.vpn()));
        self.counts.dma_waits += u64::from(barred);
        barred
    }
}
