//! `farreach sim`: a stored trace through many machines.

use super::common::{LabArgs, OutputArgs};
use super::progress::Display;
use anyhow::Result;
use clap::Args;
use farreach::trace;
use farreach_cli::live::Watch;
use std::process::ExitCode;

/// Compare designs on a trace. Ctrl-C ends it with the result so far and exit status 130.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach sim gcc.frt
  farreach sim gcc.frt --machine t94/single --machine t94/single:entries=128 --csv
  farreach sim gcc.frt --align 64K
  valgrind --tool=lackey --trace-mem=yes --log-fd=1 ls | farreach sim - --format lackey")]
pub struct SimArgs {
    /// The trace: farreach's own format or Valgrind Lackey text, plain or compressed; `-` for standard input.
    file: String,
    /// Read the file as this format instead of finding out by its content.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    #[command(flatten)]
    lab: LabArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(args: SimArgs) -> Result<ExitCode> {
    args.output.check()?;
    let mut lab = args.lab.lab()?;
    let mut alignment = args.lab.alignment()?;
    let mut opened = trace::open_trace(&args.file, args.format.as_deref())?;
    let mut display = Display::new();
    let signals = Watch::begin();
    let mut interrupted = false;
    while let Some(batch) = opened.source.next_batch()? {
        if !lab.feed(&alignment.apply(batch)?)? {
            break;
        }
        display.update(lab.progress());
        interrupted = signals.take().0 > 0;
        if interrupted {
            break; // What was seen so far is the result.
        }
    }
    lab.settle()?;
    display.finish();
    let stopped = interrupted.then(|| "interrupted".to_owned());
    args.output.emit(&lab.result(&alignment.label(&args.file), stopped))?;
    Ok(if interrupted { ExitCode::from(130) } else { ExitCode::SUCCESS })
}
