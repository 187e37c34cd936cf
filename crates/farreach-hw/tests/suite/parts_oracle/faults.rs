//! Faults, planted in a machine by a wrapper around its hierarchy, or in the model by what it is told. The comparison
//! must find each, on one of a thousand streams; in machines the conformance suite is not asked.
//!
//! | fault in the machine | what it is |
//! |---|---|
//! | `ChangeForgotten`, `ChangeOfFirstPage` | the part keeps entries that changed; a long change drops one page |
//! | `SplitForgotten`, `EndForgotten`, `SwitchForgotten` | the same for splits, ends of processes and switches |
//! | `UnmapForgotten`, `MapForgotten` | the table does not hear of a page (the machine's own checks may find it) |
//! | `StaleFrame` | an entry of the part has the frame of the page before |
//! | `HitCountedTwice` | of those that the part answers |
//! | `WalkNotMade` | walks are counted that were not made |
//! | `TlbUnfilled` | a miss leaves the second level without the page |
//! | `MissCalledHit` | some walks end as hits |
//! | `ReferenceNotCounted` | references in the background are not counted |
//! | `OldFetch`, `OldPosition` | the program counter and the position of the lookup before |
//!
//! | fault in the model | what it is |
//! |---|---|
//! | `PlainChangeForgotten`, `PlainEndForgotten`, `PlainSwitchForgotten` | it is not told |
//! | `PlainOtherProcess` | changes are those of the next process |
//! | `PlainChangeTooShort`, `PlainChangeTooLong` | by a page |
//! | `PlainNoVictim`, `PlainVictimOfVictim` | the second level evicts nothing, or the next page |
//! | `PlainNeverFetch` | fetches are loads |
//! | `PlainPcOfPage`, `PlainLate` | the page as program counter; positions up to 7 instructions later |
//! | `PlainNeighbour` | the misses are those of the page beside |

use super::*;
use faulty::Faulty;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    None,
    ChangeForgotten,
    ChangeOfFirstPage,
    SplitForgotten,
    EndForgotten,
    SwitchForgotten,
    UnmapForgotten,
    MapForgotten,
    StaleFrame,
    HitCountedTwice,
    WalkNotMade,
    TlbUnfilled,
    MissCalledHit,
    ReferenceNotCounted,
    OldFetch,
    OldPosition,
    PlainChangeForgotten,
    PlainEndForgotten,
    PlainSwitchForgotten,
    PlainOtherProcess,
    PlainChangeTooShort,
    PlainChangeTooLong,
    PlainNoVictim,
    PlainVictimOfVictim,
    PlainNeverFetch,
    PlainPcOfPage,
    PlainLate,
    PlainNeighbour,
}
use Fault::*;

impl Fault {
    /// A machine with the fault, if it is one of machines.
    pub fn around(self, tlb: Box<dyn Tlb>, part: &'static str) -> Box<dyn Tlb> {
        if self as u8 == None as u8 || self as u8 >= PlainChangeForgotten as u8 {
            return tlb;
        }
        Box::new(Faulty::new(tlb, self, part))
    }

    /// Tells the model of a step that is no lookup.
    pub fn tell(self, step: &Step, plain: &mut dyn Plain, world: &World) {
        let other = |asid| if self == PlainOtherProcess { (asid + 1) % 3 } else { asid };
        match *step {
            Step::Change(..) | Step::Split(..) if self == PlainChangeForgotten => {}
            Step::Gone(_) if self == PlainEndForgotten => {}
            Step::Switch(_) if self == PlainSwitchForgotten => {}
            Step::Change(asid, mut pages) => {
                match self {
                    PlainChangeTooShort => pages.pages -= 1,
                    PlainChangeTooLong => pages.pages += 1,
                    _ => {}
                }
                plain.change(other(asid), pages, false, world);
            }
            Step::Split(asid, pages) => plain.change(other(asid), pages, true, world),
            Step::Mapped(asid, pages) => plain.mapped(asid, pages, world),
            Step::Gone(asid) => plain.gone(asid),
            Step::Switch(to) => plain.switch(to),
            Step::Look(_) => {}
        }
    }

