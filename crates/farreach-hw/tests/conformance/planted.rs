//! Does the suite find faults? Designs with a planted fault: each must be found.

use super::faulty::Fault::*;
use super::faulty::{Fault, Faulty};
use super::subject::Subject;
use super::suite::{Effort, LONG, conform};
use super::tally::need;
use farreach_hw::tlb::design;
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

thread_local! {
    /// So that no two designs are alike.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// Assertions of the design itself may find the fault first; their messages are suppressed.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}
static PANIC_HOOK: Once = Once::new();

/// A test for each.
pub fn trials() -> Vec<Trial> {
    let trial = |((kind, keys), fault): ((&'static str, &'static str), Fault)| {
        Trial::test(format!("planted/{kind}/{fault:?}"), move || {
            let why = found(kind, keys, fault, LONG)?;
            need(why.is_some(), || format!("{kind}/{keys}: {fault:?} was not found"))?;
            if std::env::var_os("FARREACH_PLANTED").is_some() {
                println!("{kind}: {fault:?}: {}", why.unwrap_or_default());
            }
            Ok(())
        })
    };
    let sound = Trial::test("planted/nothing", || {
        for ((kind, keys), _) in PLANTED {
            let why = found(kind, keys, None, LONG)?;
            need(why.is_none(), || format!("{kind}/{keys}: without a fault this was found: {why:?}"))?;
        }
        Ok(())
    });
    let all = PLANTED.iter().flat_map(|&(place, faults)| faults.iter().map(move |&fault| (place, fault)));
    all.map(trial).chain([sound]).collect()
}

/// The result of the suite for a design with this fault.
fn found(kind: &str, keys: &str, fault: Fault, effort: Effort) -> Result<Option<String>, String> {
    let mut subject = Subject::new(design(kind).expect("it is in the registry"), keys)?.examined();
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
        let tlb = (design.build)(&Params::resolve(design.keys, &values)?)?;
        Ok(Box::new(Faulty::new(tlb, fault)))
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
    let result = catch_unwind(AssertUnwindSafe(|| conform(&subject, effort)));
    EXPECTED.set(false);
    Ok(match result {
        Ok(result) => result.err(),
        Err(why) => Some(format!("the design itself: {:?}", why.downcast_ref::<String>())),
    })
}
