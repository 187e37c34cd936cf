//! Values that all readable reports derive from a result: the baseline, ratios, and text made safe to show.

use super::format::{clean, count, counted, rate};
use farreach_types::counts::{
    ContiguityResult, MachineResult, PageSizeResult, PieceUse, RunResult, WatchResult, WindowUse, Workload,
};
use farreach_types::plural::with_noun;

/// Name of the design that others are compared with.
const SINGLE: &str = "t94/single";

/// Which machine others are compared with: `t94/single`, else one made from it, else the first.
pub(super) fn baseline(result: &RunResult) -> usize {
    let names = || result.machines.iter().map(|m| m.name.as_str());
    names()
        .position(|name| name == SINGLE)
        .or_else(|| names().position(|name| name.strip_prefix(SINGLE).is_some_and(|rest| rest.starts_with(':'))))
        .unwrap_or(0)
}

/// The result with all text from outside made safe to show.
pub(super) fn cleaned(result: &RunResult) -> RunResult {
    let mut result = result.clone();
    clean_workload(&mut result.workload);
    clean_machines(&mut result.machines);
    result
}

/// As [`cleaned`].
pub(super) fn cleaned_study(result: &PageSizeResult) -> PageSizeResult {
    let mut result = result.clone();
    clean_workload(&mut result.workload);
    clean_machines(&mut result.policies);
    result.frontier.iter_mut().for_each(|point| point.name = clean(&point.name));
    result
}

/// As [`cleaned`].
pub(super) fn cleaned_contiguity(result: &ContiguityResult) -> ContiguityResult {
    let mut result = result.clone();
    let wash = |text: &mut String| *text = clean(text);
    wash(&mut result.source);
    result.regions.iter_mut().for_each(|region| wash(&mut region.region));
    let needs = result.samples.iter_mut().chain([&mut result.peak]).flat_map(|sample| &mut sample.needs);
    needs.for_each(|need| wash(&mut need.hardware));
    result
}

/// The result of a watch with harmless text.
pub(super) fn cleaned_watch(result: &WatchResult) -> WatchResult {
    let mut result = result.clone();
    let wash = |text: &mut String| *text = clean(text);
    wash(&mut result.source);
    result.mappings.iter_mut().for_each(|m| wash(&mut m.mapping));
    result.heat.rows.iter_mut().for_each(|row| wash(&mut row.mapping));
    let missing = result.method.missing.iter_mut();
    missing.flat_map(|m| [Some(&mut m.name), Some(&mut m.why), m.turn_on.as_mut()]).flatten().for_each(wash);
    result
}

fn clean_workload(workload: &mut Workload) {
    let wash = |text: &mut String| *text = clean(text);
    wash(&mut workload.source);
    workload.stopped.iter_mut().for_each(wash);
    for limit in &mut workload.limits {
        wash(&mut limit.what);
        wash(&mut limit.program);
        limit.advice.iter_mut().for_each(wash);
    }
    workload.signals.iter_mut().for_each(|end| wash(&mut end.signal));
    let contexts = workload.guest.iter_mut().flat_map(|guest| &mut guest.contexts);
    contexts.for_each(|of| wash(&mut of.context.program));
}

fn clean_machines(machines: &mut [MachineResult]) {
    let wash = |text: &mut String| *text = clean(text);
    for machine in machines {
        wash(&mut machine.name);
        machine.regions.iter_mut().for_each(|r| wash(&mut r.region));
        let contexts = machine.guest.iter_mut().flat_map(|guest| &mut guest.contexts);
        contexts.for_each(|row| wash(&mut row.context.program));
        machine.ledger.iter_mut().for_each(|line| {
            wash(&mut line.item);
            wash(&mut line.unit);
        });
    }
}

/// Misses per thousand lookups.
pub(super) fn per_thousand(machine: &MachineResult) -> Option<f64> {
    let tlb = &machine.counts.tlb;
    (tlb.lookups > 0).then(|| 1000.0 * tlb.misses as f64 / tlb.lookups as f64)
}

/// Energy of translation in pJ for each lookup, if all of it is known.
pub(super) fn pj_per_lookup(machine: &MachineResult) -> Option<f64> {
    let lookups = machine.counts.tlb.lookups;
    machine.cost.energy_pj.filter(|_| lookups > 0).map(|pj| pj / lookups as f64)
}

