//! Raw integers of a run, and the result that carries them. Nothing is computed here; percentages, cycles and areas
//! come from `farreach-cost` and `farreach-report`.

mod advise;
mod contiguity;
mod energy;
mod ideal;
mod limits;
mod os;
mod own;
mod pages;
mod system;
mod tlbs;
mod watch;

pub use advise::{
    ADVICE_SCHEMA, AdviceResult, AdviceRow, Interval, Latency, LeftOut, NativeRuns, Recommendation, Served, Setting,
    TodayPrices, Verification, WalkPrice,
};
pub use contiguity::{CONTIGUITY_SCHEMA, ContiguityResult, ContiguitySample, Need, Ranges, RegionContiguity};
pub use energy::{Energy, EnergyPart};
pub use ideal::{IdealSegment, LONG_LIVED_PERCENT};
pub use limits::{LimitKind, RecorderLimit, SignalEnd, signal_name};
pub use os::{CompactionUse, Contiguity, FreeMemory, OsCounts, SegmentUse};
pub use own::OwnCounts;
pub use pages::{
    Advice, FrontierPoint, PAGESIZE_SCHEMA, PageCounts, PagePhase, PageRow, PageSizeResult, PhaseSize, Relative,
};
pub use system::{HandlerCounts, OverheadRow, SideCounts, SystemCounts};
pub use tlbs::{TLBS_SCHEMA, TlbCurve, TlbKnee, TlbMeasurement, TlbPoint, TlbPrice};
pub use watch::{
    BlockFill, ByteBounds, EntryBounds, Heat, HeatRow, HugePages, MappingUse, MissingMethod, Reach, WATCH_SCHEMA,
    WatchCost, WatchInterval, WatchMethod, WatchRecommendation, WatchResult, WorkingSet,
};

use crate::event::{self, Op, ThpRule};
use serde::{Deserialize, Serialize};

/// Version of [`RunResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const RESULT_SCHEMA: &str = "farreach.result/1";

/// Defines a block of counters that is left out of a result where all are 0.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$doc])* pub $field: u64),* }

        impl $name {
            /// Nothing was counted.
            pub fn is_empty(&self) -> bool {
                *self == $name::default()
            }
        }

        impl std::ops::AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                let $name { $($field),* } = other;
                $(self.$field += $field;)*
            }
        }
    };
}

// Behind the macro, which they use.
mod caches;
mod guest;
mod parts;
mod tlb;

pub use caches::{Answered, CacheCounts, LineCounts, WalkCaches};
pub use guest::{
    Context, ContextCounts, ContextRow, ContextUse, ExceptionCount, GuestChecks, GuestCounts, GuestEvents,
    GuestOsCounts, GuestUse, ProcessorEvents,
};
pub use parts::{HOST_TABLE, MemoryCounts, PartCounts, Parts, StepCounts, TABLE};
pub use tlb::{HostWalkCounts, RangeCounts, SegmentCounts, ShootdownCounts, TlbCounts, WalkCounts, WalkDistances};

/// Memory in bytes, at the moment named.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Most physical memory in use at any time: pages with contents, mapped or not.
    pub resident_bytes: u64,
    /// Most memory mapped by page tables at any time; a frame mapped twice counts twice.
    pub mapped_bytes: u64,
    /// Most memory held back by reservations at any time; it counts as free, since other requests may take it.
    pub reserved_bytes: u64,
    /// Bytes of pages that were referenced at least once since they were mapped or copied, over the whole run. A page
    /// that went and is referenced again counts again, unlike in [`Workload::touched_bytes`].
    pub touched_bytes: u64,
    /// Resident at the peak but never referenced by then.
    pub wasted_bytes: u64,
    /// Most virtual memory in regions at any time, guards left out; 0 for a trace without map events.
    pub virtual_bytes: u64,
    /// Resident when the run stopped.
    pub resident_at_end_bytes: u64,
    /// Most memory of page tables at any time, of machines with a walker and pages of 4 KB; in a virtual machine, of
    /// the guest's. It is in no other of these numbers. `None`: it is not known, as of five levels, or where pages
    /// have no entries (UTO-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_table_bytes: Option<u64>,
}

