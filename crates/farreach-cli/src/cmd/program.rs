//! Messages and exit statuses of `run` and `record` for a recorded program.

use super::common::note;
use farreach_advise::NotStarted;
use farreach_live::{Exit, Report};
use farreach_report::limits::sentence;
use farreach_types::counts::{LimitKind, SignalEnd, Workload, signal_name};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `run` and `record` return when the failure is farreach's own, as `env` and `timeout` do.
pub const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

const SIGILL: i32 = 4;

/// For the help of `run` and `record`.
macro_rules! exit_statuses {
    () => {
        "Exit status:
  the program's own; 128 + N if signal N ended it
  0    --limit was reached (the program is killed)
  125  farreach failed: options, machines, files, recorder, memory of a machine
  126  the program cannot be recorded: not executable, not for x86-64, set-user-ID
  127  the program, or the interpreter it names, was not found
  130  interrupted (Ctrl-C); 143 if by SIGTERM, 129 if the terminal was closed. What was seen
       until then is kept"
    };
}
pub(super) use exit_statuses;

/// A program that cannot be recorded, or not even started.
#[derive(Debug)]
pub struct Refused {
    /// The exit status that a shell would give.
    pub status: u8,
    why: farreach_types::Error,
}

/// The status for a program that the system did not start.
fn status_of(error: &std::io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// Whether an error ends in one of this type.
pub fn not_found<T: std::error::Error + 'static>(error: &farreach_types::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<T>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The exit status of an error that is about a program which was refused.
pub fn refused_status(error: &anyhow::Error) -> Option<u8> {
    let refused = error.downcast_ref::<Refused>().map(|refused| refused.status);
    refused.or_else(|| error.chain().find_map(|cause| Some(status_of(&cause.downcast_ref::<NotStarted>()?.0))))
}

impl Refused {
    /// A command that is not where it must be.
    pub fn missing(why: farreach_types::Error) -> Refused {
        Refused { status: NOT_FOUND, why }
    }

    /// A program that the system did not start.
    pub fn not_started(name: &OsStr, source: std::io::Error) -> Refused {
        let status = status_of(&source);
        Refused { status, why: farreach_types::Error::Io { file: name.to_string_lossy().into_owned(), source } }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.why.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Refuses a command that is no program, before anything else is begun. Returns the file of the program.
pub fn check(command: &[OsString]) -> anyhow::Result<PathBuf> {
    check_for("recording", command)
}

/// The same, for something else than a recording.
pub fn check_for(what: &str, command: &[OsString]) -> anyhow::Result<PathBuf> {
    let status = |missing| if missing { NOT_FOUND } else { NOT_EXECUTABLE };
    let found = farreach_live::check_program(&command[0]);
    Ok(found.map_err(|mut no| {
        if let farreach_types::Error::Trace { file, .. } = &mut no.why
            && let Some(of) = file.strip_prefix("recording")
        {
            *file = format!("{what}{of}");
        }
        Refused { status: status(no.missing), why: no.why }
    })?)
}

/// Adds to a result what only the recorder knows: how the command ended, and the limits that were met. `limited`:
/// farreach itself ended it.
pub fn describe_end(workload: &mut Workload, report: &Report, limited: bool) {
    workload.limits = report.limits.clone();
    // A process that is killed leaves no word about its end.
    if let (Exit::Signal(number), None, false) = (report.exit, report.interrupted, limited)
        && !workload.signals.iter().any(|end| end.number == number)
    {
        workload.signals.push(SignalEnd { signal: signal_name(number), number, processes: 1 });
    }
    if workload.signals.iter().any(|end| end.number == SIGILL) {
        let unknown = report.limits.iter().find(|limit| limit.kind == LimitKind::Instruction);
        workload.stopped = workload.stopped.take().or(unknown.map(|limit| limit.what.clone()));
    }
}

/// Says on standard error which limits of the recorder were met, for commands that have no result to say it in.
pub fn note_limits(report: &Report) {
    for limit in &report.limits {
        note(sentence(limit));
    }
}

/// The exit status of a command that a signal ended.
pub fn interrupted(signal: i32) -> ExitCode {
    ExitCode::from((128 + signal) as u8)
}

/// The program's exit status as a shell would report it, or that of an interrupt.
pub fn exit_code(report: &Report) -> ExitCode {
    let signal = |n: i32| (128 + n) as u8;
    ExitCode::from(match (report.interrupted, report.exit) {
        (Some(n), _) | (None, Exit::Signal(n)) => signal(n),
        (None, Exit::Code(code)) => code as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_program_that_did_not_start_has_the_status_of_a_shell() {
        let refused = |kind: ErrorKind| {
            let error = NotStarted(kind.into());
            let error = farreach_types::Context::context(Err::<(), _>(error), "program").context("as it is");
            refused_status(&error.unwrap_err())
        };
        assert_eq!(refused(ErrorKind::NotFound), Some(NOT_FOUND));
        assert_eq!(refused(ErrorKind::PermissionDenied), Some(NOT_EXECUTABLE));
        assert_eq!(refused_status(&anyhow::anyhow!("something else")), None);
    }
}
