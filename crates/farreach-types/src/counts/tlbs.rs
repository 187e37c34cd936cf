//! What pointer chases over pages showed of the TLBs of a machine.

use serde::{Deserialize, Serialize};

/// Version of [`TlbMeasurement`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const TLBS_SCHEMA: &str = "farreach.tlbs/1";

/// Curves of time over pages, and what follows from them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TlbMeasurement {
    /// [`TLBS_SCHEMA`].
    pub schema: String,
    /// The processor, as it calls itself.
    pub processor: String,
    /// The hypervisor, in a virtual machine.
    pub hypervisor: Option<String>,
    /// Repetitions of each point, each with chains in another random order.
    pub repetitions: u64,
    /// Seed of the orders.
    pub seed: u64,
    /// Cycles of the core in a nanosecond while it ran.
    pub gigahertz: f64,
    /// A curve for each page size and stride.
    pub curves: Vec<TlbCurve>,
    /// Numbers of entries, by page size, stride and level.
    pub knees: Vec<TlbKnee>,
    /// Prices, cheapest first.
    pub prices: Vec<TlbPrice>,
    /// What could not be measured here, and why.
    pub missing: Vec<String>,
}

/// Time of a load in a chain, over the number of pages that the chain goes through.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TlbCurve {
    /// Bytes of a page.
    pub page_size: u64,
    /// Pages from one page of the chain to the next in memory: 1 where they lie side by side.
    pub stride_pages: u64,
    /// Ascending.
    pub points: Vec<TlbPoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TlbPoint {
    /// Pages of the chain.
    pub pages: u64,
    /// Cycles that translation added to a load: beyond a chain of as many lines that lie in few pages. Median of the
    /// repetitions.
    pub cycles: f64,
    /// Lower quartile.
    pub low: f64,
    /// Upper quartile.
    pub high: f64,
    /// Cycles of a load, with all that it waited for. Median.
    pub load_cycles: f64,
}

impl TlbCurve {
    /// Half the distance of the quartiles, in cycles: at the median point, and at the worst.
    pub fn spread(&self) -> [f64; 2] {
        let mut all: Vec<f64> = self.points.iter().map(|point| (point.high - point.low) / 2.0).collect();
        all.sort_by(f64::total_cmp);
        [all.len() / 2, all.len().saturating_sub(1)].map(|at| all.get(at).copied().unwrap_or(0.0))
    }
}

/// The number of pages up to which a level of a TLB answers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TlbKnee {
    /// Bytes of a page.
    pub page_size: u64,
    /// As in the curve.
    pub stride_pages: u64,
    /// 1 or 2.
    pub level: u8,
    /// Most pages of a point at which the level still answered.
    pub entries: u64,
    /// The next point, at which it did not.
    pub next: u64,
    /// The first point at which half of the way to the next level's time is climbed: a level that is skewed, hashed or
    /// chooses victims at random fails gradually.
    pub half: u64,
    /// Entries that the description of this processor has.
    pub described: Option<u64>,
}

/// Cycles that an event takes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TlbPrice {
    /// `second-level hit` or `walk`.
    pub event: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// Median over points.
    pub cycles: f64,
    /// Least over points: for walks, those whose page tables are in a near cache.
    pub low: f64,
    /// Most over points.
    pub high: f64,
    /// Fewest and most pages of the points.
    pub pages: [u64; 2],
}
