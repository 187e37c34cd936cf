//! `farreach sim`: a stored trace through many machines.

use super::common::{LabArgs, OutputArgs, note, of_stream};
use super::early::status;
use super::format::FormatArgs;
use super::{feed, recorded};
use anyhow::Result;
use clap::Args;
use farreach_live::Watch;
use farreach_live::early::{self, Early};
use farreach_trace::is_pipe;
use farreach_workloads::feed::Stored;
use std::process::ExitCode;

/// Compare designs on a trace. Ctrl-C ends it with the result so far and exit status 130, SIGTERM with 143.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach sim gcc.frt
  farreach sim gcc.frt --machine t94/single --machine t94/single:entries=128 --csv
  farreach sim gcc.frt --align 64K
  farreach contiguity --dump xz.map -- xz -kf big.tar; farreach sim xz.frt --mapping xz.map
  farreach sim 605.mcf_s-472B.champsimtrace.xz --limit 50M
  farreach sim drmemtrace.app.4711.0001.dir/trace
  farreach sim system.cpu.trc.gz --addresses virtual
  farreach sim mine.csv --columns address=2,kind=1,size=3 --separator , --header 1
  farreach sim workload:gups:size=256M,references=20M
  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | farreach sim -")]
pub struct SimArgs {
    /// The trace: farreach's own or in another format (`--format` lists them), plain or compressed; a folder with a
    /// trace of drmemtrace; `-` for standard input. Or a kernel of the catalogue:
    /// workload:NAME[:size=SIZE,references=N,seed=N].
    file: String,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: SimArgs) -> Result<ExitCode> {
    let file = args.file.clone();
    simulate(args).map_err(|error| of_stream(error, &file))
}

fn simulate(args: SimArgs) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let machines = args.lab.machines()?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()).chain([args.file.as_str()]))?;
    let format = args.format.spec()?;
    let open = || Stored::open(&args.file, format.as_deref());
    let mut trace = open()?;
    let is_system = trace.is_system()?;
    let machines = recorded::machines(machines, is_system)?;
    args.lab.check_alignment(is_system)?;
    let mut lab = args.lab.lab(machines, !is_pipe(&args.file), 0)?;
    let mut trace = Some(trace);
    let (alignment, early) = loop {
        let mut alignment = args.lab.alignment()?;
        let trace = trace.take().map_or_else(open, Ok)?;
        let early = trace.feed(
            |batch| anyhow::Ok((lab.feed(alignment.apply(batch)?)?, lab.progress())),
            &mut feed::shows(args.lab.limit()),
        )?;
        let early = early::finish(early, |cuts| lab.finish_or_cut(cuts))?;
        if let Some(early) = early.as_ref().filter(|_| lab.is_learning()) {
            note("the first of two passes did not end, so there is no result");
            return Ok(status(early, 1));
        }
        if !lab.again()? {
            break (alignment, early);
        }
    };
    args.output.emit(&lab.result(&alignment.label(&args.file), early.as_ref().map(Early::words)))?;
    Ok(early.map_or(ExitCode::SUCCESS, |early| status(&early, 1)))
}
