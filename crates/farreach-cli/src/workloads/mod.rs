//! The catalogue of workloads: the library's kernels, and real programs that descend from what the papers measured.
//!
//! Programs stand in `programs.toml`. [`command`] makes any of them ready to run: checks that its packages are
//! installed and makes its inputs, from a seed, in a cache directory.

mod catalogue;
pub mod inputs;
mod prepare;
mod server;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use farreach_kernels::{KERNELS, Kernel, kernel};

use farreach_live::guarded::{Ended, Start};
use farreach_live::{Options, Recorder, Watch};
use farreach_types::event::Source;
use farreach_types::suggest::did_you_mean;

pub use catalogue::{Input, Program, programs};
pub use farreach_kernels::{KernelSpec, REFERENCES};
pub use prepare::{cache_dir, install, installed, prepare};
pub use server::{Last, Load, Output, Recording, RunningLoad, Stage};

/// The workload behind a name.
#[derive(Clone, Copy)]
pub enum Workload {
    /// A kernel of the library.
    Kernel(&'static Kernel),
    /// A program of the system.
    Program(&'static Program),
}

/// The workload of this name. Kernels also answer to `kernel/NAME`.
///
/// # Errors
/// There is none; the message has the names most like it.
pub fn find(name: &str) -> Result<Workload> {
    if let Some(kernel) = kernel(name.strip_prefix("kernel/").unwrap_or(name)) {
        return Ok(Workload::Kernel(kernel));
    }
    if let Some(program) = programs().iter().find(|p| p.name == name) {
        return Ok(Workload::Program(program));
    }
    let meant = did_you_mean(name, KERNELS.iter().map(|k| k.name).chain(programs().iter().map(|p| p.name.as_str())));
    let joint = if meant.is_empty() { ";" } else { "" };
    bail!("there is no workload '{name}'{meant}{joint} `farreach workloads` lists the kernels and programs there are")
}

/// The stream of the kernel that `workload:NAME[:size=..,references=..,seed=..]` names; `None` if the text does not
/// begin so.
///
/// # Errors
/// No such kernel, or settings it cannot run with. A program must be recorded first.
pub fn open_source(text: &str) -> Result<Option<Box<dyn Source + Send>>> {
    if let Some((name, _)) = KernelSpec::split(text)?
        && let Workload::Program(_) = find(name)?
    {
        bail!(
            "{name} is a program: record it first, by 'farreach workloads {name} --trace -o {name}.frt', and simulate that file"
        );
    }
    Ok(farreach_kernels::open_source(text)?)
}

/// A command that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The directory where it runs and may leave files.
    pub directory: PathBuf,
    /// What it reads.
    pub stdin: Option<PathBuf>,
    /// Where its output goes: a file, because some programs unlink an output that is a device.
    pub stdout: PathBuf,
    /// If it is a server: the load, which runs beside it and ends it.
    pub load: Option<Load>,
}

/// Time and memory of a native run.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// How it ended.
    pub status: ExitStatus,
    /// User time of the program and its children.
    pub user: Duration,
    /// Most memory that one of its processes held, in bytes.
    pub peak_bytes: u64,
}

/// Makes the program of this name ready, or a kernel as a native program. `asked` may change size and seed of its
/// input.
///
/// # Errors
/// There is no such workload, a package is missing (nothing is installed here), or inputs cannot be made.
pub fn command(name: &str, kernel_spec: &KernelSpec) -> Result<Prepared> {
    ready(name, kernel_spec, false)
}

/// As [`command`]; a server whose size can be chosen is filled to that size by its load, and then used.
///
/// # Errors
/// As of [`command`].
pub fn steady(name: &str, kernel_spec: &KernelSpec) -> Result<Prepared> {
    ready(name, kernel_spec, true)
}

