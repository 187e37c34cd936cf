//! Random configurations, for the oracle and for a design.

use super::*;
use farreach_hw::tlb::keys_of;

/// The keys of a design for a [`TlbConfig`]. A design that lacks one fails at the end, after the streams.
pub(super) const COMMON_KEYS: [&str; 6] = ["entries", "ways", "replacement", "seed", "process_ids", "fill_sets_used"];

pub(super) fn expected_keys(kind: TlbKind) -> Vec<&'static str> {
    let own: &[&str] = match kind {
        TlbKind::Single | TlbKind::Skewed => &[],
        TlbKind::Superpage => &["sizes", "lookup", "size_entries"],
        TlbKind::Complete => &["factor", "preload", "assisted_check"],
        TlbKind::Partial => &["factor", "preload", "assisted_check", "all_valid"],
        TlbKind::Integrated => &["factor", "preload", "assisted_check", "sizes", "lookup"],
    };
    COMMON_KEYS.iter().chain(own).copied().collect()
}

/// A configuration of this kind; keys the subject does not have keep their plain value.
pub(super) fn sample(kind: TlbKind, dice: &mut Dice, has: &dyn Fn(&str) -> bool) -> TlbConfig {
    let mut c = TlbConfig::new(kind);
    let fully = [1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 33, 64];
    if has("ways") && (kind == TlbKind::Skewed || dice.percent(50)) {
        c.ways = dice.pick(&[1, 2, 2, 4, 4, 8]);
        c.entries = c.ways * dice.pick(&[1, 2, 2, 4, 8, 16]);
    } else {
        c.entries = dice.pick(&fully);
    }
    if has("factor") {
        c.factor = dice.pick(&[1, 2, 4, 4, 4, 8, 8, 16, 16, 64]);
    }
    if has("sizes") && kind == TlbKind::Integrated {
        let k = c.factor.trailing_zeros() as u8;
        c.orders = dice.pick(&[vec![0, k], vec![0, k, k + 1], vec![0, k, k + 3], vec![0, k, k + 1, k + 2, k + 3]]);
        c.orders.dedup();
    } else if has("sizes") {
        c.orders = dice.pick(&[vec![0, 4], vec![0, 2], vec![0, 1, 2, 3, 4], vec![0, 2, 4, 6], vec![0, 3], vec![0]]);
    }
    if has("lookup") && kind == TlbKind::Superpage {
        c.lookup = dice.pick(&[SizeLookup::Probe, SizeLookup::PerSize]);
    }
    if c.lookup == SizeLookup::PerSize && has("size_entries") && dice.percent(50) {
        let unit = c.ways.max(1);
        c.size_entries = c.orders.iter().map(|_| unit * dice.pick(&[1, 2, 4, 8])).collect();
    }
    let policies = [
        Replacement::UsedBit,
        Replacement::UsedBit,
        Replacement::Lru,
        Replacement::TreePlru,
        Replacement::Fifo,
        Replacement::Random,
    ];
    if has("replacement") {
        c.replacement = dice.pick(&policies);
    }
    let sets = c.arrays().into_iter().map(|(_, entries)| if c.ways == 0 { entries } else { c.ways });
    if c.replacement == Replacement::TreePlru
        && (kind == TlbKind::Skewed || !{ sets }.all(|ways| ways.is_power_of_two()))
    {
        c.replacement = Replacement::Lru;
    }
    c.fill_sets_used = !has("fill_sets_used") || dice.percent(70);
    if has("preload") && !matches!(kind, TlbKind::Single | TlbKind::Superpage | TlbKind::Skewed) {
        c.preload = dice.pick(&[Preload::None, Preload::None, Preload::SameEntry, Preload::Region]);
    }
    c.assisted_check = has("assisted_check") && dice.percent(30);
    c.all_valid = kind != TlbKind::Integrated && has("all_valid") && dice.percent(25);
    if c.all_valid {
        c.preload = Preload::None;
    }
    c.process_ids = !has("process_ids") || dice.percent(75);
    c.seed = if has("seed") { dice.below(1 << 32) } else { 0 };
    c
}

/// The keys of the design.
pub(super) fn params(design: &Design, c: &TlbConfig) -> Result<Params, String> {
    let text = |t: &str| Json::from(t);
    let replacement = match c.replacement {
        Replacement::UsedBit => "used-bit",
        Replacement::Lru => "lru",
        Replacement::TreePlru => "plru",
        Replacement::Fifo => "fifo",
        Replacement::Random => "random",
    };
    let preload = match c.preload {
        Preload::None => "none",
        Preload::SameEntry => "same-entry",
        Preload::Region => "region",
    };
    let lookup = if c.lookup == SizeLookup::Probe { "probe" } else { "per-size" };
    let mut all = vec![
        ("entries", Json::from(c.entries)),
        ("ways", Json::from(c.ways)),
        ("factor", Json::from(c.factor)),
        ("sizes", Json::from(c.orders.iter().map(|o| 4096u64 << o).collect::<Vec<_>>())),
        ("replacement", text(replacement)),
        ("fill_sets_used", Json::from(c.fill_sets_used)),
        ("preload", text(preload)),
        ("assisted_check", Json::from(c.assisted_check)),
        ("all_valid", Json::from(c.all_valid)),
        ("process_ids", Json::from(c.process_ids)),
        ("seed", Json::from(c.seed)),
    ];
    if !c.size_entries.is_empty() {
        all.push(("size_entries", Json::from(c.size_entries.iter().map(usize::to_string).collect::<Vec<_>>())));
    }
    if c.ways > 0 || c.lookup == SizeLookup::PerSize {
        all.push(("lookup", text(lookup)));
    }
    let mut given = Map::new();
    for (key, value) in all {
        if declares(design, key) {
            given.insert(key.to_owned(), value);
        }
    }
    Params::resolve(&keys_of(design, &given), &given)
}

pub(super) fn declares(design: &Design, key: &str) -> bool {
    design.keys.iter().any(|k| k.name == key)
}

pub(super) fn must_have(kind: TlbKind) -> &'static Design {
    design(name(kind)).unwrap_or_else(|| panic!("kind '{}' is not in farreach_hw::tlb::DESIGNS", name(kind)))
}
