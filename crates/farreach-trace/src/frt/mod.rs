//! The farreach trace, `.frt`: the event stream in independent compressed chunks.
//! `docs/book/src/reference/trace-format.md` is the exact layout.
//!
//! `wire` reads and writes bytes, `ops` codes events, `guests` those of whole systems, `model` predicts blocks and
//! addresses for `encode` and `decode`. `coder` makes chunks, `farm` has several coders, `sink` is the file that chunks
//! are put into; [`writer`] is what callers see of them, and [`reader`] takes chunks out again.

mod coder;
mod columns;
mod decode;
mod encode;
mod farm;
mod guests;
pub(crate) mod model;
pub(crate) mod ops;
pub mod reader;
mod sink;
pub(crate) mod wire;
pub mod writer;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::input::Input;
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::MAX_INSTR_BYTES;
use farreach_types::plural::with_noun;

pub use reader::FrtReader;
pub use writer::TraceWriter;

/// The first bytes of every farreach trace. Not text, and damaged by any transfer that changes line ends.
pub const MAGIC: [u8; 8] = *b"\x89FRT\r\n\x1a\n";
/// The last bytes of every finished farreach trace.
pub const END_MAGIC: [u8; 8] = *b"FRT-END\n";
/// The last version that this library writes. It reads this one and all before it.
///
/// 2: chunks of up to 2^23 words instead of 2^21. Predictions, which begin anew with each chunk, are learned less
/// often: smaller files in less time.
///
/// 3: steps 4, 5 and 7, for executions whose addresses are all as predicted: they need no codes. Written and read in
/// less time.
///
/// 4: events of whole systems.
///
/// 5: translations that a processor used though another had changed them.
///
/// 6: blocks whose references share address words, which are stored once. Written and read in less time. Page traces.
///
/// 7: what the kernel stores for a program.
pub const VERSION: u32 = 7;
/// The first version with events of whole systems.
pub(crate) const GUESTS_SINCE: u32 = 4;
/// The first version with steps for executions that are as predicted.
pub(crate) const PREDICTED_SINCE: u32 = 3;
/// The first version with blocks whose references share address words, and with page traces.
pub(crate) const SHARED_SINCE: u32 = 6;
/// The first version with stores of the kernel.
pub(crate) const KERNEL_STORES_SINCE: u32 = 7;

/// Most bytes of the JSON header.
pub const MAX_HEADER_BYTES: u32 = 1 << 20;
/// A writer closes a chunk once it has this many words.
pub(crate) const CHUNK_WORDS: usize = 1 << 23;
/// A writer closes a chunk once its events take this many bytes.
pub(crate) const CHUNK_OP_BYTES: usize = 1 << 22;
/// Most instructions and most references of one block in a file.
pub const MAX_BLOCK_ITEMS: usize = 1 << 16;
/// Most bytes of code of a block.
pub(crate) const MAX_CODE_BYTES: usize = MAX_BLOCK_ITEMS * MAX_INSTR_BYTES as usize;
/// Most bytes of a path in a file.
pub const MAX_STRING_BYTES: usize = 1 << 16;
/// Most instructions plus references of all blocks together, each block counting [`BLOCK_ITEMS`] more. Bounds a
/// reader's memory to about a gigabyte, which only a program with millions of different blocks needs.
pub const MAX_DEFINED_ITEMS: usize = 1 << 26;
/// Memory of a block beside its instructions and references, in units of their size.
pub const BLOCK_ITEMS: usize = 16;
/// Most address spaces of a trace.
pub const MAX_ADDRESS_SPACES: u64 = 1 << 20;
/// Most words of a chunk: the block that fills it may be as long as blocks get.
pub(crate) const MAX_CHUNK_WORDS: usize = CHUNK_WORDS + MAX_BLOCK_ITEMS + 2;

/// Columns of a chunk, in file order.
pub(crate) const COLUMNS: usize = 5;
pub(crate) const OPS: usize = 0;
pub(crate) const STEPS: usize = 1;
pub(crate) const TARGETS: usize = 2;
pub(crate) const CODES: usize = 3;
pub(crate) const DATA: usize = 4;
/// Most bytes of each column before compression. Follows from the limits above.
pub(crate) const COLUMN_LIMITS: [usize; COLUMNS] =
    [1 << 24, 2 * MAX_CHUNK_WORDS, 5 * MAX_CHUNK_WORDS, MAX_CHUNK_WORDS, 8 * MAX_CHUNK_WORDS];

pub(crate) const CHUNK_TAG: [u8; 4] = *b"CHNK";
pub(crate) const INDEX_TAG: [u8; 4] = *b"INDX";
pub(crate) const TRAILER_TAG: [u8; 4] = *b"TRLR";
pub(crate) const CHUNK_HEAD_BYTES: usize = 92;
pub(crate) const INDEX_ENTRY_BYTES: usize = 24;
pub(crate) const TRAILER_BYTES: usize = 88;

