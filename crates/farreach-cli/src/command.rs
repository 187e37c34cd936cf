//! The command `farreach`: its parser, and what each subcommand ends with. One file per subcommand is in [`cmd`].

use crate::cmd;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Holds the process id of the Python that waits for the command, and with which it ends.
const PARENT_VARIABLE: &str = "FARREACH_PARENT";

/// A laboratory for virtual-memory address translation: runs a real program through many TLB designs and page policies
/// side by side, exactly.
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
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(cmd::run::RunArgs),
    Trap(cmd::trap::TrapArgs),
    Record(cmd::record::RecordArgs),
    Guest(cmd::guest::GuestArgs),
    Sim(cmd::sim::SimArgs),
    #[command(name = "pagesize")]
    PageSize(cmd::pagesize::PageSizeArgs),
    Advise(cmd::advise::AdviseArgs),
    Trace(cmd::trace::TraceArgs),
    Cite(cmd::cite::CiteArgs),
    Machines(cmd::machines::MachinesArgs),
    Area(cmd::area::AreaArgs),
    Contiguity(cmd::contiguity::ContiguityArgs),
    Watch(cmd::watch::WatchArgs),
    Workloads(cmd::workloads::WorkloadsArgs),
    Papers(cmd::papers::PapersArgs),
    Sweep(cmd::sweep::SweepArgs),
    Doctor(cmd::doctor::DoctorArgs),
    Rtl(cmd::rtl::RtlArgs),
    Completions(cmd::completions::CompletionsArgs),
    Man(cmd::man::ManArgs),
}

/// Does what the arguments of the process say. The allocator of the process must be [`farreach_live::Allocator`].
pub fn main() -> ExitCode {
    farreach_live::full_files_are_errors();
    // SAFETY: it is the first thread, and has started none.
    unsafe { farreach_live::end_with_parent(PARENT_VARIABLE) };
    // The arguments alone would overflow a smaller one.
    if let Err(error) = farreach_live::check_stack() {
        cmd::common::note(error);
        return ExitCode::from(cmd::program::FAILED);
    }
    cmd::completions::answer(Cli::command);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => return usage(&message),
    };
    let failure = if records(&cli.command) { cmd::program::FAILED } else { 1 };
    farreach_live::Allocator::set_exit_status(failure);
    if runs_tools_alone(&cli.command)
        && let Err(error) = farreach_live::tool::only_safe_path()
    {
        cmd::common::note(format_args!("starting again without unsafe folders in PATH: {error}"));
        return ExitCode::from(failure);
    }
    farreach_live::Allocator::look_ahead();
    let outcome = match cli.command {
        Command::Run(args) => cmd::run::run(args),
        Command::Trap(args) => cmd::trap::run(args),
        Command::Record(args) => cmd::record::run(args),
        Command::Guest(args) => cmd::guest::run(args),
        Command::Sim(args) => cmd::sim::run(args),
        Command::PageSize(args) => cmd::pagesize::run(args),
        Command::Advise(args) => cmd::advise::run(args),
        Command::Trace(args) => cmd::trace::run(args).map(|()| ExitCode::SUCCESS),
        Command::Cite(args) => cmd::cite::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Machines(args) => cmd::machines::run(args).map(|()| ExitCode::SUCCESS),
        Command::Area(args) => cmd::area::run(args).map(|()| ExitCode::SUCCESS),
        Command::Contiguity(args) => cmd::contiguity::run(args),
        Command::Watch(args) => cmd::watch::run(args),
        Command::Workloads(args) => cmd::workloads::run(args),
        Command::Papers(args) => cmd::papers::run(args),
        Command::Sweep(args) => cmd::sweep::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Rtl(args) => cmd::rtl::run(args),
        Command::Completions(args) => cmd::completions::run(args).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => cmd::man::run(args, Cli::command()).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        if !cmd::common::is_broken_pipe(&error) {
            cmd::common::note(cmd::common::explain(&error));
        }
        ExitCode::from(cmd::program::refused_status(&error).unwrap_or(failure))
    })
}

/// Whether the command runs a program, whose exit status must not be mistaken for farreach's own.
fn records(command: &Command) -> bool {
    match command {
        Command::Run(_) | Command::Trap(_) | Command::Record(_) | Command::Guest(_) => true,
        Command::PageSize(args) => !args.command.is_empty(),
        Command::Contiguity(args) => !args.command.is_empty(),
        Command::Rtl(args) => args.records(),
        _ => false,
    }
}

/// Whether the programs that the command runs are all of farreach's own choice.
fn runs_tools_alone(command: &Command) -> bool {
    matches!(command, Command::Workloads(_) | Command::Papers(_))
}

/// Help, the version, or an error in the command line, whose status differs from those of programs.
fn usage(message: &clap::Error) -> ExitCode {
    let printed = message.print();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let may = |name| words.first().is_some_and(|w| w == name) && words.iter().any(|w| w == "--");
    let always = words.first().is_some_and(|w| ["run", "trap", "record", "guest"].iter().any(|name| w == name));
    let records = always || ["pagesize", "contiguity", "rtl"].into_iter().any(may);
    match message.use_stderr() {
        true if records => ExitCode::from(cmd::program::FAILED),
        true => ExitCode::from(2),
        false => match printed {
            // A closed pipe is no error to report.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        },
    }
}
