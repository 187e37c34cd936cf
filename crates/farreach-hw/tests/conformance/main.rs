//! The conformance suite (`farreach-conformance`) on every design of the registry, in many configurations. Tests are
//! called `KIND/keys`, so that `cargo test -p farreach-hw --test conformance KIND/` is about one design.
//!
//! The suite itself is tested with planted faults: `planted/...`.

mod configurations;
mod faulty;
mod planted;

use farreach_conformance::{Effort, Subject, conform};
use farreach_hw::tlb::{DESIGNS, Design};
use farreach_oracle::dice;
use libtest_mimic::{Arguments, Trial};

/// Long streams, and short ones.
fn effort(long: bool) -> Effort {
    let (streams, steps) = if long { (3, 1600) } else { (1, 600) };
    Effort { seeds: dice::seeds(streams), steps }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = DESIGNS.iter().flat_map(|design| of(design)).collect();
    trials.extend(planted::trials());
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test for each configuration of a design.
fn of(design: &'static Design) -> Vec<Trial> {
    let trial = |c: configurations::Configuration| {
        let subject = match Subject::new(design, &c.keys) {
            Err(_) if c.may_be_refused => return None,
            subject => subject,
        };
        let name = format!("{}/{}", design.kind, if c.keys.is_empty() { "defaults" } else { &c.keys });
        let test = move || Ok(conform(&subject?.examined(), &effort(c.long))?);
        Some(Trial::test(name, test))
    };
    configurations::of(design).into_iter().filter_map(trial).collect()
}
