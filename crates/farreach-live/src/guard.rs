//! A process of its own that writes to files of the kernel when this process ends, however it ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A file below `/sys` or `/proc/sys` and what is to be in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// The word or number.
    pub value: String,
}

/// Waits for the end of its input, which is when the process that holds the other end is gone, and writes: words are
/// file, value, file, value, ... Signals from the terminal do not end it.
const GUARD: &str = r#"trap '' HUP INT TERM QUIT; cat >/dev/null; bad=0
while [ $# -gt 1 ]; do printf %s "$2" >"$1" || bad=1; shift 2; done; exit $bad"#;

/// The process. It writes when this value is dropped, and when this process is killed.
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts it. `writes`: in this order. `name`: what `ps` shows. `errors`: where it says what it cannot write.
    pub(crate) fn start(name: &str, writes: &[Change], errors: Stdio) -> io::Result<Guard> {
        let words = writes.iter().flat_map(|c| [c.file.clone().into_os_string(), c.value.clone().into()]);
        let child = Command::new("sh")
            .args(["-c", GUARD, name])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        Ok(Guard(child))
    }

    /// Has it write now, and waits for that. A second call does nothing.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        drop(self.0.stdin.take());
        self.0.wait().map(drop)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After `end` there is nothing left to do.
        let _ = self.end();
    }
}
