//! Page tables on nodes of memory (OS-MIT-1, OS-MIT-2, OS-MIT-4, OS-NPT-1 to OS-NPT-3) against the plain model of
//! `farreach-oracle`, in the same random programs.

use farreach_hw::tlb::{FlushRequest, Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::driver::{Table, tlb};
use farreach_oracle::nodes::{NAMES, Nodes, NodesConfig, Placement};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of 2 MB that programs use, by their number: some share a page directory, some only the root.
const BLOCKS: [u64; 9] = [0, 1, 2, 3, 511, 512, 513, 1 << 18, 5 << 18];
const PROCESSES: u32 = 3;
/// Pages of a block.
const PAGES: u64 = 512;

fn config(dice: &mut Dice) -> NodesConfig {
    let nodes = dice.pick(&[2, 2, 3, 4]);
    let kinds = [Placement::FirstTouch, Placement::Away, Placement::Replicated, Placement::OnDemand];
    NodesConfig {
        placement: if dice.percent(40) { Placement::OnDemand } else { dice.pick(&kinds) },
        cores: nodes * dice.pick(&[1, 1, 2, 3]),
        nodes,
        replicas: 1 + dice.below(nodes as u64) as usize,
        prefetch: dice.pick(&[0, 0, 1, 3, 6, 9]),
        levels: dice.pick(&[4, 4, 5]),
        process_ids: dice.percent(70),
        tiny: dice.percent(70),
        walk_caches: dice.percent(40),
    }
}

fn keys(config: &NodesConfig) -> String {
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

struct Pair {
    design: Box<dyn Tlb>,
    plain: Nodes,
    table: Table,
    frame: u64,
    unfiltered: Unfiltered,
}

impl Pair {
    fn new(config: &NodesConfig) -> Pair {
        Pair {
            design: tlb("hierarchy", &keys(config)),
            plain: Nodes::new(config.clone()),
            table: Table::default(),
            frame: 1 << 20,
            unfiltered: Unfiltered::default(),
        }
    }

    fn switch(&mut self, asid: u32, thread: u32) {
        self.design.switch(Asid(asid), &mut self.unfiltered);
        self.plain.switch(asid);
        self.design.thread(Asid(asid), thread, &mut self.unfiltered);
        self.plain.thread(asid, thread);
    }

    fn pte(&self, asid: u32, vpn: u64) -> Option<Pte> {
        self.table.pte(Asid(asid), Vpn(vpn))
    }

    /// Mappings of these pages, by first page and order.
    fn leaves(&self, asid: u32, first: u64, pages: u64) -> BTreeSet<(u64, u8)> {
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
    fn map(&mut self, asid: u32, first: u64, pages: u64) {
        let free: Vec<_> = (first..first + pages).filter(|&vpn| self.pte(asid, vpn).is_none()).collect();
        for run in free.chunk_by(|a, b| a + 1 == *b) {
            self.place(asid, run[0], run.len() as u64, 0);
            self.say_mapped(asid, run[0], run.len() as u64);
        }
    }

    fn map_large(&mut self, asid: u32, first: u64) {
        if self.leaves(asid, first, PAGES).is_empty() {
            self.place(asid, first, PAGES, 9);
            self.say_mapped(asid, first, PAGES);
        }
    }

    /// Makes a superpage of a block, all pages of which are mapped in the frames that it would have.
    fn promote(&mut self, asid: u32, first: u64) {
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
        self.design.requested(FlushRequest { asid: Asid(asid), pages, order: 0, tables });
        self.plain.request(tables);
    }

    /// Splits the superpage of this block, if it is one.
    fn split(&mut self, asid: u32, block: u64) {
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
    fn change(&mut self, asid: u32, parts: &[(u64, u64)], unmaps: bool, tables: bool, late: bool) {
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

    fn look(&mut self, asid: u32, vpn: u64) {
        let Some(pte) = self.pte(asid, vpn) else { return };
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
        let answer = self.design.access(at, pte, &self.table, &mut self.unfiltered);
        let expected = self.plain.lookup(asid, vpn >> pte.order << pte.order, pte.order);
        assert_eq!(answer.outcome == Outcome::Hit, expected, "{at:?}");
    }

    fn end(&mut self, asid: u32) {
        self.table.0.retain(|at, _| at.0.0 != asid);
        self.design.invalidate_space(Asid(asid), &mut self.unfiltered);
        self.plain.end(asid);
    }

    /// The design's counts by their names.
    fn counts(&self) -> BTreeMap<&'static str, u64> {
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
    fn compare(&self, cores: usize, place: &str) {
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

/// A page of one of a few blocks; few of its pages are in use often.
fn page(dice: &mut Dice) -> u64 {
    let block = dice.pick(&BLOCKS) * PAGES;
    block + if dice.percent(70) { dice.below(12) } else { dice.below(PAGES) }
}

fn step(dice: &mut Dice, pair: &mut Pair, asid: &mut u32, enters: &mut bool) -> String {
    let of = if dice.percent(80) { *asid } else { dice.below(PROCESSES.into()) as u32 };
    let first = page(dice);
    let block = first / PAGES * PAGES;
    match if *enters { 0 } else { dice.below(100) } {
        0..22 => {
            *asid = if *enters || dice.percent(40) { dice.below(PROCESSES.into()) as u32 } else { *asid };
            *enters = false;
            let thread = dice.below(5) as u32;
            pair.switch(*asid, thread);
            format!("switch to {asid}, thread {thread}")
        }
        22..55 => {
            let mapped: Vec<_> = pair.leaves(*asid, 0, 1 << 36).into_iter().collect();
            for _ in 0..if mapped.is_empty() { 0 } else { 6 } {
                let (leaf, order) = dice.pick(&mapped);
                let vpn = if dice.percent(50) { leaf + dice.below(1 << order) } else { page(dice) };
                pair.look(*asid, vpn);
            }
            format!("lookups of {asid}")
        }
        55..70 => {
            let pages = dice.pick(&[1, 1, 2, 9, 300, 700]);
            pair.map(of, first, pages);
            format!("{pages} pages of {of} mapped at {first}")
        }
        70..74 => {
            pair.map_large(of, block);
            format!("a superpage of {of} mapped at {block}")
        }
        74..78 => {
            if dice.percent(50) && pair.leaves(of, block, PAGES).is_empty() {
                pair.map(of, block, PAGES);
            }
            pair.promote(of, block);
            format!("a superpage of {of} made at {block}")
        }
        78..82 => {
            pair.split(of, block);
            format!("a split of {of} at {block}")
        }
        82..98 => {
            let (unmaps, whole) = (dice.percent(60), dice.percent(40));
            let pages = dice.pick(&[1, 1, 3, 20, 512, 1024]);
            let mut parts = vec![if whole { (block, PAGES * (1 + dice.below(2))) } else { (first, pages) }];
            if dice.percent(30) {
                let (start, pages) = parts[0];
                parts.push((start + pages + dice.below(9), 1 + dice.below(700)));
            }
            let tables = unmaps && dice.percent(60);
            let late = dice.percent(40);
            pair.change(of, &parts, unmaps, tables, late);
            format!("changes of {of}: {parts:?}, unmapped: {unmaps}, tables: {tables}, late: {late}")
        }
        _ => {
            pair.end(of);
            *enters = of == *asid;
            format!("end of {of}")
        }
    }
}

/// Returns what the model counted.
fn drive(seed: u64) -> BTreeMap<&'static str, u64> {
    let mut dice = Dice::new(seed);
    let config = config(&mut dice);
    let mut pair = Pair::new(&config);
    let (mut asid, mut enters) = (0, true);
    for at in 0..150 {
        let name = step(&mut dice, &mut pair, &mut asid, &mut enters);
        pair.compare(config.cores, &format!("{name}, step {at}, seed {seed}: {}", keys(&config)));
    }
    pair.plain.counts
}

#[test]
fn os_mit_1_to_os_npt_3_and_a_plain_model() {
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in seeds(100).flat_map(drive) {
        *sum.entry(name).or_default() += n;
    }
    assert!(sum.values().all(|n| *n > 100), "{sum:?}");
}

/// The examples of the specification, which both must reach.
#[test]
fn os_mit_and_os_npt_by_the_examples() {
    let config = |placement, cores, nodes, replicas| NodesConfig {
        placement,
        cores,
        nodes,
        replicas,
        prefetch: 9,
        levels: 4,
        process_ids: true,
        tiny: false,
        walk_caches: false,
    };
    // 1 GB of base pages has 515 pages of the table, and four copies of each; 1 MB has 256 entries.
    let mut pair = Pair::new(&config(Placement::Replicated, 4, 4, 4));
    pair.switch(0, 0);
    pair.map(0, 1 << 18, 1 << 18);
    let before = pair.counts();
    pair.change(0, &[(1 << 18, 256)], false, false, false);
    pair.compare(4, "1 GB");
    assert_eq!([before["pt_pages"], pair.counts()["pt_writes"] - before["pt_writes"]], [2060, 1024]);
    // Nodes 0 and 2 of four touched the region: 15 other cores of them, and not 31.
    let mut pair = Pair::new(&config(Placement::OnDemand, 32, 4, 4));
    (0..32).for_each(|thread| pair.switch(0, thread));
    for thread in [0, 16] {
        pair.switch(0, thread);
        pair.map(0, 0, 16);
        pair.look(0, 3);
    }
    pair.change(0, &[(0, 16)], false, false, false);
    pair.compare(32, "a region on two nodes");
    assert_eq!(pair.counts()["ipis"], 15);
}
