//! What is left when farreach ends, however it ends: no process, no folder, and everything of others.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Dir, Ran, command, farreach};
use crate::common::{program, tool};

/// For anything that happens soon, on a machine however slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that starts a child, and a daemon with a session of its own; `started` is there when both run.
const FAMILY: &str = "sleep 1000 & setsid sh -c 'touch started; exec sleep 1000' & wait";

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Living processes whose working folder is this one, with their words: farreach and all that it started there.
fn processes_in(folder: &Path) -> Vec<(u32, String)> {
    let process = |entry: fs::DirEntry| {
        let cwd = fs::read_link(entry.path().join("cwd")).ok()?;
        let words = fs::read(entry.path().join("cmdline")).ok().filter(|words| !words.is_empty())?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (cwd == folder).then(|| (pid, String::from_utf8_lossy(&words).replace('\0', " ")))
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| process(entry.ok()?)).collect()
}

/// A farreach that runs in a folder of its own.
struct Case {
    dir: Dir,
    farreach: Child,
}

impl Case {
    /// Starts it, and waits until the file `started` is there.
    fn start(dir: Dir, words: &[&str]) -> Case {
        let mut farreach = command();
        farreach.args(words).current_dir(dir.path("")).stdout(Stdio::null()).stderr(Stdio::piped());
        farreach.env("FARREACH_VALGRIND_DIR", tool());
        let mut case = Case { farreach: farreach.spawn().unwrap(), dir };
        let began = Instant::now();
        while !case.folder().join("started").exists() {
            let ended = case.farreach.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{words:?}: it has not started: {ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        case
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(self.dir.path("")).canonicalize().unwrap()
    }

    /// The folder of its run, if it records.
    fn run_folder(&self) -> Option<PathBuf> {
        let words = processes_in(&self.folder());
        words.iter().find_map(|(_, words)| Some(words.split_once("--run-dir=")?.1.split(' ').next()?.into()))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a child that is not waited for yet.
        unsafe { libc::kill(self.farreach.id() as i32, signal) };
    }

    /// Sends it a signal, and asserts that nothing is left.
    fn ends_by(mut self, signal: i32) {
        let folder = self.folder();
        assert!(processes_in(&folder).len() >= 4, "{:?}", processes_in(&folder));
        let run_folder = self.run_folder();
        self.signal(signal);
        self.farreach.wait().unwrap();
        if signal == libc::SIGTERM {
            assert_eq!(processes_in(&folder), [], "they are gone before farreach is");
        }
        wait_until("no process is left", || processes_in(&folder).is_empty());
        if let Some(run_folder) = run_folder {
            wait_until("the folder of the run is gone", || !run_folder.exists());
        }
    }
}

/// The commands that run a program to its end.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("run", &["run", "-m", "t94/single"]),
    ("record", &["record", "-o", "it.frt"]),
    ("pagesize", &["pagesize"]),
    ("advise", &["advise", "-m", "today/zen3", "--runs", "1"]),
    ("contiguity", &["contiguity"]),
];

fn case(which: usize) -> Case {
    let words = [COMMANDS[which].1, &["--", "sh", "-c", FAMILY]].concat();
    let case = Case::start(Dir::new(), &words);
    assert_eq!(case.run_folder().is_some(), which < 3, "{}", COMMANDS[which].0);
    case
}

#[test]
fn kill_9_leaves_no_process_and_no_folder() {
    for which in 0..COMMANDS.len() {
        case(which).ends_by(libc::SIGKILL);
    }
}

/// Also those of which the program is the grandparent, or no relative any more.
#[test]
fn terminated_it_leaves_no_process_and_no_folder() {
    for which in [0, 3] {
        case(which).ends_by(libc::SIGTERM);
    }
}

#[test]
fn kill_9_ends_a_server_and_its_load() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let server = program("server", &[]);
    let words = ["advise", "-m", "today/zen3", "--runs", "1", "--load", FAMILY, "--port", &port, "--"];
    let words = [&words[..], &[server.to_str().unwrap(), &port]].concat();
    Case::start(Dir::new(), &words).ends_by(libc::SIGKILL);
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "the server still runs");
}

/// A farreach that a recorded program of another farreach starts.
#[test]
fn kill_9_ends_a_farreach_in_a_farreach() {
    let inner = format!("{} run -m t94/single -- sh -c \"$0\"", env!("CARGO_BIN_EXE_farreach"));
    let words = ["contiguity", "--", "sh", "-c", &inner, FAMILY];
    let case = Case::start(Dir::new(), &words);
    assert!(case.run_folder().is_some());
    case.ends_by(libc::SIGKILL);
}

