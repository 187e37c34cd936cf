//! Answers the requests of studies: from the cache, or by running. Passes run on all processors, and the results of
//! each are stored at once.

use crate::programs::Programs;
use crate::spoken::spoken;
use crate::{Event, Listen, steady};
use farreach_live::Watch;
use farreach_machine::{MAX_DESIGNS, MachineSpec};
use farreach_papers::{Answer, PAGE_SIZES, Request, Results, Study, What, by_traps};
use farreach_report::format::counted;
use farreach_sweep::{Cache, Estimate, Extent, Pass, Point, Program, Wanted, Work, key, plan};
use farreach_types::{Error, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What runs requests.
pub struct Runner<'a> {
    /// Where results are kept.
    pub cache: &'a Cache,
    /// What the studies are about.
    pub programs: &'a Programs,
    /// On which passes run.
    pub threads: usize,
    /// Of everything random.
    pub seed: u64,
    /// Instructions per program.
    pub limit: Option<u64>,
    /// The command `farreach`, by which servers are observed.
    pub farreach: &'a Path,
}

/// Progress of the running passes.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// References times machines.
    work: AtomicU64,
}

/// What came of a pass; `None`: it was stopped.
type Outcome = Result<Option<Vec<(String, Answer)>>>;

/// What the studies want now.
pub enum Round {
    /// Nothing more: all of it is in the cache.
    Complete(Results),
    /// The passes that are to be run, and the request that each result answers, by its key.
    Missing(Vec<Pass>, BTreeMap<String, Request>),
}

impl Runner<'_> {
    /// All results that the studies request. `None`: interrupted.
    ///
    /// # Errors
    /// A machine or program cannot be had, or a pass fails; the others are stopped then.
    pub fn answer(&self, studies: &[&Study], listen: Listen) -> Result<Option<Results>> {
        let mut results = Results::default();
        for round in 1.. {
            match self.round(studies, &mut results, 1, listen)? {
                Round::Complete(results) => return Ok(Some(results)),
                Round::Missing(passes, requests) => {
                    if !self.run(passes, &requests, round, &mut results, listen)? {
                        return Ok(None);
                    }
                }
            }
        }
        unreachable!("studies end")
    }

    /// Asks the studies what they want, takes what the cache has, and asks again while that is all they want. Passes
    /// are cut for so many workers.
    ///
    /// # Errors
    /// A machine or program cannot be had.
    pub fn round(&self, studies: &[&Study], results: &mut Results, workers: usize, listen: Listen) -> Result<Round> {
        loop {
            let wanted: BTreeSet<Request> = studies
                .iter()
                .flat_map(|s| (s.plan)(results, &self.programs.set))
                .filter(|r| !results.has(r))
                .collect();
            if wanted.is_empty() {
                return Ok(Round::Complete(std::mem::take(results)));
            }
            // Machines that observe a server together.
            let mut together: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for request in &wanted {
                if let What::Machine(machine) = &request.what {
                    together.entry(&request.program).or_default().push(by_traps(machine));
                }
            }
            let (mut points, mut pages, mut requests) = (Vec::new(), Vec::new(), BTreeMap::new());
            for request in &wanted {
                let request = request.clone();
                let mut program = self.programs.find(&request.program)?;
                let observed = match &mut program {
                    Program::Server { together: all, .. } => {
                        all.clone_from(&together[request.program.as_str()]);
                        true
                    }
                    _ => false,
                };
                let (key, missing) = match &request.what {
                    What::Machine(machine) => {
                        let name = if observed { by_traps(machine) } else { machine.clone() };
                        let spec = MachineSpec::parse(&name, self.seed)?;
                        let extent = Extent::up_to(self.limit);
                        let point = Point::new(&spec, self.seed, &program, &extent)?;
                        let has_caches = Wanted::has_caches(&spec);
                        let label = request.program.clone();
                        (point.key.clone(), Ok(Wanted { program, label, extent, has_caches, point }))
                    }
                    What::PageSizes => {
                        let (sizes, limit) = (format!("{PAGE_SIZES:?}"), format!("{:?}", self.limit));
                        let key = key(&["page sizes", &program.identity(), &sizes, &limit]);
                        let work = Work::PageSizes { key: key.clone(), sizes: PAGE_SIZES.to_vec() };
                        let label = request.program.clone();
                        (key, Err(Pass { program, label, extent: Extent::up_to(self.limit), work }))
                    }
                };
                match self.cache.get(&key, |line| listen(Event::Says(line))) {
                    Some(answer) => insert(results, request, answer),
                    None => {
                        match missing {
                            Ok(point) => points.push(point),
                            Err(pass) => pages.push(pass),
                        }
                        requests.insert(key, request);
                    }
                }
            }
            if !requests.is_empty() {
                let mut passes = plan(points, MAX_DESIGNS, workers);
                passes.extend(pages);
                // The widest first, so that no processor is left with one of them at the end.
                passes.sort_by_key(|pass| Reverse(pass.width()));
                return Ok(Round::Missing(passes, requests));
            }
        }
    }

    /// Runs passes; false: interrupted.
    fn run(
        &self,
        passes: Vec<Pass>,
        requests: &BTreeMap<String, Request>,
        round: u32,
        results: &mut Results,
        listen: Listen,
    ) -> Result<bool> {
        // Servers need the processors for themselves.
        let (servers, passes): (Vec<_>, Vec<_>) = passes.into_iter().partition(steady::is_server);
        let signals = Watch::begin();
        for pass in servers {
            let answers = steady::run(&pass, self.cache.dir(), self.farreach, &signals, listen)?;
            let Some(answers) = answers else { return Ok(false) };
            for (key, answer) in answers {
                self.cache.put(&key, &answer)?;
                insert(results, requests[&key].clone(), answer);
            }
        }
        if passes.is_empty() {
            return Ok(true);
        }
        let (total, machines) = (passes.len(), passes.iter().map(Pass::width).sum::<u64>());
        let workers = self.threads.clamp(1, total);
        // The remaining processors are shared by the passes.
        let threads = self.threads / workers;
        if round == 1 {
            listen(Event::Says(format!(
                "{} in {}, about {} on {workers} of {}; what they find may ask for more. Results are kept \
                 in {}",
                counted(machines, "run of machines"),
                counted(total as u64, "pass"),
                spoken(Estimate::of(&passes, workers)?.wall(workers)),
                counted(self.threads as u64, "thread"),
                self.cache.dir().display()
            )));
        }
        let (shared, queue) = (Shared::default(), Mutex::new(VecDeque::from(passes)));
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
            listen(Event::PassesBegin);
            let mut done = 0;
            let mut failure = None;
            let (mut interrupted, mut over) = (false, false);
            loop {
                match receive.recv_timeout(Duration::from_millis(100)) {
                    Ok(Ok(Some(answers))) => {
                        done += 1;
                        for (key, answer) in answers {
                            insert(results, requests[&key].clone(), answer);
                        }
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
                listen(Event::Passes { round, done, total: total as u64, work });
            }
            listen(Event::PassesEnd);
            failure.map_or(Ok(!interrupted), Err)
        })
    }

    fn pass(&self, pass: &Pass, threads: usize, shared: &Shared) -> Outcome {
        let mut seen = 0;
        let answers = pass.run(threads, |progress| {
            // A pass that is made twice begins anew.
            shared.work.fetch_add(progress.references.saturating_sub(seen) * pass.width(), Ordering::Relaxed);
            seen = progress.references;
            !shared.stop.load(Ordering::Relaxed)
        });
        let answers = answers.map_err(|error| Error::Failed(format!("{}: {}", pass.label, named(pass, error))))?;
        for (key, answer) in answers.iter().flatten() {
            self.cache.put(key, answer)?;
        }
        Ok(answers)
    }
}

