//! `farreach advise`: what to change on this machine for a program, what it brings and costs, and proof.

mod changes;
mod kernel;
mod loads;
mod pool;
mod prices;
mod recommend;
mod rows;
mod served;
mod trial;
mod verify;

use super::common::{OutputArgs, formats, note, threads, whole};
use super::this::measure::gigahertz;
use super::{feed, program, this};
use crate::workloads::Load;
use anyhow::{Result, anyhow, bail, ensure};
use changes::{Change, Program, TODAY};
use clap::Args;
use farreach_cost::today;
use farreach_live::native::{Native, Seen, Way};
use farreach_live::system::System;
use farreach_live::{Options as Recording, Watch, allocator_of};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use farreach_types::counts::{ADVICE_SCHEMA, AdviceResult, AdviceRow, MachineResult, NativeRuns, RunResult, Setting};
use farreach_types::event::Batch;
use rows::{Run, Simulated};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use verify::Trial;

/// Bytes of references that wait for their simulation.
const AHEAD: u64 = 256 << 20;

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
  farreach advise job.frt
  farreach advise -m today/zen3 workload:gups:size=256M")]
pub struct AdviseArgs {
    /// A trace, as `farreach record` stores it or in another format, or a kernel of the catalogue: workload:NAME. There
    /// is no native run then, so costs are in cycles.
    #[arg(required_unless_present = "command", conflicts_with_all = ["command", "runs", "verify", "change", "apply"])]
    file: Option<String>,
    /// Read the file as this format instead of finding out by its content.
    #[arg(long, value_name = "NAME", value_parser = formats(), conflicts_with = "command")]
    format: Option<String>,
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
    #[arg(long, value_name = "N", requires = "load")]
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
    let signals = Watch::begin(); // until the result is whole
    let base = this::parse(&args.machine, 0)?;
    args.output.check(base.inputs().into_iter().chain(args.file.as_deref()))?;
    if !args.command.is_empty() {
        program::check(&args.command)?;
    }
    let here = args.system_root.as_os_str() == "/";
    let system = if here { System::here() } else { System::read(&args.system_root) };
    let load = load(&args)?;
    let native = native_runs(&args, load.as_ref(), &signals, &system)?;
    let about = about(&args, native.as_deref());
    let (all, mut left_out) = changes::changes(&system, &about).map_err(|why| anyhow!("{why}"))?;
    // Before the recordings, which take minutes.
    for name in &args.change {
        match name.as_str() {
            ALL => all.iter().try_for_each(|change| verify::check(change, args.apply))?,
            name => verify::check(find(&all, name)?, args.apply)?,
        }
    }
    let is_this = args.machine.split(':').next() == Some(this::NAME);
    let coalesces = is_this && base.params.has(COALESCE) && loads::coalesces(&base)?;
    let keys = if is_this { more_keys(&base, coalesces) } else { String::new() };
    let all = all.into_iter().map(|change| Change { keys: change.keys + &keys, ..change }).collect();
    let (mut simulated, result, interrupted) = simulate(&args, load.as_ref(), &system, all, &mut left_out)?;
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
        prices::measured(&base, &machine, &program)?
    } else {
        prices::described_prices(&base, &simulated[0].result)
    };
    let native = native.map(|runs| summary(&runs, &about));
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
        settings: settings(&system, &about),
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
    if let Some(rounds) = args.verify {
        let recommended = [advice.recommendation.row.clone()];
        let names = if args.change.is_empty() { &recommended[..] } else { &args.change };
        let wanted = |row: &AdviceRow| names.iter().any(|name| *name == row.name || name == ALL);
        let trials: Vec<Trial<'_>> = changes
            .iter()
            .zip(&advice.rows)
            .filter(|(_, row)| row.name != TODAY && wanted(row))
            .map(|(change, row)| Trial { change, row })
            .collect();
        if interrupted.is_some() {
            note("--verify: interrupted before, so nothing is compared");
        } else if trials.is_empty() && args.change.is_empty() {
            note("--verify: nothing is recommended, so there is nothing to compare; --change ROW chooses a row");
        } else {
            ensure!(!trials.is_empty(), "--change {}: it changes nothing for this program", args.change.join(", "));
            for trial in &trials {
                verify::check(trial.change, args.apply)?;
            }
            let program = verify::Tried {
                command: &args.command,
                stdin: args.stdin.as_ref(),
                load: load.as_ref(),
                root: &args.system_root,
                signals: &signals,
                system: &system,
            };
            advice.verifications = verify::verify(&trials, &advice.rows[0], &program, rounds)?;
        }
    }
    args.output.emit(&advice)?;
    Ok(interrupted.map_or(ExitCode::SUCCESS, program::interrupted))
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
    let output = std::env::temp_dir().join(format!("farreach-load-{}", std::process::id()));
    let commands = vec![vec!["sh".into(), "-c".into(), command.into()]];
    Ok(Some(Load { commands, port, directory: std::env::current_dir()?, output }))
}

