//! Limits of the recorder that a program met, and the signals that ended it.

use super::format::{clean, count, counted, wrapped};
use farreach_types::counts::{RecorderLimit, SignalEnd, Workload};

/// Which processes a signal ended; nothing if none.
pub fn endings(signals: &[SignalEnd]) -> Option<String> {
    let each = signals.iter().map(|end| format!("{} ended {}", end.signal, counted(end.processes, "process")));
    (!signals.is_empty()).then(|| each.collect::<Vec<_>>().join(", "))
}

/// What program met a limit, how often, and what to do.
pub fn sentence(limit: &RecorderLimit) -> String {
    let often = if limit.count > 1 { format!(", {} times", count(limit.count)) } else { String::new() };
    let advice = limit.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
    clean(&format!("{} (process {}{often}): {}{advice}", limit.program, limit.process, limit.what))
}

/// What stands above the limits.
pub(super) const HEADING: &str = "Limits of the recorder that this run met (natively it goes another way)";

/// The section of a text report; empty if no limit was met.
pub(super) fn render(workload: &Workload, width: usize) -> String {
    if workload.limits.is_empty() {
        return String::new();
    }
    let lines = workload.limits.iter().map(|limit| wrapped(&sentence(limit), "  ", "    ", width));
    format!("\n{HEADING}:\n{}", lines.collect::<String>())
}
