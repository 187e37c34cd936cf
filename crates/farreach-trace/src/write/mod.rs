//! Traces in the formats of other tools.
//!
//! `steps` takes a stream apart into instructions, each with its references, its bytes if the stream has them, and the
//! instruction that the same thread executed next; `code` says what an instruction is. A format is one file with a
//! `Sink` that makes bytes of steps, and one line in [`TARGETS`].
//!
//! Nothing is left out silently: what a format cannot hold is counted, and [`Written`] says it in a line for each kind.

mod champsim;
mod code;
mod drmemtrace;
mod gem5;
mod lackey;
mod packed;
mod parquet;
mod steps;

use std::io::{self, Write};

use crate::Opened;
use crate::TraceInfo;
use code::Code;
use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Access, Instr};
use packed::Packed;
use steps::Steps;

/// A format that any trace can be written in.
pub struct Target {
    /// What `--to` takes.
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Whether it is text, which may go to a terminal.
    pub text: bool,
    /// Endings of names by which its own tool knows a compressed file: `gz`, `xz`, `zst`.
    pub endings: &'static [&'static str],
    sink: fn(&TraceInfo) -> Box<dyn Sink>,
}

/// Every one, but for farreach traces.
pub const TARGETS: &[Target] =
    &[lackey::TARGET, drmemtrace::TARGET, gem5::TARGET, champsim::TARGET, champsim::CLOUDSUITE, parquet::TARGET];

/// What was written, and what the format does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Fetches of the stream, all of which were written.
    pub instructions: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// A line for each kind of what was left out or written in another form, with counts.
    pub lost: Vec<String>,
}

impl Written {
    /// Fetches, loads and stores together.
    pub fn references(&self) -> u64 {
        self.instructions + self.loads + self.stores
    }
}

/// Writes a trace into a file, which gets its name once it is whole. Names that end in `.gz`, `.xz` and `.zst` say that
/// it is compressed, where the tool of the format reads that. `-` is standard output.
///
/// # Errors
/// As [`write_to`], or the tool would read a file of this name in another way; then there is no file.
pub fn write_file(opened: Opened, target: &Target, path: &str) -> Result<Written> {
    if path == "-" {
        return write_to(opened, target, &mut io::stdout().lock(), "standard output");
    }
    let mut out = Packed::create(path, target)?;
    let written = write_to(opened, target, &mut out, path)?;
    out.commit()?;
    Ok(written)
}

/// Writes a trace; `file` stands in messages.
///
/// # Errors
/// The trace cannot be read to its end, breaks the contract of the stream, has something without which the format would
/// say what is not so, or cannot be written.
pub fn write_to(opened: Opened, target: &Target, out: &mut dyn Write, file: &str) -> Result<Written> {
    let mut source = opened.source;
    let mut steps = Steps::new((target.sink)(&opened.info), target.name, out);
    loop {
        let batch = source.next_batch()?;
        let (done, asid) = match &batch {
            Some(batch) => (steps.batch(batch), batch.asid),
            None => (steps.finish(), Asid(0)),
        };
        match done {
            Ok(()) if batch.is_some() => {}
            Ok(()) => return Ok(steps.written()),
            Err(Stop::Io(source)) => return Err(Error::Io { file: file.to_owned(), source }),
            Err(Stop::Cannot(what)) => {
                let place = format!("address space {}, behind instruction {}", asid.0, steps.instructions());
                return Err(Error::Trace { file: opened.info.file, place, what });
            }
        }
    }
}

/// Writes all references as Lackey text.
///
/// # Errors
/// As [`write_to`].
pub fn to_lackey(opened: Opened, mut out: impl Write, file: &str) -> Result<Written> {
    write_to(opened, &lackey::TARGET, &mut out, file)
}

/// Why writing stopped.
enum Stop {
    Io(io::Error),
    /// The stream is broken, or has what the format cannot say.
    Cannot(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Cannot(what)
    }
}

/// An instruction that was executed, with its data references; or some of these alone.
struct Step<'a> {
    /// Address space.
    asid: Asid,
    /// Number of the thread in the whole trace, from 0 in the order of their first references.
    thread: u32,
    /// `None`: further references of the last instruction, or of none.
    instr: Option<Instr>,
    /// What it is, if its bytes are known.
    code: Option<&'a Code>,
    /// The address of the instruction that the thread executed next; `None` if another thread went on, or none.
    next: Option<u64>,
    /// In program order.
    data: &'a [Access],
}

/// What a format holds beside references in their order.
struct Holds {
    /// Address spaces.
    spaces: bool,
    /// Threads.
    threads: bool,
    /// Sizes of references.
    sizes: bool,
    /// Instructions by their bytes: the sink asks for `code`.
    code: bool,
    /// References of whole systems.
    systems: bool,
}

/// Makes bytes of steps. Errors say what cannot be written.
trait Sink {
    fn holds(&self) -> Holds;
    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> std::result::Result<(), String>;
    /// A thread with references has ended; `asid` is its address space.
    fn exit(&mut self, _asid: Asid, _thread: u32, _out: &mut Vec<u8>) {}
    /// The end: the rest, and lines about what was lost beside what [`Holds`] says.
    fn finish(&mut self, _out: &mut Vec<u8>) -> Vec<String> {
        Vec::new()
    }
}
