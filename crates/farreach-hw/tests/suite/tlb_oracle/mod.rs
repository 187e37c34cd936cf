//! Every TLB design against the plain oracle, through the public contract only: thousands of seeded streams per kind,
//! of hostile references (full sets, sweeps just above capacity, unaligned and mixed regions, superpages of several
//! orders, invalidations, several spaces).
//!
//! Compared: the outcome of every lookup; counts, entries and translations at intervals and at the end. Further: a
//! lookup that a design calls filtered is repeated at once and must change nothing, and a twin of the design that sees
//! no filtered lookups must end in the same state (see `Unfiltered`). A failure names the stream (`kind`, seed), the
//! configuration, the first differing step and both sides. To repeat one stream:
//! `FARREACH_SEED=123 cargo test -p farreach-hw --test suite tlb_oracle`.
//!
//! The streams are tested too: they move every counter, and find every deliberate mistake in [`Mutation`]. Covers T94-3
//! to T94-25, T94-42, AMB-3, AMB-5, AMB-6, AMB-13, AMB-14, AMB-20; CA-15, CA-16, CA-39.

mod configs;
mod drive;
mod world;

use configs::{declares, expected_keys, must_have, params, sample};
use drive::stream;
use farreach_hw::tlb::{
    Answer, Capabilities, Design, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Tlb, Unfiltered, design,
};
use farreach_oracle::dice::Dice;
use farreach_oracle::driver::world::{Step, World as Memory, apply};
use farreach_oracle::tlb::{Mutation, PlainTlb, Preload, Replacement, SizeLookup, TlbConfig, TlbKind};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};
use serde_json::{Map, Value as Json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Change, Pattern, World, apply_change, change, kind_for};

const KINDS: [(TlbKind, &str); 6] = [
    (TlbKind::Single, "single"),
    (TlbKind::Superpage, "superpage"),
    (TlbKind::Complete, "complete"),
    (TlbKind::Partial, "partial"),
    (TlbKind::Integrated, "integrated"),
    (TlbKind::Skewed, "skewed"),
];

/// Default number of streams per kind.
const STREAMS: u64 = 1000;

fn name(kind: TlbKind) -> &'static str {
    KINDS.iter().find(|k| k.0 == kind).expect("listed").1
}

#[test]
fn noise_names_what_it_was_told() {
    let mut unfiltered = Unfiltered::default();
    let named =
        |unfiltered: &Unfiltered| (0..128).filter(|&v| unfiltered.contains(Asid(3), Vpn(v))).collect::<Vec<u64>>();
    assert!(named(&unfiltered).is_empty());
    unfiltered.add(Asid(3), Vpn(40), 0b101);
    unfiltered.add(Asid(3), Vpn(64), 1 << 63);
    unfiltered.add(Asid(0), Vpn(0), u64::MAX);
    assert_eq!(named(&unfiltered), [40, 42, 127]);
    unfiltered.add_all();
    assert_eq!(named(&unfiltered).len(), 128);
    unfiltered.clear();
    assert!(named(&unfiltered).is_empty());
}

fn compare(kind: TlbKind) {
    compare_with(kind, must_have(kind));
}

fn compare_with(kind: TlbKind, design: &Design) {
    let missing: Vec<&str> = expected_keys(kind).into_iter().filter(|k| !declares(design, k)).collect();
    let make = |c: &TlbConfig| {
        let params = params(design, c).unwrap_or_else(|e| panic!("the design refuses the keys: {e}"));
        (design.build)(&params).unwrap_or_else(|e| panic!("the design refuses to be built: {e}"))
    };
    let seeds = farreach_oracle::dice::seeds(STREAMS);
    let total = seeds.end - seeds.start;
    let (mut sum, mut failures) = (TlbCounts::default(), Vec::new());
    for seed in seeds {
        match stream(kind, seed, &|k| declares(design, k), &make) {
            Ok(counts) => sum += &counts,
            Err(why) => failures.push(why),
        }
    }
    let shown: Vec<&str> = failures.iter().take(3).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {total} streams differ. The first:\n\n{}", failures.len(), shown.join("\n\n"));
    assert!(missing.is_empty(), "'{}' has no keys {missing:?}; their values were not compared", name(kind));
    if total >= 100 {
        let still: Vec<&str> =
            moving(kind, &sum).into_iter().filter(|(_, n)| *n < total / 5).map(|(key, _)| key).collect();
        assert!(still.is_empty(), "{still:?} hardly moved, so they were not compared: {sum:?}");
    }
}

