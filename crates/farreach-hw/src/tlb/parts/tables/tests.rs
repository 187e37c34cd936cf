//! All tables: random streams through [`Table`], and whole machines against the radix tree (PT-1).

mod nested;

use super::testing::Bench;
use super::*;
use crate::tlb::keys_of;
use crate::tlb::registry::design;
use crate::tlb::{Lookup, Tlb, Unfiltered};
use farreach_types::addr::{Pfn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

fn machines() -> Vec<Json> {
    vec![
        json!({"table": "hashed", "ht_buckets": 4}),
        json!({"table": "hashed", "ht_buckets": 4, "ht_sizes": "all", "ht_hash": "identity", "ht_order": "1G+4K+2M"}),
        json!({"table": "hashed", "ht_buckets": 4, "table_scope": "global"}),
        json!({"table": "htab", "htab_groups": 4}),
        json!({"table": "htab", "htab_groups": 1024, "htab_pte": 16}),
        json!({"table": "clustered", "cl_buckets": 8}),
        json!({"table": "clustered", "cl_buckets": 8, "cl_inline": true, "cl_pages": 64}),
        json!({"table": "clustered", "cl_buckets": 8, "table_scope": "global"}),
        json!({"table": "cuckoo", "ec_entries": 8, "cwc_pmd": 1}),
        json!({"table": "cuckoo", "ec_entries": 4, "ec_scale": 4, "table_scope": "global"}),
        json!({"table": "cuckoo", "ec_entries": 2, "ec_ways": 2, "ec_scale": 4, "ec_moves": 4}),
        json!({"table": "me-hpt", "ec_entries": 8, "cwc_pmd": 1}),
        json!({"table": "me-hpt", "ec_entries": 4, "table_scope": "global"}),
        json!({"table": "me-hpt", "ec_entries": 2, "ec_ways": 2, "ec_moves": 4, "ec_chunk": "4K+8K"}),
        json!({"table": "flat", "pwc_pdpt": 2}),
        json!({"table": "flat", "flatten": "l3l2", "flatten_huge": "split", "pwc_pd": 2}),
        json!({"table": "flat", "flatten_fraction": 0.5, "flatten_huge": "split", "walk_levels": 5}),
        json!({"table": "dmt", "dmt_registers": 2, "pwc_pd": 4}),
        json!({"table": "learned", "lv_pages": 64, "lv_cache": 2}),
        json!({"table": "learned", "lv_gaps": 1, "lv_error": 1}),
    ]
}

struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        u64::from(self.0.next_u32()) % n
    }

    /// A page of a few parts of the address space, and a size.
    fn page(&mut self) -> (u64, u8) {
        let order = match self.below(32) {
            0 => 18,
            1..8 => 9,
            _ => 0,
        };
        let part = [0, 1 << 18, 5 << 18, 1 << 27, 1 << 33][self.below(5) as usize];
        let reach = [600, 2 << 18][self.below(2) as usize];
        ((part + self.below(reach)) >> order << order, order)
    }
}

fn is_free(bench: &Bench, asid: u32, vpn: u64, order: u8) -> bool {
    let inside = |mapping: &Mapping| mapping.asid.0 == asid && mapping.vpn.0 >> order == vpn >> order;
    bench.of(asid, vpn).is_none() && !bench.all().iter().any(inside)
}

/// PT-2, PT-3, HW-5: with the checks of [`Bench`].
#[test]
fn every_mapped_page_is_found_and_no_other() {
    for (i, given) in machines().into_iter().enumerate() {
        let mut bench = Bench::new(given.clone());
        let mut random = Random(Pcg64Mcg::seed_from_u64(i as u64));
        for step in 0..3000 {
            let asid = random.below(2) as u32;
            let (vpn, order) = random.page();
            match random.below(if step / 500 % 2 == 0 { 3 } else { 5 }) {
                0 | 1 if is_free(&bench, asid, vpn, order) => bench.map(asid, vpn, order),
                2.. => {
                    let all = bench.all();
                    if let Some(mapping) = all.get(random.below(1 + all.len() as u64) as usize) {
                        bench.unmap(mapping.asid.0, mapping.vpn.0, mapping.order);
                    }
                }
                _ => _ = bench.ahead(asid, vpn),
            }
            if step % 10 == 0 {
                bench.check();
            }
            if step % 100 == 0 {
                for mapping in bench.all() {
                    let walked = bench.walk(mapping.asid.0, mapping.vpn.0 + random.below(1 << mapping.order));
                    assert!(walked.references > 0 && walked.steps <= walked.references, "{given}: {mapping:?}");
                    bench.ahead(mapping.asid.0, mapping.vpn.0 + (1 << mapping.order));
                }
            }
            if step % 1500 == 1499 {
                bench.end(asid);
                bench.check();
            }
        }
        (0..2).for_each(|asid| bench.end(asid));
        match &given["table"] {
            // A table of all stays (PT-5).
            _ if given["table_scope"] == "global" => assert!(bench.count("table_bytes") > 0, "{given}"),
            table if table == "htab" => assert_eq!(bench.count("table_bytes"), bench.count("table_bytes_most")),
            _ => assert_eq!(bench.count("table_bytes"), 0, "{given}"),
        }
    }
}

