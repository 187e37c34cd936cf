//! Random programs beside the recorder. A program that comes out wrong stays, and its seed is printed.

use std::process::Command;

use farreach_oracle::dice::seeds;
use farreach_steps::{End, Options, run};

use crate::build::{MEMORY, program, remove};
use crate::compare::compare;
use crate::writer::{Style, text};

fn each_seed(style: Style, cases: u64) {
    let mut wrong = String::new();
    for seed in seeds(cases) {
        let name = format!("random-{style:?}-{seed}");
        let program = program(&name, &text(seed, style));
        let options = Options { witness: (style == Style::Plain).then_some(MEMORY), limit: Some(200_000) };
        match run(&mut Command::new(&program), &options) {
            Ok(steps) => {
                assert_eq!(steps.end, End::Code(0), "{name} does not end by itself");
                let found = compare(&name, &program, &steps);
                if !found.unexplained.is_empty() {
                    wrong += &format!("FARREACH_SEED={seed}: {}", found.unexplained);
                    continue;
                }
            }
            Err(e) => {
                wrong += &format!("FARREACH_SEED={seed}: {}: {e}\n", program.display());
                continue;
            }
        }
        remove(&program);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn random_programs() {
    each_seed(Style::Plain, 3);
}

#[test]
fn random_programs_with_faults() {
    each_seed(Style::Faults, 3);
}
