//! Before the program runs: finding the recorder and the guard, the directory of the run.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use farreach_types::{Error, Result};

use super::folder::Folder;
use super::guarded::{Guarded, Start};
use super::layout::{MAGIC, VERSION, control};
use super::limits::check_open_files;
use super::shared::Shared;
use super::signals::{free_bytes, lock};

/// Name of the recorder in its directory.
pub const TOOL: &str = "farreach-amd64-linux";
/// Name of the library, in the same directory, that puts the text of a program on huge pages.
pub const TEXT_LIBRARY: &str = "farreach-text.so";
/// Name of the program, in the same directory, that ends what farreach started.
pub const GUARD: &str = "farreach-guard";
/// Directory of the recorder, if it is not where this program is installed or was built.
pub const TOOL_VARIABLE: &str = "FARREACH_VALGRIND_DIR";

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the recorder; by default the environment variable [`TOOL_VARIABLE`], then `lib/farreach/` or
    /// `valgrind/` beside the directory of this program.
    pub tool_dir: Option<PathBuf>,
    /// Where the memory shared with the recorder is made; by default /dev/shm, or the directory for temporary files if
    /// that is nearly full.
    pub shared_dir: Option<PathBuf>,
    /// Further options of Valgrind's core, such as `--smc-check=all`.
    pub valgrind: Vec<OsString>,
    /// Directory in which the program starts; by default the present one.
    pub directory: Option<PathBuf>,
    /// File that is the program's standard input; by default the present one.
    pub stdin: Option<PathBuf>,
    /// File that the program's standard output goes to; by default the present one.
    pub stdout: Option<PathBuf>,
    /// Variables that are set in its environment, besides the present ones.
    pub environment: Vec<(OsString, OsString)>,
    /// How long the program may take to end by itself once it was interrupted; then it is killed.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tool_dir: None,
            shared_dir: None,
            valgrind: Vec::new(),
            directory: None,
            stdin: None,
            stdout: None,
            environment: Vec::new(),
            grace: Duration::from_secs(3),
        }
    }
}

pub fn error(what: &OsStr, place: &str, why: impl Into<String>) -> Error {
    Error::Trace { file: format!("recording of '{}'", what.to_string_lossy()), place: place.into(), what: why.into() }
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::Io { file: path.display().to_string(), source }
}

/// The directory of the recorder: as given, else from the environment, else the first of `places` that has it.
pub fn tool_dir(given: Option<&Path>) -> Result<PathBuf> {
    let what = "build it with 'make -C capture/valgrind' (it needs Debian's package 'valgrind')";
    directory_of(TOOL, "recorder", given, TOOL_VARIABLE, "valgrind", what)
}

/// The guard, which lies beside the recorder.
pub fn guard(given: Option<&Path>) -> Result<PathBuf> {
    let hint = "build it with 'make -C capture/guard'";
    Ok(directory_of(GUARD, "guard of programs", given, TOOL_VARIABLE, "valgrind", hint)?.join(GUARD))
}

/// The directory that has the file `name`: as given, else from the variable, else the first of `places`.
pub(super) fn directory_of(
    name: &str,
    what: &str,
    given: Option<&Path>,
    variable: &str,
    built: &str,
    hint: &str,
) -> Result<PathBuf> {
    let from_variable = || std::env::var_os(variable).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let here = || std::env::current_exe().map(|exe| places(&exe, built)).unwrap_or_default();
    let looked = given.map(Path::to_path_buf).or_else(from_variable).map_or_else(here, |named| vec![named]);
    let dir = looked.iter().find(|dir| dir.join(name).is_file()).ok_or_else(|| Error::Trace {
        file: what.into(),
        place: looked.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", "),
        what: format!("{name} is not there; {hint}, or set {variable} to its directory"),
    })?;
    dir.canonicalize().map_err(io(dir))
}

