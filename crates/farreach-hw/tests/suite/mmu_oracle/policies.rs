//! Policies of the second level alone (VIC-5, CHI-1 to CHI-5, ITP-1), each on 1000 streams.

use super::*;
use farreach_types::counts::TlbCounts;

const STREAMS: u64 = 1000;
const STEPS: usize = 500;

const FIRST: &[Array] = &[(&[0], 2, 0)];
/// Small second levels, so that their entries are replaced.
const SETS: &[Array] = &[(&[0, 2, 9], 16, 4), (&[18], 2, 0)];
const FULL: &[Array] = &[(&[0], 12, 0)];
const WIDE: &[Array] = &[(&[0, 9], 24, 12)];

fn all(policy: impl Fn(u64) -> Policy) -> TlbCounts {
    let mut sum = TlbCounts::default();
    let mut skipped = 0;
    for seed in farreach_oracle::dice::seeds(STREAMS) {
        let mut config = config(seed);
        let pick = |n: u64| [SETS, FULL, WIDE][(seed / n) as usize % 3];
        (config.l1d, config.l1i) = (FIRST, FIRST);
        (config.l2, config.l2i) = (pick(1), [None, Some(pick(3))][usize::from(seed % 5 == 3)]);
        config.l2_replacement = Some(policy(seed));
        let (counts, filtered) = stream(config, STEPS);
        sum += &counts;
        skipped += filtered;
    }
    for n in [sum.second_level_data_hits, sum.second_level_fetch_hits, sum.evictions, sum.invalidations] {
        assert!(n > 1000, "{sum:?}");
    }
    assert!(skipped > 1000, "{skipped} lookups were filtered");
    sum
}

#[test]
fn vic_5_srrip_agrees_with_the_plain_model() {
    all(|seed| Policy::Srrip { bits: [2, 1, 3][(seed / 7) as usize % 3] });
}

#[test]
fn chi_1_to_5_chirp_agrees_with_the_plain_model() {
    let sum = all(|seed| Policy::Chirp {
        counters: [4096, 1, 16, 256][(seed / 2) as usize % 4],
        dead_at: [2, 1, 3, 4][(seed / 5) as usize % 4],
        only_at_set_change: seed / 3 % 2 == 1,
    });
    assert!(sum.replacement.get("dead_victims") > 1000, "{sum:?}");
    assert!(sum.replacement.get("unused_victims") > sum.replacement.get("dead_victims"), "{sum:?}");
}

#[test]
fn itp_1_agrees_with_the_plain_model() {
    all(|seed| Policy::Itp {
        from_oldest: [4, 1, 2, 30][(seed / 2) as usize % 4],
        hits: [1, 2, 3][(seed / 5) as usize % 3],
    });
}
