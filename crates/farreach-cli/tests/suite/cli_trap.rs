//! `farreach trap`: the machines miss as under `run`, and the program notices nothing.

use crate::cli::{Dir, Ran, command, each, farreach, line};
use crate::common::{program, tool};
use farreach_live::TOOL_VARIABLE;
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Whether this system lets this user have what traps need; if not, says so, for the test that then tests nothing.
pub fn traps_work() -> bool {
    // SAFETY: plain numbers; the descriptor is closed.
    let made = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        fd >= 0 && libc::close(fd as i32) == 0
    };
    let works = made || std::fs::File::options().read(true).write(true).open("/dev/userfaultfd").is_ok();
    if !works {
        eprintln!("skipped: this user may not make a userfaultfd, which `farreach trap` needs");
    }
    works
}

/// `farreach trap` with these options and this command; the result goes to a file of this directory.
fn trap(dir: &Dir, options: &str, words: &[&str]) -> Command {
    let mut trap = command();
    trap.arg("trap").args(options.split_whitespace()).args(["-o", &dir.path("result"), "--"]).args(words);
    trap
}

/// Output and status of a program without farreach.
fn natively(words: &[&str]) -> (i32, String) {
    let out = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    let status = out.status.code().unwrap_or_else(|| 128 + out.status.signal().unwrap());
    (status, String::from_utf8(out.stdout).unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A program without a library, so that its references do not depend on where things lie.
pub fn touch() -> PathBuf {
    program("touch", &["-nostdlib", "-static", "-fno-stack-protector"])
}

/// T94-70, T94-71: all that is counted but lookups, of policies that are blind to hits or see used bits.
#[test]
fn t94_70_machines_miss_under_trap_as_under_run() {
    if !traps_work() {
        return;
    }
    let machines = [
        "t94/single:replacement=fifo",
        "t94/single:replacement=fifo,entries=100",
        "t94/single:replacement=random,entries=512",
        "t94/single",
        "t94/single:entries=16",
        "t94/superpage",
        "t94/complete",
    ];
    same(&machines);
    // Nothing is ever evicted, so a first store to a page is seen only if the page is protected.
    same(&["t94/single:entries=4096"]);
}

fn same(machines: &[&str]) {
    let of = |how: &str| {
        let mut farreach = command();
        farreach.env(TOOL_VARIABLE, tool()).args([how, "--json"]);
        machines.iter().for_each(|machine| _ = farreach.args(["-m", machine]));
        let ran = Ran::of(farreach.arg("--").arg(touch()).output().unwrap());
        assert_eq!(ran.status, natively(&[text(&touch())]).0, "{}", ran.err);
        ran.json()
    };
    let (run, trap) = (of("run"), of("trap"));
    let misses = each(&run, "misses");
    assert!(misses.iter().all(|misses| *misses > 1000), "{misses:?}");
    assert_eq!(misses, each(&trap, "misses"));
    assert_eq!(run["workload"]["touched_bytes"], trap["workload"]["touched_bytes"]);
    assert_eq!(trap["workload"]["lookups"]["load"], 0, "hits are not seen");
    let without = |machine: &Value| {
        let mut counts = machine["counts"].clone();
        counts.as_object_mut().unwrap().retain(|key, _| !key.contains("lookups"));
        // The recorder maps less for the stack.
        let mut memory = machine["memory"].clone();
        memory.as_object_mut().unwrap().retain(|key, _| key != "virtual_bytes");
        (machine["name"].clone(), counts, memory)
    };
    for (run, trap) in run["machines"].as_array().unwrap().iter().zip(trap["machines"].as_array().unwrap()) {
        assert_eq!(without(run), without(trap));
    }
}

/// Programs that change their memory in every way: their output and status are those of a native run.
#[test]
fn programs_notice_nothing() {
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    let many: [(&str, &[&str]); 23] = [
        ("memory", &[]),
        ("advice", &[]),
        ("barrier", &[]),
        ("corners", &[]),
        ("deep", &[]),
        ("exec_fails", &[]),
        ("faults", &[]),
        ("plain", &[]),
        ("threads", &[]),
        ("token", &["turn"]),
        ("token", &["yield"]),
        ("token", &["sleep"]),
        ("token", &["futex"]),
        ("token", &["epoll"]),
        ("words", &[]),
        ("processes", &["fork"]),
        ("processes", &["vfork"]),
        ("processes", &["spawn"]),
        ("processes", &["exec", "3"]),
        ("processes", &["badexec"]),
        ("processes", &["killed"]),
        ("processes", &["tree"]),
        ("processes", &["sharing"]),
    ];
    let machines = ["-m t94/set-associative:entries=1536,ways=12", "-m t94/single:entries=16 -m t94/superpage"];
    for (name, arguments) in many {
        let file = program(name, &[]);
        let words: Vec<&str> = [text(&file)].iter().chain(arguments).copied().collect();
        let native = natively(&words);
        for machine in machines {
            let ran = Ran::of(trap(&dir, machine, &words).output().unwrap());
            assert_eq!((ran.status, &ran.out), (native.0, &native.1), "{words:?} with {machine}: {}", ran.err);
            assert!(dir.read("result").contains("misses"));
        }
    }
    let file = program("plain", &["-static"]);
    let ran = Ran::of(trap(&dir, "", &[text(&file)]).output().unwrap());
    assert_eq!((ran.status, ran.out), natively(&[text(&file)]), "a static program: {}", ran.err);
    let script = "echo a | { read x; echo $x$x; }; (exit 3); echo $?; exec sh -c 'exit 4'";
    let ran = Ran::of(trap(&dir, "", &["sh", "-c", script]).output().unwrap());
    assert_eq!((ran.status, ran.out.as_str()), (4, "aa\n3\n"), "{}", ran.err);
}

/// Threads and processes that take each other's pages: one of them runs for a slice, as under `run`, so there are as
/// many misses.
#[test]
fn threads_and_processes_run_in_slices() {
    if !traps_work() {
        return;
    }
    for (kind, many, pages) in [("threads", 2, 1024), ("threads", 16, 256), ("threads", 64, 64), ("processes", 16, 256)]
    {
        let (many, pages) = (many.to_string(), pages.to_string());
        let of = |how: &str| {
            let dir = Dir::new();
            let mut farreach = command();
            farreach.env(TOOL_VARIABLE, tool()).args([how, "--json", "-o", &dir.path("result")]);
            farreach.args(["-m", "t94/set-associative:entries=1536,ways=12", "--", text(&program("sets", &[]))]);
            let ran = Ran::of(farreach.args([kind, &many, &pages, "40"]).output().unwrap());
            assert_eq!(ran.status, 0, "{kind} {many}, {how}: {}", ran.err);
            serde_json::from_str(&dir.read("result")).unwrap()
        };
        let (run, trap): (Value, Value) = (of("run"), of("trap"));
        let misses = |result: &Value| each(result, "misses")[0] as f64;
        let ratio = misses(&trap) / misses(&run);
        assert!((0.9..1.3).contains(&ratio), "{kind} {many} of {pages}: {} and {}", misses(&run), misses(&trap));
        for key in ["processes", "threads"] {
            assert_eq!(run["workload"][key], trap["workload"][key], "{kind} {many}: {key}");
        }
        let switches = trap["workload"]["traps"]["switches"].as_u64().unwrap();
        assert!(switches > 0, "{kind} {many}");
    }
}

/// Short slices: each switch of threads costs as many misses as the thread has pages, and no more.
#[test]
fn a_switch_costs_the_pages_of_a_thread() {
    if !traps_work() {
        return;
    }
    let (dir, sets) = (Dir::new(), program("sets", &[]));
    let of = |slice: &str| {
        let options = format!("--json --slice {slice} -m t94/single:entries=64,replacement=fifo");
        let ran = Ran::of(trap(&dir, &options, &[text(&sets), "threads", "4", "48", "400000"]).output().unwrap());
        assert_eq!(ran.status, 0, "{}", ran.err);
        let result: Value = serde_json::from_str(&dir.read("result")).unwrap();
        (each(&result, "misses")[0], result["workload"]["traps"]["switches"].as_u64().unwrap())
    };
    let ((few_misses, few), (misses, many)) = (of("1s"), of("1ms"));
    assert!(many > few + 10, "{few} and {many} switches");
    let each = (misses as f64 - few_misses as f64) / (many - few) as f64;
    assert!((30.0..70.0).contains(&each), "{each} misses a switch: {few_misses} and {misses}, {few} and {many}");
}

/// What farreach cannot follow ends the run with a message, and no process stays.
#[test]
fn what_cannot_go_on_ends_in_seconds() {
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    let ends = |mut trap: Command, signals: &[i32]| {
        // SAFETY: setsid may be called between fork and exec.
        unsafe { trap.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }) };
        let mut child = trap.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let session = child.id() as i32;
        if !signals.is_empty() {
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        for signal in signals {
            // SAFETY: plain numbers.
            unsafe { libc::kill(session, *signal) };
            std::thread::sleep(Duration::from_millis(400));
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                // SAFETY: the session is one that this test made.
                unsafe { libc::kill(-session, libc::SIGKILL) };
                panic!("{trap:?} hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        while !living(session).is_empty() {
            assert!(Instant::now() < deadline, "{:?} stay", living(session));
            std::thread::sleep(Duration::from_millis(5));
        }
        Ran::of(child.wait_with_output().unwrap())
    };
    let deaf = "trap '' TERM; echo; while :; do sleep 0.05; done";
    let ran = ends(trap(&dir, "", &["sh", "-c", deaf]), &[libc::SIGTERM, libc::SIGTERM]);
    assert_eq!(ran.status, 128 + libc::SIGTERM, "{}", ran.err);
    // Few descriptors: root takes more, others are told.
    let mut few = Command::new("bash");
    let ten = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2 & done; wait; echo all";
    let script = format!("ulimit -n 64; exec {} trap -o /dev/null -- bash -c '{ten}'", env!("CARGO_BIN_EXE_farreach"));
    let ran = ends(
        {
            few.args(["-c", &script]);
            few
        },
        &[],
    );
    let told = ran.status == 125 && ran.err.contains("(ulimit -n)");
    assert!(told || ran.status == 0 && ran.out == "all\n", "{}: {}", ran.status, ran.err);
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        let ran = ends(trap(&dir, "", &[text(&program("drop", &[]))]), &[]);
        let told = ran.status == 125 && ran.err.contains("vm.unprivileged_userfaultfd");
        assert!(told || ran.status == 0 && ran.out == "forked\n", "{}: {}", ran.status, ran.err);
    } else {
        eprintln!("skipped: only root can give its user up");
    }
}

#[test]
fn limits_that_are_too_low_are_named() {
    let of = |limit: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("ulimit {limit}; exec {} trap -- true", env!("CARGO_BIN_EXE_farreach"))]);
        Ran::of(bash.output().unwrap())
    };
    of("-s 128").bad(125, &["ulimit -s", "128 KiB", "512 KiB"]);
    of("-v 200000").bad(125, &["ulimit -v", "200000 KiB", "262144 KiB"]);
}

