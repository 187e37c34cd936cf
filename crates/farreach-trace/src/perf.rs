//! Text of `perf script`, of samples of loads and stores. They are samples, and the stream says so ([`Op::Samples`]).
//!
//! ```text
//! ls 7579/7579 4076.833413: 1 cpu/mem-loads,ldlat=30/P: 7ffe6e453de8 5080022 |OP LOAD|LVL L1 hit|... 7f22155be545
//! ```
//! Names and numbers as `-F` asks for, up to the event, which a colon ends; then `addr`, and at least one of `data_src`
//! and `ip` behind it, since one number alone could be either. Load or store is what `data_src` says, else what the
//! name of the event says (`mem-loads`, `mem-stores`). Each sample is of one byte. `ip` is no reference: fetches are
//! not sampled. Address spaces are processes, if `pid` is there. Comments (`--header`) and empty lines are passed over.
//!
//! No reference, and passed over: samples that did not access memory (`OP N/A`, of AMD's `ibs_op`), software prefetches
//! (`OP PFETCH`), and samples whose address the processor does not know, which is 0.
//!
//! Doubts: Arm's `arm_spe` makes several events of a sample. All but `memory` are refused, so that none is counted
//! twice. Which loads are sampled is a matter of the processor: with `ldlat` only slow ones are.

use hashbrown::HashMap;

use crate::assemble::Assembler;
use crate::frt::MAX_ADDRESS_SPACES;
use crate::input::Input;
use crate::lines::{self, Base, Lines, UNKNOWN_SIZE, Wrong, shown, whole_lines};
use crate::{Format, Opened};
use farreach_types::addr::Asid;
use farreach_types::error::Result;
use farreach_types::event::{Kind, Op};

const ALLOWED: &str = "allowed are samples of loads and stores, as of \
                       'perf script -G -F comm,pid,tid,time,event,addr,data_src,ip'";
/// Events that arm_spe makes of the samples it also makes `memory` of.
const OF_SPE: [&str; 9] = [
    "l1d-miss",
    "l1d-access",
    "llc-miss",
    "llc-access",
    "tlb-miss",
    "tlb-access",
    "branch-miss",
    "remote-access",
    "instructions",
];
/// The width of a column of addresses, less the longest of them that has blanks in front.
const ADDRESS_WIDTH: usize = 16;

/// Text of perf, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "perf",
    about: "text of perf script: samples of loads and stores (perf mem record), with the fields event and addr",
    lacks: "everything between the samples, and so what follows what; fetches, sizes, mappings",
    settings: "",
    detect: |head| {
        let mut lines = whole_lines(head).filter(|line| !line.starts_with(b"#"));
        lines.next().is_some_and(|line| parse(line).is_ok())
    },
    open: |input: Input, _| -> Result<Opened> { Ok(lines::open(input, &FORMAT, Perf::default())) },
};

/// Who made a sample, as far as it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who<'a> {
    Pid(u64),
    /// The thread, as it is written.
    Tid(&'a [u8]),
    Unknown,
}

/// A parsed line.
#[derive(Debug)]
struct Sample<'a> {
    who: Who<'a>,
    addr: u64,
    /// A load, a store, both, or neither.
    kinds: (bool, bool),
}

#[derive(Default)]
struct Perf {
    begun: bool,
    spaces: HashMap<u64, Asid>,
    /// The thread of all samples without process.
    thread: Option<Vec<u8>>,
}

fn is_hex(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit)
}

/// `4076.833413:`.
fn is_time(text: &[u8]) -> bool {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let Some(at) = text.iter().position(|&b| b == b'.') else { return false };
    text.last() == Some(&b':') && digits(&text[..at]) && digits(&text[at + 1..text.len() - 1])
}

/// The words of a line.
fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty()).collect()
}

/// Whether this word of the line stands in a column of addresses, and is no short name that looks like a number.
fn is_address(line: &[u8], word: &[u8]) -> bool {
    let from = word.as_ptr() as usize - line.as_ptr() as usize;
    let blanks = line[..from].iter().rev().take_while(|&&b| b == b' ').count();
    is_hex(word) && blanks + word.len() >= ADDRESS_WIDTH
}

/// Loads and stores by `|OP LOAD|...`; `None` for an operation that is not known.
fn operation(data_src: &[u8]) -> Option<(bool, bool)> {
    let text = data_src.strip_prefix(b"|OP ")?;
    let text = text.split(|&b| b == b'|').next()?;
    let mut kinds = (false, false);
    for word in text.split(|b| matches!(b, b' ' | b',')).filter(|word| !word.is_empty()) {
        match word {
            b"LOAD" => kinds.0 = true,
            b"STORE" => kinds.1 = true,
            b"N/A" | b"PFETCH" | b"or" => {}
            _ => return None,
        }
    }
    Some(kinds)
}

