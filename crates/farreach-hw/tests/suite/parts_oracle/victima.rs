//! TLB lines in the second-level cache (VIC).

use super::*;
use farreach_oracle::since::victima::cache::{Content, PlainCache};
use farreach_oracle::since::victima::{Line, PlainVictima, VictimaConfig, World as Around};
use std::collections::BTreeSet;

/// The caches, with a first level of one line on each side that walkers pass over, and no last level.
struct Caches {
    second: PlainCache,
    first: [Option<u64>; 2],
    /// Frames of nodes, by process, level, and page div their span (PT-3).
    nodes: BTreeMap<(u32, u8, u64), u64>,
    free: BTreeSet<u64>,
    next: u64,
    /// TLB lines that the cache evicted.
    lost: Vec<Line>,
    background: u64,
}

impl Caches {
    /// The line of an entry on the way to a page.
    fn line(&mut self, asid: u32, vpn: u64, level: u8) -> u64 {
        let node = (asid, level, vpn >> (9 * (level + 1)));
        let frame = *self.nodes.entry(node).or_insert_with(|| {
            self.free.pop_first().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            })
        });
        (frame << 6) | ((vpn >> (9 * level) & 511) / 8)
    }

    /// Whether memory answered.
    fn read(&mut self, line: u64) -> bool {
        let memory = !self.second.used(Content::Data(line));
        if memory && let Some(Content::Tlb(gone)) = self.second.insert(Content::Data(line)) {
            self.lost.push(gone);
        }
        memory
    }

    fn walk(&mut self, asid: u32, vpn: u64, levels: &[u8]) -> bool {
        let mut memory = false;
        for level in levels {
            let line = self.line(asid, vpn, *level);
            memory |= self.read(line);
        }
        memory
    }
}

struct Victima {
    model: PlainVictima,
    caches: Caches,
    walks: Walks,
    raced: bool,
    process_ids: bool,
}

/// What the model sees.
struct Seen<'a> {
    world: Option<&'a World>,
    caches: &'a mut Caches,
    walks: &'a mut Walks,
}

impl Around for Seen<'_> {
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8)> {
        self.world?.mapping(asid, vpn).map(|(first, order, _)| (first, order))
    }
    fn background_walk(&mut self, asid: u32, vpn: u64) {
        let levels = self.walks.walk(self.world.expect("at a miss"), asid, vpn, true);
        self.caches.background += levels.len() as u64;
        self.caches.walk(asid, vpn, &levels);
    }
    fn insert(&mut self, line: Line) -> Option<Line> {
        let from = self.caches.line(line.asid, (8 * line.block) << line.order, line.order / 9);
        self.caches.second.turn(line, from)
    }
    fn used(&mut self, line: Line) {
        self.caches.second.used(Content::Tlb(line));
    }
    fn dropped(&mut self, line: Line) {
        self.caches.second.dropped(Content::Tlb(line));
    }
}

impl Victima {
    fn act<R>(&mut self, world: Option<&World>, act: impl FnOnce(&mut PlainVictima, &mut Seen) -> R) -> R {
        let mut seen = Seen { world, caches: &mut self.caches, walks: &mut self.walks };
        let result = act(&mut self.model, &mut seen);
        self.leave();
        result
    }

    fn leave(&mut self) {
        for line in std::mem::take(&mut self.caches.lost) {
            self.model.left(line);
        }
    }
}

impl Plain for Victima {
    fn miss(&mut self, miss: &Miss) -> bool {
        let (asid, vpn, world) = (miss.look.asid(), miss.look.vpn(), Some(miss.world));
        let answered = self.act(world, |model, seen| model.missed(asid, vpn, seen));
        if !answered {
            let levels = self.walks.walk(miss.world, asid, vpn, true);
            self.walks.nodes += levels.len() as u64;
            let memory = self.caches.walk(asid, vpn, &levels);
            self.leave();
            self.act(world, |model, seen| model.walked(asid, vpn, memory, seen));
        } else if self.raced {
            let read = self.walks.first(miss.world, asid, vpn);
            self.caches.background += 1;
            self.caches.walk(asid, vpn, &[read]);
            self.leave();
        }
        if let Some((asid, vpn, _)) = miss.victim {
            self.act(world, |model, seen| model.evicted(asid, vpn, seen));
        }
        answered
    }

    fn referred(&mut self, look: &Look) {
        let line = data_line(look);
        let first = &mut self.caches.first[usize::from(!look.fetch())];
        if first.replace(line) != Some(line) {
            self.caches.read(line);
            self.leave();
        }
    }

    fn change(&mut self, asid: u32, pages: VpnRange, _: bool, _: &World) {
        self.walks.forget(asid);
        self.act(None, |model, seen| model.changed(asid, pages.start.0, pages.pages, seen));
    }

    fn gone(&mut self, asid: u32) {
        self.walks.forget(asid);
        self.act(None, |model, seen| model.gone(asid, seen));
        let Caches { nodes, free, .. } = &mut self.caches;
        nodes.retain(|node, frame| node.0 != asid || !free.insert(*frame));
    }

    fn switch(&mut self, to: u32) {
        self.walks.switch();
        let process_ids = self.process_ids;
        self.act(None, |model, seen| model.switch(to, process_ids, seen));
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.model.counts()
    }

    /// VIC-2: a hit is a step that the second level answers.
    fn references(&self) -> References {
        let hits = self.model.counts()["hits"];
        [hits, hits, self.caches.background, 0]
    }

    fn nodes(&self) -> u64 {
        self.walks.nodes
    }
}

pub(super) fn victima(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let config = VictimaConfig { frequency_at: dice.below(3), cost_at: dice.below(3) };
    let (sets, ways) = dice.pick(&[(1, 2), (2, 2), (4, 4), (16, 4), (8, 1)]);
    let (priority, raced) = (dice.percent(40), dice.percent(40));
    let keys = vec![
        ("behind", "victima".into()),
        ("vic_frequency_at", config.frequency_at.to_string()),
        ("vic_cost_at", config.cost_at.to_string()),
        ("vic_walk", if raced { "raced" } else { "none" }.into()),
        ("vic_priority", if priority { "always" } else { "never" }.into()),
        ("walk_cost", "caches".into()),
        ("walker_reads", "l2".into()),
        ("cache_l1d", "64/1".into()),
        ("cache_l1i", "64/1".into()),
        ("cache_l2", format!("{}/{ways}", 64 * sets * ways)),
        ("cache_l2_replacement", "srrip".into()),
        ("cache_llc", "none".into()),
    ];
    let setting = Setting::new(dice, "victima", keys);
    let mut second = PlainCache::new(sets, ways);
    second.pressure = priority;
    let (nodes, free, lost) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let caches = Caches { second, first: [None; 2], nodes, free, next: 1 << 40, lost, background: 0 };
    let (walks, process_ids) = (Walks::new(&setting), setting.process_ids);
    (setting, Box::new(Victima { model: PlainVictima::new(config), caches, walks, raced, process_ids }))
}

#[test]
fn victima_agrees_with_the_plain_model() {
    let sums = all(victima);
    for name in ["hits", "evicted", "invalidated", "background_walks", "resident"] {
        assert!(sums.counts[name] > 500, "{name}: {sums:?}");
    }
}
