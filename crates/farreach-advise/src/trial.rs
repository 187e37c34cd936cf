//! Runs of the program by itself and under the recorder; of a server, with its load beside it.

use super::served::{self, Said};
use super::{Event, Listen};
use farreach_live::chase::{Backing, Ground};
use farreach_live::early::{Early, MemoryLook};
use farreach_live::native::{Native, Running, Way};
use farreach_live::system::System;
use farreach_live::{Exit, Options, Recorder, Report, Watch};
use farreach_machine::Progress;
use farreach_report::format::shown;
use farreach_report::limits::sentence;
use farreach_types::event::Batch;
use farreach_types::{Context, Error, Result, bail};
use farreach_workloads::{Last, Load, Recording, RunningLoad, feed};
use std::ffi::OsString;
use std::thread::sleep;
use std::time::Duration;

/// Between two looks whether a program has ended.
const POLL: Duration = Duration::from_millis(2);

/// The system did not start the program.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotStarted(#[source] pub std::io::Error);

/// Which limits of the recorder were met.
fn say_limits(report: &Report, listen: Listen) {
    report.limits.iter().for_each(|limit| listen(Event::Says(sentence(limit))));
}

/// Refuses a port where another server answers: the load would go there.
fn check_port(load: Option<&Load>) -> Result<()> {
    let answered = load.filter(|load| load.is_answered());
    answered.map_or(Ok(()), |load| {
        bail!("--port {}: something answers there already; end it, or choose another port", load.port)
    })
}

/// Touches this much memory and frees it, so that a hypervisor has given it when the program asks for it: how much of
/// it the hypervisor had taken back before is chance, and waiting for it can take longer than the program.
fn warm(bytes: u64) {
    const PAGE: usize = 4 << 10;
    let bytes = bytes as usize;
    let memory = [Backing::Transparent, Backing::Base].into_iter().find_map(|kind| Ground::new(kind, bytes).ok());
    if let Some(mut memory) = memory.filter(|_| bytes >= PAGE) {
        memory.chain(&(0..bytes / PAGE).map(|page| page * PAGE).collect::<Vec<_>>());
    }
}

/// The same with all pages of a pool, which was made a moment ago.
pub fn warm_pool(page: u64, pages: u64) {
    let kind = if page == 2 << 20 { Backing::Pooled } else { Backing::Gigabyte };
    // The kernel may have found fewer pages; then the program has to wait for them.
    if let Ok(mut memory) = Ground::new(kind, (page * pages) as usize) {
        memory.chain(&(0..pages).map(|at| (at * page) as usize).collect::<Vec<_>>());
    }
}

/// What is touched before the next run: a quarter more than the runs before took, in a virtual machine.
pub fn warm_bytes<'a>(system: &System, runs: impl Iterator<Item = &'a Native>) -> u64 {
    let taken = runs.filter_map(|run| run.resident_bytes).max().unwrap_or(0);
    let most = system.available_bytes.unwrap_or(0) / 2;
    if system.hypervisor.is_some() { (taken / 4 * 5).min(most) } else { 0 }
}

/// The program by itself, to its end or to that of its load, and what the load said. `warm_bytes`: memory that is
/// touched before.
///
/// # Errors
/// It cannot be started, it or its load fails, or a signal ends it.
pub fn native(
    command: &[OsString],
    way: &Way,
    load: Option<&Load>,
    signals: &Watch,
    warm_bytes: u64,
) -> Result<(Native, Option<Said>)> {
    check_port(load)?;
    warm(warm_bytes);
    let memory = MemoryLook::default();
    let name = || command[0].to_string_lossy();
    let mut running = Running::start(command, way).map_err(NotStarted).with_context(name)?;
    // Dropped before the program, whose process id it uses.
    let beside = load.map(|load| RunningLoad::start(load.clone(), running.pid(), Last::Once));
    let (exit, native) = loop {
        if signals.take().0 > 0 {
            let hint = "; a server, which does not end by itself, needs --load and --port";
            bail!("interrupted while it ran by itself{}", if load.is_none() { hint } else { "" });
        }
        if beside.as_ref().is_none_or(RunningLoad::is_over)
            && let Some(ended) = running.ended().map_err(Error::System)?
        {
            break ended;
        }
        running.look();
        sleep(POLL);
    };
    let took = beside.as_ref().map_or(Duration::ZERO, RunningLoad::took);
    beside.map_or(Ok(()), RunningLoad::join)?;
    let said = load.map(|load| served::said(&load.output.text(), took.as_secs_f64()));
    match exit {
        Exit::Code(0) => Ok((native, said)),
        // As it was asked to.
        Exit::Signal(libc::SIGTERM) if load.is_some() => Ok((native, said)),
        Exit::Code(code) => bail!("{}: it ended with exit status {code}", shown(command)),
        Exit::Signal(signal) => {
            let why =
                memory.killed().filter(|_| signal == libc::SIGKILL).map_or(String::new(), |why| format!("; {why}"));
            bail!("{}: signal {signal} ended it{why}", shown(command))
        }
    }
}

/// The program under the recorder. Returns what ended it early, if anything did.
///
/// # Errors
/// As those of the recorder, of `each`, and of the load.
pub fn recorded(
    command: &[OsString],
    options: &Options,
    load: Option<&Load>,
    each: impl FnMut(Batch) -> Result<(bool, Progress)>,
    listen: Listen,
) -> Result<Option<Early>> {
    let Some(load) = load else {
        let (report, early) = feed::live(command, options, each, listen)?;
        say_limits(&report, listen);
        return Ok(early);
    };
    check_port(Some(load))?;
    let mut recording = Recording::server(Recorder::start(command, options)?, load.clone());
    let early = feed::batches(&mut recording, &mut MemoryLook::default(), each, listen)?;
    let report = recording.finish().context("the server and its load")?;
    listen(Event::Ends);
    say_limits(&report, listen);
    Ok(early.or(report.interrupted.map(Early::Signal)))
}
