//! `farreach advise`: what to change on this machine for a program, what it brings and costs, and proof.

use super::common::{OutputArgs, note, threads, whole};
use super::early::status;
use super::feed::shows;
use super::format::FormatArgs;
use super::program;
use super::watch::{self, WatchArgs};
use anyhow::Result;
use clap::Args;
use farreach_advise::{Advice, ServerLoad, Settings, advise};
use farreach_live::Watch;
use farreach_native::this;
use farreach_types::count::parse_count;
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
    #[command(flatten)]
    format: FormatArgs,
    /// A process that runs already and must not be touched: it is watched for half a minute, as by `farreach watch`,
    /// whose recommendation is from sizes alone.
    #[arg(long, short, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
          conflicts_with_all = ["command", "file", "runs", "verify", "change", "apply", "load", "stdin", "limit"])]
    pid: Option<i32>,
    /// The processor: a preset or a TOML file, with overrides. `this`, the default, is the one at hand, with prices
    /// measured here; others have the prices of their descriptions.
    #[arg(long, short = 'm', value_name = "NAME[:key=value,...]", default_value = this::NAME)]
    machine: String,
    /// Measure the prices of this machine now. Otherwise those that were measured in the last day are taken, unless
    /// the machine was started since.
    #[arg(long)]
    measure: bool,
    /// Simulate all of the program. Otherwise, if it runs for more than half a second by itself, 1/16 of it is, in
    /// windows as with `farreach run --sample 16`: misses and what follows from them are estimates then.
    #[arg(long)]
    exact: bool,
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
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "FormatArgs")]
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
    let settings = Settings {
        command: args.command,
        file: args.file,
        format: args.format.spec()?,
        machine: args.machine,
        measure: args.measure,
        exact: args.exact,
        runs: args.runs,
        verify: args.verify,
        change: args.change,
        apply: args.apply,
        load: args.load.zip(args.port).map(|(command, port)| ServerLoad { command, port }),
        stdin: args.stdin,
        limit: args.limit,
        system_root: args.system_root,
        threads: threads(0),
    };
    let Advice { result, early, unproved } = advise(&settings, &mut shows(args.limit))?;
    args.output.emit(&result)?;
    match (early, signals.first(), unproved) {
        (Some(early), ..) => Ok(status(&early, 1)),
        (None, Some(signal), Some(error)) => {
            note(error);
            Ok(program::interrupted(signal))
        }
        (None, _, Some(error)) => Err(error.into()),
        (None, _, None) => Ok(ExitCode::SUCCESS),
    }
}
