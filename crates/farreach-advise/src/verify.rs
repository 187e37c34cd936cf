//! `--verify N`: the program by itself with the change and without, in turns.

use super::change::Change;
use super::kernel;
use super::served::{Said, served};
use super::trial;
use super::{Event, Listen};
use farreach_cost::today;
use farreach_live::Watch;
use farreach_live::native::{Native, Way};
use farreach_live::settings::{Changed, Lock, Refused, lock_file};
use farreach_live::system::System;
use farreach_types::counts::{AdviceRow, Interval, Verification};
use farreach_types::{Context, Error, Result, bail, ensure};
use farreach_workloads::Load;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// User and system time in seconds.
pub fn seconds(run: &Native) -> f64 {
    (run.user + run.system).as_secs_f64()
}

pub fn median<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    values.get(values.len() / 2).copied()
}

/// The command of a change and how it is run.
pub fn way(change: &Change, command: &[OsString], stdin: Option<&PathBuf>) -> (Vec<OsString>, Way) {
    let words = command.iter().cloned().chain(change.arguments.iter().map(OsString::from)).collect();
    let environment = change.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    (words, Way { environment, no_huge_pages: change.no_huge_pages, stdin: stdin.cloned() })
}

/// Why a row cannot be tried.
pub fn check(change: &Change, apply: bool) -> Result<()> {
    if let Some(why) = &change.untried {
        bail!("--verify: '{}' cannot be tried here: {why}", change.name);
    }
    ensure!(
        apply || change.writes.is_empty(),
        "--verify: '{}' changes settings of the kernel ({}); --apply does that as root, and restores them afterwards",
        change.name,
        change.writes.iter().map(|write| write.path().display().to_string()).collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// The program that is tried.
pub struct Tried<'a> {
    pub command: &'a [OsString],
    pub stdin: Option<&'a PathBuf>,
    pub load: Option<&'a Load>,
    /// The folder of settings.
    pub root: &'a Path,
    pub signals: &'a Watch,
    pub system: &'a System,
}

/// Takes the lock of who changes settings, below this root. It restores what an earlier run could not.
///
/// # Errors
/// Somebody else has it; or it cannot be made, as by a user who may not change settings.
pub fn lock(root: &Path, listen: Listen) -> Result<Lock> {
    let file = lock_file(root);
    // A copy of a machine's settings may have no such folder.
    let _ = file.parent().map(std::fs::create_dir_all);
    let lock = Lock::take(&file).map_err(|refused| match refused {
        Refused::Held { pid, since, command } => {
            let since = jiff::Timestamp::try_from(since).map_or(String::new(), |t| format!(", since {t:.0}"));
            Error::Failed(format!(
                "--apply: another farreach changes settings of this machine: process {pid}{since}: {command}"
            ))
        }
        Refused::System(e) => Error::Failed(format!("--apply: the lock of who changes settings of this machine: {e}")),
    })?;
    for file in lock.restored() {
        let file = file.display();
        listen(Event::Says(format!("{file}: restored; an earlier farreach was killed, and its guard too")));
    }
    Ok(lock)
}

/// A change that is tried, and its row.
pub struct Trial<'a> {
    pub change: &'a Change,
    pub row: &'a AdviceRow,
}

/// What came of the trials.
#[derive(Default)]
pub struct Tries {
    pub verifications: Vec<Verification>,
    /// Rows with which the program fails, and how.
    pub failed: Vec<(String, Error)>,
    /// What ended all of it before its time: the program fails as it is, a signal came, or a setting cannot be written
    /// or restored.
    pub ended: Option<Error>,
}

/// Runs so far, each with what a load said.
type Runs = Vec<(Native, Option<Said>)>;

/// Runs it `rounds` times each way: in each round as it is, then with each change, unless the program failed with that.
/// Where something ends it, the runs until then are judged.
pub fn verify(
    trials: &[Trial<'_>],
    today_row: &AdviceRow,
    program: &Tried<'_>,
    rounds: u64,
    lock: &mut Option<Lock>,
) -> Tries {
    let mut as_it_is: Runs = Vec::new();
    let mut changed: Vec<Runs> = trials.iter().map(|_| Vec::new()).collect();
    let mut failed: Vec<Option<Error>> = trials.iter().map(|_| None).collect();
    let ended = run(trials, program, rounds, lock, &mut as_it_is, &mut changed, &mut failed).err();
    let (as_it_is, said): (Vec<Native>, Vec<_>) = as_it_is.into_iter().unzip();
    let judged = |Trial { change, row }: &Trial<'_>, runs: Runs| {
        let predicted_bytes = row.resident_bytes as i64 - today_row.resident_bytes as i64;
        let (changed, said_changed): (Vec<Native>, Vec<_>) = runs.into_iter().unzip();
        let served = served(&said).zip(served(&said_changed)).map(<[_; 2]>::from);
        Some(Verification { served, ..judge(change, row, predicted_bytes, &as_it_is, &changed)? })
    };
    let mut tries = Tries { ended, ..Tries::default() };
    for ((trial, runs), failed) in trials.iter().zip(changed).zip(failed) {
        match failed {
            Some(why) => tries.failed.push((trial.row.name.clone(), why)),
            None => tries.verifications.extend(judged(trial, runs)),
        }
    }
    tries
}

