//! Page tables (section 3): the machine's table hears of mappings as the operating system reports them, the model of
//! each page that comes and goes. Their references, steps, memory and counters are compared.
//!
//! * The regions of `dmt` are told to the model: runs of mapped pages, joined as the machine says it does (DM-5). Their
//!   memory is not compared: the machine has whole frames, and the model does not (OW-32).
//! * Pages of 1 GB are left out with `clustered` and `htab`, which have thousands of entries for them.

use super::*;
use farreach_oracle::tables::Hash;
use farreach_oracle::tables::clustered::{Clustered, ClusteredConfig};
use farreach_oracle::tables::cuckoo::{Cuckoo, CuckooConfig};
use farreach_oracle::tables::dmt::Dmt;
use farreach_oracle::tables::flat::{Flat, FlatConfig};
use farreach_oracle::tables::hashed::{Hashed, HashedConfig};
use farreach_oracle::tables::htab::{Htab, HtabConfig};
use farreach_oracle::tables::radix::Shape;
use tabled::{Model, Regions, Tabled};

type Keys = Vec<(&'static str, String)>;

fn made(mut setting: Setting, name: &str, keys: Keys, model: Model) -> (Setting, Box<dyn Plain>) {
    setting.keys = keys;
    setting.keys.push(("table", name.to_owned()));
    let counts_faults = ["hashed", "clustered", "cuckoo", "me-hpt"].contains(&name);
    (setting, Box::new(Tabled { model, counts_faults, held: BTreeMap::new() }))
}

pub(super) fn hashed(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let setting = Setting::new(dice, "table", Vec::new());
    let (buckets, load, seed) = (dice.pick(&[1, 4, 16, 64]), dice.pick(&[0.3, 0.6, 0.9]), dice.below(9));
    let (all_sizes, hash) = (dice.percent(40), dice.pick(&[Hash::Mix, Hash::Mix, Hash::Identity]));
    let (order, sizes) = dice.pick(&[(vec![0, 9, 18], "4K+2M+1G"), (vec![18, 0, 9], "1G+4K+2M")]);
    let keys = vec![
        ("ht_buckets", buckets.to_string()),
        ("ht_load", load.to_string()),
        ("ht_sizes", if all_sizes { "all" } else { "used" }.into()),
        ("ht_order", sizes.into()),
        ("ht_hash", if hash == Hash::Mix { "mix" } else { "identity" }.into()),
        ("seed", seed.to_string()),
    ];
    let config = HashedConfig { buckets, load, order, all_sizes, hash, seed };
    made(setting, "hashed", keys, Model::Any(Box::new(Hashed::new(config))))
}

pub(super) fn htab(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let mut setting = Setting::new(dice, "table", Vec::new());
    setting.giants = false;
    let config = HtabConfig { groups: dice.pick(&[1, 2, 8, 64]), pte: dice.pick(&[8, 16]) };
    let keys = vec![("htab_groups", config.groups.to_string()), ("htab_pte", config.pte.to_string())];
    made(setting, "htab", keys, Model::Any(Box::new(Htab::new(config))))
}

pub(super) fn clustered(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let mut setting = Setting::new(dice, "table", Vec::new());
    setting.giants = false;
    let (pages, buckets) = dice.pick(&[(4, 64), (16, 1), (16, 4), (64, 1), (64, 64)]);
    let (inline, seed) = (dice.percent(40), dice.below(9));
    let keys = vec![
        ("cl_pages", pages.to_string()),
        ("cl_buckets", buckets.to_string()),
        ("cl_inline", inline.to_string()),
        ("seed", seed.to_string()),
    ];
    let config = ClusteredConfig { pages, buckets, inline, hash: Hash::Mix, seed };
    made(setting, "clustered", keys, Model::Any(Box::new(Clustered::new(config))))
}

pub(super) fn cuckoo(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let setting = Setting::new(dice, "table", Vec::new());
    let config = CuckooConfig {
        ways: 2 + dice.below(3),
        entries: dice.pick(&[1, 2, 4, 16]),
        retries: dice.pick(&[1, 4, 32]),
        threshold: dice.pick(&[0.4, 0.6, 0.8]),
        scale: dice.pick(&[2, 4]),
        moves: dice.pick(&[1, 2, 10]),
        hash: Hash::Mix,
        seed: dice.below(9),
        cached_rows: dice.pick(&[[16, 2], [1, 1], [2, 0], [0, 2], [0, 0]]),
        process_ids: setting.process_ids,
    };
    let keys = vec![
        ("ec_ways", config.ways.to_string()),
        ("ec_entries", config.entries.to_string()),
        ("ec_retries", config.retries.to_string()),
        ("ec_threshold", config.threshold.to_string()),
        ("ec_scale", config.scale.to_string()),
        ("ec_moves", config.moves.to_string()),
        ("cwc_pmd", config.cached_rows[0].to_string()),
        ("cwc_pud", config.cached_rows[1].to_string()),
        ("seed", config.seed.to_string()),
    ];
    made(setting, "cuckoo", keys, Model::Any(Box::new(Cuckoo::new(config))))
}

pub(super) fn flat(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let setting = Setting::new(dice, "table", Vec::new());
    let (flatten, split) = (dice.pick(&["none", "l4l3+l2l1", "l2l1", "l3l2", "l4l3"]), dice.percent(50));
    let (fraction, seed) = (dice.pick(&[1.0, 1.0, 0.5]), dice.below(9));
    let keys = vec![
        ("flatten", flatten.to_owned()),
        ("flatten_fraction", fraction.to_string()),
        ("flatten_huge", if split { "split" } else { "copies" }.into()),
        ("seed", seed.to_string()),
    ];
    let shape = Shape { levels: 4, merged: Shape::pairs(flatten), fraction, split, seed };
    let [pd, pdpt, pml4] = setting.walk_caches;
    let config = FlatConfig { shape, caches: [pd, pdpt, pml4, 0], process_ids: setting.process_ids };
    made(setting, "flat", keys, Model::Any(Box::new(Flat::new(config))))
}

pub(super) fn dmt(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let mut setting = Setting::new(dice, "table", Vec::new());
    setting.walk_caches = [0; 3];
    let registers = dice.pick(&[0, 1, 2, 3, 16]);
    let model = Model::Dmt(Box::new(Dmt::new(registers, 4)), Regions::default());
    made(setting, "dmt", vec![("dmt_registers", registers.to_string())], model)
}

fn moved(sums: &drive::Sums, names: &[&str]) {
    for name in names {
        assert!(sums.counts[*name] > 100, "{name}: {sums:?}");
    }
}

#[test]
fn hashed_tables_agree_with_the_plain_model() {
    moved(&all(hashed), &["resizes", "moves", "collisions", "table_writes"]);
}

#[test]
fn htab_agrees_with_the_plain_model() {
    moved(&all(htab), &["spills", "reloads", "found_primary", "found_secondary"]);
}

#[test]
fn clustered_tables_agree_with_the_plain_model() {
    moved(&all(clustered), &["collisions", "table_writes"]);
}

#[test]
fn cuckoo_tables_agree_with_the_plain_model() {
    moved(&all(cuckoo), &["resizes", "moves", "collisions", "complete", "by_pud", "size", "direct", "cwt_references"]);
}

#[test]
fn flattened_tables_agree_with_the_plain_model() {
    moved(&all(flat), &["moves", "table_writes"]);
}

#[test]
fn dmt_agrees_with_the_plain_model() {
    moved(&all(dmt), &["covered", "conventional"]);
}
