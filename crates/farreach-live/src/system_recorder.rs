//! Recording of whole systems: QEMU with a plugin (`capture/qemu`) that writes the stream.
//!
//! The command is the user's own. [`arguments`] adds to it what the plugin needs and refuses what cannot work with it,
//! [`version`] looks whether the program is a QEMU that can. From then on it is a [`Recorder`] as any other.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use farreach_types::Result;
use farreach_types::event::Arch;
use serde::Serialize;

use super::advice::keep_freed_memory;
use super::check::check_program;
use super::decode::Decoder;
use super::launch::{Options, directory_of, error, spawn_program};
use super::process::plain_file;
use super::recorder::{Recorder, Stream};
use farreach_types::counts::GuestChecks;

mod arguments;
mod size;
mod version;

/// Name of the plugin in its directory.
pub const PLUGIN: &str = "farreach-qemu.so";
/// Directory of the plugin, if it is not where this program is installed or was built.
pub const PLUGIN_VARIABLE: &str = "FARREACH_QEMU_DIR";
/// File in the directory of a run in which the plugin writes the exit status of the guest's command.
const STATUS: &str = "status";

/// Where the stream of a guest begins. Until then it runs nearly as fast as without a recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Begin {
    /// At the first instruction with 64-bit paging.
    #[default]
    Start,
    /// At the instruction that is a mark.
    Mark,
    /// After this many instructions.
    After(u64),
}

/// How to record a whole system.
#[derive(Clone, Debug, Default)]
pub struct SystemOptions {
    /// Directory of the plugin; by default the environment variable [`PLUGIN_VARIABLE`], then `lib/farreach/` or
    /// `qemu/` beside the directory of this program.
    pub plugin_dir: Option<PathBuf>,
    /// Where the stream begins.
    pub begin: Begin,
    /// Whether the translation of each data reference is compared with the physical address that QEMU gives, and not
    /// only the first of each page.
    pub compare_all: bool,
    /// What is said of any program. Its options for Valgrind are not used.
    pub run: Options,
}

/// What is known of a recorded system beside its stream.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SystemReport {
    /// Exit status of the guest's command, if the guest told it by a mark.
    pub guest_status: Option<i32>,
    /// What the plugin checked and met; `None` if QEMU was killed.
    pub checks: Option<GuestChecks>,
}

/// The directory of the plugin: as given, else from the environment, else beside this program.
///
/// # Errors
/// It is not there; the message says how to build it.
pub fn plugin_dir(given: Option<&Path>) -> Result<PathBuf> {
    let hint = "build it with 'make system' (it needs QEMU 9.2 or newer; Debian 12 has it in its backports)";
    directory_of(PLUGIN, "recorder of whole systems", given, PLUGIN_VARIABLE, "qemu", hint)
}

/// The program that executes marks in a guest of this instruction set; it lies beside the plugin.
///
/// # Errors
/// It is not there; the message says how to build it.
pub fn mark_program(arch: Arch) -> Result<PathBuf> {
    let (name, hint) = (format!("farreach-mark-{}", arch.name()), "build it with 'make system'");
    Ok(directory_of(&name, "marks of guests", None, PLUGIN_VARIABLE, "qemu", hint)?.join(name))
}

impl Recorder {
    /// Starts a QEMU, `command`, with the plugin that records the whole system in it. Standard streams are QEMU's.
    ///
    /// # Errors
    /// The program is no QEMU system emulator of version 9.2 or newer, the plugin is not there, or an option of the
    /// command cannot work with it; the message names the option, its value and what is allowed.
    pub fn start_system(command: &[OsString], options: &SystemOptions) -> Result<Recorder> {
        let (name, given) = command.split_first().ok_or_else(|| error("".as_ref(), "command", "no QEMU given"))?;
        let qemu = check_program(name)?;
        let refuse = |(place, why): (String, String)| error(name, &place, why);
        let mut arguments = arguments::with_recorder(given).map_err(refuse)?;
        let plugin = plugin_dir(options.plugin_dir.as_deref())?.join(PLUGIN);
        keep_freed_memory();
        let stream = Stream::begin(&options.run)?;
        version::check(&qemu, stream.path(), &options.run).map_err(|why| error(name, "--version", why))?;
        arguments.extend(["-plugin".into(), plugin_argument(&plugin, stream.path(), options)]);
        let running = spawn_program(&qemu, &arguments, stream.path(), &options.run)?;
        let mut recorder = Recorder::of(name, stream, running, Decoder::of_system(), options.run.grace);
        recorder.system = Some(SystemReport::default());
        Ok(recorder)
    }
}

/// The value of QEMU's option `-plugin`, in which a comma in a path is written twice.
fn plugin_argument(plugin: &Path, run_dir: &Path, options: &SystemOptions) -> OsString {
    let path = |path: &Path| arguments::escaped(path.as_os_str());
    let begin = match options.begin {
        Begin::Start => "start".to_owned(),
        Begin::Mark => "mark".to_owned(),
        Begin::After(instructions) => instructions.to_string(),
    };
    let compare = if options.compare_all { "all" } else { "pages" };
    let parts: [&OsStr; 8] = [
        "file=".as_ref(),
        &path(plugin),
        ",run-dir=".as_ref(),
        &path(run_dir),
        ",from=".as_ref(),
        begin.as_ref(),
        ",check=".as_ref(),
        compare.as_ref(),
    ];
    let mut argument: OsString = parts.into_iter().collect();
    argument.push(",status=");
    argument.push(path(&run_dir.join(STATUS)));
    argument
}

/// The exit status that the plugin left in the directory of the run.
pub(super) fn guest_status(run_dir: &Path) -> Result<Option<i32>, String> {
    const MOST: u64 = 32;
    let Some(file) = plain_file(File::options().read(true), &run_dir.join(STATUS)) else { return Ok(None) };
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(|e| format!("its exit status: {e}"))?;
    let number = text.trim().parse();
    number.map(Some).map_err(|_| format!("its exit status is '{}', no number", text.escape_debug()))
}

#[cfg(test)]
mod tests;
