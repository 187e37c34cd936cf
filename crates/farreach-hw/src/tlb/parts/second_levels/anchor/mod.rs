//! Hybrid coalescing (Park et al., ISCA 2017): every page whose number is a multiple of a distance is an *anchor*,
//! whose page table entry also says how many pages from it on lie in a row. One entry for an anchor translates them
//! all.
//!
//! The arrays are those of an ordinary second level. That of base pages has anchors too, which are asked where a page
//! has no entry of its own (ANC-2). The contiguity is read off the page table, as if the system kept it there.
//!
//! The system may choose the distance of each process anew from time to time (ANC-4). Another distance makes other
//! pages anchors, so all entries of the process go.

mod distance;

pub use distance::{ANCHOR_DISTANCE, ANCHOR_EPOCH};

use super::{ListedSecondLevel, check_radix, shown};
use crate::cache::{Port, Purpose};
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::{Counter, Victim};
use crate::tlb::parts::hierarchy::level::{self, array_shapes};
use crate::tlb::parts::hierarchy::nodes::{Entry, RADIX};
use crate::tlb::parts::hierarchy::walk::{by_caches, leaf_level};
use crate::tlb::parts::hierarchy::{L2, Rest, SecondLevel, check_native, count_second_level_hit};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use distance::{Distances, chooses};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};

/// log2 of the page table entries in a line of 64 bytes.
const LINE: u32 = 3;

/// ANC-2.
pub const ANCHOR_CYCLES: Key = Key {
    name: "anchor_cycles",
    default: "1",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles that a hit of an anchor costs more than one of a page's own entry",
};

const HITS: usize = 0;
const FILLS: usize = 1;
const READS: usize = 2;
const CHOICES: usize = 3;
const CHANGES: usize = 4;
const REWRITES: usize = 5;
const DISTANCES: usize = 6;
const DROPPED: usize = 7;

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "anchor",
    about: "arrays of pages, that of base pages with anchors for pages in a row (ANC)",
    keys: &[&L2, &ANCHOR_DISTANCE, &ANCHOR_EPOCH, &ANCHOR_CYCLES],
    counters: &[
        Counter { price: Some(&ANCHOR_CYCLES), ..Counter::new("hits", "hits of the second level by an anchor") },
        Counter::new("fills", "fills of an anchor's entry, new or longer than before"),
        Counter::new("reads", "walks that read an anchor in another line (ANC-3)"),
        Counter::new("choices", "times that the system chose a distance for a process (ANC-4)"),
        Counter::new("changes", "of these, those that changed it, so that the entries of the process went"),
        Counter::new("rewrites", "anchors in the page table that were written for another distance"),
        Counter::new("distances", "sum of the distances chosen"),
        Counter::new("dropped", "entries of both levels that went with a change"),
    ],
    check: |params| {
        check_native(params, &shown(&LISTED))?;
        check_radix(params, &LISTED, "anchors")?;
        if chooses(params) && by_caches(params) {
            return Err(format!(
                "{} = {} is not allowed with walk_cost = caches: machines with caches are not told how many \
                 instructions were executed; walk_cost must be fixed, or {} 0",
                ANCHOR_EPOCH.name,
                params.int(ANCHOR_EPOCH.name),
                ANCHOR_EPOCH.name
            ));
        }
        Ok(())
    },
    needs_fetches: |params| {
        let epoch = params.int(ANCHOR_EPOCH.name);
        chooses(params).then(|| format!("{} = {epoch}", ANCHOR_EPOCH.name))
    },
    reach: |params| {
        let anchors = |shape: level::ArrayShape| match shape.orders.contains(&0) {
            true => (shape.entries as u64 * params.int(ANCHOR_DISTANCE.name)) << 12,
            false => 0,
        };
        array_shapes(params, L2.name).into_iter().flatten().map(anchors).sum()
    },
    build: |params| Ok(Box::new(Anchors::new(params)?)),
    ..ListedSecondLevel::NEW
};

/// An entry beside its tag.
#[derive(Clone, Copy, Default)]
struct Mapped {
    /// Frame of the first page.
    pfn: Pfn,
    attr: Attr,
    /// Of an anchor, the pages from it on that lie in a row; 0: an entry for all pages of its tag.
    row: u32,
}

impl Contents for Mapped {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// See the module.
struct Anchors {
    arrays: Vec<Store<Mapped>>,
    /// The sizes there are, ascending, each with its array. The first is that of base pages.
    sizes: Vec<(u8, usize)>,
    distances: Distances,
    /// The place of its counters.
    part: usize,
    ignored_report: Unfiltered,
}

impl Anchors {
    fn new(params: &Params) -> Result<Anchors, String> {
        let shapes = array_shapes(params, L2.name)?;
        let arrays = shapes.iter().enumerate();
        let mut sizes: Vec<(u8, usize)> =
            arrays.flat_map(|(i, shape)| shape.orders.iter().map(move |&order| (order, i))).collect();
        sizes.sort_unstable();
        if sizes.first().is_none_or(|(order, _)| *order > 0) {
            return Err(format!(
                "{} = {} is not allowed with {}: anchors are in the array of base pages; {} must have one for 4K",
                L2.name,
                params.texts(L2.name).join("+"),
                shown(&LISTED),
                L2.name
            ));
        }
        let seed = params.int("seed").wrapping_add(16);
        let store = |(i, shape): (u64, &level::ArrayShape)| {
            Store::new(Geometry::new(shape.entries as u64, shape.ways as u64)?, params, seed.wrapping_add(i))
        };
        Ok(Anchors {
            arrays: (0..).zip(&shapes).map(store).collect::<Result<_, _>>()?,
            sizes,
            distances: Distances::new(params),
            part: 0,
            ignored_report: Unfiltered::unread(),
        })
    }

