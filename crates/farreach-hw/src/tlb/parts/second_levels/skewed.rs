//! A skewed-associative second level for several page sizes (Seznec, IEEE Transactions on Computers, 2004).
//!
//! A page is looked for in each way with one size, which the way and the bits above the largest size choose: so a
//! lookup reads one entry in each way, and knows no size. Each size has as many ways as every other; which ones differs
//! from place to place.

use super::{ListedSecondLevel, shown};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::hierarchy::level::{Mapping, Size};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::hierarchy::{SecondLevel, check_native, count_second_level_hit};
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::{Geometry, SetFunction};
use crate::tlb::parts::store::tag_index::Tag;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};

/// Entries.
pub const SKEW_ENTRIES: Key = Key {
    name: "skew_entries",
    default: "1024",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the skewed second level",
};
/// SKW-1.
pub const SKEW_WAYS: Key = Key {
    name: "skew_ways",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "ways of the skewed second level, a multiple of the number of its sizes",
};
/// SKW-1, SKW-2.
pub const SKEW_SIZES: Key = Key {
    name: "skew_sizes",
    default: "4K+2M",
    allowed: Allowed::PageSizes { min: 4096, max: 1 << 30 },
    about: "page sizes of the skewed second level. Pages of others are not in it",
};

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "skewed",
    about: "one skewed-associative array for several page sizes (SKW)",
    keys: &[&SKEW_ENTRIES, &SKEW_WAYS, &SKEW_SIZES],
    check: |params| check_native(params, &shown(&LISTED)),
    reach: |params| {
        let sizes = params.sizes(SKEW_SIZES.name);
        params.int(SKEW_ENTRIES.name) / sizes.len().max(1) as u64 * sizes.iter().sum::<u64>()
    },
    build: |params| Ok(Box::new(Skewed::new(params)?)),
    ..ListedSecondLevel::NEW
};

/// See the module.
struct Skewed {
    store: Store<Mapping>,
    /// Orders of the sizes, ascending.
    orders: Vec<u8>,
    ignored_report: Unfiltered,
}

impl Skewed {
    fn new(params: &Params) -> Result<Skewed, String> {
        let (ways, sizes) = (params.int(SKEW_WAYS.name), params.sizes(SKEW_SIZES.name));
        if sizes.is_empty() || !ways.is_multiple_of(sizes.len() as u64) {
            return Err(format!(
                "{} = {ways} is not allowed: each size has as many ways as every other; {} must be a multiple of the \
                 number of {}, {} (SKW-3)",
                SKEW_WAYS.name,
                SKEW_WAYS.name,
                SKEW_SIZES.name,
                sizes.len()
            ));
        }
        let orders = sizes.iter().map(|&size| Ok(params.order(SKEW_SIZES.name, size)? as u8));
        let orders = orders.collect::<Result<Vec<u8>, String>>()?;
        let geometry = Geometry::new(params.int(SKEW_ENTRIES.name), ways)?.with(SetFunction::Skewed);
        let store = Store::new(geometry, params, params.int("seed").wrapping_add(16))?;
        Ok(Skewed { store, orders, ignored_report: Unfiltered::unread() })
    }

    fn find(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let live = self.orders.iter().filter(|order| self.store.live(**order) > 0);
        let mut hits = live.filter_map(|order| self.store.find(Tag::of(asid, vpn, *order)));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "T94-17: two entries match {asid:?} {vpn:?}");
        hit
    }

    fn translate(&self, slot: u32, vpn: Vpn) -> Translation {
        self.store.get(slot).translate(self.store.tag(slot).order(), vpn)
    }

    /// The largest size that holds a page of a mapping of `2^order` pages, as its place among the sizes. Large pages
    /// are not held in pieces.
    fn fitting(&self, order: u8) -> Option<usize> {
        let fits = |fit: &u8| *fit <= order && leaf_level(*fit, RADIX) == leaf_level(order, RADIX);
        self.orders.iter().rposition(fits)
    }

    /// Which place among the sizes way `way` has for this page (SKW-1).
    #[cfg(test)]
    fn size_in(&self, way: usize, vpn: u64) -> usize {
        size_in(way, vpn, &self.orders)
    }

    fn drop_from(&mut self, least: u8, asid: Asid, pages: VpnRange) -> u64 {
        let Skewed { store, orders, ignored_report } = self;
        let of = orders.iter().filter(|order| **order >= least);
        of.map(|order| store.drop_overlapping(asid, pages, *order, ignored_report)).sum()
    }
}

