//! Which of its memory a live process uses.

use serde::{Deserialize, Serialize};

/// Version of [`WatchResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const WATCH_SCHEMA: &str = "farreach.watch/1";

/// What `farreach watch` found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchResult {
    /// [`WATCH_SCHEMA`].
    pub schema: String,
    /// Which process.
    pub source: String,
    /// How it was watched.
    pub method: WatchMethod,
    /// Seconds from the first interval's begin to the last one's end.
    pub seconds: f64,
    /// Length of an interval in seconds, as asked for or chosen.
    pub interval_seconds: f64,
    /// Why the watch ended: `time`, `interrupted`, `process ended`.
    pub ended: String,
    /// Present memory at the end, file pages among it.
    pub present_bytes: u64,
    /// Of it, what lies in anonymous memory: heap, stacks, anonymous mappings.
    pub anonymous_bytes: u64,
    /// The working set by size of page, ascending.
    pub working_sets: Vec<WorkingSet>,
    /// 2 MB blocks of anonymous memory by how full they are, at the end.
    pub blocks: Vec<BlockFill>,
    /// Transparent huge pages: now, and what they could be, at the end.
    pub huge: HugePages,
    /// By mapping, most memory first.
    pub mappings: Vec<MappingUse>,
    /// Entries that would reach the working set, against those of this processor: 4 KB, then 2 MB.
    pub reach: Vec<Reach>,
    /// WatchInterval by interval.
    pub intervals: Vec<WatchInterval>,
    /// Use by address and time.
    pub heat: Heat,
    /// What watching cost.
    pub cost: WatchCost,
    /// What follows from it.
    pub recommendation: WatchRecommendation,
}

/// How use was seen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchMethod {
    /// Name, as `--method` takes it.
    pub name: String,
    /// What is known about use: `pages`, `sample` (pages of a random part of the 2 MB blocks), `mappings` (how many
    /// pages of each mapping), `nothing`.
    pub resolution: String,
    /// The same in a sentence.
    pub about: String,
    /// Whether loads are seen; else only stores are.
    pub loads: bool,
    /// Whether the TLB was flushed when an interval began. If not, pages whose entries stayed in the TLB are not seen:
    /// at most as many as it has entries.
    pub flushed: bool,
    /// 2 MB blocks that were watched, of those that had memory; for a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_blocks: Option<[u64; 2]>,
    /// Better methods that do not work here for this user, best first.
    pub missing: Vec<MissingMethod>,
}

/// A method that does not work.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MissingMethod {
    /// Name.
    pub name: String,
    /// Why.
    pub why: String,
    /// A command or advice that turns it on, where there is one.
    pub turn_on: Option<String>,
}

/// A number of bytes lies between these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ByteBounds {
    /// At least.
    pub low: u64,
    /// At most.
    pub high: u64,
}

/// The memory that is used in an interval, in pages of one size: distinct aligned pages times their size.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Size of a page.
    pub page_bytes: u64,
    /// The median of all intervals, of each bound by itself; absent if use is not known.
    pub median_bytes: Option<ByteBounds>,
    /// The most of any interval.
    pub most_bytes: Option<ByteBounds>,
    /// In all intervals together; absent if it is not known which pages were used.
    pub whole_bytes: Option<ByteBounds>,
    /// All present memory in such pages, used or not, at the end.
    pub present_bytes: u64,
}

/// 2 MB blocks with a number of present 4 KB pages.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BlockFill {
    /// Fewest pages.
    pub from_pages: u64,
    /// Most pages.
    pub to_pages: u64,
    /// Blocks.
    pub blocks: u64,
    /// Present memory in them.
    pub present_bytes: u64,
    /// Memory in them that was used while watched; absent if it is not known which.
    pub used_bytes: Option<u64>,
}