fn run(
    trials: &[Trial<'_>],
    program: &Tried<'_>,
    rounds: u64,
    lock: &mut Option<Lock>,
    as_it_is: &mut Runs,
    changed: &mut [Runs],
    failed: &mut [Option<Error>],
) -> Result<()> {
    let Tried { command, stdin, load, root, signals, system } = *program;
    let today = Way { stdin: stdin.cloned(), ..Way::default() };
    let scatters = trials.iter().any(|trial| !trial.change.writes.is_empty());
    let compact = || {
        if scatters {
            kernel::compact(root)
        }
    };
    for _ in 0..rounds {
        compact();
        let warm = warm_bytes(system, as_it_is, changed);
        as_it_is.push(trial::native(command, &today, load, signals, warm).context("as it is")?);
        for (at, Trial { change, .. }) in trials.iter().enumerate() {
            if failed[at].is_some() {
                continue;
            }
            let (words, way) = way(change, command, stdin);
            compact();
            let writes: Vec<_> = change.writes.iter().map(|write| write.change(root)).collect();
            let warm = warm_bytes(system, as_it_is, changed);
            let settings = match lock {
                Some(lock) if !writes.is_empty() => Some(Changed::make(lock, &writes).context("--apply")?),
                _ => None,
            };
            if let (Some((page, pages)), true) = (change.pool, system.hypervisor.is_some()) {
                trial::warm_pool(page, pages);
            }
            let run = trial::native(&words, &way, load, signals, warm);
            // Restored also where the program fails.
            settings.map_or(Ok(()), Changed::restore).context("--apply: not restored")?;
            match run.with_context(|| format!("with {}", change.words)) {
                Ok(run) => changed[at].push(run),
                Err(e) if signals.first().is_some() => return Err(e),
                Err(e) => failed[at] = Some(e),
            }
        }
        if failed.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(())
}

/// Of all runs so far.
fn warm_bytes(system: &System, as_it_is: &Runs, changed: &[Runs]) -> u64 {
    trial::warm_bytes(system, as_it_is.iter().chain(changed.iter().flatten()).map(|(native, _)| native))
}

/// Nothing without a run each way.
fn judge(
    change: &Change,
    row: &AdviceRow,
    predicted_bytes: i64,
    as_it_is: &[Native],
    changed: &[Native],
) -> Option<Verification> {
    let times = |runs: &[Native]| runs.iter().map(seconds).collect::<Vec<f64>>();
    let (before, after) = (times(as_it_is), times(changed));
    let (old, new) = (median(before.iter().copied())?, median(after.iter().copied())?);
    let noise = today::joint(today::noise(&before), today::noise(&after) * new / old);
    let measured = 100.0 * (old - new) / old;
    let predicted = row.saved_percent.unwrap_or_default();
    let most = |runs: &[Native]| median(runs.iter().filter_map(|run| run.resident_bytes));
    let huge = |runs: &[Native]| runs.iter().map(|run| run.seen.huge_bytes).max().unwrap_or(0);
    Some(Verification {
        row: change.name.clone(),
        rounds: before.len().min(after.len()) as u64,
        verdict: verdict(&predicted, measured, noise).into(),
        today_seconds: before,
        changed_seconds: after,
        predicted,
        likely: row.likely_percent,
        predicted_bytes,
        measured,
        noise,
        resident_bytes: [most(as_it_is), most(changed)],
        huge_bytes: [huge(as_it_is), huge(changed)],
        served: None,
    })
}

/// Whether a measured saving is in the predicted interval, as far as its noise can tell.
fn verdict(predicted: &Interval, measured: f64, noise: f64) -> &'static str {
    let inside = (predicted.low - noise..=predicted.high + noise).contains(&measured);
    let small = |percent: f64| percent.abs() <= noise;
    match inside {
        true if small(measured) && small(predicted.low) && small(predicted.high) => "too small to tell",
        true => "held",
        false => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let predicted = Interval { low: 5.0, high: 20.0 };
        assert_eq!(verdict(&predicted, 12.0, 1.0), "held");
        assert_eq!(verdict(&predicted, 4.5, 1.0), "held");
        assert_eq!(verdict(&predicted, 3.0, 1.0), "failed");
        assert_eq!(verdict(&predicted, -3.0, 25.0), "too small to tell");
        assert_eq!(verdict(&Interval { low: 0.0, high: 0.5 }, 0.2, 2.0), "too small to tell");
    }

    #[test]
    fn settings_need_leave() {
        let write = super::super::kernel::Write { file: "sys/a".into(), value: "1".into(), before: "0".into() };
        let change = Change { name: "pool".into(), writes: vec![write], ..Change::default() };
        assert!(
            check(&change, false).unwrap_err().to_string().contains("'pool' changes settings of the kernel (/sys/a)")
        );
        assert!(check(&change, true).is_ok() && check(&Change::default(), false).is_ok());
    }
}
