//! The conformance suite of operating systems: every placement policy and every allocator of the registry, with
//! nothing written for it. Tests are called `PLACEMENT/keys` and `allocator/keys`, so that `cargo test -p farreach-os
//! --test conformance thp/` is about one policy.
//!
//! * A frame belongs to one page, unless it is shared by copy-on-write or as a page of one object.
//! * Nothing is lost: frames are free, pinned, set aside, held back or in use; after all processes ended none is in
//!   use.
//! * Page tables and frames agree; superpages are aligned and whole; every translation that becomes invalid is reported
//!   to hardware.
//! * A full memory is an error that leaves everything as it was, and freed memory can be used again.
//! * Equal seeds give equal results (XC-4).
//! * There are superpages among what is tested, unless the policy makes none.

mod allocators;
mod configurations;
mod program;
mod suite;
mod system;

use farreach_os::placement::{PLACEMENTS, PlacementKind};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    // A guest's page tables are recorded: there is no program of mappings and faults to try on them. The tests of
    // `src/guest` make tables by hand.
    let policies = PLACEMENTS.iter().filter(|kind| kind.name != "guest");
    let mut trials: Vec<Trial> = policies.flat_map(|kind| of(kind)).collect();
    trials.extend(allocators::trials());
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test for each configuration of a policy.
fn of(kind: &'static PlacementKind) -> Vec<Trial> {
    let trial = |keys: String| {
        let name = format!("{}/{}", kind.name, if keys.is_empty() { "defaults" } else { &keys });
        Trial::test(name, move || Ok(suite::conform(kind.name, &keys)?))
    };
    let mut trials: Vec<Trial> = configurations::of(kind).into_iter().map(trial).collect();
    let (base, none) = (configurations::base(kind), configurations::BASE_PAGES.contains(&kind.name));
    // A policy that needs a file has no configuration.
    if configurations::build(kind.name, &base, 0).is_ok() {
        let superpages = move || Ok(suite::superpages(kind.name, &base, none)?);
        trials.push(Trial::test(format!("{}/superpages", kind.name), superpages));
    }
    trials
}

/// Fails with a message.
fn need(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
