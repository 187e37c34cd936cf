//! `farreach rtl`: the structures as hardware.

mod check;
mod excerpt;
mod synth;

use anyhow::Result;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// The structures as hardware: SystemVerilog modules against the simulator, and in cells of a library.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach rtl check
  farreach rtl check -m rmm15/range gcc.frt")]
pub struct RtlArgs {
    #[command(subcommand)]
    command: RtlCommand,
}

#[derive(Subcommand)]
enum RtlCommand {
    Check(check::CheckArgs),
    Excerpt(excerpt::ExcerptArgs),
    Synth(synth::SynthArgs),
}

impl RtlArgs {
    /// Whether a program is run, whose exit status must not be mistaken for farreach's own.
    pub fn records(&self) -> bool {
        match &self.command {
            RtlCommand::Check(args) => args.records(),
            RtlCommand::Excerpt(args) => args.records(),
            RtlCommand::Synth(_) => false,
        }
    }
}

/// Runs the command.
pub fn run(args: RtlArgs) -> Result<ExitCode> {
    match args.command {
        RtlCommand::Check(args) => check::run(args),
        RtlCommand::Excerpt(args) => excerpt::run(args),
        RtlCommand::Synth(args) => synth::run(args),
    }
}
