//! Several coders: each codes and compresses parts of the stream, in turns, and one thread writes their chunks in
//! order. Predictions begin anew with each chunk, and parts begin with chunks, so the file is that of one coder. A
//! coder learns the blocks that were defined in the parts of the others.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::coder::{Chunk, Coder, Known, Stop};
use super::sink::{Packed, Packer, Sink};
use super::*;
use crate::tally::Processes;
use farreach_types::event::{Batch, Block, OP_BIT, Op, words_behind};

/// Chunks of a coder that may wait for the file.
const WAITING: usize = 2;

type Definition = (u32, Arc<Block>);

/// A part of the stream.
struct Part {
    /// Blocks of other parts that its coder does not know.
    definitions: Vec<Definition>,
    batches: Vec<Batch>,
    /// Number of the first batch.
    first: u64,
    known: Known,
    chunk_words: usize,
}

/// What a coder has made.
enum Made {
    Chunk(Packed),
    /// The part is coded.
    Part,
    /// The number of the batch and of the word, and what is wrong there.
    Broken(u64, usize, String),
    Failed(io::Error),
}

/// Why nothing more is written.
pub(super) enum Ended {
    Broken(u64, usize, String),
    Failed(io::Error),
    /// A thread has panicked.
    Lost,
}

/// What coders have counted.
type Counted = (Totals, Processes);

/// A file with all its chunks, and all counts.
pub(super) type Finished = (Sink, Totals, Processes);

/// See the module.
pub(super) struct Farm {
    coders: Vec<(SyncSender<Part>, JoinHandle<Counted>)>,
    /// How many of `definitions` each coder knows.
    learned: Vec<usize>,
    definitions: Vec<Definition>,
    /// The part that is collected, the number of its first batch, its words, and how many definitions preceded it.
    batches: Vec<Batch>,
    first: u64,
    words: usize,
    before: usize,
    known_before: Known,
    known: Known,
    parts: usize,
    pub sizes: (usize, usize),
    writer: Option<JoinHandle<std::result::Result<Sink, Ended>>>,
    written: Arc<Written>,
}

/// What is in the file.
#[derive(Default)]
struct Written {
    instructions: AtomicU64,
    loads: AtomicU64,
    stores: AtomicU64,
}

impl Farm {
    /// Coders, and the writer of the file.
    pub fn start(coders: usize, sink: Sink, sizes: (usize, usize)) -> io::Result<Farm> {
        let mut started = Vec::new();
        let mut made = Vec::new();
        for _ in 0..coders {
            let (parts, work) = sync_channel::<Part>(0);
            let (sender, receiver) = sync_channel::<Made>(WAITING);
            let mut packer = Packer::new()?;
            let thread = Builder::new().name("coder".into()).spawn(move || code(&work, &sender, &mut packer))?;
            started.push((parts, thread));
            made.push(receiver);
        }
        let written = Arc::new(Written::default());
        let told = Arc::clone(&written);
        let writer = Builder::new().name("trace writer".into()).spawn(move || write(sink, &made, &told))?;
        Ok(Farm {
            learned: vec![0; coders],
            coders: started,
            definitions: Vec::new(),
            batches: Vec::new(),
            first: 0,
            words: 0,
            before: 0,
            known_before: Known::default(),
            known: Known::default(),
            parts: 0,
            sizes,
            writer: Some(writer),
            written,
        })
    }

    /// Sums of the chunks that are in the file.
    pub fn totals(&self) -> Totals {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let Written { instructions, loads, stores } = &*self.written;
        Totals { instructions: of(instructions), loads: of(loads), stores: of(stores), ..Totals::default() }
    }

    /// Appends a batch.
    pub fn put(&mut self, batch: Batch) -> std::result::Result<(), Stop> {
        self.look_at_events(&batch);
        self.words += batch.words.len();
        self.batches.push(batch);
        if self.words < self.sizes.1 || self.pass_on() { Ok(()) } else { Err(Stop::Gone) }
    }

    /// What coders of later parts must know. What breaks the contract is found by the coder of this one.
    fn look_at_events(&mut self, batch: &Batch) {
        let mut events = 0;
        let mut at = if batch.ops.is_empty() { batch.words.len() } else { 0 };
        while let Some(&word) = batch.words.get(at) {
            at += 1;
            if word & OP_BIT == 0 {
                at += words_behind(word);
                continue;
            }
            events += 1;
            let Ok(op) = batch.op(word) else { return };
            self.known.see(op);
            if let Op::Define { id, block } = op {
                self.definitions.push((*id, Arc::clone(block)));
            }
        }
        self.known.program |= batch.words.len() > events && !self.known.guests;
    }

