//! Table 7: the number of entries with which each design performs like 64 entries of a superpage TLB, and their area.
//! The search is adaptive: first powers of two of entries, then numbers in between.

use super::*;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, relative_area, sized};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table7",
    title: "Entries and area for the misses of a 64-entry superpage TLB",
    rules: "T94-75, AMB-15, AREA-1, CW-3",
    plan,
    section,
};

/// Name, preset, prefix of its columns.
pub(crate) const DESIGNS: [(&str, &str, &str); 3] =
    [("single", SINGLE, "single"), ("partial", PARTIAL, "partial"), ("complete", COMPLETE, "complete")];

/// The first numbers of entries tried: the start and the limits.
const BEGIN: [u64; 4] = [32, 64, 128, 256];
pub(super) const LEAST: u64 = 4;
pub(super) const MOST: u64 = 4096;
/// `comparable`: within 1 %.
const NEAR: f64 = 1.01;

/// Result of the search for one design on one program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Sizing {
    /// The number of entries whose misses come closest, and all those within 1 % of the target (or only itself).
    Found {
        /// Closest in ratio; the smallest of equals.
        best: u64,
        /// Smallest within 1 %.
        lo: u64,
        /// Largest within 1 %.
        hi: u64,
        /// Misses at `best`.
        misses: u64,
    },
    /// Even [`MOST`] entries miss more often.
    Never,
    /// Even [`LEAST`] entries miss less often.
    Always,
}

/// The search so far: the next numbers of entries to try, or the end of it.
fn search(target: u64, misses: &dyn Fn(u64) -> Option<u64>) -> Result<Sizing, Vec<u64>> {
    let known: Vec<(u64, u64)> = (LEAST..=MOST).filter_map(|n| Some((n, misses(n)?))).collect();
    let absent: Vec<u64> = BEGIN.into_iter().filter(|&n| misses(n).is_none()).collect();
    if !absent.is_empty() {
        return Err(absent);
    }
    // More entries do not always help (used bits are no stack algorithm). The search assumes that they do from step to
    // step.
    let above = |level: f64| known.iter().rev().find(|(_, m)| *m as f64 > level).map(|k| k.0);
    let below = |level: f64, from: u64| known.iter().find(|(n, m)| *n > from && *m as f64 <= level).map(|k| k.0);
    // The first number of entries with at most this many misses, one past the last if there is none; or the numbers to
    // try first.
    let edge = |level: f64| {
        let few = above(level);
        match (few, below(level, few.unwrap_or(0))) {
            (Some(few), Some(many)) if many - few > 1 => {
                let wide = many - few;
                Err((1..4).map(|k| few + wide * k / 4).filter(|&n| n > few && n < many).collect())
            }
            (Some(_), Some(many)) => Ok(many),
            (Some(few), None) if few < MOST => Err(vec![MOST.min(few * 4)]),
            (Some(_), None) => Ok(MOST + 1),
            (None, Some(many)) if many > LEAST => Err(vec![LEAST.max(many / 4)]),
            (None, _) => Ok(LEAST),
        }
    };
    let target = target as f64;
    // Just inside the interval, at the target, and just past the interval: looked for at the same time.
    let edges = [target * NEAR, target, (target / NEAR).ceil() - 1.0].map(edge);
    let [Ok(from), Ok(at), Ok(past)] = edges else {
        let mut next: Vec<u64> = edges.into_iter().filter_map(Result::err).flatten().collect();
        next.sort_unstable();
        next.dedup();
        return Err(next);
    };
    if from > MOST && above(target).is_some_and(|n| n == MOST) {
        return Ok(Sizing::Never);
    }
    if past == LEAST {
        return Ok(Sizing::Always);
    }
    let distance = |m: u64| ((m as f64).max(0.5).ln() - target.max(0.5).ln()).abs();
    let count = |n: u64| misses(n).filter(|_| n <= MOST);
    // The step that ends above the target, at its first number of entries, and the one that begins below it.
    let mut best = count(at).map(|m| (at, m));
    if let Some(m) =
        count(at - 1).filter(|&m| at > LEAST && best.is_none_or(|(_, below)| distance(m) <= distance(below)))
    {
        best = Some((edge(m as f64)?, m));
    }
    let Some((best, misses)) = best else { return Ok(Sizing::Never) };
    let (lo, hi) = if (from..past).contains(&best) { (from, past - 1) } else { (best, best) };
    Ok(Sizing::Found { best, lo, hi: hi.min(MOST), misses })
}

/// The sizing of a design on a program, or what must be run first.
pub(crate) fn sizing(results: &Results, program: &str, preset: &str) -> Result<Sizing, Vec<Request>> {
    let want = |n: u64| Request::machine(program, sized(preset, n));
    let Some(target) = results.misses(program, SUPERPAGE) else {
        return Err(std::iter::once(Request::machine(program, SUPERPAGE)).chain(BEGIN.map(want)).collect());
    };
    let found = search(target, &|n| results.misses(program, &sized(preset, n)));
    found.map_err(|next| next.into_iter().map(want).collect())
}

