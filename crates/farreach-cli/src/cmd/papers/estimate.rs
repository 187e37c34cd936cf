//! Estimates of the time of passes: each program is run for a moment on some of its machines, and its length is
//! determined.

use super::programs::Programs;
use super::runner::{Pass, Work};
use anyhow::{Result, anyhow};
use farreach_machine::{Lab, MachineSpec, Options, PageLab, Progress};
use farreach_papers::PAGE_SIZES;
use farreach_report::format::counted;
use farreach_types::event::Batch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Instructions skipped before a sample: the start of a program is dominated by faults.
const START: u64 = 2_000_000;
/// Instructions of a sample.
const SAMPLE: u64 = 1_000_000;
/// Machines of a sample. A pass of many takes about as long for each as one of these.
const MACHINES: usize = 8;
/// Longest search for the end of a program. The length of a longer one is taken from its settings.
const LOOK: Duration = Duration::from_secs(1);
/// The announced range, as multiples of the estimate: samples are short, and other programs share the processors.
const RANGE: [f64; 2] = [0.7, 1.6];

/// What is known of a program before it is run as a whole.
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

/// A range of seconds as text.
pub fn spoken(seconds: f64) -> String {
    let of = |unit: f64, one: &str| match RANGE.map(|part| (part * seconds / unit).round() as u64) {
        [from, to] if from == to => counted(to, one),
        [from, to] => format!("{from} to {}", counted(to, one)),
    };
    match seconds * RANGE[1] {
        s if s < 1.0 => "a second".into(),
        s if s < 120.0 => of(1.0, "second"),
        s if s < 10_800.0 => of(60.0, "minute"),
        _ => of(3600.0, "hour"),
    }
}

/// How samples are taken.
pub struct Estimate<'a> {
    pub programs: &'a Programs,
    pub workers: usize,
    pub seed: u64,
    pub limit: Option<u64>,
}

impl Estimate<'_> {
    /// Seconds from the first pass to the last.
    pub fn seconds(&self, passes: &VecDeque<Pass>) -> Result<f64> {
        let mut samples: BTreeMap<&str, BTreeMap<Kind, &Pass>> = BTreeMap::new();
        for pass in passes {
            samples.entry(&pass.program).or_default().entry(self.kind(pass)?).or_insert(pass);
        }
        let (queue, known) = (Mutex::new(samples), Mutex::new(BTreeMap::new()));
        let work = || -> Result<()> {
            // A statement of its own, so that the lock is released while the program runs.
            let next = || queue.lock().expect("no panic while the queue is locked").pop_first();
            while let Some((program, kinds)) = next() {
                let found = self.look_at(&kinds)?;
                known.lock().expect("no panic while the estimates are locked").insert(program, found);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no sample panics"))
        })?;
        let known = known.into_inner().expect("every worker has ended");
        let mut each = Vec::new();
        for pass in passes {
            let program = &known[pass.program.as_str()];
            each.push(program.references * program.rates[&self.kind(pass)?] * pass.width() as f64);
        }
        let longest = each.iter().copied().fold(0.0, f64::max);
        Ok((each.iter().sum::<f64>() / self.workers as f64).max(longest))
    }

    fn kind(&self, pass: &Pass) -> Result<Kind> {
        Ok(match &pass.work {
            Work::PageSizes => Kind::PageSizes,
            // All machines of a pass have caches, or none has.
            Work::Machines(machines) => match MachineSpec::parse(&machines[0], self.seed)?.hardware.tlb() {
                Some(_) => Kind::Tlbs,
                None => Kind::Caches,
            },
        })
    }

    fn look_at(&self, kinds: &BTreeMap<Kind, &Pass>) -> Result<Known> {
        let (mut references, mut rates) = (0.0, BTreeMap::new());
        for (i, (&kind, pass)) in kinds.iter().enumerate() {
            let (rate, length) = self.sample(pass, i == 0)?;
            rates.insert(kind, rate);
            references = length.unwrap_or(references);
        }
        Ok(Known { references, rates })
    }

    /// Seconds per reference and machine once the program is under way; with `to_end` also how many references it makes
    /// in all.
    fn sample(&self, pass: &Pass, to_end: bool) -> Result<(f64, Option<f64>)> {
        let end = START + SAMPLE;
        let options =
            Options { limit: Some(end.min(self.limit.unwrap_or(end))), seed: self.seed, ..Options::default() };
        let (width, mut feed): (usize, Box<Feed>) = match &pass.work {
            Work::Machines(machines) => {
                let some = machines.iter().step_by(machines.len().div_ceil(MACHINES));
                let specs = some.map(|m| MachineSpec::parse(m, self.seed)).collect::<Result<Vec<_>, _>>()?;
                let (width, mut lab) = (specs.len(), Lab::new(specs, options)?);
                (width, Box::new(move |batch| Ok((lab.feed(batch)?, lab.progress()))))
            }
            Work::PageSizes => {
                let mut lab = PageLab::new(&PAGE_SIZES, options)?;
                (PAGE_SIZES.len(), Box::new(move |batch| Ok((lab.feed(batch)?, lab.progress()))))
            }
        };
        let mut source = self.programs.open(&pass.program)?;
        let failed = |e: farreach_types::Error| anyhow!("{}: {e}", pass.program);
        let (mut started, mut before, mut seen, mut words) = (Instant::now(), 0, Progress::default(), 0);
        let mut ended = true;
        while let Some(batch) = source.next_batch().map_err(failed)? {
            words += batch.words.len();
            let more = feed(batch).map_err(failed)?;
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
        while !ended && self.limit.is_none() && looked.elapsed() < LOOK {
            match source.next_batch().map_err(failed)? {
                Some(batch) => words += batch.words.len(),
                None => ended = true,
            }
        }
        let mut references = seen.references as f64 * words as f64 / in_sample.max(1) as f64;
        if !ended {
            references = references.max(self.programs.references(&pass.program) as f64);
        }
        if let Some(limit) = self.limit {
            references = references.min(limit as f64 * seen.references as f64 / seen.instructions.max(1) as f64);
        }
        Ok((rate, Some(references)))
    }
}

/// Takes a batch into a laboratory: whether it wants more, and how far it is.
type Feed = dyn FnMut(Batch) -> Result<(bool, Progress), farreach_types::Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_a_range() {
        for (seconds, text) in [
            (0.1, "a second"),
            (1.0, "1 to 2 seconds"),
            (10.0, "7 to 16 seconds"),
            (300.0, "4 to 8 minutes"),
            (20_000.0, "4 to 9 hours"),
        ] {
            assert_eq!(spoken(seconds), text, "{seconds}");
        }
    }
}
