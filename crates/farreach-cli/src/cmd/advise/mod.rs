//! `farreach advise`: what to change on this machine for a program, what it brings and costs, and proof.

mod base_page;
mod change;
mod changes;
mod kernel;
mod loads;
mod pool;
mod prices;
mod proof;
mod recommend;
mod rows;
mod served;
mod simulate;
mod subject;
mod text;
mod thp;
mod trial;
mod verify;

use super::common::{OutputArgs, explain, formats, note, whole};
use super::watch::{self, WatchArgs};
use super::{feed, program};
use anyhow::{Result, anyhow, bail};
use change::{Change, TODAY};
use clap::Args;
use farreach_live::Watch;
use farreach_live::system::System;
use farreach_machine::MachineSpec;
use farreach_native::this;
use farreach_types::count::parse_count;
use farreach_types::counts::{ADVICE_SCHEMA, AdviceResult, TodayPrices};
use farreach_workloads::{Load, Output};
use rows::Run;
use simulate::simulate;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What to change on this machine for a program: kinds of huge pages, with what each would save and cost.
///
/// The program runs by itself for its time, then under the recorder for its references, without input and with its
/// output thrown away. Nothing on the machine is changed, but by --apply.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach advise -- ./server --self-test
  farreach advise --verify 7 -- python3 job.py
  farreach advise --verify 7 --apply --change thp-always -- ./job
  farreach advise --load ./load.sh --port 7000 -- redis-server --port 7000
  farreach advise -p 4711
  farreach advise job.frt
  farreach advise -m today/zen3 workload:gups:size=256M")]
pub struct AdviseArgs {
    /// A trace, as `farreach record` stores it or in another format, or a kernel of the catalogue: workload:NAME. There
    /// is no native run then, so costs are in cycles.
    #[arg(required_unless_present_any = ["command", "pid"],
          conflicts_with_all = ["command", "runs", "verify", "change", "apply"])]
    file: Option<String>,
    /// Read the file as this format instead of finding out by its content.
    #[arg(long, value_name = "NAME", value_parser = formats(), conflicts_with = "command")]
    format: Option<String>,
    /// A process that runs already and must not be touched: it is watched for half a minute, as by `farreach watch`,
    /// whose recommendation is from sizes alone.
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
          conflicts_with_all = ["command", "file", "runs", "verify", "change", "apply", "load", "stdin", "limit"])]
    pid: Option<i32>,
    /// The processor: a preset or a TOML file, with overrides. `this`, the default, is the one at hand, with prices
    /// measured now; others have the prices of their descriptions.
    #[arg(long, short = 'm', value_name = "NAME[:key=value,...]", default_value = this::NAME)]
    machine: String,
    /// Runs of the program by itself, for its time.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<1>, allow_negative_numbers = true)]
    runs: u64,
    /// Then run it N times each way, as it is and with the recommended change, in turns, and compare with the
    /// prediction.
    #[arg(long, value_name = "N", value_parser = whole::<1>, allow_negative_numbers = true)]
    verify: Option<u64>,
    /// With --verify: try this row instead of the recommended one. May be given several times; `all` is every row.
    #[arg(long, value_name = "ROW", requires = "verify")]
    change: Vec<String>,
    /// With --verify: settings of the kernel may be written, for the runs that need them; they are restored at every
    /// end, also if farreach is killed.
    #[arg(long, requires = "verify")]
    apply: bool,
    /// For a server: the command of its load, for a shell. It runs when the server answers on --port; then the server
    /// gets SIGTERM. Times are those of the server.
    #[arg(long, value_name = "COMMAND", requires_all = ["command", "port"])]
    load: Option<String>,
    /// The port on 127.0.0.1 where the server answers.
    #[arg(long, value_name = "N", requires = "load", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// File that is the standard input of the program in every run.
    #[arg(long, value_name = "FILE", requires = "command")]
    stdin: Option<PathBuf>,
    /// Simulate N instructions only, such as 300M: there are no shares of run time then.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// The folder that settings of the kernel are read from and written to: for another machine a copy of its
    /// /sys/kernel/mm below DIR.
    #[arg(long, value_name = "DIR", default_value = "/")]
    system_root: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    /// The program and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: AdviseArgs) -> Result<ExitCode> {
    if let Some(pid) = args.pid {
        return watch::run(WatchArgs::of(pid, args.output));
    }
    let signals = Watch::begin(); // until the result is whole
    let base = this::parse(&args.machine, 0)?;
    args.output.check(base.inputs().into_iter().chain(args.file.as_deref()))?;
    if !args.command.is_empty() {
        program::check(&args.command)?;
    }
    let here = args.system_root.as_os_str() == "/";
    let system = if here { System::here() } else { System::read(&args.system_root) };
    proof::refuse(&args, &system, &base)?;
    if let Some(file) = &args.file {
        feed::check(file, args.format.as_deref())?;
    }
    let mut lock = args.apply.then(|| verify::lock(&args.system_root)).transpose()?;
    let load = load(&args)?;
    let native = subject::native_runs(&args, load.as_ref(), &signals, &system)?;
    let about = subject::about(&args, native.as_deref());
    let (mut all, mut left_out) = changes::changes(&system, &about).map_err(|why| anyhow!("{why}"))?;
    all.extend(base_page::change(&system, &about, &base).map_err(|why| anyhow!("{}: {why}", args.machine))?);
    // Before the recordings, which take minutes.
    for name in &args.change {
        match name.as_str() {
            ALL => all.iter().filter(|c| c.untried.is_none()).try_for_each(|c| verify::check(c, args.apply))?,
            name => verify::check(find(&all, name)?, args.apply)?,
        }
    }
    let is_this = args.machine.split(':').next() == Some(this::NAME);
    let coalesces = is_this && base.params.has(COALESCE) && loads::coalesces(&base, &signals)?;
    let keys = if is_this { more_keys(&base, coalesces) } else { String::new() };
    let all = all.into_iter().map(|change| Change { keys: change.keys + &keys, ..change }).collect();
    let (mut simulated, result, early) = simulate(&args, load.as_ref(), &system, all, &mut left_out)?;
    // Nothing asked for huge pages.
    let counts = simulated[0].result.counts.clone();
    simulated.retain(|s| s.change.name == TODAY || !s.change.no_huge_pages || s.result.counts != counts);
    let prices = if is_this {
        let program = prices::Footprint {
            touched_bytes: result.workload.touched_bytes,
            walks: &simulated[0].result.counts.tlb.walk_distances,
        };
        let machine = prices::Machine {
            coalesces,
            available_bytes: system.available_bytes.unwrap_or(1 << 30),
            reports_free_pages: system.reports_free_pages == Some(true),
        };
        // What was simulated took minutes.
        prices::measured(&base, &machine, &program, &signals).unwrap_or_else(|error| {
            let described = prices::described_prices(&base, &simulated[0].result);
            let source = format!("{}, since they could not be measured: {}", described.source, explain(&error));
            TodayPrices { source, ..described }
        })
    } else {
        prices::described_prices(&base, &simulated[0].result)
    };
    let native = native.map(|runs| subject::summary(&runs, &about));
    let whole = result.workload.stopped.is_none();
    let run = native.as_ref().filter(|_| whole).map(|native| Run {
        cycles: native.median_seconds * native.gigahertz * 1e9,
        user_cycles: native.user_seconds * native.gigahertz * 1e9,
        noise: native.noise_percent,
    });
    let serial_share = rows::serial_share(&simulated[0].result, &prices, run);
    let rows = rows::rows(&simulated, &prices, run);
    let changes: Vec<Change> = simulated.into_iter().map(|s| s.change).collect();
    let (noise, instructions) = (run.map_or(0.0, |run| run.noise), result.workload.instructions);
    let recommendation = recommend::recommendation(&rows, &changes, noise, instructions, &args.command);
    let mut advice = AdviceResult {
        schema: ADVICE_SCHEMA.into(),
        source: result.workload.source,
        machine: args.machine.clone(),
        about: base.about.clone(),
        settings: subject::settings(&system, &about),
        instructions,
        stopped: result.workload.stopped,
        native,
        prices,
        serial_share,
        rows,
        left_out,
        recommendation,
        verifications: Vec::new(),
    };
    let mut unproved = None;
    if let Some(rounds) = args.verify {
        let program = verify::Tried {
            command: &args.command,
            stdin: args.stdin.as_ref(),
            load: load.as_ref(),
            root: &args.system_root,
            signals: &signals,
            system: &system,
        };
        match &early {
            Some(early) => note(format_args!("--verify: {} before, so nothing is compared", early.words())),
            None => unproved = proof::prove(&args, &changes, &mut advice, &program, rounds, &mut lock),
        }
    }
    args.output.emit(&advice)?;
    match (early, signals.first(), unproved) {
        (Some(early), ..) => Ok(early.status(1)),
        (None, Some(signal), Some(error)) => {
            note(explain(&error));
            Ok(program::interrupted(signal))
        }
        (None, _, Some(error)) => Err(error),
        (None, _, None) => Ok(ExitCode::SUCCESS),
    }
}

