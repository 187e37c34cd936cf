//! The design and the plain model, which are told the same.

use farreach_hw::tlb::{FlushRequest, Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::driver::{Table, tlb};
use farreach_oracle::nodes::{NAMES, Nodes, NodesConfig, Placement};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of a block.
pub const PAGES: u64 = 512;

/// The keys of these choices.
pub fn keys(config: &NodesConfig) -> String {
    let NodesConfig { cores, nodes, replicas, prefetch, levels, process_ids, .. } = config;
    let size = if config.tiny { 1 } else { 512 };
    let own = match config.placement {
        Placement::FirstTouch => "first_touch".into(),
        Placement::Away => "away".into(),
        Placement::Replicated => format!("replicated,numa_replicas={replicas}"),
        Placement::OnDemand => format!("on_demand,numa_prefetch={prefetch}"),
    };
    let caches = if config.walk_caches { ",pwc_pd=512,pwc_pdpt=512,pwc_pml4=512" } else { "" };
    let top = if config.walk_caches && *levels == 5 { ",pwc_pml5=512" } else { "" };
    format!(
        "l1d=4K|2M:{size},l1i=4K|2M:{size},l2=4K|2M:{size},cores={cores},walk_levels={levels},\
         process_ids={process_ids},numa_nodes={nodes}{caches}{top},numa_tables={own}"
    )
}

/// Both, with the page table that they see.
pub struct Pair {
    design: Box<dyn Tlb>,
    pub plain: Nodes,
    table: Table,
    frame: u64,
    unfiltered: Unfiltered,
}

impl Pair {
    pub fn new(config: &NodesConfig) -> Pair {
        Pair {
            design: tlb("hierarchy", &keys(config)),
            plain: Nodes::new(config.clone()),
            table: Table::default(),
            frame: 1 << 20,
            unfiltered: Unfiltered::default(),
        }
    }

    pub fn switch(&mut self, asid: u32, thread: u32) {
        self.design.switch(Asid(asid), &mut self.unfiltered);
        self.plain.switch(asid);
        self.design.thread(Asid(asid), thread, &mut self.unfiltered);
        self.plain.thread(asid, thread);
    }

    fn pte(&self, asid: u32, vpn: u64) -> Option<Pte> {
        self.table.pte(Asid(asid), Vpn(vpn))
    }

    /// Mappings of these pages, by first page and order.
    pub fn leaves(&self, asid: u32, first: u64, pages: u64) -> BTreeSet<(u64, u8)> {
        let range = (Asid(asid), Vpn(first))..(Asid(asid), Vpn(first + pages));
        let leaf = |(at, pte): (&(Asid, Vpn), &Pte)| (at.1.0 >> pte.order << pte.order, pte.order);
        self.table.0.range(range).map(leaf).collect()
    }

    /// Lays the pages into consecutive new frames.
    fn place(&mut self, asid: u32, first: u64, pages: u64, order: u8) {
        self.frame += PAGES;
        for page in 0..pages {
            let pte = Pte { pfn: Pfn(self.frame + page), attr: Attr(7), order };
            self.table.0.insert((Asid(asid), Vpn(first + page)), pte);
        }
    }

    fn say_mapped(&mut self, asid: u32, first: u64, pages: u64) {
        let Pair { design, table, .. } = self;
        design.mapped(Asid(asid), VpnRange { start: Vpn(first), pages }, table);
        self.plain.mapped(asid, &(first..first + pages), &self.leaves(asid, first, pages));
    }

    /// Maps those of the pages that are not.
    pub fn map(&mut self, asid: u32, first: u64, pages: u64) {
        let free: Vec<_> = (first..first + pages).filter(|&vpn| self.pte(asid, vpn).is_none()).collect();
        for run in free.chunk_by(|a, b| a + 1 == *b) {
            self.place(asid, run[0], run.len() as u64, 0);
            self.say_mapped(asid, run[0], run.len() as u64);
        }
    }

    pub fn map_large(&mut self, asid: u32, first: u64) {
        if self.leaves(asid, first, PAGES).is_empty() {
            self.place(asid, first, PAGES, 9);
            self.say_mapped(asid, first, PAGES);
        }
    }

    /// Makes a superpage of a block, all pages of which are mapped in the frames that it would have.
    pub fn promote(&mut self, asid: u32, first: u64) {
        let Some(begin) = self.pte(asid, first).filter(|pte| pte.pfn.0 % PAGES == 0) else { return };
        let fits = |i: u64| self.pte(asid, first + i).is_some_and(|p| p.pfn.0 == begin.pfn.0 + i && p.order == 0);
        if (0..PAGES).all(fits) {
            (0..PAGES).for_each(|i| self.set_order(asid, first + i, 9));
            self.say_mapped(asid, first, PAGES);
        }
    }

    fn set_order(&mut self, asid: u32, vpn: u64, order: u8) {
        self.table.0.get_mut(&(Asid(asid), Vpn(vpn))).unwrap().order = order;
    }

    fn request(&mut self, asid: u32, first: u64, pages: u64, tables: bool) {
        let pages = VpnRange { start: Vpn(first), pages };
        self.design.requested(FlushRequest { asid: Asid(asid), pages, order: 0, tables, unmapped: false });
        self.plain.request(tables);
    }

    /// Splits the superpage of this block, if it is one.
    pub fn split(&mut self, asid: u32, block: u64) {
        if self.parts(asid, block) {
            self.say_split(asid, block);
        }
    }

    /// Whether it was a superpage.
    fn parts(&mut self, asid: u32, block: u64) -> bool {
        let is_large = self.pte(asid, block).is_some_and(|pte| pte.order == 9);
        if is_large {
            (block..block + PAGES).for_each(|vpn| self.set_order(asid, vpn, 0));
        }
        is_large
    }

    fn say_split(&mut self, asid: u32, block: u64) {
        self.request(asid, block, PAGES, false);
        self.design.demote(Asid(asid), VpnRange { start: Vpn(block), pages: PAGES }, &mut self.unfiltered);
        self.plain.shoot(asid, &(block..block + PAGES), true);
        self.say_mapped(asid, block, PAGES);
    }

    /// Changes pages in these parts by one request: unmaps them, or maps them elsewhere. Superpages at their ends are
    /// split, which is told before the change, or with `late` when all is done.
    pub fn change(&mut self, asid: u32, parts: &[(u64, u64)], unmaps: bool, tables: bool, late: bool) {
        let mut split = Vec::new();
        for edge in parts.iter().flat_map(|&(first, pages)| [first, first + pages]) {
            let block = edge / PAGES * PAGES;
            if edge % PAGES != 0 && self.parts(asid, block) {
                split.push(block);
                if !late {
                    self.say_split(asid, block);
                }
            }
        }
        for &(first, pages) in parts {
            for (leaf, order) in self.leaves(asid, first, pages) {
                self.place(asid, leaf, 1 << order, order);
            }
            if unmaps {
                (first..first + pages).for_each(|vpn| _ = self.table.0.remove(&(Asid(asid), Vpn(vpn))));
            }
        }
        if late {
            split.into_iter().for_each(|block| self.say_split(asid, block));
        }
        let last = parts[parts.len() - 1];
        self.request(asid, parts[0].0, last.0 + last.1 - parts[0].0, tables);
        for &(first, pages) in parts {
            let (range, plain) = (VpnRange { start: Vpn(first), pages }, first..first + pages);
            let Pair { design, table, unfiltered, .. } = self;
            design.invalidate(Asid(asid), range, unfiltered);
            design.unmapped(Asid(asid), range, table);
            self.plain.shoot(asid, &plain, false);
            self.plain.unmapped(asid, &plain, &self.leaves(asid, first, pages));
        }
    }

    pub fn look(&mut self, asid: u32, vpn: u64) {
        let Some(pte) = self.pte(asid, vpn) else { return };
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
        let answer = self.design.access(at, pte, &self.table, &mut self.unfiltered);
        let expected = self.plain.lookup(asid, vpn, pte.order);
        assert_eq!(answer.outcome == Outcome::Hit, expected, "{at:?}");
    }

    pub fn end(&mut self, asid: u32) {
        self.table.0.retain(|at, _| at.0.0 != asid);
        self.design.invalidate_space(Asid(asid), &mut self.unfiltered);
        self.plain.end(asid);
    }

    /// The design's counts by their names.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.design.counts();
        let own = |name: &'static str| match name {
            "walks" => counts.walk.walks,
            "sent" => counts.shootdown.sent,
            "ipis" => counts.shootdown.ipis,
            "local_references" | "remote_references" | "remote_memory" => counts.parts.count("numa", name),
            _ => counts.parts.count("table_copies", name),
        };
        NAMES.into_iter().map(|name| (name, own(name))).collect()
    }

    /// Counts and entries are equal, and no entry is stale.
    pub fn compare(&self, cores: usize, place: &str) {
        assert_eq!(self.counts(), self.plain.counts, "left: the design; {place}");
        let mut found = vec![BTreeSet::new(); cores];
        for view in self.design.entries() {
            found[view.slot >> 20].insert((view.asid.0, view.base.0, view.order));
            let now = self.pte(view.asid.0, view.base.0).map(|pte| pte.pfn);
            assert_eq!(Some(view.pages[0].1.pfn), now, "a stale entry: {place}");
        }
        let expected: Vec<_> = (0..cores).map(|core| self.plain.entries(core).clone()).collect();
        assert_eq!(found, expected, "left: the design; {place}");
    }
}
