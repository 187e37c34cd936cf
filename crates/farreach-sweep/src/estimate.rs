//! How long passes will take: each program is run for a moment on some of its machines, and its length is found out.

use crate::pass::{ENTRIES, Pass, Work};
use farreach_machine::{Lab, Options, PageLab, Progress};
use farreach_types::Result;
use farreach_types::event::Batch;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Instructions before a sample: a program begins with its faults.
const START: u64 = 2_000_000;
/// Instructions of a sample.
const SAMPLE: u64 = 1_000_000;
/// Machines of a sample. A pass of many takes about as long for each as one of these.
const MACHINES: usize = 8;
/// Longest look for the end of a program. What is longer is as long as its settings say.
const LOOK: Duration = Duration::from_secs(1);

/// What is known of a program before it is run as a whole.
#[derive(Default)]
struct Known {
    references: f64,
    /// Seconds per reference and machine, or page size, for each kind of pass.
    rates: BTreeMap<Kind, f64>,
}

/// Passes of one kind take about as long for each machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tlbs,
    Caches,
    PageSizes,
}

/// Seconds of each of some passes, on one thread.
pub struct Estimate {
    /// Pass by pass, in order.
    pub seconds: Vec<f64>,
}

impl Estimate {
    /// Takes samples, on so many threads.
    ///
    /// # Errors
    /// A program cannot be read, or a machine is refused.
    pub fn of(passes: &[Pass], workers: usize) -> Result<Estimate> {
        let program = |pass: &Pass| (pass.program.identity(), pass.extent.clone());
        let mut samples: BTreeMap<_, BTreeMap<Kind, &Pass>> = BTreeMap::new();
        for pass in passes {
            samples.entry(program(pass)).or_default().entry(kind(pass)?).or_insert(pass);
        }
        let (queue, known) = (Mutex::new(samples), Mutex::new(BTreeMap::new()));
        let work = || -> Result<()> {
            // A statement of its own, so that the lock is released while the program runs.
            let next = || queue.lock().expect("no panic while the queue is locked").pop_first();
            while let Some((program, kinds)) = next() {
                let found = look_at(&kinds)?;
                known.lock().expect("no panic while the estimates are locked").insert(program, found);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no sample panics"))
        })?;
        let known = known.into_inner().expect("every worker has ended");
        let seconds = passes.iter().map(|pass| {
            let Known { references, rates } = &known[&program(pass)];
            Ok(references * rates[&kind(pass)?] * pass.width() as f64)
        });
        Ok(Estimate { seconds: seconds.collect::<Result<_>>()? })
    }

    /// Seconds from the first pass to the last, with so many workers.
    pub fn wall(&self, workers: usize) -> f64 {
        let longest = self.seconds.iter().copied().fold(0.0, f64::max);
        (self.seconds.iter().sum::<f64>() / workers.max(1) as f64).max(longest)
    }
}

fn kind(pass: &Pass) -> Result<Kind> {
    Ok(match &pass.work {
        Work::PageSizes { .. } => Kind::PageSizes,
        // All machines of a pass have caches, or none has.
        Work::Machines(points) => match points[0].spec()?.hardware.tlb() {
            Some(_) => Kind::Tlbs,
            None => Kind::Caches,
        },
    })
}

fn look_at(kinds: &BTreeMap<Kind, &Pass>) -> Result<Known> {
    let mut known = Known::default();
    for (i, (&kind, pass)) in kinds.iter().enumerate() {
        let (rate, length) = sample(pass, i == 0)?;
        known.rates.insert(kind, rate);
        known.references = length.unwrap_or(known.references);
    }
    Ok(known)
}

/// Takes a batch into a laboratory: whether it wants more, and how far it is.
type Feed = dyn FnMut(Batch) -> Result<(bool, Progress)>;

/// Seconds per reference and machine once the program is under way; with `to_end` also how many references it makes in
/// all.
fn sample(pass: &Pass, to_end: bool) -> Result<(f64, Option<f64>)> {
    let end = START + SAMPLE;
    let limit = Some(end.min(pass.extent.limit.unwrap_or(end)));
    // The sample is of the program as a whole.
    let options = Options { limit, warmup: None, ..pass.extent.options() };
    let (width, mut feed): (usize, Box<Feed>) = match &pass.work {
        Work::Machines(points) => {
            let some = points.iter().step_by(points.len().div_ceil(MACHINES));
            let specs = some.map(|point| point.spec()).collect::<Result<Vec<_>>>()?;
            let (width, mut lab) = (specs.len(), Lab::new(specs, options)?);
            (width, Box::new(move |batch| Ok((lab.feed(batch)?, lab.progress()))))
        }
        Work::PageSizes { sizes, .. } => {
            let mut lab = PageLab::new(sizes, ENTRIES, options)?;
            (sizes.len(), Box::new(move |batch| Ok((lab.feed(batch)?, lab.progress()))))
        }
    };
    let mut source = pass.program.open()?;
    let (mut started, mut before, mut seen, mut words) = (Instant::now(), 0, Progress::default(), 0);
    let mut ended = true;
    while let Some(batch) = source.next_batch()? {
        words += batch.words.len();
        let more = feed(batch)?;
        seen = more.1;
        // Programs without instructions are limited by references.
        if more.0 && seen.instructions.max(seen.references) <= START {
            (started, before) = (Instant::now(), seen.references);
        }
        if !more.0 {
            ended = false;
            break;
        }
    }
    let rate = started.elapsed().as_secs_f64() / (seen.references - before).max(1) as f64 / width as f64;
    if !to_end {
        return Ok((rate, None));
    }
    let (looked, in_sample) = (Instant::now(), words);
    while !ended && pass.extent.limit.is_none() && looked.elapsed() < LOOK {
        match source.next_batch()? {
            Some(batch) => words += batch.words.len(),
            None => ended = true,
        }
    }
    let mut references = seen.references as f64 * words as f64 / in_sample.max(1) as f64;
    if !ended {
        references = references.max(pass.program.references() as f64);
    }
    // Programs without instructions are cut by references.
    let by_instruction = if seen.instructions > 0 { seen.references as f64 / seen.instructions as f64 } else { 1.0 };
    let of = |instructions: u64| instructions as f64 * by_instruction;
    let piece = &pass.extent.piece;
    references = (references - of(piece.skip)).max(0.0);
    if let Some(limit) = pass.extent.limit {
        references = references.min(of(limit.saturating_add(piece.warmup)));
    }
    Ok((rate, Some(references)))
}
