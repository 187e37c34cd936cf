//! Entries of several page sizes (T94-4, T94-11).
//!
//! The set of an entry depends on its page size, which a lookup does not know. So an array in sets is refused unless
//! the organisation is chosen (T94-16): `probe` looks once per page size in one array, `per-size` has an array for each
//! size, looked up together (T94-25).

use crate::tlb::contract::{
    Answer, Capabilities, Design, EntryBits, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Timed, Tlb,
};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{ENTRIES, FILL_SETS_USED, PAGE_SIZE, PROCESS_IDS, REPLACEMENT, SEED, SIZES, WAYS};
use crate::tlb::parts::bits::{ATTR, SIZE, USED, pid, ppn, vpn};
use crate::tlb::parts::store::geometry::{ALL_BITS, Geometry, common};
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store, count_miss};
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};
use std::ops::Range;

/// Organisation of a TLB with several page sizes (T94-16).
pub const LOOKUP: Key = Key {
    name: "lookup",
    default: "one-array",
    allowed: Allowed::OneOf(&["one-array", "probe", "per-size"]),
    about: "how an entry of unknown page size is found: one-array (fully associative), probe (once per size), per-size \
            (an array each)",
};
/// Entries of the arrays of `lookup = per-size`.
pub const SIZE_ENTRIES: Key = Key {
    name: "size_entries",
    default: "",
    allowed: Allowed::Texts,
    about: "lookup = per-size: entries of each size's array, such as 64+32+4; empty: 'entries' each",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "superpage",
    about: "one translation per entry, of one of several page sizes (T94-4)",
    keys: &[
        &ENTRIES,
        &WAYS,
        &SIZES,
        &LOOKUP,
        &SIZE_ENTRIES,
        &REPLACEMENT,
        &FILL_SETS_USED,
        &PROCESS_IDS,
        &SEED,
        &PAGE_SIZE,
    ],
    build: |params| Ok(Box::new(SuperpageTlb::new(params)?)),
    bits: |params| {
        let applies = params.int("ways") == 0 && params.text("lookup") != "per-size";
        applies.then(|| EntryBits { tag: pid(params) + vpn(params) + SIZE, data: ppn(params) + ATTR + 2, status: USED })
    },
    reach: |params| {
        let sizes = params.sizes("sizes");
        match array_entries(params) {
            Ok(entries) if entries.len() > 1 => entries.iter().zip(&sizes).map(|(n, size)| n * size).sum(),
            Ok(entries) => entries[0] * sizes.last().copied().unwrap_or(0),
            Err(_) => 0,
        }
    },
};

/// log2 of the base pages in each size of the key `sizes`, ascending; the first must be the base page.
pub(super) fn orders(params: &Params) -> Result<Vec<u8>, String> {
    let (sizes, page) = (params.sizes("sizes"), params.int("page_size"));
    if sizes.first() != Some(&page) {
        return Err(format!(
            "sizes = {} is not allowed: sizes must begin with page_size, {}, the size every page can fall back to",
            listed(&sizes),
            Bytes(page)
        ));
    }
    sizes.iter().map(|&size| Ok(params.order("sizes", size)? as u8)).collect()
}

/// Sizes in the notation of the command line.
pub(super) fn listed(sizes: &[u64]) -> String {
    sizes.iter().map(|&n| Bytes(n).to_string()).collect::<Vec<_>>().join("+")
}

/// Entries of each array.
fn array_entries(params: &Params) -> Result<Vec<u64>, String> {
    let (entries, sizes, given) = (params.int("entries"), params.sizes("sizes"), params.texts("size_entries"));
    if params.text("lookup") != "per-size" {
        return match given.is_empty() {
            true => Ok(vec![entries]),
            false => Err("size_entries is not allowed: only lookup = per-size has an array for each size".into()),
        };
    }
    if given.is_empty() {
        return Ok(vec![entries; sizes.len()]);
    }
    let number = |text: &String| text.trim().parse().ok().filter(|n| (1..=65536).contains(n));
    let numbers = given.iter().map(number).collect::<Option<Vec<u64>>>();
    numbers.filter(|n| n.len() == sizes.len()).ok_or_else(|| {
        format!(
            "size_entries = {} is not allowed: size_entries must be {} whole numbers from 1 to 65536, one for each of \
             sizes",
            given.join("+"),
            sizes.len()
        )
    })
}

#[derive(Clone, Copy, Default)]
struct Mapping {
    /// Frame of the first page.
    pfn: Pfn,
    attr: Attr,
    /// One for the whole superpage (T94-19).
    modified: bool,
}

impl Contents for Mapping {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// A TLB of translations of several page sizes.
struct SuperpageTlb {
    /// One, or one for each order.
    arrays: Vec<Store<Mapping>>,
    orders: Vec<u8>,
    counts: TlbCounts,
}

impl SuperpageTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<SuperpageTlb, String> {
        let orders = orders(params)?;
        let ways = params.int("ways");
        if ways != 0 && orders.len() > 1 && params.text("lookup") == "one-array" {
            return Err(format!(
                "ways = {ways} is not allowed: with several sizes the set of an entry is not known before its size is \
                 (T94-16); choose lookup = probe or per-size, or ways = 0"
            ));
        }
        let build = |(i, &entries): (usize, &u64)| {
            let geometry = Geometry::new(entries, ways)?;
            Store::new(geometry, params, params.int("seed").wrapping_add(i as u64))
        };
        let arrays = array_entries(params)?.iter().enumerate().map(build).collect::<Result<Vec<_>, String>>()?;
        Ok(SuperpageTlb { arrays, orders, counts: TlbCounts::default() })
    }

