//! Writes a farreach trace. The caller's thread codes batches into columns; a second thread compresses and writes full
//! chunks.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::columns::Columns;
use super::encode::{LookAhead, put_blocks};
use super::model::{Defined, Model, STEP_OP};
use super::ops::{OpState, put_asid, put_op, put_redefine};
use super::*;
use crate::partial::Partial;
use crate::tally::Processes;
use farreach_types::addr::Asid;
use farreach_types::error::Error;
use farreach_types::event::{Batch, OP_BIT, Op};

/// zstd level of each column. On real streams higher levels make the file a twentieth smaller and cost the recorder a
/// third more.
const LEVELS: [i32; COLUMNS] = [3, 1, 1, 1, 2];
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
    chunk: Box<Chunk>,
    asid: Asid,
    model: Model,
    op_state: OpState,
    totals: Totals,
    processes: Processes,
    batches: u64,
    sender: Option<SyncSender<Box<Chunk>>>,
    spare: Receiver<Box<Chunk>>,
    worker: Option<JoinHandle<io::Result<Sink>>>,
    broken: bool,
    /// Version of the file, once a chunk was passed on.
    version: Option<u32>,
    /// Whether there were events of whole systems, and anything of a program.
    guests: bool,
    program: bool,
    /// A chunk is closed once it has this number of words.
    chunk_words: usize,
}

/// The columns of a chunk before compression.
#[derive(Default)]
struct Chunk {
    /// Of the file.
    version: u32,
    asid: u32,
    records: u32,
    words: usize,
    sums: Totals,
    columns: Columns,
}

impl Chunk {
    fn begin(&mut self, asid: Asid) {
        *self = Chunk { asid: asid.0, columns: std::mem::take(&mut self.columns), ..Chunk::default() };
        self.columns.clear();
    }
}

impl TraceWriter {
    /// Begins a trace that will be `path` once it is finished.
    ///
    /// # Errors
    /// The file cannot be created, or the header is larger than [`MAX_HEADER_BYTES`].
    pub fn create(path: impl AsRef<Path>, header: Header) -> Result<TraceWriter> {
        let path = path.as_ref();
        TraceWriter::start(Out::File(Partial::create(path)?), path.display().to_string(), &header)
    }

    /// Begins a trace in any stream, such as standard output; `name` stands in messages.
    ///
    /// # Errors
    /// The header is larger than [`MAX_HEADER_BYTES`].
    pub fn to_stream(out: impl Write + Send + 'static, name: &str, header: Header) -> Result<TraceWriter> {
        TraceWriter::start(Out::Stream(Box::new(out)), name.to_owned(), &header)
    }

    fn start(out: Out, file: String, header: &Header) -> Result<TraceWriter> {
        let fail = |what| Error::Trace { file: file.clone(), place: "header".into(), what };
        let json = json(header).map_err(fail)?;
        let (sender, chunks) = sync_channel::<Box<Chunk>>(WAITING);
        let (return_chunk, spare) = sync_channel::<Box<Chunk>>(WAITING + 2);
        let sink =
            Sink { out: BufWriter::with_capacity(1 << 18, out), at: 0, before: Totals::default(), index: Vec::new() };
        let worker = std::thread::Builder::new().name("trace writer".into()).spawn(move || {
            let mut sink = sink;
            let mut zstd = zstd::bulk::Compressor::new(LEVELS[OPS])?;
            for chunk in chunks {
                if sink.at == 0 {
                    sink.put(&prefix(&json, chunk.version))?;
                }
                sink.chunk(&mut zstd, &chunk)?;
                // The receiver may be gone.
                let _ = return_chunk.try_send(chunk);
            }
            if sink.at == 0 {
                sink.put(&prefix(&json, PROGRAMS))?;
            }
            Ok(sink)
        });
        let worker = worker.map_err(|source| Error::Io { file: file.clone(), source })?;
        let mut model = Model::new();
        model.begin_chunk();
        Ok(TraceWriter {
            file,
            chunk: Box::default(),
            asid: Asid(0),
            model,
            op_state: OpState::default(),
            totals: Totals::default(),
            processes: Processes::default(),
            batches: 0,
            sender: Some(sender),
            spare,
            worker: Some(worker),
            broken: false,
            version: None,
            guests: false,
            program: false,
            chunk_words: CHUNK_WORDS,
        })
    }

    /// Sets the number of words at which chunks are closed, for tests of chunk ends.
    #[doc(hidden)]
    pub fn with_chunks_of(mut self, words: usize) -> TraceWriter {
        self.chunk_words = words.clamp(1, CHUNK_WORDS);
        self
    }

