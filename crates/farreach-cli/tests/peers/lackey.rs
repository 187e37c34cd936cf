//! Are the references those that an independent recorder sees? The reference is Lackey, one of Valgrind's own tools.

use crate::Alone;
use std::path::Path;
use std::process::Command;

use crate::common::{command, drain, options, program, scratch, tool};
use farreach_live::Recorder;
use farreach_types::event::{Access, Kind};

/// Lackey's text: I, L, S lines, and M for a load and a store.
fn read_lackey(text: &str) -> Vec<Access> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((kind, rest)) = line.trim_start().split_once(' ') else { continue };
        let Some((addr, size)) = rest.trim().split_once(',') else { continue };
        let (Ok(addr), Ok(size)) = (u64::from_str_radix(addr, 16), size.parse()) else { continue };
        let mut push = |kind| all.push(Access { kind, addr, size });
        match kind {
            "I" => push(Kind::Fetch),
            "L" => push(Kind::Load),
            "S" => push(Kind::Store),
            "M" => {
                push(Kind::Load);
                push(Kind::Store);
            }
            _ => {}
        }
    }
    all
}

/// Options of Valgrind's core. With chasing, it merges the two sides of `a && b`, and instructions are counted that
/// never ran. Without exact registers it drops loads into registers that are written again soon.
pub const COMMON: [&str; 5] = [
    "--vgdb=no",
    "-q",
    "--command-line-only=yes",
    "--vex-guest-chase=no",
    "--vex-iropt-register-updates=allregs-at-mem-access",
];

pub fn lackey_tool() -> Option<&'static Path> {
    ["/usr/libexec/valgrind/lackey-amd64-linux", "/usr/lib/valgrind/lackey-amd64-linux"]
        .map(Path::new)
        .into_iter()
        .find(|p| p.exists())
}

/// Lackey's output for a program, in the same directory as the recorder, and with the variables that the core adds to
/// the environment, so that the stacks are alike.
pub fn theirs(lackey: &Path, program: &Path) -> Vec<Access> {
    let copy = tool().join("lackey-amd64-linux");
    if !copy.exists() {
        std::fs::copy(lackey, &copy).expect("Lackey copied");
    }
    let log = scratch().join(format!("lackey-{}.log", std::process::id()));
    let status = Command::new(&copy)
        .args(COMMON)
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"])
        .arg(format!("--log-file={}", log.display()))
        .arg(program)
        .env_clear()
        .env("VALGRIND_LAUNCHER", "/lackey")
        .env("VALGRIND_LIB", tool())
        .output()
        .expect("Lackey runs");
    assert_eq!(status.status.code(), Some(7));
    read_lackey(&std::fs::read_to_string(&log).expect("Lackey's trace"))
}

/// A fetch and the data references behind it.
type Step = (Access, Vec<Access>);

/// One of each instruction that ran. Lackey's have another fetch behind the last iteration of a repeated string
/// instruction, without references.
fn steps(all: &[Access]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for a in all {
        match steps.last_mut() {
            _ if a.kind == Kind::Fetch => {
                let finished = |(fetch, data): &Step| fetch == a && data.is_empty();
                if steps.last().is_some_and(finished) {
                    steps.pop();
                }
                steps.push((*a, Vec::new()));
            }
            Some((_, data)) => data.push(*a),
            None => panic!("a reference before the first fetch: {a:x?}"),
        }
    }
    let mut kept: Vec<Step> = Vec::new();
    for step in steps {
        let again = |(fetch, data): &Step| *fetch == step.0 && !data.is_empty() && step.1.is_empty();
        if !kept.last().is_some_and(again) {
            kept.push(step);
        }
    }
    kept
}

/// Lackey sees the code after Valgrind has removed loads whose value nobody uses, and sees operands in the pieces in
/// which Valgrind takes them. So each of its references lies in one of ours, and we may have more loads.
#[test]
fn every_reference_that_lackey_sees_in_the_same_order() {
    let alone = Alone::new();
    let Some(lackey) = lackey_tool() else {
        eprintln!("skipped: this Valgrind comes without Lackey");
        return;
    };
    let programs = ["plain", "words"].map(|name| program(name, &["-static"]));
    let theirs = programs.each_ref().map(|program| theirs(lackey, program));

    alone.empty_environment();
    let mut options = options();
    options.valgrind.push("--keep-environment=yes".into());
    for (program, theirs) in programs.iter().zip(theirs) {
        let ours = drain(Recorder::start(&command(program, &[]), &options).expect("the program starts"));
        let ours: Vec<Access> = ours.accesses.iter().map(|(_, a)| *a).collect();
        let name = program.display();
        assert!(theirs.len() > 20_000, "{name}: Lackey saw only {} references", theirs.len());
        let (ours, theirs) = (steps(&ours), steps(&theirs));
        let mut unused = 0;
        for (i, ((our_fetch, our_data), (their_fetch, their_data))) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(our_fetch, their_fetch, "{name}: instruction {i}");
            let within = |inner: &Access, outer: &Access| {
                let end = |a: &Access| a.addr + u64::from(a.size);
                inner.kind == outer.kind && inner.addr >= outer.addr && end(inner) <= end(outer)
            };
            let seen = |a: &Access| their_data.iter().any(|b| within(b, a));
            let right = their_data.iter().all(|b| our_data.iter().any(|a| within(b, a)))
                && our_data.iter().all(|a| seen(a) || a.kind == Kind::Load);
            assert!(right, "{name}: instruction {i}: {our_fetch:x?} {our_data:x?}, Lackey {their_data:x?}");
            unused += our_data.iter().filter(|a| !seen(a)).count();
        }
        assert_eq!(ours.len(), theirs.len(), "{name}");
        assert!(unused < ours.len() / 100, "{name}: {unused} loads that Lackey does not see");
    }
}
