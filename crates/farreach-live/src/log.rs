//! The logs of the recorder's processes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::process::plain_file;

/// The log of one recorder process.
pub struct Log(String);

impl Log {
    /// Reads the log of a process; it is empty if there is none.
    pub fn read(run_dir: &Path, pid: u32) -> Log {
        const MOST: u64 = 1 << 20;
        let mut text = Vec::new();
        if let Some(file) = plain_file(File::options().read(true), &run_dir.join(format!("log.{pid}"))) {
            let _ = file.take(MOST).read_to_end(&mut text);
        }
        Log(String::from_utf8_lossy(&text).into_owned())
    }

    /// Lines that are not empty, without the process id before them.
    fn lines(&self) -> Vec<&str> {
        let bare = |line: &str| {
            let mark = line.get(..2).filter(|mark| matches!(*mark, "==" | "--"));
            mark.and_then(|mark| line[2..].find(mark)).map_or(0, |at| at + 4)
        };
        self.0.lines().map(|l| l[bare(l)..].trim()).filter(|l| !l.is_empty()).collect()
    }

    /// The last lines.
    pub fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Why the recorder could not go on, if the log says so. The log also reports unknown instructions, which are a
    /// signal to the program and no failure.
    pub fn failure(&self) -> Option<String> {
        const SIGNS: [&str; 8] = [
            "the 'impossible' happened",
            "Assertion '",
            "INTERNAL ERROR",
            "unimplemented functionality",
            "FATAL",
            "out of memory",
            "valgrind: ",
            "farreach: ",
        ];
        const HARMLESS: [&str; 3] = ["Unrecognised instruction", "warning", "WARNING"];
        let lines = self.lines();
        let is_sign =
            |line: &&str| SIGNS.iter().any(|s| line.contains(s)) && !HARMLESS.iter().any(|s| line.contains(s));
        let sign = lines.iter().position(is_sign)?;
        // The lines before say where it happened, which is of no interest for lack of memory: that can happen anywhere.
        let first = if lines[sign].contains("out of memory") { sign } else { sign.saturating_sub(1) };
        // Stack traces of the recorder are of use to its authors only.
        let is_stack = |line: &&&str| line.starts_with("host stacktrace") || line.starts_with("sched status");
        let shown = lines[sign..].iter().take(3).take_while(|line| !is_stack(line)).count();
        Some(lines[first..sign + shown].join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_fails_says_so_somewhere() {
        let rest = "host stacktrace:\n".to_owned()
            + &"==1==    at 0x58070A73: ???\n\n".repeat(40)
            + "Note: see also the FAQ\n";
        let impossible =
            "==1== two\n==1== three\n==1== \n\nvalgrind: the 'impossible' happened:\n   Killed by a signal\n\n";
        let log = Log(impossible.to_owned() + &rest);
        let expected = "three\nvalgrind: the 'impossible' happened:\nKilled by a signal";
        assert_eq!(log.failure().as_deref(), Some(expected));
        assert!(log.tail().ends_with("\nat 0x58070A73: ???\nNote: see also the FAQ"));
        let memory =
            "==1== sanity: 0 checks\n==1== Valgrind's memory management: out of memory:\n==1== a's request failed\n";
        let expected = "Valgrind's memory management: out of memory:\na's request failed";
        assert_eq!(Log(memory.to_owned()).failure().as_deref(), Some(expected));
        let instruction =
            "==1== valgrind: Unrecognised instruction at address 0x9130.\n--1-- WARNING: unhandled syscall: 999\n";
        assert_eq!(Log(instruction.to_owned()).failure(), None);
        assert_eq!(Log(String::new()).failure(), None);
    }
}