    /// The array of base pages.
    fn base(&self) -> usize {
        self.sizes[0].1
    }

    /// The entry of a page itself, or of its superpage, as array and slot.
    fn find_own(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        self.sizes.iter().find_map(|&(order, array)| {
            let store = &self.arrays[array];
            let slot = if store.live(order) == 0 { None } else { store.find(Tag::of(asid, vpn, order)) };
            // With a distance of 512, say, an anchor has the tag of a page of 2 MB.
            slot.filter(|&slot| store.get(slot).row == 0).map(|slot| (array, slot))
        })
    }

    /// The entry of the anchor of a page, whether it reaches the page or not.
    fn anchor(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let store = &self.arrays[self.base()];
        store.find(Tag::of(asid, vpn, self.distances.order(asid))).filter(|&slot| store.get(slot).row > 0)
    }

    /// The entry of the anchor of a page, if it reaches the page.
    fn find_anchor(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        let order = self.distances.order(asid);
        let reaches = |&slot: &u32| vpn.offset_in(order.into()) < self.arrays[self.base()].get(slot).row.into();
        self.anchor(asid, vpn).filter(reaches).map(|slot| (self.base(), slot))
    }

    fn find(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        self.find_own(asid, vpn).or_else(|| self.find_anchor(asid, vpn))
    }

    /// The translation of a page by an entry, and the order of the entry that the first level gets.
    fn translate(&self, (array, slot): (usize, u32), vpn: Vpn) -> (Translation, u8) {
        let (Mapped { pfn, attr, row }, order) = (*self.arrays[array].get(slot), self.arrays[array].tag(slot).order());
        let page = Translation { pfn: Pfn(pfn.0.wrapping_add(vpn.offset_in(order.into()))), attr };
        (page, if row > 0 { 0 } else { order })
    }

    /// ANC-1: the anchor of a page, with the number of pages in a row from it on, if the page is among them and is not
    /// alone.
    fn reaching(&self, (asid, vpn): (Asid, Vpn), page: Translation, table: &dyn PageTableView) -> Option<Mapped> {
        let order = self.distances.order(asid);
        let (first, offset) = (vpn.align_down(order.into()).0, vpn.offset_in(order.into()));
        let frame = page.pfn.0.wrapping_sub(offset);
        let continues = |i: &u64| {
            let pte = table.pte(asid, Vpn(first + i)).filter(|pte| leaf_level(pte.order, RADIX) == 0);
            pte.is_some_and(|pte| pte.pfn.0 == frame.wrapping_add(*i) && pte.attr == page.attr)
        };
        if !(0..offset).all(|i| continues(&i)) {
            return None;
        }
        let row = offset + 1 + (offset + 1..1 << order).take_while(continues).count() as u64;
        (row > 1).then_some(Mapped { pfn: Pfn(frame), attr: page.attr, row: row as u32 })
    }

    /// Fills the entry of an anchor.
    fn fill_anchor(&mut self, at: Lookup, anchor: Mapped, counts: &mut TlbCounts) -> Option<Victim> {
        counts.parts.at(self.part).counters.add(FILLS, 1);
        if let Some(slot) = self.anchor(at.asid, at.vpn) {
            let base = self.base();
            *self.arrays[base].get_mut(slot) = anchor;
            self.arrays[base].touch(slot, 0, &mut self.ignored_report);
            return None;
        }
        self.put(self.base(), Tag::of(at.asid, at.vpn, self.distances.order(at.asid)), anchor, counts)
    }

    fn put(&mut self, array: usize, tag: Tag, contents: Mapped, counts: &mut TlbCounts) -> Option<Victim> {
        let evictions = counts.evictions;
        let store = &mut self.arrays[array];
        store.fill(tag, contents, 0, counts, &mut self.ignored_report);
        let gone = store.last_victim();
        (counts.evictions > evictions).then(|| Victim { asid: gone.asid(), vpn: gone.base(), order: gone.order() })
    }

