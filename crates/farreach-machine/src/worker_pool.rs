//! A worker pool: engines on threads of their own, over the same batches. Machines are independent, so neither results
//! nor their order depend on the number of threads.

use super::tally::Progress;
use farreach_types::Error;
use farreach_types::event::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Words of a chunk, which goes to the engines as one. Waking a thread takes as long as some ten thousand references,
/// so it should not happen for each batch.
const CHUNK_WORDS: usize = 1 << 16;

/// Least number of chunks that may wait for an engine, so that the reader need not wait for each one.
const MIN_QUEUED_CHUNKS: usize = 2;

/// Number of chunks in this many bytes.
fn chunks_of(bytes: u64) -> usize {
    usize::try_from(bytes / (CHUNK_WORDS * size_of::<u64>()) as u64).unwrap_or(usize::MAX)
}

/// The interface of an engine.
pub(super) trait BatchEngine: Send + 'static {
    /// Simulates one batch.
    fn feed(&mut self, batch: &Batch) -> Result<(), Error>;
    /// The limit was reached: further batches would be ignored.
    fn done(&self) -> bool;
    /// Progress of the simulation.
    fn progress(&self) -> Progress;
}

/// One engine on a thread of its own.
struct Worker<W> {
    chunks: SyncSender<Arc<Vec<Batch>>>,
    thread: JoinHandle<(W, Result<(), Error>)>,
}

/// All engines of a laboratory.
pub(super) struct WorkerPool<W> {
    workers: Vec<Worker<W>>,
    shared: Arc<Shared>,
    /// The chunk being filled, and its size: its words, and one for each batch.
    next: (Vec<Batch>, usize),
}

#[derive(Default)]
struct Shared {
    instructions: AtomicU64,
    references: AtomicU64,
    /// The limit was reached; all engines reach it at the same batch.
    done: AtomicBool,
}

impl<W: BatchEngine> WorkerPool<W> {
    /// Starts a thread for each engine. `ahead`: see [`Options::ahead`](super::options::Options::ahead).
    pub fn start(engines: Vec<W>, ahead: u64) -> Result<WorkerPool<W>, Error> {
        let waiting = MIN_QUEUED_CHUNKS.max(chunks_of(ahead));
        let shared = Arc::new(Shared::default());
        let spawn = |(i, mut engine): (usize, W)| {
            let (chunks, work) = sync_channel::<Arc<Vec<Batch>>>(waiting);
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("engine {i}")).spawn(move || {
                for chunk in work {
                    for batch in chunk.iter() {
                        if let Err(error) = engine.feed(batch) {
                            return (engine, Err(error));
                        }
                        if i == 0 {
                            let progress = engine.progress();
                            shared.instructions.store(progress.instructions, Ordering::Relaxed);
                            shared.references.store(progress.references, Ordering::Relaxed);
                            shared.done.store(engine.done(), Ordering::Relaxed);
                        }
                    }
                }
                (engine, Ok(()))
            });
            let thread = thread.map_err(|source| Error::Io { file: "a thread for an engine".into(), source })?;
            Ok(Worker { chunks, thread })
        };
        let workers = engines.into_iter().enumerate().map(spawn).collect::<Result<_, Error>>()?;
        Ok(WorkerPool { workers, shared, next: (Vec::new(), 0) })
    }

    /// Queues a batch for every engine. False: the limit is reached, or an engine failed; [`WorkerPool::finish`] says
    /// why.
    pub fn feed(&mut self, batch: Batch) -> bool {
        self.next.1 += 1 + batch.words.len();
        self.next.0.push(batch);
        (self.next.1 < CHUNK_WORDS || self.send()) && !self.shared.done.load(Ordering::Relaxed)
    }

    /// Sends the current chunk; false if an engine failed.
    fn send(&mut self) -> bool {
        let chunk = Arc::new(std::mem::take(&mut self.next).0);
        self.workers.iter().all(|w| w.chunks.send(Arc::clone(&chunk)).is_ok())
    }

    pub fn progress(&self) -> Progress {
        Progress {
            instructions: self.shared.instructions.load(Ordering::Relaxed),
            references: self.shared.references.load(Ordering::Relaxed),
        }
    }

    /// Waits until all is simulated. Returns the engines, and the first error of the first engine that had one.
    pub fn finish(mut self) -> (Vec<W>, Result<(), Error>) {
        self.send();
        let mut outcome = Ok(());
        let mut engines = Vec::new();
        for Worker { chunks, thread } in self.workers {
            drop(chunks);
            match thread.join() {
                Ok((engine, result)) => {
                    engines.push(engine);
                    outcome = outcome.and(result);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        (engines, outcome)
    }
}
