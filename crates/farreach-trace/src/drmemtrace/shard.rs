//! One file of a trace: what it may contain, and what its records mean.

use hashbrown::HashMap;

use super::processes::{Processes, Thread};
use super::record::filetype::{AARCH64, CORE_SHARDED};
use super::record::{Record, Records, marker, ty};
use crate::input::Input;
use farreach_types::error::Result;
use farreach_types::event::{Kind, MAX_REF_BYTES};

/// Versions of the format whose records have this meaning.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;
/// Longest instruction of any architecture, as recorded.
pub(crate) const MAX_INSTR_BYTES: u16 = 15;
/// Bytes of an encoding, or instructions of a bundle, that one record holds.
const VALUE_BYTES: u16 = 8;

/// All bits that are known.
const FILETYPES: u64 = 0x7_ffff;
/// Bits of the file type of traces that do not hold the references of a program, with the reason.
const REFUSED: [(u64, &str); 6] = [
    (0x2000, "its first part was filtered by a cache: references are missing"),
    (0x1 | 0x80 | 0x100, "it was filtered by a cache while it was recorded: references are missing"),
    (0x4, "it has instructions only: loads and stores are missing"),
    (0x4000, "it holds templates of system calls or context switches and no program"),
    (0x8000, "it holds the instructions of the kernel without its loads and stores: references are missing"),
    (0x4_0000, "it is a view of the whole system, which does not tell the address space of a reference"),
];

/// Why [`Shard::run`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// A batch is full.
    Full,
    /// The next records happened at this time, later than allowed.
    Time(u64),
    /// The file has ended.
    End,
}

/// Where in its file a shard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Start,
    Inside,
    /// Behind a footer.
    Footer,
}

/// A file of the trace and how far it was read.
pub(super) struct Shard {
    records: Records,
    filetype: u64,
    part: Part,
    tid: Option<u64>,
    /// Processes of the threads of this file.
    pids: HashMap<u64, u64>,
    /// The stream was switched to this file's thread.
    entered: bool,
    /// The last instruction: its address and the end of it, where a bundle goes on.
    next_pc: Option<u64>,
    window: Option<u64>,
    chunk: Option<u64>,
    time: u64,
    /// Whether time must not go back: the file is one of several.
    ordered: bool,
}

impl Shard {
    /// `ordered`: the file is one of several that are put in order by their timestamps.
    pub fn new(input: Input, ordered: bool) -> Shard {
        Shard {
            records: Records::new(input),
            filetype: 0,
            part: Part::Start,
            tid: None,
            pids: HashMap::new(),
            entered: false,
            next_pc: None,
            window: None,
            chunk: None,
            time: 0,
            ordered,
        }
    }

    /// Reads on until a batch is full, or up to a timestamp after `limit`. `resumed`: another file was read in between.
    pub fn run(&mut self, all: &mut Processes, limit: u64, resumed: bool) -> Result<Stop> {
        self.entered &= !resumed;
        while !all.made.is_full() {
            let Some(record) = self.records.next()? else {
                return self.end();
            };
            if self.part != Part::Inside && self.begin(record).map_err(|what| self.records.fail(what))? {
                continue;
            }
            let done = match record.ty {
                ty::INSTR..=ty::INSTR_RETURN | ty::INSTR_TAKEN_JUMP | ty::INSTR_UNTAKEN_JUMP | ty::INSTR_SYSENTER => {
                    self.fetch(all, record.value, record.size)
                }
                ty::READ => self.data(all, record, Kind::Load),
                ty::WRITE => self.data(all, record, Kind::Store),
                ty::ENCODING if record.size <= VALUE_BYTES => Ok(()),
                ty::MARKER => match self.marker(record) {
                    Ok(Some(time)) if time > limit => return Ok(Stop::Time(time)),
                    other => other.map(|_| ()),
                },
                _ => self.other(all, record),
            };
            done.map_err(|what| self.records.fail(what))?;
        }
        Ok(Stop::Full)
    }