/// Lookups by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lookups {
    /// Instruction fetches.
    pub fetch: u64,
    /// Data reads.
    pub load: u64,
    /// Data writes.
    pub store: u64,
}

impl Lookups {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.fetch + self.load + self.store
    }
    /// What was counted since `before`.
    pub fn since(&self, before: &Lookups) -> Lookups {
        Lookups { fetch: self.fetch - before.fetch, load: self.load - before.load, store: self.store - before.store }
    }
}

impl std::ops::AddAssign<&Lookups> for Lookups {
    fn add_assign(&mut self, other: &Lookups) {
        self.fetch += other.fetch;
        self.load += other.load;
        self.store += other.store;
    }
}

/// What ran.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// The command line, the file, or the generator.
    pub source: String,
    /// Instructions fetched.
    pub instructions: u64,
    /// References: fetches, loads and stores, before the splitting at page boundaries.
    pub references: Lookups,
    /// Lookups in 4 KB pages: one per page touched.
    pub lookups: Lookups,
    /// Bytes of the distinct 4 KB pages touched.
    pub touched_bytes: u64,
    /// Processes seen; an exec does not count as another process.
    pub processes: u64,
    /// Threads seen, counted in the same way.
    pub threads: u64,
    /// Why the run ended before the program did, if it did.
    pub stopped: Option<String>,
    /// Processes that a signal ended, by signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalEnd>,
    /// Limits of the recorder that the program met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<RecorderLimit>,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// What the program said about huge pages.
    #[serde(default, skip_serializing_if = "HugePageWords::is_empty")]
    pub huge_pages: HugePageWords,
    /// The allocator of the process that ran most, if it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    /// For a run of which only the traps were seen: lookups, references and hits are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traps: Option<TrapUse>,
    /// For a whole system: what it did, by context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestUse>,
    /// If only windows of the run were simulated: which. Counts of TLBs, their cycles and energy are estimates of the
    /// whole then; those of operating systems, references and memory are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowUse>,
    /// If a piece of the run was simulated and counted: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<PieceUse>,
}

/// A piece of a run. Numbers are of instructions, of references in traces without fetches.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PieceUse {
    /// Where it begins: a function, an address, or `mark` for the pieces that the program marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What was left out, before it and between marked pieces. Only its events took place.
    pub skipped_instructions: u64,
    /// What was simulated and not counted. Amounts of memory are those of all that was simulated.
    pub warmup_instructions: u64,
    /// The length of a phase, if what was counted is divided into phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_instructions: Option<u64>,
}

/// The windows of a run that were simulated. The first piece is one of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WindowUse {
    /// Of this many pieces one was counted, chosen at random. The piece before it warmed up the TLBs.
    pub one_in: u64,
    /// Instructions of a piece (references, in traces without fetches).
    pub window_instructions: u64,
    /// Windows that were counted.
    pub windows: u64,
    /// Instructions in them.
    pub counted_instructions: u64,
    /// The seed of the choice.
    pub seed: u64,
}

counters! {
    /// What programs said to the system about huge pages.
    HugePageWords {
        /// Bytes for which they asked for huge pages: MADV_HUGEPAGE, and MAP_HUGETLB in a recording with a pool. What
        /// is asked for twice counts twice.
        advised_bytes,
        /// Bytes for which they refused them: MADV_NOHUGEPAGE.
        refused_bytes,
        /// How often a process switched transparent huge pages off for itself, or started so:
        /// prctl(PR_SET_THP_DISABLE).
        switched_off,
    }
}

