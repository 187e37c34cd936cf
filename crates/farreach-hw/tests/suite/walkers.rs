//! Walk caches (WC) and tables in pieces of memory (ME) against plain models, walk by walk on random streams.

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::dice::seeds;
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

fn agrees(what: &str, tlb: &mut dyn Tlb, model: &mut dyn PlainTable, seed: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (mut view, mut unfiltered, mut asid, mut walks) = (View::default(), Unfiltered::default(), 0, 0);
    for step in 0..4000 {
        unfiltered.clear();
        let place = [0, 1 << 18, 5 << 18, 1 << 27, 3 << 27][rng.random_range(0..5)];
        let (page, order) = match rng.random_range(0..4) {
            0 => (place + (rng.random_range(8..14u64) << 9), 9),
            _ => (place + (rng.random_range(0..6u64) << 9) + rng.random_range(0..40), 0),
        };
        match (view.find(asid, page), rng.random_range(0..40)) {
            (_, 0) => {
                asid = (asid + rng.random_range(1..3)) % 3;
                tlb.switch(Asid(asid), &mut unfiltered);
                model.switch(asid);
            }
            (Some((first, order)), 1..4) => {
                view.0.remove(&(asid, first));
                let pages = VpnRange { start: Vpn(first), pages: 1 << order };
                tlb.invalidate(Asid(asid), pages, &mut unfiltered);
                tlb.unmapped(Asid(asid), pages, &view);
                model.unmap(asid, first, order);
            }
            (None, 0..20) => {
                view.0.insert((asid, page), order);
                tlb.mapped(Asid(asid), VpnRange { start: Vpn(page), pages: 1 << order }, &view);
                model.map(asid, page, order);
            }
            (None, _) => {}
            (Some(_), _) => {
                let at = Lookup { asid: Asid(asid), vpn: Vpn(page), kind: Kind::Load };
                let before = references(tlb);
                let answer = tlb.access(at, view.pte(at.asid, at.vpn).unwrap(), &view, &mut unfiltered);
                if answer.outcome != Outcome::Hit {
                    let found = model.walk(asid, page);
                    assert_eq!(references(tlb) - before, found.references, "{what}: seed {seed}, step {step}, {page}");
                    walks += 1;
                }
            }
        }
    }
    assert!(walks > 500, "{what}: {walks} walks");
}

/// WC-1 to WC-5.
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
        for (entries, process_ids, levels) in [(1usize, true, 4), (3, true, 5), (5, false, 4), (24, true, 4)] {
            let mut keys = json!({"pwc_kind": name, "process_ids": process_ids, "walk_levels": levels});
            let mut by_level = [0; 4];
            if matches!(kind, Caches::Stc | Caches::Sptc) {
                by_level = [entries, entries.div_ceil(2), 1, 0];
                for (key, entries) in ["pwc_pd", "pwc_pdpt", "pwc_pml4"].iter().zip(by_level) {
                    keys[*key] = entries.into();
                }
            } else {
                keys["pwc_entries"] = entries.into();
            }
            let config = WalkCacheConfig { levels, kind, entries, by_level, process_ids };
            for seed in seeds(4) {
                agrees(&keys.to_string(), &mut *build(keys.clone()), &mut WalkCaches::new(config), seed);
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
            agrees(&keys.to_string(), &mut *tlb, &mut model, seed);
            let counts = model.counts();
            for name in ["resizes", "moves", "collisions", "table_bytes", "table_bytes_most", "table_contiguous"] {
                assert_eq!(tlb.counts().parts.count("table", name), counts[name], "{keys}: {name}");
            }
        }
    }
}