fn ready(name: &str, kernel_spec: &KernelSpec, steady: bool) -> Result<Prepared> {
    match find(name)? {
        Workload::Program(program) => prepare(program, kernel_spec, steady),
        Workload::Kernel(kernel) => {
            let settings = kernel_spec.settings(kernel);
            let directory = cache_dir()?.join("work").join(kernel.name);
            std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
            let mut command: Vec<OsString> =
                vec![std::env::current_exe()?.into(), "workloads".into(), kernel.name.into()];
            command.push("--native".into());
            for (option, value) in
                [("--size", settings.size), ("--references", settings.references), ("--seed", settings.seed)]
            {
                command.extend([option.into(), value.to_string().into()]);
            }
            Ok(Prepared { command, stdin: None, stdout: directory.join("stdout"), directory, load: None })
        }
    }
}

impl Prepared {
    /// Starts it under the recorder, its load beside it.
    ///
    /// # Errors
    /// The recorder is missing or cannot start.
    pub fn record(&self) -> Result<Recording> {
        let options = Options {
            directory: Some(self.directory.clone()),
            stdin: Some(self.stdin.clone().unwrap_or_else(|| "/dev/null".into())),
            stdout: Some(self.stdout.clone()),
            ..Options::default()
        };
        let recorder = Recorder::start(&self.command, &options)?;
        Ok(match &self.load {
            Some(load) => Recording::server(recorder, load.clone()),
            None => recorder.into(),
        })
    }

    /// Runs it as it is, to its end; a server, to the end of its load.
    ///
    /// # Errors
    /// It cannot be started. The load of a server fails, or a signal ends both.
    pub fn run(&self) -> Result<Usage> {
        Ok(self.run_with(Last::Once)?.0)
    }

    /// Runs a server as it is, and repeats the last command of its load for at least this long. Returns the server's
    /// user time for one of them, the median.
    ///
    /// # Errors
    /// As of [`Prepared::run`]; the program is no server.
    pub fn time_last(&self, least: Duration) -> Result<Duration> {
        self.run_with(Last::Repeated(least))?.1.context("it is no server")
    }

    fn run_with(&self, last: Last) -> Result<(Usage, Option<Duration>)> {
        let open = |path: &PathBuf| File::open(path).with_context(|| path.display().to_string());
        let stdin = self.stdin.as_ref().map_or(Ok(Stdio::null()), |path| open(path).map(Stdio::from))?;
        let stdout = File::create(&self.stdout).with_context(|| self.stdout.display().to_string())?;
        let name = self.command[0].display().to_string();
        let signals = self.load.as_ref().map(|_| Watch::begin());
        let begin = || {
            let mut start = Start::new(&self.command[0], None, None)?;
            start.command().args(&self.command[1..]).current_dir(&self.directory).stdin(stdin).stdout(stdout);
            start.spawn()
        };
        let mut program = begin().with_context(|| name.clone())?;
        let (Some(load), Some(signals)) = (self.load.clone(), signals) else {
            return Ok((program.wait().with_context(|| name)?.into(), None));
        };
        let (beside, mut interrupted) = (RunningLoad::start(load, program.pid(), last), false);
        while !beside.is_over() {
            if signals.take().0 > 0 {
                interrupted = true;
                beside.stop();
            }
            sleep(Duration::from_millis(20));
        }
        let time = beside.user_time();
        let result = beside.join();
        let mut usage = Usage::from(program.wait().with_context(|| name.clone())?);
        ensure!(!interrupted, "interrupted; {name} and its load were ended");
        result?;
        if usage.status.signal() == Some(libc::SIGTERM) {
            usage.status = ExitStatus::from_raw(0); // as it was asked to
        }
        Ok((usage, time))
    }
}

impl From<Ended> for Usage {
    fn from(ended: Ended) -> Usage {
        Usage { status: ended.status, user: ended.user, peak_bytes: ended.peak_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_no_stream() {
        for (text, words) in [("workload:gupz", "gups"), ("workload:gzip", "--trace"), ("workload:gups:size=1", "64K")]
        {
            let error = format!("{:#}", open_source(text).err().expect("refused"));
            assert!(error.contains(words), "{error}");
        }
        assert!(open_source("gups.frt").unwrap().is_none());
    }
}
