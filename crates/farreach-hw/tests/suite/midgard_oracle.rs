//! Midgard against its plain model on random streams: regions that begin, grow, shrink and end, memory that two
//! processes share, pages that change, switches, fetches and loads. After each step they agree on all counts (MID-1 to
//! MID-4). The models of stores are in the laws: a store differs from a load in what it writes back.

use farreach_hw::system::{Item, SYSTEMS, System};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::midgard::{Midgard, MidgardConfig};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte, Region};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Streams of the test.
const STREAMS: u64 = 1000;
/// Steps of each.
const STEPS: usize = 500;
/// Distance of the places where regions begin.
const PLACES: u64 = 64;

#[derive(Default)]
struct Table {
    regions: BTreeMap<(u32, u64), Region>,
    /// How often a page changed; frames follow from it.
    changes: BTreeMap<(u32, u64), u64>,
    version: u64,
    memory: u64,
}

impl Table {
    fn region(&self, asid: u32, page: u64) -> Option<&Region> {
        let (_, region) = self.regions.range((asid, 0)..=(asid, page)).next_back()?;
        region.pages.contains(Vpn(page)).then_some(region)
    }
    /// Which page of which memory: what processes share has one frame.
    fn identity(&self, asid: u32, page: u64) -> Option<(u32, u64)> {
        let region = self.region(asid, page)?;
        let of_file = (u32::MAX - region.memory as u32, region.first + page - region.pages.start.0);
        Some(if region.shared { of_file } else { (asid, page) })
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (of, page) = self.identity(asid.0, vpn.0)?;
        let pfn = u64::from(of) << 30 | page << 12 | self.changes.get(&(of, page)).unwrap_or(&0);
        Some(Pte { pfn: Pfn(pfn), attr: Attr(7), order: 0 })
    }
    fn regions(&self, asid: Asid) -> Vec<Region> {
        self.regions.range((asid.0, 0)..=(asid.0, u64::MAX)).map(|(_, region)| *region).collect()
    }
    fn regions_version(&self, _: Asid) -> u64 {
        self.version
    }
}

struct Both {
    machine: Box<dyn System>,
    plain: Midgard,
    table: Table,
    running: Option<u32>,
    accesses: u64,
}

impl Both {
    fn new(dice: &mut Dice) -> Both {
        // Lines and ways of L1, L2 and LLC.
        let caches = dice.pick(&[
            vec![(2, 1), (4, 2), (16, 4)],
            vec![(4, 4), (8, 1), (64, 8)],
            vec![(1, 1), (1, 1), (8, 8)],
            vec![(8, 2), (32, 4), (4096, 16)],
        ]);
        let config = MidgardConfig {
            vlb1: dice.pick(&[(1, 1), (3, 3), (8, 8)]),
            vlb2: dice.pick(&[1, 2, 4]),
            caches: caches.clone(),
            mlb: dice.pick(&[0, 0, 3]),
            levels: 6,
            process_ids: dice.percent(50),
        };
        let size = |(lines, ways): (usize, usize)| format!("{}/{ways}", 64 * lines);
        let given = [
            ("cache_l1i", json!(size(caches[0]))),
            ("cache_l1d", json!(size(caches[0]))),
            ("cache_l2", json!(size(caches[1]))),
            ("cache_llc", json!(size(caches[2]))),
            ("cache_slices", json!(1)),
            ("vlb_l1i", json!(config.vlb1.0)),
            ("vlb_l1d", json!(config.vlb1.0)),
            ("vlb_l2", json!(config.vlb2)),
            ("mlb_entries", json!(config.mlb)),
            ("process_ids", json!(config.process_ids)),
        ];
        let given: Map<_, _> = given.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        let kind = SYSTEMS.iter().find(|system| system.kind == "midgard").unwrap();
        let params = Params::resolve(kind.keys, &given).unwrap();
        Both {
            machine: (kind.build)(&[&params], dice.percent(50)).unwrap(),
            plain: Midgard::new(config),
            table: Table::default(),
            running: None,
            accesses: 0,
        }
    }

    /// The system reports a change of pages, none or one, and regions may have changed.
    fn report(&mut self, asid: u32, page: u64, pages: u64) {
        self.table.version += 1;
        self.machine.changed(Asid(asid), VpnRange { start: Vpn(page), pages }, &self.table);
    }

