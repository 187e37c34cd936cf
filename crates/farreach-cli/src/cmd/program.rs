//! What `run` and `record` say about a recorded program.

use farreach_cli::live::{Exit, Report};
use std::ffi::OsString;
use std::process::ExitCode;

/// The command line as one would type it in a shell.
pub fn shown(command: &[OsString]) -> String {
    let quote = |word: &OsString| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The program's exit status as a shell would report it: 128 + signal if a signal ended it.
pub fn exit_code(report: &Report) -> ExitCode {
    match report.exit {
        Exit::Code(code) => ExitCode::from(code as u8),
        Exit::Signal(signal) => ExitCode::from((128 + signal) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_typed_again() {
        let words = ["gcc", "-O2", "a b.c", "it's", ""].map(OsString::from);
        assert_eq!(shown(&words), r"gcc -O2 'a b.c' 'it'\''s' ''");
    }
}
