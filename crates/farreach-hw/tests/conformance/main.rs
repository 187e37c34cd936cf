//! The conformance suite: every design of the registry is held to the contract of [`farreach_hw::tlb::Tlb`], in many
//! configurations, with nothing written for it. Tests are called `KIND/keys`, so that `cargo test -p farreach-hw
//! --test conformance KIND/` is about one design.
//!
//! * Every hit, every probe and every page of an entry agrees with the page table (XC-3).
//! * No entry survives invalidation or demotion, the end of its space, or, without process ids, a process switch
//!   (T94-18, T94-42).
//! * Counters add up, lookup by lookup (XC-5). Entries do not exceed the capacity, and a page has one entry where the
//!   design allows only one (T94-17).
//! * A filterable lookup, repeated, is a hit that changes nothing, and a design that sees no filtered lookups ends in
//!   the same state.
//! * Equal seeds give equal results (XC-4).
//!
//! The suite itself is tested with planted faults: `planted/...`.

mod changes;
mod configurations;
mod faulty;
mod filtered;
mod layout;
mod planted;
mod subject;
mod suite;
mod table;
mod tally;
mod timed;
mod truth;
mod watch;
mod world;

use farreach_hw::tlb::{DESIGNS, Design};
use libtest_mimic::{Arguments, Trial};
use subject::Subject;
use suite::{LONG, SHORT, conform};

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
        let test = move || Ok(conform(&subject?.examined(), if c.long { LONG } else { SHORT })?);
        Some(Trial::test(name, test))
    };
    configurations::of(design).into_iter().filter_map(trial).collect()
}
