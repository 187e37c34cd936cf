//! `farreach trap`: a real program, at a few times its own speed, by its traps.

use super::common::{MachineArgs, OutputArgs, note};
use super::program;
use super::progress::{Line, time};
use super::sampling::SampleArgs;
use anyhow::{Result, anyhow};
use clap::{Args, Parser};
use farreach_live::Watch;
use farreach_report::format::counted;
use farreach_trap::{Event, Exit, Observation, ObserveError, Observed, Settings, TrapError, TrapReport};
use farreach_workloads::Prepared;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// The machine of a run without `-m`: as many entries as the second level of a server's processor has.
const DEFAULT_MACHINES: [&str; 1] = ["t94/set-associative:entries=1536,ways=12"];

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
  130  interrupted (Ctrl-C); 143 if by SIGTERM, 129 if the terminal was closed. The program
       gets the signal, and is killed a minute later or at the second one; the result is kept

SIGUSR1 ends the time of --after; without it, misses count anew from there.

Examples:
  farreach trap -- gcc -O2 -c big.c
  farreach trap -m t94/set-associative:entries=1536,ways=12,replacement=fifo -- sqlite3 big.db < queries.sql
  farreach trap --sample 8 --html report.html -- gcc -O2 -c big.c
  farreach trap --for 60s --sample auto --slowdown 1.5 -- redis-server
  farreach trap --after 30s --for 60s --html report.html -- redis-server
  farreach workloads redis --trap -- --html report.html
                       a server of the catalogue: filled by its load, then observed"))]
pub struct TrapArgs {
    #[command(flatten)]
    machines: MachineArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Let the program run freely for this long, with all its pages mapped: what a server does while it is filled.
    /// Then it is simulated, and after two more seconds, in which the machines fill, misses count; they are the ones
    /// that the result calls estimated.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    after: Option<Duration>,
    /// Observe for this long, from the end of --after on, then kill the program: a number of seconds, or of minutes or
    /// hours with `m` or `h` behind it, such as 90, 90s or 10m.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    sample: SampleArgs,
    /// Count the traps at which the kernel referred to memory for the program, and their misses: `farreach run` does
    /// not see these references. Takes a microsecond more for each trap.
    #[arg(long)]
    kernel: bool,
    /// How long a thread or process has the processor while others want it, in its own time: a number of seconds, or
    /// with `ms` behind it.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3ms")]
    slice: Duration,
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
    observe(&args, None)
}

/// Runs a program of the catalogue. `options` are those of `farreach trap`.
pub fn run_prepared(prepared: &Prepared, options: &[OsString]) -> Result<ExitCode> {
    #[derive(Parser)]
    #[command(bin_name = "farreach workloads NAME --trap --")]
    struct Options {
        #[command(flatten)]
        trap: TrapArgs,
    }
    let words = ["".into()].into_iter().chain(options.iter().cloned());
    let options = Options::parse_from(words.chain(["--".into()]).chain(prepared.command.iter().cloned()));
    observe(&options.trap, Some(prepared))
}

fn observe(args: &TrapArgs, prepared: Option<&Prepared>) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let machines = args.machines.parse(&DEFAULT_MACHINES)?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()))?;
    let observation = Observation::new(Settings {
        machines,
        seed: args.machines.seed(),
        share: args.sample.share(),
        after: args.after,
        time: args.time,
        tells_kernel: args.kernel,
        slice: args.slice,
    })?;
    let program = program::check_for("trap", &args.command)?;
    let observed = observation.run(&program, &args.command, prepared, &mut shows()).map_err(explained)?;
    let Observed { result, report, exit, is_server, interrupted } = observed;
    let emitted = args.output.emit(&result);
    note(sanity(&report));
    emitted?;
    Ok(match (interrupted, exit) {
        // As it was asked to.
        (None, Some(Exit::Signal(libc::SIGTERM))) if is_server => ExitCode::SUCCESS,
        (Some(signal), _) | (None, Some(Exit::Signal(signal))) => program::interrupted(signal),
        (None, Some(Exit::Code(code))) => ExitCode::from(code as u8),
        (None, None) => ExitCode::SUCCESS,
    })
}

/// Shows on standard error how far the run is.
fn shows() -> impl FnMut(Event) {
    let mut line = None::<Line>;
    let mut before = (0, Duration::ZERO);
    move |event| match event {
        Event::Says(text) => note(text),
        Event::Begins => line = Some(Line::new()),
        Event::Goes { traps, misses, now } => line.iter_mut().for_each(|line| {
            line.show(|elapsed| {
                let rate = (misses - before.0) as f64 / (now - before.1).as_secs_f64();
                before = (misses, now);
                let (misses, rate) = (counted(misses, "miss"), counted(rate as u64, "miss"));
                format!("{}, {misses} of the first machine, {rate}/s, {}", counted(traps, "trap"), time(elapsed))
            });
        }),
        Event::Ends => line.take().into_iter().for_each(Line::finish),
    }
}

/// The error with the exit status that belongs to it.
fn explained(error: ObserveError) -> anyhow::Error {
    let error = match error {
        ObserveError::Trap(error) => error,
        ObserveError::Other(error) => return error.into(),
    };
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
    if report.switches > 0 {
        lines.push(format!(
            "threads and processes: {}, {} of them because a slice was over",
            counted(report.switches, "switch"),
            report.used_up
        ));
    }
    if let Some((traps, misses)) = report.kernel {
        let traps = counted(traps, "trap");
        lines.push(format!("the kernel, for the program: {traps}, {misses} misses of all machines"));
    }
    if !report.unobserved.is_empty() {
        lines.push(format!("not observed: {}", listed(&report.unobserved, " bytes")));
    }
    if !report.refused.is_empty() {
        lines.push(format!("refused to the program: {}", listed(&report.refused, " times")));
    }
    lines.extend(report.notes.iter().cloned());
    lines.join("\n  ")
}
