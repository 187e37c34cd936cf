//! Tables in both dimensions of a virtual machine against a plain model, walk by walk on random streams.
//!
//! Where a guest's table lies in its memory is its own matter: the model asks for the place of each line, and is told
//! what the machine read. Known lines (OW-43) are read first, rows of walk tables last (OW-44).

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::tables::Hash;
use farreach_oracle::tables::clustered::ClusteredConfig;
use farreach_oracle::tables::cuckoo::CuckooConfig;
use farreach_oracle::tables::flat::FlatConfig;
use farreach_oracle::tables::hashed::HashedConfig;
use farreach_oracle::tables::nested::{Nested, NestedConfig, Organisation};
use farreach_oracle::tables::radix::Shape;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Mappings by process and first page: order and guest frame.
#[derive(Default)]
struct View(BTreeMap<(u32, u64), (u8, u64)>);

impl View {
    fn find(&self, asid: u32, vpn: u64) -> Option<(u64, u8, u64)> {
        let (&(of, first), &(order, frame)) = self.0.range(..=(asid, vpn)).next_back()?;
        (of == asid && vpn - first < 1 << order).then_some((first, order, frame))
    }
}

impl PageTableView for View {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (first, order, frame) = self.find(asid.0, vpn.0)?;
        Some(Pte { pfn: Pfn(frame + vpn.0 - first), attr: Attr(3), order })
    }
}

/// The first address of a guest's tables, and one above them.
const GUEST_TABLES: [u64; 2] = [1 << 47, 1 << 48];

type Keys = Map<String, Value>;

/// A table of one dimension, with its keys.
fn any(dice: &mut Dice, seed: u64, process_ids: bool, of_host: bool, keys: &mut Keys) -> Organisation {
    let mut key = |name: &str, value: String| {
        keys.insert(format!("{}{name}", if of_host { "host_" } else { "" }), value.into());
    };
    let caches = dice.pick(&[[0, 0, 0, 0], [2, 1, 1, 0], [3, 0, 2, 0]]);
    let pwc = |key: &mut dyn FnMut(&str, String)| {
        for (name, entries) in ["pwc_pd", "pwc_pdpt", "pwc_pml4"].iter().zip(caches) {
            key(name, entries.to_string());
        }
    };
    match dice.below(5) {
        0 => {
            key("table", "radix".into());
            let levels = dice.pick(&[4, 4, 5]);
            key(if of_host { "levels" } else { "walk_levels" }, levels.to_string());
            // A host's tree that is not flat has none.
            if !of_host {
                pwc(&mut key);
            }
            let caches = if of_host { [0; 4] } else { caches };
            Organisation::Flat(FlatConfig { shape: Shape::plain(levels), caches, process_ids })
        }
        1 => {
            let (flatten, split) = (dice.pick(&["none", "l4l3+l2l1", "l2l1", "l3l2", "l4l3"]), dice.percent(50));
            let fraction = dice.pick(&[1.0, 1.0, 0.5]);
            key("table", "flat".into());
            key("flatten", flatten.into());
            key("flatten_fraction", fraction.to_string());
            key("flatten_huge", if split { "split" } else { "copies" }.into());
            pwc(&mut key);
            let shape = Shape { levels: 4, merged: Shape::pairs(flatten), fraction, split, seed };
            Organisation::Flat(FlatConfig { shape, caches, process_ids })
        }
        2 => {
            let (buckets, load, all_sizes) = (dice.pick(&[1, 4, 64]), dice.pick(&[0.3, 0.6, 0.9]), dice.percent(40));
            key("table", "hashed".into());
            key("ht_buckets", buckets.to_string());
            key("ht_load", load.to_string());
            key("ht_sizes", if all_sizes { "all" } else { "used" }.into());
            let order = vec![0, 9, 18];
            Organisation::Hashed(HashedConfig { buckets, load, order, all_sizes, hash: Hash::Mix, seed })
        }
        3 => {
            let (pages, buckets) = dice.pick(&[(4, 64), (16, 1), (16, 4), (64, 64)]);
            let inline = dice.percent(40);
            key("table", "clustered".into());
            key("cl_pages", pages.to_string());
            key("cl_buckets", buckets.to_string());
            key("cl_inline", inline.to_string());
            Organisation::Clustered(ClusteredConfig { pages, buckets, inline, hash: Hash::Mix, seed })
        }
        _ => {
            let config = CuckooConfig {
                ways: 2 + dice.below(3),
                entries: dice.pick(&[1, 4, 16]),
                retries: dice.pick(&[1, 4, 32]),
                scale: dice.pick(&[2, 4]),
                moves: dice.pick(&[1, 2, 10]),
                seed,
                cached_rows: dice.pick(&[[16, 2], [1, 1], [2, 0], [0, 2], [0, 0]]),
                process_ids,
                ..CuckooConfig::default()
            };
            key("table", "cuckoo".into());
            key("ec_ways", config.ways.to_string());
            key("ec_entries", config.entries.to_string());
            key("ec_retries", config.retries.to_string());
            key("ec_scale", config.scale.to_string());
            key("ec_moves", config.moves.to_string());
            key("cwc_pmd", config.cached_rows[0].to_string());
            key("cwc_pud", config.cached_rows[1].to_string());
            Organisation::Cuckoo(config)
        }
    }
}

