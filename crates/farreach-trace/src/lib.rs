//! Traces on disk: readers and writers, the checker, generators.
//!
//! Owns every format that a stream is read from or written to, and the check that a stream is complete and keeps its
//! contract. [`open_trace`] finds the format by content. A further format is one file with a [`Format`] and one line in
//! [`FORMATS`].
//!
//! Must not know who consumes a stream: no machine, no operating system, no hardware. It provides events and blocks as
//! [`farreach_types::event`] defines them, and an error names file, place and value.

mod ahead;
mod assemble;
mod chain;
mod champsim;
pub mod check;
pub mod columns;
pub mod convert;
pub mod cut;
mod cvp;
mod dealt;
mod dramsim;
mod drmemtrace;
mod execlog;
pub mod frt;
#[doc(hidden)]
pub mod fuzz;
mod gem5;
pub mod generate;
pub mod input;
mod interleave;
mod lackey;
mod lines;
mod pages;
mod partial;
mod perf;
mod pinatrace;
mod pipe;
pub mod relocate;
mod samples;
mod settings;
mod sift;
pub mod table;
mod tally;
mod unknown;
pub mod write;

use farreach_types::error::{Error, Result};
use farreach_types::event::Source;

pub use chain::Chain;
pub use check::{Checked, Checker, Report, check};
pub use convert::{Summary, recover, summarize, to_frt};
pub use cut::{Cut, Cutter, Piece, Place};
pub use dealt::Dealt;
pub use frt::{FrtReader, Header, Totals, TraceWriter};
pub use input::Input;
pub use interleave::Interleaved;
pub use pages::Pages;
pub use partial::Partial;
pub use pipe::{Arrival, Pipe, is_pipe};
pub use relocate::{Layout, Relocated, Relocator};
pub use samples::{Hot, Sampled};
pub use write::{TARGETS, Target, Written, to_lackey, write_file, write_to};

/// A format of traces that can be read.
pub struct Format {
    /// What `--format` takes.
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Whether these first bytes (up to 512, decompressed) begin such a trace.
    pub detect: fn(&[u8]) -> bool,
    /// What such a trace does not have, for display. Empty: nothing that other formats have.
    pub lacks: &'static str,
    /// What must be said of such a trace beside, for display: `NAME:key=value,...`. Empty: nothing.
    pub settings: &'static str,
    /// Begins reading, with these settings.
    pub open: fn(Input, &str) -> Result<Opened>,
}

/// Every format, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    frt::FORMAT,
    lackey::FORMAT,
    drmemtrace::FORMAT,
    pinatrace::FORMAT,
    dramsim::FORMAT,
    execlog::FORMAT,
    perf::FORMAT,
    gem5::FORMAT,
    sift::FORMAT,
    table::arrow::FORMAT,
    cvp::FORMAT,
    champsim::FORMAT,
    champsim::CLOUDSUITE,
    table::parquet::FORMAT,
    table::FORMAT,
];

/// What is known of a trace before its first batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceInfo {
    /// File name, or `standard input`.
    pub file: String,
    /// Name of the [`Format`].
    pub format: &'static str,
    /// `gz`, `bz2`, `xz`, `zst`, `zip`, `lz4` or `snappy`, if the file is compressed as a whole.
    pub compression: Option<&'static str>,
    /// Size of the file; unknown for pipes.
    pub bytes: Option<u64>,
    /// Origin, for formats that record it.
    pub header: Option<Header>,
}

/// A trace that is open for reading.
pub struct Opened {
    /// Its batches.
    pub source: Box<dyn Source + Send>,
    /// What is known of it.
    pub info: TraceInfo,
}

/// Opens a trace: a path, or `-` for standard input. The format is found by content unless it is forced: the name of a
/// format, with settings for those that need some, such as `text:address=2,kind=3`. A folder is a trace of DynamoRIO's
/// drmemtrace with a file for each thread.
///
/// # Errors
/// The file cannot be read, is empty, has no known format, or its beginning is damaged; the format asked for does not
/// exist.
pub fn open_trace(path: &str, forced_format: Option<&str>) -> Result<Opened> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.is_dir()) {
        return drmemtrace::open_folder(path, forced_format);
    }
    open_input(Input::open(path)?, forced_format)
}

/// Opens a trace that is any stream.
///
/// # Errors
/// As [`open_trace`].
pub fn open_input(input: Input, forced_format: Option<&str>) -> Result<Opened> {
    let fail = |what: String| Error::Trace { file: input.file.clone(), place: "byte 0".into(), what };
    let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let head = input.head();
    if head.is_empty() {
        return Err(fail("the trace is empty: no references".into()));
    }
    let (name, settings) = forced_format.map_or((None, ""), |forced| {
        forced.split_once(':').map_or((Some(forced), ""), |(name, settings)| (Some(name), settings))
    });
    let format = match name {
        Some(name) => FORMATS
            .iter()
            .find(|f| f.name == name)
            .ok_or_else(|| fail(format!("there is no format '{name}'; known are {}", names())))?,
        None => FORMATS.iter().find(|f| (f.detect)(head)).ok_or_else(|| {
            let seen = unknown::suggestion(head);
            fail(format!("the format is not known: {seen}. Known are {}; --format NAME says which it is", names()))
        })?,
    };
    if format.settings.is_empty() && !settings.is_empty() {
        return Err(fail(format!("the format {} takes no settings, and got '{settings}'", format.name)));
    }
    (format.open)(input, settings)
}