fn plan(results: &Results, set: &Set) -> Vec<Request> {
    let each = |p: &crate::Program| DESIGNS.map(|d| sizing(results, &p.name, d.1).err().unwrap_or_default());
    set.programs.iter().flat_map(each).flatten().collect()
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table7");
    let mut entries = Table::new("Entries", "program");
    let mut areas = Table::new("Area, 64 superpage entries = 1", "program");
    for (name, ..) in DESIGNS {
        entries.column(name, Origin::Measured, "entries");
        entries.column(name, Origin::Measured, "within 1 %");
        entries.column(name, Origin::Printed, "entries");
        areas.column(name, Origin::Measured, "x");
        areas.column(name, Origin::Printed, "x");
    }
    for p in &set.programs {
        let (mut counts, mut ratios) = (Vec::new(), Vec::new());
        for (_, preset, column) in DESIGNS {
            let (lo, hi) = match column {
                "single" => ("single_entries_lo", "single_entries_hi"),
                "partial" => ("partial_entries", "partial_entries"),
                _ => ("complete_entries", "complete_entries"),
            };
            let (lo, hi) = (paper.text(&p.stands_for, lo), paper.text(&p.stands_for, hi));
            let printed = if lo == hi { Cell::from(lo) } else { Cell::Text(format!("{lo}–{hi}")) };
            let (a_lo, a_hi) = match column {
                "single" => ("single_area_lo", "single_area_hi"),
                "partial" => ("partial_area", "partial_area"),
                _ => ("complete_area", "complete_area"),
            };
            let printed_area = match (paper.text(&p.stands_for, a_lo), paper.text(&p.stands_for, a_hi)) {
                (a, b) if a != b => Cell::Text(format!("{a}–{b}")),
                _ => paper.cell(&p.stands_for, a_lo),
            };
            match sizing(results, &p.name, preset) {
                Ok(Sizing::Found { best, lo, hi, .. }) => {
                    let range = if lo == hi { Cell::Text(lo.to_string()) } else { Cell::Text(format!("{lo}–{hi}")) };
                    counts.extend([Cell::Count(best), range, printed]);
                    ratios.extend([relative_area(&sized(preset, best)).into(), printed_area]);
                }
                Ok(Sizing::Never) => {
                    counts.extend([Cell::Text(format!("> {MOST}")), Cell::Nothing, printed]);
                    let least = relative_area(&sized(preset, MOST)).unwrap_or(0.0);
                    ratios.extend([Cell::Text(format!("> {least:.1}")), printed_area]);
                }
                Ok(Sizing::Always) => {
                    counts.extend([Cell::Text(format!("< {LEAST}")), Cell::Nothing, printed]);
                    ratios.extend([Cell::Nothing, printed_area]);
                }
                Err(_) => {
                    counts.extend([Cell::Nothing, Cell::Nothing, printed]);
                    ratios.extend([Cell::Nothing, printed_area]);
                }
            }
        }
        entries.row(head(p), counts);
        areas.row(head(p), ratios);
    }
    section.tables = vec![areas, entries];
    section.note(format!(
        "Comparable means: the number of entries whose misses are closest in ratio to those of the 64-entry superpage \
         TLB; beside it all numbers of entries within 1 % of them (AMB-15). Between {LEAST} and {MOST} entries; a \
         plateau gives a wide interval."
    ));
    section.note(SUBSTITUTES);
    paper.doubts().for_each(|d| section.note(d));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search against a curve, and says how many rounds and points it took.
    fn sized_by(target: u64, curve: impl Fn(u64) -> u64) -> (Sizing, usize) {
        let mut known = std::collections::BTreeMap::new();
        for round in 0..20 {
            match search(target, &|n| known.get(&n).copied()) {
                Ok(found) => return (found, round),
                Err(next) => next.into_iter().for_each(|n| _ = known.insert(n, curve(n))),
            }
        }
        panic!("no end");
    }

    #[test]
    fn t94_75_amb_15_finds_what_a_look_at_every_size_finds() {
        let curves: [fn(u64) -> u64; 4] = [
            |n| 1_000_000 / n,
            |n| 4_000_000 / (n * n),
            |n| if n < 100 { 50_000 } else { 300 },
            |n| 9_000_000 >> (n / 16).min(40),
        ];
        for curve in curves {
            for target in [3, 40, 299, 3_000, 49_900, 60_000] {
                let (found, rounds) = sized_by(target, curve);
                let near = |n: &u64| {
                    let (m, t) = (curve(*n) as f64, target as f64);
                    m <= t * NEAR && m >= t / NEAR
                };
                let all: Vec<u64> = (LEAST..=MOST).filter(near).collect();
                let distance = |n: u64| ((curve(n) as f64).max(0.5).ln() - (target as f64).ln()).abs();
                let closest =
                    (LEAST..=MOST).min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b))).unwrap();
                match found {
                    Sizing::Found { best, lo, hi, misses } => {
                        assert_eq!((best, misses), (closest, curve(best)), "target {target}");
                        let want = (all.first().copied().unwrap_or(best), all.last().copied().unwrap_or(best));
                        assert_eq!((lo, hi), want, "target {target}");
                    }
                    Sizing::Never => assert!(curve(MOST) as f64 > target as f64 * NEAR),
                    Sizing::Always => assert!((curve(LEAST) as f64) < target as f64 / NEAR),
                }
                assert!(rounds <= 14, "{rounds}");
            }
        }
    }
}
