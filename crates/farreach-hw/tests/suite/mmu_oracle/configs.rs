//! Configurations that together cover every part, for the model and for a design.

use super::*;

fn level(page: u32, arrays: &[Array]) -> String {
    let size = |o: &u8| farreach_types::addr::Bytes(u64::from(page) << 10 << o).to_string();
    let array = |&(orders, entries, ways): &Array| {
        let ways = if ways == 0 { String::new() } else { format!("/{ways}") };
        format!("{}:{entries}{ways}", orders.iter().map(size).collect::<Vec<_>>().join("|"))
    };
    if arrays.is_empty() { "none".into() } else { arrays.iter().map(array).collect::<Vec<_>>().join("+") }
}

pub(super) fn described(c: &Config) -> (&'static str, String) {
    let name = |policy: Replacement| match policy {
        Replacement::UsedBit => "used-bit",
        Replacement::Lru => "lru",
        Replacement::TreePlru => "plru",
        Replacement::Fifo => "fifo",
        Replacement::Random => "random",
    };
    let (policy, l1_policy) = (name(c.replacement), c.l1_replacement.map_or("same", name));
    let mut keys = format!(
        "page_size={}K,l1d={},l1i={},coalesce={},walk_levels={},pwc_pd={},pwc_pdpt={},pwc_pml4={},pwc_pml5={},\
         replacement={policy},\
         l1_replacement={l1_policy},\
         process_ids={},seed={}",
        c.page,
        level(c.page, c.l1d),
        level(c.page, c.l1i),
        if c.coalesce == 0 { 4096 } else { u64::from(c.page) << 10 << c.coalesce },
        if c.bits == 48 { 4 } else { 5 },
        c.pwc[0],
        c.pwc[1],
        c.pwc[2],
        c.pwc[3],
        c.process_ids,
        c.seed
    );
    if !matches!(c.behind, Behind::Clusters { .. }) {
        let own = c.l2i.map_or("shared".into(), |arrays| level(c.page, arrays));
        keys += &format!(",l2={},l2i={own},l2_fracture={}", level(c.page, c.l2), c.fracture);
    }
    keys += &match c.l2_replacement {
        None => String::new(),
        Some(Policy::Srrip { bits }) => format!(",l2_replacement=srrip,srrip_bits={bits}"),
        Some(Policy::Chirp { counters, dead_at, only_at_set_change }) => {
            let renew = if only_at_set_change { "set-change" } else { "every" };
            format!(",l2_replacement=chirp,chirp_counters={counters},chirp_dead_at={dead_at},chirp_renew={renew}")
        }
        Some(Policy::Itp { from_oldest, hits }) => {
            format!(",l2_replacement=itp,itp_from_oldest={from_oldest},itp_hits={hits}")
        }
    };
    let kind = match c.behind {
        Behind::Clusters { entries, ways, pages, runs } => {
            let frames = if runs { "run" } else { "group" };
            keys += &format!(
                ",cluster_entries={entries},cluster_ways={ways},cluster_pages={pages},cluster_frames={frames}"
            );
            "clustered"
        }
        Behind::Runs { entries, limit, first, fills_l2 } => {
            let order = if first { "first" } else { "parallel" };
            keys += &format!(",run_entries={entries},run_pages={limit},run_order={order},run_fills_l2={fills_l2}");
            "coalesced"
        }
        Behind::Ranges { entries, random, order, mru, on, control, hint, cooperation } => {
            let order = match order {
                RangeOrder::Parallel => "parallel",
                RangeOrder::Serial => "serial",
                RangeOrder::First => "first",
            };
            let policy = if random { "random" } else { "lru" };
            let hint = match hint {
                Hint::Bit => "bit".to_owned(),
                Hint::Always => "always".to_owned(),
                Hint::Predictor(n) => format!("predictor,predictor_entries={n}"),
            };
            keys += &format!(
                ",range_entries={entries},range_replacement={policy},range_order={order},mru_pointer={mru},\
                 range_tlb={on},range_control={},range_hint={hint},l2_cooperation={cooperation}",
                if control { "counters" } else { "fixed" }
            );
            "range"
        }
        Behind::Pages => match c.segment {
            SegmentMode::None => "hierarchy",
            SegmentMode::Registers => "segment",
            SegmentMode::Emulated => {
                keys += ",segment_served_by=pages";
                "segment"
            }
            SegmentMode::Several(k) => {
                keys += &format!(",segments={k}");
                "segment"
            }
        },
    };
    (kind, keys)
}

