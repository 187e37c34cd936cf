//! Programs as they run, through machines.

use crate::describe::Machine;
use crate::drive::{Lookout, Stop, Stream, drive};
use crate::report::Report;
use crate::simulate::{Settings, Study, lab};
use farreach::counts::RecorderLimit;
use farreach::event::{Batch, Source};
use farreach::live::{Exit, Options, Recorder};
use farreach::{Error, Progress};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How long an interrupted program may take to end by itself: Ctrl-C ends a run in a second.
const GRACE: Duration = Duration::from_millis(500);

/// How the program runs.
#[derive(FromPyObject)]
pub struct Program {
    command: Vec<OsString>,
    tool_dir: Option<PathBuf>,
    directory: Option<PathBuf>,
    stdin: Option<PathBuf>,
    stdout: Option<PathBuf>,
}

impl Program {
    fn start(self) -> Result<Live, Error> {
        let Program { command, tool_dir, directory, stdin, stdout } = self;
        let options = Options { tool_dir, directory, stdin, stdout, grace: GRACE, ..Options::default() };
        Ok(Live(Recorder::start(&command, &options)?))
    }
}

/// A program at work. The recorder looks for signals itself, as they are the program's too.
struct Live(Recorder);

impl Stream for Live {
    fn next(&mut self, lookout: &mut Lookout, so_far: Progress) -> Result<Option<Batch>, Stop> {
        lookout.look(so_far)?;
        Ok(self.0.next_batch()?)
    }
}

impl Live {
    /// The program's exit status, and the limits of the recorder that it met; an interrupt is one here, too.
    fn finish(self) -> Result<(i32, Vec<RecorderLimit>), Stop> {
        let report = self.0.finish()?;
        if report.interrupted.is_some() {
            return Err(Stop::Raised(PyKeyboardInterrupt::new_err(())));
        }
        let status = match report.exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => -signal,
        };
        Ok((status, report.limits))
    }
}

/// Runs a program through machines. Returns the result, and the program's exit status (negative: the signal that
/// ended it).
#[pyfunction]
pub fn run(
    py: Python<'_>,
    program: Program,
    label: &str,
    machines: Vec<Machine>,
    settings: Settings,
) -> PyResult<(Report, i32)> {
    let (mut lab, failure) = lab(py, &machines, settings.options(&machines))?;
    let mut relocator = settings.relocator()?;
    let mut cutter = settings.cutter()?;
    let mut lookout = Lookout::new(settings.progress, failure);
    let result = py.detach(|| {
        let mut live = program.start()?;
        let (so_far, failed) = drive(&mut live, &mut lookout, |batch| {
            let batch = cutter.apply(batch)?;
            let batch = relocator.as_mut().map_or(Ok(None), |r| r.apply(&batch).map(Some))?.unwrap_or(batch);
            Ok((lab.feed(batch)?, lab.progress()))
        })?;
        let status = live.finish();
        lab.finish()?;
        lab.judge(failed)?;
        let limited = |stop| if lab.limit_reached() { Ok((0, Vec::new())) } else { Err(stop) };
        let (status, limits) = status.or_else(limited)?;
        lookout.end(so_far)?;
        cutter.end()?;
        let mut result = lab.result(label, None);
        result.workload.limits = limits;
        result.workload.piece = cutter.used();
        Ok((result.into(), status))
    });
    result.map_err(|stop: Stop| stop.raise(py))
}

/// The page-size study of a program.
#[pyfunction]
pub fn pagesize_of_command(
    py: Python<'_>,
    program: Program,
    label: &str,
    sizes: Vec<u64>,
    entries: u64,
    machines: Vec<Machine>,
    settings: Settings,
) -> PyResult<(Report, i32)> {
    let (mut study, failure) = Study::new(py, &sizes, entries, &machines, &settings)?;
    let mut lookout = Lookout::new(settings.progress, failure);
    let result = py.detach(|| {
        let mut live = program.start()?;
        let (so_far, failed) = drive(&mut live, &mut lookout, |batch| study.feed(batch))?;
        let (status, limits) = live.finish()?;
        study.judge(failed)?;
        lookout.end(so_far)?;
        Ok((study.result(label, limits)?, status))
    });
    result.map_err(|stop: Stop| stop.raise(py))
}
