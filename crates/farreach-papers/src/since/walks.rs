//! TLBs in memory and in caches, and walks that are hidden.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-walks",
    title: "Large TLBs behind the second level, predicted frames, walks read ahead",
    rules: "HW-3, HW-7",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(of_kinds(&[Kind::Large, Kind::Speculate]))));
        wanted.extend(grid(walking(results, set), &["since/dp"]));
        wanted.extend(grid(few(set), &[BASE_CACHES, ASAP_CACHES]));
        wanted
    },
    section,
};

/// ASAP, through caches.
pub(crate) const ASAP_CACHES: &str = "since/asap:walk_cost=caches";

/// Walks whose frame was predicted, and predicted wrongly, in percent.
pub(crate) fn predicted(results: &Results, program: &str, machine: &str, part: &str) -> Option<(f64, f64)> {
    let walks = results.misses(program, machine).filter(|&n| n > 0)?;
    let count = |name| counted(results, program, machine, part, name);
    Some((share(count("correct")?, walks), share(count("wrong")?, walks)))
}

/// Pages that found their set of the restrictive segment full.
pub(crate) fn full_sets(results: &Results, program: &str) -> Option<u64> {
    Some(results.machine(program, "since/utopia")?.counts.os.restseg_full)
}

/// Walks beyond first touches in percent of those of the base.
pub(crate) fn warm(results: &Results, program: &str, machine: &str, base: &str) -> Option<f64> {
    let (w, b) = (Walks::of(results, program, machine)?, Walks::of(results, program, base)?);
    (b.warm() > 0).then(|| share(w.warm(), b.warm()))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("What is answered, and what is hidden", "program");
    for (name, unit) in [
        ("pom", "% of misses answered"),
        ("pom, walks after the first to each page", "% of the base"),
        ("victima", "% of misses answered"),
        ("victima, misses of the program in its L2 cache", "% of the base"),
        ("utopia", "% of misses answered"),
        ("utopia, references waited for", "a miss"),
        ("utopia, pages and superpages whose set was full", "pages"),
        ("spectlb, correct", "% of walks"),
        ("spectlb, wrong", "% of walks"),
        ("spot, correct", "% of walks"),
        ("spot, wrong", "% of walks"),
        ("asap, references hidden", "%"),
    ] {
        table.column(name, Origin::Measured, unit);
    }
    for p in walking(results, set) {
        let covered = |machine| Walks::of(results, &p.name, machine).map(|w| w.coverage());
        let l2 = |machine| l2_misses(results, &p.name, machine);
        let spec = predicted(results, &p.name, "since/spectlb", "spectlb");
        let spot = predicted(results, &p.name, "since/spot", "spot");
        let asap = Walks::of(results, &p.name, "since/asap").map(|w| share(w.hidden, w.demand));
        let cells = [
            covered("since/pom"),
            warm(results, &p.name, "since/pom", BASE),
            covered("since/victima"),
            l2("since/victima").zip(l2(BASE_VICTIMA)).filter(|&(_, b)| b > 0).map(|(v, b)| share(v, b)),
            covered("since/utopia"),
            Walks::of(results, &p.name, "since/utopia").and_then(|w| w.each_miss()),
            full_sets(results, &p.name).map(|n| n as f64),
            spec.map(|s| s.0),
            spec.map(|s| s.1),
            spot.map(|s| s.0),
            spot.map(|s| s.1),
            asap,
        ];
        table.row(&p.name, cells.map(Cell::from).into());
    }
    section.tables.push(table);
    section.note(
        "Additions are not defined in virtual machines (HW-12), where most of these papers measure them: all here is \
         native. TLBs have the same misses in both, but a walk there takes up to 24 references.",
    );
    section.note(MODEL);
}

/// Misses of the program itself in the second-level cache.
pub(crate) fn l2_misses(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let caches = results.machine(program, machine)?.caches.as_ref()?;
    Some(caches.fetch.l2_misses + caches.data.l2_misses)
}
