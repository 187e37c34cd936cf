//! The answer in one sentence.

use super::parts::Page;
use crate::format::{count, counted, rate};
use crate::view::{per_second, per_thousand, percent_error};
use farreach_types::counts::MachineResult;

/// A design that saves at least this share of the misses that the best one saves counts as almost as good.
const ALMOST: f64 = 0.9;
/// It is worth naming if it takes at most this share of the area.
const MUCH_SMALLER: f64 = 0.75;

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
    let fewer = 100.0 * (1.0 - misses(best) as f64 / misses(base) as f64);
    let mut text = if misses(best) == 0 {
        format!("{} never misses, where {} misses {}", best.name, base.name, counted(misses(base), "time"))
    } else {
        format!("{} misses least: {}, {}\u{a0}% fewer than {}", best.name, count(misses(best)), share(fewer), base.name)
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

/// A percentage that is rounded to 100 only if it is 100.
fn share(percent: f64) -> String {
    if percent < 100.0 && percent > 99.94 { "more than 99.9".into() } else { rate(percent) }
}
