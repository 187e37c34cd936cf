//! A hierarchy of TLBs in front of physical caches, through which its walkers read: the cost of a walk is that of its
//! references (`walk_cost = caches`).
//!
//! The TLB is a design as any other, and counts as it always does. Every reference of the program and of the walkers
//! goes through [`Levels`] in program order: the walk first, then the reference that needed it. The caches are lent to
//! the TLB while it serves a lookup (see [`Port`](crate::cache::Port)). A TLB of several cores says with that which
//! core runs; the caches have private levels for each.

use super::program_lines::ProgramLines;
use super::{Fetched, Item, NONE, PIECE_SHIFT, System};
use crate::cache::levels::LINE_SHIFT;
use crate::cache::replacement::Pressure;
use crate::cache::{At, Levels};
use crate::tlb::{Foresees, Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange, owner};
use farreach_types::counts::{CacheCounts, ContextCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Translation};

/// Pages that [`Filter`] remembers, by kind.
const SLOTS: usize = 1 << 8;

/// The filter: pages whose lookups change nothing in the TLB, with the first line of their frame. Direct-mapped.
struct Filter([[(u64, u64); SLOTS]; 3]);

impl Filter {
    #[inline(always)]
    fn get(&self, kind: usize, vpn: Vpn) -> Option<u64> {
        let (of, base) = self.0[kind][vpn.0 as usize % SLOTS];
        (of == vpn.0).then_some(base)
    }
    fn set(&mut self, kind: usize, vpn: Vpn, base: u64) {
        self.0[kind][vpn.0 as usize % SLOTS] = (vpn.0, base);
    }
    fn clear(&mut self) {
        self.0 = [[(NONE, 0); SLOTS]; 3];
    }
    /// Removes the pages of a report, where `asid` runs.
    fn unfilter(&mut self, unfiltered: &Unfiltered, asid: Asid) {
        if unfiltered.is_all() {
            return self.clear();
        }
        for &(_, base, mut mask) in unfiltered.pages().iter().filter(|(of, base, _)| *of == owner(asid, base.0)) {
            while mask != 0 {
                let vpn = base.0.wrapping_add(mask.trailing_zeros().into());
                mask &= mask - 1;
                for entries in &mut self.0 {
                    let entry = &mut entries[vpn as usize % SLOTS];
                    if entry.0 == vpn {
                        *entry = (NONE, 0);
                    }
                }
            }
        }
    }
}

/// See the module.
pub struct Mmu {
    tlb: Box<dyn Tlb>,
    /// Lent to the TLB for the time of each lookup.
    caches: Box<Levels>,
    filter: Box<Filter>,
    unfiltered: Unfiltered,
    lines: ProgramLines,
    asid: Asid,
    plain: bool,
    misses: Vec<Item>,
    /// The latest fetches of the span, last first, if the TLB needs them.
    fetched: Vec<Fetched>,
    /// For caches that keep lines of tables, with the item that was looked up last.
    pressure: Option<(Pressure, Item)>,
}

impl Mmu {
    /// A design that keeps the references of its walkers, with caches by the keys
    /// [`LEVEL_KEYS`](crate::cache::levels::LEVEL_KEYS).
    pub fn new(mut tlb: Box<dyn Tlb>, params: &Params, plain: bool) -> Result<Mmu, String> {
        assert!(tlb.port().is_some(), "walk_cost = caches needs a design whose walkers read through a port");
        let refuse = |what: &str, why: &str| Err(format!("{what} is not allowed with walk_cost = caches: {why}"));
        let is = |key: &str, value: &str| params.has(key) && params.text(key) == value;
        if is("range_order", "first") {
            return refuse(
                "range_order = first",
                "each lookup counts in the range TLB, also those that caches need not see",
            );
        }
        if is("range_table", "list") {
            return refuse("range_table = list", "only the nodes of a B-tree have places in memory");
        }
        if params.has("split") && params.flag("split") {
            return refuse("split = true", "hierarchies have sides of their own");
        }
        Ok(Mmu {
            tlb,
            caches: Box::new(Levels::new(params)?),
            filter: Box::new(Filter([[(NONE, 0); SLOTS]; 3])),
            unfiltered: Unfiltered::default(),
            lines: ProgramLines::new(),
            asid: Asid(0),
            plain,
            misses: Vec::new(),
            fetched: Vec::new(),
            pressure: Pressure::new(params).map(|pressure| (pressure, Item::piece_of(Kind::Fetch, NONE >> 2))),
        })
    }

