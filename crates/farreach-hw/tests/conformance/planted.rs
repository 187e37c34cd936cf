//! Does the suite find faults? Designs with a planted fault: each must be found.

use super::effort;
use super::faulty::Fault::*;
use super::faulty::{Fault, Faulty};
use farreach_conformance::{Subject, conform};
use farreach_hw::tlb::{design, keys_of};
use farreach_types::params::Params;
use libtest_mimic::Trial;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

const SINGLE: (&str, &str) = ("single", "entries=16,replacement=lru");
const USED_LATE: (&str, &str) = ("single", "entries=16,fill_sets_used=false");
const UNTAGGED: (&str, &str) = ("single", "entries=16,process_ids=false");
const DRAWN: (&str, &str) = ("single", "entries=16,replacement=random");
const PARTIAL: (&str, &str) = ("partial", "entries=8,factor=4");
const LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4");
const UNTAGGED_LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,process_ids=false");
const DRAWN_LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,replacement=random");

/// The faults, and the designs they are planted in.
const PLANTED: &[((&str, &str), &[Fault])] = &[
    (
        SINGLE,
        &[
            InvalidationIgnored,
            InvalidationOfFirstPage,
            InvalidationWithoutLastPage,
            InvalidationOfSpace,
            InvalidationNotCounted,
            EndIgnored,
            WrongFrame,
            WrongProtection,
            EvictionNotReported,
            InvalidationNotReported,
            MissCountedTwice,
            MissOnTheWrongSide,
            EvictionNotCounted,
            MissCalledHit,
            TwiceTheEntries,
            OnePageTwice,
            AlwaysModified,
            NeverModified,
            TimeForgotten,
        ],
    ),
    (USED_LATE, &[AlwaysFilterable, NeverUsed]),
    (UNTAGGED, &[SwitchIgnored]),
    (DRAWN, &[SeedIgnored, NotRepeatable]),
    (
        PARTIAL,
        &[
            InvalidationIgnored,
            InvalidationOfFirstPage,
            InvalidationWithoutLastPage,
            InvalidationOfSpace,
            InvalidationNotCounted,
            EndIgnored,
            StaleSecondLevel,
            WrongFrame,
            WrongProtection,
            EvictionNotReported,
            InvalidationNotReported,
            MissCountedTwice,
            EvictionNotCounted,
            HitCountsAFill,
            TwiceTheEntries,
            OnePageTwice,
            AlwaysModified,
            NeverModified,
            NeverUsed,
        ],
    ),
    (
        LEVELS,
        &[
            InvalidationIgnored,
            InvalidationOfFirstPage,
            InvalidationWithoutLastPage,
            InvalidationOfSpace,
            InvalidationNotCounted,
            DemotionIgnored,
            EndIgnored,
            StaleSecondLevel,
            WrongFrame,
            WrongProtection,
            EvictionNotReported,
            InvalidationNotReported,
            MissCountedTwice,
            MissOnTheWrongSide,
            HitCountsAFill,
            MissCalledHit,
            AlwaysModified,
        ],
    ),
    (UNTAGGED_LEVELS, &[SwitchIgnored]),
    (DRAWN_LEVELS, &[SeedIgnored, NotRepeatable]),
];

/// The faults that show in designs which nobody can look into.
const PLANTED_OPAQUE: &[((&str, &str), &[Fault])] = &[
    (
        SINGLE,
        &[
            InvalidationIgnored,
            InvalidationOfFirstPage,
            InvalidationWithoutLastPage,
            EndIgnored,
            EvictionNotReported,
            InvalidationNotReported,
            MissCalledHit,
            StaleSecondLevel,
        ],
    ),
    (USED_LATE, &[AlwaysFilterable]),
    (UNTAGGED, &[SwitchIgnored]),
    (DRAWN, &[NotRepeatable]),
    (PARTIAL, &[InvalidationIgnored, EvictionNotReported, InvalidationNotReported]),
];

thread_local! {
    /// So that no two designs are alike.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// Assertions of the design itself may find the fault first; their messages are suppressed.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}
static PANIC_HOOK: Once = Once::new();

/// A test for each.
pub fn trials() -> Vec<Trial> {
    let trial = |((kind, keys), fault, opaque): ((&'static str, &'static str), Fault, bool)| {
        let place = if opaque { "planted/opaque" } else { "planted" };
        Trial::test(format!("{place}/{kind}/{fault:?}"), move || {
            let why = found(kind, keys, fault, opaque)?.ok_or(format!("{kind}/{keys}: {fault:?} was not found"))?;
            if std::env::var_os("FARREACH_PLANTED").is_some() {
                println!("{kind}: {fault:?}: {why}");
            }
            Ok(())
        })
    };
    let sound = Trial::test("planted/nothing", || {
        for (list, opaque) in [(PLANTED, false), (PLANTED_OPAQUE, true)] {
            for ((kind, keys), _) in list {
                if let Some(why) = found(kind, keys, None, opaque)? {
                    return Err(format!("{kind}/{keys}: without a fault this was found: {why}").into());
                }
            }
        }
        Ok(())
    });
    let all = |list: &'static [((&'static str, &'static str), &'static [Fault])], opaque| {
        list.iter().flat_map(move |&(place, faults)| faults.iter().map(move |&fault| (place, fault, opaque)))
    };
    all(PLANTED, false).chain(all(PLANTED_OPAQUE, true)).map(trial).chain([sound]).collect()
}

/// The result of the suite for a design with this fault.
fn found(kind: &str, keys: &str, fault: Fault, opaque: bool) -> Result<Option<String>, String> {
    let mut subject = Subject::new(design(kind).expect("it is in the registry"), keys)?.examined();
    if opaque {
        (subject.traits.opaque, subject.traits.probes) = (true, false);
    }
    let design = subject.design;
    subject.make = Box::new(move |params| {
        let mut values = params.as_json().clone();
        let number = MADE.get();
        MADE.set(number + 1);
        match fault {
            TwiceTheEntries => _ = values.insert("entries".into(), (2 * params.int("entries")).into()),
            SeedIgnored => _ = values.insert("seed".into(), 1.into()),
            NotRepeatable => _ = values.insert("seed".into(), number.into()),
            _ => {}
        }
        let tlb = (design.build)(&Params::resolve(&keys_of(design, &values), &values)?)?;
        Ok(Box::new(Faulty::new(tlb, fault, opaque)))
    });
    PANIC_HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |why| {
            if !EXPECTED.get() {
                hook(why)
            }
        }));
    });
    EXPECTED.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| conform(&subject, &effort(true))));
    EXPECTED.set(false);
    Ok(match result {
        Ok(result) => result.err(),
        Err(why) => Some(format!("the design itself: {:?}", why.downcast_ref::<String>())),
    })
}
