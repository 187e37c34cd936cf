//! Several cores with caches against a plain model: nested lists, the last used in front. It is written from what the
//! book says of cores (reference/hierarchies.md): private first and second levels, one last level that includes them,
//! no coherence; one page table in memory, whose nodes get places in the order in which walkers first read them.
//!
//! The TLBs are lists too: first levels of a core, and second levels of a core or of all (SLL-1).

use farreach_hw::system::{Item, Mmu, System};
use farreach_hw::tlb::cores::CORES;
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::driver::{Table, params, tlb};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::{Answered, LineCounts};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Pte};
use std::collections::HashMap;

/// Lines with whether they are modified, set by set.
struct Sets {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
}

impl Sets {
    fn new(lines: usize, ways: usize) -> Sets {
        Sets { sets: vec![Vec::new(); lines / ways], ways }
    }
    fn set(&mut self, line: u64) -> &mut Vec<(u64, bool)> {
        let many = self.sets.len() as u64;
        &mut self.sets[(line % many) as usize]
    }
    fn hit(&mut self, line: u64, store: bool) -> bool {
        let Some((_, dirty)) = self.take(line) else { return false };
        self.set(line).insert(0, (line, dirty || store));
        true
    }
    fn take(&mut self, line: u64) -> Option<(u64, bool)> {
        let set = self.set(line);
        let at = set.iter().position(|(of, _)| *of == line)?;
        Some(set.remove(at))
    }
    /// What it evicts.
    fn enter(&mut self, line: u64, dirty: bool) -> Option<(u64, bool)> {
        let ways = self.ways;
        let set = self.set(line);
        set.insert(0, (line, dirty));
        (set.len() > ways).then(|| set.pop().unwrap())
    }
    /// Modified, though not used.
    fn mark(&mut self, line: u64) -> bool {
        let found = self.set(line).iter_mut().find(|(of, _)| *of == line);
        found.map(|of| of.1 = true).is_some()
    }
}

/// A fully associative TLB of this many entries.
type Pages = (usize, Vec<(u32, u64)>);

fn look(pages: &mut Pages, page: (u32, u64)) -> bool {
    let at = pages.1.iter().position(|of| *of == page);
    if let Some(at) = at {
        let entry = pages.1.remove(at);
        pages.1.insert(0, entry);
    }
    at.is_some()
}

fn fill(pages: &mut Pages, page: (u32, u64)) {
    pages.1.insert(0, page);
    pages.1.truncate(pages.0);
}

struct Core {
    /// Fetches, data.
    caches: [Sets; 2],
    second: Sets,
    tlbs: [Pages; 2],
    level: Pages,
}

struct Plain {
    cores: Vec<Core>,
    last: Sets,
    shared: Option<Pages>,
    walker_first: bool,
    places: HashMap<(u32, u32, u64), u64>,
    /// Of fetches and data of the program: misses of the first, second, last level.
    program: [[u64; 3]; 2],
    /// Of walks: answers of first, second, last level and memory.
    walks: [u64; 4],
    misses: u64,
    second_hits: u64,
    last_accesses: u64,
    written: u64,
}

impl Plain {
    /// A line that is not in the caches of the core in front of its second level. 1: second, 2: last level, 3: memory.
    fn beyond(&mut self, core: usize, line: u64) -> usize {
        if self.cores[core].second.hit(line, false) {
            return 1;
        }
        self.last_accesses += 1;
        let found = self.last.hit(line, false);
        if !found && let Some((gone, mut dirty)) = self.last.enter(line, false) {
            for core in &mut self.cores {
                for level in core.caches.iter_mut().chain([&mut core.second]) {
                    dirty |= level.take(gone).is_some_and(|copy| copy.1);
                }
            }
            self.written += u64::from(dirty);
        }
        self.enter_second(core, line, false);
        if found { 2 } else { 3 }
    }

