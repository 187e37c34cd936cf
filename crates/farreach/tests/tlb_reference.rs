//! Do the designs count, and hold, what the rules written plainly count and hold, on random streams over a memory that changes?
//! (CA-15, CA-39, T94-9 to T94-24; XC-3 and T94-17 are asserted inside the designs.)

mod tlb_common;

use farreach::addr::{Asid, Vpn};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::hw::tlb::{EntryView, Noise, PageTableView, Tlb};
use tlb_common::configurations::{CONFIGURATIONS, EXTRAS};
use tlb_common::reference::Reference;
use tlb_common::world::{Step, World, apply};
use tlb_common::{Table, params, tlb};

#[test]
fn designs_do_what_the_rules_say() {
    // A counter that never moves was not tested.
    let mut moved = TlbCounts::default();
    for (i, &(kind, keys)) in CONFIGURATIONS.iter().enumerate() {
        for extra in EXTRAS {
            let keys = format!("{keys}{extra}");
            let mut design = tlb(kind, &keys);
            let mut plain = Reference::new(kind, &params(kind, &keys));
            let mut world = World::new(i as u64);
            let mut noise = Noise::default();
            for n in 0..20_000 {
                let step = world.step();
                let got = apply(&step, &mut *design, &world.table, &mut noise);
                noise.clear();
                let want = match step {
                    Step::Access(at, pte) => Some(plain.access(at, pte, &world.table)),
                    Step::Invalidate(asid, pages) => {
                        plain.invalidate(asid, pages);
                        None
                    }
                    Step::InvalidateSpace(asid) => {
                        plain.invalidate_space(asid);
                        None
                    }
                    Step::Switch(to) => {
                        plain.switch(to);
                        None
                    }
                };
                assert_eq!(got, want, "{kind}:{keys} step {n}");
                if n % 16 == 0 || n < 500 {
                    assert_eq!(design.entries(), plain.entries(), "{kind}:{keys} after step {n}");
                }
                if n % 512 == 0 {
                    agrees_with_table(&*design, &world.table, &format!("{kind}:{keys} after step {n}"));
                }
            }
            assert_eq!(*design.counts(), plain.counts, "{kind}:{keys}");
            assert!(design.counts().misses > 100, "{kind}:{keys} missed {} times only", design.counts().misses);
            add(&mut moved, design.counts());
        }
    }
    let TlbCounts { fills, merges, evictions, preloaded, extra_pte_reads, invalidations, covered_drops, .. } = moved;
    let TlbCounts { split_unaligned, split_frames, split_attributes, subblock_misses, superpage_misses, .. } = moved;
    let all = [
        fills,
        merges,
        evictions,
        preloaded,
        extra_pte_reads,
        invalidations,
        covered_drops,
        split_unaligned,
        split_frames,
        split_attributes,
        subblock_misses,
        superpage_misses,
    ];
    assert!(all.iter().all(|&n| n > 1000), "{moved:?}");
}

fn add(sum: &mut TlbCounts, c: &TlbCounts) {
    sum.fills += c.fills;
    sum.merges += c.merges;
    sum.evictions += c.evictions;
    sum.preloaded += c.preloaded;
    sum.extra_pte_reads += c.extra_pte_reads;
    sum.invalidations += c.invalidations;
    sum.covered_drops += c.covered_drops;
    sum.split_unaligned += c.split_unaligned;
    sum.split_frames += c.split_frames;
    sum.split_attributes += c.split_attributes;
    sum.subblock_misses += c.subblock_misses;
    sum.superpage_misses += c.superpage_misses;
}

/// XC-3, and by the assertions in `probe` also T94-17.
fn agrees_with_table(design: &dyn Tlb, table: &Table, context: &str) {
    for asid in (0..3).map(Asid) {
        for vpn in (0..1024).map(Vpn) {
            if let Some(t) = design.probe(asid, vpn, Kind::Load) {
                let pte = table.pte(asid, vpn).unwrap_or_else(|| panic!("{context}: {asid:?} {vpn:?} is not mapped"));
                assert_eq!((t.pfn, t.attr), (pte.pfn, pte.attr), "{context}: {asid:?} {vpn:?}");
            }
        }
    }
}

/// CA-39: without subblocks and superpages all designs are the single-page-size design.
#[test]
fn ca39_factor_1_is_single() {
    for policy in ["used-bit", "lru", "fifo", "random"] {
        for ways in [0, 4] {
            let common = format!("entries=32,replacement={policy},ways={ways}");
            let mut designs = [
                tlb("single", &common),
                tlb("superpage", &format!("{common},sizes=4K")),
                tlb("complete", &format!("{common},factor=1")),
                tlb("partial", &format!("{common},factor=1")),
                tlb("partial", &format!("{common},factor=1,all_valid=true")),
                tlb("integrated", &format!("{common},factor=1,sizes=4K")),
            ];
            let mut world = World::new(39);
            let mut noise = Noise::default();
            for _ in 0..20_000 {
                let step = world.step();
                let outcomes: Vec<_> = designs.iter_mut().map(|d| apply(&step, &mut **d, &world.table, &mut noise)).collect();
                assert!(outcomes.iter().all(|o| *o == outcomes[0]), "{outcomes:?}");
                noise.clear();
            }
            let plain =
                |d: &dyn Tlb| -> Vec<_> { d.entries().into_iter().map(|e| EntryView { sb_enabled: None, ..e }).collect() };
            for d in &designs[1..] {
                assert_eq!(d.counts(), designs[0].counts(), "{common}");
                assert_eq!(plain(&**d), plain(&*designs[0]), "{common}");
            }
        }
    }
}