/// Every row, for `--change`.
const ALL: &str = "all";
/// The key of pages that share an entry.
const COALESCE: &str = "coalesce";
/// The key of walks by reuse distance.
const WALK_DISTANCES: &str = "walk_distances";

/// Keys of all machines of the processor at hand: entries hold one page each unless they were seen to hold more, and
/// walks are counted by distance.
fn more_keys(base: &MachineSpec, coalesces: bool) -> String {
    let mut keys = String::new();
    if base.params.has(COALESCE) && !coalesces {
        keys += &format!(",{COALESCE}=4K");
    }
    if base.params.has(WALK_DISTANCES) {
        keys += &format!(",{WALK_DISTANCES}=true");
    }
    keys
}

/// The row of this name.
fn find<'a>(all: &'a [Change], name: &str) -> Result<&'a Change> {
    let names = || all.iter().skip(1).map(|change| change.name.as_str()).collect::<Vec<_>>().join(", ");
    match all.iter().skip(1).find(|change| change.name == name) {
        Some(change) => Ok(change),
        None if all.len() == 1 => bail!("--change {name}: there is nothing to change here"),
        None => bail!("--change {name}: one of {} is allowed", names()),
    }
}

/// The load of a server.
fn load(args: &AdviseArgs) -> Result<Option<Load>> {
    let (Some(command), Some(port)) = (&args.load, args.port) else { return Ok(None) };
    let commands = vec![vec![farreach_live::tool::find("sh")?.into(), "-c".into(), command.into()]];
    Ok(Some(Load { commands, port, directory: std::env::current_dir()?, output: Output::unnamed()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that are not there are left out, so their names must be right.
    #[test]
    fn keys_of_the_processor_at_hand() {
        let base = MachineSpec::parse("today/zen3", 0).unwrap();
        assert_eq!(more_keys(&base, false), ",coalesce=4K,walk_distances=true");
        assert_eq!(more_keys(&base, true), ",walk_distances=true");
        assert_eq!(more_keys(&MachineSpec::parse("t94/single", 0).unwrap(), false), "");
    }
}
