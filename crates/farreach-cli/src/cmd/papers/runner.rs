//! Answers the requests of studies: from the cache, or by running. A pass takes one program through up to 32 TLBs, or
//! through any number of machines with caches; passes run on all processors, and the results of each are stored at
//! once.

use super::cache::Cache;
use super::estimate::{Estimate, spoken};
use super::programs::Programs;
use crate::cmd::common::note;
use crate::cmd::progress::{Line, time};
use anyhow::{Result, anyhow};
use farreach_live::Watch;
use farreach_machine::{Lab, MAX_DESIGNS, MachineSpec, Options, PageLab, Progress};
use farreach_papers::{Answer, Measured, PAGE_SIZES, Request, Results, Study, What};
use farreach_report::format::{count, counted};
use farreach_types::counts::{MachineResult, RunResult};
use farreach_types::event::Batch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What runs requests.
pub struct Runner<'a> {
    pub cache: &'a Cache,
    pub programs: &'a Programs,
    pub threads: usize,
    pub seed: u64,
    pub limit: Option<u64>,
}

/// One program, once from beginning to end.
pub struct Pass {
    pub program: String,
    pub work: Work,
}

/// The machines or page sizes of a pass.
pub enum Work {
    Machines(Vec<String>),
    PageSizes,
}

impl Pass {
    /// Machines, or page sizes, side by side.
    pub fn width(&self) -> u64 {
        match &self.work {
            Work::Machines(machines) => machines.len() as u64,
            Work::PageSizes => PAGE_SIZES.len() as u64,
        }
    }
}

/// Progress of the running passes.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// References times machines.
    work: AtomicU64,
}

/// Results of a pass; `None`: it was stopped.
type Outcome = Result<Option<Vec<(Request, Answer)>>>;