    fn enter_second(&mut self, core: usize, line: u64, dirty: bool) {
        if let Some((gone, true)) = self.cores[core].second.enter(line, dirty) {
            assert!(self.last.mark(gone), "the last level has all that the others have");
        }
    }

    fn reference(&mut self, core: usize, side: usize, line: u64, store: bool) -> usize {
        if self.cores[core].caches[side].hit(line, store) {
            return 0;
        }
        let at = self.beyond(core, line);
        if let Some((gone, true)) = self.cores[core].caches[side].enter(line, store)
            && !self.cores[core].second.mark(gone)
        {
            self.enter_second(core, gone, true);
        }
        at
    }

    fn walk(&mut self, core: usize, asid: u32, vpn: u64) {
        for level in (0..4).rev() {
            let entry = vpn >> (9 * level);
            let next = (1u64 << 40) + self.places.len() as u64;
            let place = *self.places.entry((asid, level, entry >> 9)).or_insert(next);
            let line = ((place << 12) + entry % 512 * 8) >> 6;
            let at = if self.walker_first { self.reference(core, 1, line, false) } else { self.beyond(core, line) };
            self.walks[at] += 1;
        }
    }

    fn access(&mut self, core: usize, asid: u32, item: Item, pfn: u64) {
        let (side, vpn) = (item.side(), item.vpn().0);
        let page = (asid, vpn);
        if !look(&mut self.cores[core].tlbs[side], page) {
            let level = self.shared.as_mut().unwrap_or(&mut self.cores[core].level);
            if look(level, page) {
                self.second_hits += 1;
            } else {
                fill(level, page);
                self.misses += 1;
                self.walk(core, asid, vpn);
            }
            fill(&mut self.cores[core].tlbs[side], page);
        }
        let line = pfn << 6 | item.piece() >> 2 & 63;
        let at = self.reference(core, side, line, item.kind() == Kind::Store);
        (0..at).for_each(|missed| self.program[side][missed] += 1);
    }

    fn change(&mut self, goes: impl Fn(&(u32, u64)) -> bool) {
        let own = self.cores.iter_mut().flat_map(|core| core.tlbs.iter_mut().chain([&mut core.level]));
        own.chain(&mut self.shared).for_each(|pages| pages.1.retain(|page| !goes(page)));
    }
}

const PAGES: u64 = 40;

/// Some of them far away, in nodes of their own.
fn page(i: u64) -> u64 {
    if i.is_multiple_of(5) { i << 9 } else { 0x400 + i }
}

