//! Text of execlog, a plugin of QEMU, for programs (`qemu-x86_64` and the like).
//!
//! ```text
//! 0, 0xa12, 0xf8012400, "movs r4, #0"
//! 0, 0xa14, 0xf87f42b4, "cmp r4, r6", load, 0x00001230, store, 0x00001234
//! 0, 0xa18, 0x910003fd, "mov x29, sp", x29 -> 0x0000004000800530
//! ```
//! Processor, instruction, its first four bytes, disassembly; then its loads and stores, and the registers that `reg=`
//! asks for. In a program each thread has a processor, and is a thread here; they are of one process.
//!
//! Doubts: lengths of instructions and sizes of references are not told, so each is of one byte. With `ifilter` or
//! `afilter` the text has a part of the instructions, and does not say so. In a whole system data addresses are
//! physical, with the name of a device behind them: such a text is refused.

use hashbrown::HashMap;

use crate::assemble::Assembler;
use crate::input::Input;
use crate::lines::{self, Base, Lines, UNKNOWN_SIZE, Wrong, shown, whole_lines};
use crate::{Format, Opened};
use farreach_types::error::Result;
use farreach_types::event::{Kind, Op};

const ALLOWED: &str = "allowed is 'PROCESSOR, 0xINSTRUCTION, 0xBYTES, \"TEXT\"', with ', load, 0xADDRESS' and \
                       ', store, 0xADDRESS' behind it";
/// Most threads: Linux has no more identifiers.
const MAX_THREADS: usize = 1 << 22;

/// Text of execlog, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "execlog",
    about: "text of QEMU's plugin execlog (lines such as '0, 0xa14, 0xf87f42b4, \"cmp r4, r6\", load, 0x1230')",
    lacks: "lengths of instructions, sizes",
    settings: "",
    detect: |head| whole_lines(head).next().is_some_and(|line| parse(line, &mut Vec::new()).is_ok()),
    open: |input: Input, _| -> Result<Opened> { Ok(lines::open(input, &FORMAT, ExecLog::default())) },
};

#[derive(Default)]
struct ExecLog {
    /// Numbers of threads, by processors.
    threads: HashMap<u64, u32>,
    /// The thread that runs.
    running: u32,
    /// Loads and stores of a line.
    data: Vec<(Kind, u64)>,
}

fn address(text: &[u8], column: usize) -> Result<u64, Wrong> {
    let addr = lines::number(text, Base::Marked);
    addr.and_then(|addr| lines::fits(addr, UNKNOWN_SIZE).map(|()| addr)).map_err(|e| Wrong::at(column, e))
}

/// Processor and instruction of a line, and its loads and stores.
fn parse(line: &[u8], data: &mut Vec<(Kind, u64)>) -> Result<(u64, u64), Wrong> {
    data.clear();
    let wrong = || Wrong::from(ALLOWED.to_owned());
    let open = line.iter().position(|&b| b == b'"').ok_or_else(wrong)?;
    let close = line.iter().rposition(|&b| b == b'"').filter(|&close| close > open).ok_or_else(wrong)?;
    let mut front = line[..open].split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let mut next = || front.next().ok_or_else(wrong);
    let processor = lines::number(next()?, Base::Decimal).map_err(|e| Wrong::at(1, e))?;
    let (pc, bytes) = (address(next()?, 2)?, next()?);
    lines::number(bytes, Base::Marked).map_err(|e| Wrong::at(3, e))?;
    if !next()?.is_empty() || front.next().is_some() {
        return Err(wrong());
    }
    let mut behind = line[close + 1..].split(|&b| b == b',').map(<[u8]>::trim_ascii);
    if !behind.next().unwrap_or(b"").is_empty() {
        return Err(wrong());
    }
    let mut column = 5;
    let mut after_address = false;
    while let Some(word) = behind.next() {
        match word {
            b"load" | b"store" => {
                let kind = if word == b"load" { Kind::Load } else { Kind::Store };
                let text = behind.next().ok_or_else(|| Wrong::at(column + 1, "an address is missing here"))?;
                data.push((kind, address(text, column + 1)?));
                column += 1;
            }
            _ if word.windows(4).any(|w| w == b" -> ") => {}
            _ if after_address && !word.is_empty() => {
                return Err(Wrong::at(
                    column,
                    format!(
                        "'{}' is the name of a device, so this is the log of a whole system, whose addresses of data \
                         are physical: only logs of programs are read",
                        shown(word)
                    ),
                ));
            }
            _ => return Err(Wrong::at(column, format!("'{}' is not allowed: {ALLOWED}", shown(word)))),
        }
        after_address = matches!(word, b"load" | b"store");
        column += 1;
    }
    Ok((processor, pc))
}

impl Lines for ExecLog {
    fn line(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong> {
        // At its end the plugin writes one for each processor that did nothing.
        if line.is_empty() {
            return Ok(());
        }
        let (processor, pc) = parse(line, &mut self.data)?;
        let next = self.threads.len() as u32;
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&processor) {
            return Err(Wrong::at(1, format!("the trace has more than {MAX_THREADS} processors")));
        }
        let thread = *self.threads.entry(processor).or_insert(next);
        if thread == next {
            made.op(Op::ThreadStart { thread })?;
        }
        // The first thread that starts is the one that runs.
        if std::mem::replace(&mut self.running, thread) != thread {
            made.op(Op::Switch { thread })?;
        }
        made.instr(pc, UNKNOWN_SIZE)?;
        for &(kind, addr) in &self.data {
            made.data(addr, UNKNOWN_SIZE, kind)?;
        }
        Ok(())
    }
}
