//! What is written in Python: the command hands over to the package there. It schedules nothing itself.

use super::common::note;
use anyhow::{Context, Result, bail};
use farreach_live::tool;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Another Python than those that are looked for.
const PYTHON_VARIABLE: &str = "FARREACH_PYTHON";
/// Tells the package which command it belongs to.
const COMMAND_VARIABLE: &str = "FARREACH_COMMAND";
/// What Python and its children are started with only in part, and where the whole is for the user's own programs.
const KEPT: [(&str, &str); 2] = [("PATH", "FARREACH_USER_PATH"), ("PYTHONPATH", "FARREACH_USER_PYTHONPATH")];

/// Where the package may be: the Python that is named, the one beside this program, the first on the path.
fn pythons() -> Result<Vec<PathBuf>> {
    if let Some(named) = std::env::var_os(PYTHON_VARIABLE).filter(|named| !named.is_empty()) {
        let found = match named.to_str().filter(|named| !named.contains('/')) {
            Some(name) => tool::find(name),
            None => std::path::absolute(&named),
        };
        return Ok(vec![found.with_context(|| format!("{PYTHON_VARIABLE}={}", named.display()))?]);
    }
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("python3")).filter(|path| path.is_file());
    Ok(beside.into_iter().chain(tool::find("python3").ok()).collect())
}

/// Python looks for modules in the working directory first, where files of the user may have any name.
const NOT_FROM_HERE: &str = "import sys; sys.path = [place for place in sys.path if place[:1] == '/']";

/// The part of a list of folders that is not relative to the working directory; `None`: all of it.
fn absolute_part(list: &OsStr) -> Option<OsString> {
    let folders: Vec<PathBuf> = std::env::split_paths(list).collect();
    let absolute: Vec<&PathBuf> = folders.iter().filter(|folder| folder.is_absolute()).collect();
    (absolute.len() < folders.len()).then(|| std::env::join_paths(absolute).expect("each was taken out of a list"))
}

/// Python itself, which finds programs and modules in folders that the working directory is none of.
fn start(python: &PathBuf) -> Command {
    let mut command = Command::new(python);
    let modules = std::env::var_os("PYTHONPATH").filter(|list| !list.is_empty());
    let parts = [Some(tool::path()), modules.and_then(|list| absolute_part(&list))];
    for ((name, kept), part) in KEPT.into_iter().zip(parts) {
        command.env_remove(kept);
        if let Some(part) = part {
            std::env::var_os(name).map(|whole| command.env(kept, whole));
            command.env(name, part);
        }
    }
    command
}

/// Whether this Python has the package.
fn has_package(python: &PathBuf) -> bool {
    let mut look = start(python);
    // A folder of the name is something that can be imported, too.
    look.args(["-c", &format!("{NOT_FROM_HERE}; import farreach.command")]);
    look.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    look.status().is_ok_and(|status| status.success())
}

/// Whether there is a Python with the package.
pub fn is_there() -> Result<bool> {
    Ok(pythons()?.iter().any(has_package))
}

/// Runs `farreach COMMAND ...`, with the arguments of this process, in the Python package, in place of this process.
pub fn to_python(command: &str) -> Result<ExitCode> {
    let pythons = pythons()?;
    let Some(python) = pythons.iter().find(|python| has_package(python)) else {
        let looked = pythons.iter().map(|python| python.display().to_string()).collect::<Vec<_>>().join(", ");
        let looked = if looked.is_empty() { "no Python on the path".into() } else { looked };
        bail!(
            "this needs the Python package farreach, which {looked} does not have. In a clone of the sources: \
             pip install './python[sweep]' ({PYTHON_VARIABLE} names another Python)"
        );
    };
    if std::env::var_os("PYTHONPATH").is_some_and(|list| !list.is_empty() && absolute_part(&list).is_some()) {
        note(
            "PYTHONPATH: what is not an absolute folder is left out, because modules are not taken from the working one",
        );
    }
    let exe = std::env::current_exe().context("the path of this program")?;
    let words = std::env::args_os().skip(2);
    let mut package = start(python);
    package.args(["-c", &format!("{NOT_FROM_HERE}; from farreach.command import main; sys.exit(main())"), command]);
    package.args(words).env(COMMAND_VARIABLE, exe);
    Err(package.exec()).with_context(|| python.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_not_taken_from_the_working_directory() {
        for (whole, part) in [("/a:/b", None), (":/a", Some("/a")), ("/a:.:lib", Some("/a")), (".", Some(""))] {
            assert_eq!(absolute_part(whole.as_ref()), part.map(OsString::from), "{whole}");
        }
    }
}
