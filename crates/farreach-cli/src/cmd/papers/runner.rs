//! Answers what studies ask for: from the cache, or by running. A pass takes one program through up to 32 machines; passes go on
//! all processors, and what each finds is kept at once.

use super::cache::Cache;
use super::programs::Programs;
use crate::cmd::common::note;
use crate::cmd::progress::line;
use anyhow::{Result, anyhow};
use farreach::machine::{Lab, MAX_DESIGNS, MachineSpec, Options};
use farreach::report::format::count;
use farreach::study::{Answer, Measured, Request, Results, Study, What};
use farreach_cli::live::Watch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// What runs requests.
pub struct Runner<'a> {
    pub cache: &'a Cache,
    pub programs: &'a Programs,
    pub threads: usize,
    pub seed: u64,
    pub limit: Option<u64>,
}

/// One program through some machines.
struct Pass {
    program: String,
    machines: Vec<String>,
}

/// Signs of life of the passes under way.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// References times machines.
    work: AtomicU64,
}

/// What came of a pass; `None`: it was stopped.
type Outcome = Result<Option<Vec<(Request, Answer)>>>;

impl Runner<'_> {
    /// All that the studies want. `None`: interrupted.
    pub fn answer(&self, studies: &[&Study]) -> Result<Option<Results>> {
        let mut results = Results::default();
        for round in 1.. {
            let wanted: BTreeSet<Request> =
                studies.iter().flat_map(|s| (s.plan)(&results, &self.programs.set)).filter(|r| !results.has(r)).collect();
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
        let What::Machine(machine) = &request.what;
        let spec = MachineSpec::parse(machine, self.seed)?;
        let config = serde_json::to_string(spec.params.as_json())?;
        let (limit, seed) = (format!("{:?}", self.limit), self.seed.to_string());
        Ok(self.cache.key(&[&self.programs.identity(&request.program), "machine", machine, &config, &limit, &seed]))
    }

    /// Runs requests; false: interrupted.
    fn run(&self, missing: Vec<Request>, round: u32, results: &mut Results) -> Result<bool> {
        let mut by_program: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Request { program, what: What::Machine(machine) } in missing {
            by_program.entry(program).or_default().push(machine);
        }
        let mut passes: VecDeque<Pass> = VecDeque::new();
        for (program, machines) in by_program {
            for part in machines.chunks(MAX_DESIGNS) {
                passes.push_back(Pass { program: program.clone(), machines: part.to_vec() });
            }
        }
        let (total, machines) = (passes.len(), passes.iter().map(|p| p.machines.len() as u64).sum::<u64>());
        if round == 1 {
            note(format_args!(
                "{} runs of machines in {total} passes; results are kept in {}",
                count(machines),
                self.cache.dir().display()
            ));
        }
        let workers = self.threads.clamp(1, total);
        // What is left of the processors goes into each pass.
        let threads = self.threads / workers;
        let (shared, queue) = (Shared::default(), Mutex::new(passes));
        let signals = Watch::begin();
        std::thread::scope(|scope| {
            let (send, receive) = channel::<Outcome>();
            for _ in 0..workers {
                let (send, shared, queue): (Sender<_>, _, _) = (send.clone(), &shared, &queue);
                scope.spawn(move || {
                    while let Some(pass) = queue.lock().expect("no pass panics with the queue").pop_front() {
                        let outcome = self.pass(&pass, threads, shared);
                        let over = !matches!(outcome, Ok(Some(_)));
                        if send.send(outcome).is_err() || over {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let (started, display, mut done) = (Instant::now(), line(), 0);
            let mut failure = None;
            let mut interrupted = false;
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
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if signals.take().0 > 0 {
                    interrupted = true;
                    shared.stop.store(true, Ordering::Relaxed);
                }
                let work = shared.work.load(Ordering::Relaxed);
                let seconds = started.elapsed().as_secs_f64();
                display.set_message(format!(
                    "round {round}: {done} of {total} passes, {} references x machines, {seconds:.0} s",
                    count(work)
                ));
                display.tick();
            }
            display.finish_and_clear();
            failure.map_or(Ok(!interrupted), Err)
        })
    }

    fn pass(&self, pass: &Pass, threads: usize, shared: &Shared) -> Outcome {
        let specs = pass.machines.iter().map(|m| MachineSpec::parse(m, self.seed)).collect::<Result<Vec<_>, _>>()?;
        let options = Options { limit: self.limit, seed: self.seed, plain: false, threads };
        let mut lab = Lab::new(specs, options)?;
        let mut source = self.programs.open(&pass.program)?;
        let mut seen = 0;
        while let Some(batch) = source.next_batch().map_err(|e| anyhow!("{}: {e}", pass.program))? {
            let more = lab.feed(&batch).map_err(|e| anyhow!("{}: {e}", pass.program))?;
            let references = lab.progress().references;
            shared.work.fetch_add((references - seen) * pass.machines.len() as u64, Ordering::Relaxed);
            seen = references;
            if shared.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if !more {
                break;
            }
        }
        lab.settle().map_err(|e| anyhow!("{}: {e}", pass.program))?;
        let result = lab.result(&pass.program, None);
        let mut answers = Vec::new();
        for (name, mut machine) in pass.machines.iter().zip(result.machines) {
            // These depend on the other machines of the pass, or are of no use to a study.
            machine.ledger.clear();
            machine.timeline = Default::default();
            let request = Request::machine(&pass.program, name.as_str());
            let answer = Answer::Machine(Box::new(Measured { workload: result.workload.clone(), machine }));
            self.cache.put(&self.key(&request)?, &answer)?;
            answers.push((request, answer));
        }
        Ok(Some(answers))
    }
}
