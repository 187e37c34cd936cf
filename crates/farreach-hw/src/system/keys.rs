//! The keys of these machines, and the parts built from them.

use crate::cache::Shape;
use farreach_types::addr::BASE_SHIFT;
pub use farreach_types::params::SEED;
use farreach_types::params::{Allowed, Key, Params};

const SIZE: Allowed = Allowed::PageSize { min: 64, max: 1 << 30 };
const LINE: Allowed = Allowed::PageSize { min: 16, max: 1024 };
const CACHE_WAYS: Allowed = Allowed::Int { min: 0, max: 64 };

/// First level.
pub const L1_SIZE: Key =
    Key { name: "l1_size", default: "8K", allowed: SIZE, about: "bytes of the first-level cache, each side" };
/// Second level.
pub const L2_SIZE: Key =
    Key { name: "l2_size", default: "512K", allowed: SIZE, about: "bytes of the second-level cache, each side" };
/// Both levels.
pub const CACHE_LINE: Key = Key { name: "line", default: "16", allowed: LINE, about: "bytes of a first-level line" };
/// AMB-48.
pub const L2_LINE: Key = Key {
    name: "l2_line",
    default: "line",
    allowed: Allowed::Size { min: 16, or: "line" },
    about: "bytes of a second-level line: a power of two up to 4K, not less than `line`; `line`: the same",
};
/// SV97-25.
pub const L1_WAYS: Key = Key {
    name: "l1_ways",
    default: "1",
    allowed: CACHE_WAYS,
    about: "lines per set of the first level, LRU; 0: fully associative",
};
/// SV97-25.
pub const L2_WAYS: Key = Key {
    name: "l2_ways",
    default: "1",
    allowed: CACHE_WAYS,
    about: "lines per set of the second level, LRU; 0: fully associative",
};
/// SV97-24.
pub const ID_BITS: Key = Key {
    name: "id_bits",
    default: "24",
    allowed: Allowed::Int { min: 1, max: super::global::ID_BITS as u64 },
    about: "bits of a segment identifier; when all are taken, the oldest is flushed and used again",
};
/// SV97-16.
pub const HANDLER_INSTRUCTIONS: Key = Key {
    name: "handler_instructions",
    default: "10",
    allowed: Allowed::Int { min: 0, max: 256 },
    about: "instructions of the miss handler, 4 bytes each, fetched through the instruction side; 0: it is no code, or \
            has a place of its own",
};
/// Its place in the caches decides which lines of the program it displaces at each run. The default is the vector of a
/// data storage interrupt on the PowerPC. Programs begin their text, and parts of it, at round addresses, with which a
/// handler at a round address would collide.
pub const HANDLER_AT: Key = Key {
    name: "handler_at",
    default: "768",
    allowed: Allowed::Int { min: 0, max: super::global::kernel::MOST_OFFSET },
    about: "where the code of the miss handler begins, in bytes from the physical address 0xFF000000; a multiple of 4",
};
/// SV97-20, SV97-21, F-17.
pub const WRITE_BACK: Key = Key {
    name: "write_back",
    default: "discard",
    allowed: Allowed::OneOf(&["discard", "keep"]),
    about: "what a line knows of its physical address: discard: nothing, writing it back runs the handler again; keep: \
            all",
};
/// SV97-21.
pub const ON_REMAP: Key = Key {
    name: "on_remap",
    default: "flush",
    allowed: Allowed::OneOf(&["flush", "leave"]),
    about: "lines of pages whose mapping changes; leave: they stay, to count the write-backs that go astray",
};
/// SV97-22, F-16.
pub const LAZY_RAISE: Key = Key {
    name: "lazy_raise",
    default: "false",
    allowed: Allowed::Flag,
    about: "when protection is only raised, lines stay as they are and are put right at the first trap; otherwise \
            every change sweeps",
};
/// SV97-17.
pub const SYNONYMS: Key = Key {
    name: "synonyms",
    default: "flush",
    allowed: Allowed::OneOf(&["flush", "aligned", "none"]),
    about: "writable memory seen through two pages: flush: lines of the other page go first; aligned: only where the \
            two pages do not fall on the same lines (direct-mapped caches only); none: both stay, data may be stale",
};
/// SV97-18, F-23.
pub const TABLE: Key = Key {
    name: "table",
    default: "linear",
    allowed: Allowed::Text, // one of the registry; see `tables::TABLES`
    about: "page table behind the handler",
};
/// Buckets of the hashed organisations.
pub const BUCKETS: Key = Key {
    name: "buckets",
    default: "4096",
    allowed: Allowed::PowerOfTwo { min: 16, max: 1 << 20 },
    about: "buckets of a hashed or clustered page table",
};

/// Keys of every machine of the family.
pub const CACHE_KEYS: [&Key; 6] = [&L1_SIZE, &L2_SIZE, &CACHE_LINE, &L2_LINE, &L1_WAYS, &L2_WAYS];

/// First and second level of one side. Checks are [`Side::new`](crate::cache::Side::new)'s.
pub fn shapes(params: &Params) -> (Shape, Shape) {
    let line = params.int(CACHE_LINE.name);
    let shape =
        |size: Key, line: u64, ways: Key| Shape { size: params.int(size.name), line, ways: params.int(ways.name) };
    (shape(L1_SIZE, line, L1_WAYS), shape(L2_SIZE, params.size(L2_LINE.name).unwrap_or(line), L2_WAYS))
}

/// The handling of synonyms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synonyms {
    /// The other page is flushed.
    Flush,
    /// It is flushed unless both pages fall on the same lines: equal low bits of the page number, as many as this mask
    /// has.
    Aligned(u64),
    /// Nothing.
    None,
}

impl Synonyms {
    /// From the keys.
    pub fn of(params: &Params) -> Result<Synonyms, String> {
        let (l1, l2) = shapes(params);
        match params.text(SYNONYMS.name) {
            "aligned" if (l1.ways, l2.ways) != (1, 1) => Err(
                "synonyms = aligned is not allowed: it is safe for direct-mapped virtual caches only (l1_ways, l2_ways \
                 = 1)"
                    .into(),
            ),
            "aligned" => Ok(Synonyms::Aligned((l1.size.max(l2.size) >> BASE_SHIFT).max(1) - 1)),
            "none" => Ok(Synonyms::None),
            _ => Ok(Synonyms::Flush),
        }
    }

    /// Whether lines of `other` must be flushed before lines of `page` are brought in, both global page numbers of the
    /// same frame.
    pub fn must_flush(self, page: u64, other: u64) -> bool {
        match self {
            Synonyms::Flush => true,
            Synonyms::Aligned(mask) => (page ^ other) & mask != 0,
            Synonyms::None => false,
        }
    }
}