/// SKW-1: the size with which a page is looked for in a way, as its place among the sizes.
fn size_in(way: usize, vpn: u64, orders: &[u8]) -> usize {
    let sizes = orders.len();
    let above = vpn >> orders[sizes - 1];
    (way + (above % sizes as u64) as usize) % sizes
}

impl SecondLevel for Skewed {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        let slot = self.find(at.asid, at.vpn)?;
        self.store.touch(slot, 0, &mut self.ignored_report);
        count_second_level_hit(counts, at.kind);
        Some((self.translate(slot, at.vpn), self.store.tag(slot).order()))
    }

    /// SKW-3.
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        _: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        let size = self.fitting(order)?;
        let order = self.orders[size];
        if order > 0 {
            let covered = VpnRange { start: at.vpn.align_down(order.into()), pages: 1 << order };
            counts.covered_drops += self.drop_from(0, at.asid, covered);
        }
        let Skewed { store, orders, ignored_report } = self;
        let evictions = counts.evictions;
        let may = |way| size_in(way, at.vpn.0, orders) == size;
        let tag = Tag::of(at.asid, at.vpn, order);
        store.fill_in_ways(tag, Mapping::around(page, Size::whole(order)), &may, counts, ignored_report);
        let gone = store.last_victim();
        (counts.evictions > evictions).then(|| Victim { asid: gone.asid(), vpn: gone.base(), order: gone.order() })
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        self.drop_from(demoted.into(), asid, pages)
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.store.drop_space(asid, &mut self.ignored_report)
    }

    fn switch(&mut self, to: Asid) -> u64 {
        self.store.switch(to, &mut self.ignored_report)
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).map(|slot| self.translate(slot, vpn))
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        let view = |slot| self.store.get(slot).view(before + slot as usize, self.store.tag(slot));
        into.extend(self.store.slots().map(view));
    }

    fn entries(&self) -> usize {
        self.store.entries()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::design;
    use crate::tlb::keys_of;
    use farreach_types::addr::Pfn;
    use farreach_types::translation::Attr;
    use serde_json::json;

    struct Nothing;
    impl PageTableView for Nothing {
        fn pte(&self, _: Asid, _: Vpn) -> Option<Pte> {
            None
        }
    }

    /// SKW-1, by hand: k = 2, w = 2, x = 0: base pages in way 0 alone, pages of 2 MB in way 1. With x = 1 it is the
    /// other way round.
    #[test]
    fn skw_1_hand() {
        let given = json!({"second_level": "skewed", "skew_entries": 8, "skew_ways": 2});
        let given = given.as_object().unwrap();
        let params = farreach_types::params::Params::resolve(&keys_of(design("hierarchy").unwrap(), given), given);
        let mut level = Skewed::new(&params.unwrap()).unwrap();
        for (vpn, base_way) in [(5, 0), (2 << 9 | 9, 0), (1 << 9 | 5, 1), (3 << 9, 1)] {
            assert_eq!([0, 1].map(|way| level.size_in(way, vpn)), [base_way, 1 - base_way]);
            for (order, way) in [(0, base_way), (9, 1 - base_way)] {
                let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
                let page = Translation { pfn: Pfn(vpn), attr: Attr(7) };
                level.drop_space(Asid(0));
                level.fill(at, page, order, &Nothing, &mut TlbCounts::default());
                let slots: Vec<u32> = level.store.slots().collect();
                assert_eq!((slots.len(), slots[0] as usize % 2), (1, way), "page {vpn:#x}, order {order}");
            }
        }
    }
}