/// The counters that this kind moves.
fn moving(kind: TlbKind, n: &TlbCounts) -> Vec<(&'static str, u64)> {
    let mut all = vec![
        ("fetch_misses", n.fetch_misses),
        ("load_misses", n.load_misses),
        ("store_misses", n.store_misses),
        ("tag_misses", n.tag_misses),
        ("superpage_misses", n.superpage_misses),
        ("fills", n.fills),
        ("evictions", n.evictions),
        ("invalidations", n.invalidations),
    ];
    let subblocks = [
        ("subblock_misses", n.subblock_misses),
        ("merges", n.merges),
        ("preloaded", n.preloaded),
        ("extra_pte_reads", n.extra_pte_reads),
    ];
    let split = [
        ("split_unaligned", n.split_unaligned),
        ("split_frames", n.split_frames),
        ("split_attributes", n.split_attributes),
    ];
    if !matches!(kind, TlbKind::Single | TlbKind::Superpage | TlbKind::Skewed) {
        all.extend(subblocks);
    }
    if matches!(kind, TlbKind::Partial | TlbKind::Integrated) {
        all.extend(split);
    }
    if !matches!(kind, TlbKind::Single | TlbKind::Complete | TlbKind::Skewed) {
        all.push(("covered_drops", n.covered_drops));
    }
    all
}

#[test]
fn single() {
    compare(TlbKind::Single);
}

#[test]
fn superpage() {
    compare(TlbKind::Superpage);
}

#[test]
fn complete() {
    compare(TlbKind::Complete);
}

#[test]
fn partial() {
    compare(TlbKind::Partial);
}

#[test]
fn integrated() {
    compare(TlbKind::Integrated);
}

#[test]
fn skewed() {
    compare(TlbKind::Skewed);
}

/// CA-16: the user must choose how the set of a page of unknown size is found.
#[test]
fn mixed_sizes_in_sets_are_refused_without_a_lookup() {
    let design = must_have(TlbKind::Superpage);
    let given = serde_json::json!({"entries": 64, "ways": 4, "sizes": [4096, 65536]});
    let refused = match Params::resolve(design.keys, given.as_object().expect("an object")) {
        Ok(params) => (design.build)(&params).is_err(),
        Err(_) => true,
    };
    assert!(refused, "a 4-way TLB for 4 KB and 64 KB pages was built though no lookup was chosen");
}

/// CA-39: without subblocks and superpages all designs are the single-page-size design.
#[test]
fn ca_39_factor_1_is_single() {
    let policies = [
        ("used-bit", Replacement::UsedBit),
        ("lru", Replacement::Lru),
        ("plru", Replacement::TreePlru),
        ("fifo", Replacement::Fifo),
        ("random", Replacement::Random),
    ];
    for (word, replacement) in policies {
        for ways in [0, 4] {
            let mut single =
                PlainTlb::new(TlbConfig { entries: 32, ways, replacement, ..TlbConfig::new(TlbKind::Single) });
            let common = format!("entries=32,replacement={word},ways={ways}");
            let mut designs = [
                ("single", ""),
                ("superpage", ",sizes=4K"),
                ("complete", ",factor=1"),
                ("complete", ",factor=1,preload=region"),
                ("partial", ",factor=1"),
                ("partial", ",factor=1,preload=region"),
                ("partial", ",factor=1,all_valid=true"),
                ("integrated", ",factor=1,sizes=4K"),
            ]
            .map(|(kind, own)| farreach_oracle::driver::tlb(kind, &format!("{common}{own}")));
            let mut memory = Memory::new(39);
            let mut unfiltered = Unfiltered::default();
            for _ in 0..20_000 {
                let step: Step = memory.step();
                let want = apply(&step, &mut single, &memory.table, &mut unfiltered);
                for (i, d) in designs.iter_mut().enumerate() {
                    assert_eq!(apply(&step, &mut **d, &memory.table, &mut unfiltered), want, "design {i}, {common}");
                }
                unfiltered.clear();
            }
            let plain = |d: &dyn Tlb| -> Vec<_> {
                d.entries().into_iter().map(|e| EntryView { sb_enabled: None, ..e }).collect()
            };
            for (i, d) in designs.iter().enumerate() {
                assert_eq!(d.counts(), single.counts(), "design {i}, {common}");
                assert_eq!(plain(&**d), plain(&single), "design {i}, {common}");
            }
        }
    }
}

// ----------------------------------------------------------------------------------------------- the driver itself