    fn step(&mut self, dice: &mut Dice) {
        let asid = dice.below(3) as u32;
        let start = PLACES * dice.below(9);
        let most = dice.pick(&[40, 6, 6, 6, 6, 6]);
        let pages = 1 + dice.below(most);
        match (dice.below(24), self.table.regions.get(&(asid, start)).copied()) {
            (_, None) => {
                let file = dice.percent(25).then(|| (dice.below(2), dice.below(8)));
                self.table.memory += 1;
                // A file that no process maps any more is another one when it is mapped again: its frames are.
                let memory = file.map_or(100 + self.table.memory, |(file, _)| file + 1);
                let region = Region {
                    pages: VpnRange { start: Vpn(start), pages },
                    attr: Attr(7),
                    memory,
                    first: file.map_or(start, |(_, first)| first),
                    shared: file.is_some(),
                };
                self.table.regions.insert((asid, start), region);
                self.plain.region(asid, start, pages, file);
                self.report(asid, 0, 0);
            }
            (0, Some(region)) if region.pages.pages != pages => {
                self.table.regions.get_mut(&(asid, start)).unwrap().pages.pages = pages;
                self.plain.resize(asid, start, pages);
                self.report(asid, 0, 0);
            }
            (1, Some(_)) if dice.percent(40) => {
                self.table.regions.remove(&(asid, start));
                self.plain.end(asid, start);
                self.report(asid, 0, 0);
            }
            (2, Some(region)) => {
                let page = start + dice.below(region.pages.pages);
                let identity = self.table.identity(asid, page).unwrap();
                *self.table.changes.entry(identity).or_default() += 1;
                self.plain.page_changed(asid, page);
                self.report(asid, page, 1);
            }
            (_, Some(region)) => {
                let near = dice.pick(&[256, 4096]);
                let addr = (start + dice.below(region.pages.pages)) << 12 | dice.below(near);
                let side = usize::from(dice.percent(75));
                if self.running.replace(asid) != Some(asid) {
                    self.machine.switch(Asid(asid));
                }
                let kind = [Kind::Fetch, Kind::Load][side];
                self.machine.run(Asid(asid), &[Item::new(kind, addr)], &self.table);
                self.plain.access_by(side, asid, addr);
                self.accesses += 1;
            }
        }
    }

    fn agree(&self, place: &str) {
        let (tlb, caches) = self.machine.mmu([0; 2]).unwrap();
        let of = |name: &str| self.plain.counts[name];
        let part = |name, counter| tlb.parts.count(name, counter);
        let answered = &tlb.parts.get("back").unwrap().memory.answered;
        let front = &tlb.parts.get("front").unwrap().memory;
        let second = tlb.second_level_fetch_hits + tlb.second_level_data_hits;
        for (name, machine, plain) in [
            ("vma_walks", tlb.misses, of("vma_walks")),
            ("vlb2", second, of("vlb2")),
            ("vlb1", self.accesses - second - tlb.misses, of("vlb1")),
            ("vma references", front.made.references, of("vma_references")),
            ("LLC misses of data", caches.fetch.llc_misses + caches.data.llc_misses, of("llc_misses_data")),
            ("LLC misses in front", part("front", "llc_misses"), of("llc_misses_front")),
            ("m2p", part("back", "walks"), of("m2p_data") + of("m2p_front")),
            ("mlb hits", part("back", "mlb_hits"), of("mlb_hits")),
            ("m2p up", answered.llc, of("m2p_up")),
            ("m2p down", answered.memory, of("m2p_down")),
            ("moves", part("front", "moves"), of("moved")),
            ("flushed lines", part("front", "flushed_lines"), of("flushed")),
            ("invalidations", tlb.invalidations, of("invalidations")),
            ("mlb invalidations", part("back", "invalidations"), of("mlb_invalidations")),
        ] {
            assert_eq!(machine, plain, "{place}: {name}, machine and model");
        }
    }
}

#[test]
fn mid_1_to_mid_4_as_a_plain_model() {
    let mut seen = BTreeMap::new();
    for seed in seeds(STREAMS) {
        let mut dice = Dice::new(seed);
        let mut both = Both::new(&mut dice);
        for step in 0..STEPS {
            both.step(&mut dice);
            both.agree(&format!("seed {seed}, step {step}"));
        }
        for (name, count) in &both.plain.counts {
            *seen.entry(*name).or_insert(0) += u64::from(*count > 0);
        }
    }
    for (name, streams) in seen {
        assert!(streams > STREAMS / 10, "{name} was counted in {streams} streams only");
    }
}