/// An error of a pass, with the name of the machine in place of its key.
fn named(pass: &Pass, error: Error) -> Error {
    match (error, &pass.work) {
        (Error::Simulation { machine, what }, Work::Machines(points)) => {
            let name = points.iter().find(|point| point.key == machine).map(|point| point.name.clone());
            Error::Simulation { machine: name.unwrap_or(machine), what }
        }
        (error, _) => error,
    }
}

/// Takes an answer, which the cache may know by other names.
fn insert(results: &mut Results, request: Request, mut answer: Answer) {
    let source = match (&mut answer, &request.what) {
        (Answer::Machine(measured), What::Machine(name)) => {
            measured.machine.name.clone_from(name);
            &mut measured.workload.source
        }
        (Answer::Machine(measured), _) => &mut measured.workload.source,
        (Answer::PageSizes(result), _) => &mut result.workload.source,
    };
    source.clone_from(&request.program);
    results.insert(request, answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    #[test]
    fn what_a_study_asks_for_runs_once_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let from = Sources { cache: &cache, small: true, limit: Some(20_000), seed: 0, steady: None };
        let programs =
            Programs::chosen(&["gups".to_owned()], &from, &mut |event| panic!("{event:?}")).unwrap().unwrap();
        let (limit, farreach) = (from.limit, Path::new("/no/farreach"));
        let runner = Runner { cache: &cache, programs: &programs, threads: 1, seed: 0, limit, farreach };
        let studies = [farreach_papers::study("t94-table6").unwrap()];
        let missing = runner.round(&studies, &mut Results::default(), 1, &mut |_| {}).unwrap();
        assert!(matches!(missing, Round::Missing(passes, _) if !passes.is_empty()));

        let mut events = Vec::new();
        assert!(runner.answer(&studies, &mut |event| events.push(event)).unwrap().is_some());
        assert!(matches!(&events[..2], [Event::Says(line), Event::PassesBegin] if line.contains("on 1 of 1 thread")));
        assert_eq!(events.last(), Some(&Event::PassesEnd));
        // All of it is in the cache now.
        assert!(runner.answer(&studies, &mut |event| panic!("{event:?}")).unwrap().is_some());
    }

    #[test]
    fn a_program_is_named_once_and_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let from = Sources { cache: &cache, small: true, limit: None, seed: 0, steady: None };
        for (names, words) in [(["gups", "gups"], "--workload gups is given twice"), (["gups", "gupz"], "gups")] {
            let error = Programs::chosen(&names.map(str::to_owned), &from, &mut |_| {}).err().expect("refused");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
