//! By hand, and the laws on random streams.

use super::*;
use crate::dice::{Dice, seeds};

const SMALL: RevelatorConfig =
    RevelatorConfig { frames: 16, node_frames: 16, candidates: 3, fetched: Fetched::Fixed(3), levels: 4, seed: 0 };

/// SplitMix64 of 0 begins ...af, ...f4, ...4f: of 16 frames, candidates 15, 4, 15.
#[test]
fn rev_1_rev_2_rev_3_by_hand() {
    let mut m = Revelator::new(SMALL);
    assert_eq!(m.candidates(0, 0, 16), [15, 4, 15]);
    assert_eq!(m.map(0, 0), Some(Placed { frame: 15, tier: 0 }));
    let right = Missed { fetched: 3, correct: Some(0), node_correct: true, references: 5, steps: 3 };
    assert_eq!(m.missed(0, 0, 0), right);
    m.unmap(0, 0);
    m.occupy(15, true);
    assert_eq!(m.map(0, 0), Some(Placed { frame: 4, tier: 1 }));
    assert_eq!(m.missed(0, 0, 0), Missed { correct: Some(1), ..right });
    m.unmap(0, 0);
    m.occupy(4, true);
    m.occupy(0, true);
    assert_eq!(m.map(0, 0), Some(Placed { frame: 1, tier: 3 }), "the lowest free one");
    assert_eq!(m.missed(0, 0, 0), Missed { correct: None, ..right });
    m.occupy(15, false);
    m.moved(0, 0, 15);
    assert_eq!(m.missed(0, 0, 0), right);
    assert_eq!((m.tiers.clone(), m.correct.clone()), (vec![1, 1, 0, 1], vec![2, 1, 0]));
    assert_eq!(m.missed(0, 512, 9), Missed { fetched: 0, correct: None, node_correct: false, references: 3, steps: 3 });
    let counts = ["misses", "wrong", "none", "references", "steps", "data_references"].map(|name| m.counts[name]);
    assert_eq!(counts, [5, 1, 1, 4 * 5 + 3, 4 * 3 + 3, 12]);
    // The node of another process' first 2 MB is where page 0 of it would be.
    let first = m.candidates(7, 0, 16)[0];
    m.nodes_used[first as usize] = true;
    m.map(7, 0);
    assert_eq!([m.missed(7, 0, 0).node_correct, m.missed(7, 0, 0).steps == 4], [false, true]);
}

#[test]
fn rev_2_the_number_of_candidates_follows_the_tiers() {
    let mut m = Revelator::new(RevelatorConfig { fetched: Fetched::Share(90), ..SMALL });
    let cases = [([0, 0, 0, 0], 1), ([9, 1, 0, 0], 1), ([8, 1, 1, 0], 2), ([8, 0, 1, 1], 3), ([0, 0, 0, 5], 3)];
    for (tiers, k) in cases {
        m.tiers = tiers.to_vec();
        assert_eq!(m.fetched(), k, "{tiers:?}");
    }
}

/// A page lies in the first candidate that was free; frames are those of pages; every miss is one of all counts.
#[test]
fn rev_1_to_rev_3_laws_on_random_streams() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        let fetched = if dice.percent(50) { Fetched::Fixed(dice.below(4) as usize) } else { Fetched::Share(80) };
        let config = RevelatorConfig { frames: 64, node_frames: 32, fetched, seed, ..SMALL };
        let mut m = Revelator::new(config);
        let (mut base, mut placements) = (0, 0);
        for _ in 0..500 {
            let (asid, vpn) = (dice.below(2) as u32, dice.below(8) << 9 | dice.below(10));
            let (mapped, change) = (m.pages.contains_key(&(asid, vpn)), dice.below(20));
            match change {
                0 if mapped => m.unmap(asid, vpn),
                1 if mapped && m.used.contains(&false) => {
                    let free: Vec<u64> = (0..64).filter(|&frame| !m.used[frame as usize]).collect();
                    m.moved(asid, vpn, dice.pick(&free));
                }
                2 if dice.percent(10) => m.gone(asid),
                3 => assert_eq!(m.missed(asid, vpn, 9).fetched, 0),
                _ if mapped => {
                    let out = m.missed(asid, vpn, 0);
                    let placed = m.pages[&(asid, vpn)];
                    assert_eq!(out.correct, Some(placed.tier).filter(|&tier| tier < out.fetched));
                    base += 1;
                }
                _ => {
                    let used = m.used.clone();
                    let candidates = m.candidates(asid, vpn, 64);
                    match m.map(asid, vpn) {
                        None => assert!(!used.contains(&false)),
                        Some(placed) => {
                            placements += 1;
                            assert!(!used[placed.frame as usize]);
                            assert!(candidates[..placed.tier].iter().all(|&frame| used[frame as usize]));
                            assert!(placed.tier == 3 || candidates[placed.tier] == placed.frame);
                        }
                    }
                }
            }
            assert_eq!(m.used.iter().filter(|used| **used).count(), m.pages.len());
            assert_eq!(m.nodes_used.iter().filter(|used| **used).count(), m.nodes.len());
            assert_eq!(m.nodes.values().map(|node| node.1).sum::<u64>(), m.pages.len() as u64);
        }
        let c = |name: &str| m.counts[name];
        assert_eq!(c("misses"), m.correct.iter().sum::<u64>() + c("wrong") + c("none"));
        assert_eq!([base, base], [c("misses") - c("none"), c("node_correct") + c("node_wrong")]);
        assert_eq!(c("references"), 4 * base + base + 3 * c("none"));
        assert_eq!(c("steps"), 4 * base - c("node_correct") + 3 * c("none"));
        assert_eq!(m.tiers.iter().sum::<u64>(), placements);
    }
}

/// In memory that is nearly empty almost all guesses are right.
#[test]
fn rev_1_with_free_memory_the_first_candidate_is_right() {
    let mut m = Revelator::new(RevelatorConfig { fetched: Fetched::Share(90), ..RevelatorConfig::default() });
    for vpn in 0..1000 {
        m.map(1, vpn).unwrap();
    }
    for vpn in 0..1000 {
        m.missed(1, vpn, 0);
    }
    // On average 1000 * 1000 / 2 / 65536, about 8, find the first candidate taken.
    assert!(m.tiers[0] > 980 && m.correct[0] == m.tiers[0], "{:?}", m.tiers);
}
