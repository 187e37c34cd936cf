//! Runs the binary as a user would and keeps its output.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// The designs that are compared when none is named.
pub const DEFAULTS: [&str; 5] = ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"];

/// The outcome of a run.
pub struct Ran {
    /// Exit status; 128 + signal if a signal ended farreach itself.
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        use std::os::unix::process::ExitStatusExt;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
        let ran = Ran { status, out: text(&output.stdout), err: text(&output.stderr) };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// Asserts success and an empty standard error.
    #[track_caller]
    pub fn good(self) -> Ran {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "standard output: {}", self.out);
        self
    }

    /// Asserts failure with this status, an empty standard output, and a message that has all these words.
    #[track_caller]
    pub fn bad(self, status: i32, words: &[&str]) {
        assert_eq!((self.status, self.out.as_str()), (status, ""), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in: {}", self.err);
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// The command as a user who may not see frames, also if root runs the tests.
pub fn without_privilege(command: &mut Command) -> &mut Command {
    const PR_CAPBSET_DROP: libc::c_int = 24;
    // SYS_ADMIN allows to see frames, SYS_PTRACE and the two of files allow to see processes of others. A user who is
    // not root has none of them, and dropping them fails without harm.
    let drop = || {
        for capability in [21, 19, 1, 2] {
            // SAFETY: plain numbers.
            unsafe { libc::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        Ok(())
    };
    // SAFETY: system calls are all that happens between fork and exec.
    unsafe { command.pre_exec(drop) }
}

/// A process that [`without_privilege`] may not look at, until it is dropped: for root one of another user, for others
/// the first one of the system.
pub struct OfAnother(Option<Child>);

impl OfAnother {
    /// None if all is the user's own, as in some containers.
    pub fn new() -> Option<OfAnother> {
        // SAFETY: it only returns a number.
        if unsafe { libc::geteuid() } == 0 {
            let mut sleep = Command::new("sleep");
            return Some(OfAnother(Some(sleep.arg("600").uid(65534).gid(65534).spawn().unwrap())));
        }
        std::fs::read("/proc/1/smaps").is_err().then_some(OfAnother(None))
    }

    pub fn pid(&self) -> u32 {
        self.0.as_ref().map_or(1, Child::id)
    }
}

impl Drop for OfAnother {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// What a message tells this user, from whom [`without_privilege`] took this capability: to be root, or, who is root,
/// what root lacks.
pub fn more_rights(capability: &'static str) -> &'static str {
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } == 0 { capability } else { "run farreach as root" }
}

/// A time limit in seconds: a command that hangs ends with SIGALRM.
const HANGS: u32 = 30 * 60;

/// `farreach`, with signals as the shell of a terminal sets them: in the background or under nohup some are ignored,
/// and these tests inherit that.
pub fn command() -> Command {
    command_of(env!("CARGO_BIN_EXE_farreach"))
}

/// The same for another `farreach`.
pub fn command_of(farreach: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(farreach);
    command.stdin(Stdio::null());
    // SAFETY: signal() and alarm() may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(HANGS);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGALRM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// The optimised program, where `make test` names it (FARREACH_RELEASE), for tests that need not check every lookup;
/// else the one of the test profile.
pub fn optimised() -> (PathBuf, bool) {
    let named = std::env::var_os("FARREACH_RELEASE").map(PathBuf::from).filter(|path| path.is_file());
    let found = named.is_some();
    (named.unwrap_or_else(|| env!("CARGO_BIN_EXE_farreach").into()), found)
}

pub fn farreach<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(command().args(args).output().unwrap())
}

/// `farreach` with the words of a line.
pub fn line(words: &str) -> Ran {
    farreach(words.split_whitespace())
}

/// With bytes on standard input.
pub fn fed<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &[u8]) -> Ran {
    let mut child = command();
    child.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // farreach need not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran::of(child.wait_with_output().unwrap())
}

/// A directory of one test, removed when this value is dropped.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), bytes).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Names of the files in it: nothing unfinished may be left behind.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(&self.0).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `rounds` times: a load from each of `pages` pages, which begin at a multiple of 64 KB.
pub fn sweep(pages: u64, rounds: u64) -> String {
    (0..rounds).flat_map(|_| 0..pages).map(|page| format!(" L {:08x},8\n", 0x1000_0000 + page * 4096)).collect()
}

/// One count of all machines.
pub fn each(result: &Value, key: &str) -> Vec<u64> {
    let machines = result["machines"].as_array().unwrap();
    machines.iter().map(|m| m["counts"][key].as_u64().unwrap_or_else(|| panic!("{key} in {m}"))).collect()
}
