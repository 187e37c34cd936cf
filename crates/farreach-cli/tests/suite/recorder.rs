//! Does a recording hold everything that a program did, for programs of all kinds?

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{command, drain, options, program, record, tool};
use farreach_live::{Exit, Recorder};
use farreach_types::addr::Asid;
use farreach_types::event::{
    Advice, Backing, Block, Blocks, DataRef, End, Kind, Mapping, OP_BIT, Op, Prot, Source, block_id, words_behind,
};

fn end(op: &Op) -> Option<End> {
    match op {
        Op::End(end) => Some(*end),
        _ => None,
    }
}

#[test]
fn counts_agree_and_the_status_passes_through() {
    for flags in [&[][..], &["-static"]] {
        let r = record(&program("plain", flags), &[]);
        assert_eq!(r.report.exit, Exit::Code(7));
        assert_eq!((r.report.verified, r.report.lost, r.report.interrupted), (1, 0, None));
        assert_eq!(r.report.counts.instructions, r.count(Kind::Fetch));
        assert_eq!(end(&r.ops.last().unwrap().1), Some(End::Exit(7)));
        assert!(matches!(&r.ops[0].1, Op::Start { parent: None, program, .. } if program.contains("plain")));
    }
}

#[test]
fn the_same_program_twice_gives_the_same_references() {
    let plain = program("plain", &["-static"]);
    let (a, b) = (record(&plain, &[]), record(&plain, &[]));
    assert!(a.accesses == b.accesses);
}

/// Every reference lies in a mapping that exists at its time, with the right protection: maps precede references.
#[test]
fn references_lie_in_mappings() {
    for (name, flags) in
        [("deep", &[][..]), ("deep", &["-static"]), ("maps", &[]), ("barrier", &[]), ("threads", &[]), ("plain", &[])]
    {
        let r = record(&program(name, flags), &[]);
        let mut pages = HashSet::new();
        let mut next = 0;
        for (i, (_, access)) in r.accesses.iter().enumerate() {
            while next < r.ops.len() && r.places[next] <= i {
                match &r.ops[next].1 {
                    Op::Map(m) => pages.extend((m.start..m.start + m.len).step_by(4096)),
                    Op::Unmap { start, len } => pages.retain(|p| p.wrapping_sub(*start) >= *len),
                    Op::Remap { old_start, old_len, new_start, new_len } => {
                        pages.retain(|p| p.wrapping_sub(*old_start) >= *old_len);
                        pages.extend((*new_start..new_start + new_len).step_by(4096));
                    }
                    _ => {}
                }
                next += 1;
            }
            for byte in [access.addr, access.addr + u64::from(access.size) - 1] {
                assert!(pages.contains(&(byte & !4095)), "{name}: reference {i}, {access:x?}, is in no mapping");
            }
        }
    }
}

#[test]
fn deep_recursion_grows_the_stack() {
    let r = record(&program("deep", &[]), &[]);
    let grown: u64 = r
        .ops
        .iter()
        .filter_map(|(_, op)| match op {
            Op::Map(m) if m.backing == Backing::Stack => Some(m.len),
            _ => None,
        })
        .sum();
    assert!(grown > 700_000, "{grown} bytes of stack");
    assert_eq!(r.report.exit, Exit::Code(0));
}

#[test]
fn references_at_a_constant_distance_share_a_word() {
    let mut recorder = Recorder::start(&command(&program("words", &["-static"]), &[]), &options()).unwrap();
    let (mut blocks, mut defined) = (Blocks::default(), Vec::new());
    let (mut words, mut refs) = (0, 0);
    while let Some(batch) = recorder.next_batch().unwrap() {
        let mut at = 0;
        while let Some(&word) = batch.words.get(at) {
            at += 1;
            if word & OP_BIT != 0 {
                if let Op::Define { id, block } = batch.op(word).unwrap() {
                    blocks.define(*id, block).unwrap();
                    defined.push(Arc::clone(block));
                }
            } else {
                words += words_behind(word);
                refs += blocks.get(block_id(word)).unwrap().refs.len();
                at += words_behind(word);
            }
        }
    }
    assert_eq!(recorder.finish().unwrap().exit, Exit::Code(7));
    assert!(words * 10 < refs * 9, "{words} address words for {refs} references");
    // Eight pushes and one of two bytes: that one is the lowest, and all the pops load again what they stored.
    let pushed = [58, 50, 42, 34, 26, 18, 10, 2, 0, 0, 2, 10, 18, 26, 34, 42, 50, 58];
    let is_it = |block: &&Arc<Block>| {
        let offsets = |refs: &[DataRef]| refs.iter().map(|r| r.offset).eq(pushed);
        block.refs.windows(pushed.len()).any(|refs| offsets(refs) && refs.iter().all(|r| r.word == refs[0].word))
    };
    assert!(defined.iter().any(|block| is_it(&block)), "the pushes share a word");
    for block in &defined {
        let mut pcs: Vec<u64> = block.instrs.iter().map(|i| i.pc).collect();
        pcs.sort_unstable();
        assert!(block.words() == block.refs.len() || pcs.windows(2).all(|two| two[0] < two[1]), "{block:x?}");
    }
}

