//! Table 7: how many entries of each design do as well as 64 of a superpage TLB, and what area they take. Adaptive: a coarse grid
//! of entries first, then what lies between.

use super::*;
use crate::study::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, relative_area, sized};
use crate::study::{Origin, Section, Study, Table, printed};

pub(in crate::study) const STUDY: Study = Study {
    id: "t94-table7",
    title: "Entries and area for the misses of a 64-entry superpage TLB",
    rules: "T94-75, AMB-15, AREA-1, CW-3",
    plan,
    section,
};

/// Name, preset, prefix of its columns.
pub(in crate::study) const DESIGNS: [(&str, &str, &str); 3] =
    [("single", SINGLE, "single"), ("partial", PARTIAL, "partial"), ("complete", COMPLETE, "complete")];

/// The coarse grid: where the search begins, and how far it goes.
const BEGIN: [u64; 4] = [32, 64, 128, 256];
const LEAST: u64 = 4;
const MOST: u64 = 4096;
/// `comparable`: within 1 %.
const NEAR: f64 = 1.01;

/// What the search found for one design on one program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::study) enum Sizing {
    /// The number of entries whose misses come closest, and all those within 1 % of the target (or only itself).
    Found {
        /// Closest in ratio of those tried: the ends of the interval and what led to them. Where nothing is within 1 %, the closest of all.
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
    // Entries do not always help (used bits are no stack), but over the steps of the search they are taken to.
    let above = |level: f64| known.iter().rev().find(|(_, m)| *m as f64 > level).map(|k| k.0);
    let below = |level: f64, from: u64| known.iter().find(|(n, m)| *n > from && *m as f64 <= level).map(|k| k.0);
    let (mut next, mut end) = (Vec::new(), [None; 2]);
    let target = target as f64;
    // Just inside the interval, and just past it.
    for (i, level) in [target * NEAR, (target / NEAR).ceil() - 1.0].into_iter().enumerate() {
        let few = above(level);
        let many = below(level, few.unwrap_or(0));
        match (few, many) {
            (Some(few), Some(many)) if many - few > 1 => {
                let wide = many - few;
                next.extend((1..4).map(|k| few + wide * k / 4).filter(|&n| n > few && n < many));
            }
            (Some(_), Some(many)) => end[i] = Some(many),
            (Some(few), None) if few < MOST => next.push(MOST.min(few * 4)),
            (Some(_), None) => end[i] = Some(MOST + 1),
            (None, Some(many)) if many > LEAST => next.push(LEAST.max(many / 4)),
            (None, _) => end[i] = Some(LEAST),
        }
    }
    next.retain(|&n| misses(n).is_none());
    next.sort_unstable();
    next.dedup();
    if !next.is_empty() {
        return Err(next);
    }
    let [Some(from), Some(past)] = end else { return Ok(Sizing::Never) };
    if from > MOST {
        return Ok(Sizing::Never);
    }
    if past == LEAST {
        return Ok(Sizing::Always);
    }
    // With 1 % of a small number of misses the two levels may be the same step: then the closer side of it counts.
    let distance = |&&(_, m): &&(u64, u64)| (((m as f64).max(0.5)).ln() - target.max(0.5).ln()).abs();
    let best = known
        .iter()
        .filter(|k| k.0 + 1 >= from && k.0 <= past)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.0.cmp(&b.0)));
    let Some(&(best, misses)) = best else { return Ok(Sizing::Never) };
    let inside = |n: u64| n >= from && n < past;
    let (lo, hi) = if inside(best) { (from, past - 1) } else { (best, best) };
    Ok(Sizing::Found { best, lo, hi: hi.min(MOST), misses })
}

/// The sizing of a design on a program, or what must be run first.
pub(in crate::study) fn sizing(results: &Results, program: &str, preset: &str) -> Result<Sizing, Vec<Request>> {
    let want = |n: u64| Request::machine(program, sized(preset, n));
    let Some(target) = results.misses(program, SUPERPAGE) else {
        return Err(std::iter::once(Request::machine(program, SUPERPAGE)).chain(BEGIN.map(want)).collect());
    };
    let found = search(target, &|n| results.misses(program, &sized(preset, n)));
    found.map_err(|next| next.into_iter().map(want).collect())
}

fn plan(results: &Results, set: &Set) -> Vec<Request> {
    let each = |p: &crate::study::Program| DESIGNS.map(|d| sizing(results, &p.name, d.1).err().unwrap_or_default());
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
        "Comparable means: a number of entries whose misses are within 1 % of those of the 64-entry superpage TLB, of those tried the closest in \
         ratio; beside it all such numbers (AMB-15). Where none is within 1 %, the closest. Between {LEAST} and {MOST} entries; a plateau gives a wide interval."
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
                Err(next) => next.into_iter().for_each(|n| drop(known.insert(n, curve(n)))),
            }
        }
        panic!("no end");
    }

    #[test]
    fn finds_what_a_look_at_every_size_finds() {
        let curves: [fn(u64) -> u64; 4] =
            [|n| 1_000_000 / n, |n| 4_000_000 / (n * n), |n| if n < 100 { 50_000 } else { 300 }, |n| 9_000_000 >> (n / 16)];
        for curve in curves {
            for target in [3, 40, 299, 3_000, 49_900, 60_000] {
                let (found, rounds) = sized_by(target, curve);
                let near = |n: &u64| {
                    let (m, t) = (curve(*n) as f64, target as f64);
                    m <= t * NEAR && m >= t / NEAR
                };
                let all: Vec<u64> = (LEAST..=MOST).filter(near).collect();
                let distance = |n: u64| ((curve(n) as f64).max(0.5).ln() - (target as f64).ln()).abs();
                let closest = (LEAST..=MOST).min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b))).unwrap();
                match found {
                    Sizing::Found { best, lo, hi, misses } => {
                        assert_eq!(misses, curve(best));
                        // Within the interval any number of entries is comparable; outside of it the closest counts.
                        assert!(near(&best) || best == closest, "target {target}: {best}, {closest}");
                        let want = (all.first().copied().unwrap_or(best), all.last().copied().unwrap_or(best));
                        assert_eq!((lo, hi), want, "target {target}");
                    }
                    Sizing::Never => assert!(curve(MOST) as f64 > target as f64 * NEAR),
                    Sizing::Always => assert!((curve(LEAST) as f64) < target as f64 / NEAR),
                }
                assert!(rounds <= 9, "{rounds}");
            }
        }
    }
}