/// Loads and stores by the name of the event.
fn named(event: &[u8]) -> Option<(bool, bool)> {
    let name = event.to_ascii_lowercase();
    let has = |word: &[u8]| name.windows(word.len()).any(|w| w == word);
    match (has(b"load"), has(b"store")) {
        (load, store) if load != store => Some((load, store)),
        _ => None,
    }
}

fn who<'a>(front: &[&'a [u8]]) -> Result<Who<'a>, Wrong> {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let both = |word: &&&'a [u8]| {
        let mut parts = word.split(|&b| b == b'/');
        parts.next().is_some_and(digits) && parts.next().is_some_and(digits) && parts.next().is_none()
    };
    if let Some(word) = front.iter().rev().find(both) {
        let pid = word.split(|&b| b == b'/').next().unwrap_or(b"");
        return Ok(Who::Pid(lines::number(pid, Base::Decimal)?));
    }
    let Some(time) = front.iter().rposition(|word| is_time(word)) else { return Ok(Who::Unknown) };
    let cpu = |word: &&[u8]| word.starts_with(b"[") && word.ends_with(b"]");
    let thread = front[..time].iter().rev().find(|word| !cpu(word)).filter(|word| digits(word));
    Ok(thread.map_or(Who::Unknown, |thread| Who::Tid(thread)))
}

fn parse(line: &[u8]) -> Result<Sample<'_>, Wrong> {
    let all = words(line);
    let source = line.windows(4).position(|w| w == b"|OP ");
    let op =
        source.map(|at| all.iter().take_while(|word| (word.as_ptr() as usize) < line[at..].as_ptr() as usize).count());
    let at = all
        .windows(2)
        .position(|pair| pair[0].ends_with(b":") && pair[0].iter().any(u8::is_ascii_alphabetic) && is_hex(pair[1]));
    let Some(event) = at else { return Err(format!("no event with an address behind it: {ALLOWED}").into()) };
    let name = &all[event][..all[event].len() - 1];
    if let Some(of_spe) = OF_SPE.iter().find(|known| name.starts_with(known.as_bytes())) {
        return Err(format!(
            "the event {of_spe} is another view of samples of the event memory: say perf script --itrace=M"
        )
        .into());
    }
    // The number before `|OP` is `data_src`; one number alone may be `addr`, `ip` or `data_src`.
    let told = match op {
        Some(op) => op >= event + 3 && is_hex(all[op - 1]),
        None => all.get(event + 2).is_some_and(|word| is_address(line, word)),
    };
    if !told {
        return Err(format!(
            "behind the event stands one number, and whether it is the address is not told: {ALLOWED}; if it is, \
             --columns address=N --base 16 reads it"
        )
        .into());
    }
    let kinds = match source {
        Some(at) => operation(&line[at..]),
        None => named(name),
    };
    let Some(kinds) = kinds else {
        return Err(format!("whether '{}' is a load or a store is not told: {ALLOWED}", shown(name)).into());
    };
    let addr = lines::number(all[event + 1], Base::Hexadecimal)?;
    lines::fits(addr, UNKNOWN_SIZE)?;
    Ok(Sample { who: who(&all[..event])?, addr, kinds })
}

/// Why a line is no sample, if it is one of perf script by its event and what stands before and behind that.
pub(crate) fn why_not(line: &[u8]) -> Option<String> {
    let all = words(line);
    let is_event = |pair: &[&[u8]]| pair[0].ends_with(b":") && !is_time(pair[0]) && is_hex(pair[1]);
    let event = all.windows(2).position(is_event)?;
    let has_time = all[..event].iter().any(|word| is_time(word));
    let has_name = all[event].iter().any(u8::is_ascii_alphabetic);
    parse(line).err().filter(|_| has_time && has_name).map(|wrong| wrong.what)
}

impl Perf {
    fn space(&mut self, who: Who) -> Result<Asid, String> {
        let process = match who {
            Who::Pid(pid) => pid,
            Who::Tid(thread) => {
                if self.thread.get_or_insert_with(|| thread.to_vec()) != thread {
                    return Err(format!(
                        "another thread than before, and whether it is of the same process is not told: {ALLOWED}"
                    ));
                }
                0
            }
            Who::Unknown => 0,
        };
        if self.spaces.len() as u64 >= MAX_ADDRESS_SPACES && !self.spaces.contains_key(&process) {
            return Err(format!("the trace has more than {MAX_ADDRESS_SPACES} processes"));
        }
        let next = Asid(self.spaces.len() as u32);
        Ok(*self.spaces.entry(process).or_insert(next))
    }
}

impl Lines for Perf {
    fn line(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong> {
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let Sample { who, addr, kinds: (load, store) } = parse(line)?;
        if !std::mem::replace(&mut self.begun, true) {
            made.op(Op::Samples)?;
        }
        let space = self.space(who)?;
        if addr == 0 {
            return Ok(());
        }
        made.space(space)?;
        if load {
            made.data(addr, UNKNOWN_SIZE, Kind::Load)?;
        }
        if store {
            made.data(addr, UNKNOWN_SIZE, Kind::Store)?;
        }
        Ok(())
    }
}
