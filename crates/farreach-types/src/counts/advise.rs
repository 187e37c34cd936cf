//! Advice for the machine at hand: what a change of page sizes saves and costs.

use super::WindowUse;
use serde::{Deserialize, Serialize};

/// Version of [`AdviceResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const ADVICE_SCHEMA: &str = "farreach.advice/1";

/// From everything overlapped to everything serial.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The middle.
    pub fn middle(&self) -> f64 {
        (self.low + self.high) / 2.0
    }
}

/// Prices in cycles of walks that read a line of the page table this long after walks read it before.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WalkPrice {
    /// The most lines that walks read since, as in [`WalkDistances`](super::WalkDistances); absent: more than all
    /// others.
    pub lines: Option<u32>,
    /// Such a walk, from one that waits for nothing, at its cheapest, to one that waits for the walk before, at its
    /// dearest.
    pub walk: Interval,
    /// The same between the medians of what was measured: where between, the program decides.
    pub typical: Interval,
    /// As `walk`, to a page whose frame lies beside those of its neighbours, as in multi-size THP.
    pub contiguous: Interval,
    /// As `typical`, to such a page.
    pub contiguous_typical: Interval,
    /// All of the load that walks, with its data.
    pub load: Interval,
}

/// Prices of events in cycles.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TodayPrices {
    /// A lookup that only the second level answers.
    pub second_level: Interval,
    /// A walk that ends at a base page; the mean of those of today where they are measured by distance.
    pub base_walk: Interval,
    /// A walk that ends at a superpage.
    pub huge_walk: Interval,
    /// Walks that end at a base page, by reuse distance, the shortest first. Empty where nothing was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub walks: Vec<WalkPrice>,
    /// All of a load that walks to a base page, with its data: from one that waits for nothing to one that waits for
    /// the load before. The mean of those of today. Absent where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Interval>,
    /// A page fault, without contents.
    pub fault: f64,
    /// 4 KB of zeros.
    pub zero: f64,
    /// What the first touch of 2 MB takes more where free memory has gone back to the hypervisor (free page
    /// reporting). In no row of the table: a service pays it once. Absent where that does not happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_touch: Option<f64>,
    /// Huge pages are in the TLB in pieces, since the hypervisor maps smaller pages. Absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_in_pieces: Option<bool>,
    /// Where they come from.
    pub source: String,
}

/// Runs of the program without the simulator, as the machine is set. Medians.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NativeRuns {
    /// How many.
    pub runs: u64,
    /// User and system time in seconds, run by run.
    pub cpu_seconds: Vec<f64>,
    /// Median user time in seconds.
    pub user_seconds: f64,
    /// Median user and system time in seconds.
    pub median_seconds: f64,
    /// Half of the distance between least and most, in percent of the median.
    pub noise_percent: f64,
    /// Most memory in use; null where the program was too short for it to be seen.
    pub resident_bytes: Option<u64>,
    /// Cycles of the core in a nanosecond.
    pub gigahertz: f64,
    /// The allocator of the program, `unknown`, or `not seen`.
    pub allocator: String,
    /// The program has switched transparent huge pages off for itself (prctl).
    pub thp_disabled: bool,
    /// Most anonymous memory that was in huge pages.
    pub huge_bytes: u64,
}

/// A setting of the machine, as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A change, or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AdviceRow {
    /// Its name, for `--change`; `today` for none.
    pub name: String,
    /// What is changed, in words.
    pub change: String,
    /// The simulated machine.
    pub machine: String,
    /// Misses of all levels of the TLBs.
    pub walks: u64,
    /// Lookups that only the second level answered.
    pub second_level_hits: u64,
    /// Cycles of translation.
    pub walk_cycles: Interval,
    /// Page faults.
    pub page_faults: u64,
    /// Bytes of pages filled with zeros.
    pub zeroed_bytes: u64,
    /// Cycles of first touches.
    pub touch_cycles: f64,
    /// Cycles saved, against today.
    pub saved_cycles: Interval,
    /// The same in percent of the run; absent without a native run.
    pub saved_percent: Option<Interval>,
    /// The likely saving inside that interval, if the time of the run tells how serial its walks are.
    pub likely_percent: Option<f64>,
    /// All of that interval is less than the noise of the native runs.
    pub within_noise: bool,
    /// Memory at the peak.
    pub resident_bytes: u64,
    /// Memory at the peak that was never referenced.
    pub wasted_bytes: u64,
    /// What it may break or cost.
    pub risk: String,
}

/// A change that is not in the table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// The change.
    pub change: String,
    /// Why.
    pub why: String,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recommendation {
    /// The name of its row; `today`: leave it as it is.
    pub row: String,
    /// One sentence each.
    pub why: Vec<String>,
    /// Lines to type, for now.
    pub now: Vec<String>,
    /// What makes it last: files and their lines.
    pub lasting: Vec<String>,
    /// Lines that undo it.
    pub undo: Vec<String>,
}

/// Native runs with a change, against runs without, in turns.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// The name of the row.
    pub row: String,
    /// Runs each way.
    pub rounds: u64,
    /// User and system time in seconds, as it is.
    pub today_seconds: Vec<f64>,
    /// The same with the change.
    pub changed_seconds: Vec<f64>,
    /// Predicted saving in percent.
    pub predicted: Interval,
    /// The likely one, if there is one.
    pub likely: Option<f64>,
    /// Measured saving of the medians in percent.
    pub measured: f64,
    /// Its noise in percent of the run.
    pub noise: f64,
    /// Median of most memory in use, as it is and with the change; null where it was not seen.
    pub resident_bytes: [Option<u64>; 2],
    /// Predicted change of memory at the peak in bytes.
    pub predicted_bytes: i64,
    /// Most anonymous memory in huge pages, as it is and with the change.
    pub huge_bytes: [u64; 2],
    /// `held`, `failed`, or `too small to tell`.
    pub verdict: String,
    /// What the load of a server said, as it is and with the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<[Served; 2]>,
}

/// What a load said of its server.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Served {
    /// Seconds that it took, in each run.
    pub seconds: Vec<f64>,
    /// Requests a second in each run; none if its tool is not known.
    pub per_second: Vec<f64>,
    /// Medians of the runs.
    pub latencies: Vec<Latency>,
}

/// A percentile of latency.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Such as 99.
    pub percentile: f64,
    /// The time within which so many requests were answered.
    pub milliseconds: f64,
}

/// What `farreach advise` found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AdviceResult {
    /// [`ADVICE_SCHEMA`].
    pub schema: String,
    /// The program or the trace.
    pub source: String,
    /// The simulated machine.
    pub machine: String,
    /// What that is.
    pub about: String,
    /// Settings of this system that decide about page sizes.
    pub settings: Vec<Setting>,
    /// Instructions that were simulated.
    pub instructions: u64,
    /// Why the simulation ended before the program did, if it did.
    pub stopped: Option<String>,
    /// If only windows of it were simulated: which. Misses and what follows from them are estimates then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowUse>,
    /// Native runs; absent for a trace.
    pub native: Option<NativeRuns>,
    /// Prices.
    pub prices: TodayPrices,
    /// The share of walks that the program can have waited for, by its time for each.
    pub serial_share: Option<f64>,
    /// Today, and each change that is possible here.
    pub rows: Vec<AdviceRow>,
    /// Changes that are not possible here, or cannot be simulated truthfully.
    pub left_out: Vec<LeftOut>,
    /// What to do.
    pub recommendation: Recommendation,
    /// The proof, if it was asked for: one for each change that was tried.
    pub verifications: Vec<Verification>,
}
