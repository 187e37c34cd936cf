//! SIFT, the traces of Sniper and Virtuoso, little-endian: a file for each thread.
//!
//! A header of 16 bytes: `SIFT`, the size of what follows it (0), and options: 1, the rest is compressed by zlib; 2,
//! code of 32 bits; 4, code comes by the instruction, not by the page; 8, frames of pages are told. Then records:
//!
//! | first byte | record |
//! |---|---|
//! | low half not 0 | instruction behind the one before: its size, number of addresses (bits 4, 5); the addresses |
//! | low half 0, high half not | size; number of addresses, bit 5: it was executed; its address; the addresses |
//! | 0 | type, size in 4 bytes, contents |
//!
//! Types 0 and 11 are code: an address, and a page of 4 KB or some bytes. 255 is the end, without which the trace is
//! cut. Others ask or tell something (system calls, threads, routines) and are passed over, as are the frames of pages.
//!
//! An address belongs to an operand of the instruction in memory, in the order of Pin: what it names first, then the
//! stack; of `movs` where it stores to, of `cmps` what `rsi` points to. Kind and size are those of the instruction,
//! which is decoded. Loads come before stores.
//!
//! Doubts: Sniper leaves out addresses of instructions with more than two, gathers say. Operands that touch no memory
//! (prefetches, `nop`) are no references. A repeated instruction is a fetch each time, as Pin counts. Where Sniper went
//! ahead without recording, nothing says how far.

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::lines::{UNKNOWN_SIZE, fits};
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::Kind;
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

/// For the registry.
pub(crate) const FORMAT: Format = Format {
    name: "sift",
    about: "SIFT of Sniper and Virtuoso: a file for each thread",
    lacks: "other threads, processes, mappings; addresses of instructions with more than two",
    settings: "",
    detect: |head| head.starts_with(b"SIFT"),
    open,
};

const PAGE: usize = 4096;
const COMPRESSED: u64 = 1;
const IA32: u64 = 2;
/// Code by the instruction, and frames of pages, change nothing here.
const OTHERS: u64 = 4 | 8;
/// Types of records.
const CODE_PAGE: u8 = 0;
const CODE: u8 = 11;
const CACHE_ONLY: u8 = 24;
const ISA: u8 = 25;
const LAST: u8 = 26;
const END: u8 = 255;
/// Most bytes of a record of another type: texts and answers of the system.
const MOST_BYTES: u32 = 1 << 28;

fn open(input: Input, _: &str) -> Result<Opened> {
    let info = input.info(FORMAT.name);
    let mut reader = SiftReader {
        input: input.into_bytes(),
        at: 0,
        bits: 64,
        next: 0,
        code: HashMap::new(),
        known: HashMap::new(),
        factory: InstructionInfoFactory::new(),
        made: Assembler::new(0),
    };
    let header = reader.take::<16>()?;
    let (size, options) = (word(&header[4..]), long(&header[8..]));
    if header[..4] != *b"SIFT" || size != 0 || options & !(COMPRESSED | IA32 | OTHERS) != 0 {
        let what = format!(
            "a header of SIFT without additions is needed, and options {options:#x} with {size} bytes more are here"
        );
        return Err(Error::Trace { file: reader.input.file, place: "byte 0".into(), what });
    }
    if options & COMPRESSED != 0 {
        reader.input = reader.input.inflated();
    }
    reader.bits = if options & IA32 != 0 { 32 } else { 64 };
    Ok(Opened { source: Box::new(Assembled::new(reader)), info })
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("4 bytes"))
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"))
}

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operand {
    size: u32,
    loads: bool,
    stores: bool,
    /// Also of an instruction that was not executed.
    always: bool,
}

/// A page of code, and which of its bytes have come.
struct Page {
    bytes: [u8; PAGE],
    came: [u64; PAGE / 64],
}

impl Page {
    fn get(&self, at: usize) -> Option<u8> {
        (self.came[at / 64] >> (at % 64) & 1 != 0).then_some(self.bytes[at])
    }

    /// Whether it replaced another byte.
    fn put(&mut self, at: usize, byte: u8) -> bool {
        let other = self.get(at).is_some_and(|before| before != byte);
        self.bytes[at] = byte;
        self.came[at / 64] |= 1 << (at % 64);
        other
    }
}

