//! A mix TLB (Cox and Bhattacharjee, ASPLOS 2017): one array in sets for all page sizes.
//!
//! The set of a lookup is that of its base page, so that no size need be known (MIX-1). A superpage has base pages in
//! many sets, and an entry in each of these: its *mirrors* (MIX-2). What they cost is won back by coalescing:
//! superpages that lie in a row in both spaces share an entry, a *bundle* (MIX-3). A mirror that is lost is filled
//! again alone (MIX-4).

mod sets;

use super::{ListedSecondLevel, shown};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::parts::additions::{Counter, Law, Victim};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::hierarchy::{SecondLevel, check_native, count_second_level_hit};
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::{OwnCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use sets::{Bundle, Sets};
use std::ops::Range;

/// log2 of the page table entries in a line of 64 bytes.
const LINE: u32 = 3;

/// MIX-1.
pub const MIX_ENTRIES: Key = Key {
    name: "mix_entries",
    default: "1536",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the mix TLB, for pages of all sizes",
};
/// MIX-1.
pub const MIX_WAYS: Key = Key {
    name: "mix_ways",
    default: "12",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries per set of the mix TLB; 0: fully associative",
};
/// MIX-3.
pub const MIX_BUNDLE: Key = Key {
    name: "mix_bundle",
    default: "8",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1024 },
    about: "aligned superpages of one size that can share an entry of the mix TLB; 1: none share",
};

const WRITES: usize = 0;
const MIRROR_FILLS: usize = 1;
const WHOLE_FILLS: usize = 2;
const JOINS: usize = 3;
const DUPLICATES: usize = 4;

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "mix",
    about: "one array in sets for all page sizes, superpages mirrored in every set and coalesced (MIX)",
    keys: &[&MIX_ENTRIES, &MIX_WAYS, &MIX_BUNDLE],
    counters: &[
        Counter::new("writes", "entries of superpages written, a mirror each"),
        Counter::new("mirror_fills", "fills of a lost mirror alone (MIX-4)"),
        Counter::new("whole_fills", "fills of all mirrors of a superpage (MIX-2)"),
        Counter::new("joins", "of the entries written, those that joined a bundle in their set"),
        Counter::new("duplicates", "entries dropped at a hit of another in their set that has the page too"),
    ],
    laws: &[Law {
        name: "MIX-2",
        sides: |part, _| {
            // Without superpages there is neither; a whole fill writes one entry at least.
            let of = |name| part.counters.get(name);
            let fills = of("mirror_fills") + of("whole_fills");
            (of("writes").min(fills), fills)
        },
    }],
    check: |params| check_native(params, &shown(&LISTED)),
    reach: |params| {
        let sets = Geometry::new(params.int(MIX_ENTRIES.name), params.int(MIX_WAYS.name)).map_or(1, |g| g.sets);
        (params.int(MIX_ENTRIES.name) / sets as u64 * params.int(MIX_BUNDLE.name)) << 30
    },
    build: |params| Ok(Box::new(Mix::new(params)?)),
    ..ListedSecondLevel::NEW
};

/// See the module.
struct Mix {
    sets: Sets,
    /// Superpages of a bundle at most, a power of two.
    bundle: u64,
    /// The place of its counters.
    part: usize,
}

impl Mix {
    fn new(params: &Params) -> Result<Mix, String> {
        let geometry = Geometry::new(params.int(MIX_ENTRIES.name), params.int(MIX_WAYS.name))?;
        let seed = params.int("seed").wrapping_add(16);
        Ok(Mix { sets: Sets::new(geometry, params, seed)?, bundle: params.int(MIX_BUNDLE.name), part: 0 })
    }

    fn own<'c>(&self, counts: &'c mut TlbCounts) -> &'c mut OwnCounts {
        &mut counts.parts.at(self.part).counters
    }

    /// MIX-3: the superpages in the line of the table that make a run with this one, in its aligned group.
    fn run(&self, (asid, vpn): (Asid, Vpn), page: Translation, order: u8, table: &dyn PageTableView) -> Bundle {
        let shift = u32::from(order);
        let (at, first) = (vpn.0 >> shift, page.pfn.align_down(shift).0);
        let most = self.bundle.min(1 << LINE);
        let group = at & !(most - 1);
        let frame = |v: u64| first.wrapping_add(v.wrapping_sub(at) << shift);
        let joins = |v: &u64| {
            let pte = table.pte(asid, Vpn(v << shift));
            pte.is_some_and(|p| {
                p.pfn.0 == frame(*v) && p.attr == page.attr && RADIX * leaf_level(p.order, RADIX) == order
            })
        };
        let before = (group..at).rev().take_while(joins).count() as u64;
        let after = (at + 1..group + most).take_while(joins).count() as u64;
        let (low, pages) = (at - before, before + 1 + after);
        Bundle { asid, order, first: low, many: pages, pfn: Pfn(frame(low)), attr: page.attr }
    }
}

impl SecondLevel for Mix {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        let slot = self.sets.find(at.asid, at.vpn)?;
        self.sets.touch(slot);
        count_second_level_hit(counts, at.kind);
        let duplicates = self.sets.drop_duplicates(slot, at.asid, at.vpn);
        if duplicates > 0 {
            self.own(counts).add(DUPLICATES, duplicates);
        }
        self.sets.bundle(slot).map(|bundle| (bundle.translate(at.vpn), bundle.order))
    }

    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        let set = self.sets.of(at.vpn);
        let order = RADIX * leaf_level(order, RADIX);
        if order == 0 {
            let single =
                Bundle { asid: at.asid, order: 0, first: at.vpn.0, many: 1, pfn: page.pfn, attr: page.attr };
            return self.sets.add(set, single, 1, counts).victim;
        }
        let run = self.run((at.asid, at.vpn), page, order, table);
        counts.preloaded += run.many - 1;
        let is_lost_mirror = self.sets.has_elsewhere(at.asid, at.vpn);
        let pages = run.pages();
        let whole = if is_lost_mirror { 1 } else { pages.pages.min(self.sets.many() as u64) };
        let (mut victim, mut joins) = (None, 0);
        for i in 0..whole {
            let into = if is_lost_mirror { set } else { self.sets.of(Vpn(pages.start.0 + i)) };
            let added = self.sets.add(into, run, self.bundle, counts);
            joins += u64::from(added.joined);
            if into == set {
                victim = added.victim;
            }
        }
        let own = self.own(counts);
        *own.at(WRITES) += whole;
        *own.at(if is_lost_mirror { MIRROR_FILLS } else { WHOLE_FILLS }) += 1;
        *own.at(JOINS) += joins;
        victim
    }

    fn part(&mut self) -> Option<(&'static ListedSecondLevel, &mut usize)> {
        Some((&LISTED, &mut self.part))
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    /// MIX-5.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        self.sets.drop_where(|b| b.meets(asid, pages) && (!demoted || b.order > 0))
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.sets.drop_where(|b| b.asid == asid)
    }

    fn switch(&mut self, to: Asid) -> u64 {
        self.sets.switch(to)
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        Some(self.sets.bundle(self.sets.find(asid, vpn)?)?.translate(vpn))
    }

    /// Where the page table has base pages alone, there are no mirrors.
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        match self.sets.many() {
            1 => Err("the mix TLB is fully associative".into()),
            _ if largest >= RADIX => Err("the mix TLB has superpages in every set".into()),
            sets => Ok(0..sets.trailing_zeros()),
        }
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.sets.views(before, into);
    }

    fn entries(&self) -> usize {
        self.sets.entries()
    }
}
