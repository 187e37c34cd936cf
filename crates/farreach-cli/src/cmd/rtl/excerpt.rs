//! `farreach rtl excerpt`: a piece of a program, as each structure sees it.

use super::check::ALL;
use crate::cmd::common::{needs_file, note, whole, write_whole};
use crate::cmd::early;
use crate::cmd::format::FormatArgs;
use crate::cmd::{feed, program};
use anyhow::{Result, bail, ensure};
use clap::Args;
use farreach_live::Watch;
use farreach_machine::{Lab, MachineSpec, Options, Progress};
use farreach_rtl::{Checker, excerpt};
use farreach_types::count::parse_count;
use farreach_types::event::Batch;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Keep a piece of a program for `farreach rtl synth`.
///
/// Of each structure of the machines: what it holds after --from instructions, its next lookups and fills, up to
/// --limit. The simulator runs alone; nothing is compared, and no tool is needed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach rtl excerpt -o cc1.txt --from 5M --limit 10M -- gcc -O2 -c big.c
  farreach rtl excerpt -o redis.txt --from 100M --limit 110M redis.frt
  farreach rtl synth --excerpt cc1.txt --excerpt redis.txt -o results.csv")]
pub struct ExcerptArgs {
    /// A trace, or a kernel of the catalogue, as `farreach sim` takes it
    #[arg(required_unless_present = "command")]
    file: Option<String>,
    /// A machine whose structures are looked at: a preset or a TOML file, with overrides. Repeatable. Without it,
    /// machines that together have all modules
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Instructions before the piece, such as 5M
    #[arg(long, value_name = "N", value_parser = parse_count::<0>, allow_negative_numbers = true)]
    from: u64,
    /// Stop after N instructions, such as 10M
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    limit: u64,
    /// Put the excerpts into this file, whose name is that of the program
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
    /// A program and its arguments, after `--`, instead of a trace
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["file", "FormatArgs"])]
    command: Vec<OsString>,
}

impl ExcerptArgs {
    /// Whether a program is run.
    pub fn records(&self) -> bool {
        !self.command.is_empty()
    }
}

fn step(lab: &mut Lab, keeper: &Checker, batch: Batch, from: u64) -> Result<(bool, Progress)> {
    let more = lab.feed(batch)? && !keeper.stopped();
    let progress = lab.progress();
    if progress.instructions >= from {
        keeper.keep();
    }
    Ok((more, progress))
}

/// Runs the command.
pub fn run(args: ExcerptArgs) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    needs_file(&args.output, "--output")?;
    farreach_trace::Partial::create(&args.output)?;
    ensure!(args.from < args.limit, "--from {}: it must be less than --limit, {}", args.from, args.limit);
    let keeper = Checker::of_excerpts();
    let names: Vec<&str> =
        if args.machines.is_empty() { ALL.to_vec() } else { args.machines.iter().map(String::as_str).collect() };
    let machines = MachineSpec::parse_all(names, args.seed)?;
    let options = Options { limit: Some(args.limit), seed: args.seed, plain: true, threads: 1, ..Options::default() };
    let mut lab = Lab::observed(machines, options, &mut |spec, tlb| {
        keeper.observe(&spec.name, spec.hardware.kind(), &spec.params, tlb)
    })?;
    let each = |batch| step(&mut lab, &keeper, batch, args.from);
    let interrupted = match &args.file {
        Some(file) => early::signal(feed::stored(file, args.format.spec()?.as_deref(), Some(args.limit), each)?)?,
        None => {
            program::check(&args.command)?;
            let (report, early) = feed::live(&args.command, Some(args.limit), each)?;
            program::note_limits(&report);
            early::signal(early)?
        }
    };
    drop(lab);
    let outcome = keeper.outcome();
    if let Some(what) = outcome.failure {
        bail!("{what}");
    }
    if let Some(signal) = interrupted {
        return Ok(program::interrupted(signal));
    }
    ensure!(!outcome.excerpts.is_empty(), "--from {}: the program ends before", args.from);
    write_whole(&args.output, excerpt::write(&outcome.excerpts).as_bytes())?;
    let lookups: usize = outcome.excerpts.iter().map(|(_, excerpt)| excerpt.lookups.len()).sum();
    note(format_args!("{}: {lookups} lookups of {} structures", args.output.display(), outcome.excerpts.len()));
    Ok(ExitCode::SUCCESS)
}
