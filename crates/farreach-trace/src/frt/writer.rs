//! Writes a farreach trace. The caller's thread codes batches into columns, and a second thread compresses and writes
//! full chunks; or several threads code and compress.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::coder::{Chunk, Coder, PART_WORDS, Stop, too_many_spaces};
use super::farm::{Ended, Farm, Finished};
use super::sink::{Out, Packer, Sink};
use super::*;
use crate::partial::Partial;
use farreach_types::error::Error;
use farreach_types::event::Batch;

/// Chunks that may wait for the second thread. More would only take memory.
const WAITING: usize = 1;

/// Writes batches into a `.frt` file.
///
/// The file gets its name only in [`finish`](TraceWriter::finish): until then it is `NAME.PID-N.partial` in the same
/// folder, has no trailer, and is removed when the writer is dropped. Its first bytes are written with the first chunk.
/// A killed recording leaves the partial file, which the reader reads up to its last whole chunk and then refuses. A
/// name that exists and is no regular file (a pipe, a device) is written directly.
pub struct TraceWriter {
    file: String,
    batches: u64,
    broken: bool,
    way: Way,
}

/// Who codes.
enum Way {
    /// The caller's thread.
    Here(Box<Here>),
    /// Threads of their own.
    Farm(Box<Farm>),
}

struct Here {
    coder: Coder,
    sender: Option<SyncSender<Box<Chunk>>>,
    spare: Receiver<Box<Chunk>>,
    writer: Option<JoinHandle<io::Result<Sink>>>,
}

impl Here {
    fn start(sink: Sink) -> io::Result<Here> {
        let (sender, chunks) = sync_channel::<Box<Chunk>>(WAITING);
        let (return_chunk, spare) = sync_channel::<Box<Chunk>>(WAITING + 2);
        let writer = std::thread::Builder::new().name("trace writer".into()).spawn(move || {
            let (mut sink, mut packer) = (sink, Packer::new()?);
            for chunk in chunks {
                sink.chunk(packer.pack(&chunk)?)?;
                // The receiver may be gone.
                let _ = return_chunk.try_send(chunk);
            }
            Ok(sink)
        })?;
        Ok(Here { coder: Coder::new(), sender: Some(sender), spare, writer: Some(writer) })
    }

    /// Codes by `what`, which may pass chunks on.
    fn code(
        &mut self,
        what: impl FnOnce(&mut Coder, super::coder::Emit) -> std::result::Result<(), Stop>,
    ) -> std::result::Result<(), Stop> {
        let (sender, spare) = (&self.sender, &self.spare);
        what(&mut self.coder, &mut |full| {
            let sent = match sender.as_ref().map(|s| s.try_send(full)) {
                Some(Err(TrySendError::Full(chunk))) => sender.as_ref().is_some_and(|s| s.send(chunk).is_ok()),
                other => matches!(other, Some(Ok(()))),
            };
            if sent { Ok(spare.try_recv().unwrap_or_default()) } else { Err(Stop::Gone) }
        })
    }

    /// Writes the rest.
    fn finish(mut self) -> std::result::Result<Finished, Ended> {
        // The last chunk is whole; what may have ended the second thread is found below.
        let _ = self.code(|coder, emit| coder.close(emit));
        let sink = self.end()?;
        Ok((sink, self.coder.totals, std::mem::take(&mut self.coder.processes)))
    }

    /// Waits for the second thread: the file, or why it is none.
    fn end(&mut self) -> std::result::Result<Sink, Ended> {
        self.sender = None;
        let Some(writer) = self.writer.take() else { return Err(Ended::Lost) };
        writer.join().map_or(Err(Ended::Lost), |sink| sink.map_err(Ended::Failed))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // The file is dropped with the thread that writes it, and removed.
        let _ = self.end();
    }
}

impl TraceWriter {
    /// Begins a trace that will be `path` once it is finished.
    ///
    /// # Errors
    /// The file cannot be created, or the header is larger than [`MAX_HEADER_BYTES`].
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<TraceWriter> {
        TraceWriter::create_on(path, header, 1)
    }

    /// As [`TraceWriter::create`], with this number of threads that code. With more than one, errors of a batch come
    /// with a later batch or at the end, and [`TraceWriter::totals`] are those of what is in the file. The file is the
    /// same with any number.
    ///
    /// # Errors
    /// As [`TraceWriter::create`].
    pub fn create_on(path: impl AsRef<Path>, header: Header, threads: usize) -> Result<TraceWriter> {
        let path = path.as_ref();
        TraceWriter::start(Out::File(Partial::create(path)?), path.display().to_string(), &header, threads)
    }

    /// Begins a trace in any stream, such as standard output; `name` stands in messages.
    ///
    /// # Errors
    /// The header is larger than [`MAX_HEADER_BYTES`].
    pub fn to_stream(out: impl Write + Send + 'static, name: &str, header: Header) -> Result<TraceWriter> {
        TraceWriter::to_stream_on(out, name, header, 1)
    }