#[test]
fn threads_switch_and_end() {
    let r = record(&program("threads", &[]), &[]);
    let count = |f: fn(&Op) -> bool| r.ops.iter().filter(|(_, op)| f(op)).count();
    assert_eq!(count(|op| matches!(op, Op::ThreadStart { .. })), 5);
    assert_eq!(count(|op| matches!(op, Op::ThreadExit { .. })), 5);
    assert!(count(|op| matches!(op, Op::Switch { .. })) > 5);
    assert_eq!(r.report.exit, Exit::Code(0));
}

#[test]
fn forks_are_announced_before_the_child() {
    let r = record(&program("processes", &[]), &["fork"]);
    assert_eq!(r.report.exit, Exit::Code(3));
    let fork = r.ops.iter().position(|(a, op)| *a == 0 && *op == Op::Fork { child: Asid(1) }).expect("a fork");
    let first = r.ops.iter().position(|(a, _)| *a == 1).expect("a child");
    assert!(fork < first);
    assert!(r.accesses[..r.places[fork]].iter().all(|(a, _)| *a == 0));
    assert_eq!(end(r.of(1).last().unwrap()), Some(End::Exit(3)));
    assert_eq!(r.report.verified, 2);
}

#[test]
fn vfork_and_spawn_start_programs() {
    for (what, code) in [("vfork", 5), ("spawn", 6)] {
        let r = record(&program("processes", &[]), &[what]);
        assert_eq!(r.report.exit, Exit::Code(code), "{what}");
        assert_eq!(end(r.of(1).last().unwrap()), Some(End::Exec), "{what}");
        assert!(matches!(r.of(2)[0], Op::Start { parent: Some(Asid(1)), .. }), "{what}");
        assert_eq!(end(r.of(2).last().unwrap()), Some(End::Exit(code)), "{what}");
    }
}

#[test]
fn an_exec_chain_keeps_its_process() {
    let r = record(&program("processes", &[]), &["exec", "3"]);
    assert_eq!(r.report.exit, Exit::Code(4));
    let starts: Vec<_> = r
        .ops
        .iter()
        .filter_map(|(_, op)| match op {
            Op::Start { pid, parent, .. } => Some((*pid, *parent)),
            _ => None,
        })
        .collect();
    assert_eq!(starts, [None, Some(Asid(0)), Some(Asid(1)), Some(Asid(2))].map(|p| (r.report.pid, p)));
    let ends: Vec<_> = r.ops.iter().filter_map(|(_, op)| end(op)).collect();
    assert_eq!(ends, [End::Exec, End::Exec, End::Exec, End::Exit(4)]);
}

/// Under the recorder, /proc/self/exe is the recorder.
#[test]
fn a_program_can_start_itself_by_proc_self_exe() {
    // A copy of its own: a parallel test may replace the shared one.
    let copy = crate::common::scratch().join(format!("itself-{}", std::process::id()));
    std::fs::copy(program("processes", &[]), &copy).unwrap();
    let program = copy;
    let r = record(&program, &["itself"]);
    assert_eq!((r.report.exit, r.report.verified), (Exit::Code(4), 1));
    let name = program.to_str().unwrap();
    assert!(
        matches!(r.of(1)[0], Op::Start { program, parent: Some(Asid(0)), .. } if **program == *name),
        "{:?}",
        r.of(1)[0]
    );
}

