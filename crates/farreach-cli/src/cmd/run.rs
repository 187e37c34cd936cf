//! `farreach run`: a real program through many machines, live.

use super::allocator::Images;
use super::common::{LabArgs, OutputArgs, note};
use super::early::status;
use super::recorded::{self, Recorded, SystemArgs};
use super::{feed, piece, program};
use anyhow::{Result, bail};
use clap::Args;
use farreach_live::early::{self, Early};
use farreach_live::room::{self, room};
use farreach_live::{Watch, own_cpu};
use farreach_trace::Place;
use farreach_types::addr::Bytes;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

/// Run a program and compare designs on the fly; nothing is stored.
///
/// The program's input, output and exit status are its own. The result comes on standard output when the program has
/// ended.
#[derive(Args)]
#[command(after_help = concat!(program::exit_statuses!(), "\n
Examples:
  farreach run -- gcc -O2 -c big.c
  farreach run --machine t94/single --machine t94/partial:entries=32,factor=4 --json -o result.json -- ls -R /usr/share
  farreach run --limit 100M --html report.html -- python3 script.py
  farreach run --from main --skip 1G --warmup 20M --limit 200M --every 20M -- ./solver
  farreach run --system --from 2G -- qemu-system-aarch64 -M virt -cpu max -m 1G -nographic -kernel vmlinuz"))]
pub struct RunArgs {
    #[command(flatten)]
    system: SystemArgs,
    #[command(flatten)]
    options: SimulationArgs,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The options of a run, of programs and of systems.
#[derive(Args)]
pub struct SimulationArgs {
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Memory for recorded references that are not simulated yet: the program runs on while the simulation is less than
    /// SIZE behind, then it waits. A larger SIZE takes less time where both have a processor. Default: 256M, less with
    /// more than five machines.
    #[arg(long, value_name = "SIZE", value_parser = ahead)]
    ahead: Option<Bytes>,
    /// Also print on standard error where the CPU time went.
    #[arg(long)]
    timing: bool,
}

/// For [`RunArgs::ahead`]: the default machines simulate this number of bytes in half a second.
const AHEAD: u64 = 256 << 20;
/// Room is made for one element per batch that may wait.
const MOST_AHEAD: Bytes = Bytes(1 << 40);

/// Parses `--ahead`.
fn ahead(text: &str) -> Result<Bytes, String> {
    let allowed = || format!("a size up to {MOST_AHEAD} is allowed, such as 64M; 0 for as little as can be");
    text.parse().ok().filter(|size| *size <= MOST_AHEAD).ok_or_else(allowed)
}

/// Refuses more than there is.
fn asked_for(size: Bytes) -> Result<u64> {
    if let Some(room) = room().filter(|room| room.left < size.0) {
        bail!("--ahead {size}: {room}");
    }
    Ok(size.0)
}

/// Runs the command; the exit status is the program's.
pub fn run(args: RunArgs) -> Result<ExitCode> {
    let place = args.system.place()?;
    simulate(&args.options, place.as_ref(), || Recorded::command(&args.command, &args.system))
}

/// Simulates machines on what `recorded` makes, which comes after all checks of options.
/// `from`: where in the program it begins.
pub fn simulate(
    args: &SimulationArgs,
    from: Option<&Place>,
    recorded: impl FnOnce() -> Result<Recorded>,
) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let machines = args.lab.machines()?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()))?;
    // More machines take longer for the same memory, and an interrupt must wait for them.
    let ahead = match args.ahead {
        Some(size) => asked_for(size)?,
        None => room::ahead(AHEAD * 5 / machines.len().max(5) as u64),
    };
    let recorded = recorded()?;
    let is_system = recorded.is_system();
    let machines = recorded::machines(machines, is_system)?;
    args.lab.check_alignment(is_system)?;
    let mut lab = args.lab.lab(machines, false, ahead)?;
    let mut alignment = args.lab.alignment()?;
    let mut cutter = args.lab.cutter(from);
    let clock = Instant::now();
    let mut images = Images::default();
    let (report, early) = feed::recorded(
        || recorded.start(),
        args.lab.limit(),
        |batch| {
            images.see(&batch);
            Ok((lab.feed(alignment.apply(cutter.apply(batch)?)?)?, lab.progress()))
        },
    )?;
    let early = early::finish(early, |cuts| lab.finish_or_cut(cuts))?;
    if args.timing {
        let (recorder, own, wall) = (report.cpu.as_secs_f64(), own_cpu().as_secs_f64(), clock.elapsed().as_secs_f64());
        note(format_args!("seconds: recorder and program {recorder:.3}, simulation {own:.3}, wall {wall:.3}"));
    }
    // Threads may reach the limit after the program has ended: the result tells whether they did.
    let limited = lab.limit_reached();
    let early = early.filter(|_| !limited);
    let mut result = lab.result(&alignment.label(&recorded.label), early.as_ref().map(Early::words));
    result.workload.allocator = images.allocator();
    recorded.describe_end(&mut result.workload, &report, limited);
    // Of a system that came to nothing there is another message.
    piece::describe(&cutter, early.is_some() || recorded.saw_nothing(&report), &mut result.workload)?;
    // Zeros would be no figures of it.
    if !recorded.saw_nothing(&report) {
        args.output.emit(&result)?;
    }
    Ok(match early {
        _ if limited => ExitCode::SUCCESS,
        Some(early) => status(&early, program::FAILED),
        None => recorded.exit_code(&report),
    })
}