const SMALL: &[Array] = &[(&[0], 16, 4), (&[9], 8, 4), (&[18], 2, 0)];
const PLAIN: &[Array] = &[(&[0], 4, 0)];
const SHARED: &[Array] = &[(&[0, 2, 4, 9], 12, 0)];
const SETS: &[Array] = &[(&[0, 2, 9], 64, 4), (&[18], 4, 0)];
const FOUR: &[Array] = &[(&[0], 48, 3)];
const SHARED_TREE: &[Array] = &[(&[0, 2, 4, 9], 16, 0)];
const FOUR_TREE: &[Array] = &[(&[0], 64, 4)];

const LARGE: &[Array] = &[(&[0], 16, 4), (&[9], 8, 4), (&[13], 2, 0)];
const LARGE_SETS: &[Array] = &[(&[0, 2, 9], 64, 4), (&[11, 13], 4, 0)];

/// The same with base pages of 16 or 64 KB.
pub(super) fn large_base_page(seed: u64, c: &mut Config) {
    let large = |arrays: &'static [Array]| match arrays.last() {
        Some(([18], 2, _)) => LARGE,
        Some(([18], 4, _)) => LARGE_SETS,
        _ => arrays,
    };
    (c.l1d, c.l1i, c.l2, c.l2i) = (large(c.l1d), large(c.l1i), large(c.l2), c.l2i.map(large));
    c.page = [16, 64][(seed % 2) as usize];
    // At most 32 KB.
    c.coalesce = if c.page == 16 { c.coalesce.min(1) } else { 0 };
}

pub(super) fn config(seed: u64) -> Config {
    let pick = |list: &[&'static [Array]], n: u64| list[(seed / n) as usize % list.len()];
    // A tree needs sets of a power of two.
    let tree = [None, Some(Replacement::TreePlru)][usize::from(seed % 8 == 5)];
    let l1_tree = tree.or([None, Some(Replacement::TreePlru)][usize::from(seed % 16 == 2)]);
    let shared = if l1_tree.is_some() { SHARED_TREE } else { SHARED };
    let four = if tree.is_some() { FOUR_TREE } else { FOUR };
    Config {
        l1d: pick(&[SMALL, shared, PLAIN], 1),
        l1i: pick(&[SMALL, PLAIN, shared, SMALL], 1),
        l2: pick(&[four, SETS, &[], four, SETS], 1),
        l2i: [None, None, Some(four), Some(&[] as &[Array])][seed as usize % 7 % 4],
        fracture: seed % 3 == 1,
        coalesce: [0, 2, 0, 3][(seed / 2) as usize % 4],
        page: 4,
        bits: [48, 57][(seed / 3 % 2) as usize],
        pwc: [[0; 4], [8, 4, 2, (4 - u64::from(tree.is_none())) * (seed / 3 % 2)].map(|n| n as usize), [2, 0, 1, 0]]
            [(seed / 2) as usize % 3],
        replacement: tree
            .unwrap_or([Replacement::Lru, Replacement::Lru, Replacement::Fifo, Replacement::Random][seed as usize % 4]),
        l1_replacement: l1_tree.or([
            None,
            Some(Replacement::UsedBit),
            None,
            Some(Replacement::Fifo),
            Some(Replacement::Lru),
        ][(seed / 4) as usize % 5]),
        process_ids: seed % 5 != 4,
        l2_replacement: None,
        behind: Behind::Pages,
        segment: SegmentMode::None,
        seed,
    }
}
