//! `farreach guest`: a command in a system that is made for it, kernel and all.

use super::common::note;
use super::program::{self, Refused};
use super::record::{self, TraceArgs};
use super::recorded::{CheckArgs, Recorded, begin};
use super::run::{self, SimulationArgs};
use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use farreach_guest::{Guest, Input, NotFound, cache_dir, qemu};
use farreach_live::{Begin, Options, plugin_dir};
use farreach_types::addr::Bytes;
use farreach_types::event::Arch;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a command in a system of its own, kernel included: x86-64, AArch64 or RISC-V, in QEMU
///
/// A kernel of Debian, a root and a command become a guest that boots in seconds. Kernel and programs are recorded as
/// one, on the page tables that the kernel makes. The console is the terminal; the exit status is the command's.
#[derive(Args)]
#[command(after_help = "Examples:
  farreach guest run -- ls -R /proc/self
  farreach guest record -o xz.frt --arch aarch64 --packages xz-utils -- xz -k /usr/bin/xz")]
pub struct GuestArgs {
    /// What to do
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Run(RunArgs),
    Record(RecordArgs),
}

/// For the help of both.
macro_rules! exit_statuses {
    () => {
        "Exit status:
  the command's own in the guest; 128 + N if signal N ended it there
  0    --limit was reached (the guest is ended)
  125  farreach failed, or the guest ended without the status of its command
  127  the root of the guest does not have the command
  130  interrupted (Ctrl-C); 143 if by SIGTERM, 129 if the terminal was closed. What was seen
       until then is kept"
    };
}

/// Compare designs on a guest on the fly; nothing is stored
#[derive(Args)]
#[command(after_help = concat!(exit_statuses!(), "\n
Examples:
  farreach guest run -- ls -R /proc/self
  farreach guest run --arch aarch64 --packages xz-utils -- xz -k /usr/bin/xz
  farreach guest run --copy /usr/lib/gcc --copy /usr/bin/as --copy big.c -m today/skylake -- gcc -O2 -c big.c
  farreach guest run --from boot --append pti=on -- true"))]
struct RunArgs {
    #[command(flatten)]
    guest: SystemOptions,
    #[command(flatten)]
    options: SimulationArgs,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Store the trace of a guest
#[derive(Args)]
#[command(after_help = concat!(exit_statuses!(), "\n
Examples:
  farreach guest record -o xz.frt --arch aarch64 --packages xz-utils -- xz -k /usr/bin/xz
  farreach sim xz.frt -m today/skylake -m today/neoverse-n1"))]
struct RecordArgs {
    #[command(flatten)]
    guest: SystemOptions,
    #[command(flatten)]
    trace: TraceArgs,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the guest is made of.
#[derive(Args)]
struct SystemOptions {
    /// Its instruction set
    #[arg(long, value_name = "ARCH", default_value = "x86_64", value_parser = PossibleValuesParser::new(arches()))]
    arch: String,
    /// Its kernel: a Debian package (linux-image-...), or a file (vmlinuz). Default: Debian's for virtual machines
    #[arg(long, value_name = "PACKAGE|FILE")]
    kernel: Option<String>,
    /// A folder with its root, or an archive of one (cpio). Repeatable: later ones lie over those before
    #[arg(long, value_name = "FOLDER|ARCHIVE")]
    root: Vec<PathBuf>,
    /// Debian packages that are unpacked into its root, with all that they depend on
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    packages: Vec<String>,
    /// A file or folder of this machine that is in its root at the same path; of programs the libraries, too.
    /// Repeatable
    #[arg(long, value_name = "PATH")]
    copy: Vec<PathBuf>,
    /// Its memory. Default: 1G, or more if its root needs more
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Its virtual processors
    #[arg(long, value_name = "N", default_value_t = 1)]
    processors: u32,
    /// More arguments of its kernel, such as pti=on or transparent_hugepage=never
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
    /// Its time is that of this machine. Without, a nanosecond is an instruction: two runs are equal, and a guest that
    /// is slow while it is recorded has no more interrupts of its timer for that
    #[arg(long)]
    real_time: bool,
    /// Where recording begins: `boot`, `command`, or after N instructions, such as 2G
    #[arg(long, value_name = "boot|command|N", default_value = "command", value_parser = from)]
    from: Begin,
    #[command(flatten)]
    check: CheckArgs,
}

/// Parses `--from`.
fn from(text: &str) -> Result<Begin, String> {
    begin(text, "boot", "command")
}

fn arches() -> Vec<&'static str> {
    qemu::SYSTEMS.iter().map(|system| system.arch.name()).collect()
}

/// Runs the command.
pub fn run(args: GuestArgs) -> Result<ExitCode> {
    match args.action {
        Action::Run(args) => run::simulate(&args.options, None, || args.guest.recorded(&args.command)),
        Action::Record(args) => record::write(&args.trace, None, || args.guest.recorded(&args.command)),
    }
}

impl SystemOptions {
    /// Makes the guest.
    fn recorded(&self, command: &[OsString]) -> Result<Recorded> {
        plugin_dir(None)?;
        let arch = Arch::ALL.into_iter().find(|arch| arch.name() == self.arch);
        let input = input()?;
        let mut run = Options::default();
        if !matches!(input, Input::Terminal { .. }) {
            run.stdin = Some("/dev/null".into());
        }
        let guest = Guest {
            arch: arch.context("an instruction set that is in the list")?,
            kernel: self.kernel.clone(),
            roots: self.root.clone(),
            packages: self.packages.clone(),
            copies: self.copy.clone(),
            memory: self.memory.map(|memory| memory.0),
            processors: self.processors,
            append: self.append.clone(),
            real_time: self.real_time,
            command: command.to_owned(),
            directory: std::env::current_dir().context("the working directory")?,
            input,
        };
        let prepared = guest.prepare(&cache_dir()?, &|line| note(line));
        let prepared = prepared.map_err(|error| match program::not_found::<NotFound>(&error) {
            true => Refused::missing(error).into(),
            false => anyhow::Error::from(error),
        })?;
        Ok(Recorded::guest(command, prepared, self.check.options(self.from, run)))
    }
}

/// What the command reads: the terminal, or the contents of a file.
fn input() -> Result<Input> {
    let stdin = stdin();
    if stdin.is_terminal() {
        let size = terminal_size::terminal_size_of(&stdin).map_or((0, 0), |(width, height)| (height.0, width.0));
        let kind = std::env::var("TERM").unwrap_or_default();
        // It stands in a script.
        let plain = kind.chars().all(|c| c.is_ascii_alphanumeric() || "-+.".contains(c)) && !kind.is_empty();
        return Ok(Input::Terminal { kind: if plain { kind } else { "vt100".into() }, size });
    }
    let mut file = File::from(stdin.as_fd().try_clone_to_owned().context("standard input")?);
    let kind = file.metadata().context("standard input")?.file_type();
    if kind.is_file() {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).context("standard input")?;
        return Ok(Input::Bytes(bytes));
    }
    if kind.is_fifo() || kind.is_socket() {
        note("standard input is a pipe, which does not reach into a guest: the command reads nothing. Give it a file");
    } else if kind.is_block_device() {
        bail!("standard input is a disk; a file, a terminal or /dev/null can be that of a guest's command");
    }
    Ok(Input::Nothing)
}