    /// Announces the thread of the next references.
    #[inline]
    fn enter(&mut self, all: &mut Processes) -> std::result::Result<(), String> {
        if self.entered { Ok(()) } else { self.enter_anew(all) }
    }

    #[cold]
    fn enter_anew(&mut self, all: &mut Processes) -> std::result::Result<(), String> {
        if self.ordered && self.time == 0 {
            return Err("a reference before the first timestamp: the files of this trace cannot be put in order".into());
        }
        let tid = self.tid.ok_or("a reference, but no record has said which thread runs")?;
        all.enter(self.thread(tid)?)?;
        self.entered = true;
        Ok(())
    }

    fn thread(&self, tid: u64) -> std::result::Result<Thread, String> {
        let pid =
            self.pids.get(&tid).ok_or_else(|| format!("no record has said which process thread {tid} belongs to"))?;
        Ok(Thread { pid: *pid, tid })
    }

    #[inline]
    fn fetch(&mut self, all: &mut Processes, pc: u64, len: u16) -> std::result::Result<(), String> {
        self.enter(all)?;
        if len == 0 {
            return Err(
                "an instruction of 0 bytes, which says that its fetch was filtered: references are missing".into()
            );
        }
        if len > MAX_INSTR_BYTES {
            return Err(format!("an instruction of {len} bytes; 1 to {MAX_INSTR_BYTES} are allowed"));
        }
        self.next_pc = Some(within(pc, len)?);
        all.made.instr(pc, u32::from(len))
    }

    #[inline]
    fn data(&mut self, all: &mut Processes, record: Record, kind: Kind) -> std::result::Result<(), String> {
        self.enter(all)?;
        let mut addr = record.value;
        if self.filetype & AARCH64 != 0 {
            // The top byte may be a tag, which translation does not see.
            addr = ((addr << 8) as i64 >> 8) as u64;
        }
        // The recorder does not know how much XSAVE and similar instructions touch, only their first byte.
        let size = record.size.max(1);
        within(addr, size)?;
        all.made.data(addr, u32::from(size), kind)
    }

    /// A marker; the time if it is a timestamp.
    fn marker(&mut self, record: Record) -> std::result::Result<Option<u64>, String> {
        let Record { size, value, .. } = record;
        match size {
            marker::TIMESTAMP => {
                if self.ordered && value < self.time {
                    let time = self.time;
                    return Err(format!(
                        "the timestamp {value} after {time}: the files of this trace cannot be put in order"
                    ));
                }
                self.time = value;
                return Ok(Some(value));
            }
            marker::VERSION => version(value)?,
            marker::FILETYPE => self.filetype = filetype(value)?,
            marker::WINDOW_ID => {
                let former = *self.window.get_or_insert(value);
                if former != value {
                    return Err(format!(
                        "window {value} begins after window {former}: the trace has windows, and what was executed \
                         between them is missing"
                    ));
                }
            }
            marker::CHUNK_FOOTER => {
                if let Some(former) = self.chunk.replace(value)
                    && former.checked_add(1) != Some(value)
                {
                    return Err(format!("chunk {value} ends after chunk {former}: what lies between them is missing"));
                }
            }
            _ => marker::judge(size).map_err(|why| format!("a marker of type {size}, {why}"))?,
        }
        Ok(None)
    }

