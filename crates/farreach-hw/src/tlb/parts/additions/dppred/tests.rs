//! By hand.

use super::super::tests::{Keys, Machine, World};
use super::fold;
use farreach_types::addr::Asid;
use farreach_types::event::Kind;

const SMALL: [(&str, &str); 4] = [("l1d", "4K:1"), ("l1i", "4K:1"), ("l2", "4K:2"), ("behind", "dppred")];

/// Loads of pages by instructions.
fn after(keys: Keys, loads: &[(u64, u64)]) -> Machine {
    let world = World::with(0..100, 0);
    let mut machine = Machine::new(&[&SMALL, keys].concat());
    loads.iter().for_each(|&(pc, page)| _ = machine.look_up(&world, 0, page, Kind::Load, pc));
    machine.check_laws();
    machine
}

/// Fills, bypasses, hits of the shadow, entries evicted unused and used.
fn counts(machine: &Machine) -> [u64; 5] {
    ["fills", "bypasses", "shadow_hits", "evicted_unused", "evicted_used"].map(|name| machine.count(name))
}

/// DPP-2, DPP-3: an instruction with one counter, whose pages are never used again until they are.
#[test]
fn pages_of_one_instruction() {
    let pages = |pages: &[u64]| {
        let loads: Vec<_> = pages.iter().map(|page| (5, *page)).collect();
        counts(&after(&[("dpp_page_bits", "0")], &loads))
    };
    let mut loads: Vec<u64> = (0..9).collect();
    assert_eq!(pages(&loads), [9, 0, 0, 7, 0], "the counter is 7 behind page 8");
    loads.extend([9, 10, 11]);
    assert_eq!(pages(&loads), [9, 3, 0, 7, 0], "the shadow has 10 and 11");
    loads.extend([10]);
    assert_eq!(pages(&loads), [10, 3, 1, 8, 0], "the row is cleared, 10 takes the place of 7");
    loads.extend([9]);
    assert_eq!(pages(&loads), [11, 3, 1, 9, 0], "9 had left the shadow");
    loads.extend([10, 20, 21]);
    assert_eq!(pages(&loads), [13, 3, 1, 10, 1], "10 was hit; 20 takes the place of 9, and 21 that of 10");
    loads.extend(22..30);
    assert_eq!(pages(&loads), [20, 4, 1, 17, 1], "the counter was 0 behind 21: 7 behind 28, so 29 is kept out");
}

/// DPP-1: 6 bits of the instruction, 4 of the page; DPP-3: a row is all pages of an instruction.
#[test]
fn counters_by_instruction_and_page() {
    assert_eq!([fold(1 << 6 | 4, 6), fold(68, 4), fold(1, 4), fold(9, 0)], [5, 0, 1, 0]);
    let mut loads = Vec::new();
    let mut then = |more: &[(u64, u64)]| {
        loads.extend(more);
        counts(&after(&[("dpp_threshold", "1")], &loads))
    };
    let zero = [(5, 0), (5, 17), (5, 34), (68, 51), (5, 68)];
    assert_eq!(then(&zero), [4, 1, 0, 2, 0], "all of one counter: 0 and 17 left unused, so 68 is kept out");
    assert_eq!(then(&[(5, 1)]), [5, 1, 0, 3, 0], "a page of another counter");
    assert_eq!(then(&[(6, 85)]), [6, 1, 0, 4, 0], "another instruction");
    assert_eq!(then(&[(7, 68)]), [7, 1, 1, 5, 0], "in the shadow: the row of 5 is cleared");
    assert_eq!(then(&[(5, 0)]), [8, 1, 1, 6, 0]);
}

/// HW-9, DPP-2: what is predicted of one process is nothing to another, if `flush`.
#[test]
fn switches() {
    for (switch, bypasses) in [("flush", 0), ("keep", 1)] {
        let loads: Vec<_> = (0..9).map(|page| (5, page)).collect();
        let mut machine = after(&[("dpp_page_bits", "0"), ("predictors_on_switch", switch)], &loads);
        for process in [1, 0] {
            machine.with(|tlb, unfiltered| tlb.switch(Asid(process), unfiltered));
        }
        machine.look_up(&World::with(0..100, 0), 0, 9, Kind::Load, 5);
        assert_eq!(machine.count("bypasses"), bypasses, "{switch}");
    }
}