/// With a late reader: the processes have ended before it learns that they called exec.
#[test]
fn an_exec_chain_that_ended_long_ago_keeps_its_process() {
    let program = program("processes", &["-static"]);
    let mut recorder = Recorder::start(&command(&program, &["exec", "2"]), &options()).unwrap();
    let mut ends = Vec::new();
    let mut starts = Vec::new();
    while let Some(batch) = recorder.next_batch().unwrap() {
        ends.extend(batch.ops.iter().filter_map(end));
        starts.extend(batch.ops.iter().filter_map(|op| match op {
            Op::Start { parent, .. } => Some(*parent),
            _ => None,
        }));
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(ends, [End::Exec, End::Exec, End::Exit(4)]);
    assert_eq!(starts, [None, Some(Asid(0)), Some(Asid(1))]);
    let report = recorder.finish().unwrap();
    assert_eq!((report.exit, report.lost), (Exit::Code(4), 0));
}

#[test]
fn a_program_killed_before_it_published_anything_is_there() {
    let tiny = program("tiny", &["-static", "-nostdlib"]);
    let r = record(&program("processes", &["-static"]), &["killed-image", tiny.to_str().unwrap()]);
    assert_eq!((r.report.exit, r.report.lost), (Exit::Code(9), 1));
    assert_eq!(end(r.of(1).last().unwrap()), Some(End::Exec));
    assert!(matches!(r.of(2)[0], Op::Start { parent: Some(Asid(1)), .. }));
    assert_eq!(end(r.of(2).last().unwrap()), Some(End::Lost));
    assert_eq!(r.accesses.iter().filter(|(asid, a)| *asid == 2 && a.kind == Kind::Store && a.size == 1).count(), 16);
}

#[test]
fn an_exec_that_fails_changes_nothing() {
    let r = record(&program("processes", &[]), &["badexec"]);
    assert_eq!(r.report.exit, Exit::Code(8));
    assert_eq!(r.ops.iter().filter_map(|(_, op)| end(op)).collect::<Vec<_>>(), [End::Exit(8)]);
}

#[test]
fn pages_are_dropped_beside_a_hole_too() {
    let r = record(&program("advice", &[]), &[]);
    let Exit::Code(locked @ (0 | 1)) = r.report.exit else { panic!("{:?}", r.report.exit) };
    let start = r.ops.iter().find_map(|(_, op)| match op {
        Op::Map(m) if m.len == 16 * 4096 => Some(m.start),
        _ => None,
    });
    let page = |n: u64| start.expect("the pages") + n * 4096;
    let advice: Vec<&Op> = r.ops.iter().map(|(_, op)| op).filter(|op| matches!(op, Op::Advise { .. })).collect();
    let dropped = |from, pages: u64| Op::Advise { start: page(from), len: pages * 4096, advice: Advice::DontNeed };
    let expected = [dropped(1, 4), dropped(8, 2)];
    assert_eq!(advice, expected.iter().take(1 + locked as usize).collect::<Vec<_>>());
}

/// Natively and recorded, each attempt fails with the same error, and the calling program goes on.
#[test]
fn execs_fail_as_they_would() {
    use std::os::unix::fs::PermissionsExt;
    let dir = crate::common::scratch().join(format!("exec-fails-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, mode: u32, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = std::fs::read("/bin/true").unwrap();
    let linker = whole.windows(8).position(|w| w == b"/lib64/l").expect("the dynamic linker's name");
    let mut no_linker = whole.clone();
    no_linker[linker + 1] = b'L';
    let mut no_program = whole.clone();
    no_program[16] = 1;
    let again = dir.join("again").to_str().unwrap().to_owned();
    let mut elf32 = b"\x7fELF\x01\x01\x01".to_vec();
    elf32.resize(52, 0);
    let names = [
        dir.join("missing").to_str().unwrap().to_owned(),
        dir.to_str().unwrap().to_owned(),
        file("plain", 0o644, b"#!/bin/sh\n"),
        file("no-interpreter", 0o755, b"#!/nonexistent/interpreter\n"),
        file("directory-as-interpreter", 0o755, b"#!/etc\n"),
        file("plain-as-interpreter", 0o755, b"#!/etc/passwd\n"),
        file("windows", 0o755, b"#!/bin/sh\r\n"),
        file("nothing-named", 0o755, b"#! \n/bin/sh\n"),
        file("too-long", 0o755, &[b"#!/".as_slice(), &[b'x'; 300], b"\n"].concat()),
        file("again", 0o755, format!("#!{again}\n").as_bytes()),
        file("garbage", 0o755, b"\0\x01garbage"),
        file("elf32", 0o755, &elf32),
        file("cut-off", 0o755, &whole[..200]),
        file("no-program", 0o755, &no_program),
        file("no-linker", 0o755, &no_linker),
        String::new(),
    ];
    let args: Vec<&str> = names.iter().map(String::as_str).collect();
    let program = program("exec_fails", &[]);
    let native = std::process::Command::new(&program).args(&args).output().unwrap();
    let native = String::from_utf8(native.stdout).unwrap();
    assert_eq!(native.lines().count(), names.len() + 5, "{native}");
    assert!(!native.contains("status"), "{native}");
    let stdout = dir.join("stdout");
    let options = farreach_live::Options { stdout: Some(stdout.clone()), ..options() };
    let mut recorder = Recorder::start(&command(&program, &args), &options).unwrap();
    while recorder.next_batch().unwrap().is_some() {}
    let report = recorder.finish().unwrap();
    assert_eq!((report.exit, report.lost), (Exit::Code(0), 0));
    assert_eq!(std::fs::read_to_string(stdout).unwrap(), native);
}

#[test]
fn elements_masked_out_are_not_gathered() {
    if !is_x86_feature_detected!("avx2") {
        eprintln!("skipped: no AVX2 here");
        return;
    }
    let r = record(&program("gather", &[]), &[]);
    assert_eq!(r.report.exit, Exit::Code(0));
    let pages = r.ops.iter().find_map(|(_, op)| match op {
        Op::Map(m) if m.len == 24 * 4096 => Some(m.start),
        _ => None,
    });
    let pages = pages.expect("the pages");
    let inside = |a: &farreach_types::event::Access| (pages..pages + 24 * 4096).contains(&a.addr);
    let seen: Vec<_> = r.accesses.iter().filter(|(_, a)| inside(a)).map(|(_, a)| (a.kind, a.addr - pages)).collect();
    let expected: Vec<_> = [9, 14].into_iter().chain(16..24).map(|page| (Kind::Load, page * 4096)).collect();
    assert_eq!(seen, expected);
    // Nothing is recorded in place of masked elements: between a gather and the next instruction are only its elements.
    let first = r.accesses.iter().position(|(_, a)| inside(a)).unwrap();
    let gather = r.accesses[..first].iter().rposition(|(_, a)| a.kind == Kind::Fetch).unwrap();
    let at = r.accesses[gather].1.addr;
    let loads: Vec<usize> = (0..r.accesses.len())
        .filter(|&i| r.accesses[i].1.kind == Kind::Fetch && r.accesses[i].1.addr == at)
        .map(|i| r.accesses[i + 1..].iter().take_while(|(_, a)| a.kind == Kind::Load).count())
        .collect();
    assert_eq!(loads, [0, 2, 8]);
}

#[test]
fn a_killed_child_loses_nothing_it_recorded() {
    let r = record(&program("processes", &[]), &["killed"]);
    assert_eq!(r.report.exit, Exit::Code(9));
    assert_eq!(r.report.lost, 1);
    assert_eq!(end(r.of(1).last().unwrap()), Some(End::Lost));
    // 100 rounds over 64 KiB by cache line, before it notifies its parent.
    let stores = r.accesses.iter().filter(|(a, x)| *a == 1 && x.kind == Kind::Store).count();
    assert!(stores >= 102_400, "{stores} stores");
}

#[test]
fn death_by_signal() {
    for (what, signal) in [("abort", 6), ("segv", 11)] {
        let r = record(&program("processes", &[]), &[what]);
        assert_eq!(r.report.exit, Exit::Signal(signal), "{what}");
        assert_eq!(end(&r.ops.last().unwrap().1), Some(End::Signal(signal)), "{what}");
        assert!(r.accesses.iter().all(|(_, a)| a.addr >= 4096), "{what}: the fatal store did not happen");
    }
}

#[test]
fn a_tree_of_processes() {
    let r = record(&program("processes", &[]), &["tree"]);
    assert_eq!(r.report.verified, 8);
    assert_eq!(r.ops.iter().filter(|(_, op)| matches!(op, Op::Fork { .. })).count(), 7);
}

#[test]
fn mappings_one_by_one() {
    let r = record(&program("maps", &[]), &[]);
    let ops = r.of(0);
    let page = 4096;
    let at = ops
        .iter()
        .position(
            |op| matches!(op, Op::Map(m) if m.len == 8 * page && m.backing == Backing::Anonymous && m.prot == Prot::RW),
        )
        .expect("the first mapping");
    let start = |i: usize| match ops[at + i] {
        Op::Map(m) => m.start,
        Op::Remap { new_start, .. } => *new_start,
        other => panic!("{i}: {other:x?}"),
    };
    let map =
        |start, pages: u64, prot, shared, backing| Op::Map(Mapping { start, len: pages * page, prot, shared, backing });
    let (a, b, c, heap, populated) = (start(0), start(6), start(7), start(9), start(11));
    let read = Prot { read: true, write: false, exec: false };
    let expected = [
        map(a, 8, Prot::RW, false, Backing::Anonymous),
        Op::Protect { start: a + page, len: page, prot: Prot::NONE },
        Op::Unmap { start: a + 2 * page, len: page },
        Op::Advise { start: a + 4 * page, len: 2 * page, advice: Advice::DontNeed },
        Op::Advise { start: a + 4 * page, len: 2 * page, advice: Advice::HugePage },
        Op::Advise { start: a + 4 * page, len: 2 * page, advice: Advice::Collapse },
        map(b, 1, read, true, Backing::Anonymous),
        Op::Remap { old_start: b, old_len: page, new_start: c, new_len: 3 * page },
        map(a + 6 * page, 1, Prot { read: true, write: false, exec: true }, false, Backing::Anonymous),
        map(heap, 16, Prot::RW, false, Backing::Heap),
        Op::Unmap { start: heap + 8 * page, len: 8 * page },
        map(populated, 2, Prot::RW, false, Backing::Anonymous),
        Op::Advise { start: populated, len: 2 * page, advice: Advice::Populate },
    ];
    for (i, e) in expected.iter().enumerate() {
        assert_eq!(ops[at + i], e, "event {i}");
    }
}

/// What the kernel stores is recorded where it fell, behind the call, and nothing else in that memory.
#[test]
fn stores_of_the_kernel() {
    let r = record(&program("kernel_stores", &[]), &[]);
    let (ops, page) = (r.of(0), 4096);
    let mapped = |op: &&&Op| matches!(op, Op::Map(m) if m.len == 64 * page && m.backing == Backing::Anonymous);
    let Some(Op::Map(Mapping { start: a, .. })) = ops.iter().find(mapped) else { panic!("the mapping") };
    let stored = |op: &&Op| match op {
        Op::KernelStore { start, len } if (*a..a + 64 * page).contains(start) => Some((start - a, *len)),
        _ => None,
    };
    let all: Vec<(u64, u64)> = ops.iter().filter_map(stored).collect();
    let status = std::mem::size_of::<libc::stat>() as u64;
    let calls = [(page + 100, 50), (4 * page - 20, 40), (6 * page, 20), (8 * page, status)];
    assert_eq!(all[..4], calls);
    // The frame, in one piece or several, from the upper end of its stack down.
    let (frame, end) = (&all[4..], 48 * page);
    let bytes: u64 = frame.iter().map(|(_, len)| len).sum();
    assert!(bytes > 300 && frame.iter().all(|(start, len)| start + len <= end && end - start < page), "{frame:x?}");
    // Arguments and environment, up to the upper end of the stack, before anything runs.
    let first = ops.iter().position(|op| matches!(op, Op::ThreadStart { .. })).expect("a thread starts");
    let ends = |op: &&&Op, end| matches!(op, Op::KernelStore { start, len } if start + len == end && *len > 1000);
    let stack = ops[..first].iter().find_map(|op| match op {
        Op::Map(m) if m.backing == Backing::Stack => Some(m.start + m.len),
        _ => None,
    });
    assert_eq!(ops[..first].iter().filter(|op| ends(op, stack.expect("a stack"))).count(), 1);
}

/// The example that runs a command; cargo builds it beside the tests.
fn livecount() -> std::path::PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().join("examples/livecount")
}

/// The program's standard output, arguments and environment are what they are without a recorder.
#[test]
fn output_and_environment_are_untouched() {
    let show = program("show", &[]);
    let big = "x".repeat(100_000);
    let run = |recorded: bool| {
        let mut c = if recorded {
            let mut c = Command::new(livecount());
            c.arg("--quiet").arg(&show);
            c
        } else {
            Command::new(&show)
        };
        let c = c.env_clear().env("FARREACH_VALGRIND_DIR", tool()).env("BIG", &big).env("LD_PRELOAD", "").env("A", "b");
        let out = c.args(["one", "two words", &big]).stderr(Stdio::piped()).output().unwrap();
        (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (native, recorded) = (run(false), run(true));
    assert_eq!(native.0, recorded.0);
    assert_eq!(recorded.1, "", "nothing on standard error");
}

#[test]
fn two_runs_at_once() {
    let plain = program("plain", &[]);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn({
                let p = plain.clone();
                move || record(&p, &[])
            })
        })
        .collect();
    let all: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(all[0].accesses.len() == all[1].accesses.len());
}

#[test]
fn an_interrupt_ends_the_program_and_keeps_what_was_seen() {
    // In the background the signal may be ignored, and the program would inherit that. SAFETY: plain system call.
    assert_ne!(unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) }, libc::SIG_ERR);
    let mut recorder = Recorder::start(&command(&program("processes", &[]), &["sleep"]), &options()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let before = Instant::now();
    recorder.interrupt();
    let r = drain(recorder);
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(r.report.interrupted, Some(2));
    assert_eq!(r.report.exit, Exit::Signal(2));
    assert!(r.accesses.len() > 10_000);
}

#[test]
fn stopping_early_ends_the_program() {
    let mut recorder = Recorder::start(&command(&program("processes", &[]), &["sleep"]), &options()).unwrap();
    assert!(recorder.next_batch().unwrap().is_some());
    let report = recorder.finish().unwrap();
    assert_eq!(report.exit, Exit::Signal(9));
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let start = |path: &str| {
        Recorder::start(&command(Path::new(path), &[]), &options()).err().map(|e| e.to_string()).expect("an error")
    };
    assert!(start("no-such-program-anywhere").contains("no such program"));
    assert!(start("/nonexistent/file").contains("No such file"));
    assert!(start("/etc/passwd").contains("not executable"));
    assert!(start("/").contains("not a file"));
    let file = crate::common::set_user_id("refused");
    assert!(start(file.to_str().unwrap()).contains("set-user-ID"));
    let none = farreach_live::Options { tool_dir: Some("/nonexistent".into()), ..Default::default() };
    let message = Recorder::start(&command(Path::new("/bin/true"), &[]), &none).err().expect("an error").to_string();
    assert!(message.contains("make -C capture/valgrind"), "{message}");
}

#[test]
fn a_full_shared_directory_is_a_clear_error() {
    let dir = crate::common::scratch().join(format!("small-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1M", "none"]).arg(&dir).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: mounting needs privileges");
        return;
    }
    let options = farreach_live::Options { shared_dir: Some(dir.clone()), ..options() };
    let mut recorder = Recorder::start(&command(Path::new("/bin/true"), &[]), &options).unwrap();
    let message = loop {
        match recorder.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(e) => break e.to_string(),
        }
    };
    drop(recorder);
    let _ = Command::new("umount").arg(&dir).status();
    assert!(message.contains("no space left"), "{message}");
}

