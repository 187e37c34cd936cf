//! A program run by itself, without a recorder: its times, and what the kernel shows of it meanwhile.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::guarded::{Guarded, Start};
use crate::recorder::Exit;

/// Times between two looks at the program: the first, and the longest.
const LOOKS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// How to run it. By default as it would be run, without input and with its output thrown away.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Variables of the environment that are set.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether it gets no transparent huge pages: `prctl(PR_SET_THP_DISABLE)`.
    pub no_huge_pages: bool,
    /// File that is its standard input.
    pub stdin: Option<PathBuf>,
}

/// What a run was.
#[derive(Clone, Debug, Default)]
pub struct Native {
    /// User time of the program and of its children that it waited for.
    pub user: Duration,
    /// System time of the same.
    pub system: Duration,
    /// Most resident memory of its largest process, with what it has of pools of huge pages. `None`: it was too small
    /// and too short for the system to tell.
    pub resident_bytes: Option<u64>,
    /// What was seen of its largest process.
    pub seen: Seen,
}

/// What the kernel shows of a process.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its program.
    pub program: PathBuf,
    /// Files that it has mapped.
    pub files: Vec<PathBuf>,
    /// Transparent huge pages are switched off for it.
    pub thp_disabled: bool,
    /// All looks were in the first half of the run: much of it may have come later.
    pub early: bool,
    /// Most memory in huge pages at one look: anonymous and shared memory, and pages of a pool.
    pub huge_bytes: u64,
    /// The process that this is about, the largest one.
    pid: u32,
    resident: u64,
    /// When that was seen last.
    at: Option<Instant>,
    /// It had pages of a pool, whose most the kernel does not keep.
    pooled: bool,
}

impl Seen {
    /// Whether anything was: a short program may have ended before the first look.
    pub fn anything(&self) -> bool {
        !self.program.as_os_str().is_empty()
    }

    /// Whether it has anonymous memory that processes share: of `mmap`, or segments of System V.
    pub fn shares_memory(&self) -> bool {
        let names = ["/dev/zero (deleted)", "/SYSV"];
        self.files.iter().any(|file| names.iter().any(|name| file.to_string_lossy().starts_with(name)))
    }
}

/// A program that runs. Dropped, it is killed with all that it started and that is left.
pub struct Running {
    program: Guarded,
    seen: Seen,
    no_huge_pages: bool,
    began: Instant,
    /// Memory of this process then, which the system takes for the child's until it starts the program.
    own_bytes: u64,
    next: Instant,
    pause: Duration,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// The system does not start it, or its standard input cannot be opened.
    pub fn start(command: &[OsString], way: &Way) -> io::Result<Running> {
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let own_bytes = kilobytes(&own, "VmRSS:").unwrap_or(u64::MAX);
        let program = start(command, way)?;
        let (seen, no_huge_pages, began) = (Seen::default(), way.no_huge_pages, Instant::now());
        Ok(Running { program, seen, no_huge_pages, began, own_bytes, next: began, pause: LOOKS[0] })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Looks at it, unless it did so a moment ago; then only at what changes fast.
    pub fn look(&mut self) {
        if Instant::now() >= self.next {
            look(self.program.pid(), self.no_huge_pages, &mut self.seen);
            self.pause = (self.pause * 2).min(LOOKS[1]);
            self.next = Instant::now() + self.pause;
        } else if self.seen.pooled
            && let Ok(status) = fs::read_to_string(format!("/proc/{}/status", self.seen.pid))
        {
            self.seen.resident = self.seen.resident.max(memory(&status).0);
        }
    }

    /// How it ended, and what it used, once it has.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn ended(&mut self) -> io::Result<Option<(Exit, Native)>> {
        let Some(ended) = self.program.try_wait()? else { return Ok(None) };
        let (user, system) = (ended.user, ended.system);
        let mut seen = std::mem::take(&mut self.seen);
        // A look in the first half of a run tells nothing about its peak.
        let (began, run) = (self.began, self.began.elapsed());
        let late = seen.at.is_some_and(|at| at.duration_since(began) >= run / 2).then_some(seen.resident);
        seen.early = late.is_none();
        let told = (ended.peak_bytes > self.own_bytes).then_some(ended.peak_bytes);
        let resident_bytes = late.max(told.map(|most| most.max(seen.resident)));
        Ok(Some((ended.status.into(), Native { user, system, resident_bytes, seen })))
    }
}

fn start(command: &[OsString], way: &Way) -> io::Result<Guarded> {
    let mut start = Start::new(&command[0], None, None)?;
    let run = start.command();
    run.args(&command[1..]).envs(way.environment.iter().cloned()).stdout(Stdio::null());
    run.stdin(way.stdin.as_ref().map_or(Ok(Stdio::null()), |path| File::open(path).map(Stdio::from))?);
    if way.no_huge_pages {
        // SAFETY: between fork and exec it makes one system call and touches no memory of others.
        unsafe { run.pre_exec(crate::no_huge_pages) };
    }
    start.spawn()
}

