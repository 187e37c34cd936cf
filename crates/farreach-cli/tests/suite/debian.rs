//! Programs of Debian's repository under `farreach trap`: their output and exit status are those of a native run.
//! `fixtures/debian/programs.txt` lists them.

use crate::cli::{Dir, Ran, command_of, optimised};
use crate::cli_trap::traps_work;
use crate::common::root;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// A row of the list.
struct Row<'a> {
    program: &'a str,
    short: bool,
    command: &'a str,
}

fn rows(list: &str) -> Vec<Row<'_>> {
    let row = |line| {
        let fields = || -> Option<(&str, &str, &str)> {
            let (program, rest) = str::split_once(line, char::is_whitespace)?;
            let (set, command) = rest.trim_start().split_once(char::is_whitespace)?;
            Some((program, set, command.trim_start()))
        };
        let (program, set, command) = fields().unwrap_or_else(|| panic!("three fields are expected: {line}"));
        assert!(["short", "long"].contains(&set), "short or long is expected: {line}");
        Row { program, short: set == "short", command }
    };
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// A new directory with all that the commands use.
fn prepared() -> Dir {
    let dir = Dir::new();
    let copy = |from: &Path| {
        let name = from.file_name().unwrap().to_str().unwrap();
        std::fs::copy(from, dir.path(name)).unwrap();
    };
    for file in std::fs::read_dir(root().join("fixtures/debian")).unwrap() {
        copy(&file.unwrap().path());
    }
    for name in ["demo.c", "demo_part.h"] {
        copy(&root().join("fixtures/programs").join(name));
    }
    dir
}

/// Status and output of a command for the shell. `shell`: what runs `sh`.
fn outcome(mut shell: Command, command: &str) -> Ran {
    let dir = prepared();
    shell.args(["sh", "-c", command]).current_dir(dir.path("")).env("LC_ALL", "C").stdin(Stdio::null());
    Ran::of(shell.output().unwrap())
}

/// Runs these rows natively and by traps with these options; returns the programs that ran.
fn compare<'a>(rows: impl Iterator<Item = &'a Row<'a>>, options: &str) -> BTreeSet<&'a str> {
    let (farreach, _) = optimised();
    let (mut ran, mut wrong) = (BTreeSet::new(), Vec::new());
    for Row { program, command, .. } in rows {
        if !is_installed(program) {
            eprintln!("skipped: {program} is not installed");
            continue;
        }
        let native = outcome(Command::new("env"), command);
        let mut trap = command_of(&farreach);
        trap.arg("trap").args(options.split_whitespace()).args(["-o", "/dev/null", "--"]);
        let trapped = outcome(trap, command);
        if (native.status, &native.out) != (trapped.status, &trapped.out) {
            wrong.push(format!(
                "{command}\nnatively {}: {}\nwith {options} {}: {}{}",
                native.status, native.out, trapped.status, trapped.out, trapped.err
            ));
        }
        ran.insert(*program);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    ran
}

/// The list, each row a line.
fn list() -> String {
    let list = std::fs::read_to_string(root().join("fixtures/debian/programs.txt")).unwrap();
    list.lines().fold(String::new(), |list, line| match line.strip_prefix(' ') {
        Some(more) => list + " " + more.trim_start(),
        None => list + "\n" + line,
    })
}

#[test]
fn programs_of_debian_run_as_natively() {
    if !traps_work() {
        return;
    }
    let list = list();
    let rows = rows(&list);
    let ran = compare(rows.iter().filter(|row| row.short), "");
    assert!(ran.len() >= 20, "only these ran: {ran:?}");
}

/// With servers, virtual machines and compilers; and with few entries, so that pages come and go all the time.
#[test]
fn more_programs_of_debian_run_as_natively() {
    if !traps_work() || std::env::var_os("FARREACH_TIMES").is_none() {
        return;
    }
    let list = list();
    let rows = rows(&list);
    let mut ran = compare(rows.iter().filter(|row| !row.short), "");
    ran.extend(compare(rows.iter().filter(|row| row.short), "-m t94/single:entries=256,replacement=fifo"));
    assert!(ran.len() >= 30, "only these ran: {ran:?}");
}
