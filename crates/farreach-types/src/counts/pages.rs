//! Raw integers of the page-size study (PS), and the result that carries them and the ratios derived from them.

use super::{MachineResult, Workload};
use crate::addr::Bytes;
use serde::{Deserialize, Serialize};

/// Version of [`PageSizeResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const PAGESIZE_SCHEMA: &str = "farreach.pagesize/1";

/// What was counted at one page size. Bytes are whole pages of that size, summed over all address spaces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PageCounts {
    /// Bytes of one page.
    pub page_size: u64,
    /// Lookups of the fetch side: one per page of this size that an instruction touches.
    pub fetch_lookups: u64,
    /// Lookups of the data side: one per page of this size that a load or store touches.
    pub data_lookups: u64,
    /// Misses of the fetch side, a true-LRU TLB of [`PageSizeResult::entries`] entries (PS-1).
    pub fetch_misses: u64,
    /// Misses of the data side, another of that kind.
    pub data_misses: u64,
    /// Distinct pages ever fetched from (PS-7, AMB-30). A page that is also loaded from or stored to counts in
    /// `data_bytes` too.
    pub code_bytes: u64,
    /// Distinct pages ever loaded from or stored to.
    pub data_bytes: u64,
    /// Distinct pages ever touched, each once: at most `code_bytes + data_bytes`.
    pub total_bytes: u64,
    /// Pages allocated at first touch (PS-5), those touched again after they were unmapped once more (AMB-30).
    pub allocated_bytes: u64,
    /// Most memory allocated at any time.
    pub peak_bytes: u64,
    /// Page table nodes of 4 KB, 512 entries of 8 bytes, over all levels of a radix tree for 48-bit addresses (PS-13).
    pub page_table_bytes: u64,
    /// Distinct pages ever stored to: with one dirty bit per page, one byte stored makes a whole page to be written
    /// back (PS-13).
    pub write_back_bytes: u64,
    /// Misses of the fetch side by number of entries, as in [`PageSizeResult::entry_counts`].
    pub fetch_misses_by_entries: Vec<u64>,
    /// Misses of the data side by number of entries.
    pub data_misses_by_entries: Vec<u64>,
}

/// One page size against the smallest of the study (PS-10); absent where that has nothing to divide by.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Relative {
    /// Fetch misses here / there.
    pub relative_fetch_misses: Option<f64>,
    /// Data misses here / there.
    pub relative_data_misses: Option<f64>,
    /// Growth of `code_bytes`: here / there - 1.
    pub relative_code_memory: Option<f64>,
    /// Growth of `data_bytes`.
    pub relative_data_memory: Option<f64>,
    /// Growth of `total_bytes`.
    pub relative_memory: Option<f64>,
}

/// One page size of the study.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PageRow {
    /// What was counted.
    #[serde(flatten)]
    pub counts: PageCounts,
    /// Against the smallest size.
    #[serde(flatten)]
    pub relative: Relative,
}

/// One page size in a phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PhaseSize {
    /// Bytes of one page.
    pub page_size: u64,
    /// Misses of the fetch side. Over all phases they add up to [`PageCounts::fetch_misses`].
    pub fetch_misses: u64,
    /// Misses of the data side.
    pub data_misses: u64,
    /// Distinct pages that were fetched from in this phase.
    pub code_bytes: u64,
    /// Distinct pages that were loaded from or stored to in this phase.
    pub data_bytes: u64,
    /// Distinct pages that were touched in this phase, each once.
    pub total_bytes: u64,
}

/// A phase of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PagePhase {
    /// Instructions; of the last phase those that there were.
    pub instructions: u64,
    /// Lookups in pages of 4 KB.
    pub lookups: u64,
    /// Page size by page size, as the rows of the result.
    pub sizes: Vec<PhaseSize>,
}

/// A page size or policy that no other beats in both misses and memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FrontierPoint {
    /// The page size, such as `16K`, or the name of the policy.
    pub name: String,
    /// Fetch and data misses together.
    pub misses: u64,
    /// Most memory allocated at any time, the one measure of memory that both page sizes and policies have.
    pub peak_bytes: u64,
}

/// Which page size the numbers recommend.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// The size.
    pub page_size: u64,
    /// Growth of memory that the rule allows.
    pub memory_allowed: f64,
    /// The sentence, with the numbers it rests on.
    pub text: String,
    /// The rule that led to it.
    pub rule: String,
}

/// Everything the page-size study found: what `farreach pagesize --json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PageSizeResult {
    /// [`PAGESIZE_SCHEMA`].
    pub schema: String,
    /// What ran; its lookups and touched bytes are those of 4 KB pages.
    pub workload: Workload,
    /// Entries of each of the two TLBs.
    pub entries: u64,
    /// Numbers of entries for which each row has misses: powers of two, up to the last that changes anything, at least
    /// to 4096.
    pub entry_counts: Vec<u64>,
    /// Page size by page size, ascending.
    pub rows: Vec<PageRow>,
    /// Phase by phase, if there are phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PagePhase>,
    /// Machines that ran beside, over the same references.
    pub policies: Vec<MachineResult>,
    /// Which of all these are worth having, by ascending memory.
    pub frontier: Vec<FrontierPoint>,
    /// The recommended page size; absent if there were no lookups.
    pub advice: Option<Advice>,
}

impl PageCounts {
    /// Fetch and data misses together.
    pub fn misses(&self) -> u64 {
        self.fetch_misses + self.data_misses
    }
}

impl PageSizeResult {
    /// All page sizes and policies, in the order of the result, as the frontier sees them.
    pub fn points(&self) -> Vec<FrontierPoint> {
        let sizes = self.rows.iter().map(|row| FrontierPoint {
            name: Bytes(row.counts.page_size).to_string(),
            misses: row.counts.misses(),
            peak_bytes: row.counts.peak_bytes,
        });
        let policies = self.policies.iter().map(|machine| FrontierPoint {
            name: machine.name.clone(),
            misses: machine.counts.tlb.misses,
            peak_bytes: machine.memory.resident_bytes,
        });
        sizes.chain(policies).collect()
    }
}
