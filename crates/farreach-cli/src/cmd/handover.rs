//! What is written in Python: the command hands over to the package there. It schedules nothing itself.

use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Another Python than those that are looked for.
const PYTHON_VARIABLE: &str = "FARREACH_PYTHON";
/// Tells the package which command it belongs to.
const COMMAND_VARIABLE: &str = "FARREACH_COMMAND";

/// Where the package may be: the Python that is named, the one beside this program, the first on the path.
fn pythons() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(PYTHON_VARIABLE).filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("python3")).filter(|path| path.is_file());
    beside.into_iter().chain([PathBuf::from("python3")]).collect()
}

/// Python looks for modules in the working directory first, where files of the user may have any name.
const NOT_FROM_HERE: &str = "import sys; sys.path = [place for place in sys.path if place]";

/// Whether this Python has the package.
fn has_package(python: &PathBuf) -> bool {
    let mut look = Command::new(python);
    // A folder of the name is something that can be imported, too.
    look.args(["-c", &format!("{NOT_FROM_HERE}; import farreach.command")]);
    look.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    look.status().is_ok_and(|status| status.success())
}

/// Runs `farreach COMMAND ...`, with the arguments of this process, in the Python package, in place of this process.
pub fn to_python(command: &str) -> Result<ExitCode> {
    let pythons = pythons();
    let Some(python) = pythons.iter().find(|python| has_package(python)) else {
        let looked = pythons.iter().map(|python| python.display().to_string()).collect::<Vec<_>>().join(", ");
        bail!(
            "this needs the Python package farreach, which {looked} does not have. In a clone of the sources: \
             pip install './python[sweep]' ({PYTHON_VARIABLE} names another Python)"
        );
    };
    let exe = std::env::current_exe().context("the path of this program")?;
    let words = std::env::args_os().skip(2);
    let mut package = Command::new(python);
    package.args(["-c", &format!("{NOT_FROM_HERE}; from farreach.command import main; sys.exit(main())"), command]);
    package.args(words).env(COMMAND_VARIABLE, exe);
    Err(package.exec()).with_context(|| python.display().to_string())
}
