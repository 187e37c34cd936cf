//! Cycles from counts.

use super::{keys, parts};
use farreach_hw::tlb::cores::IPI_CYCLES;
use farreach_hw::tlb::segment::VM_EXIT_CYCLES;
use farreach_hw::tlb::shared::{SLL_EXTRA, sharers};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::{OsCounts, TlbCounts};
use farreach_types::params::{Key, PAGE_SIZE, Params};

/// Cycles spent on TLB misses (T94-26): misses x penalty + further page table entries read x their cost + hits in a
/// second level x theirs (PS-12). A miss that hardware walks for costs [`walk_cycles`] instead, and a hit of a range
/// alone has its own price.
pub fn miss_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    let rest = [
        (trapped(counts), price(params, &keys::PENALTY)),
        (counts.range.sole_hits, price(params, &keys::RANGE_HIT)),
        (counts.extra_pte_reads, price(params, &keys::PTE_COST)),
        (counts.second_level_fetch_hits, price(params, &keys::L2_FETCH)),
        (counts.second_level_data_hits, price(params, &keys::L2_DATA)),
        (1, parts::addition_cycles(counts, params)),
        (1, shared_cycles(counts, params) as f64),
    ];
    charge(&[&rest[..], &walks(counts, params)].concat())
}

/// Hits of a second level that cores share.
pub(super) fn shared_hits(counts: &TlbCounts, params: &Params) -> u64 {
    if sharers(params) > 1 { counts.second_level_fetch_hits + counts.second_level_data_hits } else { 0 }
}

/// Cycles of their way there and back (SLL-3).
pub fn shared_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    let hits = shared_hits(counts, params);
    if hits > 0 { charge(&[(hits, price(params, &SLL_EXTRA))]) } else { 0 }
}

/// Cycles of page walks by hardware: each node, or each step of other page tables, at its fixed price, or at the
/// latency of what answered; those for which the program did not wait cost nothing. Searches of range tables cost
/// nothing, for the program runs on meanwhile (RMM15-5).
pub fn walk_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    charge(&walks(counts, params))
}

fn walks(counts: &TlbCounts, params: &Params) -> Vec<(u64, f64)> {
    let table = (1, parts::table_cycles(counts, params) - parts::hidden_cycles(counts, params));
    let answered = counts.walk_caches.page_tables();
    if answered.total() == 0 {
        return vec![(counts.walk_references(), price(params, &keys::WALK_REFERENCE)), table];
    }
    [&parts::latencies(&answered, params)[..], &[table]].concat()
}

/// Misses that no hardware walks for.
pub(super) fn trapped(counts: &TlbCounts) -> u64 {
    counts.misses - counts.walk.walks
}

/// Cycles the operating system spent, each step at its own price (T94-26, T94-41).
pub fn os_cycles(os: &OsCounts, params: &Params) -> u64 {
    charge(&[
        (faults(os), price(params, &keys::FAULT)),
        (populated(os), price(params, &keys::POPULATE)),
        (os.pt_probes, price(params, &keys::CHECK)),
        (copies(os) * base_pages(params), price(params, &keys::COPY)),
        (os.zeroed_pages * base_pages(params), price(params, &keys::ZERO)),
        (io_pages(os), price(params, &keys::IO)),
    ])
}

/// Cycles of shootdowns (DS13-24), of the operating system: interrupts to other cores, and what its mechanism prices
/// (OSC-4).
pub fn shootdown_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    interrupt_cycles(counts, params) + charge(&[(1, parts::flush_cycles(counts, params))])
}

/// Cycles of interrupts to other cores.
pub(super) fn interrupt_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    let key = &IPI_CYCLES;
    if params.has(key.name) { charge(&[(counts.shootdown.ipis, price(params, key))]) } else { 0 }
}

/// Cycles of the hypervisor for what a guest writes to its segment registers (F-15).
pub fn hypervisor_cycles(counts: &TlbCounts, params: &Params) -> u64 {
    let key = &VM_EXIT_CYCLES;
    if params.has(key.name) { charge(&[(counts.segment.traps, price(params, key))]) } else { 0 }
}

/// Traps into the operating system: for a missing page, or for a store to a read-only page.
pub(super) fn faults(os: &OsCounts) -> u64 {
    os.page_faults + os.protection_faults
}

/// Pages that were mapped one by one although nothing had touched them. The pages of a superpage that a fault mapped as
/// a whole cost only the fault, apart from their contents.
pub(super) fn populated(os: &OsCounts) -> u64 {
    os.populated_pages.saturating_sub(os.populated_in_superpages)
}

/// Pages copied, for copy-on-write and to make memory contiguous.
pub(super) fn copies(os: &OsCounts) -> u64 {
    os.cow_copies + os.gathered_pages
}

/// 4 KB pages in a base page of the machine: prices of moving bytes are per 4 KB.
pub(super) fn base_pages(params: &Params) -> u64 {
    params.int(PAGE_SIZE.name) >> BASE_SHIFT
}

/// 4 KB pages read from files.
pub(super) fn io_pages(os: &OsCounts) -> u64 {
    os.io_bytes.div_ceil(1 << BASE_SHIFT)
}