/// A machine, its model, and where the model is told what the machine read.
struct Pair {
    tlb: Box<dyn Tlb>,
    model: Nested,
    lines: Rc<RefCell<VecDeque<u64>>>,
    what: String,
}

fn pair(dice: &mut Dice) -> Pair {
    let (seed, process_ids, nested_tlb) = (dice.below(9), dice.percent(70), dice.pick(&[0, 0, 1, 4, 100]));
    let host_order = dice.pick(&[0, 0, 9]);
    let mut keys = Keys::new();
    for (key, value) in [
        ("l1d", "4K:1+2M:1"),
        ("l1i", "4K:1"),
        ("l2", "none"),
        ("guest", "walk"),
        ("walk_cost", "caches"),
        ("host_page", if host_order == 0 { "4K" } else { "2M" }),
    ] {
        keys.insert(key.into(), value.into());
    }
    keys.insert("seed".into(), seed.into());
    keys.insert("process_ids".into(), process_ids.into());
    keys.insert("nested_tlb".into(), nested_tlb.into());
    let guest = any(dice, seed, process_ids, false, &mut keys);
    let host = any(dice, seed, process_ids, true, &mut keys);
    let hierarchy = design("hierarchy").unwrap();
    let params = Params::resolve(&keys_of(hierarchy, &keys), &keys).unwrap_or_else(|why| panic!("{keys:?}: {why}"));
    let lines: Rc<RefCell<VecDeque<u64>>> = Rc::default();
    let of_machine = Rc::clone(&lines);
    let placed = Box::new(move |_| of_machine.borrow_mut().pop_front().expect("the machine read fewer lines") >> 12);
    let config = NestedConfig { guest, host, host_order, nested_tlb };
    Pair {
        tlb: (hierarchy.build)(&params).unwrap(),
        model: Nested::new(config, placed),
        lines,
        what: format!("{}", Value::Object(keys)),
    }
}

impl Pair {
    /// Walks that the machine makes for this page are the model's.
    fn walk(&mut self, asid: u32, vpn: u64, view: &View, unfiltered: &mut Unfiltered) -> bool {
        let Pair { tlb, model, lines, what } = self;
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
        let made = |tlb: &dyn Tlb| [tlb.counts().table_references(), tlb.counts().table_steps()];
        let before = made(&**tlb);
        let answer = tlb.access(at, view.pte(at.asid, at.vpn).unwrap(), view, unfiltered);
        let read: Vec<u64> = tlb.port().unwrap().recorded().map(|read| read.address).collect();
        if answer.outcome == Outcome::Hit {
            assert!(read.is_empty(), "{what}");
            return false;
        }
        let is_guest = |address: &u64| (GUEST_TABLES[0]..GUEST_TABLES[1]).contains(address);
        *lines.borrow_mut() = read.into_iter().filter(is_guest).collect();
        if model.knows_first(asid, vpn) {
            lines.borrow_mut().pop_front();
        }
        let found = model.walk(asid, vpn);
        let now = made(&**tlb);
        assert_eq!([now[0] - before[0], now[1] - before[1]], [found.references, found.steps], "{asid} {vpn}: {what}");
        assert!(lines.borrow().is_empty(), "the machine read more lines: {what}");
        true
    }

