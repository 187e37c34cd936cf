//! Programs for each family of instructions: those of `fixtures/steps`, and one with every form.

use std::fmt::Write;
use std::process::Command;

use farreach_steps::{Options, run};

use crate::build::{MEMORY, has, program, sources};
use crate::compare::{Found, compare};
use crate::differences::{DIFFERENCES, PROGRAMS};
use crate::forms::{at_rbx, forms};

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
    let mut families = vec![every_form()];
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

/// Every form once, with the operand in the middle of the pool.
fn every_form() -> Family {
    let mut text = "#include \"begin.h\"\nmain:\n".to_owned();
    for form in forms() {
        let _ = writeln!(text, "\tlea rbx, pool+256[rip]\n\tmov r10d, 5\n\t{}", at_rbx(&form));
    }
    Family { name: "forms".to_owned(), text: text + "\tret\n", witness: true }
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
        assert!(!family.witness || steps.witnessed > 3, "{}: {} witnessed", family.name, steps.witnessed);
        let found = compare(&family.name, &program, &steps);
        match PROGRAMS.iter().find(|(name, _)| *name == family.name) {
            None => all.join(&found),
            Some((name, why)) if found.unexplained.is_empty() => {
                let _ = writeln!(all.unexplained, "{name} does not differ any more: {why}");
            }
            Some(_) => {}
        }
    }
    assert!(all.unexplained.is_empty(), "{}", all.unexplained);
    let gone: Vec<&str> = DIFFERENCES
        .iter()
        .zip(&all.rows)
        .filter(|(row, seen)| !**seen && has(row.needs))
        .map(|(row, _)| row.what)
        .collect();
    assert!(gone.is_empty(), "not observed any more, to be taken out of differences.rs and the book: {gone:#?}");
}
