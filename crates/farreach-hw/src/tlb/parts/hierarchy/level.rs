//! One level of a TLB hierarchy: arrays of entries, each for one page size or several.

use super::foresight::Foresight;
use super::shared;
use crate::tlb::contract::EntryView;
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::L1_REPLACEMENT;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::store::geometry::{ALL_BITS, Geometry, common};
use crate::tlb::parts::store::policies::{Access, Listed};
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store};
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, Perforated, Translation};
use std::ops::Range;

/// The notation of a level, for messages.
const FORM: &str =
    "arrays such as 4K:64/4+2M:32/4+1G:4 (sizes that share an array joined by |, entries, /ways if in sets)";
const MAX_ENTRIES: u64 = 65536;
/// Largest order of entries whose fill is told at once that it covers no other: those that coalescing makes, of which
/// most fills are. For 2 MB it costs more at each fill of a base page than it spares.
const LARGEST_COUNTED: u8 = 6;

/// One translation for an aligned group of `2^order` pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Leaf {
    pub order: u8,
    /// Frame of the first page.
    pub pfn: Pfn,
    pub attr: Attr,
}

impl Leaf {
    /// The group of this size that holds a page with this translation.
    #[inline]
    pub fn around(page: Translation, order: u8) -> Leaf {
        Leaf { order, pfn: page.pfn.align_down(order.into()), attr: page.attr }
    }
    /// The translation of a page in it.
    #[inline]
    pub fn translate(&self, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.pfn.0 | vpn.offset_in(self.order.into())), attr: self.attr }
    }
}

/// How much of a mapping an entry is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Size {
    /// log2 of the pages of its tag.
    pub order: u8,
    /// Of a superpage with holes, the groups of 64 pages for which the entry does not stand, a bit each (PRF-1).
    pub filter: u8,
}

impl Size {
    /// All pages of the tag.
    #[inline]
    pub fn whole(order: u8) -> Size {
        Size { order, filter: 0 }
    }
}

/// What an entry for an aligned group of pages has beside its tag.
#[derive(Clone, Copy, Default)]
pub(in crate::tlb) struct Mapping {
    /// Frame of the first page.
    pfn: Pfn,
    attr: Attr,
    /// See [`Size::filter`].
    filter: u8,
}

impl Mapping {
    /// The group of `2^order` pages that holds a page with this translation.
    #[inline]
    pub fn around(page: Translation, size: Size) -> Mapping {
        let Leaf { pfn, attr, .. } = Leaf::around(page, size.order);
        Mapping { pfn, attr, filter: size.filter }
    }
    /// Whether the entry stands for this page of its group.
    #[inline]
    fn stands_for(&self, vpn: Vpn) -> bool {
        self.filter >> (vpn.0 >> Perforated::GROUP & 7) & 1 == 0
    }
    /// The translation of a page of such a group.
    #[inline]
    pub fn translate(&self, order: u8, vpn: Vpn) -> Translation {
        Leaf { order, pfn: self.pfn, attr: self.attr }.translate(vpn)
    }
    /// The entry with it, for display. Where it does not stand for all, its pages are listed.
    pub fn view(&self, slot: usize, tag: Tag) -> EntryView {
        let listed = if self.filter == 0 { 1 } else { 1 << tag.order() };
        let page = |i| (i, Translation { pfn: Pfn(self.pfn.0 + i), attr: self.attr }, false);
        EntryView {
            slot,
            asid: tag.asid(),
            base: tag.base(),
            order: tag.order(),
            pages: (0..listed).filter(|i| self.stands_for(Vpn(tag.base().0 + i))).map(page).collect(),
            sb_enabled: None,
            used: None,
        }
    }
}

impl Contents for Mapping {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// A level. At most one of its entries translates a page.
pub(in crate::tlb) struct Level {
    arrays: Vec<Store<Mapping>>,
    /// The sizes it has, ascending, each with its array.
    sizes: Vec<(u8, usize)>,
    /// For policies that want to know what comes.
    pub(super) foresight: Option<Box<Foresight>>,
}

/// How one array of a level is described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayShape {
    /// log2 of the base pages of each size it holds.
    pub orders: Vec<u8>,
    /// Entries.
    pub entries: usize,
    /// Entries per set; all of them, if it is fully associative.
    pub ways: usize,
}

/// The arrays that a key such as `l1d` describes, none if it says `none`. Their slots follow each other in this order.
///
/// # Errors
/// The description is refused, with key, value and what is allowed.
pub fn array_shapes(params: &Params, key: &str) -> Result<Vec<ArrayShape>, String> {
    let shape = |(orders, Geometry { sets, ways, .. }): Written| ArrayShape { orders, entries: sets * ways, ways };
    Ok(written(params, key)?.into_iter().map(shape).collect())
}