    /// A miss as the model hears of it.
    pub fn miss(self, mut miss: Miss) -> Miss {
        let look = &mut miss.look;
        match self {
            PlainNoVictim => miss.victim = Option::None,
            PlainVictimOfVictim => {
                miss.victim = miss.victim.map(|(asid, first, order)| (asid, first + (1 << order), order))
            }
            PlainNeverFetch => look.at.kind = Kind::Load,
            PlainPcOfPage => look.pc = look.at.vpn.0,
            PlainLate => look.position += look.position % 8,
            PlainNeighbour if miss.world.mapping(look.at.asid.0, look.at.vpn.0 ^ 1).is_some() => {
                look.at.vpn.0 ^= 1;
                look.pte = miss.world.pte(look.at.asid, look.at.vpn).expect("mapped");
            }
            _ => {}
        }
        miss
    }
}

thread_local! {
    /// Whether panics are what is looked for: the machine's own checks may find a fault first.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

type Make = fn(&mut Dice) -> (Setting, Box<dyn Plain>);

/// Where each fault is planted.
const PLANTED: &[(&str, Make, &[Fault])] = &[
    (
        "sequential",
        |dice| prefetch::make(dice, "sequential"),
        &[
            ChangeForgotten,
            ChangeOfFirstPage,
            SplitForgotten,
            EndForgotten,
            SwitchForgotten,
            StaleFrame,
            HitCountedTwice,
            WalkNotMade,
            TlbUnfilled,
            MissCalledHit,
            ReferenceNotCounted,
            OldPosition,
            PlainChangeForgotten,
            PlainEndForgotten,
            PlainSwitchForgotten,
            PlainOtherProcess,
            PlainChangeTooShort,
            PlainChangeTooLong,
            PlainNeverFetch,
            PlainLate,
            PlainNeighbour,
        ],
    ),
    ("stride", |dice| prefetch::make(dice, "stride"), &[OldFetch, PlainPcOfPage, SwitchForgotten]),
    ("recency", |dice| prefetch::make(dice, "recency"), &[PlainNoVictim, PlainVictimOfVictim, PlainEndForgotten]),
    ("pom", pom::pom, &[HitCountedTwice, WalkNotMade, TlbUnfilled, ReferenceNotCounted, PlainChangeForgotten]),
    ("spectlb", speculation::spectlb, &[ChangeForgotten, SwitchForgotten, PlainChangeForgotten, PlainNeighbour]),
    ("spot", speculation::spot, &[OldFetch, PlainPcOfPage, PlainSwitchForgotten]),
    ("asap", speculation::asap, &[ReferenceNotCounted, MissCalledHit]),
    (
        "utopia",
        utopia::utopia,
        &[
            HitCountedTwice,
            WalkNotMade,
            TlbUnfilled,
            MissCalledHit,
            PlainChangeForgotten,
            PlainEndForgotten,
            PlainOtherProcess,
            PlainNeighbour,
        ],
    ),
    ("hashed", tables::hashed, &[MapForgotten, UnmapForgotten, EndForgotten, PlainChangeForgotten]),
    ("cuckoo", tables::cuckoo, &[MapForgotten, UnmapForgotten, SwitchForgotten, PlainSwitchForgotten]),
    ("flat", tables::flat, &[UnmapForgotten, SwitchForgotten, PlainEndForgotten, PlainChangeForgotten]),
];

/// Whether this finds a difference, or panics, which is not shown.
pub(super) fn fails<T>(run: impl FnOnce() -> Result<T, String>) -> bool {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |why| {
            if !EXPECTED.get() {
                hook(why)
            }
        }));
    });
    EXPECTED.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    EXPECTED.set(false);
    !result.is_ok_and(|result| result.is_ok())
}

/// Which stream finds the fault.
fn found(make: Make, fault: Fault) -> Option<u64> {
    (0..STREAMS).find(|seed| {
        let (setting, mut plain) = make(&mut Dice::new(*seed));
        fails(|| drive::stream(*seed, &setting, &mut *plain, fault))
    })
}

#[test]
fn every_planted_fault_is_found() {
    let mut many = 0;
    for (name, make, faults) in PLANTED {
        for fault in *faults {
            let seed = found(*make, *fault);
            assert!(seed.is_some(), "{name}: {fault:?} was not found");
            many += 1;
        }
    }
    assert!(many >= 50, "{many}");
}
