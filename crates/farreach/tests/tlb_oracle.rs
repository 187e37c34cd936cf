//! Do the designs count, and hold, what the rules written plainly count and hold, on random streams over a memory that changes?
//! (CA-15, CA-39, T94-9 to T94-24; XC-3 and T94-17 are asserted inside the designs.)

mod tlb_common;

use farreach::addr::Asid;
use farreach::hw::tlb::{Noise, PageTableView, Tlb};
use tlb_common::reference::Reference;
use tlb_common::world::{Step, World};
use tlb_common::{Table, params, tlb};

/// Designs and keys that all random tests go through.
pub const CONFIGURATIONS: &[(&str, &str)] = &[
    ("single", "entries=32"),
    ("single", "entries=1"),
    ("single", "entries=130"),
    ("single", "entries=64,ways=4,replacement=random"),
    ("single", "entries=48,ways=3"),
    ("single", "entries=64,ways=4,replacement=lru"),
    ("single", "entries=37,replacement=fifo"),
    ("superpage", "entries=16"),
    ("superpage", "entries=16,sizes=4K"),
    ("superpage", "entries=12,sizes=4K+16K+64K+1M"),
    ("superpage", "entries=12,sizes=4K+16K+1M,replacement=lru"),
    ("superpage", "entries=32,ways=4,lookup=probe,sizes=4K+64K+1M,replacement=random,seed=7"),
    ("superpage", "entries=32,ways=4,lookup=probe"),
    ("superpage", "entries=16,ways=4,lookup=per-size,sizes=4K+64K+1M,size_entries=16+8+4"),
    ("superpage", "entries=8,lookup=per-size,replacement=random"),
    ("complete", "entries=8"),
    ("complete", "entries=8,factor=4,replacement=lru"),
    ("complete", "entries=16,factor=8,ways=4,replacement=random"),
    ("complete", "entries=8,preload=region"),
    ("complete", "entries=8,factor=64"),
    ("complete", "entries=8,preload=same-entry,assisted_check=true,replacement=fifo"),
    ("partial", "entries=16"),
    ("partial", "entries=16,factor=4,replacement=lru"),
    ("partial", "entries=32,factor=8,ways=4,replacement=random"),
    ("partial", "entries=16,preload=same-entry"),
    ("partial", "entries=16,preload=region"),
    ("partial", "entries=4,preload=region"),
    ("partial", "entries=16,ways=2,preload=region,replacement=random"),
    ("partial", "entries=16,preload=region,replacement=lru"),
    ("partial", "entries=16,preload=region,replacement=fifo,assisted_check=true"),
    ("partial", "entries=16,factor=64"),
    ("partial", "entries=16,factor=1,preload=region"),
    ("partial", "entries=16,all_valid=true"),
    ("partial", "entries=16,factor=4,all_valid=true,replacement=lru"),
    ("integrated", "entries=16"),
    ("integrated", "entries=16,factor=4,sizes=4K+16K+64K+1M"),
    ("integrated", "entries=16,preload=region,replacement=lru"),
    ("integrated", "entries=16,preload=same-entry,replacement=random"),
    ("integrated", "entries=32,ways=4,lookup=probe,replacement=fifo"),
    ("integrated", "entries=16,factor=1,sizes=4K+64K"),
];

/// What is switched on beside a configuration.
const EXTRAS: [&str; 3] = ["", ",fill_sets_used=false", ",process_ids=false"];

fn apply(step: &Step, design: &mut dyn Tlb, table: &Table, noise: &mut Noise) -> Option<farreach::hw::tlb::Outcome> {
    match *step {
        Step::Access(at, pte) => return Some(design.access(at, pte, table, noise).outcome),
        Step::Invalidate(asid, pages) => design.invalidate(asid, pages, noise),
        Step::InvalidateSpace(asid) => design.invalidate_space(asid, noise),
        Step::Switch(to) => design.switch(to, noise),
    }
    None
}

#[test]
fn designs_do_what_the_rules_say() {
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
        }
    }
}

/// XC-3, and by the assertions in `probe` also T94-17.
fn agrees_with_table(design: &dyn Tlb, table: &Table, context: &str) {
    for asid in (0..3).map(Asid) {
        for vpn in (0..1024).map(farreach::addr::Vpn) {
            if let Some(t) = design.probe(asid, vpn, farreach::event::Kind::Load) {
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
            let mut designs = vec![
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
            let plain = |d: &dyn Tlb| -> Vec<_> {
                d.entries().into_iter().map(|e| farreach::hw::tlb::EntryView { sb_enabled: None, ..e }).collect()
            };
            for d in &designs[1..] {
                assert_eq!(d.counts(), designs[0].counts(), "{common}");
                assert_eq!(plain(&**d), plain(&*designs[0]), "{common}");
            }
        }
    }
}

/// The contract of [`Noise`]: leaving out lookups that were called quiet, and not named since, changes nothing.
#[test]
fn quiet_lookups_can_be_left_out() {
    use farreach::event::Kind;
    use std::collections::BTreeSet;
    for (i, &(kind, keys)) in CONFIGURATIONS.iter().enumerate() {
        for extra in EXTRAS {
            let keys = format!("{keys}{extra}");
            let (mut all, mut some) = (tlb(kind, &keys), tlb(kind, &keys));
            let mut world = World::new(1000 + i as u64);
            let (mut ignored, mut noise) = (Noise::default(), Noise::default());
            let mut quiet: BTreeSet<(Asid, farreach::addr::Vpn, bool)> = BTreeSet::new();
            let mut skipped = 0;
            for n in 0..20_000 {
                let step = world.step();
                let outcome = apply(&step, &mut *all, &world.table, &mut ignored);
                ignored.clear();
                noise.clear();
                if let Step::Access(at, pte) = step {
                    let store = at.kind == Kind::Store;
                    if quiet.contains(&(at.asid, at.vpn, store)) {
                        skipped += 1;
                        assert_eq!(outcome, Some(farreach::hw::tlb::Outcome::Hit), "{kind}:{keys} step {n}");
                        assert_eq!(all.counts(), some.counts(), "{kind}:{keys} step {n}");
                        if n % 4 == 0 {
                            assert_eq!(all.entries(), some.entries(), "{kind}:{keys} after step {n}");
                        }
                        continue;
                    }
                    let answer = some.access(at, pte, &world.table, &mut noise);
                    quiet.retain(|&(asid, vpn, _)| !noise.names(asid, vpn));
                    if answer.quiet {
                        quiet.insert((at.asid, at.vpn, store));
                        quiet.insert((at.asid, at.vpn, false));
                    }
                    assert_eq!(Some(answer.outcome), outcome, "{kind}:{keys} step {n}");
                } else {
                    apply(&step, &mut *some, &world.table, &mut noise);
                    quiet.retain(|&(asid, vpn, _)| !noise.names(asid, vpn));
                }
                if n % 16 == 0 {
                    assert_eq!(all.entries(), some.entries(), "{kind}:{keys} after step {n}");
                }
            }
            assert_eq!(all.counts(), some.counts(), "{kind}:{keys}");
            assert!(skipped > 20 || keys.contains("entries=1,"), "{kind}:{keys}: {skipped} lookups were skipped");
        }
    }
}
