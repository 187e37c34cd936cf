//! Every reference of the recorder beside every reference of the steps.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use farreach_live::Exit;
use farreach_steps::{Attempt, End, Options, Run, run};
use farreach_types::event::{Access, Kind};

use crate::build::{SIGNALS, program, remove};
use crate::differences::DIFFERENCES;
use crate::recorded::{Recorded, record};

/// How many unexplained differences of one program are listed.
const LISTED: usize = 100;

/// A fetch of the recorder with the loads and stores behind it.
struct Group<'r> {
    fetch: Access,
    references: &'r [Access],
}

fn groups(accesses: &[Access]) -> Vec<Group<'_>> {
    let starts: Vec<usize> = (0..accesses.len()).filter(|&i| accesses[i].kind == Kind::Fetch).collect();
    let ends = starts.iter().skip(1).copied().chain([accesses.len()]);
    let group = |(start, end): (usize, usize)| Group { fetch: accesses[start], references: &accesses[start + 1..end] };
    starts.iter().copied().zip(ends).map(group).collect()
}

/// Where the kernel puts things into a signal frame is its own business.
fn hide_frames(references: &[Access]) -> Vec<Access> {
    let hide = |a: &Access| Access { addr: if SIGNALS.contains(&a.addr) { SIGNALS.start } else { a.addr }, ..*a };
    references.iter().map(hide).collect()
}

/// As `L 20001000,4 S 20001000,4`.
fn list(references: &[Access]) -> String {
    let one = |a: &Access| format!("{} {:x},{}", if a.kind == Kind::Load { 'L' } else { 'S' }, a.addr, a.size);
    let all: Vec<String> = references.iter().map(one).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" ") }
}

/// What a comparison found.
#[derive(Default)]
pub struct Found {
    /// Which rows of [`DIFFERENCES`] were observed, by index.
    pub rows: Vec<bool>,
    /// What no row explains.
    pub unexplained: String,
    listed: usize,
    /// What was noted of instructions.
    shapes: HashSet<String>,
}

impl Found {
    /// Looks for a row that explains it.
    fn explained(&mut self, attempt: &Attempt, right: &[Access], says: &[Access]) -> bool {
        let code = format!("{:?}", attempt.code);
        let row = DIFFERENCES
            .iter()
            .position(|row| row.codes.iter().any(|begin| code.starts_with(begin)) && (row.says)(right, says));
        if let Some(row) = row {
            self.rows.resize(DIFFERENCES.len(), false);
            self.rows[row] = true;
        }
        row.is_some()
    }

    fn note(&mut self, text: std::fmt::Arguments<'_>) {
        self.listed += 1;
        if self.listed <= LISTED {
            let _ = writeln!(self.unexplained, "  {text}");
        }
    }

    /// Once for each instruction that differs in this way.
    fn note_references(&mut self, attempt: &Attempt, right: &[Access], says: &[Access]) {
        let shape = |references: &[Access]| references.iter().map(|a| (a.kind, a.size)).collect::<Vec<_>>();
        if self.shapes.insert(format!("{:?} {:?} {:?}", attempt.code, shape(right), shape(says))) {
            let (code, at, lock) = (attempt.code, attempt.at, if attempt.locked { "lock " } else { "" });
            self.note(format_args!("{lock}{code:?} at {at:#x}: right {}, recorded {}", list(right), list(says)));
        }
    }

    /// Joins what two programs have shown.
    pub fn join(&mut self, other: &Found) {
        self.rows.resize(DIFFERENCES.len(), false);
        self.rows.iter_mut().zip(&other.rows).for_each(|(a, b)| *a |= b);
        self.unexplained += &other.unexplained;
    }
}

/// Records a program and compares it with its steps.
pub fn compare(name: &str, program: &Path, steps: &Run) -> Found {
    let right = steps.attempts.len() + steps.references.len();
    let recorded = record(program, 4 * right + 10_000);
    let mut found = Found { rows: vec![false; DIFFERENCES.len()], ..Found::default() };
    compare_all(steps, &recorded, &mut found);
    if !found.unexplained.is_empty() {
        let more = found.listed.saturating_sub(LISTED);
        found.unexplained = format!("{name} ({}), {more} more:\n{}", program.display(), found.unexplained);
    }
    found
}

