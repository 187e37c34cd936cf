//! The keys that designs share, and their parsed values.

use farreach_types::params::{Allowed, Key, Params};
pub use farreach_types::params::{PAGE_SIZE, SEED};

/// Number of entries.
pub const ENTRIES: Key =
    Key { name: "entries", default: "64", allowed: Allowed::Int { min: 1, max: 65536 }, about: "TLB entries" };
/// Associativity (T94-15, T94-16).
pub const WAYS: Key = Key {
    name: "ways",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries per set; 0: fully associative",
};
/// Subblock factor, `n` in T94.
pub const FACTOR: Key = Key {
    name: "factor",
    default: "16",
    allowed: Allowed::PowerOfTwo { min: 1, max: 64 },
    about: "base pages per subblock entry",
};
/// Page sizes that an entry can have.
pub const SIZES: Key = Key {
    name: "sizes",
    default: "4K+64K",
    allowed: Allowed::PageSizes { min: 4096, max: 1 << 30 },
    about: "page sizes an entry can have, page_size first",
};
/// Victim choice (T94-14).
pub const REPLACEMENT: Key = Key {
    name: "replacement",
    default: "used-bit",
    allowed: Allowed::OneOf(&["used-bit", "lru", "plru", "fifo", "random", "lfsr"]),
    about: "how a victim is chosen; invalid entries go first; used-bit: NRU; plru: by a tree of bits; lfsr: at random \
            by a shift register",
};
/// Victims in the first level of a hierarchy, if it has a policy of its own.
pub const L1_REPLACEMENT: Key = Key {
    name: "l1_replacement",
    default: "same",
    allowed: Allowed::OneOf(&["same", "used-bit", "lru", "plru", "fifo", "random"]),
    about: "how the first level chooses a victim, if not as the rest (same)",
};
/// AMB-3.
pub const FILL_SETS_USED: Key = Key {
    name: "fill_sets_used",
    default: "true",
    allowed: Allowed::Flag,
    about: "used-bit replacement: the access that missed sets the used bit of the entry it filled",
};
/// T94-22.
pub const PRELOAD: Key = Key {
    name: "preload",
    default: "none",
    allowed: Allowed::OneOf(&["none", "same-entry", "region"]),
    about: "what a miss loads beside its own page",
};
/// T94-22.
pub const ASSISTED_CHECK: Key = Key {
    name: "assisted_check",
    default: "false",
    allowed: Allowed::Flag,
    about: "preload: hardware compares the page table entries at the cost of one read per miss",
};
/// Whether tags carry the process.
pub const PROCESS_IDS: Key = Key {
    name: "process_ids",
    default: "true",
    allowed: Allowed::Flag,
    about: "entries carry a process id; without, a process switch drops them all",
};

/// Translations that a miss loads beside its own (T94-22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preload {
    /// Nothing.
    None,
    /// Mapped pages of the region that share the entry being filled.
    SameEntry,
    /// All mapped pages of the region, even if they need further entries.
    Region,
}

impl Preload {
    /// From the key `preload`.
    pub fn of(params: &Params) -> Preload {
        match params.text("preload") {
            "same-entry" => Preload::SameEntry,
            "region" => Preload::Region,
            _ => Preload::None,
        }
    }
}
