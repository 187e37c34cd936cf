//! A worker pool: engines on threads of their own, over the same batches. Machines are independent, so neither results
//! nor their order depend on the number of threads.

use super::tally::Progress;
use farreach_types::Error;
use farreach_types::event::Batch;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

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
    cut: Mutex<Cut>,
}

impl Shared {
    /// Changes or reads the cut.
    fn cut<T>(&self, with: impl FnOnce(&mut Cut) -> T) -> T {
        with(&mut self.cut.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The batch behind which all engines end, so that their results are of the same batches. Batches count from 0.
struct Cut {
    /// Batches that some engine has begun.
    begun: u64,
    /// No engine begins a batch behind these.
    end: u64,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut { begun: 0, end: u64::MAX }
    }
}

impl Cut {
    /// Whether an engine may begin this batch; then it must simulate it.
    fn begin(&mut self, batch: u64) -> bool {
        self.begun = self.begun.max(batch + 1).min(self.end);
        batch < self.end
    }
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
                let mut batches = 0..;
                for chunk in work {
                    for batch in chunk.iter() {
                        if !batches.next().is_some_and(|n| shared.cut(|cut| cut.begin(n))) {
                            return (engine, Ok(()));
                        }
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

    /// Waits until all is simulated, or `cuts` says that no more is to be begun: then all engines end behind the same
    /// batch. It is asked now and then. Returns the engines, and the first error of the first engine that had one.
    pub fn finish(mut self, mut cuts: Option<&mut dyn FnMut() -> bool>) -> (Vec<W>, Result<(), Error>) {
        // Before the last chunk is sent, which waits where the queue is full.
        self.cut_if(&mut cuts);
        self.send();
        let threads: Vec<_> = self.workers.drain(..).map(|worker| worker.thread).collect();
        let mut pause = Duration::from_micros(100);
        while cuts.is_some() && !threads.iter().all(JoinHandle::is_finished) {
            self.cut_if(&mut cuts);
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(10));
        }
        let mut outcome = Ok(());
        let mut engines = Vec::new();
        for thread in threads {
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

    /// Lets engines end behind what one of them has begun, if it is time for that; then it is not asked again.
    fn cut_if(&self, cuts: &mut Option<&mut dyn FnMut() -> bool>) {
        if cuts.as_mut().is_some_and(|cuts| cuts()) {
            self.shared.cut(|cut| cut.end = cut.begun);
            *cuts = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts batches, each of which takes some time.
    struct Counts(u64, Duration);

    impl BatchEngine for Counts {
        fn feed(&mut self, _: &Batch) -> Result<(), Error> {
            std::thread::sleep(self.1);
            self.0 += 1;
            Ok(())
        }

        fn done(&self) -> bool {
            false
        }

        fn progress(&self) -> Progress {
            Progress { instructions: self.0, references: self.0 }
        }
    }

    /// Batches that engines of different speed have simulated. `begun`: the pool is finished when so many are.
    fn simulated(batches: u64, begun: u64, cuts: Option<&mut dyn FnMut() -> bool>) -> Vec<u64> {
        let engines = [0, 200, 700].map(|micros| Counts(0, Duration::from_micros(micros)));
        let mut pool = WorkerPool::start(engines.into(), 1 << 30).expect("threads");
        // One chunk each.
        let batch = Batch { words: vec![0; CHUNK_WORDS], ..Batch::default() };
        (0..batches).for_each(|_| assert!(pool.feed(batch.clone())));
        while pool.progress().instructions < begun {
            std::thread::yield_now();
        }
        let (engines, outcome) = pool.finish(cuts);
        outcome.expect("no engine fails");
        engines.iter().map(|engine| engine.0).collect()
    }

    #[test]
    fn engines_that_are_cut_end_behind_the_same_batch() {
        assert_eq!(simulated(100, 0, None), [100; 3]);
        assert_eq!(simulated(100, 0, Some(&mut || false)), [100; 3]);
        let cut = simulated(1000, 20, Some(&mut || true));
        assert!(cut[0] >= 20 && cut[1..] == [cut[0]; 2], "{cut:?}");
        // Later, while engines run: the slowest has not begun all when the fastest has.
        let mut asked = 0;
        let later = simulated(
            50,
            0,
            Some(&mut || {
                asked += 1;
                asked == 3
            }),
        );
        assert!(later[1..] == [later[0]; 2] && asked == 3, "{later:?}, asked {asked} times");
    }
}
