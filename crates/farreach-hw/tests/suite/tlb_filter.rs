//! Does leaving out filtered lookups change nothing?

use farreach_hw::tlb::{Outcome, Unfiltered, design};
use farreach_oracle::driver::configurations::{CONFIGURATIONS, EXTRAS};
use farreach_oracle::driver::tlb;
use farreach_oracle::driver::world::{Step, World, apply};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use std::collections::BTreeSet;

/// The contract of [`Unfiltered`]: leaving out filtered lookups changes nothing.
#[test]
fn quiet_lookups_can_be_left_out() {
    for (i, &(kind, keys)) in CONFIGURATIONS.iter().enumerate() {
        // Not every design has every key.
        let has = |extra: &&str| {
            let name = extra.trim_start_matches(',').split('=').next().unwrap_or("");
            name.is_empty() || design(kind).expect(kind).keys.iter().any(|key| key.name == name)
        };
        for extra in EXTRAS.into_iter().filter(has) {
            let keys = format!("{keys}{extra}");
            let (mut all, mut some) = (tlb(kind, &keys), tlb(kind, &keys));
            let mut world = World::new(1000 + i as u64);
            let (mut ignored, mut unfiltered) = (Unfiltered::default(), Unfiltered::default());
            let mut filtered: BTreeSet<(Asid, Vpn, Kind)> = BTreeSet::new();
            let mut skipped = 0;
            for n in 0..20_000 {
                let step = world.step();
                let outcome = apply(&step, &mut *all, &world.table, &mut ignored);
                ignored.clear();
                unfiltered.clear();
                if let Step::Access(at, pte) = step {
                    if filtered.contains(&(at.asid, at.vpn, at.kind)) {
                        skipped += 1;
                        assert_eq!(outcome, Some(Outcome::Hit), "{kind}:{keys} step {n}");
                        assert_eq!(all.counts(), some.counts(), "{kind}:{keys} step {n}");
                        if n % 4 == 0 {
                            assert_eq!(all.entries(), some.entries(), "{kind}:{keys} after step {n}");
                        }
                        continue;
                    }
                    let answer = some.access(at, pte, &world.table, &mut unfiltered);
                    filtered.retain(|&(asid, vpn, _)| !unfiltered.contains(asid, vpn));
                    if answer.filterable {
                        filtered.insert((at.asid, at.vpn, at.kind));
                        if at.kind == Kind::Store {
                            filtered.insert((at.asid, at.vpn, Kind::Load));
                        }
                    }
                    assert_eq!(Some(answer.outcome), outcome, "{kind}:{keys} step {n}");
                } else {
                    apply(&step, &mut *some, &world.table, &mut unfiltered);
                    filtered.retain(|&(asid, vpn, _)| !unfiltered.contains(asid, vpn));
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