#[test]
fn what_cannot_be_observed_is_refused_or_named() {
    if !traps_work() {
        return;
    }
    line("trap -m t94/single:replacement=lru -- true")
        .bad(125, &["replacement = lru cannot be driven by traps", "T94-71"]);
    line("trap -m sv97/x86 -- true").bad(125, &["sv97/x86", "caches"]);
    line("trap --for 0 -- true").bad(125, &["'0'", "a time above 0"]);
    line("trap -- ./no-such-program").bad(127, &["trap of './no-such-program'"]);
    let dir = Dir::new();
    let ran = Ran::of(trap(&dir, "", &[text(&program("segment", &[]))]).output().unwrap());
    assert_eq!((ran.status, ran.out.as_str()), (0, "written\n"), "{}", ran.err);
    assert!(ran.err.contains("System V shared memory (8388608 bytes)"), "{}", ran.err);
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        let other = dir.path("other-user");
        std::fs::copy("/bin/true", &other).unwrap();
        std::os::unix::fs::chown(&other, Some(1), None).unwrap();
        std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
        farreach(["trap", "--", &other]).bad(126, &["set-user-ID"]);
        let ran = Ran::of(trap(&dir, "", &["sh", "-c", &other]).output().unwrap());
        assert_eq!((ran.status, ran.out.as_str()), (126, ""));
        assert!(ran.err.contains("set-user-ID"), "{}", ran.err);
    }
    let python = "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))";
    let ran = Ran::of(trap(&dir, "", &["python3", "-c", python]).output().unwrap());
    assert_eq!((ran.status, ran.out.as_str()), (0, "-1\n"), "{}", ran.err);
    assert!(ran.err.contains("refused to the program: ptrace"), "{}", ran.err);
    assert!(ran.err.contains("not observed: ") && ran.err.contains("[vdso]"), "{}", ran.err);
}

