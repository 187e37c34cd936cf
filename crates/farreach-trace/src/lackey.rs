//! Text of Valgrind's Lackey, `valgrind --tool=lackey --trace-mem=yes`.
//!
//! ```text
//! ==4711== Lackey, an example Valgrind tool
//! I  0401ab70,3
//!  S 1fff0005e8,8
//!  M 04033e06,1
//! ```
//! `I` is a fetch, ` L` a load, ` S` a store, ` M` one load and one store of the same bytes; addresses are hexadecimal
//! without 0x, sizes decimal. Blanks at the end of a line mean nothing. Blank lines are skipped, and those of Valgrind
//! itself: `==PID==`, `--PID--`, and `**PID**` of a program that calls `VALGRIND_PRINTF`; with `--time-stamp=yes` also
//! `==TIME PID==`. So are those of `--trace-superblocks=yes` (`SB 0401ab70`): what follows each begins with a fetch of
//! the same address. Anything else is an error.
//!
//! The format knows no processes, threads and mappings, so the stream has definitions and executions only, all in
//! address space 0; there is no `Start`. Blocks are made by `assemble`.

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::lines::LineBuffer;
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::{Kind, MAX_INSTR_BYTES, MAX_REF_BYTES};

const ALLOWED: &str = "allowed are 'I  ADDRESS,SIZE', ' L ADDRESS,SIZE', ' S ADDRESS,SIZE' and ' M ADDRESS,SIZE' \
                       (address hexadecimal without 0x, size decimal), 'SB ADDRESS', lines that begin with ==PID==, \
                       --PID-- or **PID**, and blank lines";

/// Lackey text, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "lackey",
    about: "text of valgrind --tool=lackey --trace-mem=yes (lines such as 'I  0401ab70,3' and ' L 1fff0005e8,8')",
    lacks: "processes, threads, mappings",
    settings: "",
    detect,
    open: |input: Input, _| -> Result<Opened> {
        let info = input.info("lackey");
        Ok(Opened { source: Box::new(Assembled::new(LackeyReader::new(input))), info })
    },
};

fn detect(head: &[u8]) -> bool {
    let first = head.split(|&b| b == b'\n').find(|line| !line.trim_ascii().is_empty());
    first.is_some_and(|line| {
        let record = line.len() > 3 && matches!(&line[..3], b"I  " | b" L " | b" S " | b" M ") && hex(line[3]) < 16;
        record || is_superblock(line) || is_valgrind(line)
    })
}

/// `==PID==`, `--PID--` or `**PID**`; with time stamps `==00:00:00:01.234 PID==`.
fn is_valgrind(line: &[u8]) -> bool {
    let mark = match line.get(..2) {
        Some(b"==") => b'=',
        Some(b"--") => b'-',
        Some(b"**") => b'*',
        _ => return false,
    };
    let number = |from: usize| line[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let time = line[2..].iter().take_while(|b| b.is_ascii_digit() || matches!(b, b':' | b'.')).count();
    let from = match line.get(2 + time) {
        Some(b' ') if time > 0 => 3 + time,
        _ => 2,
    };
    let digits = number(from);
    digits > 0 && line.get(from + digits..from + digits + 2) == Some(&[mark, mark])
}

/// `SB ADDRESS`.
fn is_superblock(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"SB ").map(<[u8]>::trim_ascii_end);
    digits.is_some_and(|digits| (1..=16).contains(&digits.len()) && digits.iter().all(|&b| hex(b) < 16))
}

/// What is most likely wrong with a line that is refused, as the end of a message.
fn hint(line: &[u8]) -> &'static str {
    let debugging = line.strip_prefix(b"--").is_some_and(|rest| {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&b':')
    });
    let stripped = matches!(line.get(..2), Some(b"L " | b"S " | b"M "));
    if debugging {
        "; it is Valgrind's debugging log: leave out -d"
    } else if stripped {
        "; the blank in front is missing: something has changed the text"
    } else {
        "; what the program itself prints must go elsewhere: give Valgrind --log-file=FILE, and trace FILE"
    }
}

/// Value of a hexadecimal digit; 16 for anything else.
#[inline]
fn hex(byte: u8) -> u8 {
    const DIGITS: [u8; 256] = {
        let mut table = [16; 256];
        let mut i = 0;
        while i < 16 {
            table[b"0123456789abcdef"[i] as usize] = i as u8;
            table[b"0123456789ABCDEF"[i] as usize] = i as u8;
            i += 1;
        }
        table
    };
    DIGITS[usize::from(byte)]
}

/// Reads Lackey text.
struct LackeyReader {
    input: Bytes,
    buffer: LineBuffer,
    made: Assembler,
}

