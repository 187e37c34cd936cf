//! Claims about page tables in both dimensions of a virtual machine.

use super::hw_prefetch::finding;
use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, untestable, worst};
use crate::number_text::percent;
use crate::results::{Results, Set, mean};
use crate::since::guests::{
    CUCKOO, CUCKOO_CACHES, CUCKOO_HUGE, DMT, DMT_CACHES, DMT_PAGED, FLAT, FLAT_CACHES, HASHED_CACHES, POM, Paid, TREES,
    TREES_CACHES, TREES_HUGE, nested,
};
use crate::since::tables::walk_cycles;
use crate::since::{NESTED, few, geomean, share, walks_enough};
use farreach_types::papers::Kind::Main;
use farreach_types::papers::{Finding, Program, Verdict};

/// Programs that walk often enough on this machine to say something.
fn walked<'a>(results: &'a Results, set: &'a Set, machine: &'static str) -> impl Iterator<Item = &'a Program> + Clone {
    few(set).filter(move |p| walks_enough(results, &p.name, machine) == Some(true))
}

/// Two machines on the programs that walk on the first: how many times as much the first needs, by geometric mean.
fn times(
    results: &Results,
    set: &Set,
    [base, design]: [&'static str; 2],
    of: impl Fn(&Results, &str, &str) -> Option<u64>,
) -> Option<f64> {
    let pairs = walked(results, set, base).map(|p| Some((of(results, &p.name, base)?, of(results, &p.name, design)?)));
    geomean(pairs.collect::<Option<Vec<_>>>()?.into_iter()).map(|percent| percent / 100.0)
}

/// Instructions at a cycle each, and translation.
fn time(results: &Results, program: &str, machine: &str) -> Option<u64> {
    Paid::of(results, program, machine).map(|paid| paid.time())
}

/// That something is as many times as short, or as long.
fn as_short(times: f64) -> String {
    if times >= 1.0 { format!("{times:.3} times as short") } else { format!("{:.3} times as long", 1.0 / times) }
}

/// How often one needs what the other needs, at least so often as claimed. `what`: for the text.
fn faster(times: Option<f64>, claimed: f64, what: &str) -> Finding {
    match times {
        Some(times) => finding(reached(times >= claimed, times > 1.0), format!("{what} {}", as_short(times))),
        None => untestable(format!("{what}: no program walks often enough.")),
    }
}

/// These findings as one. Parts that no program can say anything about leave the verdict to the others.
pub(super) fn together(findings: &[Finding]) -> Finding {
    let why = findings.iter().map(|f| f.why.trim_end_matches('.')).collect::<Vec<_>>().join("; ");
    let tested = findings.iter().map(|f| f.verdict).filter(|verdict| *verdict != Verdict::NotTestable);
    let verdict = tested.reduce(|all, verdict| worst([all, verdict])).unwrap_or(Verdict::NotTestable);
    Finding { verdict, why: why + "." }
}

/// H-HW-12 in virtual machines: cycles of walks through caches, in percent of radix trees with walk caches.
pub(super) fn hashed(results: &Results, set: &Set) -> Finding {
    tally(few(set), |p| {
        let of = |machine| walk_cycles(results, &p.name, machine);
        let left = share(of(HASHED_CACHES)?, of(TREES_CACHES)?);
        let enough = walks_enough(results, &p.name, TREES_CACHES)?;
        let outcome = if enough { (left < 100.0).into() } else { Outcome::Silent };
        Some((outcome, format!("{} of the cycles", percent(left))))
    })
    .all()
}

/// H-HW-26 in virtual machines.
pub(super) fn pom(results: &Results, set: &Set) -> Finding {
    faster(times(results, set, [NESTED, POM], time), 1.10, "in virtual machines time by the model is")
}

/// H-HW-22 in virtual machines.
pub(super) fn flat(results: &Results, set: &Set) -> Finding {
    let of = |machine| mean(walked(results, set, TREES).map(|p| Some(nested(results, &p.name, machine)?[0])));
    let (Some(flat), Some(trees)) = (of(FLAT), of(TREES)) else { return untestable("it was not run.") };
    let cycles = times(results, set, [TREES_CACHES, FLAT_CACHES], walk_cycles)
        .map_or(String::new(), |n| format!("; walks through caches are {}", as_short(n)));
    let as_few = flat <= 1.05 * 2.8 && flat / trees <= 1.05 * 2.8 / 4.4;
    finding(reached(as_few, flat < trees), format!("means: flattened {flat:.2}, radix {trees:.2}{cycles}"))
}

/// H-HW-23 in virtual machines.
pub(super) fn dmt(results: &Results, set: &Set) -> Finding {
    let references = tally(walked(results, set, TREES), |p| {
        let [[each, _], [paged, _], [trees, _]] =
            [nested(results, &p.name, DMT)?, nested(results, &p.name, DMT_PAGED)?, nested(results, &p.name, TREES)?];
        let text = format!("{each:.2} a walk, {paged:.2} with arrays in pages of the host, radix {trees:.2}");
        Some((reached(each <= 2.05, each < trees), text))
    });
    let machines = [TREES_CACHES, DMT_CACHES];
    together(&[
        references.all(),
        faster(times(results, set, machines, walk_cycles), 1.58, "walks through caches are by geometric mean"),
        faster(times(results, set, machines, time), 1.20, "time by the model is"),
    ])
}

pub(super) const CLAIMS: &[Hypothesis] = &[Hypothesis {
    id: "H-HW-25",
    kind: Main,
    claim: "Nested elastic cuckoo tables walk in 3 steps, and programs are 1.19 times as fast as with nested radix \
                trees, 1.24 times with superpages; tested as time by the model, with walks through caches",
    studies: &["since-guests"],
    judge: |results, set| {
        let steps = tally(walked(results, set, TREES), |p| {
            let ([references, steps], [of_trees, _]) =
                (nested(results, &p.name, CUCKOO)?, nested(results, &p.name, TREES)?);
            let text = format!("{steps:.2} steps of {references:.1} references a walk, radix {of_trees:.1}");
            Some((steps == 3.0, text))
        });
        together(&[
            steps.all(),
            faster(times(results, set, [TREES_CACHES, CUCKOO_CACHES], time), 1.19, "time with pages of 4 KB is"),
            faster(times(results, set, [TREES_HUGE, CUCKOO_HUGE], time), 1.24, "with superpages"),
        ])
    },
}];