/// What a trace says about its origin. Empty means unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Path of the recorded program.
    pub program: String,
    /// Its arguments, the program's name first.
    pub arguments: Vec<String>,
    /// Facts of the environment that change what is recorded: page size, kernel, page policy, tool options.
    pub environment: BTreeMap<String, String>,
    /// When it was recorded: RFC 3339, UTC.
    pub date: String,
    /// What recorded it, with its version.
    pub recorder: String,
    /// Anything else; kept as it is.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// Sums over a whole trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Instruction fetches.
    pub instructions: u64,
    /// Loads that happened.
    pub loads: u64,
    /// Stores that happened.
    pub stores: u64,
    /// Events, definitions of blocks not counted.
    pub ops: u64,
    /// Definitions of blocks.
    pub blocks: u64,
    /// Programs begun: `Start`s without a parent, and `Fork`s. An exec continues its process.
    pub processes: u64,
    /// Address spaces that own at least one event or reference (definitions not counted).
    pub address_spaces: u64,
}

impl Totals {
    /// Fetches, loads and stores together.
    pub fn references(&self) -> u64 {
        self.instructions.saturating_add(self.loads).saturating_add(self.stores)
    }

    pub(crate) fn to_words(self) -> [u64; 7] {
        [self.instructions, self.loads, self.stores, self.ops, self.blocks, self.processes, self.address_spaces]
    }

    pub(crate) fn from_words(w: [u64; 7]) -> Totals {
        Totals {
            instructions: w[0],
            loads: w[1],
            stores: w[2],
            ops: w[3],
            blocks: w[4],
            processes: w[5],
            address_spaces: w[6],
        }
    }
}

/// Where a chunk begins and what came before it: one entry of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct IndexEntry {
    /// Byte of the file at which the chunk begins.
    pub offset: u64,
    /// Instructions in all chunks before it.
    pub instructions: u64,
    /// Fetches, loads and stores in all chunks before it.
    pub references: u64,
}

/// The fixed beginning of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkHead {
    pub number: u32,
    /// Address space at the beginning of the chunk.
    pub asid: u32,
    /// Records in the event column, changes of the address space included.
    pub records: u32,
    /// Words all batches of the chunk have together.
    pub words: u32,
    pub instructions: u64,
    pub loads: u64,
    pub stores: u64,
    /// Bytes of each column before and after compression; equal if the column is stored as it is.
    pub columns: [(u32, u32); COLUMNS],
    /// xxh3-64 of the head before this field and of the payload.
    pub hash: u64,
}

impl ChunkHead {
    /// The head without its hash.
    pub fn to_bytes(self) -> [u8; CHUNK_HEAD_BYTES - 8] {
        let mut out = Vec::with_capacity(CHUNK_HEAD_BYTES);
        out.extend_from_slice(&CHUNK_TAG);
        for n in [self.number, self.asid, self.records, self.words] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for n in [self.instructions, self.loads, self.stores] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for (raw, packed) in self.columns {
            out.extend_from_slice(&raw.to_le_bytes());
            out.extend_from_slice(&packed.to_le_bytes());
        }
        out.try_into().expect("the fields above have fixed sizes")
    }

    /// Reads a head that begins with [`CHUNK_TAG`]; refuses sizes that no writer produces.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEAD_BYTES]) -> std::result::Result<ChunkHead, String> {
        let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
        let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes"));
        let mut head = ChunkHead {
            number: u32_at(4),
            asid: u32_at(8),
            records: u32_at(12),
            words: u32_at(16),
            instructions: u64_at(20),
            loads: u64_at(28),
            stores: u64_at(36),
            columns: [(0, 0); COLUMNS],
            hash: u64_at(84),
        };
        if head.words as usize > MAX_CHUNK_WORDS {
            return Err(format!("it claims {} words; at most {MAX_CHUNK_WORDS} are possible", head.words));
        }
        for (i, limit) in COLUMN_LIMITS.into_iter().enumerate() {
            let (raw, packed) = (u32_at(44 + 8 * i), u32_at(48 + 8 * i));
            if raw as usize > limit || packed > raw || (packed == 0) != (raw == 0) {
                return Err(format!(
                    "column {i} claims {}, {packed} compressed; at most {limit} are possible",
                    with_noun(raw.into(), "byte")
                ));
            }
            head.columns[i] = (raw, packed);
        }
        Ok(head)
    }

    /// Bytes that follow the head.
    pub fn payload(&self) -> usize {
        self.columns.iter().map(|c| c.1 as usize).sum()
    }
}

/// The farreach trace, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "frt",
    about: "farreach trace: blocks, addresses and events in compressed chunks (starts with \\x89FRT)",
    lacks: "",
    settings: "",
    detect: |head| head.starts_with(&MAGIC[..4]),
    open: |input: Input, _| -> Result<Opened> {
        let mut info = input.info("frt");
        let reader = FrtReader::new(input)?;
        info.header = Some(reader.header().clone());
        Ok(Opened { source: Box::new(reader), info })
    },
};