/// A parsed array: orders, geometry.
type Written = (Vec<u8>, Geometry);

/// Sizes below the base page are left out: no page has them. `times`: as many entries as are written (SLL-1).
fn read(item: &str, page_shift: u32, times: u64) -> Result<Written, String> {
    let (sizes, shape) = item.split_once(':').ok_or_else(|| format!("'{item}' has no entries"))?;
    let shift = |size: &str| {
        let bytes = size.parse::<Bytes>()?.0;
        let legal = bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(&bytes);
        legal.then(|| bytes.trailing_zeros()).ok_or_else(|| format!("'{size}' is no page size from 4K to 1G"))
    };
    let number = |text: &str| {
        let n = text.trim().parse::<u64>().ok().filter(|n| (1..=MAX_ENTRIES).contains(n));
        n.ok_or_else(|| format!("'{text}' is no number from 1 to {MAX_ENTRIES}"))
    };
    let (entries, ways) = match shape.split_once('/') {
        Some((entries, ways)) => (number(entries)?, number(ways)?),
        None => (number(shape)?, 0),
    };
    let shifts = sizes.split('|').map(shift).collect::<Result<Vec<u32>, String>>()?;
    let orders = shifts.iter().filter_map(|shift| shift.checked_sub(page_shift)).map(|order| order as u8).collect();
    let several = |why| if times > 1 { format!("with l2_shared it has those of {times} cores: {why}") } else { why };
    Ok((orders, Geometry::new(entries * times, ways).map_err(several)?))
}

/// The arrays that a key describes; none if it says `none`.
fn written(params: &Params, key: &str) -> Result<Vec<Written>, String> {
    let items = params.texts(key);
    let refuse = |why: String| format!("{key} = {} is not allowed: {why}; {key} must be {FORM}", items.join("+"));
    if items == ["none"] {
        return Ok(Vec::new());
    }
    let times = shared::times(params, key);
    let read = |item: &String| read(item, params.page_shift(), times);
    let mut arrays = items.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
    arrays.retain(|(orders, _)| !orders.is_empty());
    let mut orders: Vec<u8> = arrays.iter().flat_map(|(orders, _)| orders.iter().copied()).collect();
    orders.sort_unstable();
    match orders.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => {
            Err(refuse(format!("{} is there twice", Bytes(1 << (params.page_shift() + u32::from(twice[0]))))))
        }
        None if orders.is_empty() => {
            Err(refuse(format!("there is no array for pages of {} or more", Bytes(1 << params.page_shift()))))
        }
        None => Ok(arrays),
    }
}

/// Reach in bytes of the level that a key describes.
pub(in crate::tlb) fn reach(params: &Params, key: &str) -> u64 {
    let array = |(orders, geometry): &Written| {
        (geometry.entries() as u64) << (params.page_shift() as u8 + orders.iter().max().unwrap_or(&0))
    };
    written(params, key).map_or(0, |arrays| arrays.iter().map(array).sum())
}

impl Level {
    /// From a key that holds [`FORM`], and the keys of [`Store::new`]. `None` if it says `none`. The i-th array draws
    /// from `seed` + i.
    pub fn new(params: &Params, key: &str, seed: u64) -> Result<Option<Level>, String> {
        Level::with(params, key, |geometry, i| Store::new(geometry, params, seed.wrapping_add(i)))
    }

    fn with(
        params: &Params,
        key: &str,
        store: impl Fn(Geometry, u64) -> Result<Store<Mapping>, String>,
    ) -> Result<Option<Level>, String> {
        let arrays = written(params, key)?;
        let mut sizes: Vec<(u8, usize)> =
            arrays.iter().enumerate().flat_map(|(i, (orders, _))| orders.iter().map(move |&o| (o, i))).collect();
        sizes.sort_unstable();
        let mut arrays: Vec<Store<Mapping>> =
            (0..).zip(&arrays).map(|(i, (_, geometry))| store(*geometry, i)).collect::<Result<_, _>>()?;
        for &(order, _) in sizes.iter().filter(|(order, _)| (1..=LARGEST_COUNTED).contains(order)) {
            let of: Vec<usize> = sizes.iter().filter(|(other, _)| *other < order).map(|&(_, of)| of).collect();
            arrays.iter_mut().enumerate().filter(|(i, _)| of.contains(i)).for_each(|(_, a)| a.fills_over(order));
        }
        Ok((!arrays.is_empty()).then_some(Level { arrays, sizes, foresight: None }))
    }