    /// The array that holds the entries of the `i`-th order.
    #[inline]
    fn array(&self, i: usize) -> usize {
        if self.arrays.len() == 1 { 0 } else { i }
    }

    /// The entry that translates this page, as array and slot.
    #[inline(always)]
    fn find(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u32)> {
        let mut hit = None;
        for (i, &order) in self.orders.iter().enumerate() {
            let array = &self.arrays[self.array(i)];
            if array.live(order) == 0 {
                continue;
            }
            if let Some(slot) = array.find(Tag::of(asid, vpn, order)) {
                debug_assert_eq!(hit, None, "T94-17: two entries match {asid:?} {vpn:?}");
                hit = Some((self.array(i), slot));
                if !cfg!(debug_assertions) {
                    break;
                }
            }
        }
        hit
    }

    fn translate(&self, (array, slot): (usize, u32), vpn: Vpn) -> Translation {
        let (order, mapping) = (self.arrays[array].tag(slot).order(), self.arrays[array].get(slot));
        Translation { pfn: Pfn(mapping.pfn.0 | vpn.offset_in(order.into())), attr: mapping.attr }
    }

    /// Drops the entries below this order that share a page with the range and returns how many there were.
    fn drop_overlapping(&mut self, asid: Asid, range: VpnRange, below: u8, unfiltered: &mut Unfiltered) -> u64 {
        let mut dropped = 0;
        for i in 0..self.orders.len() {
            if self.orders[i] >= below {
                break;
            }
            let array = self.array(i);
            dropped += self.arrays[array].drop_overlapping(asid, range, self.orders[i], unfiltered);
        }
        dropped
    }
}

impl Tlb for SuperpageTlb {
    fn access(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let store = at.kind == Kind::Store;
        if let Some((array, slot)) = self.find(at.asid, at.vpn) {
            debug_assert_eq!(
                self.translate((array, slot), at.vpn),
                Translation { pfn: pte.pfn, attr: pte.attr },
                "XC-3: {at:?}"
            );
            self.arrays[array].get_mut(slot).modified |= store;
            let part = self.arrays[array].tag(slot).part(at.vpn);
            self.arrays[array].touch(slot, part, unfiltered);
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
        self.counts.fills += 1;
        // The largest size that the mapping has room for.
        let size = self.orders.iter().rposition(|&o| o <= pte.order).unwrap_or(0);
        let order = self.orders[size];
        if order > 0 {
            // T94-11, AMB-13. The page missed, so no entry of this size or a larger one covers it.
            let covered = VpnRange { start: at.vpn.align_down(order.into()), pages: 1 << order };
            self.counts.covered_drops += self.drop_overlapping(at.asid, covered, order, unfiltered);
        }
        debug_assert_eq!(at.vpn.offset_in(order.into()), pte.pfn.offset_in(order.into()), "T94-2: {at:?} {pte:?}");
        let mapping = Mapping { pfn: pte.pfn.align_down(order.into()), attr: pte.attr, modified: store };
        let array = self.array(size);
        let tag = Tag::of(at.asid, at.vpn, order);
        let filterable = self.arrays[array].fill(tag, mapping, tag.part(at.vpn), &mut self.counts, unfiltered);
        Answer { outcome: Outcome::TagMiss, filterable }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.counts.invalidations += self.drop_overlapping(asid, pages, u8::MAX, unfiltered);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        for array in &mut self.arrays {
            self.counts.invalidations += array.drop_space(asid, unfiltered);
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).map(|at| self.translate(at, vpn))
    }

    fn entries(&self) -> Vec<EntryView> {
        let mut views = Vec::new();
        let mut before = 0;
        for array in &self.arrays {
            views.extend(array.slots().map(|slot| {
                let (tag, mapping) = (array.tag(slot), array.get(slot));
                EntryView {
                    slot: before + slot as usize,
                    asid: tag.asid(),
                    base: tag.base(),
                    order: tag.order(),
                    pages: vec![(0, Translation { pfn: mapping.pfn, attr: mapping.attr }, mapping.modified)],
                    sb_enabled: None,
                    used: array.used(slot),
                }
            }));
            before += array.entries();
        }
        views
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for SuperpageTlb {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.arrays[0].follows_uses() { Some(self) } else { None }
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        let mut in_use = self.orders.iter().enumerate().filter(|(_, order)| **order <= largest);
        in_use.try_fold(ALL_BITS, |bits, (i, order)| common(bits, self.arrays[self.array(i)].set_bits(*order)?))
    }
}

impl OnDemotion for SuperpageTlb {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        for i in (0..self.orders.len()).filter(|&i| self.orders[i] > 0) {
            let array = self.array(i);
            self.counts.invalidations += self.arrays[array].drop_overlapping(asid, pages, self.orders[i], unfiltered);
        }
    }
}

impl OnSwitch for SuperpageTlb {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        for array in &mut self.arrays {
            self.counts.invalidations += array.switch(to, unfiltered);
        }
    }
}

impl Timed for SuperpageTlb {
    fn orders(&self) -> bool {
        self.arrays[0].orders_uses()
    }
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, _: bool, when: u64) {
        if let Some((array, slot)) = self.find(asid, vpn) {
            let part = self.arrays[array].tag(slot).part(vpn);
            self.arrays[array].note_lookup(slot, part, when);
        }
    }
    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        self.arrays.iter_mut().for_each(|array| array.settle(unfiltered));
    }
}
