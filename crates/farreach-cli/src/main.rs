//! The command `farreach`: one file per subcommand in [`cmd`].

mod cmd;
#[cfg(test)]
mod examples;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A laboratory for virtual-memory address translation: runs a real program through many TLB designs and page policies side by
/// side, exactly.
#[derive(Parser)]
#[command(
    name = "farreach",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  farreach run -- gcc -O2 -c big.c                 how would gcc fare under the five designs of the subblock paper
  farreach run --machine t94/partial:entries=32 --html report.html -- ./server --once
  farreach record -o gcc.frt -- gcc -O2 -c big.c   store the trace, then
  farreach sim gcc.frt --machine t94/single --machine my-design.toml"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::RunArgs),
    Record(cmd::record::RecordArgs),
    Sim(cmd::sim::SimArgs),
    Trace(cmd::trace::TraceArgs),
    Machines(cmd::machines::MachinesArgs),
    Area(cmd::area::AreaArgs),
}

fn main() -> ExitCode {
    farreach_cli::live::full_files_are_errors();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return usage(&message),
    };
    let failure = if matches!(cli.command, Command::Run(_) | Command::Record(_)) { cmd::program::FAILED } else { 1 };
    let outcome = match cli.command {
        Command::Run(args) => cmd::run::run(args),
        Command::Record(args) => cmd::record::run(args),
        Command::Sim(args) => cmd::sim::run(args),
        Command::Trace(args) => cmd::trace::run(args).map(|()| ExitCode::SUCCESS),
        Command::Machines(args) => cmd::machines::run(args).map(|()| ExitCode::SUCCESS),
        Command::Area(args) => cmd::area::run(args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        // A reader that went away is no error worth words.
        let pipe = |c: &(dyn std::error::Error + 'static)| {
            c.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if !error.chain().any(pipe) {
            cmd::common::note(cmd::common::explain(&error));
        }
        ExitCode::from(error.downcast_ref::<cmd::program::Refused>().map_or(failure, |refused| refused.status))
    })
}

/// Help, the version, or what is wrong with the command line. A status of its own keeps it apart from the program's.
fn usage(message: &clap::Error) -> ExitCode {
    // That nobody can read it is no reason to fail.
    let _ = message.print();
    let records = std::env::args_os().nth(1).is_some_and(|word| word == "run" || word == "record");
    match message.use_stderr() {
        true if records => ExitCode::from(cmd::program::FAILED),
        true => ExitCode::from(2),
        false => ExitCode::SUCCESS,
    }
}
