//! The program through one machine for each change.

use super::change::Change;
use super::rows::Simulated;
use super::{AdviseArgs, pool, trial};
use crate::cmd::common::{explain, threads};
use crate::cmd::early::{self, Early};
use crate::cmd::feed;
use crate::cmd::run::ahead_in_room;
use anyhow::Result;
use farreach_live::Options as Recording;
use farreach_live::system::System;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_native::this;
use farreach_report::format::shown;
use farreach_types::counts::{LeftOut, MachineResult, RunResult};
use farreach_types::event::Batch;
use farreach_types::params::PAGE_SIZE;
use farreach_workloads::Load;
use std::ffi::OsString;

/// Bytes of references that wait for their simulation.
const AHEAD: u64 = 256 << 20;

/// All changes, each with the counts of its machine. Those for which the program makes other system calls are recorded
/// by themselves, unless something ended the recording early before: then that is returned, too.
pub fn simulate(
    args: &AdviseArgs,
    load: Option<&Load>,
    system: &System,
    mut all: Vec<Change>,
    left_out: &mut Vec<LeftOut>,
) -> Result<(Vec<Simulated>, RunResult, Option<Early>)> {
    let (apart, together): (Vec<Change>, Vec<Change>) = all.iter().cloned().partition(|change| change.recorded_apart);
    let (mut result, mut early) = pass(args, load, &together, &recording(args, &Change::default()), &[], |_| {})?;
    let mut counted: Vec<(String, MachineResult)> =
        together.iter().map(|c| c.name.clone()).zip(std::mem::take(&mut result.machines)).collect();
    for change in apart {
        let why = match (args.command.is_empty(), &early) {
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
        let (one, ended) = match pass(args, load, one, &recording(args, &change), &change.arguments, follow) {
            Ok(passed) => passed,
            // The other rows took minutes, and are as good without this one.
            Err(error) => {
                let why = format!("it cannot be recorded with the change: {}", explain(&error));
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
        let base_page = spec(args, &change)?.params.int(PAGE_SIZE.name);
        simulated.push(Simulated { change, result: counted.swap_remove(at).1, base_page });
    }
    Ok((simulated, result, early))
}

/// A recording with this change, whose output is thrown away.
fn recording(args: &AdviseArgs, change: &Change) -> Recording {
    let stdin = Some(args.stdin.clone().unwrap_or_else(|| "/dev/null".into()));
    let environment = change.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let valgrind = if change.pool.is_some() { vec!["--pool=yes".into()] } else { Vec::new() };
    Recording { stdin, stdout: Some("/dev/null".into()), environment, valgrind, ..Recording::default() }
}

/// The machine that simulates a change.
fn spec(args: &AdviseArgs, change: &Change) -> Result<MachineSpec> {
    let joint = if args.machine.contains('=') { ',' } else { ':' };
    Ok(this::parse(&format!("{}{joint}{}", args.machine, change.keys), 0)?)
}

/// One pass over the program through the machines of these changes, and what ended it early, if anything did.
fn pass(
    args: &AdviseArgs,
    load: Option<&Load>,
    changes: &[Change],
    recording: &Recording,
    arguments: &[String],
    mut follow: impl FnMut(&Batch),
) -> Result<(RunResult, Option<Early>)> {
    let specs: Vec<MachineSpec> = changes.iter().map(|change| spec(args, change)).collect::<Result<_>>()?;
    let options = Options { limit: args.limit, threads: threads(0), ahead: ahead_in_room(AHEAD), ..Options::default() };
    let mut lab = Lab::new(specs, options)?;
    let each = |batch: Batch| {
        follow(&batch);
        Ok((lab.feed(batch)?, lab.progress()))
    };
    let (source, early) = match &args.file {
        Some(file) => (file.clone(), feed::stored(file, args.format.as_deref(), args.limit, each)?),
        None => {
            let arguments = arguments.iter().map(OsString::from);
            let command: Vec<OsString> = args.command.iter().cloned().chain(arguments).collect();
            (shown(&args.command), trial::recorded(&command, recording, load, args.limit, each)?)
        }
    };
    let early = early::finish(&mut lab, early)?;
    Ok((lab.result(&source, early.as_ref().map(Early::words)), early))
}
