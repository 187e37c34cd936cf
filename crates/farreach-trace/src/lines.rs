//! Text with a line for each record, for readers of such formats: what is a line, where it is, and its numbers.
//!
//! A line ends with a line feed, the last one too: a text without it is cut, and a number at its end might be another.

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::{Kind, MAX_INSTR_BYTES, MAX_REF_BYTES};

/// Also the longest line.
const BUFFER: usize = 1 << 18;
/// The most of a line or a value that a message shows.
const SHOWN: usize = 100;
/// Bytes of a reference whose size is not known.
pub(crate) const UNKNOWN_SIZE: u32 = 1;
/// An instruction has at most 15 bytes, so the next in a row begins at most this far behind the first byte of the one
/// before. For formats without lengths of instructions.
pub(crate) const SLACK: u64 = 14;

/// What is wrong with a line.
pub(crate) struct Wrong {
    /// Where in the line, for formats that have columns; the first is 1.
    column: Option<usize>,
    pub(crate) what: String,
}

impl Wrong {
    /// In this column.
    pub fn at(column: usize, what: impl Into<String>) -> Wrong {
        Wrong { column: Some(column), what: what.into() }
    }

    /// With this behind the message.
    pub fn hint(self, hint: &str) -> Wrong {
        Wrong { what: self.what + hint, ..self }
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Wrong {
        Wrong { column: None, what }
    }
}

/// What a format makes of its lines.
pub(crate) trait Lines {
    /// Takes a line without its end.
    fn line(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong>;
    /// Behind the last line.
    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// What a message says of a text without references, behind that.
    fn without_references(&self) -> &'static str {
        ""
    }
}

/// A reader of such a text, opened.
pub(crate) fn open(input: Input, format: &Format, lines: impl Lines + Send + 'static) -> Opened {
    let info = input.info(format.name);
    Opened { source: Box::new(Assembled::new(TextReader::new(input, lines))), info }
}

/// Lines that were read, and the beginning of the next.
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes that were taken, and that are valid.
    pub from: usize,
    to: usize,
    /// Number of the last line that was taken.
    pub number: u64,
}

impl LineBuffer {
    pub fn new() -> LineBuffer {
        LineBuffer { bytes: vec![0; BUFFER], from: 0, to: 0, number: 0 }
    }

    /// All bytes up to the end of the last whole line, if there is one from `from` on. They are taken out, so that lines
    /// may be borrowed while they are taken; [`LineBuffer::put_back`] follows.
    pub fn whole(&mut self) -> Option<(Vec<u8>, usize)> {
        let last = self.bytes[self.from..self.to].iter().rposition(|&b| b == b'\n')?;
        Some((std::mem::take(&mut self.bytes), self.from + last + 1))
    }

    /// See [`LineBuffer::whole`].
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Moves the unfinished line to the front and reads on; false at the end. `too_long`, `cut`: behind these messages.
    pub fn refill(&mut self, input: &mut Bytes, too_long: &str, cut: &str) -> Result<bool> {
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let (file, number) = (input.file.clone(), self.number);
        let next = |what| Err(Error::Trace { file: file.clone(), place: format!("line {}", number + 1), what });
        if self.to == self.bytes.len() {
            return next(format!("the line has more than {BUFFER} bytes{too_long}"));
        }
        let got = input.fill_some(&mut self.bytes[self.to..], |_| format!("after line {number}"))?;
        if got == 0 && self.to > 0 {
            let line = shown(&self.bytes[..self.to]);
            return next(format!("the last line, '{line}', does not end: the trace is cut{cut}"));
        }
        self.to += got;
        Ok(got > 0)
    }
}

/// Reads lines.
struct TextReader<L> {
    input: Bytes,
    buffer: LineBuffer,
    lines: L,
    made: Assembler,
}

impl<L: Lines> TextReader<L> {
    fn new(input: Input, lines: L) -> TextReader<L> {
        TextReader { input: input.into_bytes(), buffer: LineBuffer::new(), lines, made: Assembler::new(SLACK) }
    }

    /// Takes whole lines until a batch is full.
    fn lines(&mut self, buf: &[u8]) -> Result<()> {
        while self.buffer.from < buf.len() && !self.made.is_full() {
            let rest = &buf[self.buffer.from..];
            let end = rest.iter().position(|&b| b == b'\n').expect("whole lines");
            self.buffer.number += 1;
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            if let Err(Wrong { column, what }) = self.lines.line(line, &mut self.made) {
                let place = column.map_or(String::new(), |column| format!(", column {column}"));
                return Err(self.error(&place, format!("'{}': {what}", shown(line))));
            }
            self.buffer.from += end + 1;
        }
        Ok(())
    }

