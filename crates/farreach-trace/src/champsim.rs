//! Traces of ChampSim: one record of fixed size for each instruction, no header.
//!
//! | | plain, 64 bytes | CloudSuite, 96 bytes |
//! |---|---|---|
//! | instruction pointer | 0 | 0 |
//! | is a branch, was taken | 8, 9 | 8, 9 |
//! | registers written, read | 10, 12 | 10, 14 |
//! | addresses written | 2 from 16 on | 4 from 24 on |
//! | addresses read | 4 from 32 on | 4 from 56 on |
//! | address space, 2 bytes | | 88 |
//!
//! Numbers are little-endian; an address of 0 is none. An instruction is a fetch, then a load of each address read,
//! then a store of each address written, in the order of the record. The format has no sizes, so each reference is of
//! one byte: it touches the page of its address only, as in ChampSim. It has no mappings, threads and processes either,
//! so the stream has no event but definitions; the address spaces of CloudSuite are numbered as they appear.

use hashbrown::HashMap;

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::{Format, Opened};
use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::Kind;

/// Plain traces, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "champsim",
    about: "records of ChampSim, 64 bytes for each instruction",
    lacks: "sizes, mappings, threads",
    settings: "",
    detect: |head| PLAIN.fits(head),
    open: |input, _| open(input, &PLAIN),
};

/// CloudSuite traces, for the registry.
pub(crate) const CLOUDSUITE: Format = Format {
    name: "cloudsuite",
    about: "records of ChampSim for CloudSuite, 96 bytes for each instruction",
    lacks: "sizes, mappings, threads",
    settings: "",
    detect: |head| WIDE.fits(head),
    open: |input, _| open(input, &WIDE),
};

/// Bytes of every reference and every instruction: the format has no sizes.
const SIZE: u32 = 1;
/// An x86 instruction has at most 15 bytes, so the next in a row begins at most this far behind the first byte of the
/// one before.
const SLACK: u64 = 14;
/// Records read at a time.
const RECORDS: usize = 4096;

/// Where things are in a record.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    bytes: usize,
    stores: (usize, usize),
    loads: (usize, usize),
    space: Option<usize>,
}

const PLAIN: Layout = Layout { name: "champsim", bytes: 64, stores: (16, 2), loads: (32, 4), space: None };
const WIDE: Layout = Layout { name: "cloudsuite", bytes: 96, stores: (24, 4), loads: (56, 4), space: Some(88) };

impl Layout {
    /// Whether these first bytes can be records, which have no magic number: the flags of each must be 0 or 1, and only
    /// a branch may be taken.
    fn fits(&self, head: &[u8]) -> bool {
        let mut records = head.chunks_exact(self.bytes).peekable();
        records.peek().is_some() && records.all(|r| check(r).is_ok() && r[9] <= r[8])
    }
}

fn word(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

/// The instruction pointer.
#[inline]
fn check(record: &[u8]) -> std::result::Result<u64, String> {
    let pc = word(record, 0);
    match (record[8], record[9]) {
        _ if pc == 0 => Err("the instruction pointer is 0".into()),
        _ if pc == u64::MAX => Err("the instruction pointer is 2^64-1".into()),
        (0 | 1, 0 | 1) => Ok(pc),
        (branch @ 2.., _) => Err(format!("byte 8, whether it is a branch, is {branch}; 0 and 1 are allowed")),
        (_, taken) => Err(format!("byte 9, whether the branch was taken, is {taken}; 0 and 1 are allowed")),
    }
}

/// The bytes of a record, if this is the beginning of a trace of a ChampSim whose records were changed: two or three
/// records in a row have close instruction pointers and the bytes of a branch.
pub(crate) fn other_size(head: &[u8]) -> Option<usize> {
    let sizes = (72..=232).step_by(8).filter(|bytes| *bytes != WIDE.bytes);
    sizes.into_iter().find(|&bytes| {
        let records: Vec<&[u8]> = head.chunks_exact(bytes).take(4).collect();
        let pointers = records.iter().map(|record| check(record).ok().filter(|pc| (0x1000..1 << 47).contains(pc)));
        let Some(pointers) = pointers.collect::<Option<Vec<u64>>>() else { return false };
        pointers.len() > 1 && pointers.windows(2).all(|pair| pair[0] != pair[1] && pair[0].abs_diff(pair[1]) < 1 << 16)
    })
}

fn open(input: Input, layout: &'static Layout) -> Result<Opened> {
    let info = input.info(layout.name);
    Ok(Opened { source: Box::new(Assembled::new(ChampSimReader::new(input, layout))), info })
}

/// Reads a trace of ChampSim.
struct ChampSimReader {
    input: Bytes,
    layout: &'static Layout,
    buf: Vec<u8>,
    /// Bytes of `buf` that were consumed, and that are valid: whole records.
    from: usize,
    to: usize,
    /// Bytes of an incomplete record behind them.
    cut: usize,
    /// Records consumed.
    records: u64,
    spaces: HashMap<[u8; 2], Asid>,
    made: Assembler,
}

impl ChampSimReader {
    fn new(input: Input, layout: &'static Layout) -> ChampSimReader {
        ChampSimReader {
            input: input.into_bytes(),
            layout,
            buf: vec![0; RECORDS * layout.bytes],
            from: 0,
            to: 0,
            cut: 0,
            records: 0,
            spaces: HashMap::new(),
            made: Assembler::new(SLACK),
        }
    }

    /// Reads further records; false at the end.
    fn refill(&mut self) -> Result<bool> {
        let Layout { bytes, .. } = *self.layout;
        if self.cut > 0 {
            self.input.intact()?;
            return Err(self.fail(format!("the last record has {} of {bytes} bytes: the trace is cut", self.cut)));
        }
        let records = self.records;
        let got = self.input.fill_some(&mut self.buf, |got| format!("record {}", records + (got / bytes) as u64))?;
        (self.from, self.to, self.cut) = (0, got / bytes * bytes, got % bytes);
        Ok(got > 0)
    }

    /// Consumes records until a batch is full.
    fn take(&mut self, buf: &[u8]) -> std::result::Result<(), String> {
        let Layout { bytes, stores, loads, space, .. } = *self.layout;
        for record in buf.chunks_exact(bytes) {
            let pc = check(record)?;
            if let Some(at) = space {
                let next = Asid(self.spaces.len() as u32);
                let asid = *self.spaces.entry([record[at], record[at + 1]]).or_insert(next);
                self.made.space(asid)?;
            }
            self.made.instr(pc, SIZE)?;
            for ((first, many), kind, name) in [(loads, Kind::Load, "load"), (stores, Kind::Store, "store")] {
                for i in 0..many {
                    let addr = word(record, first + 8 * i);
                    if addr == u64::MAX {
                        return Err(format!("address {i} of its {name}s is 2^64-1"));
                    }
                    if addr != 0 {
                        self.made.data(addr, SIZE, kind)?;
                    }
                }
            }
            self.records += 1;
            self.from += bytes;
            if self.made.is_full() {
                break;
            }
        }
        Ok(())
    }
}

impl Reader for ChampSimReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        if self.from == self.to {
            return self.refill();
        }
        // Taken out, so that the records may be borrowed while the run grows.
        let buf = std::mem::take(&mut self.buf);
        let result = self.take(&buf[self.from..self.to]);
        self.buf = buf;
        result.map(|()| true).map_err(|what| self.fail(what))
    }

    fn fail(&self, what: String) -> Error {
        let Layout { bytes, .. } = self.layout;
        let place = format!("record {}, byte {}", self.records, self.records * *bytes as u64);
        Error::Trace { file: self.input.file.clone(), place, what }
    }
}