    /// As [`TraceWriter::to_stream`], with threads as for [`TraceWriter::create_on`].
    ///
    /// # Errors
    /// As [`TraceWriter::to_stream`].
    pub fn to_stream_on(
        out: impl Write + Send + 'static,
        name: &str,
        header: Header,
        threads: usize,
    ) -> Result<TraceWriter> {
        TraceWriter::start(Out::Stream(Box::new(out)), name.to_owned(), &header, threads)
    }

    fn start(out: Out, file: String, header: &Header, threads: usize) -> Result<TraceWriter> {
        let fail = |what| Error::Trace { file: file.clone(), place: "header".into(), what };
        let sink = Sink::new(out, json(header).map_err(fail)?);
        let way = match threads {
            0 | 1 => Here::start(sink).map(|here| Way::Here(Box::new(here))),
            _ => Farm::start(threads, sink, (CHUNK_WORDS, PART_WORDS)).map(|farm| Way::Farm(Box::new(farm))),
        };
        let way = way.map_err(|source| Error::Io { file: file.clone(), source })?;
        Ok(TraceWriter { file, batches: 0, broken: false, way })
    }

    /// Sets the number of words at which chunks are closed, for tests of chunk ends; parts end somewhat earlier.
    #[doc(hidden)]
    pub fn with_chunks_of(mut self, words: usize) -> TraceWriter {
        let chunk = words.clamp(1, CHUNK_WORDS);
        let sizes = (chunk, (chunk / 8 * 5).max(1));
        match &mut self.way {
            Way::Here(here) => here.coder.set_sizes(sizes.0, sizes.1),
            Way::Farm(farm) => farm.sizes = sizes,
        }
        self
    }

    /// Sums over what was written so far; processes and address spaces are counted at the end.
    pub fn totals(&self) -> Totals {
        match &self.way {
            Way::Here(here) => here.coder.sums(),
            Way::Farm(farm) => farm.totals(),
        }
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// The batch breaks the contract of [`farreach_types::event`] (undefined block, missing addresses, a definition no
    /// reader accepts), or writing failed. After an error the writer accepts nothing more and leaves no file.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.put(Cow::Borrowed(batch))
    }

    /// Appends a batch, without a copy of it.
    ///
    /// # Errors
    /// As [`TraceWriter::write`].
    pub fn append(&mut self, batch: Batch) -> Result<()> {
        self.put(Cow::Owned(batch))
    }

    fn put(&mut self, batch: Cow<Batch>) -> Result<()> {
        if self.broken {
            return Err(refuse(&self.file, self.batches, 0, "nothing can be written after an error".into()));
        }
        let put = match &mut self.way {
            Way::Here(here) => here.code(|coder, emit| coder.put(&batch, emit)),
            Way::Farm(farm) => farm.put(batch.into_owned()),
        };
        let result = match put {
            Ok(()) => Ok(()),
            Err(Stop::Broken(word, what)) => Err(refuse(&self.file, self.batches, word, what)),
            Err(Stop::Gone) => Err(self.gone()),
        };
        self.broken = result.is_err();
        self.batches += 1;
        result
    }

    /// Why the threads have ended.
    fn gone(&mut self) -> Error {
        let ended = match &mut self.way {
            Way::Here(here) => here.end(),
            Way::Farm(farm) => farm.end(),
        };
        error(&self.file, self.batches, ended.err().unwrap_or(Ended::Lost))
    }

    /// Writes the last chunk, the index and the trailer, and gives the file its name.
    ///
    /// # Errors
    /// Writing failed now or before; then there is no file.
    pub fn finish(self) -> Result<Totals> {
        let TraceWriter { file, batches, broken, way } = self;
        if broken {
            return Err(refuse(&file, batches, 0, "nothing can be finished after an error".into()));
        }
        let ended = match way {
            Way::Here(here) => here.finish(),
            Way::Farm(farm) => farm.finish(),
        };
        let (sink, mut totals, processes) = ended.map_err(|ended| error(&file, batches, ended))?;
        (totals.processes, totals.address_spaces) = (processes.processes(), processes.address_spaces());
        if totals.address_spaces > MAX_ADDRESS_SPACES {
            return Err(refuse(&file, batches, 0, too_many_spaces()));
        }
        sink.finish(&file, &totals)?;
        Ok(totals)
    }
}

#[cold]
fn error(file: &str, batches: u64, ended: Ended) -> Error {
    match ended {
        Ended::Broken(batch, word, what) => refuse(file, batch, word, what),
        Ended::Failed(source) => Error::Io { file: file.to_owned(), source },
        Ended::Lost => refuse(file, batches, 0, "a thread of the writer failed".into()),
    }
}

#[cold]
fn refuse(file: &str, batch: u64, word: usize, what: String) -> Error {
    Error::Trace { file: file.to_owned(), place: format!("batch {batch}, word {word}"), what }
}

/// The header as JSON.
fn json(header: &Header) -> std::result::Result<Vec<u8>, String> {
    let json = serde_json::to_vec(header).map_err(|e| format!("the header does not become JSON: {e}"))?;
    if json.len() > MAX_HEADER_BYTES as usize {
        return Err(format!("the header has {} bytes; a file takes {MAX_HEADER_BYTES}", json.len()));
    }
    Ok(json)
}