/// Directories in which a program looks for its recorder, in this order: `PREFIX/lib/farreach` if it is installed as
/// `PREFIX/bin/farreach`, or `target/BUILT` (`valgrind`, `qemu`) if it was built as `target/release/farreach`; examples
/// and tests lie one deeper.
fn places(exe: &Path, built: &str) -> Vec<PathBuf> {
    let above: Vec<&Path> = exe.ancestors().skip(2).take(2).collect();
    let installed = above.first().map(|prefix| prefix.join("lib/farreach"));
    installed.into_iter().chain(above.iter().map(|dir| dir.join(built))).collect()
}

/// Makes the directory of a run: in `base`, or in memory if there is room, else in the directory for temporary files.
pub fn run_dir(base: Option<&Path>) -> Result<Folder> {
    const ROOM: u64 = 64 << 20;
    let shm = Path::new("/dev/shm");
    let temp = std::env::temp_dir();
    let base = base.unwrap_or(if free_bytes(shm).is_some_and(|n| n >= ROOM) { shm } else { &temp });
    Folder::create(base).map_err(io(base))
}

/// Makes, locks and maps the control file of a run. By the lock recorders know that the reader is alive.
pub fn control(run_dir: &Path) -> Result<(Shared, File)> {
    let path = run_dir.join("control");
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(io(&path))?;
    file.set_len(control::BYTES as u64).map_err(io(&path))?;
    lock(&file).map_err(io(&path))?;
    let shared = Shared::map(&file, control::BYTES).map_err(io(&path))?;
    shared.u32(control::VERSION).store(VERSION, Ordering::SeqCst);
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino());
    shared.u32(control::PID_NAMESPACE).store(namespace as u32, Ordering::SeqCst);
    shared.u32(control::NEXT_BLOCK).store(1, Ordering::SeqCst);
    shared.u64(control::MAGIC).store(MAGIC, Ordering::SeqCst);
    Ok((shared, file))
}

/// Options of Valgrind's core. All registers are exact at every memory reference, or programs that handle faults and go
/// on (garbage collectors) would go wrong. Jumps are not followed at translation: that costs more than it gives, and it
/// merges the two sides of `a && b` into code in which instructions appear that never ran.
const CORE: [&str; 7] = [
    "--tool=farreach",
    "--command-line-only=yes",
    "-q",
    "--trace-children=yes",
    "--vgdb=no",
    "--vex-iropt-register-updates=allregs-at-mem-access",
    "--vex-guest-chase=no",
];

/// Starts the program under the recorder, with standard streams, directory and environment of this process, unless
/// `options` changes them.
pub fn spawn(tool_dir: &Path, run_dir: &Path, command: &[OsString], options: &Options) -> Result<Guarded> {
    check_open_files()?;
    let mut run_option = OsString::from("--run-dir=");
    run_option.push(run_dir);
    let mut log_option = OsString::from("--log-file=");
    log_option.push(run_dir.join("log.%p"));
    let mut arguments: Vec<OsString> = CORE.map(OsString::from).into();
    arguments.extend([run_option, log_option].into_iter().chain(options.valgrind.iter().cloned()));
    arguments.push("--".into());
    arguments.extend_from_slice(command);
    spawn_program(&tool_dir.join(TOOL), &arguments, run_dir, options)
}

/// Starts a program under a guard, with all that `options` say but how it is recorded.
pub(super) fn spawn_program(
    program: &Path,
    arguments: &[OsString],
    run_dir: &Path,
    options: &Options,
) -> Result<Guarded> {
    let mut start = Start::new(program, Some(run_dir), options.tool_dir.as_deref()).map_err(io(program))?;
    let recorded = start.command();
    recorded.args(arguments);
    recorded.envs(options.environment.iter().cloned());
    if let Some(dir) = &options.directory {
        recorded.current_dir(dir);
    }
    if let Some(path) = &options.stdin {
        recorded.stdin(File::open(path).map_err(io(path))?);
    }
    if let Some(path) = &options.stdout {
        recorded.stdout(File::create(path).map_err(io(path))?);
    }
    start.spawn().map_err(io(program))
}
