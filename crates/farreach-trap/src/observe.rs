//! A run by traps from beginning to end: from when on it is simulated, what of it, the load of a server beside it, and
//! signals.

use crate::choice::{Sampling, Share};
use crate::{Exit, Launch, Next, Tick, TrapError, TrapReport, run};
use farreach_live::{Watch, check_addresses};
use farreach_machine::{MachineSpec, TrapLab};
use farreach_report::format::shown;
use farreach_types::counts::RunResult;
use farreach_types::{Context, Error, Result};
use farreach_workloads::{Last, Prepared, RunningLoad, Stage};
use signal_hook::consts::SIGUSR1;
use signal_hook::flag;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often signals and times are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long machines are simulated before misses count, where a run is not simulated from its beginning.
const WARM_UP: Duration = Duration::from_secs(2);
/// Bytes of addresses that a run needs at least: the program's stack may grow to 64 MB, and pages lie in memory files.
const ADDRESSES: u64 = 256 << 20;
/// How long the program may take to end after the first signal to farreach.
const GRACE: Duration = Duration::from_secs(60);

/// How a program is observed.
pub struct Settings {
    /// The machines.
    pub machines: Vec<MachineSpec>,
    /// Of everything random.
    pub seed: u64,
    /// What part of the sets is simulated; all without.
    pub share: Option<Share>,
    /// How long the program runs freely first; a server of the catalogue does until it is filled. After two more
    /// seconds, in which the machines fill, misses count.
    pub after: Option<Duration>,
    /// How long it is observed then, before it is killed; to its end without.
    pub time: Option<Duration>,
    /// Whether traps of the kernel's references are counted.
    pub tells_kernel: bool,
    /// How long a task has the processor while others wait, in its own time.
    pub slice: Duration,
}

/// What happens meanwhile.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A line for people.
    Says(String),
    /// The run begins.
    Begins,
    /// How far it is, ten times a second.
    Goes {
        /// Traps so far.
        traps: u64,
        /// Misses of the first machine.
        misses: u64,
        /// Time since the beginning.
        now: Duration,
    },
    /// It has ended.
    Ends,
}

/// Who hears of it.
pub type Listen<'a> = &'a mut dyn FnMut(Event);

/// What was observed.
#[derive(Debug)]
pub struct Observed {
    /// The result.
    pub result: RunResult,
    /// What the run saw and did not see.
    pub report: TrapReport,
    /// How the program ended; none if its time was over.
    pub exit: Option<Exit>,
    /// Whether it was a server with its load.
    pub is_server: bool,
    /// The signal that interrupted the run.
    pub interrupted: Option<i32>,
}

