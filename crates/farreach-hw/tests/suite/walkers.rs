//! Walk caches (WC) and tables in pieces of memory (ME) against plain models, walk by walk on random streams.

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::tables::PlainTable;
use farreach_oracle::tables::cuckoo::CuckooConfig;
use farreach_oracle::tables::mementos::Mementos;
use farreach_oracle::tables::walk_caches::{Kind as Caches, WalkCacheConfig, WalkCaches};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Mappings by process and first page: their order.
#[derive(Default)]
struct View(BTreeMap<(u32, u64), u8>);

impl View {
    fn find(&self, asid: u32, vpn: u64) -> Option<(u64, u8)> {
        let (&(of, first), &order) = self.0.range(..=(asid, vpn)).next_back()?;
        (of == asid && vpn - first < 1 << order).then_some((first, order))
    }
}

impl PageTableView for View {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (_, order) = self.find(asid.0, vpn.0)?;
        Some(Pte { pfn: Pfn(vpn.0 + (1 << 30)), attr: Attr(3), order })
    }
}

fn build(more: Value) -> Box<dyn Tlb> {
    let mut given = json!({"l1d": "4K:1+2M:1", "l1i": "4K:1", "l2": "none", "seed": 7});
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (given, hierarchy) = (given.as_object().unwrap(), design("hierarchy").unwrap());
    (hierarchy.build)(&Params::resolve(&keys_of(hierarchy, given), given).unwrap()).unwrap()
}

/// References of walks so far.
fn references(tlb: &dyn Tlb) -> u64 {
    let of_table = tlb.counts().parts.get("table").map_or(0, |part| {
        let made = &part.memory.made;
        made.references + made.background_references - part.counters.get("cwt_references")
    });
    tlb.counts().walk.references() + of_table
}

/// The reads of walks that go through caches, by the entries that they are of.
#[derive(Default)]
struct Reads(BTreeMap<(u32, u8, u64), u64>);

impl Reads {
    /// The levels of the entries that a walk read (WC-2 to WC-5), 0 being that of base pages. Each entry has one
    /// address (HW-7, PT-3).
    fn follow(&mut self, tlb: &mut dyn Tlb, asid: u32, vpn: u64) -> Vec<u8> {
        let reads: Vec<_> = tlb.port().into_iter().flat_map(|port| port.recorded().collect::<Vec<_>>()).collect();
        for read in &reads {
            let entry = (asid, read.level, vpn >> (9 * read.level));
            if let Some(before) = self.0.insert(entry, read.address) {
                assert_eq!(before, read.address, "{entry:?} moved");
            } else {
                let others = self.0.iter().filter(|(other, address)| **other != entry && **address == read.address);
                assert_eq!(others.count(), 0, "{entry:?} lies where another does");
            }
        }
        reads.iter().map(|read| read.level).collect()
    }
}

/// `in_a_row`: the walk begins at some level and reads all below.
fn agrees(what: &str, tlb: &mut dyn Tlb, model: &mut dyn PlainTable, seed: u64, steps: u64, in_a_row: bool) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (mut view, mut unfiltered, mut asid, mut walks) = (View::default(), Unfiltered::default(), 0, 0);
    let mut reads = Reads::default();
    for step in 0..steps {
        unfiltered.clear();
        let place = [0, 1 << 18, 5 << 18, 1 << 27, 3 << 27][rng.random_range(0..5)];
        let (page, order) = match rng.random_range(0..16) {
            0..4 => (place + (rng.random_range(8..14u64) << 9) + rng.random_range(0..512), 9),
            4 => ((rng.random_range(8..10u64) << 18) + rng.random_range(0..1 << 18), 18),
            _ => (place + (rng.random_range(0..6u64) << 9) + rng.random_range(0..40), 0),
        };
        match (view.find(asid, page), rng.random_range(0..40)) {
            (_, 0) => {
                asid = (asid + rng.random_range(1..3)) % 3;
                tlb.switch(Asid(asid), &mut unfiltered);
                model.switch(asid);
            }
            (Some(_), 1) if rng.random_range(0..20) == 0 => {
                let gone = rng.random_range(0..3);
                let all: Vec<_> = view.0.range((gone, 0)..(gone + 1, 0)).map(|(key, order)| (key.1, *order)).collect();
                view.0.retain(|key, _| key.0 != gone);
                reads.0.retain(|entry, _| entry.0 != gone);
                tlb.invalidate_space(Asid(gone), &mut unfiltered);
                all.into_iter().for_each(|(first, order)| model.unmap(gone, first, order));
                model.gone(gone);
            }
            (Some((first, order)), 1..4) => {
                view.0.remove(&(asid, first));
                let pages = VpnRange { start: Vpn(first), pages: 1 << order };
                tlb.invalidate(Asid(asid), pages, &mut unfiltered);
                tlb.unmapped(Asid(asid), pages, &view);
                model.unmap(asid, first, order);
            }
            (None, 0..20) => {
                let first = page >> order << order;
                view.0.insert((asid, first), order);
                tlb.mapped(Asid(asid), VpnRange { start: Vpn(first), pages: 1 << order }, &view);
                model.map(asid, first, order);
            }
            (None, _) => {}
            (Some((_, order)), _) => {
                let at = Lookup { asid: Asid(asid), vpn: Vpn(page), kind: Kind::Load };
                let (before, levels) = (references(tlb), tlb.counts().walk.by_level());
                let answer = tlb.access(at, view.pte(at.asid, at.vpn).unwrap(), &view, &mut unfiltered);
                let at = format!("{what}: seed {seed}, step {step}, {page}");
                let now = tlb.counts().walk.by_level();
                let mut read: Vec<u8> = (0..5).filter(|i| now[usize::from(*i)] > levels[usize::from(*i)]).collect();
                if answer.outcome != Outcome::Hit {
                    let found = model.walk(asid, page);
                    assert_eq!(references(tlb) - before, found.references, "{at}");
                    walks += 1;
                }
                if in_a_row {
                    let row = (order / 9..).take(read.len());
                    assert!(read.iter().copied().eq(row), "{at}: levels {read:?}");
                } else if let Some(first) = read.first() {
                    assert_eq!(*first, order / 9, "{at}: WC-5");
                }
                if tlb.port().is_some() {
                    read.reverse();
                    assert_eq!(reads.follow(tlb, asid, page), read, "{at}: read through caches");
                }
            }
        }
    }
    assert!(walks > steps / 10, "{what}: {walks} walks");
}

