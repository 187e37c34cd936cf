//! Shortages: no memory, few descriptors, closed standard output; and progress where standard error is a file.

use crate::cli::{Dir, Ran, command, fed, line};
use farreach_trace::{Header, TraceWriter};
use farreach_types::addr::Asid;
use farreach_types::event::{Backing, Batch, Block, DataRef, Kind, Mapping, Op, Prot};
use std::process::Command;
use std::sync::Arc;

const EXE: &str = env!("CARGO_BIN_EXE_farreach");

/// A script of bash in which `$farreach` is the command, with the recorder available and a directory of its own for
/// temporary files.
fn bash(temp: &Dir, script: &str) -> Ran {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env("farreach", EXE).env("TMPDIR", temp.path("")).env_remove("RUST_BACKTRACE");
    Ran::of(bash.env("FARREACH_VALGRIND_DIR", crate::common::tool()).output().unwrap())
}

#[test]
fn without_memory_there_is_a_message_and_no_file() {
    let dir = Dir::new();
    // Halfway between what the command needs to begin and what its machines need.
    let script = format!(
        "ulimit -v 50000; exec $farreach sim workload:gups:size=64M,references=1M --threads 1 -m all -o {}",
        dir.path("result")
    );
    let ran = bash(&dir, &script);
    ran.bad(
        1,
        &["farreach: out of memory: the system refused ", " bytes; the limit of this process is 50000 KiB (ulimit -v)"],
    );
    assert!(!dir.names().contains(&"result".to_owned()));
    // The same for a command that runs a program and returns its status.
    let ran = bash(&dir, "ulimit -v 50000; exec $farreach run --threads 1 -m all -- true");
    ran.bad(125, &["farreach: ", "out of memory", "50000 KiB (ulimit -v)"]);
}

/// A trace of a million pages, which takes no room itself.
fn wide(dir: &Dir) -> String {
    let text: String = (0..1_000_000u64).map(|page| format!(" L {:x},8\n", 0x100_0000_0000 + page * 4096)).collect();
    let trace = dir.path("wide.frt");
    fed(["trace", "convert", "-", "-o", &trace], text.as_bytes()).status.eq(&0).then_some(()).expect("a trace");
    assert!(std::fs::metadata(&trace).unwrap().len() < 1 << 16);
    trace
}

/// Where memory runs short, what was seen until then is the result.
#[test]
fn a_run_that_needs_too_much_memory_ends_with_its_result() {
    let dir = Dir::new();
    let trace = wide(&dir);
    let ran = bash(&dir, &format!("ulimit -v 110000; exec $farreach sim {trace} --threads 1 --json"));
    assert_eq!(ran.status, 1, "{}", ran.err);
    let words =
        ["farreach: out of memory: ", " MiB of the 107 MiB that the limit of addresses allows (ulimit -v) are left"];
    assert!(words.iter().all(|word| ran.err.contains(word)), "{}", ran.err);
    let result = ran.json();
    assert!(result["workload"]["stopped"].as_str().unwrap().starts_with("out of memory"), "{}", result["workload"]);
    let seen = result["workload"]["lookups"]["load"].as_u64().unwrap();
    assert!((10_000..1_000_000).contains(&seen), "{seen}");
    // What is asked for is compared with what there is before anything runs.
    let made = dir.path("made");
    let ran = bash(&dir, &format!("ulimit -v 900000; exec $farreach run --ahead 1T -- touch {made}"));
    ran.bad(125, &["--ahead 1T", " MiB of the 878 MiB that the limit of addresses allows"]);
    assert!(!std::path::Path::new(&made).exists());
}