    /// Tells the TLB the latest fetch before this item of the span, if it needs it.
    #[inline]
    fn tell_fetch(&mut self, index: usize) {
        let mut latest = None;
        while let Some(fetched) = self.fetched.pop_if(|fetched| fetched.from <= index) {
            latest = Some(fetched);
        }
        if let Some(Fetched { pc, instructions, .. }) = latest {
            self.tlb.latest_fetch(pc);
            self.tlb.position(instructions);
        }
    }

    /// Looks the page of a reference, an item of the span, up in the TLB. Returns the first line of its frame.
    #[inline(never)]
    fn look_up(&mut self, item: Item, index: usize, table: &dyn PageTableView) -> u64 {
        self.tell_fetch(index);
        let at = Lookup { asid: owner(self.asid, item.vpn().0), vpn: item.vpn(), kind: item.kind() };
        let pte = table.pte(at.asid, at.vpn).expect("the operating system has served the fault");
        let base = pte.pfn.0 << (BASE_SHIFT - LINE_SHIFT);
        self.unfiltered.clear();
        self.exchange();
        let answer = self.tlb.access(at, pte, table, &mut self.unfiltered);
        if self.caches_lost_parts() {
            self.tlb.lost_lines();
        }
        self.exchange();
        // Walkers may have evicted any line.
        self.lines.forget();
        self.filter.unfilter(&self.unfiltered, self.asid);
        if answer.filterable && !self.plain {
            self.filter.set(item.kind_index(), at.vpn, base);
        }
        if answer.outcome != Outcome::Hit {
            self.misses.push(item);
            self.pressure.iter_mut().for_each(|(pressure, _)| pressure.walked());
        }
        if cfg!(debug_assertions) {
            let found = self.tlb.probe(at.asid, at.vpn, at.kind);
            let truth = Translation { pfn: pte.pfn, attr: pte.attr };
            assert_eq!(found, Some(truth), "XC-3: {at:?} is translated otherwise than the page table says");
        }
        base
    }

    /// Lends the caches to the TLB, or takes them back.
    #[inline]
    fn exchange(&mut self) {
        self.tlb.port().expect("its walkers read through a port").exchange(&mut self.caches);
    }

    /// Whether the caches, which are lent, have evicted lines that belong to the TLB.
    fn caches_lost_parts(&mut self) -> bool {
        self.tlb.port().is_some_and(|port| port.caches().has_lost_parts())
    }

    /// The TLB learns of a change, with the caches lent.
    fn change(&mut self, change: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        self.forget();
        self.exchange();
        change(&mut *self.tlb, &mut self.unfiltered);
        self.exchange();
    }

    /// Counts a lookup for the caches (FL-6, ITP-2). An item that repeats the one before is none: of fetches from one
    /// piece the loop leaves some out.
    #[inline(never)]
    fn count(&mut self, item: Item) {
        let Some((pressure, last)) = &mut self.pressure else { return };
        if std::mem::replace(last, item) != item
            && let Some(high) = pressure.looked_up()
        {
            self.caches.keep(high);
        }
    }