/// Looks at the process and its descendants, and keeps the largest.
fn look(pid: u32, disabled: bool, seen: &mut Seen) {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        let tasks = format!("/proc/{}/task/{}/children", all[at], all[at]);
        let children = fs::read_to_string(tasks).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        at += 1;
    }
    for pid in all {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let Ok(status) = fs::read_to_string(folder.join("status")) else { continue };
        let (resident, pool) = memory(&status);
        let Ok(program) = fs::read_link(folder.join("exe")) else { continue };
        if resident < seen.resident {
            continue;
        }
        (seen.pid, seen.resident, seen.at) = (pid, resident, Some(Instant::now()));
        seen.pooled |= pool > 0;
        // What it was started with is no choice of its own.
        seen.thp_disabled |= !disabled && field(&status, "THP_enabled:") == Some("0");
        seen.huge_bytes = seen.huge_bytes.max(huge_bytes(&folder) + pool);
        if seen.program != program {
            seen.program = program;
            seen.files.clear();
        }
        seen.files.extend(mapped(&folder).into_iter().filter(|file| !seen.files.contains(file)).collect::<Vec<_>>());
    }
}

/// A field of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A field with a size, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<u64> {
    Some(field(status, name)?.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Most bytes in memory, with those of a pool now, and the latter.
fn memory(status: &str) -> (u64, u64) {
    let pool = kilobytes(status, "HugetlbPages:").unwrap_or(0);
    (kilobytes(status, "VmHWM:").unwrap_or(0) + pool, pool)
}

fn huge_bytes(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("smaps_rollup")).unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    (kilobytes("AnonHugePages:") + kilobytes("ShmemPmdMapped:")) << 10
}

fn mapped(folder: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    let mut files: Vec<PathBuf> =
        text.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..]))).collect();
    files.sort_unstable();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[OsString], way: &Way) -> io::Result<(Exit, Native)> {
        let mut running = Running::start(command, way)?;
        loop {
            if let Some(ended) = running.ended()? {
                return Ok(ended);
            }
            running.look();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn words(command: &str) -> Vec<OsString> {
        command.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn time_memory_and_files_of_a_run() {
        let run = run(
            &["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"].map(OsString::from),
            &Way::default(),
        );
        let (exit, run) = run.unwrap();
        assert_eq!(exit, Exit::Code(0));
        assert!(run.user > Duration::ZERO && run.resident_bytes.is_none_or(|bytes| bytes > 0) && run.seen.anything());
        assert!(run.seen.files.iter().any(|file| file.to_string_lossy().contains("libc")), "{:?}", run.seen);
        assert!(!run.seen.thp_disabled);
    }

    /// What the system says once it has ended is right however short it was, if it is more than this process has.
    #[test]
    fn the_peak_of_a_short_program() {
        let big = ["sh", "-c", "exec perl -e '$x = \"x\" x (400 << 20)'"].map(OsString::from);
        let peak = run(&big, &Way::default()).unwrap().1.resident_bytes.expect("more than this process has");
        assert!((400 << 20..1200 << 20).contains(&peak), "{peak}");
        // It ends before it can be looked at, or after a look that tells nothing.
        let (_, small) = run(&words("true"), &Way::default()).unwrap();
        assert!(small.resident_bytes.is_none_or(|bytes| bytes >= 512 << 10), "{small:?}");
    }

    #[test]
    fn memory_of_a_process() {
        let status = "Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t    1000 kB\nHugetlbPages:\t    4096 kB\n";
        assert_eq!(memory(status), (5330 << 10, 4096 << 10));
        assert_eq!(memory("Name:\tkthread\n"), (0, 0));
    }

    #[test]
    fn how_it_ended() {
        assert_eq!(run(&words("false"), &Way::default()).unwrap().0, Exit::Code(1));
        let killed = run(&["sh".into(), "-c".into(), "kill -9 $$".into()], &Way::default());
        assert_eq!(killed.unwrap().0, Exit::Signal(9));
        assert!(run(&words("/no/such/program"), &Way::default()).is_err());
    }

    #[test]
    fn dropped_it_is_killed() {
        let running = Running::start(&words("sleep 1000"), &Way::default()).unwrap();
        let pid = running.pid();
        drop(running);
        assert!(!crate::is_running(pid));
    }

    #[test]
    fn the_way_reaches_the_program() {
        let way = Way { environment: vec![("FARREACH_WAY".into(), "7".into())], no_huge_pages: true, stdin: None };
        let test = "[ $FARREACH_WAY = 7 ] && grep -q 'THP_enabled:.0' /proc/self/status";
        assert_eq!(run(&["sh".into(), "-c".into(), test.into()], &way).unwrap().0, Exit::Code(0));
    }
}
