//! `farreach trap`: a real program, at a few times its own speed, by its traps.

use super::common::{MachineArgs, OutputArgs, note};
use super::program;
use super::progress::{Line, time};
use super::sampling::{SampleArgs, Sampling};
use anyhow::{Result, anyhow};
use clap::Args;
use farreach_live::Watch;
use farreach_machine::TrapLab;
use farreach_report::format::counted;
use farreach_trap::{Exit, TrapError, TrapReport};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

/// The machine of a run without `-m`: as many entries as the second level of a server's processor has.
const DEFAULT_MACHINES: [&str; 1] = ["t94/set-associative:entries=1536,ways=12"];

/// How often signals and the end of `--for` are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Run a program with only those pages mapped that the machines hold, and count their misses.
///
/// A reference to any other page traps. The machines miss as under `run`, and the program runs at a few times its own
/// speed instead of 23 times; but lookups are not seen, nor hits, nor anything that depends on their order. The
/// program's input, output and exit status are its own. The result comes on standard output when the program has ended.
#[derive(Args)]
#[command(after_help = concat!("Exit status:
  the program's own; 128 + N if signal N ended it
  0    the time of --for was over (the program is killed)
  125  farreach failed: options, machines, files, what the system does not allow
  126  the program cannot be run by traps: not executable, not for x86-64, set-user-ID
  127  the program was not found
  130  interrupted (Ctrl-C); 143 if by SIGTERM, 129 if the terminal was closed. What was seen
       until then is kept

Examples:
  farreach trap -- gcc -O2 -c big.c
  farreach trap -m t94/set-associative:entries=1536,ways=12,replacement=fifo -- sqlite3 big.db < queries.sql
  farreach trap --sample 8 --html report.html -- gcc -O2 -c big.c
  farreach trap --for 60s --sample auto --slowdown 1.5 -- redis-server
  farreach trap --for 60s --html report.html -- redis-server"))]
pub struct TrapArgs {
    #[command(flatten)]
    machines: MachineArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Observe for this long, then kill the program: a number of seconds, or of minutes or hours with `m` or `h` behind
    /// it, such as 90, 90s or 10m.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    sample: SampleArgs,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Parses a time.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) =
        units.iter().find_map(|(unit, of)| Some((text.strip_suffix(unit)?, *of))).unwrap_or((text, 1.0));
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds = number.parse::<f64>().ok().filter(|seconds| plain && *seconds > 0.0);
    seconds.and_then(|n| Duration::try_from_secs_f64(n * unit).ok()).ok_or_else(|| {
        "a time above 0 is allowed: seconds, or a number with ms, s, m or h behind it, such as 90, 1.5s or 10m".into()
    })
}

/// Runs the command; the exit status is the program's.
pub fn run(args: TrapArgs) -> Result<ExitCode> {
    let signals = Watch::begin(); // until the result is whole
    let machines = args.machines.parse(&DEFAULT_MACHINES)?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()))?;
    let mut lab = TrapLab::new(machines, args.machines.seed())?;
    let mut sampling = Sampling::begin(&args.sample, &mut lab, args.machines.seed())?;
    let program = program::check(&args.command)?;
    let mut line = Line::new();
    let mut before = (0, Duration::ZERO);
    let (mut over, mut interrupted) = (false, None);
    let mut tick = |lab: &mut TrapLab, report: &TrapReport, now: Duration| {
        if signals.take().0 > 0 {
            interrupted = signals.first();
        }
        sampling.tick(lab, report, now);
        over = args.time.is_some_and(|time| now >= time);
        line.show(|elapsed| {
            let misses: u64 = lab.misses().next().unwrap_or(0);
            let rate = (misses - before.0) as f64 / (now - before.1).as_secs_f64();
            before = (misses, now);
            let (misses, rate) = (counted(misses, "miss"), counted(rate as u64, "miss"));
            format!("{}, {misses} of the first machine, {rate}/s, {}", counted(report.traps(), "trap"), time(elapsed))
        });
        if over || interrupted.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = farreach_trap::run(&mut lab, &program, &args.command, INTERVAL, &mut tick);
    line.finish();
    let outcome = outcome.map_err(explained)?;
    let stopped = match (over, interrupted) {
        (_, Some(_)) => Some("interrupted".to_owned()),
        (true, _) => args.time.map(|time| format!("--for {} ms", time.as_millis())),
        _ => None,
    };
    args.output.emit(&lab.result(&program::shown(&args.command), stopped, None))?;
    note(sanity(&outcome.report));
    Ok(match (interrupted, outcome.exit) {
        (Some(signal), _) | (None, Some(Exit::Signal(signal))) => program::interrupted(signal),
        (None, Some(Exit::Code(code))) => ExitCode::from(code as u8),
        (None, None) => ExitCode::SUCCESS,
    })
}

/// The error with the exit status that belongs to it.
fn explained(error: TrapError) -> anyhow::Error {
    match error {
        TrapError::NotStarted { program, error } => program::Refused::not_started(program.as_os_str(), error).into(),
        TrapError::Refused { ref program, .. } => {
            let source = std::io::Error::other(error.to_string());
            program::Refused::not_started(program.as_os_str(), source).into()
        }
        other => anyhow!(other),
    }
}

/// The sanity report, for people.
fn sanity(report: &TrapReport) -> String {
    let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let seconds = |micros: u64| format!("{:.2} s", micros as f64 / 1e6);
    let mut lines = vec![
        format!(
            "{}: {} fetches, {} loads, {} stores, {} first stores; {:.1} % without a miss",
            counted(report.traps(), "trap"),
            report.fetches,
            report.loads,
            report.stores,
            report.first_stores,
            share(report.soft, report.traps())
        ),
        format!(
            "time: {} in all, {} of the program's own code, {} in traps ({:.1} us each)",
            seconds(report.wall_microseconds),
            seconds(report.user_microseconds),
            seconds(report.trap_microseconds),
            report.trap_microseconds as f64 / report.traps().max(1) as f64
        ),
        format!(
            "pages: {} unmapped, {} of them by the agent; {} mapped at most; {} read from files, {} copied by {}",
            report.unmapped,
            report.unmapped_by_agent,
            report.most_mapped,
            report.file_pages,
            report.copied_pages,
            counted(report.forks, "fork")
        ),
    ];
    let listed = |names: &std::collections::BTreeMap<String, u64>, unit: &str| {
        names.iter().map(|(name, many)| format!("{name} ({many}{unit})")).collect::<Vec<_>>().join(", ")
    };
    if !report.unobserved.is_empty() {
        lines.push(format!("not observed: {}", listed(&report.unobserved, " bytes")));
    }
    if !report.refused.is_empty() {
        lines.push(format!("refused to the program: {}", listed(&report.refused, " times")));
    }
    lines.extend(report.notes.iter().cloned());
    lines.join("\n  ")
}