fn native_runs(
    args: &AdviseArgs,
    load: Option<&Load>,
    signals: &Watch,
    system: &System,
) -> Result<Option<Vec<Native>>> {
    if args.command.is_empty() {
        return Ok(None);
    }
    let way = Way { stdin: args.stdin.clone(), ..Way::default() };
    let mut runs: Vec<Native> = Vec::new();
    for _ in 0..args.runs {
        let warm = trial::warm_bytes(system, runs.iter());
        runs.push(trial::native(&args.command, &way, load, signals, warm)?.0);
    }
    Ok(Some(runs))
}

fn about(args: &AdviseArgs, native: Option<&[Native]>) -> Program {
    let largest = native.and_then(|runs| runs.iter().max_by_key(|run| run.resident_bytes));
    let seen = largest.map(|run| &run.seen);
    let file = |seen: &Seen| seen.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = seen.map_or_else(|| args.file.clone().unwrap_or_default(), file);
    Program {
        takes_arguments: takes_arguments(&args.command, &name),
        allocator: seen.map(|seen| allocator_of(&seen.program, &seen.files)),
        shares: seen.is_some_and(Seen::shares_memory),
        thp_disabled: native.is_some_and(|runs| runs.iter().any(|run| run.seen.thp_disabled)),
        name,
        resident_bytes: largest.map(|run| run.resident_bytes),
    }
}

/// Whether arguments at the end of the command reach this program: it is the command, or a shell passes them on.
fn takes_arguments(command: &[OsString], program: &str) -> bool {
    let Some(first) = command.first() else { return true };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // A path has its own folder, which replaces these.
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(first));
    let file = files.find(|file| file.is_file()).and_then(|file| file.canonicalize().ok()).unwrap_or_default();
    file.file_name().is_some_and(|name| name.to_string_lossy() == program)
        || command.iter().any(|word| word.to_string_lossy().contains("\"$@\""))
}

fn summary(runs: &[Native], about: &Program) -> NativeRuns {
    let cpu_seconds: Vec<f64> = runs.iter().map(verify::seconds).collect();
    NativeRuns {
        runs: runs.len() as u64,
        user_seconds: verify::median(runs.iter().map(|run| run.user.as_secs_f64())).unwrap_or(0.0),
        median_seconds: verify::median(cpu_seconds.iter().copied()).unwrap_or(0.0),
        noise_percent: today::noise(&cpu_seconds),
        cpu_seconds,
        resident_bytes: about.resident_bytes.unwrap_or(0),
        gigahertz: gigahertz(),
        allocator: about.allocator.as_ref().map_or(String::new(), ToString::to_string),
        thp_disabled: about.thp_disabled,
        huge_bytes: runs.iter().map(|run| run.seen.huge_bytes).max().unwrap_or(0),
    }
}

