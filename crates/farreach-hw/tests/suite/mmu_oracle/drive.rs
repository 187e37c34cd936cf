//! One stream through a design, its twin and the model, compared step by step.

use super::*;

/// The program counter of a lookup (HW-6): one of a few, so that the same comes with many pages.
pub(super) fn pc(at: Lookup) -> u64 {
    match at.kind {
        Kind::Fetch => at.vpn.0 << 12,
        _ => 0x40_0000 + 4 * (at.vpn.0 / 3 % 5),
    }
}

pub(super) fn apply(
    step: &Step,
    design: &mut dyn Tlb,
    table: &Table,
    unfiltered: &mut Unfiltered,
) -> Option<(Outcome, bool)> {
    match *step {
        Step::Access(at, pte) => {
            design.latest_fetch(pc(at));
            let answer = design.access(at, pte, table, unfiltered);
            return Some((answer.outcome, answer.filterable));
        }
        Step::Invalidate(asid, pages) => design.invalidate(asid, pages, unfiltered),
        Step::Demote(asid, pages) => design.demote(asid, pages, unfiltered),
        Step::Gone(asid) => design.invalidate_space(asid, unfiltered),
        Step::Switch(to) => design.switch(to, unfiltered),
        Step::Segment(asid) => design.segment_changed(asid, unfiltered),
    }
    None
}

fn tell_oracle(step: &Step, oracle: &mut PlainMmu, table: &Table) -> Option<Outcome> {
    match *step {
        Step::Access(at, pte) => {
            oracle.pc = pc(at);
            return Some(oracle.lookup(at, pte, table));
        }
        Step::Invalidate(asid, pages) => oracle.invalidate(asid, pages),
        Step::Demote(asid, pages) => oracle.demote(asid, pages),
        Step::Gone(asid) => oracle.drop_space(asid),
        Step::Switch(to) => oracle.switch(to),
        Step::Segment(_) => {}
    }
    None
}

/// One stream through the design, its twin that sees no filtered lookups, and the model.
pub(super) fn stream(config: Config, steps: usize) -> (farreach_types::counts::TlbCounts, usize) {
    let (kind, keys) = described(&config);
    let name = format!("{kind}:{keys}");
    let mut oracle = PlainMmu::new(config.clone());
    let (mut ours, mut twin) = (tlb(kind, &keys), tlb(kind, &keys));
    let mut world = World::new(config.seed);
    let (mut ignored, mut unfiltered) = (Unfiltered::default(), Unfiltered::default());
    let mut filtered: BTreeSet<(Asid, Vpn, Kind)> = BTreeSet::new();
    let mut skipped = 0;
    for n in 0..steps {
        let step = world.step();
        let table = &world.table;
        let answer = apply(&step, &mut *ours, table, &mut ignored);
        ignored.clear();
        let expected = tell_oracle(&step, &mut oracle, table);
        assert_eq!(answer.map(|a| a.0), expected, "{name}: step {n}, {step:?}");
        unfiltered.clear();
        match step {
            Step::Access(at, _) if filtered.contains(&(at.asid, at.vpn, at.kind)) => skipped += 1,
            _ => {
                let answer = apply(&step, &mut *twin, table, &mut unfiltered);
                filtered.retain(|&(asid, vpn, _)| !unfiltered.contains(asid, vpn));
                if let (Step::Access(at, _), Some((_, true))) = (&step, answer) {
                    filtered.insert((at.asid, at.vpn, at.kind));
                    if at.kind == Kind::Store {
                        filtered.insert((at.asid, at.vpn, Kind::Load));
                    }
                }
            }
        }
        if let Step::Access(at, pte) = step {
            let found = ours.probe(at.asid, at.vpn, at.kind).expect("it was just looked up");
            assert_eq!((found.pfn, found.attr), (pte.pfn, pte.attr), "XC-3: {name}: step {n}, {step:?}");
        }
        if n % 16 == 0 || n + 1 == steps {
            assert_eq!(ours.entries(), oracle.views(), "{name}: after step {n}, {step:?}");
            assert_eq!(ours.counts(), oracle.counts(), "{name}: after step {n}, {step:?}");
            assert_eq!((twin.entries(), twin.counts()), (ours.entries(), ours.counts()), "{name}: twin, step {n}");
        }
    }
    (ours.counts().clone(), skipped)
}
