//! `--verify`: which rows are tried, what is refused before anything runs, and what is said of rows that were not.

use super::change::{Change, Program, TODAY};
use super::verify::{self, Trial, Tried};
use super::{ALL, Event, Listen, Settings, base_page, changes};
use farreach_live::settings::Lock;
use farreach_live::system::System;
use farreach_live::tool_dir;
use farreach_machine::MachineSpec;
use farreach_types::counts::{AdviceResult, LeftOut};
use farreach_types::{Context, Error, Result, ensure};
use std::fs::File;

/// The names of all rows that there can be, on some machine for some program.
pub const ROWS: [&str; 12] = [
    "thp-always",
    "thp-madvise",
    "allocator",
    "own-switch",
    "shmem-always",
    "mthp-64k",
    "thp-always-64k",
    "text",
    "no-thp",
    "hugetlb-2m",
    "hugetlb-1g",
    "kernel-64k",
];

/// Refuses at once what no program could be tried with: its rows are known only after minutes.
pub fn refuse(settings: &Settings, system: &System, machine: &MachineSpec, listen: Listen) -> Result<()> {
    if let Some(path) = &settings.stdin {
        let about = || format!("--stdin {}", path.display());
        let there = std::fs::metadata(path).with_context(about)?;
        ensure!(!there.is_dir(), "{}: it is a folder", about());
        if there.is_file() {
            File::open(path).with_context(about)?;
        }
    }
    ensure!(settings.system_root.is_dir(), "--system-root {}: there is no such folder", settings.system_root.display());
    if !settings.command.is_empty() {
        tool_dir(None)?;
    }
    for name in settings.change.iter().filter(|name| *name != ALL) {
        ensure!(ROWS.contains(&name.as_str()), "--change {name}: one of {}, {ALL} is allowed", ROWS.join(", "));
    }
    if settings.verify.is_none() {
        return Ok(());
    }
    // Rows that need no more than the settings of the kernel.
    let any = Program { takes_arguments: true, ..Program::default() };
    let (mut all, _) = changes::changes(system, &any).map_err(Error::Failed)?;
    all.extend(
        base_page::change(system, &any, machine)
            .map_err(|why| Error::Failed(format!("{}: {why}", settings.machine)))?,
    );
    let writes = |change: &&Change| !change.writes.is_empty();
    let named = |change: &&Change| {
        settings.change.iter().any(|name| *name == change.name || name == ALL && change.untried.is_none())
    };
    all.iter().filter(named).try_for_each(|change| verify::check(change, settings.apply))?;
    let tried = all.iter().filter(|change| settings.change.is_empty() || named(change)).filter(writes);
    for write in tried.flat_map(|change| &change.writes).filter(|_| settings.apply) {
        let path = settings.system_root.join(&write.file);
        let open = File::options().write(true).open(&path);
        open.with_context(|| format!("--apply: {} cannot be written", path.display()))?;
    }
    if !settings.apply && settings.change.is_empty() && all.iter().any(|change| !change.writes.is_empty()) {
        let line = "--verify without --apply: a row that changes settings of the kernel is not tried";
        listen(Event::Says(line.into()));
    }
    Ok(())
}

/// Tries rows, and adds what came of it to the advice. Returns what is to be said, and to be the exit status, after the
/// advice is printed: none of the rows could be tried, or something ended it.
pub fn prove(
    settings: &Settings,
    changes: &[Change],
    advice: &mut AdviceResult,
    program: &Tried<'_>,
    rounds: u64,
    lock: &mut Option<Lock>,
    listen: Listen,
) -> Option<Error> {
    let rows = advice.rows.clone();
    let recommended = [advice.recommendation.row.clone()];
    let names = if settings.change.is_empty() { &recommended[..] } else { &settings.change };
    let wanted = |trial: &Trial<'_>| {
        let Trial { change, row } = trial;
        row.name != TODAY && names.iter().any(|name| *name == row.name || name == ALL && change.untried.is_none())
    };
    let trials = changes.iter().zip(&rows).map(|(change, row)| Trial { change, row }).filter(wanted);
    let (mut ready, mut not_tried) = (Vec::new(), Vec::new());
    for trial in trials {
        match verify::check(trial.change, settings.apply) {
            Ok(()) => ready.push(trial),
            Err(why) => not_tried.push((trial.row.name.clone(), why)),
        }
    }
    if ready.is_empty() && not_tried.is_empty() {
        if settings.change.is_empty() {
            let line = "--verify: nothing is recommended, so there is nothing to compare; --change ROW chooses a row";
            listen(Event::Says(line.into()));
            return None;
        }
        let names = settings.change.join(", ");
        return Some(Error::Failed(format!("--change {names}: it changes nothing for this program")));
    }
    let tries = if ready.is_empty() {
        verify::Tries::default()
    } else {
        verify::verify(&ready, &rows[0], program, rounds, lock)
    };
    advice.verifications = tries.verifications;
    let not_tried = not_tried.into_iter().map(|(row, why)| ("Not tried here", row, why));
    let failed = tries.failed.into_iter();
    let failed = failed.map(|(row, why)| {
        let what = "the program fails with it".to_owned();
        ("Tried here", row, Error::Step { what, source: why.into() })
    });
    let mut last = None;
    for (what, row, why) in not_tried.chain(failed) {
        let said = why.to_string();
        if advice.recommendation.row == row {
            advice.recommendation.why.push(format!("{what}: {said}."));
        }
        advice.left_out.push(LeftOut { change: format!("{row} under --verify"), why: said });
        last = Some(why);
    }
    tries.ended.or(last.filter(|_| advice.verifications.is_empty()))
}