/// Sum of count x price, rounded once.
pub(super) fn charge(items: &[(u64, f64)]) -> u64 {
    items.iter().map(|&(count, price)| count as f64 * price).sum::<f64>().round() as u64
}

/// The price a machine sets for something.
pub(super) fn price(params: &Params, key: &Key) -> f64 {
    params.number(key.name)
}

/// Share of run time in percent, if everything but TLB misses takes `cpi` cycles per instruction.
pub fn percent_of_time(miss_cycles: u64, instructions: u64, cpi: f64) -> Option<f64> {
    let rest = cpi * instructions as f64;
    (instructions > 0).then(|| 100.0 * miss_cycles as f64 / (miss_cycles as f64 + rest))
}

/// Cycles per instruction, if everything but `cycles` takes `cpi` of them.
pub(super) fn total(cycles: u64, instructions: u64, cpi: f64) -> Option<f64> {
    (instructions > 0).then(|| cpi + cycles as f64 / instructions as f64)
}

/// T94-73: percent of a measured user time spent on misses of `penalty` cycles at `clock_mhz`. The user time includes
/// them.
///
/// ```
/// // Table 5, coral: 85974 thousand misses in 172 seconds at 40 MHz and 40 cycles.
/// assert_eq!(farreach_cost::cycles::percent_of_user_time(85_974_000, 40.0, 172.0, 40.0).round(), 50.0);
/// ```
pub fn percent_of_user_time(misses: u64, penalty: f64, user_seconds: f64, clock_mhz: f64) -> f64 {
    100.0 * misses as f64 * penalty / (user_seconds * clock_mhz * 1e6)
}

/// Cycles per instruction that an event adds, given how often it happens per instruction (the rows of SV97's Table 4).
pub fn event_cpi(per_instruction: f64, penalty: f64) -> f64 {
    per_instruction * penalty
}

/// DS13-31: remaining overhead, in percent, when a share of the misses disappears. The run time is taken as unchanged.
pub fn linear_model(overhead_percent: f64, share_removed: f64) -> f64 {
    overhead_percent * (1.0 - share_removed)
}

/// As [`linear_model`], but relative to the run that has become shorter: `c(1-q) / (1-cq)` (AMB-66).
pub fn renormalised_model(overhead_percent: f64, share_removed: f64) -> f64 {
    linear_model(overhead_percent, share_removed) / (1.0 - overhead_percent / 100.0 * share_removed)
}

/// Changing the protection of one page in a cache hierarchy that keeps it per line (SV97-44).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProtectionSweep {
    /// Bytes per page.
    pub page: u64,
    /// Bytes per line.
    pub line: u64,
    /// Lines of the page in the first-level cache that must change.
    pub l1_changed: u64,
    /// Lines of the page in the second-level cache that must change.
    pub l2_changed: u64,
    /// Cycles to look at a first-level line, and to look and change.
    pub l1_cycles: (u64, u64),
    /// Cycles to look at a second-level line, and to look and change.
    pub l2_cycles: (u64, u64),
}

impl ProtectionSweep {
    /// The sweep of the paper: 4 KB page, 16-byte lines, 10 first-level and 50 second-level lines present.
    pub const SV97: ProtectionSweep = ProtectionSweep {
        page: 4096,
        line: 16,
        l1_changed: 10,
        l2_changed: 50,
        l1_cycles: (3, 5),
        l2_cycles: (20, 40),
    };

    /// Cycles per changed page.
    pub fn cycles(&self) -> u64 {
        let lines = self.page / self.line;
        let level = |changed: u64, (look, change): (u64, u64)| changed * change + (lines - changed) * look;
        level(self.l1_changed, self.l1_cycles) + level(self.l2_changed, self.l2_cycles)
    }

    /// Cycles per instruction at this many changes per million instructions.
    pub fn cpi(&self, changes_per_million: f64) -> f64 {
        self.cycles() as f64 * changes_per_million / 1e6
    }
}

/// The memory of a range table kept as a B-tree (RMM15-7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeTable {
    /// Ranges in a node; a node has one child more.
    pub ranges_per_node: u64,
    /// Bits of one range: base, limit, offset and protection.
    pub range_bits: u64,
    /// Bytes of a child pointer.
    pub pointer: u64,
    /// Bytes that a node occupies: whole cache lines.
    pub node_size: u64,
}

impl RangeTable {
    /// The table of the paper.
    pub const RMM15: RangeTable =
        RangeTable { ranges_per_node: 4, range_bits: 36 + 36 + 64, pointer: 8, node_size: 128 };

    /// Bytes of a node in use.
    pub fn node_bytes(&self) -> u64 {
        self.ranges_per_node * self.range_bits / 8 + (self.ranges_per_node + 1) * self.pointer
    }

    /// Ranges in a full tree of this many levels.
    pub fn ranges_in_levels(&self, levels: u32) -> u64 {
        let nodes: u64 = (0..levels).map(|level| (self.ranges_per_node + 1).pow(level)).sum();
        nodes * self.ranges_per_node
    }

    /// Ranges that fit in this many bytes of nodes.
    pub fn ranges_in_bytes(&self, bytes: u64) -> u64 {
        bytes / self.node_size * self.ranges_per_node
    }
}
