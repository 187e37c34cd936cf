//! The conformance suite: every design of the registry is held to the contract of [`farreach_hw::tlb::Tlb`], in many
//! configurations, with nothing written for it. Tests are called `KIND/keys`, so that `cargo test -p farreach-hw
//! --test conformance KIND/` is about one design.
//!
//! * Every hit, every probe and every page of an entry says what the page table says (XC-3).
//! * Nothing is left of what was invalidated or demoted, of a space that ended, or, without process ids, of another
//!   process (T94-18, T94-42).
//! * Counters add up, lookup by lookup (XC-5). Entries fit, and where a page has one entry it has one (T94-17).
//! * A filterable lookup, repeated, is a hit that changes nothing, and a design that sees no filtered lookups ends up
//!   the same.
//! * Equal seeds give equal results (XC-4).
//!
//! Whether it finds what it is for is tested too: `planted/...`.

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