/// Misses of the whole run: as counted, or as estimated from a sample.
pub(super) fn all_misses(machine: &MachineResult) -> f64 {
    machine.estimate.map_or(machine.counts.tlb.misses as f64, |estimate| estimate.misses)
}

/// The standard error of an estimate, in percent of it; `None` where it is not known, or nothing is estimated.
pub(super) fn percent_error(machine: &MachineResult) -> Option<f64> {
    let estimate = machine.estimate?;
    estimate.standard_error.filter(|_| estimate.misses > 0.0).map(|error| 100.0 * error / estimate.misses)
}

/// Misses of the whole run by second of the program's own time, where the traps of a run were seen.
pub(super) fn per_second(machine: &MachineResult, workload: &Workload) -> Option<f64> {
    let traps = workload.traps.as_ref()?;
    let microseconds = traps.sample.as_ref().map_or(traps.own_microseconds, |sample| sample.microseconds);
    (microseconds > 0).then(|| 1e6 * all_misses(machine) / microseconds as f64)
}

/// Misses of the whole run per thousand instructions, where traps were seen and something counted instructions.
pub(super) fn per_thousand_instructions(machine: &MachineResult, workload: &Workload) -> Option<f64> {
    let counted = workload.traps.is_some() && workload.instructions > 0;
    counted.then(|| 1000.0 * all_misses(machine) / workload.instructions as f64)
}

/// The windows of a run, which had this number of instructions.
pub(super) fn sampled_windows(windows: &WindowUse, instructions: u64) -> String {
    let part = 100.0 * windows.counted_instructions as f64 / instructions.max(1) as f64;
    let many = with_noun(windows.windows, "window");
    let seed = windows.seed;
    format!("Sampled: {} % in {many} of {} instructions, seed {seed}.", rate(part), count(windows.window_instructions))
}

/// Which piece of a run was counted, if that was not everything.
fn piece(piece: &PieceUse) -> Option<String> {
    let PieceUse { from, skipped_instructions: skipped, warmup_instructions: warmup, .. } = piece;
    let mut parts = Vec::new();
    match from.as_deref() {
        Some("mark") => parts.push("what it marks".to_owned()),
        Some(place) => parts.push(format!("from {place} on")),
        None => {}
    }
    if *skipped > 0 {
        parts.push(format!("without {}", counted(*skipped, "instruction")));
    }
    if *warmup > 0 {
        let warmup = counted(*warmup, "instruction");
        parts.push(format!("behind a warm-up of {warmup}, which memory includes and counts do not"));
    }
    (!parts.is_empty()).then(|| format!("A piece of the run: {}.", parts.join(", ")))
}

/// What was simulated of a run, if that was not everything.
pub(super) fn sampled(workload: &Workload) -> Option<String> {
    let parts = [workload.piece.as_ref().and_then(piece), sample(workload)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn sample(workload: &Workload) -> Option<String> {
    if let Some(windows) = &workload.windows {
        let words = sampled_windows(windows, workload.instructions);
        return Some(format!("{words} Misses, cycles and energy are estimates of all; faults and memory are exact."));
    }
    let sample = workload.traps.as_ref()?.sample.as_ref()?;
    Some(if sample.classes < sample.of_classes {
        let (classes, of) = (sample.classes, sample.of_classes);
        format!("Sampled: {classes} of {of} classes of pages. Only what is called estimated is about the whole.")
    } else {
        let seconds = rate(sample.microseconds as f64 / 1e6);
        format!(
            "Counted late: what is called estimated is about the last {seconds} s of its own time, all else about \
                 all that was simulated."
        )
    })
}

/// Misses in percent of those of the baseline.
pub(super) fn percent_of(machine: &MachineResult, baseline: &MachineResult) -> Option<f64> {
    let base = baseline.counts.tlb.misses;
    (base > 0).then(|| 100.0 * machine.counts.tlb.misses as f64 / base as f64)
}

/// A configuration value on one line.
pub(super) fn config_value(value: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    match value {
        Json::String(text) => clean(text),
        Json::Array(items) => items.iter().map(config_value).collect::<Vec<_>>().join(" + "),
        // 40, not 40.0.
        Json::Number(n) if n.is_f64() => n.as_f64().map_or_else(|| n.to_string(), |x| x.to_string()),
        value => value.to_string(),
    }
}