/// Why nothing was observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The run failed.
    #[error(transparent)]
    Trap(#[from] TrapError),
    /// What was needed for it.
    #[error(transparent)]
    Other(#[from] Error),
}

/// A laboratory that is ready for a program.
pub struct Observation {
    settings: Settings,
    lab: TrapLab,
    sampling: Sampling,
}

/// From when on the run is simulated, and from when on misses count.
struct Begin {
    /// Until now nothing is simulated.
    skips: bool,
    after: Option<Duration>,
    /// SIGUSR1 came.
    asked: Arc<AtomicBool>,
    /// Since when the run is simulated.
    since: Duration,
    /// The machines are not warm yet.
    warms: bool,
}

impl Begin {
    fn new(after: Option<Duration>, serves: bool, lab: &mut TrapLab) -> Result<Begin> {
        let asked = Arc::default();
        flag::register(SIGUSR1, Arc::clone(&asked)).context("SIGUSR1")?;
        let skips = after.is_some() || serves;
        if skips {
            lab.skip();
        }
        Ok(Begin { skips, after, asked, since: Duration::ZERO, warms: false })
    }

    /// To be called several times a second. `filled`: what fills the server has ended, if there is one. Returns what
    /// begins and why, in words.
    fn tick(&mut self, lab: &mut TrapLab, now: Duration, filled: bool) -> Option<String> {
        let reason = match () {
            () if self.asked.swap(false, Ordering::SeqCst) => "SIGUSR1",
            () if self.skips && self.after.is_some_and(|after| now >= after) => "the time of --after is over",
            () if self.skips && self.after.is_none() && filled => "the last command of the load begins",
            () if self.warms && now >= self.since + WARM_UP => "the machines are warm",
            () => return None,
        };
        if std::mem::take(&mut self.skips) {
            (self.since, self.warms) = (now, true);
            lab.go_on();
            Some(format!("the run is simulated from here on: {reason}"))
        } else {
            self.warms = false;
            lab.count_anew();
            Some(format!("misses count from here on: {reason}"))
        }
    }
}

impl Observation {
    /// Builds the machines.
    ///
    /// # Errors
    /// A machine cannot be driven by traps, or has no such sample of sets.
    pub fn new(mut settings: Settings) -> Result<Observation> {
        let machines = std::mem::take(&mut settings.machines);
        let mut lab = TrapLab::new(machines, settings.seed)?;
        let sampling = Sampling::begin(settings.share, &mut lab, settings.seed)?;
        Ok(Observation { settings, lab, sampling })
    }

    /// Runs a program, from its beginning to its end. `arguments`: its name first. `prepared`: the workload of the
    /// catalogue that it is, if it is one. SIGUSR1 ends the time of [`Settings::after`]; without it, misses count anew.
    /// The first signal that ends commands goes to the program, the next kills it: the result is kept.
    ///
    /// # Errors
    /// The program or the system refuses it, a machine cannot go on, or the load of a server fails.
    pub fn run(
        self,
        program: &Path,
        arguments: &[OsString],
        prepared: Option<&Prepared>,
        listen: Listen,
    ) -> Result<Observed, ObserveError> {
        let Observation { settings, mut lab, mut sampling } = self;
        let signals = Watch::begin();
        check_addresses(ADDRESSES)?;
        let launch = launch(&settings, program, arguments, prepared)?;
        let mut load = prepared.and_then(|p| p.load.clone());
        let mut begin = Begin::new(settings.after, load.is_some(), &mut lab)?;
        let mut running = None;
        // The load has ended, and all that was to be simulated.
        let mut served = false;
        let (mut over, mut asked_at, mut asked) = (false, None, 0);
        listen(Event::Begins);
        let mut tick = |tick: Tick| {
            let Tick { lab, report, elapsed: now, process } = tick;
            if let (Some(process), Some(load)) = (process, load.take()) {
                running = Some(RunningLoad::start(load, process, Last::Held));
            }
            let stage = running.as_ref().map(RunningLoad::stage);
            match (&running, stage) {
                // A tick later than the simulation begins, or ends: so it is of all requests of the last command, and
                // of nothing else.
                (Some(load), Some(Stage::Filled)) if !begin.skips || settings.after.is_some() => load.go_on(),
                (Some(load), Some(Stage::Served)) if served => load.go_on(),
                (_, Some(Stage::Served)) => {
                    lab.end();
                    served = true;
                }
                _ => {}
            }
            if !served {
                let begins = begin.tick(lab, now, stage.is_some_and(|stage| stage >= Stage::Filled));
                begins.into_iter().for_each(|line| listen(Event::Says(line)));
                if !begin.skips {
                    let chosen = sampling.tick(lab, report, now - begin.since);
                    chosen.into_iter().for_each(|line| listen(Event::Says(line)));
                }
            }
            listen(Event::Goes { traps: report.traps(), misses: lab.misses().next().unwrap_or(0), now });
            let (received, forward) = signals.take();
            asked += received;
            if received > 0 {
                asked_at.get_or_insert(now);
                running.iter().for_each(RunningLoad::stop);
            }
            over = !begin.skips && settings.time.is_some_and(|time| now >= begin.since + time);
            if over || asked > 1 || asked_at.is_some_and(|at| now >= at + GRACE) {
                return Next::End;
            }
            forward.map_or(Next::GoOn, Next::Signal)
        };
        let outcome = run(&mut lab, &launch, INTERVAL, &mut tick);
        listen(Event::Ends);
        let outcome = outcome?;
        let interrupted = signals.first();
        let stopped = match (over, interrupted) {
            // Otherwise the result would look like that of a program without misses.
            _ if begin.skips => Some("the program ended before it was to be simulated; nothing was counted".to_owned()),
            (_, Some(_)) => Some("interrupted".to_owned()),
            (true, _) => settings.time.map(|time| format!("--for {} ms", time.as_millis())),
            _ => None,
        };
        let is_server = running.is_some();
        // A load that was cut short is killed, and its status does not matter.
        if let Some(load) = running.filter(|_| stopped.is_none()) {
            load.join()?;
        }
        let mut result = lab.result(&shown(arguments), stopped, None);
        if let Some(traps) = &mut result.workload.traps {
            traps.switches = outcome.report.switches;
        }
        Ok(Observed { result, report: outcome.report, exit: outcome.exit, is_server, interrupted })
    }
}

/// The program, with its files open.
fn launch<'a>(
    settings: &Settings,
    program: &'a Path,
    arguments: &'a [OsString],
    prepared: Option<&'a Prepared>,
) -> Result<Launch<'a>> {
    let open = |path: &PathBuf| File::open(path).with_context(|| path.display().to_string());
    let create = |path: &PathBuf| File::create(path).with_context(|| path.display().to_string());
    let stdin = prepared.map(|p| p.stdin.clone().unwrap_or_else(|| "/dev/null".into()));
    Ok(Launch {
        program,
        arguments,
        stdin: stdin.as_ref().map(open).transpose()?,
        stdout: prepared.map(|p| &p.stdout).map(create).transpose()?,
        directory: prepared.map(|p| p.directory.as_path()),
        tells_kernel: settings.tells_kernel,
        slice: settings.slice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(machine: &str, share: Option<Share>) -> Settings {
        Settings {
            machines: vec![MachineSpec::parse(machine, 0).unwrap()],
            seed: 0,
            share,
            after: None,
            time: None,
            tells_kernel: false,
            slice: Duration::from_millis(3),
        }
    }

    #[test]
    fn what_traps_cannot_drive_or_sample_is_refused_before_anything_runs() {
        let sets = "t94/set-associative:entries=1536,ways=12";
        assert!(Observation::new(settings(sets, Some(Share::OneIn(8)))).is_ok());
        for (machine, share, words) in [
            (sets, Share::OneIn(1 << 20), "--sample 1048576: there are 128 classes of pages"),
            ("t94/single", Share::Auto(2.0), "--sample auto: "),
        ] {
            let error = Observation::new(settings(machine, Some(share))).err().expect("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
