//! The two-level TLB (PS-12) against two plain ones, on random streams with all kinds of changes, and by hand.

use crate::common::{Stream, run};
use farreach_oracle::driver::tlb;
use farreach_oracle::driver::world::{Step, World, apply};
use farreach_oracle::tlb::{Replacement, TlbConfig, TlbKind};
use farreach_oracle::two_level::PlainTwoLevel;

#[test]
fn ps_12_agrees_with_two_plain_levels() {
    let policies = [
        (Replacement::Lru, "lru"),
        (Replacement::Fifo, "fifo"),
        (Replacement::Random, "random"),
        (Replacement::UsedBit, "used-bit"),
    ];
    let mut total = [0; 3];
    for seed in farreach_oracle::dice::seeds(48) {
        let (first, second) = [(8usize, 32usize), (1, 2), (4, 40), (16, 3), (32, 128)][seed as usize % 5];
        let halves = first.is_power_of_two() && second.is_power_of_two() && seed % 2 == 0;
        let (replacement, name) =
            if halves { (Replacement::TreePlru, "plru") } else { policies[seed as usize / 2 % 4] };
        let (inclusive, process_ids, fill_sets_used) = (seed % 3 != 0, seed % 7 != 0, seed % 11 != 0);
        let keys = format!(
            "l1_entries={first},l2_entries={second},inclusive={inclusive},replacement={name},process_ids={process_ids},\
             fill_sets_used={fill_sets_used},seed={seed}"
        );
        let config = TlbConfig { replacement, process_ids, fill_sets_used, seed, ..TlbConfig::new(TlbKind::Single) };
        let mut oracle = PlainTwoLevel::new(config, first, second, inclusive);
        let mut ours = tlb("two-level", &keys);
        let mut world = World::new(seed);
        for n in 0..6000 {
            let step = world.step();
            if let Step::Access(at, _) = step {
                // Without process ids, only the process that was switched to is looked up.
                ours.switch(at.asid, &mut Default::default());
                oracle.each_level(|tlb| tlb.switch_to(at.asid));
            }
            let outcome = apply(&step, &mut *ours, &world.table, &mut Default::default());
            let expected = match step {
                Step::Access(at, pte) => Some(oracle.lookup(at, pte, &world.table)),
                Step::Invalidate(asid, pages) => {
                    oracle.each_level(|tlb| tlb.invalidate_pages(asid, pages));
                    None
                }
                Step::Demote(asid, pages) => {
                    oracle.demote(asid, pages);
                    None
                }
                Step::InvalidateSpace(asid) => {
                    oracle.drop_space(asid);
                    None
                }
                Step::Switch(asid) => {
                    oracle.each_level(|tlb| tlb.switch_to(asid));
                    None
                }
            };
            assert_eq!(outcome, expected, "{keys}: step {n}, {step:?}");
            if n % 16 == 0 {
                assert_eq!(
                    (ours.entries(), ours.counts()),
                    (oracle.views(), &oracle.counts()),
                    "{keys}: step {n}, {step:?}"
                );
            }
        }
        let c = ours.counts();
        total = [total[0] + c.second_level_fetch_hits, total[1] + c.second_level_data_hits, total[2] + c.evictions];
    }
    assert!(total.iter().all(|n| *n > 1000), "{total:?}");
}

/// L1 of 2, L2 of 4 entries, pages 1 to 5 by loads.
fn by_hand(pages: &[u64], inclusive: bool) -> [u64; 3] {
    let mut s = Stream::new();
    s.loads(pages.iter().copied());
    let machine = format!("ps/itanium:page_size=4K,l1_entries=2,l2_entries=4,inclusive={inclusive}");
    let out = run(&[&machine], &s);
    let (c, cost) = (&out.machine(0).counts.tlb, &out.machine(0).cost);
    assert_eq!(cost.cycles, 40 * c.misses + 4 * c.second_level_data_hits, "PS-12: 4 cycles for data");
    [c.misses, c.second_level_data_hits, c.evictions]
}

#[test]
fn ps_12_by_hand() {
    assert_eq!(by_hand(&[1, 2, 1, 2], true), [2, 0, 0], "both fit L1");
    assert_eq!(by_hand(&[1, 2, 3, 1, 2, 3], true), [3, 3, 0], "three go round in an L1 of two; L2 has them");
    // L1 answers 1 again and again, so in L2 it ages: 5 evicts it there, and from an inclusive L1.
    let loop_on_one = [1, 2, 1, 3, 1, 4, 1, 5, 1];
    assert_eq!(by_hand(&loop_on_one, true), [6, 0, 2]);
    assert_eq!(by_hand(&loop_on_one, false), [5, 0, 1]);
}

#[test]
fn ps_12_fetches_take_two_cycles() {
    let mut s = Stream::new();
    for page in [1, 2, 3, 1, 2, 3] {
        s.fetch(page);
    }
    let out = run(&["ps/itanium:page_size=4K,l1_entries=2"], &s);
    let c = &out.machine(0).counts.tlb;
    assert_eq!((c.fetch_misses, c.second_level_fetch_hits, c.second_level_data_hits), (3, 3, 0));
    assert_eq!(out.machine(0).cost.cycles, 3 * 40 + 3 * 2);
    assert_eq!(out.machine(0).cost.reach_bytes, (2 * 128) << 12, "PS-11, on both sides");
}

/// Where the second level is not inclusive, the first is a TLB of its own: its misses are the lookups of the second.
#[test]
fn ps_12_a_first_level_by_itself_is_a_tlb() {
    let mut s = Stream::new();
    s.loads((0..400).map(|i| (i * i + i / 3) % 97));
    let out = run(&["ps/itanium:page_size=4K,l1_entries=64,l2_entries=80,inclusive=false", "ps/4k"], &s);
    let c = &out.machine(0).counts.tlb;
    assert!(c.second_level_data_hits > 0);
    assert_eq!(c.misses + c.second_level_data_hits, out.misses()[1]);
}