/// Everything equal on a random stream.
fn drive(seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let (cores, shared) = (dice.pick(&[1, 2, 3, 4]), dice.percent(50));
    let (walker, ways) = (dice.pick(&["l1d", "l2"]), dice.pick(&[2, 4]));
    let keys = format!(
        "{}={cores},l2_shared={shared},walk_cost=caches,l1d=4K:4,l1i=4K:2,l2=4K:6,cache_l1i=512/2,cache_l1d=1K/{ways},\
         cache_l2=1K/4,cache_llc=8K/{ways},cache_slices=1,walker_reads={walker}",
        CORES.name
    );
    let mut mmu = Mmu::new(tlb("hierarchy", &keys), &params("hierarchy", &keys), dice.percent(30)).unwrap();
    let core = |_| Core {
        caches: [Sets::new(8, 2), Sets::new(16, ways)],
        second: Sets::new(16, 4),
        tlbs: [(2, Vec::new()), (4, Vec::new())],
        level: (6, Vec::new()),
    };
    let mut plain = Plain {
        cores: (0..cores).map(core).collect(),
        last: Sets::new(128, ways),
        shared: shared.then(|| (6 * cores, Vec::new())),
        walker_first: walker == "l1d",
        places: HashMap::new(),
        program: [[0; 3]; 2],
        walks: [0; 4],
        misses: 0,
        second_hits: 0,
        last_accesses: 0,
        written: 0,
    };
    let mut table = Table::default();
    let mut frame = 0x1000;
    let mut map = |table: &mut Table, asid: u32, vpn: u64| {
        frame += 1;
        table.0.insert((Asid(asid), Vpn(vpn)), Pte { pfn: Pfn(frame), attr: Attr(7), order: 0 });
    };
    (0..2).for_each(|asid| (0..PAGES).for_each(|i| map(&mut table, asid, page(i))));
    // Threads get cores in the order in which they first run.
    let (mut places, mut asid, mut thread) = (HashMap::new(), 0, [1, 1]);
    let mut hot = [0; 12].map(|_| page(dice.below(PAGES)));
    for step in 0..200 {
        if step == 0 || dice.percent(20) {
            asid = dice.below(2) as u32;
            mmu.switch(Asid(asid));
            let next = places.len() % cores;
            places.entry((asid, thread[asid as usize])).or_insert(next);
            mmu.thread(Asid(asid), thread[asid as usize]);
        }
        if dice.percent(40) {
            thread[asid as usize] = 1 + dice.below(3) as u32;
            mmu.thread(Asid(asid), thread[asid as usize]);
        }
        let next = places.len() % cores;
        let core = *places.entry((asid, thread[asid as usize])).or_insert(next);
        match dice.below(40) {
            0 => {
                // Pages of a process move, perhaps of one that does not run.
                let (of, vpn) = (dice.below(2) as u32, hot[dice.below(12) as usize]);
                map(&mut table, of, vpn);
                mmu.changed(Asid(of), VpnRange { start: Vpn(vpn), pages: 1 }, &table);
                plain.change(|page| *page == (of, vpn));
            }
            1 => {
                let of = dice.below(2) as u32;
                let all = VpnRange { start: Vpn(0), pages: 1 << 30 };
                (0..PAGES).for_each(|i| map(&mut table, of, page(i)));
                mmu.changed(Asid(of), all, &table);
                plain.change(|page| page.0 == of);
            }
            2..6 => hot[dice.below(12) as usize] = page(dice.below(PAGES)),
            _ => {}
        }
        let item = |_| {
            let kind = dice.pick(&[Kind::Fetch, Kind::Load, Kind::Load, Kind::Store]);
            Item::new(kind, hot[dice.below(12) as usize] << 12 | dice.below(10) << 6 | dice.below(4) << 4)
        };
        let span: Vec<Item> = (0..30).map(item).collect();
        mmu.run(Asid(asid), &span, &table);
        for item in span {
            plain.access(core, asid, item, table.0[&(Asid(asid), item.vpn())].pfn.0);
        }
        let (found, caches) = mmu.mmu([0, 0]).unwrap();
        let of = |c: &LineCounts| [c.l1_misses, c.l2_misses, c.llc_misses];
        let Answered { l1, l2, llc, memory } = found.walk_caches.page_tables();
        assert_eq!([of(&caches.fetch), of(&caches.data)], plain.program, "step {step}, seed {seed}: {keys}");
        assert_eq!([l1, l2, llc, memory], plain.walks, "step {step}, seed {seed}: {keys}");
        assert_eq!(found.misses, plain.misses, "step {step}, seed {seed}: {keys}");
        assert_eq!(found.second_level_fetch_hits + found.second_level_data_hits, plain.second_hits, "seed {seed}");
        assert_eq!(caches.memory_writes, plain.written, "step {step}, seed {seed}: {keys}");
        // Each miss of the private levels is an access of the shared one, and there are no others.
        let private = caches.fetch.l2_misses + caches.data.l2_misses + llc + memory;
        assert_eq!(private, plain.last_accesses, "seed {seed}");
    }
    if cores > 1 { plain.walks[2] + plain.written } else { 0 }
}

#[test]
fn several_cores_with_caches_and_a_plain_model() {
    let shown: u64 = seeds(150).map(drive).sum();
    assert!(shown > 1000, "the last level answers, and is written to: {shown}");
}
