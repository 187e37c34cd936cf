//! Programs for each family of instructions: those of `fixtures/steps`, and one with every form.

use std::fmt::Write;
use std::process::Command;

use farreach_steps::{End, Options, run};

use crate::build::{MEMORY, has, program, program_with, remove, sources};
use crate::compare::{Found, compare};
use crate::differences::{DIFFERENCES, END_BY_RIP, PROGRAMS};
use crate::forms::{Form, forms, with_operand};
use crate::recorded::record;

/// A program of a family.
struct Family {
    name: String,
    text: String,
    /// Whether the processor may be asked about its addresses: it handles no faults itself.
    witness: bool,
}

/// The sources. The first line of each may have `needs: feature ...` and `handles faults`.
fn families() -> Vec<Family> {
    let mut files: Vec<_> = std::fs::read_dir(sources())
        .expect("fixtures/steps")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "S"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let mut families: Vec<Family> = vec![
        every_form("forms", &["[rbx]"], true),
        every_form(
            "forms-otherwise",
            &["[rip + pool + 256]", "fs:[288]", "[ebx + r12d * 2]", "ds:[pool + 512]"],
            false,
        ),
    ];
    for file in files {
        let name = file.file_stem().expect("a name").to_str().expect("ASCII").to_owned();
        let text = std::fs::read_to_string(&file).expect("a source");
        let first = text.lines().next().unwrap_or_default();
        let needs = first.split_once("needs:").map_or("", |(_, needs)| needs.trim_end_matches("*/"));
        if let Some(missing) = needs.split_whitespace().find(|feature| !has(feature)) {
            eprintln!("{name} skipped: no {missing} here");
            continue;
        }
        let witness = !first.contains("handles faults");
        families.push(Family { name, text: format!("#include \"begin.h\"\n{text}"), witness });
    }
    families
}

/// Every form once with each of these operands.
fn every_form(name: &str, operands: &[&str], witness: bool) -> Family {
    let mut text = "#include \"begin.h\"\nmain:\n\tmov edi, 0x1002\n\tlea rsi, pool[rip]\n".to_owned();
    text += "\tmov eax, 158\n\tsyscall\n\tmov r12d, 16\n";
    for form in forms() {
        for operand in operands.iter().filter(|operand| !operand.contains("rip") || !ends_by_rip(&form)) {
            let _ = writeln!(text, "\tlea rbx, pool+256[rip]\n\tmov r10d, 5\n\t{}", with_operand(&form, operand));
        }
    }
    Family { name: name.to_owned(), text: text + "\tret\n", witness }
}

/// Whether it is one of [`END_BY_RIP`].
pub fn ends_by_rip(form: &Form) -> bool {
    let text = form.text(|_| String::new());
    END_BY_RIP.iter().any(|(name, _)| text.starts_with(name))
}

/// The version of Valgrind with which the recorder was built.
fn valgrind() -> (u32, u32) {
    let out = Command::new("valgrind").arg("--version").output().expect("valgrind, which has the recorder's parts");
    let text = String::from_utf8(out.stdout).expect("a version");
    let mut numbers = text.trim_start_matches("valgrind-").split('.').map(|n| n.trim().parse().expect("a number"));
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// Each of [`END_BY_RIP`] ends the recorder, up to a version.
#[test]
fn instructions_that_end_the_recorder_by_an_operand_relative_to_rip() {
    for (name, mended) in END_BY_RIP {
        let form = forms().into_iter().find(|form| form.text(|_| String::new()).starts_with(name));
        let Some(form) = form else { continue };
        let operand = "[rip + pool + 256]";
        let program = program(name, &format!("#include \"begin.h\"\nmain: {}\n\tret\n", with_operand(&form, operand)));
        let ends = record(&program, 1000).exit.is_err();
        assert_eq!(
            ends,
            valgrind() < *mended,
            "{name} of Valgrind {:?}: the version in END_BY_RIP is wrong",
            valgrind()
        );
        remove(&program);
    }
}

#[test]
fn every_reference_is_recorded_as_the_processor_makes_it() {
    let mut all = Found::default();
    for family in families() {
        let program = program(&family.name, &family.text);
        let options = Options { witness: family.witness.then_some(MEMORY), limit: Some(1_000_000) };
        let steps = match run(&mut Command::new(&program), &options) {
            Ok(steps) => steps,
            Err(e) => {
                let _ = writeln!(all.unexplained, "{}: {e}", family.name);
                continue;
            }
        };
        assert_eq!(steps.end, End::Code(0), "{} does not end by itself", family.name);
        assert!(!family.witness || steps.witnessed > 3, "{}: {} witnessed", family.name, steps.witnessed);
        let found = compare(&family.name, &program, &steps);
        let as_known = PROGRAMS.iter().any(|(name, _)| *name == family.name) != found.unexplained.is_empty();
        match PROGRAMS.iter().find(|(name, _)| *name == family.name) {
            None => all.join(&found),
            Some((name, why)) if found.unexplained.is_empty() => {
                let _ = writeln!(all.unexplained, "{name} does not differ any more: {why}");
            }
            Some(_) => {}
        }
        if as_known {
            remove(&program);
        }
    }
    for (row, seen) in DIFFERENCES.iter().zip(&all.rows) {
        if !seen && has(row.needs) {
            let _ = writeln!(all.unexplained, "not observed, to be taken out here and in the book: {}", row.what);
        }
    }
    assert!(all.unexplained.is_empty(), "{}", all.unexplained);
}

/// What a compiler makes of ordinary code, from the plainest to vectors.
#[test]
fn compiled_code_is_recorded_as_the_processor_runs_it() {
    let mut all = Found::default();
    let ways: [(&str, &[&str], &str); 3] = [
        ("compiled-0", &["-O0"], "base"),
        ("compiled-2", &["-O2"], "base"),
        ("compiled-avx2", &["-O3", "-march=haswell"], "avx2"),
    ];
    for (name, flags, needs) in ways.into_iter().filter(|(_, _, needs)| has(needs)) {
        let mut flags = flags.to_vec();
        let source = sources().join("compiled.c");
        flags.extend(["-ffreestanding", "-fno-pic", "-fno-stack-protector", source.to_str().expect("a plain path")]);
        // The status is what it computes.
        let text = "#include \"begin.h\"\nmain: call program\n\tmov edi, eax\n\tmov eax, 231\n\tsyscall\n";
        let program = program_with(name, text, &flags);
        let options = Options { witness: None, limit: Some(1_000_000) };
        let steps = run(&mut Command::new(&program), &options).expect(needs);
        assert!(steps.attempts.len() > 5_000, "{name}: {} steps", steps.attempts.len());
        let found = compare(name, &program, &steps);
        if found.unexplained.is_empty() {
            remove(&program);
        }
        all.join(&found);
    }
    assert!(all.unexplained.is_empty(), "{}", all.unexplained);
}
