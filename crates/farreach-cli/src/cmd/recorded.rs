//! What `run` and `record` record: a program, or a whole system in a QEMU.

use super::common::note;
use super::program;
use super::terminal::Terminal;
use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use farreach_guest::{Prepared, qemu};
use farreach_live::{Begin, Options, Recorder, Report, SystemOptions, plugin_dir};
use farreach_machine::MachineSpec;
use farreach_report::format::shown;
use farreach_trace::Place;
use farreach_trace::frt::Header;
use farreach_types::count::parse_count;
use farreach_types::counts::Workload;
use farreach_workloads::{header, system_header};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The options about whole systems.
#[derive(Args)]
pub struct SystemArgs {
    /// Record a whole system, its kernel and all its programs: COMMAND is a command line of QEMU (qemu-system-x86_64,
    /// qemu-system-aarch64, qemu-system-riscv64), to which farreach adds what its plugin needs. `farreach guest` needs
    /// no knowledge of QEMU.
    #[arg(long)]
    system: bool,
    /// Where it begins. Of a program: where it executes a function (a symbol of a program or library that it maps,
    /// such as main) or an address (0x401000) for the first time; or `mark`, for the pieces alone that it marks
    /// (farreach-mark.h); --skip and the others count from there on. Of a system: `start`, with 64-bit paging; `mark`;
    /// or after N instructions, such as 2G.
    #[arg(long, value_name = "FUNCTION|ADDRESS|mark|start|N")]
    from: Option<String>,
    #[command(flatten)]
    check: CheckArgs,
}

/// How much is compared with the emulator.
#[derive(Args)]
pub struct CheckArgs {
    /// Compare the frame that the guest's page tables give with QEMU's: at the first use of each page, or at all
    /// references, which takes twice as long.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Check::Pages)]
    check: Check,
}

/// See [`CheckArgs`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    Pages,
    All,
}

impl CheckArgs {
    /// How a system is recorded from `begin` on.
    pub fn options(&self, begin: Begin, run: Options) -> SystemOptions {
        SystemOptions { begin, compare_all: self.check == Check::All, run, ..SystemOptions::default() }
    }
}

/// Parses `--from` of a system.
fn from(text: &str) -> Result<Begin, String> {
    begin(text, "start", "mark")
}

impl SystemArgs {
    /// Where in a program it begins; nothing for a system, whose recorder begins there.
    ///
    /// # Errors
    /// `--from` names no place.
    pub fn place(&self) -> Result<Option<Place>> {
        let given = self.from.as_ref().filter(|_| !self.system);
        given.map(|text| text.parse().map_err(|why| anyhow!("--from {why}"))).transpose()
    }

    fn begin(&self) -> Result<Begin> {
        let given = self.from.as_deref().map(from);
        given.unwrap_or(Ok(Begin::Start)).map_err(|why| anyhow!("--from of a system: {why}"))
    }
}

/// Parses where recording begins, by the words for its first two places.
pub fn begin(text: &str, start: &str, mark: &str) -> Result<Begin, String> {
    match text {
        _ if text == start => Ok(Begin::Start),
        _ if text == mark => Ok(Begin::Mark),
        _ => parse_count::<1>(text).map(Begin::After).map_err(|why| format!("'{start}', '{mark}', or {why}")),
    }
}

/// What is recorded.
pub struct Recorded {
    command: Vec<OsString>,
    /// Its name in the result.
    pub label: String,
    system: Option<SystemOptions>,
    /// A guest that farreach made, which tells the status of its command.
    guest: Option<Prepared>,
    /// Facts for the header of a trace.
    facts: Vec<(&'static str, String)>,
    _terminal: Option<Terminal>,
}

impl Recorded {
    /// The command of `run` or `record`.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn command(command: &[OsString], system: &SystemArgs) -> Result<Recorded> {
        program::check(command)?;
        let mut facts = Vec::new();
        let options = if system.system {
            let begin = system.begin()?;
            let arch = qemu::arch_of(Path::new(&command[0]))?;
            facts.push(("arch", arch.name().to_owned()));
            plugin_dir(None)?;
            Some(system.check.options(begin, Options::default()))
        } else {
            ensure!(system.check.check == Check::Pages, "--check all needs --system: it compares with QEMU");
            None
        };
        let terminal = system.system.then(Terminal::keep);
        let label = shown(command);
        Ok(Recorded { command: command.to_owned(), label, system: options, guest: None, facts, _terminal: terminal })
    }