    /// Drops what overlaps: entries of at least this order, and anchors.
    fn drop_from(&mut self, least: u8, asid: Asid, pages: VpnRange) -> u64 {
        let distance = self.distances.order(asid);
        let Anchors { arrays, sizes, ignored_report, .. } = self;
        let base = sizes[0].1;
        let of = sizes.iter().filter(|(order, _)| *order >= least);
        let own: u64 =
            of.map(|&(order, array)| arrays[array].drop_overlapping(asid, pages, order, ignored_report)).sum();
        own + arrays[base].drop_overlapping(asid, pages, distance, ignored_report)
    }
}

impl SecondLevel for Anchors {
    /// ANC-2.
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        let own = self.find_own(at.asid, at.vpn);
        let (array, slot) = own.or_else(|| self.find_anchor(at.asid, at.vpn))?;
        self.arrays[array].touch(slot, 0, &mut self.ignored_report);
        count_second_level_hit(counts, at.kind);
        if own.is_none() {
            counts.parts.at(self.part).counters.add(HITS, 1);
        }
        Some(self.translate((array, slot), at.vpn))
    }

    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        if leaf_level(order, RADIX) == 0
            && let Some(anchor) = self.reaching((at.asid, at.vpn), page, table)
        {
            return self.fill_anchor(at, anchor, counts);
        }
        let fits = |(fit, _): &&(u8, usize)| *fit <= order && leaf_level(*fit, RADIX) == leaf_level(order, RADIX);
        let &(order, array) = self.sizes.iter().rev().find(fits)?;
        if order > 0 {
            let covered = VpnRange { start: at.vpn.align_down(order.into()), pages: 1 << order };
            counts.covered_drops += self.drop_from(0, at.asid, covered);
        }
        let mapped = Mapped { pfn: page.pfn.align_down(order.into()), attr: page.attr, row: 0 };
        self.put(array, Tag::of(at.asid, at.vpn, order), mapped, counts)
    }

    /// ANC-3: the walk reads the entry of the anchor too, if it lies in another line, and what leads to it, if that is
    /// another page table.
    fn walked(&mut self, at: Lookup, pte: Pte, rest: &mut Rest) {
        let anchor = at.vpn.align_down(self.distances.order(at.asid).into());
        if leaf_level(pte.order, RADIX) > 0 || anchor.align_down(LINE) == at.vpn.align_down(LINE) {
            return;
        }
        let part = rest.counts.parts.at(self.part);
        part.counters.add(READS, 1);
        if anchor.align_down(RADIX.into()) == at.vpn.align_down(RADIX.into()) {
            let leaf = Entry::on_the_way(at.asid, anchor, 0);
            let address = if rest.port.by_caches() { rest.port.place(leaf).address } else { 0 };
            rest.port.step(Purpose::Demand, &[address], &mut part.memory);
        } else {
            let (of, how) = ((at.asid, anchor), (Purpose::Demand, true));
            rest.walker.walk_ahead(of, how, rest.table, rest.port, &mut part.memory);
        }
    }

    /// ANC-4: in each epoch, at the first lookup of a process that the first level misses.
    fn adapts<'c>(
        &mut self,
        at: Lookup,
        position: u64,
        table: &dyn PageTableView,
        counts: &'c mut TlbCounts,
    ) -> Option<&'c mut u64> {
        let choice = self.distances.choose(at.asid, position, table)?;
        let own = &mut counts.parts.at(self.part).counters;
        *own.at(CHOICES) += 1;
        *own.at(DISTANCES) += 1 << choice.order;
        let rewrites = choice.rewrites?;
        *own.at(CHANGES) += 1;
        *own.at(REWRITES) += rewrites;
        let Anchors { arrays, ignored_report, .. } = self;
        let dropped = own.at(DROPPED);
        *dropped += arrays.iter_mut().map(|array| array.drop_space(at.asid, ignored_report)).sum::<u64>();
        Some(dropped)
    }

    fn part(&mut self) -> Option<(&'static ListedSecondLevel, &mut usize)> {
        Some((&LISTED, &mut self.part))
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    /// ANC-5.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        self.drop_from(demoted.into(), asid, pages)
    }

    /// The next process of this number begins as the first did.
    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.distances.forget(asid);
        let Anchors { arrays, ignored_report, .. } = self;
        arrays.iter_mut().map(|array| array.drop_space(asid, ignored_report)).sum()
    }

    fn switch(&mut self, to: Asid) -> u64 {
        let Anchors { arrays, ignored_report, .. } = self;
        arrays.iter_mut().map(|array| array.switch(to, ignored_report)).sum()
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).map(|at| self.translate(at, vpn).0)
    }

    /// Of an anchor, the first page and the last are listed.
    fn views(&self, mut before: usize, into: &mut Vec<EntryView>) {
        for store in &self.arrays {
            into.extend(store.slots().map(|slot| {
                let (tag, Mapped { pfn, attr, row }) = (store.tag(slot), *store.get(slot));
                let page = |offset: u64| (offset, Translation { pfn: Pfn(pfn.0.wrapping_add(offset)), attr }, false);
                EntryView {
                    slot: before + slot as usize,
                    asid: tag.asid(),
                    base: tag.base(),
                    order: tag.order(),
                    pages: if row > 1 { vec![page(0), page(u64::from(row) - 1)] } else { vec![page(0)] },
                    sb_enabled: None,
                    used: None,
                }
            }));
            before += store.entries();
        }
    }

    fn entries(&self) -> usize {
        self.arrays.iter().map(Store::entries).sum()
    }
}
