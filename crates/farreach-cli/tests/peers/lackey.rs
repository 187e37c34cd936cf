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

fn lackey_tool() -> Option<&'static Path> {
    ["/usr/libexec/valgrind/lackey-amd64-linux", "/usr/lib/valgrind/lackey-amd64-linux"]
        .map(Path::new)
        .into_iter()
        .find(|p| p.exists())
}

/// Lackey's output for a program, in the same directory as the recorder, and with the variables that the core adds to
/// the environment, so that the stacks are alike.
fn theirs(lackey: &Path, program: &Path) -> Vec<Access> {
    let copy = tool().join("lackey-amd64-linux");
    if !copy.exists() {
        std::fs::copy(lackey, &copy).expect("Lackey copied");
    }
    let log = scratch().join(format!("lackey-{}.log", std::process::id()));
    // With chasing, Valgrind merges the two sides of `a && b` and both count instructions that never ran. Without exact
    // registers it drops loads into registers that are written again soon.
    let registers = "--vex-iropt-register-updates=allregs-at-mem-access";
    let common = ["--vgdb=no", "-q", "--command-line-only=yes", "--vex-guest-chase=no", registers];
    let status = Command::new(&copy)
        .args(common)
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

#[test]
fn every_reference_as_lackey_sees_it_in_the_same_order() {
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
        let differ = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        if let Some(at) = differ {
            let end = |all: &[Access]| all.len().min(at + 5);
            let (a, b) = (&ours[at..end(&ours)], &theirs[at..end(&theirs)]);
            panic!("{name}: reference {at} of {}: {a:x?}, Lackey {b:x?}", ours.len());
        }
        assert_eq!(ours.len(), theirs.len(), "{name}");
    }
}