/// PT-4: what a walk for an unmapped page reads is what it reads in the background, and counts apart. It changes
/// nothing: walks behind it read what they read without it.
#[test]
fn pt_4_references_of_failing_walks_are_counted_apart() {
    for given in machines().into_iter().filter(counts_faults) {
        let mut benches = [(); 2].map(|()| Bench::new(given.clone()));
        let mut random = Random(Pcg64Mcg::seed_from_u64(3));
        let mut sum = 0;
        for _ in 0..600 {
            let (vpn, order) = random.page();
            let asid = random.below(2) as u32;
            if is_free(&benches[0], asid, vpn, order) {
                let before = benches[0].count("fault_references");
                benches[0].fault(asid, vpn);
                sum += benches[0].count("fault_references") - before;
                benches.iter_mut().for_each(|bench| bench.map(asid, vpn, order));
            }
            let walked = benches.each_mut().map(|bench| bench.of(asid, vpn).map(|_| bench.walk(asid, vpn)));
            assert_eq!(walked[0], walked[1], "{given}");
        }
        assert!(sum > 300, "{given}: {sum}");
        let asides = |bench: &Bench| ["table_bytes", "collisions", "table_writes"].map(|name| bench.count(name));
        assert_eq!(asides(&benches[0]), asides(&benches[1]), "{given}");
        // A fault reads what a walk in the background does, which fetches rows of sizes besides.
        let mut bench = Bench::new(given.clone());
        (0..64).for_each(|page| bench.map(0, page * 8, 0));
        for page in [1, 9, 1 << 18, 1 << 30] {
            let before = bench.count("fault_references");
            bench.fault(0, page);
            let faulted = bench.count("fault_references") - before;
            let ahead = bench.ahead(0, page);
            let rows = if given["table"] == "cuckoo" || given["table"] == "me-hpt" { 2 } else { 0 };
            assert!((faulted..=faulted + rows).contains(&ahead), "{given}: {page}: {faulted} {ahead}");
        }
    }
}

/// Tables that count the references of failing walks.
fn counts_faults(given: &Json) -> bool {
    ["hashed", "clustered", "cuckoo", "me-hpt"].iter().any(|name| given["table"] == *name)
}

/// PT-5: with one process, a table of all is its own.
#[test]
fn pt_5_a_table_of_all_is_that_of_one_process_if_there_is_one() {
    for given in machines().into_iter().filter(|given| counts_faults(given) && given["table_scope"].is_null()) {
        let mut of_all = given.clone();
        of_all["table_scope"] = "global".into();
        let mut benches = [given.clone(), of_all].map(Bench::new);
        let mut random = Random(Pcg64Mcg::seed_from_u64(5));
        for _ in 0..500 {
            let (vpn, order) = random.page();
            if is_free(&benches[0], 0, vpn, order) {
                benches.iter_mut().for_each(|bench| bench.map(0, vpn, order));
            }
            let walked = benches.each_mut().map(|bench| bench.of(0, vpn).map(|_| bench.walk(0, vpn)));
            assert_eq!(walked[0], walked[1], "{given}");
        }
        let counts = |bench: &Bench| ["table_bytes", "moves", "collisions"].map(|name| bench.count(name));
        assert_eq!(counts(&benches[0]), counts(&benches[1]), "{given}");
    }
}

