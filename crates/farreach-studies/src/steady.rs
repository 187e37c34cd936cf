//! Servers in their steady state: `farreach workloads NAME --trap` in a process of its own, and a native run that says
//! how long the same work takes.

use crate::{Event, Listen};
use farreach_live::guarded::Start;
use farreach_live::{Watch, send};
use farreach_native::interfaces;
use farreach_native::this::measure::gigahertz;
use farreach_papers::{Answer, BY_TRAPS, Measured, Study};
use farreach_report::format::{bytes, counted};
use farreach_sweep::{Pass, Point, Program, Work};
use farreach_types::addr::Bytes;
use farreach_types::counts::{NativeUse, RunResult};
use farreach_types::{Context, Error, Result, bail, ensure};
use farreach_workloads::{self as workloads, KernelSpec, Workload};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// How long the native run repeats the observed work: its time is counted in hundredths of a second.
const TIMED: Duration = Duration::from_secs(10);
/// The least time that can be told well enough in that unit.
const LEAST: Duration = Duration::from_millis(50);
/// How often signals are looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// Servers in their steady state, in place of their first seconds.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    /// Bytes that servers are filled to; else what each has by default.
    pub size: Option<u64>,
}

/// Refuses studies that traps cannot measure, and systems that lack what traps need.
///
/// # Errors
/// The first such study, or all that is missing.
pub fn check_steady(studies: &[&Study]) -> Result<()> {
    if let Some(study) = studies.iter().find(|study| !BY_TRAPS.contains(&study.id)) {
        bail!(
            "{}: --trap cannot measure it: it has no servers, or needs what traps do not show, such as lookups, or \
             memory over time at one speed; --trap is for {}",
            study.id,
            BY_TRAPS.join(", ")
        );
    }
    let missing = interfaces::missing("trap");
    ensure!(missing.is_empty(), "--trap cannot work here:\n  {}", missing.join("\n  "));
    Ok(())
}

impl Steady {
    /// The server of the catalogue as a program; `None` if it is none.
    pub fn program(&self, program: &workloads::Program, seed: u64) -> Option<Program> {
        if program.load.is_empty() {
            return None;
        }
        let load = if program.steady.is_empty() { &program.load } else { &program.steady };
        let commands = program.steps.iter().chain([&program.command, &program.steady_arguments]).chain(load);
        let commands: Vec<String> = commands.map(|words| words.join(" ")).collect();
        let (name, size) = (program.name.clone(), self.size.filter(|_| !program.steady.is_empty()));
        Some(Program::Server { name, size, seed, commands: commands.join("\n"), together: Vec::new() })
    }

    /// The options of `farreach papers` that ask for it.
    pub fn options(&self) -> String {
        self.size.map_or("--trap".into(), |size| format!("--trap --size {}", Bytes(size)))
    }
}

/// The servers of the catalogue.
pub fn servers() -> impl Iterator<Item = &'static workloads::Program> {
    workloads::programs().iter().filter(|program| !program.load.is_empty())
}

/// Whether a pass is one of a server.
pub fn is_server(pass: &Pass) -> bool {
    matches!(pass.program, Program::Server { .. })
}

/// Runs the pass of a server. `dir`: where its result may lie for a while. `farreach`: the
/// command. `None`: interrupted.
pub fn run(
    pass: &Pass,
    dir: &Path,
    farreach: &Path,
    signals: &Watch,
    listen: Listen,
) -> Result<Option<Vec<(String, Answer)>>> {
    let (Program::Server { name, size, seed, .. }, Work::Machines(points)) = (&pass.program, &pass.work) else {
        bail!("{} is no server, or not on machines", pass.label)
    };
    let spec = KernelSpec { size: *size, seed: Some(*seed), ..KernelSpec::default() };
    let filled = match (size, workloads::find(name)?) {
        (Some(size), _) => bytes(*size),
        (None, Workload::Program(program)) => format!("about {}", bytes(program.footprint)),
        (None, Workload::Kernel(_)) => bail!("{name} is a kernel"),
    };
    listen(Event::Says(format!("{name}: filled to {filled} and timed without traps")));
    let time = workloads::steady(name, &spec, farreach)?.time_last(TIMED);
    if signals.first().is_some() {
        return Ok(None);
    }
    let user = time.with_context(|| name.clone())?;
    ensure!(
        user >= LEAST,
        "{name}: its load takes {} ms of user time, which is counted in hundredths of a second; a longer one is needed",
        user.as_millis()
    );
    let native =
        NativeUse { user_microseconds: user.as_micros() as u64, kilohertz: (gigahertz() * 1e6).round() as u64 };
    listen(Event::Says(format!(
        "{name}: {:.2} s of user time for the last command of its load; now filled again, and observed by its traps \
         with {}",
        user.as_secs_f64(),
        counted(points.len() as u64, "machine")
    )));
    let file = dir.join(format!("{name}-{}.part", std::process::id()));
    let observed = observe(name, &spec, points, &file, farreach, signals);
    let text = std::fs::read(&file);
    let _ = std::fs::remove_file(&file);
    if !observed.with_context(|| format!("{name}, observed by its traps"))? {
        return Ok(None);
    }
    let result: RunResult =
        serde_json::from_slice(&text.map_err(Error::System)?).with_context(|| file.display().to_string())?;
    answers(result, points, native).with_context(|| name.clone()).map(Some)
}

/// `farreach workloads NAME --trap` from beginning to end; false: interrupted.
fn observe(
    name: &str,
    spec: &KernelSpec,
    points: &[Point],
    file: &Path,
    farreach: &Path,
    signals: &Watch,
) -> Result<bool> {
    let mut start = Start::new(farreach, None, None).map_err(Error::System)?;
    let command = start.command();
    command.args(["workloads", name, "--trap"]).stdin(Stdio::null()).stdout(Stdio::null());
    let numbers = [("--size", spec.size), ("--seed", spec.seed)];
    for (option, value) in numbers.into_iter().filter_map(|(option, value)| Some((option, value?))) {
        command.args([option, &value.to_string()]);
    }
    command.args(["--", "--json", "-o"]).arg(file).args(["--seed", &points[0].seed.to_string()]);
    points.iter().for_each(|point| _ = command.args(["-m", &point.name]));
    let mut running = start.spawn().context("farreach workloads")?;
    let mut told = false;
    let status = loop {
        if let Some(ended) = running.try_wait().map_err(Error::System)? {
            break ended.status;
        }
        if signals.take().0 > 0 {
            // It ends its server, and a second signal kills that.
            send(running.pid(), libc::SIGTERM);
            told = true;
        }
        sleep(INTERVAL);
    };
    let interrupted = told || signals.first().is_some();
    ensure!(status.success() || interrupted, "{status}");
    Ok(!interrupted)
}

/// The results of machines by their keys, without what depends on the other machines.
fn answers(result: RunResult, points: &[Point], native: NativeUse) -> Result<Vec<(String, Answer)>> {
    let RunResult { mut workload, machines, .. } = result;
    if let Some(why) = &workload.stopped {
        bail!("it was observed in part only: {why}");
    }
    workload.traps.as_mut().context("its result is none of a run by traps")?.native = Some(native);
    ensure!(machines.len() == points.len(), "{} of {} machines have a result", machines.len(), points.len());
    let each = points.iter().zip(machines).map(|(point, mut machine)| {
        ensure!(machine.name == point.name, "{} has the result of {}", point.name, machine.name);
        machine.ledger.clear();
        machine.timeline = Default::default();
        Ok((point.key.clone(), Answer::Machine(Box::new(Measured { workload: workload.clone(), machine }))))
    });
    each.collect()
}
