//! What the plain model of Carrefour-LP leaves out, by what must hold in any case.

use super::super::programs::{Act, LARGE, Programs, SMALL, Shape};
use super::both::os;
use farreach_oracle::dice::{Dice, seeds};
use farreach_os::Os;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Op;
use farreach_types::translation::PageTableView;
use std::collections::{BTreeMap, BTreeSet};

/// A page's node, as walks tell it.
fn is_local(os: &mut Os, asid: Asid, page: u64) -> bool {
    let before = os.counts().policy.get("walk_samples_local");
    os.walked(asid, Vpn(page));
    os.counts().policy.get("walk_samples_local") > before
}

/// ON-92: compaction leaves pages on their nodes. The daemon never has enough samples, and nothing is collapsed.
#[test]
fn clp_compaction_leaves_pages_on_their_nodes() {
    const SHAPE: Shape = Shape { pages: 320, alone: true, shared: 0, advises: 0, populates: false, ..SMALL };
    let keys = "placement=carrefour,ticks_per_ms=1,memory=512K,thp_size=64K,khugepaged=0,compaction=direct,\
                carrefour_least_samples=1099511627776,carrefour_nodes=2";
    let (mut moved, mut checked) = (0, 0);
    for seed in seeds(6) {
        let (mut os, mut dice) = (os(keys), Dice::new(seed));
        let mut programs = Programs::new(seed, SHAPE);
        // By process and page, the frame and the node: that of the thread that touched it first.
        let mut nodes: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
        // Threads by process; the first one to run in all is on node 0.
        let (mut cores, mut ran, mut runs) = (BTreeMap::new(), 0, BTreeMap::new());
        for _ in 0..1500 {
            let (asid, acts) = programs.acts(|asid, page| nodes.contains_key(&(asid.0, page)) || page % 3 > 0);
            for act in acts {
                let thread = dice.below(3) as u32;
                let of = *runs.entry(asid.0).or_insert(thread);
                cores.entry((asid.0, of)).or_insert_with(|| (ran % 2, ran += 1).0);
                if dice.percent(20) && programs.live.contains(&asid) {
                    os.apply(asid, &Op::Switch { thread: of });
                    os.apply(asid, &Op::Switch { thread });
                    cores.entry((asid.0, thread)).or_insert_with(|| (ran % 2, ran += 1).0);
                    runs.insert(asid.0, thread);
                }
                let remaps = matches!(act, Act::Op(Op::Remap { .. }));
                match act {
                    Act::Op(op) => os.apply(asid, &op),
                    Act::Touch(page, kind) => _ = os.touch(asid, Vpn(page), kind),
                }
                let node = cores[&(asid.0, runs[&asid.0])];
                let frames: BTreeMap<u64, u64> = nodes.values().copied().collect();
                for page in 0..SHAPE.pages {
                    let key = (asid.0, page);
                    let Some(frame) = os.pte(asid, Vpn(page)).map(|pte| pte.pfn.0) else {
                        nodes.remove(&key);
                        continue;
                    };
                    let before = nodes.get(&key).copied();
                    let has_moved = before.is_some_and(|(was, _)| was != frame) && !remaps;
                    moved += u64::from(has_moved);
                    let home = match before {
                        // What mremap moved has its frame.
                        _ if remaps => frames.get(&frame).copied().unwrap_or(node),
                        Some((_, home)) => home,
                        None => node,
                    };
                    nodes.insert(key, (frame, home));
                    if (has_moved || dice.percent(2)) && programs.live.contains(&asid) {
                        assert_eq!(is_local(&mut os, asid, page), home == node, "seed {seed}, {asid:?}, page {page}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(moved > 60 && checked > 2000, "{moved} pages moved, {checked} were checked");
}

/// OP-4: pages of files that are private move and are copied, with what else the daemon does.
#[test]
fn clp_with_private_files_keeps_its_tables_whole() {
    let keys = "placement=carrefour,ticks_per_ms=1,memory=4M,thp_size=64K,khugepaged=3,max_ptes_none=12,\
                carrefour_period_ms=40,carrefour_least_samples=5,carrefour_moved=0,carrefour_hot=30";
    let shape = Shape { code: 9, ..LARGE };
    let mut moved = 0;
    for seed in seeds(6) {
        let (mut os, mut dice, mut programs) = (os(keys), Dice::new(seed), Programs::new(seed, shape));
        let (mut mapped, mut now) = (BTreeSet::new(), 0);
        for _ in 0..600 {
            now += dice.pick(&[1, 5, 30]);
            os.advance(now);
            os.check();
            let (asid, acts) = programs.acts(|asid, page| mapped.contains(&(asid.0, page)));
            for act in acts {
                if dice.percent(20) && programs.live.contains(&asid) {
                    os.apply(asid, &Op::Switch { thread: dice.below(3) as u32 });
                }
                match act {
                    Act::Op(op) => {
                        if let Op::Map(of) = &op {
                            mapped.extend((of.start >> 12..(of.start + of.len) >> 12).map(|page| (asid.0, page)));
                        }
                        os.apply(asid, &op);
                    }
                    Act::Touch(page, kind) => {
                        if os.touch(asid, Vpn(page), kind).is_ok() {
                            os.walked(asid, Vpn(page));
                        }
                    }
                }
            }
            os.check();
        }
        moved += os.counts().policy.get("carrefour_migrated_pages");
    }
    assert!(moved > 100, "{moved} pages moved");
}
