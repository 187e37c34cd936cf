//! Does the suite find what it is for? Designs with a fault planted around them: each must be found.

use super::subject::Subject;
use super::suite::{Effort, LONG, conform};
use super::tally::need;
use farreach_hw::tlb::{Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Tlb, Unfiltered, design};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};
use libtest_mimic::Trial;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    InvalidationIgnored,
    InvalidationOfFirstPage,
    InvalidationWithoutLastPage,
    InvalidationOfSpace,
    InvalidationNotCounted,
    DemotionIgnored,
    EndIgnored,
    SwitchIgnored,
    /// A level behind the design that keeps what was invalidated.
    StaleSecondLevel,
    WrongFrame,
    WrongProtection,
    AlwaysFilterable,
    EvictionNotReported,
    InvalidationNotReported,
    MissCountedTwice,
    MissOnTheWrongSide,
    EvictionNotCounted,
    HitCountsAFill,
    MissCalledHit,
    TwiceTheEntries,
    OnePageTwice,
    AlwaysModified,
    NeverModified,
    NeverUsed,
    SeedIgnored,
    NotRepeatable,
}
use Fault::*;

const SINGLE: (&str, &str) = ("single", "entries=16,replacement=lru");
const USED_LATE: (&str, &str) = ("single", "entries=16,fill_sets_used=false");
const UNTAGGED: (&str, &str) = ("single", "entries=16,process_ids=false");
const DRAWN: (&str, &str) = ("single", "entries=16,replacement=random");
const PARTIAL: (&str, &str) = ("partial", "entries=8,factor=4");
const LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4");
const UNTAGGED_LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,process_ids=false");
const DRAWN_LEVELS: (&str, &str) = ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,replacement=random");

/// The faults, and in what.
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
    /// Checks of the design itself may find the fault first; nobody need read of that.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}
static QUIET: Once = Once::new();

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

/// What the suite says of a design with this fault.
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
        let counts = tlb.counts().clone();
        Ok(Box::new(Faulty { tlb, fault, counts, kept: HashMap::new() }))
    });
    QUIET.call_once(|| {
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

/// A design that is wrong in one way.
struct Faulty {
    tlb: Box<dyn Tlb>,
    fault: Fault,
    counts: TlbCounts,
    /// What the second level holds that does not follow.
    kept: HashMap<(Asid, Vpn), Translation>,
}

impl Faulty {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// What it says that it counted, from what it counted before and now.
    fn count(&mut self, before: &TlbCounts) {
        let mut now = self.tlb.counts().clone();
        let gained = |f: fn(&TlbCounts) -> u64| f(&now) - f(before);
        let (misses, fetch) = (gained(|c| c.misses), gained(|c| c.fetch_misses));
        let (evictions, invalidations) = (gained(|c| c.evictions), gained(|c| c.invalidations));
        let lie = &self.counts;
        // What was lied before stays a lie.
        let add = |was: u64, real: u64, before: u64| was + real - before;
        now.misses = add(lie.misses, now.misses, before.misses);
        now.fetch_misses = add(lie.fetch_misses, now.fetch_misses, before.fetch_misses);
        now.data_misses = add(lie.data_misses, now.data_misses, before.data_misses);
        now.load_misses = add(lie.load_misses, now.load_misses, before.load_misses);
        now.evictions = add(lie.evictions, now.evictions, before.evictions);
        now.invalidations = add(lie.invalidations, now.invalidations, before.invalidations);
        now.fills = add(lie.fills, now.fills, before.fills);
        match self.fault {
            MissCountedTwice => now.misses += misses,
            MissOnTheWrongSide => {
                now.fetch_misses -= fetch;
                now.data_misses += fetch;
                now.load_misses += fetch;
            }
            EvictionNotCounted => now.evictions -= evictions,
            InvalidationNotCounted => now.invalidations -= invalidations,
            HitCountsAFill if misses == 0 => now.fills += 1,
            _ => {}
        }
        self.counts = now;
    }

    fn event(&mut self, unfiltered: &mut Unfiltered, event: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        let before = self.tlb.counts().clone();
        let mut ignored = Unfiltered::default();
        let report = if self.is(InvalidationNotReported) { &mut ignored } else { unfiltered };
        event(&mut *self.tlb, report);
        self.count(&before);
    }
}

impl Tlb for Faulty {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if self.is(StaleSecondLevel) {
            let page = Translation { pfn: pte.pfn, attr: pte.attr };
            if self.tlb.probe(at.asid, at.vpn, at.kind).is_none() && self.kept.contains_key(&(at.asid, at.vpn)) {
                return Answer { outcome: Outcome::Hit, filterable: false };
            }
            self.kept.insert((at.asid, at.vpn), page);
        }
        let before = self.tlb.counts().clone();
        let mut ignored = Unfiltered::default();
        let report = if self.is(EvictionNotReported) { &mut ignored } else { unfiltered };
        let mut answer = self.tlb.access(at, pte, table, report);
        self.count(&before);
        answer.filterable |= self.is(AlwaysFilterable);
        if self.is(MissCalledHit) && at.vpn.0.is_multiple_of(8) {
            answer.outcome = Outcome::Hit;
        }
        answer
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        let pages = match self.fault {
            InvalidationIgnored => return,
            InvalidationOfFirstPage => VpnRange { pages: pages.pages.min(1), ..pages },
            InvalidationWithoutLastPage => VpnRange { pages: pages.pages - u64::from(pages.pages > 1), ..pages },
            InvalidationOfSpace => return self.invalidate_space(asid, unfiltered),
            _ => pages,
        };
        self.event(unfiltered, |tlb, unfiltered| tlb.invalidate(asid, pages, unfiltered));
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        if !self.is(EndIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.invalidate_space(asid, unfiltered));
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let mut said = self.tlb.probe(asid, vpn, kind).or_else(|| self.kept.get(&(asid, vpn)).copied())?;
        said.pfn.0 ^= u64::from(self.is(WrongFrame) && vpn.0 % 16 == 7);
        Some(said)
    }

    fn entries(&self) -> Vec<EntryView> {
        let mut entries = self.tlb.entries();
        if self.is(OnePageTwice) && entries.len() == 4 {
            entries.extend(entries.last().cloned().map(|e| EntryView { slot: e.slot + 1, ..e }));
        }
        for page in entries.iter_mut().flat_map(|e| &mut e.pages) {
            page.1.attr.0 |= u8::from(self.is(WrongProtection)) << 6;
            page.2 = (page.2 || self.is(AlwaysModified)) && !self.is(NeverModified);
        }
        for used in entries.iter_mut().filter_map(|e| e.used.as_mut()) {
            *used &= !self.is(NeverUsed);
        }
        entries
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for Faulty {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
}

impl OnDemotion for Faulty {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        if !self.is(DemotionIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.demote(asid, pages, unfiltered));
        }
    }
}

impl OnSwitch for Faulty {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        if !self.is(SwitchIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.switch(to, unfiltered));
        }
    }
}