    /// The part goes to the next coder. False: it has ended.
    fn pass_on(&mut self) -> bool {
        let coder = self.parts % self.coders.len();
        let batches = std::mem::take(&mut self.batches);
        let part = Part {
            definitions: self.definitions[self.learned[coder]..self.before].to_vec(),
            first: self.first,
            known: self.known_before,
            chunk_words: self.sizes.0,
            batches,
        };
        self.first += part.batches.len() as u64;
        (self.learned[coder], self.before) = (self.definitions.len(), self.definitions.len());
        (self.words, self.known_before) = (0, self.known);
        self.parts += 1;
        self.coders[coder].0.send(part).is_ok()
    }

    /// Codes and writes the rest.
    pub fn finish(mut self) -> std::result::Result<Finished, Ended> {
        let _ = self.pass_on();
        let (mut totals, mut processes, mut lost) = (Totals::default(), Processes::default(), false);
        for (parts, thread) in self.coders.drain(..).collect::<Vec<_>>() {
            drop(parts);
            match thread.join() {
                Ok((of, its)) => {
                    totals.instructions += of.instructions;
                    totals.loads += of.loads;
                    totals.stores += of.stores;
                    totals.blocks += of.blocks;
                    totals.ops += of.ops;
                    processes.absorb(its);
                }
                Err(_) => lost = true,
            }
        }
        let sink = self.end()?;
        if lost { Err(Ended::Lost) } else { Ok((sink, totals, processes)) }
    }

    /// Waits for the threads: the file, or why it is none.
    pub fn end(&mut self) -> std::result::Result<Sink, Ended> {
        self.coders.clear();
        self.writer.take().map_or(Err(Ended::Lost), |writer| writer.join().unwrap_or(Err(Ended::Lost)))
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        // The file is dropped with the thread that writes it, and removed.
        let _ = self.end();
    }
}

/// The thread of a coder.
fn code(parts: &Receiver<Part>, made: &SyncSender<Made>, packer: &mut Packer) -> Counted {
    let mut coder = Coder::new();
    for part in parts {
        coder.set_sizes(part.chunk_words, usize::MAX);
        part.definitions.iter().for_each(|(id, block)| coder.learn(*id, block));
        coder.known = part.known;
        let mut failed = None;
        let mut emit = |chunk: Box<Chunk>| match packer.pack(&chunk) {
            Ok(packed) => made.send(Made::Chunk(packed)).map(|()| chunk).map_err(|_| Stop::Gone),
            Err(error) => {
                failed = Some(error);
                Err(Stop::Gone)
            }
        };
        let mut batches = (part.first..).zip(&part.batches);
        let done = batches
            .try_for_each(|(number, batch)| coder.put(batch, &mut emit).map_err(|stop| (number, stop)))
            .and_then(|()| coder.close(&mut emit).map_err(|stop| (part.first, stop)));
        let told = match (done, failed) {
            (Ok(()), _) => Made::Part,
            (Err((number, Stop::Broken(word, what))), _) => Made::Broken(number, word, what),
            (Err(_), Some(error)) => Made::Failed(error),
            (Err(_), None) => break,
        };
        let goes_on = matches!(told, Made::Part);
        if made.send(told).is_err() || !goes_on {
            break;
        }
    }
    (coder.totals, coder.processes)
}

/// The thread that writes what coders have made, part by part.
fn write(mut sink: Sink, made: &[Receiver<Made>], written: &Written) -> std::result::Result<Sink, Ended> {
    for coder in made.iter().cycle() {
        loop {
            match coder.recv() {
                Ok(Made::Chunk(chunk)) => sink.chunk(chunk).map_err(Ended::Failed)?,
                Ok(Made::Part) => break,
                Ok(Made::Broken(batch, word, what)) => return Err(Ended::Broken(batch, word, what)),
                Ok(Made::Failed(error)) => return Err(Ended::Failed(error)),
                // There are no more parts.
                Err(_) => return Ok(sink),
            }
            let sums = sink.sums();
            written.instructions.store(sums.instructions, Ordering::Relaxed);
            written.loads.store(sums.loads, Ordering::Relaxed);
            written.stores.store(sums.stores, Ordering::Relaxed);
        }
    }
    Ok(sink)
}