    /// Sums over what was written so far; processes and address spaces are counted at the end.
    pub fn totals(&self) -> Totals {
        let (mut totals, sums) = (self.totals, &self.chunk.sums);
        totals.instructions += sums.instructions;
        totals.loads += sums.loads;
        totals.stores += sums.stores;
        totals
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// The batch breaks the contract of [`farreach_types::event`] (undefined block, missing addresses, a definition no
    /// reader accepts), or
    /// writing failed. After an error the writer accepts nothing more and leaves no file.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        if self.broken {
            return Err(self.refuse(0, "nothing can be written after an error".into()));
        }
        let result = self.write_words(batch);
        self.broken = result.is_err();
        self.batches += 1;
        result
    }

    fn write_words(&mut self, batch: &Batch) -> Result<()> {
        if batch.words.is_empty() {
            return Ok(());
        }
        self.change_asid(batch.asid);
        let words = &batch.words[..];
        let mut ahead = LookAhead::new(&self.model, words);
        let (mut at, mut executed) = (0, false);
        while at < words.len() {
            if words[at] & OP_BIT == 0 {
                let Chunk { columns, sums, words: size, .. } = &mut *self.chunk;
                let run = put_blocks(&mut self.model, words, at, self.chunk_words - *size, &mut ahead, columns, sums);
                executed |= run.end > at;
                self.program |= executed;
                (at, *size) = (run.end, *size + run.words);
                if let Some(why) = run.broken {
                    return Err(self.refuse(at, why.to_string()));
                }
            } else {
                ahead.step(&self.model.by_id, &self.model.cells, words);
                let op = batch.op(words[at]).map_err(|why| self.refuse(at, why.to_string()))?;
                self.put_op(op).map_err(|what| self.refuse(at, what))?;
                self.processes.see(batch.asid, Some(op));
                at += 1;
                self.chunk.words += 1;
            }
            if self.chunk.words >= self.chunk_words || self.chunk.columns.ops.len() >= CHUNK_OP_BYTES {
                // A trace of which nothing but starts and definitions is known may become one of a system.
                self.close_chunk(if self.program { PROGRAMS } else { VERSION })?;
            }
        }
        if executed {
            self.processes.see(batch.asid, None);
        }
        if self.processes.address_spaces() > MAX_ADDRESS_SPACES {
            return Err(self.refuse(0, format!("the trace has more than {MAX_ADDRESS_SPACES} address spaces")));
        }
        Ok(())
    }

    fn change_asid(&mut self, asid: Asid) {
        if self.chunk.words == 0 {
            self.chunk.asid = asid.0;
        } else if asid != self.asid {
            self.chunk.columns.steps.push(STEP_OP);
            put_asid(&mut self.chunk.columns.ops, asid);
            self.chunk.records += 1;
        }
        self.asid = asid;
    }

    fn put_op(&mut self, op: &Op) -> std::result::Result<(), String> {
        let column = &mut self.chunk.columns.ops;
        if let Op::Define { id, block } = op {
            match self.model.define(*id, block)? {
                Defined::New => self.op_state.put_define(column, *id, block),
                Defined::Again(number) => put_redefine(column, number),
            }
            self.totals.blocks += 1;
        } else {
            match op {
                Op::Guest(_) if self.version == Some(PROGRAMS) => {
                    return Err("an event of a whole system in the trace of a program, which has begun".into());
                }
                Op::Guest(_) => self.guests = true,
                Op::Start { .. } => {}
                _ => self.program = true,
            }
            put_op(column, op, &mut self.op_state)?;
            self.totals.ops += 1;
        }
        self.chunk.columns.steps.push(STEP_OP);
        self.chunk.records += 1;
        Ok(())
    }

    /// Passes the chunk to the second thread and begins another. `without`: version of the file, if this is its first
    /// chunk and there was no event of a whole system.
    fn close_chunk(&mut self, without: u32) -> Result<()> {
        if self.chunk.words == 0 {
            return Ok(());
        }
        self.totals.instructions += self.chunk.sums.instructions;
        self.totals.loads += self.chunk.sums.loads;
        self.totals.stores += self.chunk.sums.stores;
        let version = if self.guests { VERSION } else { without };
        self.chunk.version = *self.version.get_or_insert(version);
        let next = self.spare.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.chunk, next);
        self.chunk.begin(self.asid);
        self.model.begin_chunk();
        self.op_state = OpState::default();
        let sent = match self.sender.as_ref().map(|s| s.try_send(full)) {
            Some(Err(TrySendError::Full(chunk))) => self.sender.as_ref().is_some_and(|s| s.send(chunk).is_ok()),
            other => matches!(other, Some(Ok(()))),
        };
        if sent {
            Ok(())
        } else {
            Err(self.join().err().unwrap_or_else(|| self.refuse(0, "the writer has ended".into())))
        }
    }

    /// Waits for the second thread; its error is the reason why writing stopped.
    fn join(&mut self) -> Result<Sink> {
        self.sender = None;
        let Some(worker) = self.worker.take() else { return Err(self.refuse(0, "the writer has ended".into())) };
        match worker.join() {
            Ok(sink) => sink.map_err(|source| Error::Io { file: self.file.clone(), source }),
            Err(_) => Err(self.refuse(0, "the compressing thread failed".into())),
        }
    }

    fn refuse(&self, word: usize, what: String) -> Error {
        refuse(&self.file, self.batches, word, what)
    }

    /// Writes the last chunk, the index and the trailer, and gives the file its name.
    ///
    /// # Errors
    /// Writing failed now or before; then there is no file.
    pub fn finish(mut self) -> Result<Totals> {
        if self.broken {
            return Err(self.refuse(0, "nothing can be finished after an error".into()));
        }
        self.close_chunk(PROGRAMS)?;
        let mut sink = self.join()?;
        (self.totals.processes, self.totals.address_spaces) =
            (self.processes.processes(), self.processes.address_spaces());
        let fail = |source| Error::Io { file: self.file.clone(), source };
        sink.end(&self.totals).map_err(fail)?;
        if let Out::File(partial) = sink.out.get_mut() {
            partial.commit()?;
        }
        Ok(self.totals)
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(worker) = self.worker.take() {
            // The file is dropped with the worker, and removed.
            let _ = worker.join();
        }
    }
}

