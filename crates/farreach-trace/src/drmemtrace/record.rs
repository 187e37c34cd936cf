//! The layout: records of twelve bytes, their types, the types of markers, and a file of records.

use crate::input::{Bytes, Input};
use farreach_types::error::{Error, Result};

/// Bytes of a record, of 64-bit programs and machines.
pub(crate) const RECORD: usize = 12;
/// Bytes read at once.
const BUFFER: usize = RECORD << 13;

/// A record: all fields are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// One of [`ty`].
    pub ty: u16,
    /// Bytes of a reference, an instruction or an encoding; the [`marker`] type of a marker.
    pub size: u16,
    /// Address, thread, process, or value of a marker.
    pub value: u64,
}

impl Record {
    #[inline(always)]
    pub fn of(bytes: &[u8; RECORD]) -> Record {
        let [a, b, c, d, value @ ..] = *bytes;
        Record { ty: u16::from_le_bytes([a, b]), size: u16::from_le_bytes([c, d]), value: u64::from_le_bytes(value) }
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..2].copy_from_slice(&self.ty.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.size.to_le_bytes());
        bytes[4..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// Types of records.
pub(crate) mod ty {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    /// First and last of the prefetches that processors of one architecture each have.
    pub const PREFETCH: u16 = 2;
    pub const PREFETCH_INSTR: u16 = 9;
    /// First and last of the instructions by what they do to the program counter.
    pub const INSTR: u16 = 10;
    pub const INSTR_DIRECT_JUMP: u16 = 11;
    pub const INSTR_INDIRECT_JUMP: u16 = 12;
    pub const INSTR_DIRECT_CALL: u16 = 14;
    pub const INSTR_INDIRECT_CALL: u16 = 15;
    pub const INSTR_RETURN: u16 = 16;
    pub const INSTR_BUNDLE: u16 = 17;
    /// First and last of the flushes of caches.
    pub const INSTR_FLUSH: u16 = 18;
    pub const DATA_FLUSH_END: u16 = 21;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PID: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const HARDWARE_PREFETCH: u16 = 27;
    pub const MARKER: u16 = 28;
    pub const INSTR_NO_FETCH: u16 = 29;
    pub const INSTR_MAYBE_FETCH: u16 = 30;
    pub const INSTR_SYSENTER: u16 = 31;
    /// First and last of the prefetches by level of the cache.
    pub const PREFETCH_READ_L1_NT: u16 = 32;
    pub const PREFETCH_WRITE_L3_NT: u16 = 46;
    pub const ENCODING: u16 = 47;
    pub const INSTR_TAKEN_JUMP: u16 = 48;
    pub const INSTR_UNTAKEN_JUMP: u16 = 49;
}

/// Types of markers that the reader asks for or the writer makes; [`marker::judge`] knows all of them.
pub(crate) mod marker {
    pub const TIMESTAMP: u16 = 2;
    pub const CPU: u16 = 3;
    pub const FILETYPE: u16 = 9;
    pub const CACHE_LINE_SIZE: u16 = 10;
    pub const VERSION: u16 = 12;
    pub const WINDOW_ID: u16 = 14;
    pub const PAGE_SIZE: u16 = 18;
    pub const CHUNK_FOOTER: u16 = 21;
    pub const BRANCH_TARGET: u16 = 29;

    /// Whether a marker leaves the references of the trace trustworthy; if not, the reason.
    pub fn judge(marker: u16) -> Result<(), &'static str> {
        match marker {
            8 | 42 | 45 => Err("which is only in raw traces that raw2trace has not processed"),
            19 => Err("which is only in traces whose recorded kernel part has not been decoded"),
            11 => Err("which is only in traces that a cache has filtered: references are missing"),
            23 => Err("the end of a part that a cache has filtered: references are missing before it"),
            43 | 44 => Err("of a view of the whole system, which does not tell the address space of a reference"),
            47..=100 => Err("whose meaning is not known; allowed are 0 to 46 and those of users, above 100"),
            _ => Ok(()),
        }
    }
}

/// Bits of the type of a file.
pub(crate) mod filetype {
    pub const AARCH64: u64 = 0x8;
    pub const X86_64: u64 = 0x40;
    /// The first time that an instruction is executed, its bytes precede it.
    pub const ENCODINGS: u64 = 0x200;
    /// It is of one core, with the threads that ran there.
    pub const CORE_SHARDED: u64 = 0x1_0000;
}

/// The records of a file, one after the other.
pub(crate) struct Records {
    input: Bytes,
    buf: Vec<u8>,
    /// Bytes of `buf` that were consumed, and that are valid.
    from: usize,
    to: usize,
    /// Bytes of a record that is not whole, behind them.
    cut: usize,
    /// Byte of the decompressed file at which `buf` begins.
    base: u64,
}

impl Records {
    pub fn new(input: Input) -> Records {
        Records { input: input.into_bytes(), buf: vec![0; BUFFER], from: 0, to: 0, cut: 0, base: 0 }
    }

    /// The next record; `None` at the end of the file.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record>> {
        if self.from == self.to && !self.refill()? {
            return Ok(None);
        }
        let bytes = self.buf[self.from..].first_chunk().expect("whole records are in the buffer");
        self.from += RECORD;
        Ok(Some(Record::of(bytes)))
    }

    #[cold]
    fn refill(&mut self) -> Result<bool> {
        self.base += self.to as u64;
        (self.from, self.to) = (0, 0);
        if self.cut > 0 {
            self.input.intact()?;
            self.from = RECORD;
            return Err(self.fail(format!("the file ends {} bytes into a record of {RECORD}: it is cut", self.cut)));
        }
        let base = self.base;
        self.to = self.input.fill_some(&mut self.buf, |got| format!("byte {}", base + got as u64))?;
        self.cut = self.to % RECORD;
        self.to -= self.cut;
        if self.to > 0 || self.cut == 0 { Ok(self.to > 0) } else { self.refill() }
    }

    /// An error at the record read last.
    #[cold]
    pub fn fail(&self, what: String) -> Error {
        let at = self.base + self.from.saturating_sub(RECORD) as u64;
        Error::Trace { file: self.input.file.clone(), place: format!("byte {at}"), what }
    }

    /// An error at the end of the file.
    #[cold]
    pub fn fail_at_end(&self, what: String) -> Error {
        Error::Trace { file: self.input.file.clone(), place: format!("byte {}", self.base), what }
    }
}
