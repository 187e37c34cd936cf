//! A second level of mosaic entries (Gosakan et al., ASPLOS 2023): one tag for a group of pages, and for each of its
//! pages a short number of the place where it lies among those where it may (MOS-4).
//!
//! The short number gives the frame together with the page and a hash (MOS-1), wherever the page may lie at all; so an
//! entry holds the pages that one of the design `complete` holds, in any frames. What differs is its size. Frames here
//! come from any placement: those where a mosaic machine would not place a page cost it nothing.

use super::{ListedSecondLevel, shown};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::hierarchy::{SecondLevel, check_native, count_second_level_hit};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};

/// Entries.
pub const MOSAIC_ENTRIES: Key = Key {
    name: "mosaic_entries",
    default: "1024",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the mosaic second level",
};
/// Entries of a set.
pub const MOSAIC_WAYS: Key = Key {
    name: "mosaic_ways",
    default: "8",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries per set of the mosaic second level; 0: fully associative",
};
/// MOS-4.
pub const MOSAIC_ARITY: Key = Key {
    name: "mosaic_arity",
    default: "4",
    allowed: Allowed::PowerOfTwo { min: 1, max: 64 },
    about: "aligned pages of a mosaic entry, each with the short number of its frame",
};
/// MOS-4.
pub const MOSAIC_FILL: Key = Key {
    name: "mosaic_fill",
    default: "one",
    allowed: Allowed::OneOf(&["one", "all"]),
    about: "what a walk makes valid in a mosaic entry: the page that missed (one), or every mapped page of it, whose \
            short numbers lie in the same reference (all)",
};

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "mosaic",
    about: "entries for several pages in any frames where they may lie (MOS-4)",
    keys: &[&MOSAIC_ENTRIES, &MOSAIC_WAYS, &MOSAIC_ARITY, &MOSAIC_FILL],
    check: |params| check_native(params, &shown(&LISTED)),
    reach: |params| (params.int(MOSAIC_ENTRIES.name) * params.int(MOSAIC_ARITY.name)) << 12,
    build: |params| Ok(Box::new(Mosaic::new(params)?)),
    ..ListedSecondLevel::NEW
};

#[derive(Clone, Copy, Default)]
struct Valid(u64);

impl Contents for Valid {
    fn subblocks(&self) -> Option<u64> {
        Some(self.0)
    }
    fn clear(&mut self, mask: u64) {
        self.0 &= !mask;
    }
}

/// See the module.
struct Mosaic {
    store: Store<Valid>,
    /// `arity` translations per slot.
    translations: Box<[Translation]>,
    /// log2 of the arity.
    order: u8,
    fills_all: bool,
    ignored_report: Unfiltered,
}

impl Mosaic {
    fn new(params: &Params) -> Result<Mosaic, String> {
        let geometry = Geometry::new(params.int(MOSAIC_ENTRIES.name), params.int(MOSAIC_WAYS.name))?;
        let arity = params.int(MOSAIC_ARITY.name);
        let nothing = Translation { pfn: Pfn(0), attr: Attr(0) };
        Ok(Mosaic {
            store: Store::new(geometry, params, params.int("seed").wrapping_add(16))?,
            translations: vec![nothing; geometry.entries() * arity as usize].into(),
            order: arity.trailing_zeros() as u8,
            fills_all: params.text(MOSAIC_FILL.name) == "all",
            ignored_report: Unfiltered::unread(),
        })
    }

    fn cell(&self, slot: u32, offset: u64) -> usize {
        (slot as usize) << self.order | offset as usize
    }

    fn offset(&self, vpn: Vpn) -> u64 {
        vpn.offset_in(self.order.into())
    }

    fn find(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let slot = self.store.find(Tag::of(asid, vpn, self.order))?;
        (self.store.get(slot).0 >> self.offset(vpn) & 1 != 0).then_some(slot)
    }

    fn load(&mut self, slot: u32, offset: u64, page: Translation) {
        self.translations[self.cell(slot, offset)] = page;
        self.store.get_mut(slot).0 |= 1 << offset;
    }

    /// Makes the other mapped base pages of an entry valid.
    fn load_others(&mut self, at: Lookup, slot: u32, table: &dyn PageTableView, counts: &mut TlbCounts) {
        let base = at.vpn.align_down(self.order.into()).0;
        for offset in 0..1 << self.order {
            let pte = table.pte(at.asid, Vpn(base + offset)).filter(|pte| leaf_level(pte.order, RADIX) == 0);
            if let Some(pte) = pte.filter(|_| self.store.get(slot).0 >> offset & 1 == 0) {
                self.load(slot, offset, Translation { pfn: pte.pfn, attr: pte.attr });
                counts.preloaded += 1;
            }
        }
    }
}

impl SecondLevel for Mosaic {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        let slot = self.find(at.asid, at.vpn)?;
        self.store.touch(slot, 0, &mut self.ignored_report);
        count_second_level_hit(counts, at.kind);
        Some((self.translations[self.cell(slot, self.offset(at.vpn))], 0))
    }

    /// MOS-5: base pages only.
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        if leaf_level(order, RADIX) > 0 {
            return None;
        }
        let (tag, evictions) = (Tag::of(at.asid, at.vpn, self.order), counts.evictions);
        let slot = match self.store.find(tag) {
            Some(slot) => {
                counts.merges += 1;
                slot
            }
            None => self.store.place(tag, Valid(0), counts, &mut self.ignored_report),
        };
        self.load(slot, self.offset(at.vpn), page);
        if self.fills_all {
            self.load_others(at, slot, table, counts);
        }
        self.store.replay(slot, 0, &mut self.ignored_report);
        let gone = self.store.last_victim();
        (counts.evictions > evictions).then(|| Victim { asid: gone.asid(), vpn: gone.base(), order: gone.order() })
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        // Each page has a translation of its own, which stays valid.
        if demoted { 0 } else { self.store.invalidate(asid, pages, self.order, &mut self.ignored_report) }
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.store.drop_space(asid, &mut self.ignored_report)
    }

    fn switch(&mut self, to: Asid) -> u64 {
        self.store.switch(to, &mut self.ignored_report)
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).map(|slot| self.translations[self.cell(slot, self.offset(vpn))])
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        into.extend(self.store.slots().map(|slot| {
            let (tag, valid) = (self.store.tag(slot), self.store.get(slot).0);
            let offsets = (0..1u64 << self.order).filter(|offset| valid >> offset & 1 != 0);
            EntryView {
                slot: before + slot as usize,
                asid: tag.asid(),
                base: tag.base(),
                order: self.order,
                pages: offsets.map(|o| (o, self.translations[self.cell(slot, o)], false)).collect(),
                sb_enabled: None,
                used: None,
            }
        }));
    }

    fn entries(&self) -> usize {
        self.store.entries()
    }
}
