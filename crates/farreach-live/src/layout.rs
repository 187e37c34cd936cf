//! The numbers of `capture/valgrind/stream.h`, the contract with the recorder; a test compares the two files.

pub const MAGIC: u64 = 0x0031_4843_4145_5252;
pub const VERSION: u32 = 11;
pub const CHUNKS: u64 = 8;
pub const CHUNK_WORDS: usize = 32768;
pub const BLOCK_INSTRS: usize = 512;
pub const RING_HEAD: usize = 4096;
pub const RING_BYTES: usize = RING_HEAD + CHUNKS as usize * CHUNK_WORDS * 8;
pub const ORDER: u64 = 65536;

/// Offsets in `struct fr_control`.
pub mod control {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const PID_NAMESPACE: usize = 12;
    pub const HEAD: usize = 64;
    pub const WAKE: usize = 128;
    pub const READER_WAITS: usize = 132;
    pub const NEXT_RING: usize = 192;
    pub const NEXT_BLOCK: usize = 196;
    pub const CLOSED: usize = 200;
    pub const UNSIZED: usize = 204;
    pub const FAILED: usize = 256;
    pub const FAILURE: usize = 260;
    pub const FAILURE_BYTES: usize = 508;
    pub const ORDER: usize = 4096;
    pub const BYTES: usize = ORDER + 4 * super::ORDER as usize;
}

/// Offsets in `struct fr_ring`.
pub mod ring {
    pub const MAGIC: usize = 0;
    pub const PID: usize = 8;
    pub const FOREIGN: usize = 12;
    pub const PRODUCED: usize = 64;
    pub const CONSUMED: usize = 128;
    pub const WRITER_WAITS: usize = 136;
    pub const USED: usize = 192;
}

/// `enum fr_record`.
pub mod record {
    pub const DEFINE: u32 = 1;
    pub const START: u32 = 2;
    pub const FORK: u32 = 3;
    pub const FORKED: u32 = 4;
    pub const FORK_FAILED: u32 = 5;
    pub const MAP: u32 = 6;
    pub const UNMAP: u32 = 7;
    pub const REMAP: u32 = 8;
    pub const PROTECT: u32 = 9;
    pub const ADVISE: u32 = 10;
    pub const THREAD_START: u32 = 11;
    pub const THREAD_EXIT: u32 = 12;
    pub const SWITCH: u32 = 13;
    pub const CUT: u32 = 14;
    pub const EXEC: u32 = 15;
    pub const EXEC_FAILED: u32 = 16;
    pub const END: u32 = 17;
    pub const THP: u32 = 18;
    pub const LIMIT: u32 = 19;
    pub const MACHINE: u32 = 20;
    pub const SPACE: u32 = 21;
    pub const NAME: u32 = 22;
    pub const PROCESSOR: u32 = 23;
    pub const PRIVILEGE: u32 = 24;
    pub const REGISTER: u32 = 25;
    pub const ENTRIES: u32 = 26;
    pub const INVALIDATE: u32 = 27;
    pub const EXCEPTION: u32 = 28;
    pub const STALE: u32 = 29;
    pub const SUMMARY: u32 = 30;
    pub const KERNEL_STORE: u32 = 31;
}

/// `enum fr_map`: bits, then the kind of the mapping.
pub mod map {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const EXECUTE: u64 = 4;
    pub const SHARED: u64 = 8;
    pub const EARLY: u64 = 16;
    pub const BEHIND_SHIFT: u32 = 8;
}

/// `enum fr_invalidate`.
pub mod invalidate {
    pub const TAGGED: u32 = 1;
    pub const ADDRESSED: u32 = 2;
    pub const GLOBAL: u32 = 4;
    pub const LEAVES: u32 = 8;
    pub const BROADCAST: u32 = 16;
    pub const ALL: u32 = 31;
}