impl HugePageWords {
    /// Counts an event that says something about huge pages.
    pub fn follow(&mut self, op: &Op) {
        match op {
            Op::Advise { len, advice: event::Advice::HugePage, .. } => self.advised_bytes += len,
            Op::Advise { len, advice: event::Advice::NoHugePage, .. } => self.refused_bytes += len,
            Op::Thp(ThpRule::Advised | ThpRule::Never) => self.switched_off += 1,
            _ => {}
        }
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What was seen of a run by its traps (T94-70).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TrapUse {
    /// Microseconds from the beginning of the run to its end.
    pub microseconds: u64,
    /// Microseconds in which the program ran in user mode: its own time, without its traps and system calls.
    pub own_microseconds: u64,
    /// Traps that were simulated.
    pub simulated: u64,
    /// How often another thread or process went on than the one before, among those that trap.
    #[serde(default)]
    pub switches: u64,
    /// If less than everything was simulated: what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleUse>,
    /// What the work that was simulated takes without traps, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<NativeUse>,
}

/// The time of a piece of work in a run without traps.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NativeUse {
    /// Microseconds in user mode.
    pub user_microseconds: u64,
    /// Clock of the processor at work, measured.
    pub kilohertz: u64,
}

impl NativeUse {
    /// Cycles in user mode.
    pub fn cycles(&self) -> f64 {
        self.user_microseconds as f64 * self.kilohertz as f64 / 1000.0
    }
}

/// The part of a run that was simulated. All counts and memory are of this part alone; only
/// [`MissEstimate`] is about the whole.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SampleUse {
    /// Classes of pages that were simulated; pages of a class are whole sets in every array of every machine.
    pub classes: u64,
    /// All classes.
    pub of_classes: u64,
    /// The program's own time that estimates are about. It begins after what was measured for an automatic choice.
    pub microseconds: u64,
}

/// The misses of the whole run, estimated from a sample.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MissEstimate {
    /// Expected misses in [`SampleUse::microseconds`].
    pub misses: f64,
    /// Their standard error; absent if there is one class, which says nothing about the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
}

/// Misses over time, of one design: equal slices of the run, measured in references.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Lookups per slice, in 4 KB pages whatever the base page of the machine; the last slice may be shorter.
    pub slice_lookups: u64,
    /// Microseconds per slice instead, in a run of which only the traps were seen; else absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slice_microseconds: u64,
    /// Misses in each slice.
    pub misses: Vec<u64>,
}

/// Memory in use over time, of one operating system: at the end of each of equal slices of the run, measured in
/// references (DS13-33).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryTimeline {
    /// Lookups per slice, in 4 KB pages whatever the base page of the machine; the last slice may be shorter.
    pub slice_lookups: u64,
    /// Microseconds per slice instead, in a run of which only the traps were seen; else absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slice_microseconds: u64,
    /// Physical memory in use: pages with contents. At most 257 values, as of the other list.
    pub resident_bytes: Vec<u64>,
    /// Virtual memory in regions, guards left out; 0 for a trace without map events.
    pub virtual_bytes: Vec<u64>,
}

/// Misses in one region of the address space, of one design.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RegionMisses {
    /// Its name: `text gcc`, `libc.so.6`, `heap`, `stack`, `anonymous`.
    pub region: String,
    /// Fetch misses.
    pub fetch_misses: u64,
    /// Load and store misses.
    pub data_misses: u64,
}

/// One line of the cost ledger (T94-78): what a mechanism saved or cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The mechanism, in the words of T94's Tables 2 to 4.
    pub item: String,
    /// How often.
    pub count: u64,
    /// Unit of `count`: `misses`, `pages`, `bytes`, ...
    pub unit: String,
    /// Cycles charged (positive) or saved against the 4 KB single-page-size design of the same run (negative); absent
    /// where the model puts no price on it.
    pub cycles: Option<i64>,
}

/// Fragmentation and the cost of compaction (F-14), derived from [`CompactionUse`]. An index has a value for each block
/// order: the percentage of free memory that lies in smaller blocks and so cannot serve a block of this order (Linux:
/// the unusable free space index); 100 where nothing is free.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CompactionCost {
    /// When the system started.
    pub unusable_at_start: Vec<f64>,
    /// Before the runs of compaction, weighted by free memory; empty without any.
    pub unusable_before: Vec<f64>,
    /// After them.
    pub unusable_after: Vec<f64>,
    /// When the run stopped.
    pub unusable_at_end: Vec<f64>,
    /// Free blocks of size `compaction_block` that the runs of compaction gained, net.
    pub regained_blocks: i64,
    /// Copying, at 0.3 seconds for each GB (DS13-13).
    pub copy_seconds: f64,
}