    /// As [`Level::new`], for a first level: it must have an array for base pages, and may have a policy of its own.
    pub fn first(params: &Params, key: &str, seed: u64) -> Result<Level, String> {
        let level = match params.text(L1_REPLACEMENT.name) {
            "same" => Level::new(params, key, seed)?,
            _ => Level::with(params, key, |geometry, i| {
                Store::with_policy(geometry, L1_REPLACEMENT.name, params, seed.wrapping_add(i))
            })?,
        };
        match level {
            Some(level) if level.sizes[0].0 == 0 => Ok(level),
            _ => Err(format!(
                "{key} = {} is not allowed: {key} must have {}, the size every page can fall back to",
                params.texts(key).join("+"),
                Bytes(1 << params.page_shift())
            )),
        }
    }

    /// As [`Level::new`], with a policy of the registry, for a level whose lookups are never filtered.
    pub fn with_listed(params: &Params, key: &str, seed: u64, policy: &Listed) -> Result<Option<Level>, String> {
        let store = |geometry, i| Store::with_listed(geometry, policy, params, seed.wrapping_add(i));
        let mut level = Level::with(params, key, store)?;
        if let Some(level) = level.as_mut().filter(|_| policy.foresees) {
            let orders = level.sizes.iter().map(|&(order, _)| order).collect();
            level.foresight = Some(Box::new(Foresight::new(params, orders)));
        }
        Ok(level)
    }

    /// A lookup reaches the level, which its policy wants to know. A fill for it makes an entry of `order`, if any.
    pub fn looked_up(&mut self, (asid, vpn): (Asid, Vpn), order: Option<u8>, mut at: Access) {
        if let Some(foresight) = &mut self.foresight {
            at.next_use = foresight.looked_up((asid, vpn), order);
        }
        self.arrays.iter_mut().for_each(|array| array.looked_up(at));
    }

    /// The counters of its policy, array by array.
    pub fn policy_counters(&self, each: &mut dyn FnMut(usize, u64)) {
        for array in &self.arrays {
            let mut i = 0;
            array.policy_counters(&mut |count| {
                each(i, count);
                i += 1;
            });
        }
    }

    /// The largest of its sizes that is not larger than this one.
    #[inline]
    pub fn fitting(&self, order: u8) -> Option<u8> {
        let smallest = self.sizes[0].0;
        if order <= smallest {
            return (order == smallest).then_some(order);
        }
        self.sizes.iter().rev().map(|&(o, _)| o).find(|&o| o <= order)
    }

