//! Checks before the program runs: whether the system would execute it, and whether it can be recorded.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use farreach_types::Error;

use super::elf::linker_of;
use super::launch::error;

/// The system reads this much of a script, so its interpreter must be named in it.
const SCRIPT_HEAD: usize = 256;
/// Longest chain of scripts that are interpreters of scripts.
const SCRIPTS: usize = 5;

/// What runs programs that are refused here.
const OTHERS: &str = "'farreach guest run' runs it in a system of its own";

/// A command that cannot be recorded.
pub struct Refusal {
    /// It, or the interpreter it needs, does not exist.
    pub missing: bool,
    /// The message.
    pub why: Error,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        refusal.why
    }
}

/// Why a file is refused: whether something is missing, and the message.
type Why = (bool, String);

/// Looks a command up as the shell would, and refuses what cannot be recorded. The interpreter of a script, or the
/// dynamic linker of a program, is checked too.
pub fn check_program(name: &OsStr) -> Result<PathBuf, Refusal> {
    let refuse = |place: &str, (missing, why): Why| Refusal { missing, why: error(name, place, why) };
    let path = if name.as_encoded_bytes().contains(&b'/') {
        PathBuf::from(name)
    } else {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let candidates =
            || std::env::split_paths(&dirs).map(|dir| dir.join(name)).filter(|p| !name.is_empty() && p.is_file());
        let runnable = |p: &PathBuf| p.metadata().is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
        candidates().find(runnable).ok_or_else(|| {
            refuse("PATH", (candidates().next().is_none(), "no such program in any directory of PATH".into()))
        })?
    };
    let refuse_it = |why: &str| Err(refuse(&path.display().to_string(), (false, why.into())));
    let mut file = path.clone();
    for depth in 0..=SCRIPTS {
        let needed = if depth == 0 { "a program file is needed" } else { "the interpreter of a script is needed" };
        match check_file(&file, needed).map_err(|why| refuse(&file.display().to_string(), why))? {
            Some(interpreter) => file = interpreter,
            // Files that the system would run, but Valgrind would not, or with other arguments.
            None if depth > 1 => {
                return refuse_it(&format!(
                    "a script whose interpreter is a script; only programs can be the interpreter; {OTHERS}"
                ));
            }
            None if depth == 1 && file.is_relative() => {
                return refuse_it(&format!(
                    "a script whose interpreter is not an absolute path; only absolute paths are recorded; {OTHERS}"
                ));
            }
            None => return Ok(path),
        }
    }
    refuse_it("a script whose interpreter is a script, time and again")
}

/// Checks one file: returns the interpreter if it is a script, nothing if it is a program that can be recorded.
fn check_file(path: &Path, needed: &str) -> Result<Option<PathBuf>, Why> {
    let (mut file, mode) = open(path, needed)?;
    if mode & 0o6000 != 0 && changes_user(path, mode) {
        let why = format!("set-user-ID or set-group-ID (mode {:o}); only plain programs; {OTHERS}", mode & 0o7777);
        return Err((false, why));
    }
    let mut head = Vec::new();
    file.by_ref().take(SCRIPT_HEAD as u64).read_to_end(&mut head).map_err(|e| (false, e.to_string()))?;
    if head.starts_with(b"#!") {
        return interpreter_of(&head).map(Some).ok_or((false, "a script whose first line names no interpreter".into()));
    }
    if !head.starts_with(b"\x7fELF") {
        return Err((false, "neither an x86-64 ELF file nor a script that begins with #!".into()));
    }
    if !is_x86_64(&head) {
        let others = match machine_of(&head) {
            Some((1, 3)) => format!("; {OTHERS}"),
            Some((2, 183)) => format!("; {OTHERS}, with --arch aarch64"),
            _ => String::new(),
        };
        return Err((false, format!("an ELF file, but not for x86-64; only x86-64 is recorded{others}")));
    }
    let linker = linker_of(&file).ok_or((false, "an ELF file that is no program, or cut off".into()))?;
    let Some(linker) = linker else { return Ok(None) };
    let of_linker = |(missing, why): Why| (missing, format!("its dynamic linker {}: {why}", linker.display()));
    let (mut file, _) = open(&linker, "it is needed").map_err(of_linker)?;
    let mut head = [0; 20];
    let whole = file.read_exact(&mut head).is_ok() && is_x86_64(&head);
    if whole { Ok(None) } else { Err(of_linker((false, "not an ELF file for x86-64".into()))) }
}

/// Whether a set-user-ID or set-group-ID file changes the user or group of this process: those of root change nothing
/// for root.
fn changes_user(path: &Path, mode: u32) -> bool {
    let root = rustix::process::getuid().is_root() && rustix::process::geteuid().is_root();
    let group = rustix::process::getgid().is_root() && rustix::process::getegid().is_root();
    let owner = path.metadata().map_or((1, 1), |about| (about.uid(), about.gid()));
    mode & 0o4000 != 0 && !(root && owner.0 == 0) || mode & 0o2000 != 0 && !(group && owner.1 == 0)
}

/// Opens a file that is to be executed; its mode.
fn open(path: &Path, needed: &str) -> Result<(File, u32), Why> {
    let missing = |e: &std::io::Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let meta = path.metadata().map_err(|e| (missing(&e), format!("{e}; {needed}")))?;
    if !meta.is_file() {
        return Err((false, format!("not a file; {needed}")));
    }
    if meta.mode() & 0o111 == 0 {
        return Err((false, format!("not executable (mode {:o})", meta.mode() & 0o7777)));
    }
    let file = File::open(path).map_err(|e| (false, format!("{e}; the recorder must read the program")))?;
    Ok((file, meta.mode()))
}

/// The class of a little-endian ELF file (1: 32 bits, 2: 64) and its machine: 3 is x86, 62 x86-64, 183 AArch64.
fn machine_of(head: &[u8]) -> Option<(u8, u8)> {
    match head {
        [0x7f, b'E', b'L', b'F', class, 1, ..] if head.get(19) == Some(&0) => Some((*class, head[18])),
        _ => None,
    }
}

fn is_x86_64(head: &[u8]) -> bool {
    machine_of(head) == Some((2, 62))
}

/// The interpreter that the first line of a script names, as the system finds it.
fn interpreter_of(head: &[u8]) -> Option<PathBuf> {
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let line = &head[2..];
    let line = &line[line.iter().position(|b| !blank(b))?..];
    let end = line.iter().position(|b| blank(b) || matches!(b, b'\n' | 0));
    // A name that may continue behind the bytes that the system reads is refused.
    let end = end.or_else(|| (head.len() < SCRIPT_HEAD).then_some(line.len())).filter(|&end| end > 0)?;
    Some(OsString::from_vec(line[..end].to_vec()).into())
}
