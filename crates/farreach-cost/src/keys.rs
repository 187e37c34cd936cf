//! Prices, as keys of a machine. Where the papers print a price, it is the default; the others are stated assumptions
//! about a workstation of T94's time (40 MHz), which users set to known values.

use farreach_types::params::{Allowed, Key, PAGE_SIZE};

const PRICE: Allowed = Allowed::Number { min: 0.0, max: 1e12 };

/// T94-73: a miss costs 40 cycles.
pub const PENALTY: Key = Key { name: "penalty", default: "40", allowed: PRICE, about: "cycles per TLB miss" };
/// Assumed: a load that hits the cache, and the test of the loaded entry.
pub const PTE_COST: Key = Key {
    name: "pte_cost",
    default: "2",
    allowed: PRICE,
    about: "cycles per page table entry a miss reads beyond the first",
};
/// PS-12: an L1 miss of a fetch that hits L2 on the Itanium 2.
pub const L2_FETCH: Key = Key {
    name: "l2_hit_fetch_cycles",
    default: "2",
    allowed: PRICE,
    about: "cycles per fetch that only the second level of a TLB answers",
};
/// PS-12: as before, loads and stores.
pub const L2_DATA: Key = Key {
    name: "l2_hit_data_cycles",
    default: "4",
    allowed: PRICE,
    about: "cycles per load or store that only the second level of a TLB answers",
};
/// Assumed: each node is read from a second-level cache, as fast as on the Sandy Bridge class machines of DS13 and
/// RMM15.
pub const WALK_REFERENCE: Key = Key {
    name: "walk_reference_cycles",
    default: "12",
    allowed: PRICE,
    about: "cycles per page table node that a hardware walker reads; its misses cost no penalty",
};
/// RMM15-3: as long as a second level takes.
pub const RANGE_HIT: Key = Key {
    name: "range_hit_cycles",
    default: "7",
    allowed: PRICE,
    about: "cycles per lookup behind the first level that only the range TLB answers",
};
/// Assumed within the 1500 to 4000 cycles that T94-71 gives for a trap that changes a mapping.
pub const FAULT: Key = Key {
    name: "fault_cycles",
    default: "2000",
    allowed: PRICE,
    about: "cycles per fault: trap, finding the page, mapping it, return",
};
/// Assumed: a tenth, that is a fault without its trap. A superpage that a fault maps as a whole is one mapping: its
/// pages cost only their zeros.
pub const POPULATE: Key = Key {
    name: "populate_cycles",
    default: "200",
    allowed: PRICE,
    about: "cycles per page mapped by promotion or a request, contents not counted; none for superpages that come \
            whole",
};
/// Assumed equal to [`PTE_COST`].
pub const CHECK: Key = Key {
    name: "check_cycles",
    default: "2",
    allowed: PRICE,
    about: "cycles per page table entry that faults and promotion checks look at",
};
/// Assumed: 512 loads and 512 stores of 8 bytes, 2 cycles each.
pub const COPY: Key =
    Key { name: "copy_cycles", default: "2048", allowed: PRICE, about: "cycles per 4 KB page copied" };
/// Assumed: 512 stores of 8 bytes, 2 cycles each.
pub const ZERO: Key =
    Key { name: "zero_cycles", default: "1024", allowed: PRICE, about: "cycles per 4 KB page filled with zeros" };
/// Assumed: 4 MB/s from a disk that reads in sequence, nothing overlapped. 0 stands for files already in memory.
pub const IO: Key = Key {
    name: "io_cycles",
    default: "40000",
    allowed: PRICE,
    about: "cycles per 4 KB page read from a file; 0 if all are cached",
};
/// Assumed: a processor that waits only for its TLB.
pub const CPI: Key = Key {
    name: "cpi",
    default: "1.0",
    allowed: Allowed::Number { min: 0.001, max: 1e6 },
    about: "cycles per instruction without TLB misses",
};
/// That of the library in which all structures were synthesised.
pub const TECHNOLOGY: Key = Key {
    name: "technology",
    default: "180",
    allowed: Allowed::Int { min: 22, max: 350 },
    about: "feature size in nm that energies are scaled to: with it, and the square of its usual supply voltage",
};
/// T94-73: all ten rows of Table 5 hold at 40 MHz.
pub const CLOCK: Key = Key {
    name: "clock_mhz",
    default: "40",
    allowed: Allowed::Number { min: 0.001, max: 1e6 },
    about: "clock in MHz, to show cycles as seconds",
};

/// SV97-40: handler or state machine, for each run, without the misses of its code and loads.
pub const HANDLER: Key = Key {
    name: "handler_cycles",
    default: "10",
    allowed: PRICE,
    about: "cycles per run of the miss handler or walker",
};
/// SV97-40.
pub const L2: Key =
    Key { name: "l2_cycles", default: "20", allowed: PRICE, about: "cycles per access to the second-level cache" };
/// SV97-40.
pub const MEMORY: Key =
    Key { name: "memory_cycles", default: "90", allowed: PRICE, about: "cycles per access to memory" };
/// SV97-44.
pub const SWEEP_L1_CHANGE: Key = Key {
    name: "sweep_l1_change_cycles",
    default: "5",
    allowed: PRICE,
    about: "protection sweep: cycles per first-level line found and changed",
};
/// SV97-44.
pub const SWEEP_L1_LOOK: Key = Key {
    name: "sweep_l1_look_cycles",
    default: "3",
    allowed: PRICE,
    about: "protection sweep: cycles per first-level line that is not found",
};
/// SV97-44.
pub const SWEEP_L2_CHANGE: Key = Key {
    name: "sweep_l2_change_cycles",
    default: "40",
    allowed: PRICE,
    about: "protection sweep: cycles per second-level line found and changed",
};
/// SV97-44.
pub const SWEEP_L2_LOOK: Key = Key {
    name: "sweep_l2_look_cycles",
    default: "20",
    allowed: PRICE,
    about: "protection sweep: cycles per second-level line that is not found",
};
/// Assumed: an exception of a simple pipeline, two dozen instructions, and the return.
pub const TRAP: Key =
    Key { name: "trap_cycles", default: "50", allowed: PRICE, about: "cycles per protection trap of a line" };
/// Assumed: a trap, and 64 entries each way between URPT and kernel memory, a load and a store each.
pub const SEGMENT: Key = Key {
    name: "segment_cycles",
    default: "300",
    allowed: PRICE,
    about: "cycles to load a segment register and its part of the URPT",
};

/// The prices of a TLB by itself.
pub const COST_KEYS: &[&Key] = &[
    &PENALTY,
    &WALK_REFERENCE,
    &PTE_COST,
    &L2_FETCH,
    &L2_DATA,
    &RANGE_HIT,
    &TECHNOLOGY,
    &FAULT,
    &POPULATE,
    &CHECK,
    &COPY,
    &ZERO,
    &IO,
    &CPI,
    &CLOCK,
    &PAGE_SIZE,
];
/// Of those, the ones that every machine has.
pub const COMMON_KEYS: &[&Key] = COST_KEYS.split_at(7).1;
/// Prices that a machine with caches has instead of the others.
pub const SYSTEM_KEYS: &[&Key] =
    &[&HANDLER, &L2, &MEMORY, &SWEEP_L1_CHANGE, &SWEEP_L1_LOOK, &SWEEP_L2_CHANGE, &SWEEP_L2_LOOK, &TRAP, &SEGMENT];