    /// A command in a guest that was made for it.
    pub fn guest(command: &[OsString], guest: Prepared, options: SystemOptions) -> Recorded {
        Recorded {
            command: guest.command.clone(),
            label: format!("{} ({})", shown(command), guest.about),
            system: Some(options),
            facts: vec![("guest", guest.about.clone()), ("command", shown(command))],
            guest: Some(guest),
            _terminal: Some(Terminal::keep()),
        }
    }

    /// Whether it is a whole system.
    pub fn is_system(&self) -> bool {
        self.system.is_some()
    }

    /// Starts it.
    ///
    /// # Errors
    /// As of the recorder.
    pub fn start(&self) -> farreach_types::Result<Recorder> {
        match &self.system {
            Some(options) => Recorder::start_system(&self.command, options),
            None => Recorder::start(&self.command, &Options::default()),
        }
    }

    /// What a trace says of it.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn header(&self) -> Result<Header> {
        Ok(if self.is_system() { system_header(&self.command, &self.facts)? } else { header(&self.command)? })
    }

    /// Adds to a result what only the recorder knows.
    pub fn describe_end(&self, workload: &mut Workload, report: &Report, limited: bool) {
        program::describe_end(workload, report, limited);
        if let (Some(guest), Some(system)) = (&mut workload.guest, &report.system) {
            guest.checks.clone_from(&system.checks);
        }
    }

    /// Whether a system ended before it came to where recording begins.
    pub fn saw_nothing(&self, report: &Report) -> bool {
        self.is_system() && report.counts.instructions == 0
    }

    /// The exit status: that of the program, or of the guest's command; or that of an interrupt.
    pub fn exit_code(&self, report: &Report) -> ExitCode {
        let told = report.system.as_ref().and_then(|system| system.guest_status);
        match told {
            _ if report.interrupted.is_some() => program::exit_code(report),
            _ if self.saw_nothing(report) => {
                note("nothing was recorded: the system ended before it came to where recording begins (--from)");
                ExitCode::from(program::FAILED)
            }
            Some(status) => ExitCode::from(status as u8),
            None if self.guest.is_some() => {
                note("the guest ended without the exit status of its command: see what it said on its console");
                ExitCode::from(program::FAILED)
            }
            None => program::exit_code(report),
        }
    }
}

/// The machines for what is recorded, or was: a whole system has an operating system of its own.
///
/// # Errors
/// One is for the other kind.
pub fn machines(machines: Vec<MachineSpec>, is_system: bool) -> Result<Vec<MachineSpec>> {
    if !is_system {
        let Some(wrong) = machines.iter().find(|machine| machine.is_for_systems()) else { return Ok(machines) };
        anyhow::bail!(
            "machine '{}': placement = guest needs a recorded whole system (farreach guest run, or run --system)",
            wrong.name
        );
    }
    let mut said = Vec::new();
    let on_system = |machine: MachineSpec| {
        let (machine, left_out) = machine.on_recorded_system()?;
        if !left_out.is_empty() {
            said.push(format!("{} ({})", machine.name, left_out.join(", ")));
        }
        anyhow::Ok(machine)
    };
    let machines = machines.into_iter().map(on_system).collect::<Result<Vec<_>>>()?;
    if !said.is_empty() {
        note(format_args!(
            "machines have the page tables of the recorded system (placement = guest), in the place of: {}",
            said.join("; ")
        ));
    }
    Ok(machines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_begins_at_a_word_or_after_a_number() {
        assert_eq!(from("start"), Ok(Begin::Start));
        assert_eq!(from("mark"), Ok(Begin::Mark));
        assert_eq!(from("2G"), Ok(Begin::After(2_000_000_000)));
        let why = from("end").unwrap_err();
        assert!(why.starts_with("'start', 'mark', or "), "{why}");
        assert!(from("0").is_err());
    }
}