#[test]
fn the_registry_is_in_order() {
    for (i, table) in TABLES.iter().enumerate() {
        assert!(TABLES[..i].iter().all(|other| other.name != table.name), "{} is there twice", table.name);
        assert!(!table.about.is_empty());
        for key in table.keys {
            let whose = key.about.strip_prefix("table = ").and_then(|about| about.split_once(": "));
            let is_its = whose.is_some_and(|(tables, _)| tables.split(", ").any(|name| name == table.name));
            assert!(is_its, "{}: {}", key.name, key.about);
        }
    }
}

/// The operating system of a test.
#[derive(Default)]
struct System {
    /// By process and first page: order and first frame.
    pages: BTreeMap<(Asid, u64), (u8, u64)>,
    next: u64,
}

impl System {
    fn of(&self, asid: Asid, vpn: Vpn) -> Option<(u64, u8, u64)> {
        let (&(of, first), &(order, frame)) = self.pages.range(..=(asid, vpn.0)).next_back()?;
        (of == asid && vpn.0 - first < 1 << order).then_some((first, order, frame))
    }

    fn map(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        let frame = self.next.next_multiple_of(1 << order);
        self.next = frame + (1 << order);
        self.pages.insert((asid, vpn.0), (order, frame));
    }

    fn unmap(&mut self, asid: Asid, pages: VpnRange) {
        self.pages.retain(|&(of, first), &mut (order, _)| {
            of != asid || !pages.overlaps(&VpnRange { start: Vpn(first), pages: 1 << order })
        });
    }
}

impl PageTableView for System {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (first, order, frame) = self.of(asid, vpn)?;
        Some(Pte { pfn: Pfn(frame + vpn.0 - first), attr: Attr(3), order })
    }
}

fn machine(given: &Json) -> Box<dyn Tlb> {
    let mut all = json!({"l1d": "4K:4/2+2M:2+1G:1", "l1i": "4K:2+2M:1", "l2": "4K|2M:16/4", "replacement": "lru"});
    all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
    let (given, design) = (all.as_object().unwrap(), design("hierarchy").unwrap());
    let params = Params::resolve(&keys_of(design, given), given).unwrap();
    (design.build)(&params).unwrap()
}

/// A lookup, a change of the page table, a switch or an end, told to a machine as the laboratory does.
fn step(tlb: &mut dyn Tlb, event: &Event, system: &System) {
    let unfiltered = &mut Unfiltered::default();
    match *event {
        Event::Lookup(at) => {
            let pte = system.pte(at.asid, at.vpn).unwrap();
            tlb.access(at, pte, system, unfiltered);
        }
        Event::Mapped(asid, pages) => tlb.mapped(asid, pages, system),
        Event::Unmapped(asid, pages) => {
            tlb.invalidate(asid, pages, unfiltered);
            tlb.unmapped(asid, pages, system);
        }
        Event::Promoted(asid, pages) => {
            tlb.invalidate(asid, pages, unfiltered);
            tlb.mapped(asid, pages, system);
        }
        Event::Demoted(asid, pages) => {
            tlb.demote(asid, pages, unfiltered);
            tlb.mapped(asid, pages, system);
        }
        Event::Switched(asid) => tlb.switch(asid, unfiltered),
        Event::Ended(asid) => tlb.invalidate_space(asid, unfiltered),
    }
}

#[derive(Debug)]
enum Event {
    Lookup(Lookup),
    Mapped(Asid, VpnRange),
    Unmapped(Asid, VpnRange),
    Promoted(Asid, VpnRange),
    Demoted(Asid, VpnRange),
    Switched(Asid),
    Ended(Asid),
}