fn compare_all(steps: &Run, recorded: &Recorded, found: &mut Found) {
    compare_references(steps, recorded, found);
    let same_end = match (&recorded.exit, steps.end) {
        (Ok(Exit::Code(a)), End::Code(b)) => *a == b,
        (Ok(Exit::Signal(a)), End::Signal(b)) => *a == b,
        _ => false,
    };
    if !same_end {
        found.note(format_args!("end: {:?}, under the recorder {:?}", steps.end, recorded.exit));
    }
}

fn compare_references(steps: &Run, recorded: &Recorded, found: &mut Found) {
    if recorded.accesses.first().is_some_and(|first| first.kind != Kind::Fetch) {
        found.note(format_args!("the recording begins with a reference of no instruction"));
    }
    let groups = groups(&recorded.accesses);
    let mut groups = groups.iter().peekable();
    for (i, attempt) in steps.attempts.iter().enumerate() {
        let fetch = Access { kind: Kind::Fetch, addr: attempt.at, size: attempt.length };
        let next_at = steps.attempts.get(i + 1).map(|next| next.at);
        let is_next = |group: &&&Group<'_>| group.fetch == fetch;
        if attempt.fault.is_some() {
            // Nothing is right here.
            if next_at != Some(attempt.at) && groups.peek().filter(is_next).is_some() {
                let group = groups.next().expect("peeked");
                found.note(format_args!(
                    "{:?} at {:#x} faults, recorded are a fetch and {}",
                    attempt.code,
                    attempt.at,
                    list(group.references)
                ));
            }
            continue;
        }
        let Some(group) = groups.next() else {
            found.note(format_args!("{:?} at {:#x}: the recording has ended", attempt.code, attempt.at));
            return;
        };
        if group.fetch != fetch {
            let around = &steps.attempts[i.saturating_sub(3)..steps.attempts.len().min(i + 3)];
            let around = around.iter().fold(String::new(), |mut text, a| {
                let _ = write!(text, "\n    {:#x} {:?} {:?} {}", a.at, a.code, a.fault, list(steps.of(a)));
                text
            });
            found.note(format_args!(
                "step {i}: {:?} at {:#x}, recorded is a fetch of {} bytes at {:#x} with {}; around it:{around}",
                attempt.code,
                attempt.at,
                group.fetch.size,
                group.fetch.addr,
                list(group.references)
            ));
            return;
        }
        let (right, says) = (hide_frames(steps.of(attempt)), hide_frames(group.references));
        if right != says && !found.explained(attempt, &right, &says) {
            found.note_references(attempt, &right, &says);
        }
    }
    if let Some(group) = groups.next() {
        found.note(format_args!("recorded behind the end: {:x?} {}", group.fetch, list(group.references)));
    }
}

/// A comparison finds each kind of mistake in a recording.
#[test]
fn planted_mistakes_are_found() {
    let text = "#include \"begin.h\"\nmain: mov eax, pool[rip]\n\tadd pool[rip], eax\n\tpush rax\n\tpop rax\n\tret\n";
    let program = program("mistakes", text);
    let steps = run(&mut Command::new(&program), &Options::default()).expect("a program");
    remove(&program);
    let right: Vec<Access> = steps.accesses().collect();
    let what = |accesses: Vec<Access>, exit: Exit| {
        let mut found = Found::default();
        compare_all(&steps, &Recorded { accesses, exit: Ok(exit) }, &mut found);
        found.unexplained
    };
    assert_eq!(what(right.clone(), Exit::Code(0)), "");
    assert!(what(right.clone(), Exit::Signal(11)).contains("end:"));
    for i in 0..right.len() {
        let changed = |change: &dyn Fn(&mut Vec<Access>)| {
            let mut accesses = right.clone();
            change(&mut accesses);
            assert_ne!(what(accesses, Exit::Code(0)), "", "reference {i}, {:x?}", right[i]);
        };
        changed(&|all| {
            all.remove(i);
        });
        changed(&|all| all.insert(i, right[i]));
        changed(&|all| all[i].addr += 1);
        changed(&|all| all[i].size += 1);
        changed(&|all| {
            all[i].kind = match right[i].kind {
                Kind::Load => Kind::Store,
                _ => Kind::Load,
            }
        });
        if i > 0 {
            changed(&|all| all.swap(i - 1, i));
        }
    }
}