#[test]
fn a_recorder_that_cannot_start_says_why() {
    let mut options = options();
    options.valgrind.push("--no-such-option".into());
    let mut recorder = Recorder::start(&command(Path::new("/bin/true"), &[]), &options).unwrap();
    let message = recorder.next_batch().expect_err("an error").to_string();
    assert!(message.contains("the recorder itself failed"), "{message}");
}

/// An instruction that Valgrind cannot run is no exit status of the program, neither of the command nor of a child.
#[test]
fn a_program_that_the_recorder_cannot_run_is_an_error() {
    let program = program("processes", &[]);
    for what in ["sharing", "sharing-child"] {
        let mut recorder = Recorder::start(&command(&program, &[what]), &options()).unwrap();
        let message = loop {
            match recorder.next_batch() {
                Ok(batch) => assert!(batch.is_some(), "{what}: no error"),
                Err(e) => break e.to_string(),
            }
        };
        let words = ["the recorder itself failed", "Valgrind does not support general clone()"];
        assert!(words.iter().all(|word| message.contains(word)) && message.lines().count() < 6, "{what}: {message}");
    }
}

#[test]
fn a_signal_to_farreach_alone_is_passed_on() {
    let mut c = Command::new(livecount());
    c.args(["--fast".as_ref(), program("processes", &[]).as_os_str(), "sleep".as_ref()]);
    let farreach = c.env("FARREACH_VALGRIND_DIR", tool()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    farreach_live::send(farreach.id(), libc::SIGTERM);
    let out = farreach.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("Signal(15)") && text.contains("interrupted: Some(15)"), "{text}");
}
