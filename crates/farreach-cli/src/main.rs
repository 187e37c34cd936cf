//! The command `farreach`: one file per subcommand in [`cmd`].

mod cmd;

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
    let outcome = match Cli::parse().command {
        Command::Run(args) => cmd::run::run(args),
        Command::Record(args) => cmd::record::run(args),
        Command::Sim(args) => cmd::sim::run(args).map(|()| ExitCode::SUCCESS),
        Command::Trace(args) => cmd::trace::run(args).map(|()| ExitCode::SUCCESS),
        Command::Machines(args) => cmd::machines::run(args).map(|()| ExitCode::SUCCESS),
        Command::Area(args) => cmd::area::run(args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        // A reader that went away (`farreach sim ... | head`) is no error worth words.
        let pipe = |c: &(dyn std::error::Error + 'static)| {
            c.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if !error.chain().any(pipe) {
            eprintln!("farreach: {error:#}");
        }
        ExitCode::FAILURE
    })
}
