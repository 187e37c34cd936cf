//! Rows of the table, from what the simulated machines counted.

use super::changes::Change;
use farreach_cost::today;
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::{AdviceRow, Interval, MachineResult, TodayPrices};

/// A change with what its machine counted.
pub struct Simulated {
    pub change: Change,
    pub result: MachineResult,
}

/// The run that savings are a share of.
#[derive(Clone, Copy)]
pub struct Run {
    pub cycles: f64,
    /// In percent.
    pub noise: f64,
    /// Of the program alone, without the kernel.
    pub user_cycles: f64,
}

/// The share of walks that the program can have waited for, if the prices have what tells.
pub fn serial_share(today: &MachineResult, prices: &TodayPrices, run: Option<Run>) -> Option<f64> {
    Some(today::serial_share(run?.user_cycles, today.counts.tlb.misses, prices.load.as_ref()?))
}

/// A row for each, in order; the first is today.
pub fn rows(all: &[Simulated], prices: &TodayPrices, run: Option<Run>) -> Vec<AdviceRow> {
    let Some(first) = all.first() else { return Vec::new() };
    let costs =
        |of: &MachineResult| (today::translation(&of.counts.tlb, prices), today::first_touch(&of.counts.os, prices));
    let base = costs(&first.result);
    let serial = serial_share(&first.result, prices, run);
    let possible = today::possible(&base.0, run.map(|run| (run.cycles - base.1).max(0.0)));
    let row = |simulated: &Simulated| {
        let Simulated { change, result } = simulated;
        let (translation, touch) = costs(result);
        let saved = today::saved((&base.0, base.1), (&translation, touch), possible);
        let saved_percent = run.map(|run| today::percent(&saved, run.cycles));
        let small = |percent: &Interval| {
            let noise = run.map_or(0.0, |run| run.noise);
            percent.low.abs().max(percent.high.abs()) <= noise
        };
        let tlb = &result.counts.tlb;
        AdviceRow {
            name: change.name.clone(),
            change: change.words.clone(),
            machine: result.name.clone(),
            walks: tlb.misses,
            second_level_hits: tlb.second_level_fetch_hits + tlb.second_level_data_hits,
            walk_cycles: Interval { low: translation.low * possible.low, high: translation.high * possible.high },
            page_faults: result.counts.os.page_faults,
            zeroed_bytes: result.counts.os.zeroed_pages << BASE_SHIFT,
            touch_cycles: touch,
            saved_cycles: saved,
            likely_percent: saved_percent.as_ref().zip(serial).map(|(saved, share)| today::at_share(saved, share)),
            within_noise: saved_percent.as_ref().is_some_and(small),
            saved_percent,
            resident_bytes: result.memory.resident_bytes,
            wasted_bytes: result.memory.wasted_bytes,
            risk: change.risk.clone(),
        }
    };
    all.iter().map(row).collect()
}