struct SiftReader {
    input: Bytes,
    /// Bytes that were taken, as they are behind the compression.
    at: u64,
    /// Of the code: 32 or 64.
    bits: u32,
    /// Where an instruction begins that does not say it.
    next: u64,
    /// Code by page.
    code: HashMap<u64, Box<Page>>,
    /// Operands of instructions that were decoded, by address and size.
    known: HashMap<(u64, u8), Box<[Operand]>>,
    factory: InstructionInfoFactory,
    made: Assembler,
}

impl SiftReader {
    /// The next bytes, all of them.
    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        let at = self.at;
        let got = self.input.fill(into, |got| format!("byte {}", at + got as u64))?;
        self.at += got as u64;
        if got < into.len() {
            let what = "the trace is cut: it has no end mark".to_owned();
            return Err(Error::Trace { file: self.input.file.clone(), place: format!("byte {}", self.at), what });
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn wrong<T>(&self, at: u64, what: String) -> Result<T> {
        Err(Error::Trace { file: self.input.file.clone(), place: format!("byte {at}"), what })
    }

    /// Takes a record; false at the end.
    fn record(&mut self) -> Result<bool> {
        let began = self.at;
        let [first] = self.take()?;
        if first == 0 {
            return self.other(began);
        }
        let simple = first & 0xf != 0;
        let (size, addresses, executed) = if simple {
            (first & 0xf, first >> 4 & 3, true)
        } else {
            let [bits] = self.take()?;
            if bits >> 6 != 0 {
                return self.wrong(began, format!("an instruction with flags {bits:#x}; allowed are 0 to 0x3f"));
            }
            self.next = u64::from_le_bytes(self.take()?);
            (first >> 4, bits & 3, bits & 0x20 != 0)
        };
        if addresses > 2 {
            return self.wrong(began, format!("an instruction with {addresses} addresses; at most 2 are possible"));
        }
        let mut data = [0; 2];
        for addr in &mut data[..addresses.into()] {
            *addr = u64::from_le_bytes(self.take()?);
        }
        let pc = self.next;
        let done = self.instruction(pc, size, &data[..addresses.into()], executed);
        done.or_else(|what| self.wrong(began, what))?;
        self.next = pc + u64::from(size);
        Ok(true)
    }

    fn instruction(&mut self, pc: u64, size: u8, data: &[u64], executed: bool) -> Result<(), String> {
        fits(pc, size.into())?;
        self.made.instr(pc, size.into())?;
        if data.is_empty() {
            return Ok(());
        }
        if !self.known.contains_key(&(pc, size)) {
            let operands = self.decode(pc, size)?;
            self.known.insert((pc, size), operands);
        }
        let operands = &self.known[&(pc, size)];
        if data.len() > operands.len() {
            let (has, needs) = (data.len(), operands.len());
            return Err(format!("the instruction at {pc:#x} has {has} addresses, and {needs} operands in memory"));
        }
        for (kind, does) in [(Kind::Load, (|o| o.loads) as fn(&Operand) -> bool), (Kind::Store, |o| o.stores)] {
            let touches = |operand: &Operand| (executed || operand.always) && does(operand);
            for (operand, &addr) in operands.iter().zip(data).filter(|(operand, _)| touches(operand)) {
                fits(addr, operand.size)?;
                self.made.data(addr, operand.size, kind)?;
            }
        }
        Ok(())
    }

    /// The operands in memory of an instruction, in the order of their addresses.
    fn decode(&mut self, pc: u64, size: u8) -> Result<Box<[Operand]>, String> {
        let mut bytes = Vec::new();
        for addr in pc..pc + u64::from(size) {
            let page = self.code.get(&(addr / PAGE as u64));
            let byte = page.and_then(|page| page.get(addr as usize % PAGE));
            bytes.push(byte.ok_or_else(|| format!("the code at {addr:#x} has not come"))?);
        }
        let instruction = Decoder::with_ip(self.bits, &bytes, pc, DecoderOptions::NONE).decode();
        if instruction.is_invalid() || instruction.len() != bytes.len() {
            return Err(format!("the code at {pc:#x}, {bytes:02x?}, is no instruction of that size"));
        }
        // A conditional move loads even if it does not move.
        let always = format!("{:?}", instruction.mnemonic()).starts_with("Cmov");
        let operand = |used: &iced_x86::UsedMemory| {
            use OpAccess as A;
            let loads = matches!(used.access(), A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite);
            let stores = matches!(used.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite);
            let size = match used.memory_size().size() {
                0 => UNKNOWN_SIZE,
                known => known as u32,
            };
            Operand { size, loads, stores, always }
        };
        let used: Vec<_> = self.factory.info(&instruction).used_memory().to_vec();
        let mut operands: Vec<Operand> = used.iter().map(operand).collect();
        let named = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
        if operands.is_empty() && named {
            // It touches no memory: a prefetch, a `nop`.
            operands.push(Operand { size: UNKNOWN_SIZE, loads: false, stores: false, always: false });
        }
        if let [first, second] = operands[..] {
            use Mnemonic::{Movsb, Movsd, Movsq, Movsw};
            let is_copy = matches!(instruction.mnemonic(), Movsb | Movsw | Movsd | Movsq);
            let on_stack = [0, 1].map(|i| used[i].base() == self.stack_pointer());
            let swapped = match (named, is_copy) {
                (true, _) => {
                    on_stack == [true, false] || (on_stack == [true; 2] && self.is_pushed(&instruction, first))
                }
                (false, true) => first.loads && second.stores,
                (false, false) => false,
            };
            if swapped {
                operands.swap(0, 1);
            }
        }
        Ok(operands.into())
    }

    fn stack_pointer(&self) -> iced_x86::Register {
        if self.bits == 64 { iced_x86::Register::RSP } else { iced_x86::Register::ESP }
    }

    /// Where both operands lie on the stack: whether this one is what a push or a call stores, and a pop loads.
    fn is_pushed(&self, instruction: &iced_x86::Instruction, operand: Operand) -> bool {
        if instruction.mnemonic() == Mnemonic::Pop { operand.loads } else { operand.stores }
    }

    /// Takes a record that is no instruction; false at the end.
    fn other(&mut self, began: u64) -> Result<bool> {
        let [ty] = self.take()?;
        let size = u32::from_le_bytes(self.take()?);
        match (ty, size) {
            (END, 0) => {
                let mut more = [0];
                let at = self.at;
                if self.input.fill(&mut more, |_| format!("byte {at}"))? > 0 {
                    return self.wrong(at, "something stands behind the end mark".into());
                }
                return Ok(false);
            }
            (CODE_PAGE, _) if size as usize == 8 + PAGE => self.code(began, PAGE)?,
            (CODE, 9..=32) => self.code(began, size as usize - 8)?,
            (CODE_PAGE | CODE | END, _) => {
                return self.wrong(began, format!("a record of type {ty} has {size} bytes, which it never has"));
            }
            (CACHE_ONLY, _) => {
                let what = "references without instructions, for caches alone; record the trace without that mode";
                return self.wrong(began, what.into());
            }
            (ISA, _) => return self.wrong(began, "code of another processor than x86, which is not read".into()),
            (..=LAST, ..=MOST_BYTES) => {
                let mut rest = size as usize;
                while rest > 0 {
                    let mut passed = [0; 512];
                    let piece = rest.min(passed.len());
                    self.fill(&mut passed[..piece])?;
                    rest -= piece;
                }
            }
            _ => return self.wrong(began, format!("a record of type {ty} with {size} bytes is not known")),
        }
        Ok(true)
    }

    /// Takes code.
    fn code(&mut self, began: u64, size: usize) -> Result<()> {
        let start = u64::from_le_bytes(self.take()?);
        let mut bytes = [0; PAGE];
        self.fill(&mut bytes[..size])?;
        if start.checked_add(size as u64).is_none() || (size == PAGE && !start.is_multiple_of(PAGE as u64)) {
            return self.wrong(began, format!("code of {size} bytes at {start:#x}, which are no page"));
        }
        let mut other = false;
        for (addr, byte) in (start..).zip(&bytes[..size]) {
            let none = || Box::new(Page { bytes: [0; PAGE], came: [0; PAGE / 64] });
            let page = self.code.entry(addr / PAGE as u64).or_insert_with(none);
            other |= page.put(addr as usize % PAGE, *byte);
        }
        if other {
            self.known.clear();
        }
        Ok(())
    }
}

impl Reader for SiftReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        while !self.made.is_full() {
            if !self.record()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fail(&self, what: String) -> Error {
        Error::Trace { file: self.input.file.clone(), place: format!("byte {}", self.at), what }
    }
}