impl Runner<'_> {
    /// All results that the studies request. `None`: interrupted.
    pub fn answer(&self, studies: &[&Study]) -> Result<Option<Results>> {
        let mut results = Results::default();
        for round in 1.. {
            let wanted: BTreeSet<Request> = studies
                .iter()
                .flat_map(|s| (s.plan)(&results, &self.programs.set))
                .filter(|r| !results.has(r))
                .collect();
            if wanted.is_empty() {
                break;
            }
            let mut missing = Vec::new();
            for request in wanted {
                match self.cache.get(&self.key(&request)?) {
                    Some(answer) => results.insert(request, answer),
                    None => missing.push(request),
                }
            }
            if !missing.is_empty() && !self.run(missing, round, &mut results)? {
                return Ok(None);
            }
        }
        Ok(Some(results))
    }

    fn key(&self, request: &Request) -> Result<String> {
        let what = match &request.what {
            What::Machine(machine) => {
                let spec = MachineSpec::parse(machine, self.seed)?;
                format!("machine {machine} {}", serde_json::to_string(spec.params.as_json())?)
            }
            What::PageSizes => format!("page sizes {PAGE_SIZES:?}"),
        };
        let (limit, seed) = (format!("{:?}", self.limit), self.seed.to_string());
        Ok(self.cache.key(&[&self.programs.identity(&request.program), &what, &limit, &seed]))
    }

    /// Runs requests; false: interrupted.
    fn run(&self, missing: Vec<Request>, round: u32, results: &mut Results) -> Result<bool> {
        let mut by_program: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut passes: VecDeque<Pass> = VecDeque::new();
        for Request { program, what } in missing {
            match what {
                What::Machine(machine) => by_program.entry(program).or_default().push(machine),
                What::PageSizes => passes.push_back(Pass { program, work: Work::PageSizes }),
            }
        }
        for (program, machines) in by_program {
            let with_caches =
                |m: &String| Ok::<_, farreach_types::Error>(MachineSpec::parse(m, self.seed)?.hardware.tlb().is_none());
            let mut parts: Vec<Vec<String>> = vec![Vec::new()];
            let mut tlbs = Vec::new();
            for machine in machines {
                if with_caches(&machine)? { parts[0].push(machine) } else { tlbs.push(machine) }
            }
            parts.extend(tlbs.chunks(MAX_DESIGNS).map(<[String]>::to_vec));
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                passes.push_back(Pass { program: program.clone(), work: Work::Machines(part) });
            }
        }
        // The widest first, so that none of them runs alone at the end.
        passes.make_contiguous().sort_by_key(|pass| std::cmp::Reverse(pass.width()));
        let (total, machines) = (passes.len(), passes.iter().map(Pass::width).sum::<u64>());
        let workers = self.threads.clamp(1, total);
        // The remaining processors are shared by the passes.
        let threads = self.threads / workers;
        if round == 1 {
            let estimate = Estimate { programs: self.programs, workers, seed: self.seed, limit: self.limit };
            note(format_args!(
                "{} in {}, about {} on {workers} of {}; what they find may ask for more. Results are kept \
                 in {}",
                counted(machines, "run of machines"),
                counted(total as u64, "pass"),
                spoken(estimate.seconds(&passes)?),
                counted(self.threads as u64, "thread"),
                self.cache.dir().display()
            ));
        }
        let (shared, queue) = (Shared::default(), Mutex::new(passes));
        let signals = Watch::begin();
        std::thread::scope(|scope| {
            let (send, receive) = channel::<Outcome>();
            for _ in 0..workers {
                let (send, shared, queue): (Sender<_>, _, _) = (send.clone(), &shared, &queue);
                scope.spawn(move || {
                    // A statement of its own, so that the lock is released while the pass runs.
                    let next = || queue.lock().expect("no pass panics with the queue").pop_front();
                    while let Some(pass) = next() {
                        let outcome = self.pass(&pass, threads, shared);
                        let over = !matches!(outcome, Ok(Some(_)));
                        if send.send(outcome).is_err() || over {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let (mut display, mut done) = (Line::new(), 0);
            let mut failure = None;
            let (mut interrupted, mut over) = (false, false);
            loop {
                match receive.recv_timeout(Duration::from_millis(100)) {
                    Ok(Ok(Some(answers))) => {
                        done += 1;
                        answers.into_iter().for_each(|(request, answer)| results.insert(request, answer));
                    }
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => {
                        shared.stop.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => over = true,
                }
                // Also at the end: there may be another round, which begins a new watch.
                if signals.take().0 > 0 {
                    interrupted = true;
                    shared.stop.store(true, Ordering::Relaxed);
                }
                if over {
                    break;
                }
                let work = shared.work.load(Ordering::Relaxed);
                display.show(|elapsed| {
                    let passes = counted(total as u64, "pass");
                    format!(
                        "round {round}: {done} of {passes}, {} references x machines, {}",
                        count(work),
                        time(elapsed)
                    )
                });
            }
            display.finish();
            failure.map_or(Ok(!interrupted), Err)
        })
    }

    fn pass(&self, pass: &Pass, threads: usize, shared: &Shared) -> Outcome {
        let options = Options { limit: self.limit, seed: self.seed, threads, ..Options::default() };
        let answers = match &pass.work {
            Work::Machines(machines) => {
                let specs = machines.iter().map(|m| MachineSpec::parse(m, self.seed)).collect::<Result<Vec<_>, _>>()?;
                let mut lab = Lab::new(specs, options)?;
                let whole = self.drive(pass, shared, |batch| Ok((lab.feed(batch)?, lab.progress())))?;
                lab.finish().map_err(|e| anyhow!("{}: {e}", pass.program))?;
                if !whole {
                    return Ok(None);
                }
                let RunResult { workload, machines: found, .. } = lab.result(&pass.program, None);
                let answer = |(name, mut machine): (&String, MachineResult)| {
                    // These depend on the other machines of the pass, or are not used by studies.
                    machine.ledger.clear();
                    machine.timeline = Default::default();
                    let measured = Measured { workload: workload.clone(), machine };
                    (Request::machine(&pass.program, name.as_str()), Answer::Machine(Box::new(measured)))
                };
                machines.iter().zip(found).map(answer).collect::<Vec<_>>()
            }
            Work::PageSizes => {
                let mut lab = PageLab::new(&PAGE_SIZES, options)?;
                let whole = self.drive(pass, shared, |batch| Ok((lab.feed(batch)?, lab.progress())))?;
                lab.finish().map_err(|e| anyhow!("{}: {e}", pass.program))?;
                if !whole {
                    return Ok(None);
                }
                let result = lab.result(&pass.program, None, 64, Vec::new());
                vec![(
                    Request { program: pass.program.clone(), what: What::PageSizes },
                    Answer::PageSizes(Box::new(result)),
                )]
            }
        };
        for (request, answer) in &answers {
            self.cache.put(&self.key(request)?, answer)?;
        }
        Ok(Some(answers))
    }

    /// Feeds the program's batches until it ends or no more is wanted; false: it was stopped.
    fn drive(
        &self,
        pass: &Pass,
        shared: &Shared,
        mut feed: impl FnMut(Batch) -> Result<(bool, Progress), farreach_types::Error>,
    ) -> Result<bool> {
        let mut source = self.programs.open(&pass.program)?;
        let mut seen = 0;
        while let Some(batch) = source.next_batch().map_err(|e| anyhow!("{}: {e}", pass.program))? {
            let (more, progress) = feed(batch).map_err(|e| anyhow!("{}: {e}", pass.program))?;
            shared.work.fetch_add((progress.references - seen) * pass.width(), Ordering::Relaxed);
            seen = progress.references;
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if !more {
                break;
            }
        }
        Ok(true)
    }
}
