//! Traces of DynamoRIO's drmemtrace (drcachesim), processed for analysis, and so the Google workload traces of version
//! 2.
//!
//! A file is a sequence of records of twelve bytes (`record.rs`): references, instructions, which thread runs, and
//! markers. It is one thread, several threads one after the other, or what ran on one core. A folder is a trace with a
//! file for each thread (or core); their order is that of the timestamps in them. What every type means here, what is
//! skipped and what is refused is listed in `docs/book/src/reference/trace-format.md`.
//!
//! The format knows processes and threads but no mappings: each process is an address space, there is no `Start`.
//! Blocks are made by `assemble`.

mod folder;
mod processes;
pub(crate) mod record;
pub(crate) mod shard;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::Input;
use crate::{Format, Opened};
use farreach_types::error::{Error, Result};
use processes::Processes;
use record::{RECORD, Record, marker, ty};
use shard::{Shard, Stop};

pub(super) use folder::open_folder;

const NAME: &str = "drmemtrace";
/// What to do with a trace that was not processed.
const PROCESS: &str = "DynamoRIO makes a processed trace: drrun -t drmemtrace -tool basic_counts -indir FOLDER";

/// drmemtrace, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: NAME,
    about: "DynamoRIO drmemtrace (drcachesim) after processing, Google workload traces: a file, or a folder with a \
            file per thread",
    lacks: "mappings, forks",
    settings: "",
    detect: |head| header(head).is_some() || foreign(head).is_some(),
    open: |input: Input, _| -> Result<Opened> {
        let info = input.info(NAME);
        Ok(Opened { source: Box::new(Assembled::new(DrmemtraceReader::new(vec![input], &info.file)?)), info })
    },
};

/// Version that the header says, if a trace begins with one.
fn header(head: &[u8]) -> Option<u64> {
    let first = Record::of(head.first_chunk::<RECORD>()?);
    // The version does not identify a trace, but keeps texts and pictures from being taken for one.
    (first.ty == ty::HEADER && first.size == 0 && first.value < 256).then_some(first.value)
}

/// Related formats, recognised so that the error can name the reason.
fn foreign(head: &[u8]) -> Option<String> {
    let words =
        [head.get(..8)?, head.get(8..16)?].map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    // A version in the upper bytes, or in the lower ones in old traces; the thread follows.
    let raw = matches!(words[0] >> 56, 0xc0 | 0xc4) && words[1] >> 61 == 2;
    if raw {
        return Some(format!("the trace has raw records, as they were recorded; {PROCESS}"));
    }
    let [low, high] = [words[0] as u32, (words[0] >> 32) as u32];
    let next = words[1] as u16;
    let narrow = low == u32::from(ty::HEADER) && (1..256).contains(&high) && matches!(next, ty::MARKER | ty::THREAD);
    narrow.then(|| {
        "the trace has records of 8 bytes, of a 32-bit program; allowed are records of 12 bytes, of 64-bit programs"
            .into()
    })
}

/// The time of the first timestamp, or 0 if the first bytes do not contain one. Fails early on records that are
/// refused.
fn begins(input: &Input) -> Result<u64> {
    let fail = |at: usize, what| Error::Trace { file: input.file.clone(), place: format!("byte {at}"), what };
    if let Some(why) = foreign(input.head()) {
        return Err(fail(0, why));
    }
    for (number, record) in
        input.head().as_chunks().0.iter().map(Record::of).enumerate().filter(|(_, r)| r.ty == ty::MARKER)
    {
        match record.size {
            marker::TIMESTAMP => return Ok(record.value),
            marker::FILETYPE => _ = shard::filetype(record.value).map_err(|what| fail(number * RECORD, what))?,
            _ => {}
        }
    }
    Ok(0)
}

/// A file of a trace.
enum File {
    /// Not opened yet: a trace may have more files than a process may have open, but hardly as many threads at a time.
    Closed(String),
    /// Nothing was read from it.
    Ready(Input),
    Open(Box<Shard>),
    /// Read to its end.
    Over,
}

/// Reads a drmemtrace trace of one file or several.
pub(super) struct DrmemtraceReader {
    files: Vec<File>,
    /// Files that wait, each with the time at which it goes on, the earliest first; of files with the same time, the
    /// first one first.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    current: Option<usize>,
    all: Processes,
    /// Name of the trace.
    file: String,
}

impl DrmemtraceReader {
    /// Reads the files of a trace, ordered by their timestamps; of files with the same time, the first one first.
    /// `file` stands in messages for the whole.
    ///
    /// # Errors
    /// A file is of a kind that cannot be read.
    pub fn new(inputs: Vec<Input>, file: &str) -> Result<DrmemtraceReader> {
        let begins = |input: Input| Ok((begins(&input)?, File::Ready(input)));
        Ok(DrmemtraceReader::of(inputs.into_iter().map(begins).collect::<Result<_>>()?, file))
    }

    /// From files, each with the time at which it begins.
    fn of(files: Vec<(u64, File)>, file: &str) -> DrmemtraceReader {
        let waiting = files.iter().enumerate().map(|(at, &(time, _))| Reverse((time, at))).collect();
        let files = files.into_iter().map(|(_, file)| file).collect();
        DrmemtraceReader { files, waiting, current: None, all: Processes::new(), file: file.to_owned() }
    }

    /// The next file to go on, taken out of the queue.
    fn open(&mut self, at: usize) -> Result<Box<Shard>> {
        let ordered = self.files.len() > 1;
        let input = match std::mem::replace(&mut self.files[at], File::Over) {
            File::Open(shard) => return Ok(shard),
            File::Ready(input) => input,
            File::Closed(name) => Input::open(&name)?,
            File::Over => unreachable!("files that ended do not wait"),
        };
        Ok(Box::new(Shard::new(input, ordered)))
    }
}

impl Reader for DrmemtraceReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.all.made
    }

    /// Reads the file with the earliest time, up to the time of the next one.
    fn read_more(&mut self) -> Result<bool> {
        let Some(at) = self.current.or_else(|| self.waiting.pop().map(|Reverse((_, at))| at)) else { return Ok(false) };
        let limit = self.waiting.peek().map_or(u64::MAX, |&Reverse((time, other))| time - u64::from(other < at));
        let again = self.current.replace(at).is_some();
        let mut shard = self.open(at)?;
        match shard.run(&mut self.all, limit, !again)? {
            Stop::Full => self.files[at] = File::Open(shard),
            Stop::Time(time) => {
                self.waiting.push(Reverse((time, at)));
                (self.files[at], self.current) = (File::Open(shard), None);
            }
            Stop::End => self.current = None,
        }
        Ok(true)
    }

    fn fail(&self, what: String) -> Error {
        Error::Trace { file: self.file.clone(), place: "end".into(), what }
    }
}