    fn error(&self, place: &str, what: String) -> Error {
        Error::Trace { file: self.input.file.clone(), place: format!("line {}{place}", self.buffer.number), what }
    }
}

impl<L: Lines> Reader for TextReader<L> {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        if let Some((bytes, end)) = self.buffer.whole() {
            let result = self.lines(&bytes[..end]);
            self.buffer.put_back(bytes);
            return result.map(|()| true);
        }
        if self.buffer.refill(&mut self.input, "", ". If the line is whole, add a line feed")? {
            return Ok(true);
        }
        self.lines.end().map_err(|what| self.fail(what))?;
        Ok(false)
    }

    fn without_references(&self) -> &'static str {
        self.lines.without_references()
    }

    fn fail(&self, what: String) -> Error {
        self.error("", what)
    }
}

/// The lines of the first bytes of a text that are whole; all of a short text.
pub(crate) fn whole_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = head.iter().rposition(|&b| b == b'\n').map_or(head.len(), |at| at + 1);
    head[..end].split(|&b| b == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty())
}

/// A piece of text as messages show it.
pub(crate) fn shown(text: &[u8]) -> String {
    let more = if text.len() > SHOWN { "..." } else { "" };
    let sign = |&byte: &u8| match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        other => other.escape_ascii().to_string(),
    };
    text[..text.len().min(SHOWN)].iter().map(sign).collect::<String>() + more
}

/// How numbers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// Hexadecimal with 0x, else decimal.
    Auto,
    Decimal,
    /// With or without 0x.
    Hexadecimal,
    /// Hexadecimal, 0x in front.
    Marked,
}

/// The number that a text is.
pub(crate) fn number(text: &[u8], base: Base) -> Result<u64, String> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"));
    let (radix, digits) = match (base, digits) {
        (Base::Auto | Base::Hexadecimal | Base::Marked, Some(digits)) => (16, digits),
        (Base::Hexadecimal, None) => (16, text),
        (Base::Auto | Base::Decimal, _) => (10, text),
        (Base::Marked, None) => (16, &text[..0]),
    };
    let allowed = match base {
        Base::Auto => "decimal numbers, and hexadecimal ones with 0x",
        Base::Decimal => "decimal numbers",
        Base::Hexadecimal => "hexadecimal numbers",
        Base::Marked => "hexadecimal numbers with 0x",
    };
    if digits.is_empty() || !digits.iter().all(|&b| char::from(b).is_digit(radix)) {
        let hint = match base {
            Base::Auto if !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit) => "; --base 16 reads it",
            _ => "",
        };
        return Err(format!("'{}' is not allowed: allowed are {allowed}{hint}", shown(text)));
    }
    let digits = std::str::from_utf8(digits).expect("digits");
    u64::from_str_radix(digits, radix).map_err(|_| format!("'{}' has more than 64 bits", shown(text)))
}

/// The size that a text is, of a reference of this kind.
pub(crate) fn size(text: &[u8], kind: Kind) -> Result<u32, String> {
    let most = if kind == Kind::Fetch { MAX_INSTR_BYTES } else { MAX_REF_BYTES };
    let size = number(text, Base::Auto).ok().and_then(|size| u32::try_from(size).ok());
    size.filter(|size| (1..=most).contains(size))
        .ok_or_else(|| format!("size '{}' is not allowed: size must be from 1 to {most}", shown(text)))
}

/// Refuses a reference that reaches the end of the address space.
pub(crate) fn fits(addr: u64, size: u32) -> Result<(), String> {
    match addr.checked_add(size.into()) {
        Some(_) => Ok(()),
        None => Err(format!("address {addr:#x} is not allowed with size {size}: the last byte must lie below 2^64-1")),
    }
}

/// The instruction that makes references, for formats that name it with each reference and have no fetches.
///
/// An instruction makes its loads before its stores, so a store right behind a load of the same instruction is of the
/// same execution. Any other reference begins another: a loop of one instruction has as many fetches as turns.
#[derive(Default)]
pub(crate) struct Owner {
    /// The instruction of the last reference, if that was a load.
    loaded: Option<u64>,
}

impl Owner {
    /// A load or a store, behind a fetch of its instruction if it begins one.
    pub fn data(&mut self, pc: u64, addr: u64, size: u32, kind: Kind, made: &mut Assembler) -> Result<(), String> {
        if !(kind == Kind::Store && self.loaded == Some(pc)) {
            made.instr(pc, UNKNOWN_SIZE)?;
        }
        self.loaded = (kind == Kind::Load).then_some(pc);
        made.data(addr, size, kind)
    }

    /// Something else came between.
    pub fn forget(&mut self) {
        self.loaded = None;
    }
}
