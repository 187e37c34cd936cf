//! `farreach sweep`: many machines over many programs.

use super::handover;
use crate::command::Cli;
use anyhow::Result;
use clap::{Args, CommandFactory};
use std::ffi::OsString;
use std::process::ExitCode;

/// Run many machines over many programs, here or on a cluster; resumable.
///
/// An experiment in TOML says which programs, machines, seeds and limits. Passes are handed to Dask, so this command is
/// part of the Python package: pip install './python[sweep]' in a clone. `farreach sweep --help` is that of the
/// package, where there is one.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  farreach sweep sizes.toml --dry-run                  points, passes, estimated time and disk
  farreach sweep sizes.toml --on local:4               on four processes here
  farreach sweep sizes.toml --on tcp://scheduler:8786  on a Dask cluster
  farreach sweep sizes.toml --on slurm.toml            on a batch system
  farreach sweep report sizes.sweep --html sizes.html  pictures of a table"
)]
pub struct SweepArgs {
    /// The experiment, or `report`, with options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "EXPERIMENT.toml | report DIR")]
    words: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: SweepArgs) -> Result<ExitCode> {
    let asked = args.words.iter().any(|word| word == "--help" || word == "-h");
    if asked && !handover::is_there()? {
        let mut commands = Cli::command();
        commands.build();
        let sweep = commands.find_subcommand_mut("sweep").expect("it is this one");
        println!("{}", sweep.render_long_help());
        return Ok(ExitCode::SUCCESS);
    }
    handover::to_python("sweep")
}
