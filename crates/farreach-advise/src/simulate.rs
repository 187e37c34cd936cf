//! The program through one machine for each change.

use super::change::Change;
use super::rows::Simulated;
use super::{Listen, Settings, pool, trial};
use farreach_live::Options as Recording;
use farreach_live::early::{self, Early};
use farreach_live::room;
use farreach_live::system::System;
use farreach_machine::{Lab, MachineSpec, Options, Sample};
use farreach_native::this;
use farreach_report::format::shown;
use farreach_types::Result;
use farreach_types::counts::{LeftOut, MachineResult, RunResult};
use farreach_types::event::Batch;
use farreach_types::params::PAGE_SIZE;
use farreach_workloads::{Load, feed};
use std::ffi::OsString;

/// Bytes of references that wait for their simulation.
const AHEAD: u64 = 256 << 20;
/// Of a program that runs longer by itself, a sample is simulated.
const LONG: f64 = 0.5;
/// One in this many windows.
const ONE_IN: u32 = 16;

/// What part of the program is simulated, whose runs by itself took this long, in the median.
pub fn sample(settings: &Settings, seconds: Option<f64>) -> Option<Sample> {
    seconds.filter(|seconds| !settings.exact && *seconds > LONG).map(|_| Sample::one_in(ONE_IN))
}

/// What is simulated, and what the program is given meanwhile.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub settings: &'a Settings,
    pub load: Option<&'a Load>,
    pub system: &'a System,
    /// See [`sample`].
    pub sample: Option<Sample>,
}

/// All changes, each with the counts of its machine. Those for which the program makes other system calls are recorded
/// by themselves, unless something ended the recording early before: then that is returned, too.
pub fn simulate(
    work: Work,
    mut all: Vec<Change>,
    left_out: &mut Vec<LeftOut>,
    listen: Listen,
) -> Result<(Vec<Simulated>, RunResult, Option<Early>)> {
    let Work { settings, system, .. } = work;
    let (apart, together): (Vec<Change>, Vec<Change>) = all.iter().cloned().partition(|change| change.recorded_apart);
    let (mut result, mut early) = pass(work, &together, &recording(settings, &Change::default()), &[], |_| {}, listen)?;
    let mut counted: Vec<(String, MachineResult)> =
        together.iter().map(|c| c.name.clone()).zip(std::mem::take(&mut result.machines)).collect();
    for change in apart {
        let why = match (settings.command.is_empty(), &early) {
            (true, _) => {
                Some("the program makes other system calls with it: it must be recorded with the change".to_owned())
            }
            (false, Some(early)) => Some(format!("{} before it was recorded with the change", early.words())),
            (false, None) => None,
        };
        if let Some(why) = why {
            left_out.push(LeftOut { change: change.words, why });
            continue;
        }
        let one = std::slice::from_ref(&change);
        let mut asked = change.pool.map(|(page, _)| pool::Asked::new(page));
        let follow = |batch: &Batch| asked.iter_mut().for_each(|asked| asked.follow(batch));
        let (one, ended) = match pass(work, one, &recording(settings, &change), &change.arguments, follow, listen) {
            Ok(passed) => passed,
            // The other rows took minutes, and are as good without this one.
            Err(error) => {
                let why = format!("it cannot be recorded with the change: {}", error);
                left_out.push(LeftOut { change: change.words, why });
                continue;
            }
        };
        if let Some(ended) = ended {
            let why = format!("{} while it was recorded with the change", ended.words());
            left_out.push(LeftOut { change: change.words, why });
            early = Some(ended);
            continue;
        }
        if let Some(asked) = asked {
            let at = all.iter().position(|other| other.name == change.name).expect("it is one of them");
            let sized = match asked.most() {
                0 => Err("the program asked for none of its pages".to_owned()),
                pages => pool::resize(&mut all[at], system, pages),
            };
            if let Err(why) = sized {
                left_out.push(LeftOut { change: change.words, why });
                continue;
            }
        }
        counted.extend(one.machines.into_iter().map(|machine| (change.name.clone(), machine)));
    }
    let mut simulated = Vec::new();
    for change in all {
        let Some(at) = counted.iter().position(|(name, _)| *name == change.name) else { continue };
        let base_page = spec(settings, &change)?.params.int(PAGE_SIZE.name);
        simulated.push(Simulated { change, result: counted.swap_remove(at).1, base_page });
    }
    Ok((simulated, result, early))
}

/// A recording with this change, whose output is thrown away.
fn recording(settings: &Settings, change: &Change) -> Recording {
    let stdin = Some(settings.stdin.clone().unwrap_or_else(|| "/dev/null".into()));
    let environment = change.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let valgrind = if change.pool.is_some() { vec!["--pool=yes".into()] } else { Vec::new() };
    Recording { stdin, stdout: Some("/dev/null".into()), environment, valgrind, ..Recording::default() }
}

/// The machine that simulates a change.
fn spec(settings: &Settings, change: &Change) -> Result<MachineSpec> {
    let joint = if settings.machine.contains('=') { ',' } else { ':' };
    this::parse(&format!("{}{joint}{}", settings.machine, change.keys), 0)
}

/// One pass over the program through the machines of these changes, and what ended it early, if anything did.
fn pass(
    work: Work,
    changes: &[Change],
    recording: &Recording,
    arguments: &[String],
    mut follow: impl FnMut(&Batch),
    listen: Listen,
) -> Result<(RunResult, Option<Early>)> {
    let Work { settings, load, sample, .. } = work;
    let specs: Vec<MachineSpec> = changes.iter().map(|change| spec(settings, change)).collect::<Result<_>>()?;
    let options = Options {
        limit: settings.limit,
        sample,
        threads: settings.threads,
        ahead: room::ahead(AHEAD),
        ..Options::default()
    };
    let mut lab = Lab::new(specs, options)?;
    let each = |batch: Batch| {
        follow(&batch);
        Ok((lab.feed(batch)?, lab.progress()))
    };
    let (source, early) = match &settings.file {
        Some(file) => (file.clone(), feed::stored(file, settings.format.as_deref(), each, listen)?),
        None => {
            let arguments = arguments.iter().map(OsString::from);
            let command: Vec<OsString> = settings.command.iter().cloned().chain(arguments).collect();
            (shown(&settings.command), trial::recorded(&command, recording, load, each, listen)?)
        }
    };
    let early = early::finish(early, |cuts| lab.finish_or_cut(cuts))?;
    Ok((lab.result(&source, early.as_ref().map(Early::words)), early))
}