/// A trace of a program that maps 64 TB and touches a page of them.
fn eager(dir: &Dir) -> String {
    let start = 1 << 40;
    let mapping = Mapping { start, len: 1 << 46, prot: Prot::RW, shared: false, backing: Backing::Anonymous };
    let block = Block { instrs: [].into(), refs: [DataRef::new(0, Kind::Load, 8, 0)].into() };
    let mut batch = Batch::new(Asid(0));
    batch.push_op(Op::Start { pid: 1, parent: None, program: "/bin/true".into() });
    batch.push_op(Op::Map(mapping));
    batch.push_op(Op::Define { id: 0, block: Arc::new(block) });
    batch.push_block(0, &[start]);
    let trace = dir.path("eager.frt");
    let mut writer = TraceWriter::create(std::path::Path::new(&trace), Header::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    trace
}

/// A control group of memory, as a container has, for one command; `None` if this user may make none.
struct Group(std::path::PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Group> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |of: &str| {
            let line = own.lines().find_map(|line| line.split_once(':').filter(|(_, rest)| rest.starts_with(of)));
            line.map(|(_, rest)| rest[of.len()..].trim_start_matches('/').to_owned())
        };
        let name = format!("farreach-test-{}-{bytes}", std::process::id());
        for (top, own, limit) in [
            ("/sys/fs/cgroup/memory", path("memory:"), "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", path(":"), "memory.max"),
        ] {
            let Some(own) = own else { continue };
            let group = Group(std::path::Path::new(top).join(own).join(&name));
            let limit = group.0.join(limit);
            if std::fs::create_dir(&group.0).is_ok()
                && limit.exists()
                && std::fs::write(limit, bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        eprintln!("skipped: this user may make no control group of memory");
        None
    }

    fn bash(&self, dir: &Dir, script: &str) -> Ran {
        bash(dir, &format!("echo $$ >{}/cgroup.procs && {script}", self.0.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes in it have ended; the kernel may take a moment to notice.
        for _ in 0..100 {
            match std::fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

/// The kernel kills who takes more than a container may have; farreach ends before, and says why.
#[test]
fn the_limit_of_a_container_is_kept() {
    let dir = Dir::new();
    let Some(group) = Group::new(64 << 20) else { return };
    let trace = wide(&dir);
    let ran = group.bash(&dir, &format!("exec $farreach sim {trace} --json"));
    assert!(ran.err.contains("MiB of the 64 MiB that the control group allows (/sys/fs/cgroup/"), "{}", ran.err);
    assert_eq!(ran.status, 1, "{}", ran.err);
    let seen = ran.json()["workload"]["lookups"]["load"].as_u64().unwrap();
    assert!((100_000..1_000_000).contains(&seen), "{seen}");
    // 64 TB that are mapped at once, with all their pages.
    let eager = eager(&dir);
    let ran = group.bash(&dir, &format!("exec $farreach sim {eager} -m rmm15/range --threads 1"));
    assert!(
        ran.err.contains("out of memory: ") && ran.err.contains("MiB of the 64 MiB that the control"),
        "{}",
        ran.err
    );
    assert_eq!(ran.status, 1, "{}", ran.err);
    let ran = group.bash(&dir, "exec $farreach machines --this --measure --memory 1G");
    ran.bad(1, &["--measure needs 1.1", "--memory 1G", "MiB of the 64 MiB that the control group allows"]);
    // The default is what fits, or this machine is too small.
    let ran = group.bash(&dir, "exec $farreach machines --this --measure");
    ran.bad(1, &["--measure needs 196 MiB", "at least 64M", "MiB of the 64 MiB that the control group allows"]);
}

#[test]
fn a_recorder_without_memory_says_so_in_short() {
    let dir = Dir::new();
    let ran = bash(&dir, "ulimit -v 60000; exec $farreach run --threads 1 -m t94/single -- true");
    assert!(!ran.err.contains("aspacem") && ran.err.lines().count() < 8, "{}", ran.err);
    ran.bad(125, &["recording of 'true'", "out of memory", "60000 KiB (ulimit -v)"]);
    assert_eq!(dir.names(), [""; 0]);
}

#[test]
fn a_program_keeps_its_descriptors_or_is_not_run() {
    let dir = Dir::new();
    for n in [10, 16, 31] {
        let ran = bash(&dir, &format!("ulimit -n {n}; exec $farreach run -m t94/single -- sh -c 'exit 7'"));
        ran.bad(125, &["recorder: limit of open files (ulimit -n)", &format!("raised to {n}:"), "at least 32"]);
        assert_eq!(dir.names(), [""; 0], "Valgrind's files are gone");
    }
    for limits in ["ulimit -n 32", "ulimit -S -n 12"] {
        let ran = bash(&dir, &format!("{limits}; exec $farreach run -m t94/single --csv -- sh -c 'exit 7'"));
        assert_eq!(ran.status, 7, "{limits}: {}", ran.err);
    }
    let ran = bash(&dir, "ulimit -S -n 12; exec $farreach run -m t94/single -o /dev/null -- sh -c 'ulimit -n'");
    assert_eq!((ran.status, ran.out.as_str()), (0, "12\n"), "{}", ran.err);
}

#[test]
fn a_result_that_nobody_can_read_is_an_error() {
    let dir = Dir::new();
    let text = dir.write("t.txt", "I  1000,4\n L 2000,8\n");
    let lost = "standard output is closed";
    for words in [&format!("sim {text}") as &str, "machines", "area single", &format!("trace info {text}")] {
        bash(&dir, &format!("exec $farreach {words} >&-")).bad(1, &[lost]);
    }
    // Before the program runs.
    let made = dir.path("made");
    bash(&dir, &format!("exec $farreach run -- touch {made} >&-")).bad(125, &[lost]);
    assert_eq!(dir.names(), ["t.txt"]);
    // Output that goes to a file is not lost.
    let result = dir.path("result");
    assert_eq!(bash(&dir, &format!("exec $farreach sim {text} --csv -o {result} >&-")).status, 0);
    assert!(dir.read("result").starts_with("name,"));
    assert_eq!(bash(&dir, &format!("exec $farreach sim {text} >/dev/null")).status, 0);
    assert_eq!(bash(&dir, &format!("exec $farreach run -m t94/single -o {result} -- touch {made} >&-")).status, 0);
}

#[test]
fn a_refused_key_stands_on_its_line() {
    let dir = Dir::new();
    for (text, words) in [
        (
            "kind = 'single'\n\nentries = 0\n",
            "line 3: entries = 0 is not allowed: entries must be a whole number from 1 to 65536",
        ),
        ("kind = 'single'\npenalty = inf\n", "line 2: penalty = inf is not allowed"),
        ("# mine\nkind = 'singel'\n", "line 2: kind = 'singel' is not allowed"),
        ("kind = 'single'\nentrys = 1\n", "line 2: unknown key 'entrys'"),
        ("about = inf\nkind = 'single'\n", "line 1: about = inf is not allowed: about must be a text, in quotes"),
    ] {
        let file = dir.write("m.toml", text);
        fed(["sim", "-", "-m", &file], b"").bad(1, &[&format!("machine '{file}': {words}")]);
    }
    // An override has no line number.
    let file = dir.write("m.toml", "kind = 'single'\nentries = 4\n");
    fed(["sim", "-", "-m", &format!("{file}:entries=0")], b"").bad(1, &["entries=0': entries = 0 is not allowed"]);
}

/// Standard error of a command that prints its progress at every opportunity.
fn progress(words: &[&str]) -> Vec<String> {
    let mut command = command();
    command.args(words).env("FARREACH_PROGRESS_SECONDS", "0").env("FARREACH_VALGRIND_DIR", crate::common::tool());
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
    ran.err.lines().map(str::to_owned).collect()
}

#[test]
fn progress_goes_into_a_file_too() {
    let dir = Dir::new();
    let (trace, result) = (dir.path("t.frt"), dir.path("result"));
    let is_progress =
        |l: &&String| l.starts_with("farreach: ") && l.contains(" instructions, ") && l.contains(" references/s, ");
    let said = progress(&[
        "record",
        "-o",
        &trace,
        "--limit",
        "100M",
        "--",
        "sh",
        "-c",
        "i=0; while test $i -lt 2000; do i=$((i+1)); done",
    ]);
    // The remaining time is not known before the first reference.
    let begun = |l: &&String| is_progress(l) && !l.contains(" 0 instructions, ");
    let lines: Vec<&String> = said.iter().filter(begun).collect();
    assert!(lines.len() > 3 && lines.iter().all(|l| l.contains(", about ") && l.ends_with(" left")), "{said:?}");
    // The length of a trace is known.
    for command in ["sim", "pagesize"] {
        let said = progress(&[command, &trace, "--json", "-o", &result]);
        let lines: Vec<&String> = said.iter().filter(begun).collect();
        assert!(lines.len() > 3 && lines.iter().all(|l| l.ends_with(" left")), "{said:?}");
    }
    let said = progress(&[
        "run",
        "-m",
        "t94/single",
        "-o",
        &result,
        "--",
        "sh",
        "-c",
        "i=0; while test $i -lt 2000; do i=$((i+1)); done",
    ]);
    assert!(said.iter().filter(is_progress).count() > 3 && !said.iter().any(|l| l.contains(" left")), "{said:?}");
    // Every 30 seconds by default.
    assert_eq!(line(&format!("sim {trace} --csv -o {result}")).good().status, 0);
}