#[cold]
fn refuse(file: &str, batch: u64, word: usize, what: String) -> Error {
    Error::Trace { file: file.to_owned(), place: format!("batch {batch}, word {word}"), what }
}

enum Out {
    File(Partial),
    Stream(Box<dyn Write + Send>),
}

impl Write for Out {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Out::File(f) => f.write(buf),
            Out::Stream(s) => s.write(buf),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::File(f) => f.flush(),
            Out::Stream(s) => s.flush(),
        }
    }
}

/// The file end of the writer.
struct Sink {
    out: BufWriter<Out>,
    at: u64,
    before: Totals,
    index: Vec<IndexEntry>,
}

impl Sink {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn chunk(&mut self, zstd: &mut zstd::bulk::Compressor<'_>, chunk: &Chunk) -> io::Result<()> {
        let mut head = ChunkHead {
            number: self.index.len() as u32,
            asid: chunk.asid,
            records: chunk.records,
            words: chunk.words as u32,
            instructions: chunk.sums.instructions,
            loads: chunk.sums.loads,
            stores: chunk.sums.stores,
            ..ChunkHead::default()
        };
        let mut payload = Vec::new();
        for (i, column) in chunk.columns.bytes().into_iter().enumerate() {
            if !column.is_empty() {
                zstd.set_compression_level(LEVELS[i])?;
                let packed = zstd.compress(column)?;
                // A column that does not become smaller is stored uncompressed.
                let stored = if packed.len() < column.len() { &packed[..] } else { column };
                head.columns[i] = (column.len() as u32, stored.len() as u32);
                payload.extend_from_slice(stored);
            }
        }
        let bytes = head.to_bytes();
        let mut hash = Xxh3::new();
        hash.update(&bytes);
        hash.update(&payload);
        let (instructions, references) = (self.before.instructions, self.before.references());
        self.index.push(IndexEntry { offset: self.at, instructions, references });
        self.before.instructions += chunk.sums.instructions;
        self.before.loads += chunk.sums.loads;
        self.before.stores += chunk.sums.stores;
        self.put(&bytes)?;
        self.put(&hash.digest().to_le_bytes())?;
        self.put(&payload)
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        let index_at = self.at;
        let mut index = Vec::from(INDEX_TAG);
        index.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for e in &self.index {
            [e.offset, e.instructions, e.references].iter().for_each(|n| index.extend_from_slice(&n.to_le_bytes()));
        }
        index.extend_from_slice(&xxh3_64(&index).to_le_bytes());
        self.put(&index)?;
        let mut trailer = Vec::from(TRAILER_TAG);
        trailer.extend_from_slice(&index_at.to_le_bytes());
        trailer.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        totals.to_words().iter().for_each(|n| trailer.extend_from_slice(&n.to_le_bytes()));
        trailer.extend_from_slice(&xxh3_64(&trailer).to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.put(&trailer)?;
        self.out.flush()
    }
}

/// The header as JSON.
fn json(header: &Header) -> std::result::Result<Vec<u8>, String> {
    let json = serde_json::to_vec(header).map_err(|e| format!("the header does not become JSON: {e}"))?;
    if json.len() > MAX_HEADER_BYTES as usize {
        return Err(format!("the header has {} bytes; a file takes {MAX_HEADER_BYTES}", json.len()));
    }
    Ok(json)
}

/// Everything before the first chunk.
fn prefix(json: &[u8], version: u32) -> Vec<u8> {
    let mut out = Vec::from(MAGIC);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(json);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}