    /// See [`crate::tlb::Capabilities::set_bits`].
    pub fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        let mut in_use = self.sizes.iter().filter(|(order, _)| *order <= largest);
        in_use.try_fold(ALL_BITS, |bits, (order, array)| common(bits, self.arrays[*array].set_bits(*order)?))
    }

    pub fn entries(&self) -> usize {
        self.arrays.iter().map(Store::entries).sum()
    }

    /// The entry that translates this page, as array and slot.
    #[inline]
    fn find(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        let mut hit = None;
        // A loop, for as an iterator it became a call.
        for &(order, array) in &self.sizes {
            let store = &self.arrays[array];
            if store.live(order) > 0
                && let Some(slot) = store.find(Tag::of(asid, vpn, order))
                && store.get(slot).stands_for(vpn)
            {
                debug_assert_eq!(hit, None, "T94-17: two entries match {asid:?} {vpn:?}");
                hit = Some((array, slot));
                if !cfg!(debug_assertions) {
                    break;
                }
            }
        }
        hit
    }

    fn leaf(&self, (array, slot): (usize, u32)) -> Leaf {
        let mapping = self.arrays[array].get(slot);
        Leaf { order: self.arrays[array].tag(slot).order(), pfn: mapping.pfn, attr: mapping.attr }
    }

    /// The translation of a page, changing nothing.
    pub fn probe(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        self.find(asid, vpn).map(|at| self.leaf(at).translate(vpn))
    }

    /// Looks a page up; a hit is an access.
    #[inline]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn, unfiltered: &mut Unfiltered) -> Option<Leaf> {
        let at = self.find(asid, vpn)?;
        Some(self.hit(at, vpn, unfiltered))
    }

    /// This entry answers for a page.
    #[inline]
    pub fn hit(&mut self, (array, slot): (usize, u32), vpn: Vpn, unfiltered: &mut Unfiltered) -> Leaf {
        let part = self.arrays[array].tag(slot).part(vpn);
        self.arrays[array].touch(slot, part, unfiltered);
        self.leaf((array, slot))
    }

    /// The entry of the superpage with holes around a page for which it does not stand, as array and slot (PRF-2).
    pub fn behind_filter(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        let at = self.perforated(asid, vpn)?;
        (!self.arrays[at.0].get(at.1).stands_for(vpn)).then_some(at)
    }

    /// The entry of the superpage around a page.
    pub fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        let order = Perforated::ORDER;
        let array = self.sizes.iter().find(|(of, _)| *of == order)?.1;
        let store = &self.arrays[array];
        let slot = if store.live(order) == 0 { None } else { store.find(Tag::of(asid, vpn, order)) };
        slot.map(|slot| (array, slot))
    }

    /// See [`Store::follows_uses`].
    pub fn follows_uses(&self) -> bool {
        self.arrays[0].follows_uses()
    }
    /// See [`Store::orders_uses`].
    pub fn orders_uses(&self) -> bool {
        self.arrays[0].orders_uses()
    }

    /// See [`crate::tlb::Timed`].
    pub fn note_lookup(&mut self, asid: Asid, vpn: Vpn, when: u64) {
        if let Some((array, slot)) = self.find(asid, vpn) {
            let part = self.arrays[array].tag(slot).part(vpn);
            self.arrays[array].note_lookup(slot, part, when);
        }
    }

    pub fn settle(&mut self, unfiltered: &mut Unfiltered) {
        self.arrays.iter_mut().for_each(|array| array.settle(unfiltered));
    }

    /// Fills the translation of a page that it does not have, as an entry of an order that must be one of its sizes.
    /// Drops the entries for pages for which the new one stands (AMB-13). Returns whether the access, repeated, would
    /// change nothing.
    pub fn fill(
        &mut self,
        (asid, vpn): (Asid, Vpn),
        page: Translation,
        Size { order, filter }: Size,
        counts: &mut TlbCounts,
        unfiltered: &mut Unfiltered,
    ) -> bool {
        let mapping = Mapping::around(page, Size { order, filter: if order > Perforated::GROUP { filter } else { 0 } });
        debug_assert_eq!(
            vpn.offset_in(order.into()),
            page.pfn.offset_in(order.into()),
            "T94-2: {vpn:?} {page:?} {order}"
        );
        if order > 0 {
            let covered = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
            counts.covered_drops += match mapping.filter {
                0 => self.drop_entries(asid, covered, 0, unfiltered),
                _ => self.drop_groups(asid, covered, mapping, unfiltered),
            };
        }
        let array = self.sizes.iter().find(|&&(o, _)| o == order).expect("one of its sizes").1;
        let store = &mut self.arrays[array];
        let tag = Tag::of(asid, vpn, order);
        store.fill(tag, mapping, tag.part(vpn), counts, unfiltered)
    }

    /// Drops the entries of the groups for which this mapping stands.
    #[cold]
    fn drop_groups(&mut self, asid: Asid, all: VpnRange, mapping: Mapping, unfiltered: &mut Unfiltered) -> u64 {
        let groups = (0..all.pages >> Perforated::GROUP).map(|i| Vpn(all.start.0 + (i << Perforated::GROUP)));
        let dropped = groups
            .filter(|group| mapping.stands_for(*group))
            .map(|start| self.drop_entries(asid, VpnRange { start, pages: 1 << Perforated::GROUP }, 0, unfiltered));
        dropped.sum()
    }

    /// The entry that the last fill of an entry of `order` evicted. Only after a fill that did.
    pub fn victim(&self, order: u8) -> Victim {
        let array = self.sizes.iter().find(|&&(o, _)| o == order).expect("one of its sizes").1;
        let tag = self.arrays[array].last_victim();
        Victim { asid: tag.asid(), vpn: tag.base(), order: tag.order() }
    }

    /// Drops the entries of at least `from` that share a page with the range and returns how many there were.
    pub fn drop_overlapping(&mut self, asid: Asid, range: VpnRange, from: u8, unfiltered: &mut Unfiltered) -> u64 {
        if let Some(foresight) = &mut self.foresight {
            foresight.dropped(asid, range, from);
        }
        self.drop_entries(asid, range, from, unfiltered)
    }

    fn drop_entries(&mut self, asid: Asid, range: VpnRange, from: u8, unfiltered: &mut Unfiltered) -> u64 {
        let mut dropped = 0;
        for &(order, array) in self.sizes.iter().filter(|&&(order, _)| order >= from) {
            dropped += self.arrays[array].drop_overlapping(asid, range, order, unfiltered);
        }
        dropped
    }

    pub fn drop_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) -> u64 {
        if let Some(foresight) = &mut self.foresight {
            foresight.dropped_space(asid);
        }
        self.arrays.iter_mut().map(|a| a.drop_space(asid, unfiltered)).sum()
    }

    pub fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) -> u64 {
        if let Some(foresight) = &mut self.foresight {
            foresight.switched(to);
        }
        self.arrays.iter_mut().map(|a| a.switch(to, unfiltered)).sum()
    }

    /// Its entries; slots go on from `before`, array by array.
    pub fn views(&self, mut before: usize, into: &mut Vec<EntryView>) {
        for store in &self.arrays {
            into.extend(store.slots().map(|slot| store.get(slot).view(before + slot as usize, store.tag(slot))));
            before += store.entries();
        }
    }
}