/// The oracle equals itself, so a difference is never caused by the driver.
#[test]
fn the_oracle_equals_itself() {
    for (kind, _) in KINDS {
        for seed in 0..300 {
            stream(kind, seed, &|_| true, &|c| Box::new(PlainTlb::new(c.clone()))).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Every deliberate mistake is found, and not by chance: in some kind by at least `ENOUGH` streams.
#[test]
fn mistakes_are_found() {
    const STREAMS_FOR_MISTAKES: u64 = 200;
    const ENOUGH: usize = 3;
    // Most mistakes show in the first, so the others need not be tried.
    const CRUEL_FIRST: [TlbKind; 6] = [
        TlbKind::Partial,
        TlbKind::Integrated,
        TlbKind::Superpage,
        TlbKind::Complete,
        TlbKind::Single,
        TlbKind::Skewed,
    ];
    let mut unseen = Vec::new();
    for mutation in Mutation::ALL {
        let mut found = BTreeMap::new();
        for (kind, name) in CRUEL_FIRST.map(|kind| (kind, name(kind))) {
            let make = |c: &TlbConfig| Box::new(PlainTlb::mutant(c.clone(), mutation)) as Box<dyn Tlb>;
            let differ = (0..STREAMS_FOR_MISTAKES).filter(|&seed| stream(kind, seed, &|_| true, &make).is_err());
            let n = differ.take(ENOUGH).count();
            found.insert(name, n);
            if n == ENOUGH {
                break;
            }
        }
        println!("{mutation:?}: {found:?}");
        if found.values().all(|&n| n < ENOUGH) {
            unseen.push((mutation, found));
        }
    }
    assert!(unseen.is_empty(), "streams are not cruel enough for {unseen:?}");
}

/// The oracle as a design: `params` are passed on correctly.
#[test]
fn keys_arrive() {
    const fn key(name: &'static str, default: &'static str, allowed: Allowed) -> Key {
        Key { name, default, allowed, about: "" }
    }
    const ANY: Allowed = Allowed::Int { min: 0, max: u64::MAX };
    const KEYS: &[&Key] = &[
        &key("entries", "64", ANY),
        &key("ways", "0", ANY),
        &key("seed", "0", ANY),
        &key("factor", "16", Allowed::PowerOfTwo { min: 1, max: 64 }),
        &key("replacement", "used-bit", Allowed::OneOf(&["used-bit", "lru", "plru", "fifo", "random"])),
        &key("preload", "none", Allowed::OneOf(&["none", "same-entry", "region"])),
        &key("fill_sets_used", "true", Allowed::Flag),
        &key("process_ids", "true", Allowed::Flag),
        &key("assisted_check", "false", Allowed::Flag),
        &key("all_valid", "false", Allowed::Flag),
    ];
    fn build(p: &Params) -> Result<Box<dyn Tlb>, String> {
        let replacement = match p.text("replacement") {
            "used-bit" => Replacement::UsedBit,
            "lru" => Replacement::Lru,
            "plru" => Replacement::TreePlru,
            "fifo" => Replacement::Fifo,
            _ => Replacement::Random,
        };
        let preload = match p.text("preload") {
            "none" => Preload::None,
            "same-entry" => Preload::SameEntry,
            _ => Preload::Region,
        };
        Ok(Box::new(PlainTlb::new(TlbConfig {
            entries: p.int("entries") as usize,
            ways: p.int("ways") as usize,
            factor: p.int("factor"),
            replacement,
            preload,
            fill_sets_used: p.flag("fill_sets_used"),
            process_ids: p.flag("process_ids"),
            assisted_check: p.flag("assisted_check"),
            all_valid: p.flag("all_valid"),
            seed: p.int("seed"),
            ..TlbConfig::new(TlbKind::Partial)
        })))
    }
    let dressed = Design { kind: "partial", about: "", keys: KEYS, build, bits: |_| None, reach: |_| 0 };
    compare_with(TlbKind::Partial, &dressed);
}

/// An oracle with wrong answers about filtered lookups.
struct Liar {
    tlb: PlainTlb,
    /// Lets every lookup be filtered and reports nothing; otherwise filters only misses and always reports everything.
    mute: bool,
}

impl Capabilities for Liar {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(&mut self.tlb)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(&mut self.tlb)
    }
}

impl Tlb for Liar {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if !self.mute {
            unfiltered.add_all();
        }
        let outcome = self.tlb.lookup(at, pte, table);
        Answer { outcome, filterable: self.mute || outcome != Outcome::Hit }
    }
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.tlb.invalidate(asid, pages, unfiltered);
    }
    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.tlb.invalidate_space(asid, unfiltered);
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.tlb.probe(asid, vpn, kind)
    }
    fn entries(&self) -> Vec<EntryView> {
        self.tlb.entries()
    }
    fn counts(&self) -> &TlbCounts {
        self.tlb.counts()
    }
}

#[test]
fn lies_about_quiet_lookups_are_found() {
    for (kind, name) in KINDS {
        for mute in [true, false] {
            let make = |c: &TlbConfig| Box::new(Liar { tlb: PlainTlb::new(c.clone()), mute }) as Box<dyn Tlb>;
            let found = (0..200).filter(|&seed| stream(kind, seed, &|_| true, &make).is_err()).take(3).count();
            assert_eq!(found, 3, "{name}, mute: {mute}");
        }
    }
}