/// All changes, each with the counts of its machine. Those for which the program makes other system calls are recorded
/// by themselves, unless a signal interrupted the program before: then it is returned, too.
fn simulate(
    args: &AdviseArgs,
    load: Option<&Load>,
    system: &System,
    mut all: Vec<Change>,
    left_out: &mut Vec<farreach_types::counts::LeftOut>,
) -> Result<(Vec<Simulated>, RunResult, Option<i32>)> {
    let (apart, together): (Vec<Change>, Vec<Change>) = all.iter().cloned().partition(|change| change.recorded_apart);
    let (mut result, mut interrupted) = pass(args, load, &together, &recording(args, &Change::default()), &[], |_| {})?;
    let mut counted: Vec<(String, MachineResult)> =
        together.iter().map(|c| c.name.clone()).zip(std::mem::take(&mut result.machines)).collect();
    for change in apart {
        let why = match (args.command.is_empty(), interrupted) {
            (true, _) => Some("the program makes other system calls with it: it must be recorded with the change"),
            (false, Some(_)) => Some("interrupted before it was recorded with the change"),
            (false, None) => None,
        };
        if let Some(why) = why {
            left_out.push(farreach_types::counts::LeftOut { change: change.words, why: why.into() });
            continue;
        }
        let one = std::slice::from_ref(&change);
        let mut asked = change.pool.map(pool::Asked::new);
        let follow = |batch: &Batch| asked.iter_mut().for_each(|asked| asked.follow(batch));
        let (one, signal) = pass(args, load, one, &recording(args, &change), &change.arguments, follow)?;
        interrupted = signal;
        if signal.is_some() {
            let why = "interrupted while it was recorded with the change".into();
            left_out.push(farreach_types::counts::LeftOut { change: change.words, why });
            continue;
        }
        if let Some(asked) = asked {
            let at = all.iter().position(|other| other.name == change.name).expect("it is one of them");
            let sized = match asked.most() {
                0 => Err("the program asked for none of its pages".to_owned()),
                pages => pool::resize(&mut all[at], system, pages),
            };
            if let Err(why) = sized {
                left_out.push(farreach_types::counts::LeftOut { change: change.words, why });
                continue;
            }
        }
        counted.extend(one.machines.into_iter().map(|machine| (change.name.clone(), machine)));
    }
    let take = |change: Change| {
        let at = counted.iter().position(|(name, _)| *name == change.name)?;
        Some(Simulated { change, result: counted.swap_remove(at).1 })
    };
    Ok((all.into_iter().filter_map(take).collect(), result, interrupted))
}

/// A recording with this change, whose output is thrown away.
fn recording(args: &AdviseArgs, change: &Change) -> Recording {
    let stdin = Some(args.stdin.clone().unwrap_or_else(|| "/dev/null".into()));
    let environment = change.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let valgrind = if change.pool.is_some() { vec!["--pool=yes".into()] } else { Vec::new() };
    Recording { stdin, stdout: Some("/dev/null".into()), environment, valgrind, ..Recording::default() }
}

/// One pass over the program through the machines of these changes, and the signal that interrupted it, if one did.
fn pass(
    args: &AdviseArgs,
    load: Option<&Load>,
    changes: &[Change],
    recording: &Recording,
    arguments: &[String],
    mut follow: impl FnMut(&Batch),
) -> Result<(RunResult, Option<i32>)> {
    let joint = if args.machine.contains('=') { ',' } else { ':' };
    let specs: Vec<MachineSpec> = changes
        .iter()
        .map(|change| this::parse(&format!("{}{joint}{}", args.machine, change.keys), 0))
        .collect::<Result<_, _>>()?;
    let mut lab =
        Lab::new(specs, Options { limit: args.limit, threads: threads(0), ahead: AHEAD, ..Options::default() })?;
    let each = |batch: Batch| {
        follow(&batch);
        Ok((lab.feed(batch)?, lab.progress()))
    };
    let (source, interrupted) = match &args.file {
        Some(file) => (file.clone(), feed::stored(file, args.format.as_deref(), args.limit, each)?),
        None => {
            let arguments = arguments.iter().map(OsString::from);
            let command: Vec<OsString> = args.command.iter().cloned().chain(arguments).collect();
            (program::shown(&args.command), trial::recorded(&command, recording, load, args.limit, each)?)
        }
    };
    lab.finish()?;
    let stopped = interrupted.map(|_| "interrupted".to_owned());
    Ok((lab.result(&source, stopped), interrupted))
}

/// Settings of the system that decide about page sizes, and what was seen of the program.
fn settings(system: &System, program: &Program) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: String| all.push(Setting { name: name.into(), value });
    match &system.thp {
        None => add("transparent huge pages", "none in this kernel".into()),
        Some(thp) => {
            add("transparent huge pages", thp.enabled.clone().unwrap_or_default());
            add("defrag", thp.defrag.clone().unwrap_or_default());
            let on = thp.sizes.iter().filter(|size| size.enabled != "never");
            let sizes: Vec<String> = on.map(|size| format!("{} {}", Bytes(size.bytes), size.enabled)).collect();
            if !thp.sizes.is_empty() {
                add("sizes", if sizes.is_empty() { "none".into() } else { sizes.join(", ") });
            }
        }
    }
    for pool in system.hugetlb.iter().filter(|pool| pool.pages > 0) {
        add(&format!("pool of {}", Bytes(pool.bytes)), format!("{} pages, {} free", pool.pages, pool.free));
    }
    if let Some(name) = &system.hypervisor {
        add("hypervisor", name.clone());
    }
    if let Some(allocator) = &program.allocator {
        add("allocator", allocator.to_string());
    }
    if program.thp_disabled {
        add("the program", "switches transparent huge pages off for itself".into());
    }
    all
}
