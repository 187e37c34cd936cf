//! The answer in one sentence.

use super::parts::Page;
use crate::format::{count, counted, rate};
use crate::view::{per_second, per_thousand, percent_error};
use farreach_types::counts::MachineResult;

/// A design that saves at least this share of the misses that the best one saves counts as almost as good.
const ALMOST: f64 = 0.9;
/// It is worth naming if it takes at most this share of the area.
const MUCH_SMALLER: f64 = 0.75;
/// A difference of estimates is certain from this number of standard errors on.
const CERTAIN: f64 = 2.0;

/// Which design wins, by how much, and at what area.
pub(super) fn headline(page: &Page) -> String {
    let machines = &page.result.machines;
    let Some(base) = machines.get(page.base) else {
        return "No design was asked for.".into();
    };
    let workload = &page.result.workload;
    if workload.lookups.total() == 0 && workload.traps.is_none() {
        return "Nothing was referenced: there is nothing to compare.".into();
    }
    let misses = |m: &MachineResult| m.counts.tlb.misses;
    let area = |m: &MachineResult| m.cost.area_rbe;
    if machines.len() == 1 {
        let per = per_thousand(base).map_or_else(String::new, |p| format!(", {} in a thousand lookups", rate(p)));
        let time =
            base.cost.percent_of_time.map_or_else(String::new, |p| format!(" and {}\u{a0}% of the run time", rate(p)));
        let n = misses(base);
        if let (Some(estimate), Some(second)) = (&base.estimate, per_second(base, workload)) {
            let (all, second) = (count(estimate.misses.round() as u64), count(second.round() as u64));
            let error = percent_error(base).map_or_else(String::new, |error| format!(" ± {}\u{a0}%", rate(error)));
            return format!("{} missed an estimated {all}{error} times, {second} a second.", base.name);
        }
        if let Some(second) = per_second(base, workload) {
            let second = count(second.round() as u64);
            return format!("{} missed {}, {second} a second{time}.", base.name, counted(n, "time"));
        }
        if let Some(error) = percent_error(base).filter(|_| workload.windows.is_some()) {
            let all = count(n);
            return format!("{} missed an estimated {all} ± {}\u{a0}% times{per}{time}.", base.name, rate(error));
        }
        if n == 0 {
            return format!("{} never missed in {}.", base.name, counted(base.counts.tlb.lookups, "lookup"));
        }
        return format!("{} missed {}{per}{time}.", base.name, counted(n, "time"));
    }
    if machines.iter().all(|m| misses(m) == 0) {
        return "No design missed at all: this run fits in every one of them.".into();
    }
    // Fewest misses; among equals the smallest area, then the first.
    let size = |m: &MachineResult| area(m).unwrap_or(f64::INFINITY);
    let best = machines
        .iter()
        .min_by(|a, b| misses(a).cmp(&misses(b)).then(size(a).total_cmp(&size(b))))
        .expect("there are at least two machines");
    if misses(best) == misses(base) {
        let n = misses(base);
        return format!("Nothing here misses less than {}: {}.", base.name, counted(n, "miss"));
    }
    let windows = workload.windows.is_some();
    if let Some(error) = error_of_difference(best, base).filter(|_| windows)
        && (misses(base) - misses(best)) as f64 <= CERTAIN * error
    {
        let (best, least) = (&best.name, count(misses(best)));
        return format!(
            "This sample does not tell whether any misses less than {}: {best} with an estimated {least} is within the \
             error.",
            base.name
        );
    }
    let fewer = 100.0 * (1.0 - misses(best) as f64 / misses(base) as f64);
    let sampled = if windows { "an estimated " } else { "" };
    let mut text = if misses(best) == 0 {
        format!("{} never misses, where {} misses {}", best.name, base.name, counted(misses(base), "time"))
    } else {
        let (best, least) = (&best.name, count(misses(best)));
        format!("{best} misses least: {sampled}{least}, {}\u{a0}% fewer than {}", share(fewer), base.name)
    };
    if let (Some(a), Some(b)) = (area(best), area(base)) {
        let sep = if misses(best) == 0 { "; it takes" } else { ", on" };
        text += &format!("{sep} {}× the area", rate(a / b));
    }
    let saved = |m: &MachineResult| (misses(base) as f64 - misses(m) as f64) / (misses(base) - misses(best)) as f64;
    let smaller =
        |m: &&MachineResult| size(m) <= MUCH_SMALLER * size(best) && size(best).is_finite() && saved(m) >= ALMOST;
    if let Some(cheap) = machines.iter().filter(smaller).min_by(|a, b| size(a).total_cmp(&size(b))) {
        let kept = share(100.0 * saved(cheap));
        let part = rate(100.0 * size(cheap) / size(best));
        text += &format!("; {} keeps {kept}\u{a0}% of that saving on {part}\u{a0}% of that area", cheap.name);
    }
    text + "."
}

/// The standard error of a difference of two estimates, if they were independent. Those of one sample are less apart.
fn error_of_difference(a: &MachineResult, b: &MachineResult) -> Option<f64> {
    let error = |m: &MachineResult| m.estimate?.standard_error;
    Some(error(a)?.hypot(error(b)?))
}

/// A percentage that is rounded to 100 only if it is 100.
fn share(percent: f64) -> String {
    if percent < 100.0 && percent > 99.94 { "more than 99.9".into() } else { rate(percent) }
}
