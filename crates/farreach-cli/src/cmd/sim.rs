//! `farreach sim`: a stored trace through many machines.

use super::common::{LabArgs, OutputArgs, note, of_stream};
use super::early::status;
use super::format::FormatArgs;
use super::piece::{self, FromArgs};
use super::{feed, recorded};
use anyhow::{Result, bail};
use clap::Args;
use farreach_live::Watch;
use farreach_live::early::{self, Early};
use farreach_trace::is_pipe;
use farreach_types::count::parse_count;
use farreach_workloads::feed::Stored;
use std::process::ExitCode;

/// Compare designs on a trace. Ctrl-C ends it with the result so far and exit status 130, SIGTERM with 143.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach sim gcc.frt
  farreach sim gcc.frt --machine t94/single --machine t94/single:entries=128 --csv
  farreach sim gcc.frt --skip 2G --warmup 50M --limit 500M --every 50M
  farreach sim gcc.frt --from main
  farreach sim gcc.frt redis.frt --interleave 2M -m today/skylake:cores=2
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
    /// workload:NAME[:size=SIZE,references=N,seed=N]. Several run side by side on one machine, with --interleave.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Run several traces in turn, as a kernel would: time slices of N instructions, such as 2M, in the order in which
    /// the traces are named. What has ended leaves. Machines with several `cores` give each its own.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    interleave: Option<u64>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: SimArgs) -> Result<ExitCode> {
    let label = args.files.join(" + ");
    simulate(args, &label).map_err(|error| of_stream(error, &label))
}

/// Opens what there is.
fn open(args: &SimArgs, format: Option<&str>) -> Result<Stored> {
    Ok(match (&args.files[..], args.interleave) {
        ([file], None) => Stored::open(file, format)?,
        ([_], Some(_)) => bail!("--interleave needs two traces or more, which take turns"),
        (files, Some(slice)) => Stored::together(files, format, slice)?,
        (files, None) => bail!(
            "{} traces: --interleave N runs them in turn, N instructions each, such as 2M; by itself each needs a \
             command of its own",
            files.len()
        ),
    })
}

fn simulate(args: SimArgs, label: &str) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let machines = args.lab.machines()?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()).chain(args.files.iter().map(String::as_str)))?;
    let format = args.format.spec()?;
    let open = || open(&args, format.as_deref());
    let mut trace = open()?;
    let is_system = trace.is_system()?;
    let machines = recorded::machines(machines, is_system)?;
    args.lab.check_alignment(is_system)?;
    let mut lab = args.lab.lab(machines, !args.files.iter().any(|file| is_pipe(file)), 0)?;
    let mut trace = Some(trace);
    let (cutter, alignment, early) = loop {
        let mut cutter = args.lab.cutter(args.from.from.as_ref());
        let mut alignment = args.lab.alignment()?;
        let trace = trace.take().map_or_else(open, Ok)?;
        let (early, failure) = trace.feed_all(
            |batch| anyhow::Ok((lab.feed(alignment.apply(cutter.apply(batch)?)?)?, lab.progress())),
            &mut feed::shows(args.lab.limit()),
        )?;
        let early = early::finish(early, |cuts| lab.finish_or_cut(cuts))?;
        lab.judge(failure)?;
        if let Some(early) = early.as_ref().filter(|_| lab.is_learning()) {
            note("the first of two passes did not end, so there is no result");
            return Ok(status(early, 1));
        }
        if !lab.again()? {
            break (cutter, alignment, early);
        }
    };
    let mut result = lab.result(&alignment.label(label), early.as_ref().map(Early::words));
    piece::describe(&cutter, early.is_some(), &mut result.workload)?;
    args.output.emit(&result)?;
    Ok(early.map_or(ExitCode::SUCCESS, |early| status(&early, 1)))
}
