//! Machines with additions, for tests: lookups and changes on a page table, with caches lent where there are any.

mod hand;
mod streams;
pub(in crate::tlb) mod world;

use super::{ADDITIONS, ListedAddition};
use crate::cache::Levels;
use crate::cache::levels::LINE_SHIFT;
use crate::tlb::contract::{EntryView, Lookup, Outcome, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::second_levels;
use crate::tlb::{design, keys_of};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::counts::{PartCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Translation};
use serde_json::{Map, Value};
pub(super) use world::World;

/// The keys of a hierarchy, as on the command line.
pub(in crate::tlb) type Keys<'a> = &'a [(&'a str, &'a str)];

fn params(kind: &str, keys: Keys) -> Result<Params, String> {
    let given: Map<String, Value> = keys.iter().map(|(key, value)| (key.to_string(), (*value).into())).collect();
    Params::resolve(&keys_of(design(kind).unwrap(), &given), &given)
}

pub(in crate::tlb) fn refusal(keys: Keys) -> String {
    let build = |params: &Params| (design("hierarchy").unwrap().build)(params).map(|_| ());
    params("hierarchy", keys).and_then(|params| build(&params)).expect_err("it was not refused")
}

/// A hierarchy without a filter, with its caches.
pub(in crate::tlb) struct Machine {
    pub tlb: Box<dyn Tlb>,
    caches: Option<Box<Levels>>,
    unfiltered: Unfiltered,
}

impl Machine {
    pub fn new(keys: Keys) -> Machine {
        Machine::of("hierarchy", keys)
    }

    /// Of another kind.
    pub fn of(kind: &str, keys: Keys) -> Machine {
        let (design, params) = (design(kind).unwrap(), params(kind, keys).unwrap());
        let mut tlb = (design.build)(&params).unwrap();
        let caches = tlb.port().map(|_| Box::new(Levels::new(&params).unwrap()));
        Machine { tlb, caches, unfiltered: Unfiltered::default() }
    }

    /// Does something with the caches lent.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut dyn Tlb, &mut Unfiltered) -> R) -> R {
        self.exchange();
        let result = act(&mut *self.tlb, &mut self.unfiltered);
        self.tlb.lost_lines();
        self.exchange();
        self.unfiltered.clear();
        result
    }

    fn exchange(&mut self) {
        if let Some(caches) = &mut self.caches {
            self.tlb.port().unwrap().exchange(caches);
        }
    }

    /// A lookup from an instruction, and the reference behind it.
    pub fn look_up(&mut self, world: &World, asid: u32, vpn: u64, kind: Kind, pc: u64) -> Outcome {
        let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind };
        let pte = world.pte(at.asid, at.vpn).expect("mapped");
        self.tlb.latest_fetch(pc);
        let outcome = self.with(|tlb, unfiltered| tlb.access(at, pte, world, unfiltered).outcome);
        let truth = Translation { pfn: pte.pfn, attr: pte.attr };
        assert_eq!(self.tlb.probe(at.asid, at.vpn, kind), Some(truth), "XC-3: {at:?}");
        if let Some(caches) = &mut self.caches {
            let line = (pte.pfn.0 << (BASE_SHIFT - LINE_SHIFT)) | (vpn % 64);
            caches.reference(usize::from(kind != Kind::Fetch), line, kind == Kind::Store);
            self.with(|_, _| ());
        }
        outcome
    }

    pub fn load(&mut self, world: &World, vpn: u64) -> Outcome {
        self.look_up(world, 0, vpn, Kind::Load, 0)
    }

    pub fn change(&mut self, asid: u32, pages: VpnRange) {
        self.with(|tlb, unfiltered| tlb.invalidate(Asid(asid), pages, unfiltered));
    }

    pub fn counts(&self) -> &TlbCounts {
        self.tlb.counts()
    }

    pub fn part(&self, name: &str) -> PartCounts {
        self.counts().parts.get(name).expect(name).clone()
    }

    /// A counter of the first of its additions.
    pub fn count(&self, name: &str) -> u64 {
        self.counts().parts.iter().next().expect("an addition").1.counters.get(name)
    }

    /// The entries in the first slots.
    pub fn entries(&self, slots: usize) -> Vec<EntryView> {
        self.tlb.entries_in(0..slots)
    }

    /// Holds all laws of its additions.
    pub fn check_laws(&self) {
        for (name, part) in self.counts().parts.iter() {
            for law in second_levels::listed(name).map_or_else(|| listed(name).laws, |second| second.laws) {
                let (left, right) = (law.sides)(part, self.counts());
                assert_eq!(left, right, "{name}: {}: {part:?}", law.name);
            }
        }
    }
}

fn listed(name: &str) -> &'static ListedAddition {
    ADDITIONS.iter().find(|listed| listed.name == name).expect("it is in the registry")
}