/// What the system does next, done.
fn next(random: &mut Random, system: &mut System, running: &mut Asid) -> Vec<Event> {
    let asid = *running;
    let (page, order) = random.page();
    let vpn = Vpn(page);
    let block = VpnRange { start: vpn.align_down(9), pages: 512 };
    match random.below(60) {
        0 => {
            let pages = VpnRange { start: vpn, pages: 1 + random.below(40) };
            // A superpage goes as a whole.
            let range = system
                .of(asid, vpn)
                .map_or(pages, |(first, order, _)| VpnRange { start: Vpn(first), pages: pages.pages.max(1 << order) });
            system.unmap(asid, range);
            vec![Event::Unmapped(asid, range)]
        }
        1 if system.of(asid, vpn).is_some_and(|(_, order, _)| order == 0) => {
            system.unmap(asid, block);
            system.map(asid, block.start, 9);
            vec![Event::Promoted(asid, block)]
        }
        2 if system.of(asid, vpn).is_some_and(|(_, order, _)| order == 9) => {
            let (_, _, frame) = system.of(asid, vpn).unwrap();
            system.unmap(asid, block);
            block.iter().zip(frame..).for_each(|(vpn, frame)| _ = system.pages.insert((asid, vpn.0), (0, frame)));
            vec![Event::Demoted(asid, block)]
        }
        3 => {
            *running = Asid(1 - asid.0);
            vec![Event::Switched(*running)]
        }
        4 if random.below(20) == 0 => {
            system.pages.retain(|&(of, _), _| of != asid);
            vec![Event::Ended(asid)]
        }
        _ => {
            let mut events = Vec::new();
            if system.of(asid, vpn).is_none() {
                let first = vpn.align_down(order.into());
                let fits = system.pages.range((asid, first.0)..(asid, first.0 + (1 << order))).next().is_none();
                let order = if fits { order } else { 0 };
                let first = vpn.align_down(order.into());
                system.map(asid, first, order);
                events.push(Event::Mapped(asid, VpnRange { start: first, pages: 1 << order }));
            }
            let kind = [Kind::Load, Kind::Store, Kind::Fetch][random.below(3) as usize];
            events.push(Event::Lookup(Lookup { asid, vpn, kind }));
            events
        }
    }
}

/// Two machines have the same TLBs after each event of a random stream.
fn count_alike([radix, other]: [&mut dyn Tlb; 2], seed: u64, steps: u32, given: &Json) {
    let mut random = Random(Pcg64Mcg::seed_from_u64(seed));
    let (mut system, mut running) = (System::default(), Asid(0));
    for _ in 0..steps {
        for event in next(&mut random, &mut system, &mut running) {
            step(radix, &event, &system);
            step(other, &event, &system);
            let counts = |tlb: &dyn Tlb| {
                let counts = tlb.counts();
                [counts.misses, counts.fills, counts.evictions, counts.invalidations, counts.walk.walks]
            };
            assert_eq!(counts(radix), counts(other), "{given}: {event:?}");
            assert_eq!(radix.entries(), other.entries(), "{given}: {event:?}");
        }
    }
}

/// PT-1, HW-3: the TLBs do not notice which table it is. HW-5 is checked by the tables themselves.
#[test]
fn tlbs_are_those_of_a_radix_tree() {
    for (i, given) in machines().into_iter().enumerate() {
        let ids = i % 3 != 0;
        let with = |mut given: Json| {
            given["process_ids"] = ids.into();
            machine(&given)
        };
        let (mut radix, mut other) = (with(json!({"table": "radix"})), with(given.clone()));
        count_alike([&mut *radix, &mut *other], 100 + i as u64, 6000, &given);
        let counts = other.counts();
        let part = counts.parts.get(PART).unwrap();
        assert!(counts.walk.walks > 1000 && part.memory.made.references >= counts.walk.walks, "{given}");
        for law in listed(given["table"].as_str().unwrap()).unwrap().laws {
            let (left, right) = (law.sides)(part, counts.walk.walks);
            assert_eq!(left, right, "{given}: {}", law.name);
        }
    }
}

/// A tree without merged levels makes the references of the walker's own, with the same walk caches.
#[test]
fn a_tree_of_single_levels_walks_as_the_walker_does() {
    for table in [json!({"table": "flat", "flatten": "none"}), json!({"table": "dmt", "dmt_registers": 0})] {
        for caches in [json!({}), json!({"pwc_pd": 2, "pwc_pdpt": 2, "pwc_pml4": 1}), json!({"pwc_pdpt": 3})] {
            let with = |more: &Json| {
                let mut given = caches.clone();
                given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                machine(&given)
            };
            let (mut radix, mut other) = (with(&json!({})), with(&table));
            let mut random = Random(Pcg64Mcg::seed_from_u64(7));
            let (mut system, mut running) = (System::default(), Asid(0));
            for _ in 0..6000 {
                for event in next(&mut random, &mut system, &mut running) {
                    step(&mut *radix, &event, &system);
                    step(&mut *other, &event, &system);
                }
            }
            let references = radix.counts().walk.references();
            assert_eq!(other.counts().parts.get(PART).unwrap().memory.made.references, references, "{table} {caches}");
        }
    }
}