/// The kernel fills a buffer four times, which the program never looks at.
#[test]
fn misses_of_the_kernel_are_told() {
    if !traps_work() {
        return;
    }
    let ran = line("trap --kernel -m t94/single:entries=64 -o /dev/null -- dd if=/dev/zero of=/dev/null bs=1M count=4");
    let told = ran.err.split("the kernel, for the program: ").nth(1).unwrap_or_else(|| panic!("{}", ran.err));
    let told = told.lines().next().unwrap();
    let misses: u64 = told.split([',', ' ']).filter_map(|word| word.parse().ok()).next_back().unwrap();
    assert!((4 * 256..5 * 256).contains(&misses), "{told}");
}

#[test]
fn the_time_of_for_ends_the_program() {
    if !traps_work() {
        return;
    }
    let ran = line("trap --for 300ms --json -- sleep 600");
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(ran.json()["workload"]["stopped"], "--for 300 ms");
}

/// What ran freely has its pages mapped. When the simulation begins, they are unmapped, and trap again.
#[test]
fn the_time_of_after_is_not_simulated() {
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    let program = program("pause", &[]);
    let ran = Ran::of(trap(&dir, "--after 300ms --json", &[text(&program)]).output().unwrap());
    assert_eq!((ran.status, ran.out.as_str()), (0, "2048\n"), "{}", ran.err);
    assert!(ran.err.contains("the run is simulated from here on: the time of --after is over"), "{}", ran.err);
    let result: Value = serde_json::from_str(&dir.read("result")).unwrap();
    let (misses, estimate) = (each(&result, "misses")[0], &result["machines"][0]["estimate"]["misses"]);
    // Each of its pages once, and some of its library.
    assert!((2048..2148).contains(&misses), "{misses}");
    assert_eq!(estimate.as_f64(), Some(misses as f64));
    let ran = line("trap --after 60s --json -- true");
    let stopped = ran.json()["workload"]["stopped"].to_string();
    assert!(ran.status == 0 && stopped.contains("before it was to be simulated"), "{stopped}");
}