/// What a design costs: pure functions of counts and configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Cycles spent on TLB misses: misses x penalty + further page table entries x their cost (T94-26).
    pub cycles: u64,
    /// Of `cycles`, those of page walks by hardware; absent where nothing walked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_cycles: Option<u64>,
    /// Cycles the operating system spent on faults, populating, promotion, copying, by the cost knobs.
    pub os_cycles: u64,
    /// `cycles` per instruction; absent for traces without fetches.
    pub cycles_per_instruction: Option<f64>,
    /// Share of run time spent on TLB misses, in percent, at `cpi` cycles for everything else; absent without fetches.
    pub percent_of_time: Option<f64>,
    /// All cycles per instruction that `percent_of_time` is a share of (SV97-45): `cycles`, and everything else. With
    /// caches that is `cpi` and the program's own cache misses. Absent without fetches.
    #[serde(default)]
    pub total_cycles_per_instruction: Option<f64>,
    /// Area in register-bit equivalents (AREA-1); absent for organisations the model does not cover.
    pub area_rbe: Option<f64>,
    /// Fragmentation before and after compaction, and the cost of copying; absent without a buddy allocator or with
    /// unlimited memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionCost>,
    /// Energy of translation in pJ: the sum of [`Cost::energy`]; absent if that of some structure is not known.
    #[serde(default)]
    pub energy_pj: Option<f64>,
    /// What it is made of, and what is not known.
    #[serde(default)]
    pub energy: Energy,
    /// TLB reach: bytes that a TLB full of entries of the largest kind maps.
    pub reach_bytes: u64,
}

/// One machine of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MachineResult {
    /// Its name, as the user gave it.
    pub name: String,
    /// Every key with its resolved value.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// What hardware and operating system counted: [`TlbCounts`] and [`OsCounts`] in one object.
    pub counts: Counts,
    /// Misses of the whole, if counts are of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<MissEstimate>,
    /// What a machine with caches counted besides; absent for TLBs by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemCounts>,
    /// The program in the caches of a machine whose page-table walkers read through them (`walk_cost = caches`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheCounts>,
    /// The composition of its overhead (SV97-41); empty for TLBs by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overhead: Vec<OverheadRow>,
    /// Memory.
    pub memory: MemoryUse,
    /// Contiguity, if the operating system keeps ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contiguity: Option<Contiguity>,
    /// Fragmentation and compaction, if memory is limited and has a buddy allocator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionUse>,
    /// Direct segments, if the system makes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentUse>,
    /// What an ideal direct segment would save, for machines with a page-table walker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_segment: Option<IdealSegment>,
    /// Cost.
    pub cost: Cost,
    /// Phase by phase, if what was counted is divided into phases ([`PieceUse::phase_instructions`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Benefit and cost side by side.
    pub ledger: Vec<LedgerLine>,
    /// Misses over time.
    pub timeline: Timeline,
    /// Memory over time.
    #[serde(default)]
    pub memory_over_time: MemoryTimeline,
    /// Misses by region, most first.
    pub regions: Vec<RegionMisses>,
    /// For a whole system: what was counted by context, and the flushes that it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestCounts>,
}

/// A phase of a run, as one machine counted it. The phases add up to the whole, but for roundings of cycles.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Instructions; of the last phase those that there were.
    pub instructions: u64,
    /// Lookups in base pages of the machine.
    pub lookups: u64,
    /// Misses.
    pub misses: u64,
    /// Of these, of fetches.
    pub fetch_misses: u64,
    /// Of these, of loads and stores.
    pub data_misses: u64,
    /// Page faults.
    pub page_faults: u64,
    /// Cycles of misses, as [`Cost::cycles`].
    pub cycles: u64,
    /// Cycles of the operating system, as [`Cost::os_cycles`].
    pub os_cycles: u64,
    /// Physical memory in use at its end.
    pub resident_bytes: u64,
}

/// Hardware and operating-system counts, one flat JSON object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Of the design.
    #[serde(flatten)]
    pub tlb: TlbCounts,
    /// Of the policy it ran on.
    #[serde(flatten)]
    pub os: OsCounts,
}

/// Everything a run found: what `--json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// What ran.
    pub workload: Workload,
    /// Design by design, in the order asked for.
    pub machines: Vec<MachineResult>,
}