    /// Records that are rarer than references.
    #[cold]
    fn other(&mut self, all: &mut Processes, record: Record) -> std::result::Result<(), String> {
        let Record { ty, size, value } = record;
        match ty {
            ty::THREAD => (self.tid, self.entered) = (Some(value), false),
            ty::PID => {
                let tid = self.tid.ok_or("a process, but no record has said which thread runs")?;
                self.pids.insert(tid, value);
                self.entered = false;
            }
            ty::THREAD_EXIT => {
                all.exit(self.thread(value)?)?;
                // The stream may be in the address space of that thread now.
                self.entered = false;
                self.tid = self.tid.filter(|&tid| tid != value);
            }
            // Later iterations of one instruction: it is not fetched again, its loads and stores follow.
            ty::INSTR_NO_FETCH => self.enter(all)?,
            ty::INSTR_BUNDLE => {
                if size == 0 || size > VALUE_BYTES {
                    return Err(format!("a bundle of {size} instructions; 1 to {VALUE_BYTES} are allowed"));
                }
                for len in value.to_le_bytes().into_iter().take(usize::from(size)) {
                    let pc = self.next_pc.ok_or("a bundle of instructions, but no instruction before it")?;
                    self.fetch(all, pc, u16::from(len))?;
                }
            }
            // Prefetches and flushes are no references: they do not need their translation.
            ty::PREFETCH..=ty::PREFETCH_INSTR
            | ty::PREFETCH_READ_L1_NT..=ty::PREFETCH_WRITE_L3_NT
            | ty::INSTR_FLUSH..=ty::DATA_FLUSH_END => {}
            ty::HEADER if self.filetype & CORE_SHARDED == 0 => {
                return Err("a header, but the trace before it has no footer: it was cut".into());
            }
            ty::HEADER => {
                version(value)?;
                self.chunk = None;
            }
            ty::FOOTER => self.part = Part::Footer,
            ty::ENCODING => return Err(format!("an encoding of {size} bytes; at most {VALUE_BYTES} are allowed")),
            ty::HARDWARE_PREFETCH | ty::INSTR_MAYBE_FETCH => {
                return Err(format!(
                    "a record of type {ty}, which is never in a file; allowed are 0 to 26, 28, 29 and 31 to 49"
                ));
            }
            _ => return Err(format!("a record of type {ty}; allowed are 0 to 26, 28, 29 and 31 to 49")),
        }
        Ok(())
    }

    /// The first record, or one behind a footer. True if it was a header, which has no further meaning.
    #[cold]
    fn begin(&mut self, record: Record) -> std::result::Result<bool, String> {
        let former = std::mem::replace(&mut self.part, Part::Inside);
        let of_core = self.filetype & CORE_SHARDED != 0;
        match record.ty {
            ty::HEADER => {
                version(record.value)?;
                self.chunk = None;
                if !of_core {
                    // Another trace, as in archives of whole traces.
                    (self.filetype, self.tid, self.entered, self.next_pc, self.window) = (0, None, false, None, None);
                }
                Ok(true)
            }
            other if former == Part::Start => Err(format!(
                "a record of type {other}; allowed is a header, type {}, with which a trace begins",
                ty::HEADER
            )),
            // A thread ended, not the core.
            _ if of_core => Ok(false),
            other => Err(format!("a record of type {other} behind the footer; allowed is the header of another trace")),
        }
    }

    fn end(&mut self) -> Result<Stop> {
        match self.part {
            Part::Footer => Ok(Stop::End),
            Part::Start | Part::Inside => {
                Err(self.records.fail_at_end("the file ends here without a footer: it is cut".into()))
            }
        }
    }
}

/// The end of `size` bytes at `addr`.
#[inline]
fn within(addr: u64, size: u16) -> std::result::Result<u64, String> {
    const { assert!(u16::MAX as u32 <= MAX_REF_BYTES) };
    addr.checked_add(u64::from(size)).ok_or_else(|| format!("{size} bytes at {addr:#x}, which reach past 2^64"))
}

fn version(version: u64) -> std::result::Result<(), String> {
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(format!("version {version} of the format; {} to {} are known", VERSIONS.start(), VERSIONS.end()))
}

/// The type of a file, if the trace has the references of a program.
pub(super) fn filetype(bits: u64) -> std::result::Result<u64, String> {
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| bits & refused != 0) {
        return Err(format!("the type of the file is {bits:#x}: {why}"));
    }
    if bits & !FILETYPES != 0 {
        return Err(format!("the type of the file is {bits:#x}; only the bits of {FILETYPES:#x} have a known meaning"));
    }
    Ok(bits)
}