/// The kernel has smaller mappings than the program asked for, and pages that are not simulated are mapped together.
#[test]
fn pages_of_shared_memory_are_mapped_across_the_kernels_mappings() {
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    for option in ["--after 60s", "--sample 8"] {
        let ran = Ran::of(trap(&dir, option, &[text(&program("cut", &[]))]).output().unwrap());
        assert_eq!((ran.status, ran.out.as_str()), (0, "64\n"), "{option}: {}", ran.err);
    }
}

/// The first signal goes to the program; SIGUSR1 is for farreach.
#[test]
fn the_program_may_end_as_it_likes_at_a_signal() {
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    let script = "trap 'echo ends; exit 5' TERM; echo runs; while :; do sleep 0.05; done";
    let mut farreach = trap(&dir, "", &["sh", "-c", script]);
    let mut child = farreach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut word = [0; 5];
    out.read_exact(&mut word).unwrap();
    for signal in [libc::SIGUSR1, libc::SIGTERM] {
        // SAFETY: plain numbers.
        unsafe { libc::kill(child.id() as i32, signal) };
        std::thread::sleep(Duration::from_millis(400));
    }
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((&word, rest.as_str(), ran.status), (b"runs\n", "ends\n", 128 + libc::SIGTERM), "{}", ran.err);
    assert!(ran.err.contains("misses count from here on: SIGUSR1"), "{}", ran.err);
    assert!(dir.read("result").contains("Stopped early: interrupted"));
}

/// A random number below `n`.
fn below(state: &mut u64, n: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % n
}

/// Processes of this session that have not ended.
fn living(session: i32) -> Vec<String> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let of_session = stats.filter(|stat| {
        let mut fields = stat.rsplit(") ").next().unwrap_or("").split(' ');
        let state = fields.next();
        fields.nth(2).is_some_and(|s| s == session.to_string()) && !matches!(state, Some("Z" | "X"))
    });
    of_session.collect()
}

/// The monitor is killed, or the program, at any moment: nothing hangs, nothing stays behind.
#[test]
fn kills_leave_nothing_behind() {
    if !traps_work() {
        return;
    }
    let times = std::env::var("FARREACH_TIMES").ok().and_then(|times| times.parse().ok());
    let rounds = times.map_or(8, |times: u64| 20 * times);
    let (dir, file, mut state) = (Dir::new(), program("memory", &[]), 88_172_645_463_325_252);
    for round in 0..rounds {
        let mut trap = trap(&dir, "-m t94/single:entries=64", &[text(&file)]);
        // SAFETY: setsid may be called between fork and exec.
        unsafe { trap.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }) };
        let mut child = trap.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let session = child.id() as i32;
        std::thread::sleep(Duration::from_micros(below(&mut state, 500_000)));
        let mut victim = session;
        if round % 2 == 0 {
            let children = std::fs::read_to_string(format!("/proc/{session}/task/{session}/children"));
            victim = children.ok().and_then(|c| c.split(' ').next()?.parse().ok()).unwrap_or(session);
        }
        // SAFETY: the process is one that this test started, or its child.
        unsafe { libc::kill(victim, libc::SIGKILL) };
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "round {round}: farreach hangs");
            std::thread::sleep(Duration::from_millis(2));
        };
        let ended = if victim == session { status.signal() == Some(9) } else { status.code() == Some(128 + 9) };
        // Or the program was faster than the signal.
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(ended || status.code() == Some(128 + libc::SIGUSR1), "round {round}: {status}: {said}");
        while !living(session).is_empty() {
            assert!(Instant::now() < deadline, "round {round}: {:?} stay", living(session));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
