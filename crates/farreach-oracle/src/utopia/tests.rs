//! Hand cases of restricted placement, and random changes against a map.

use super::*;
use crate::dice::{Dice, seeds};

fn config(sets: u64, ways: u64, full: Full) -> UtopiaConfig {
    let segs = [Seg { sets, ways }, Seg { sets: 2, ways: 2 }];
    UtopiaConfig { segs, cache: (2048, 4), full, walks_at: 0, hash: Hash::Identity, seed: 0, frames: 1 << 30 }
}

#[test]
fn uto_3_uto_5_by_hand() {
    let mut model = Utopia::new(config(4, 2, Full::Flex));
    let places = [0, 4, 8].map(|page| model.place(1, page, 0).0);
    assert_eq!(places, [Place::Rest(0), Place::Rest(1), Place::Flex]);
    // Warms SF of both sizes, and TAR of the one that has pages.
    assert_eq!(model.walk(1, 0).0, Rsw { hit: true, references: 3, steps: 2 });
    let warm = [0, 4, 8].map(|page| model.walk(1, page).0);
    let says = |hit| Rsw { hit, references: 0, steps: 0 };
    assert_eq!(warm, [says(true), says(true), says(false)]);
    assert_eq!([model.counts["rsw_hits"], model.counts["walks"]], [3, 1]);
}

#[test]
fn uto_5_uto_6_migrations() {
    let mut model = Utopia::new(config(4, 2, Full::Evict));
    let _ = [0, 4].map(|page| model.place(1, page, 0));
    model.walk(1, 0);
    assert_eq!(model.place(1, 8, 0), (Place::Rest(1), Some((1, 4, 0))));
    let mut model = Utopia::new(UtopiaConfig { walks_at: 2, ..config(4, 1, Full::Flex) });
    let _ = [0, 4].map(|page| model.place(1, page, 0));
    assert_eq!(model.walk(1, 4).1, None);
    model.free(1, 0, 0);
    assert_eq!(model.walk(1, 4).1, Some((1, 4, 0)));
    assert!(model.walk(1, 4).0.hit);
}

#[test]
fn uto_1_uto_2_uto_4_uto_7_against_a_map() {
    for seed in seeds(100) {
        let (mut dice, mut map) = (Dice::new(seed), BTreeMap::new());
        let full = if seed.is_multiple_of(2) { Full::Flex } else { Full::Evict };
        let hash = if seed.is_multiple_of(3) { Hash::Mix } else { Hash::Identity };
        let walks_at = dice.below(3);
        let mut model = Utopia::new(UtopiaConfig { seed, walks_at, hash, cache: (8, 2), ..config(8, 2, full) });
        for _ in 0..500 {
            let (asid, order) = (dice.below(2) as u32, dice.pick(&[0, 0, 9]));
            // Base pages below, superpages above.
            let vpn = if order == 0 { dice.below(60) } else { 512 * (1 + dice.below(8)) };
            match map.remove(&(asid, vpn)) {
                Some(order) if dice.percent(40) => model.free(asid, vpn, order),
                Some(order) => {
                    model.walk(asid, vpn + dice.below(1 << order));
                    map.insert((asid, vpn), order);
                }
                None => {
                    model.place(asid, vpn, order);
                    map.insert((asid, vpn), order);
                }
            }
            let mapped = map.values().map(|order| 1u64 << order).sum::<u64>();
            let [rest, flex, free] = model.frames();
            assert_eq!([rest + flex, free], [mapped, (1 << 30) - mapped]);
            let held: usize = (0..8).map(|set| model.used_ways(0, set)).sum();
            assert!(held <= 16);
        }
    }
}