/// Its guard is the one process that ends all others; somebody may kill it alone.
#[test]
fn without_its_guard_it_ends_with_the_program() {
    // One of its processes is its own, the other a child of that, in a session of its own.
    let script = "setsid sleep 1000 & sleep 0.1; touch started; sleep 1000";
    let mut case = Case::start(Dir::new(), &["run", "-m", "t94/single", "--", "sh", "-c", script]);
    let folder = case.folder();
    let guards: Vec<u32> = processes_in(&folder)
        .iter()
        .filter(|(_, words)| words.contains("/farreach-guard "))
        .map(|(pid, _)| *pid)
        .collect();
    assert_eq!(guards.len(), 1, "{:?}", processes_in(&folder));
    // SAFETY: plain numbers; the process is one of this test.
    unsafe { libc::kill(guards[0] as i32, libc::SIGKILL) };
    let ended = case.farreach.wait().unwrap();
    assert_eq!(ended.code(), Some(125), "{ended:?}, signal {:?}", ended.signal());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut case.farreach.stderr.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("farreach-guard"), "{text}");
    wait_until("no process is left", || processes_in(&folder).is_empty());
}

/// A terminal sends Ctrl-C to the group in its foreground, and lets only that group read.
#[test]
fn the_program_is_in_the_group_of_farreach_and_its_guard_is_not() {
    let dir = Dir::new();
    let mut farreach = command();
    farreach.args(["run", "-m", "t94/single", "--", "sh", "-c", "touch started; exec sleep 1000"]);
    farreach.env("FARREACH_VALGRIND_DIR", tool()).current_dir(dir.path(""));
    let mut farreach = farreach.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let folder = PathBuf::from(dir.path("")).canonicalize().unwrap();
    wait_until("it has started", || folder.join("started").exists());
    let group = farreach.id() as i32;
    // SAFETY: plain numbers.
    let group_of = |pid: u32| unsafe { libc::getpgid(pid as i32) };
    for (pid, words) in processes_in(&folder) {
        assert_eq!(group_of(pid) == group, !words.contains("/farreach-guard "), "{words}");
    }
    // As Ctrl-C does. The program ends by it, and farreach because the program has.
    // SAFETY: the group is that of the child.
    unsafe { libc::kill(-group, libc::SIGINT) };
    assert_eq!(farreach.wait().unwrap().code(), Some(128 + libc::SIGINT));
    assert_eq!(processes_in(&folder), []);
}

/// A name with the number of a process that does not exist.
const DECOY: &str = "farreach-4194305-results";

#[test]
fn folders_of_the_user_stay() {
    let dir = Dir::new();
    for base in [PathBuf::from("/dev/shm"), dir.path("").into()] {
        let decoy = base.join(DECOY);
        let _ = fs::create_dir(&decoy); // of a run of this test that was killed
        fs::write(decoy.join("mine"), "mine").unwrap();
        let mut run = command();
        run.args(["run", "-m", "t94/single", "--csv", "--", "true"]).env("TMPDIR", dir.path(""));
        Ran::of(run.output().unwrap()).good();
        assert_eq!(fs::read_to_string(decoy.join("mine")).unwrap(), "mine");
        fs::remove_dir_all(decoy).unwrap();
    }
    assert_eq!(dir.names(), [""; 0], "files are left in the folder for temporary files");
}

/// Links at names that somebody who knows the number of the process may guess.
#[test]
fn links_at_names_with_the_process_id_are_not_followed() {
    let dir = Dir::new();
    let script = "for name in farreach-$$-0.probe farreach-load-$$ valgrind_proc_${$}_cmdline; do \
                  ln -s victim $TMPDIR/$name; done; exec \"$@\"";
    let mut run = Command::new("sh");
    run.args(["-c", script, "sh", env!("CARGO_BIN_EXE_farreach"), "run", "-m", "t94/single", "--csv", "--", "true"]);
    let ran = Ran::of(run.env("TMPDIR", dir.path("")).stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let names = dir.names();
    assert!(names.len() == 3 && !names.contains(&"victim".to_owned()), "{names:?}");
}

/// Two at once, of which one would restore what the other has set.
#[test]
fn only_one_may_change_settings() {
    let dir = Dir::new();
    let root = dir.path("root");
    std::fs::create_dir(&root).unwrap();
    let words = ["advise", "-m", "today/zen3", "--verify", "1", "--apply", "--system-root", &root, "--", "sh", "-c"];
    let words = [&words[..], &["touch started; exec sleep 1000"]].concat();
    let first = Case::start(dir, &words);
    let second = farreach(&words);
    let pid = format!("process {}, since ", first.farreach.id());
    second.bad(1, &["--apply: another farreach changes settings of this machine", &pid, "advise -m today/zen3"]);
    first.signal(libc::SIGKILL);
    let folder = first.folder();
    wait_until("no process is left", || processes_in(&folder).len() <= 1);
    // The kernel has released the lock.
    let mut third = command();
    let again = third.args(&words[..9]).args(["true"]).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!said.contains("another farreach"), "{said}");
}
