//! Traces of the championships in value prediction, CVP-1 and CVP-2: a record for each instruction of AArch64, no
//! header.
//!
//! | part | bytes |
//! |---|---|
//! | address of the instruction | 8 |
//! | type: 0 integer, 1 load, 2 store, 3 to 5 conditional, direct, indirect branch, 6 floating point, 7 slow integer | 1 |
//! | of a load or store: address, size of one register | 8, 1 |
//! | of a branch: whether it was taken; if so, where it went | 1, 8 |
//! | number of registers read; each | 1, 1 |
//! | number of registers written; each; the value of each | 1, 1, 8, or 16 of registers 32 to 63 |
//!
//! Doubts: the size is that of one register, so of a pair the second part is missing. A store of 64 bytes is `DC ZVA`,
//! which clears the aligned block around its address. A load that writes no register is a prefetch, no reference. The
//! top byte of an address may be a tag, which translation does not see. A size of 0 is not explained anywhere, and is
//! read as the first byte.

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::lines::fits;
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::Kind;

/// For the registry.
pub(crate) const FORMAT: Format = Format {
    name: "cvp",
    about: "traces of the championship in value prediction, CVP-1 and CVP-2: a record for each instruction of AArch64",
    lacks: "the second register of pairs, processes, threads, mappings",
    settings: "",
    detect,
    open: |input: Input, _| -> Result<Opened> {
        let info = input.info(FORMAT.name);
        let reader = CvpReader {
            input: input.into_bytes(),
            buf: vec![0; BUFFER],
            from: 0,
            to: 0,
            before: 0,
            ended: false,
            records: 0,
            made: Assembler::new(0),
        };
        Ok(Opened { source: Box::new(Assembled::new(reader)), info })
    },
};

const BUFFER: usize = 1 << 17;
/// No record is longer.
const LONGEST: usize = 18 + 2 * (1 + MOST_REGISTERS) + 16 * MOST_REGISTERS;
/// Bytes of an instruction.
const INSTRUCTION: u32 = 4;
/// Registers 0 to 31 are integers, 32 to 63 vectors, 64 flags.
const REGISTERS: u8 = 65;
/// Most registers that an instruction reads, and that it writes.
const MOST_REGISTERS: usize = REGISTERS as usize;
const VECTORS: std::ops::Range<u8> = 32..64;
/// Size of the block that `DC ZVA` clears.
const BLOCK: u64 = 64;
/// Records by which a trace is recognised, at least.
const ENOUGH: usize = 4;

/// An instruction.
struct Record {
    pc: u64,
    /// Whether the next one may be anywhere.
    branches: bool,
    data: Option<(Kind, u64, u32)>,
}

/// Takes bytes off the front; `None` if there are too few.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// The names of some registers.
fn registers<'a>(bytes: &mut &'a [u8], what: &str) -> Result<Option<&'a [u8]>, String> {
    let Some([many]) = take(bytes) else { return Ok(None) };
    if usize::from(many) > MOST_REGISTERS {
        return Err(format!("{many} registers {what}; at most {MOST_REGISTERS} are possible"));
    }
    let Some((names, rest)) = bytes.split_at_checked(many.into()) else { return Ok(None) };
    *bytes = rest;
    match names.iter().find(|&&name| name >= REGISTERS) {
        Some(name) => Err(format!("register {name} {what}; allowed are 0 to {}", REGISTERS - 1)),
        None => Ok(Some(names)),
    }
}

