//! Rows of the table, from what the simulated machines counted.

use super::change::Change;
use farreach_cost::today;
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::{AdviceRow, Interval, MachineResult, TlbCounts, TodayPrices};

/// A change with what its machine counted.
pub struct Simulated {
    pub change: Change,
    pub result: MachineResult,
    /// Bytes of a base page of its machine.
    pub base_page: u64,
}

impl Simulated {
    /// Bytes that the system filled with zeros.
    fn zeroed_bytes(&self) -> u64 {
        self.result.counts.os.zeroed_pages * self.base_page
    }

    /// Cycles of its first touches.
    fn touch(&self, prices: &TodayPrices) -> f64 {
        today::first_touch(self.result.counts.os.page_faults, self.zeroed_bytes() >> BASE_SHIFT, prices)
    }
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
    let base_touch = first.touch(prices);
    let rest = run.map(|run| (run.cycles - base_touch).max(0.0));
    let serial = serial_share(&first.result, prices, run);
    // At one kind of prices: what part of them is possible, and what a machine saves.
    let kind = |price: fn(&TlbCounts, &TodayPrices) -> Interval| {
        let base = price(&first.result.counts.tlb, prices);
        let possible = today::possible(&base, rest);
        let saved = move |of: &Simulated| {
            let translation = price(&of.result.counts.tlb, prices);
            today::saved((&base, base_touch), (&translation, of.touch(prices)), possible)
        };
        (possible, saved)
    };
    let ((possible, by_all), (_, by_typical)) = (kind(today::translation), kind(today::typical_translation));
    let row = |simulated: &Simulated| {
        let Simulated { change, result, .. } = simulated;
        let translation = today::translation(&result.counts.tlb, prices);
        let saved = by_all(simulated);
        let saved_percent = run.map(|run| today::percent(&saved, run.cycles));
        // Typical walks are not cut to what is possible, as all of them are: the point stays in the interval.
        let likely = |run: Run| {
            let likely = today::at_share(&today::percent(&by_typical(simulated), run.cycles), serial?);
            let all = today::percent(&saved, run.cycles);
            Some(likely.clamp(all.low, all.high))
        };
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
            zeroed_bytes: simulated.zeroed_bytes(),
            touch_cycles: simulated.touch(prices),
            saved_cycles: saved,
            likely_percent: run.and_then(likely),
            within_noise: saved_percent.as_ref().is_some_and(small),
            saved_percent,
            resident_bytes: result.memory.resident_bytes,
            wasted_bytes: result.memory.wasted_bytes,
            risk: change.risk.clone(),
        }
    };
    all.iter().map(row).collect()
}