    /// The counters of both.
    fn compare(&self) {
        let (counts, model) = (self.tlb.counts(), self.model.counts());
        let what = &self.what;
        let host = &counts.host_walk;
        assert_eq!([host.walks, host.nested_tlb_hits], [model["host_walks"], model["nested_hits"]], "{what}");
        let mut background = model["host_background"];
        for (part, model) in ["table", "host_table"].iter().zip(self.model.tables()) {
            background += model.get("cwt_references").copied().unwrap_or(0);
            // Trees of the walker and of hosts behind them count no memory.
            let Some(own) = counts.parts.get(part) else { continue };
            for name in [
                "table_bytes",
                "table_bytes_most",
                "table_contiguous",
                "resizes",
                "moves",
                "collisions",
                "table_writes",
                "cwt_references",
                "complete",
                "by_pud",
                "size",
                "direct",
                "both",
            ] {
                let expected = model.get(name).copied().unwrap_or(0);
                assert_eq!(own.counters.get(name), expected, "{part}, {name}: {what}");
            }
        }
        assert_eq!(counts.of_tables(|memory| memory.made.background_references), background, "{what}");
        if counts.parts.get("host_table").is_some() {
            assert_eq!(counts.parts.count("host_table", "known"), model["known"], "{what}");
        }
    }
}

/// One stream. Returns the walks.
fn agrees(seed: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let mut pair = pair(&mut dice);
    let (mut view, mut unfiltered, mut asid, mut walks) = (View::default(), Unfiltered::default(), 0u32, 0);
    for _ in 0..1500 {
        unfiltered.clear();
        let place = [0, 1 << 18, 5 << 18, 1 << 27, 3 << 27][dice.below(5) as usize];
        let (page, order) = match dice.below(4) {
            0 => (place + ((8 + dice.below(6)) << 9), 9),
            _ => (place + (dice.below(6) << 9) + dice.below(40), 0),
        };
        match (view.find(asid, page), dice.below(200)) {
            (_, 0..4) => {
                asid = (asid + 1 + dice.below(2) as u32) % 3;
                pair.tlb.switch(Asid(asid), &mut unfiltered);
                pair.model.switch(asid);
            }
            (_, 4) if dice.percent(30) => {
                let all: Vec<_> = view.0.range((asid, 0)..(asid + 1, 0)).map(|(key, page)| (key.1, page.0)).collect();
                view.0.retain(|key, _| key.0 != asid);
                pair.tlb.invalidate_space(Asid(asid), &mut unfiltered);
                all.into_iter().for_each(|(first, order)| pair.model.unmap(asid, first, order));
                pair.model.gone(asid);
            }
            (Some((first, order, _)), 5..20) => {
                view.0.remove(&(asid, first));
                let pages = VpnRange { start: Vpn(first), pages: 1 << order };
                pair.tlb.invalidate(Asid(asid), pages, &mut unfiltered);
                pair.tlb.unmapped(Asid(asid), pages, &view);
                pair.model.unmap(asid, first, order);
            }
            (None, 5..100) => {
                let frame = dice.pick(&[0, 1 << 20, 7 << 27]) + (dice.below(3000) >> order << order);
                view.0.insert((asid, page), (order, frame));
                pair.tlb.mapped(Asid(asid), VpnRange { start: Vpn(page), pages: 1 << order }, &view);
                pair.model.map(asid, page, order, frame);
            }
            (None, _) => {}
            (Some((first, order, _)), _) => {
                let vpn = first + dice.below(1 << order);
                walks += u64::from(pair.walk(asid, vpn, &view, &mut unfiltered));
            }
        }
    }
    pair.compare();
    walks
}

/// NEC, NFL, FL-1, DS13-40 to DS13-42: references and steps of each walk, walks of the host, hits of the nested TLB,
/// memory, and what each table counts, for pairs of tables.
#[test]
fn nested_tables_agree_with_the_plain_model() {
    let walks: u64 = seeds(1000).map(agrees).sum();
    assert!(walks > 150_000, "{walks} walks");
}