/// Takes a record off the front; `None` if the bytes end in it.
fn record(bytes: &mut &[u8]) -> Result<Option<Record>, String> {
    let rest = &mut { *bytes };
    let (Some(pc), Some([ty])) = (take(rest), take(rest)) else { return Ok(None) };
    let mut record = Record { pc: u64::from_le_bytes(pc), branches: false, data: None };
    match ty {
        1 | 2 => {
            let (Some(addr), Some([size])) = (take(rest), take(rest)) else { return Ok(None) };
            let addr = (u64::from_le_bytes(addr) << 8) as i64 >> 8;
            let kind = if ty == 1 { Kind::Load } else { Kind::Store };
            let clears = kind == Kind::Store && u64::from(size) == BLOCK;
            let addr = if clears { addr as u64 & !(BLOCK - 1) } else { addr as u64 };
            record.data = Some((kind, addr, u32::from(size.max(1))));
        }
        3..=5 => {
            let Some([taken]) = take(rest) else { return Ok(None) };
            if taken > 1 {
                return Err(format!("whether the branch was taken is {taken}; 0 and 1 are allowed"));
            }
            record.branches = taken == 1;
            if record.branches && take::<8>(rest).is_none() {
                return Ok(None);
            }
        }
        0 | 6 | 7 => {}
        _ => return Err(format!("type {ty}; 0 to 7 are allowed")),
    }
    let Some(_) = registers(rest, "read")? else { return Ok(None) };
    let Some(written) = registers(rest, "written")? else { return Ok(None) };
    let values = written.iter().map(|name| if VECTORS.contains(name) { 16 } else { 8 }).sum();
    let Some(rest) = rest.get(values..) else { return Ok(None) };
    record.data = record.data.filter(|(kind, ..)| *kind == Kind::Store || !written.is_empty());
    *bytes = rest;
    Ok(Some(record))
}

/// There is no magic number: each whole record must be valid, and the next instruction follow it or a taken branch.
fn detect(mut head: &[u8]) -> bool {
    let (mut next, mut records) = (None, 0);
    loop {
        match record(&mut head) {
            Ok(Some(record)) if record.pc.is_multiple_of(INSTRUCTION.into()) && record.pc != 0 => {
                if next.is_some_and(|next| next != record.pc) {
                    return false;
                }
                next = (!record.branches).then_some(record.pc.wrapping_add(INSTRUCTION.into()));
                records += 1;
            }
            Ok(None) => return records >= ENOUGH,
            _ => return false,
        }
    }
}

struct CvpReader {
    input: Bytes,
    buf: Vec<u8>,
    /// Bytes of `buf` that were consumed, and that are valid.
    from: usize,
    to: usize,
    /// Bytes of the trace before `buf`.
    before: u64,
    /// Nothing follows `buf`.
    ended: bool,
    records: u64,
    made: Assembler,
}

impl CvpReader {
    /// Makes sure that the next record is in `buf` as a whole, if there is one.
    fn refill(&mut self) -> Result<()> {
        if self.ended || self.to - self.from >= LONGEST {
            return Ok(());
        }
        self.before += self.from as u64;
        self.buf.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let at = self.before + self.to as u64;
        let got = self.input.fill_some(&mut self.buf[self.to..], |got| format!("byte {}", at + got as u64))?;
        self.to += got;
        self.ended = got == 0;
        Ok(())
    }

    /// Takes the next record; false at the end.
    fn take(&mut self) -> Result<bool, String> {
        let mut rest = &self.buf[self.from..self.to];
        let left = rest.len();
        if left == 0 {
            return Ok(false);
        }
        let Some(record) = record(&mut rest)? else {
            return Err(format!("the last record, of which there are {left} bytes, is cut"));
        };
        fits(record.pc, INSTRUCTION)?;
        self.made.instr(record.pc, INSTRUCTION)?;
        if let Some((kind, addr, size)) = record.data {
            fits(addr, size)?;
            self.made.data(addr, size, kind)?;
        }
        self.from = self.to - rest.len();
        self.records += 1;
        Ok(true)
    }
}

impl Reader for CvpReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        while !self.made.is_full() {
            self.refill()?;
            if !self.take().map_err(|what| self.fail(what))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fail(&self, what: String) -> Error {
        let place = format!("record {}, byte {}", self.records, self.before + self.from as u64);
        Error::Trace { file: self.input.file.clone(), place, what }
    }
}