/// A parsed line.
enum Line {
    Record { kind: u8, addr: u64, size: u32 },
    Nothing,
}

impl LackeyReader {
    /// Reads from the first line on.
    fn new(input: Input) -> LackeyReader {
        LackeyReader { input: input.into_bytes(), buffer: LineBuffer::new(), made: Assembler::new(0) }
    }

    /// Parses the whole lines in `buf` that were not taken yet, until a batch is full.
    fn lines(&mut self, buf: &[u8]) -> Result<()> {
        while self.buffer.from < buf.len() && !self.made.is_full() {
            let from = self.buffer.from;
            let mut at = from;
            self.buffer.number += 1;
            let line = parse(buf, &mut at);
            let line = line.map_err(|what| {
                let end = buf[from..].iter().position(|&b| b == b'\n').unwrap_or(0);
                let text = &buf[from..from + end.min(100)];
                let hint = if what == ALLOWED { hint(text) } else { "" };
                self.fail(format!("'{}': {what}{hint}", text.escape_ascii()))
            })?;
            self.buffer.from = at;
            if let Line::Record { kind, addr, size } = line {
                let made = match kind {
                    b'I' => self.made.instr(addr, size),
                    b'L' => self.made.data(addr, size, Kind::Load),
                    b'S' => self.made.data(addr, size, Kind::Store),
                    _ => self.made.data(addr, size, Kind::Load).and_then(|()| self.made.data(addr, size, Kind::Store)),
                };
                made.map_err(|what| self.fail(what))?;
            }
        }
        Ok(())
    }
}

/// Parses the line at `buf[*at..]`, which ends with a line feed, and moves `at` behind it.
#[inline]
fn parse(buf: &[u8], at: &mut usize) -> std::result::Result<Line, String> {
    let rest = &buf[*at..];
    let kind = match rest.get(..3) {
        Some(b"I  ") => b'I',
        Some(b" L ") => b'L',
        Some(b" S ") => b'S',
        Some(b" M ") => b'M',
        _ => return other(rest, at),
    };
    let mut i = 3;
    let mut addr = 0u64;
    loop {
        let digit = hex(rest[i]);
        if digit == 16 {
            break;
        }
        addr = addr << 4 | u64::from(digit);
        i += 1;
    }
    if i == 3 || rest[i] != b',' {
        return Err(ALLOWED.into());
    }
    if i > 19 {
        return Err("the address has more than 16 digits".into());
    }
    i += 1;
    let first = i;
    let mut size = 0u32;
    while rest[i].is_ascii_digit() {
        size = size.saturating_mul(10).saturating_add(u32::from(rest[i] - b'0'));
        i += 1;
    }
    let end = if rest[i] == b'\n' { i } else { blanks(rest, i) };
    if rest[end] != b'\n' || i == first {
        return Err(ALLOWED.into());
    }
    let most = if kind == b'I' { MAX_INSTR_BYTES } else { MAX_REF_BYTES };
    if size == 0 || size > most {
        return Err(format!("the size is {}; 1 to {most} are allowed", rest[first..i.min(first + 30)].escape_ascii()));
    }
    if addr.checked_add(u64::from(size)).is_none() {
        return Err(
            "the reference reaches the end of the 64-bit address space; its last byte must lie below 2^64-1".into()
        );
    }
    *at += end + 1;
    Ok(Line::Record { kind, addr, size })
}

/// The place behind the blanks from here on; text from Windows has a carriage return there.
#[cold]
fn blanks(rest: &[u8], from: usize) -> usize {
    from + rest[from..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count()
}

/// A line that is no record.
#[cold]
fn other(rest: &[u8], at: &mut usize) -> std::result::Result<Line, String> {
    let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    let line = &rest[..end];
    if line.trim_ascii().is_empty() || is_superblock(line) || is_valgrind(line) {
        *at += end + 1;
        return Ok(Line::Nothing);
    }
    Err(ALLOWED.into())
}

impl Reader for LackeyReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    /// Parses the whole lines in the buffer until a batch is full, or reads further ones.
    fn read_more(&mut self) -> Result<bool> {
        let Some((bytes, end)) = self.buffer.whole() else {
            return self.buffer.refill(&mut self.input, &format!("; {ALLOWED}"), "");
        };
        let result = self.lines(&bytes[..end]);
        self.buffer.put_back(bytes);
        result.map(|()| true)
    }

    fn without_references(&self) -> &'static str {
        "; Lackey writes them with --trace-mem=yes"
    }

    fn fail(&self, what: String) -> Error {
        Error::Trace { file: self.input.file.clone(), place: format!("line {}", self.buffer.number), what }
    }
}