/// Transparent huge pages of a process.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HugePages {
    /// In anonymous huge pages now (AnonHugePages).
    pub now_bytes: u64,
    /// 2 MB blocks with present pages that lie wholly in one anonymous mapping.
    pub possible_blocks: u64,
    /// Present memory in these blocks.
    pub possible_present_bytes: u64,
    /// What huge pages would add if they mapped all these blocks: memory that is not present.
    pub would_add_bytes: u64,
    /// Present anonymous memory outside of such blocks, which stays in small pages.
    pub too_small_bytes: u64,
    /// The mode of the kernel: `always`, `madvise`, `never`; absent if it has none.
    pub mode: Option<String>,
    /// Whether the process switched huge pages off for itself (`PR_SET_THP_DISABLE`); absent if the kernel does not
    /// say.
    pub disabled: Option<bool>,
    /// Present memory of mappings for which the process asked for huge pages (`MADV_HUGEPAGE`).
    pub advised_bytes: u64,
    /// Present memory of mappings for which it refused them (`MADV_NOHUGEPAGE`).
    pub refused_bytes: u64,
}

/// Mappings of one name together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MappingUse {
    /// `heap`, `stack`, `anonymous`, or the file.
    pub mapping: String,
    /// Present memory at the end.
    pub present_bytes: u64,
    /// Of it, in huge pages.
    pub huge_bytes: u64,
    /// Used in an interval, the median; absent if use is not known.
    pub median_bytes: Option<u64>,
    /// The most of any interval.
    pub most_bytes: Option<u64>,
}

/// Entries for the working set, and those that there are.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Reach {
    /// Size of a page.
    pub page_bytes: u64,
    /// Entries for the median working set, if all its pages had this size; absent if use is not known.
    pub needed: Option<EntryBounds>,
    /// Entries for all present memory.
    pub needed_for_present: u64,
    /// Data entries of this processor's largest level that hold such pages; absent if it does not tell.
    pub entries: Option<u64>,
}

/// A number of entries lies between these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EntryBounds {
    /// At least.
    pub low: u64,
    /// At most.
    pub high: u64,
}

/// One interval.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchInterval {
    /// Its end, in seconds since the watch began.
    pub seconds: f64,
    /// Its length in seconds.
    pub length: f64,
    /// Present memory at its end.
    pub present_bytes: u64,
    /// In huge pages.
    pub huge_bytes: u64,
    /// Used, in 4 KB pages.
    pub used_bytes: Option<ByteBounds>,
    /// Used, in 2 MB pages.
    pub used_2m_bytes: Option<ByteBounds>,
}

/// Use by address and time: for a drawing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Heat {
    /// Parts of the address space, ascending.
    pub rows: Vec<HeatRow>,
    /// Where each column ends, in seconds since the watch began.
    pub seconds: Vec<f64>,
}

/// One part of the address space.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HeatRow {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// The mapping that has most of its memory.
    pub mapping: String,
    /// For each column, the share of the present memory that was used, from 0 to 1; `None` where nothing was present.
    pub used: Vec<Option<f32>>,
}

/// What watching cost.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchCost {
    /// Processor time of farreach while it watched, in seconds.
    pub observer_seconds: f64,
    /// Processor time of threads of the kernel that worked for it.
    pub kernel_thread_seconds: f64,
    /// Both as a percentage of the time of one processor.
    pub percent_of_a_processor: f64,
    /// Longest time in which page faults of the process may have had to wait, in seconds.
    pub longest_wait_seconds: f64,
    /// All such times together.
    pub waits_seconds: f64,
    /// What the first use of a page in an interval cost the process, in seconds: measured on memory of farreach.
    pub used_page_seconds: f64,
    /// That for all used pages of all intervals: processor time of the process, an estimate.
    pub process_seconds: f64,
    /// The same as a percentage of what the process took without.
    pub process_percent: f64,
    /// User time of the process meanwhile, in seconds.
    pub process_user_seconds: f64,
    /// System time of the process meanwhile.
    pub process_system_seconds: f64,
}

/// What follows, with the reasons.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WatchRecommendation {
    /// `leave`, `try`, `no`, `unknown`.
    pub verdict: String,
    /// One sentence.
    pub text: String,
    /// Why.
    pub reasons: Vec<String>,
    /// What this cannot know.
    pub limits: Vec<String>,
    /// A command that finds out more.
    pub next: String,
}