    /// See [`System::run`]. `COUNTS`: lookups are counted for the caches.
    #[inline]
    fn run_span<const COUNTS: bool>(&mut self, span: &[Item], table: &dyn PageTableView) {
        for (index, &item) in span.iter().enumerate() {
            if COUNTS {
                self.count(item);
            }
            let base = match self.filter.get(item.kind_index(), item.vpn()) {
                Some(base) => base,
                None => self.look_up(item, index, table),
            };
            let in_page = item.piece() >> (LINE_SHIFT - PIECE_SHIFT) & ((1 << (BASE_SHIFT - LINE_SHIFT)) - 1);
            let line = base | in_page;
            if !self.lines.repeats(item, line) {
                self.reference(item, line);
            }
        }
    }

    /// A reference of the program to a line.
    #[inline(always)]
    fn reference(&mut self, item: Item, line: u64) {
        let at = self.caches.reference(item.side(), line, item.kind() == Kind::Store);
        if at > At::L1 && self.caches.has_lost_parts() {
            self.lost_lines();
        }
        self.lines.referenced(item, line, at);
        if self.plain {
            self.lines.forget();
        }
    }

    /// The program's references evicted lines that belong to the TLB.
    #[cold]
    fn lost_lines(&mut self) {
        self.exchange();
        self.tlb.lost_lines();
        self.exchange();
    }

    fn forget(&mut self) {
        self.unfiltered.clear();
        self.filter.clear();
        self.lines.forget();
    }
}

impl System for Mmu {
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView) {
        debug_assert_eq!(asid, self.asid);
        if self.pressure.is_some() { self.run_span::<true>(span, table) } else { self.run_span::<false>(span, table) }
    }

    fn needs_fetches(&mut self) -> Option<String> {
        Some(self.tlb.on_fetch()?.because_of())
    }

    fn fetched(&mut self, fetched: &[Fetched]) {
        self.fetched.clear();
        self.fetched.extend(fetched.iter().rev());
    }

    fn changed(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.change(|tlb, unfiltered| tlb.invalidate(asid, pages, unfiltered));
        self.tlb.unmapped(asid, pages, table);
    }

    fn flushed(&mut self, asid: Asid, pages: VpnRange) {
        self.change(|tlb, unfiltered| tlb.invalidate(asid, pages, unfiltered));
    }

    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.tlb.mapped(asid, pages, table);
    }

    fn wants_maps(&mut self) -> bool {
        self.tlb.on_map().is_some()
    }

    fn faulting(&mut self, asid: Asid, vpn: Vpn) {
        self.tlb.faulting(asid, vpn);
    }

    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        self.tlb.foresees()
    }

    fn demoted(&mut self, asid: Asid, pages: VpnRange) {
        self.change(|tlb, unfiltered| tlb.demote(asid, pages, unfiltered));
    }

    fn segment_changed(&mut self, asid: Asid) {
        self.change(|tlb, unfiltered| tlb.segment_changed(asid, unfiltered));
    }

    fn gone(&mut self, asid: Asid) {
        self.change(|tlb, unfiltered| tlb.invalidate_space(asid, unfiltered));
    }

    fn switch(&mut self, to: Asid) {
        self.asid = to;
        self.change(|tlb, unfiltered| tlb.switch(to, unfiltered));
    }

    fn thread(&mut self, asid: Asid, thread: u32) {
        if self.tlb.on_thread().is_some() {
            self.change(|tlb, unfiltered| tlb.thread(asid, thread, unfiltered));
        }
    }

    fn misses(&mut self) -> &mut Vec<Item> {
        &mut self.misses
    }

    fn line_shift(&self) -> u32 {
        LINE_SHIFT
    }

    fn invalidations(&self) -> u64 {
        self.tlb.counts().invalidations
    }

    fn context_counts(&self, lookups: u64) -> ContextCounts {
        ContextCounts { lookups, ..self.tlb.counts().of_context() }
    }

    fn mmu(&self, accesses: [u64; 2]) -> Option<(TlbCounts, CacheCounts)> {
        Some((self.tlb.counts().clone(), self.lines.counts(accesses, self.caches.memory_writes())))
    }
}