/// WC-1 to WC-5: arrays of any size, of 4 and 5 levels, with process ids and without, with fixed prices and by caches.
#[test]
fn wc_agrees_with_the_plain_model() {
    let kinds = [
        ("stc", Caches::Stc),
        ("utc", Caches::Utc),
        ("uptc", Caches::Uptc),
        ("sptc", Caches::Sptc),
        ("tpc", Caches::Tpc),
    ];
    for (name, kind) in kinds {
        for seed in seeds(200) {
            let mut dice = Dice::new(seed);
            let levels = 4 + u8::from(dice.percent(40));
            let (entries, process_ids) = (dice.pick(&[1, 2, 3, 5, 8, 24]), dice.percent(60));
            let cost = dice.pick(&["fixed", "caches"]);
            let mut keys =
                json!({"pwc_kind": name, "process_ids": process_ids, "walk_levels": levels, "walk_cost": cost});
            let mut by_level = [0; 4];
            if matches!(kind, Caches::Stc | Caches::Sptc) {
                let arrays = usize::from(levels) - 1;
                by_level[..arrays].fill_with(|| dice.pick(&[0, 1, 2, 3, 5, 24]));
                for (key, entries) in ["pwc_pd", "pwc_pdpt", "pwc_pml4", "pwc_pml5"].iter().zip(by_level) {
                    keys[*key] = entries.into();
                }
            } else {
                keys["pwc_entries"] = entries.into();
            }
            let config = WalkCacheConfig { levels, kind, entries, by_level, process_ids };
            let in_a_row = !matches!(kind, Caches::Uptc | Caches::Sptc);
            let (mut tlb, mut model) = (build(keys.clone()), WalkCaches::new(config));
            agrees(&keys.to_string(), &mut *tlb, &mut model, seed, 1000, in_a_row);
            if let Some(part) = tlb.counts().parts.get("pwc").filter(|_| !in_a_row) {
                let (walk, of) = (&tlb.counts().walk, |name| part.counters.get(name));
                assert_eq!(walk.references(), walk.walks + of("lookups") - of("hits"), "{keys}: WC-3");
            }
        }
    }
}

/// ME-1 to ME-3.
#[test]
fn me_agrees_with_the_plain_model() {
    for (entries, ways, moves, retries) in [(1, 3, 1, 32), (4, 2, 3, 2), (8, 4, 10, 8), (64, 3, 1, 1)] {
        let keys = json!({
            "table": "me-hpt", "ec_entries": entries, "ec_ways": ways, "ec_moves": moves, "ec_retries": retries,
        });
        let config = CuckooConfig { entries, ways, moves, retries, seed: 7, ..CuckooConfig::default() };
        for seed in seeds(4) {
            let (mut tlb, mut model) = (build(keys.clone()), Mementos::new(config));
            agrees(&keys.to_string(), &mut *tlb, &mut model, seed, 4000, false);
            let counts = model.counts();
            for name in ["resizes", "moves", "collisions", "table_bytes", "table_bytes_most", "table_contiguous"] {
                assert_eq!(tlb.counts().parts.count("table", name), counts[name], "{keys}: {name}");
            }
        }
    }
}
