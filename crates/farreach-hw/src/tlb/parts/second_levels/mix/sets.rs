//! The array of a mix TLB: bundles in sets, a mirror in each.

use crate::tlb::contract::EntryView;
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::replacement::{Replacement, Room};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, Translation};

/// Pages of one size in a row, in both spaces, with equal attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bundle {
    pub asid: Asid,
    /// log2 of the base pages of each.
    pub order: u8,
    /// The first of them, counted in such pages.
    pub first: u64,
    pub many: u64,
    /// The first frame of the first.
    pub pfn: Pfn,
    pub attr: Attr,
}

impl Bundle {
    /// Its base pages.
    pub fn pages(&self) -> VpnRange {
        VpnRange { start: Vpn(self.first << self.order), pages: self.many << self.order }
    }
    pub fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        self.asid == asid && self.pages().overlaps(&pages)
    }
    fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.pages().contains(vpn)
    }
    pub fn translate(&self, vpn: Vpn) -> Translation {
        let from = vpn.0.wrapping_sub(self.first << self.order);
        Translation { pfn: Pfn(self.pfn.0.wrapping_add(from)), attr: self.attr }
    }
    /// Whether both can be one entry, for aligned groups of `group` pages: they touch or overlap, and say the same.
    fn joins(&self, other: &Bundle, group: u64) -> bool {
        (self.asid, self.order, self.attr) == (other.asid, other.order, other.attr)
            && self.first / group == other.first / group
            && self.first <= other.first + other.many
            && other.first <= self.first + self.many
            && self.pfn.0.wrapping_sub(other.pfn.0) == self.first.wrapping_sub(other.first) << self.order
    }
    /// Both of them.
    fn with(&self, other: &Bundle) -> Bundle {
        let first = if self.first <= other.first { self } else { other };
        let end = (self.first + self.many).max(other.first + other.many);
        Bundle { many: end - first.first, ..*first }
    }
}

/// What adding a bundle to a set did.
pub(super) struct Added {
    /// It joined one that was there.
    pub joined: bool,
    pub victim: Option<Victim>,
}

/// See the module.
pub(super) struct Sets {
    geometry: Geometry,
    slots: Box<[Room<Bundle>]>,
    replacement: Replacement,
    process_ids: bool,
    /// Not read, for no lookup that reaches it is filtered.
    ignored_report: Unfiltered,
}

impl Sets {
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Result<Sets, String> {
        Ok(Sets {
            geometry,
            slots: vec![Room::default(); geometry.entries()].into(),
            replacement: Replacement::by_name(geometry, "replacement", params.text("replacement"), seed)?,
            process_ids: params.flag("process_ids"),
            ignored_report: Unfiltered::unread(),
        })
    }

    /// Number of sets.
    pub fn many(&self) -> usize {
        self.geometry.sets
    }

    /// All slots.
    pub fn entries(&self) -> usize {
        self.slots.len()
    }

    /// MIX-1.
    pub fn of(&self, vpn: Vpn) -> usize {
        self.geometry.set(vpn.0)
    }

    fn range(&self, set: usize) -> std::ops::Range<usize> {
        set * self.geometry.ways..(set + 1) * self.geometry.ways
    }

    /// The slot that answers for a page: that in the lowest way (MIX-4).
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let mut range = self.range(self.of(vpn));
        range.find(|&slot| self.slots[slot].held.is_some_and(|bundle| bundle.has(asid, vpn)))
    }

    pub fn bundle(&self, slot: usize) -> Option<&Bundle> {
        self.slots[slot].held.as_ref()
    }

    /// Whether an entry of any set has the page.
    pub fn has_elsewhere(&self, asid: Asid, vpn: Vpn) -> bool {
        self.slots.iter().any(|place| place.held.is_some_and(|bundle| bundle.has(asid, vpn)))
    }

    pub fn touch(&mut self, slot: usize) {
        self.slots[slot].used = true;
        self.replacement.touch(slot as u32, &mut self.ignored_report);
    }

    /// Drops the other entries of this slot's set that have the page: what joined one entry may be in another, too.
    /// Returns how many there were (MIX-4).
    pub fn drop_duplicates(&mut self, kept: usize, asid: Asid, vpn: Vpn) -> u64 {
        let mut gone = 0;
        for slot in kept + 1..self.range(self.of(vpn)).end {
            if self.slots[slot].held.is_some_and(|bundle| bundle.has(asid, vpn)) {
                self.drop(slot);
                gone += 1;
            }
        }
        gone
    }

    /// Adds a bundle to a set: to the first there that it joins, else in an empty slot or in the place of another
    /// (MIX-4). Entries of other sizes that it covers are dropped (AMB-13).
    pub fn add(&mut self, set: usize, new: Bundle, group: u64, counts: &mut TlbCounts) -> Added {
        let mut joined = None;
        for slot in self.range(set) {
            let Some(old) = self.slots[slot].held else { continue };
            if old.order != new.order {
                if old.meets(new.asid, new.pages()) {
                    self.drop(slot);
                    counts.covered_drops += 1;
                }
            } else if new.order > 0 && joined.is_none() && old.joins(&new, group) {
                joined = Some((slot, old.with(&new)));
            }
        }
        if let Some((slot, whole)) = joined {
            self.slots[slot].held = Some(whole);
            self.touch(slot);
            return Added { joined: true, victim: None };
        }
        Added { joined: false, victim: self.place(set, new, counts) }
    }

    fn place(&mut self, set: usize, new: Bundle, counts: &mut TlbCounts) -> Option<Victim> {
        let Sets { slots, replacement, ignored_report, .. } = self;
        let slot = replacement.victim(set, slots, ignored_report).expect("a hierarchy has no used bits");
        let gone = slots[slot as usize].held.take();
        slots[slot as usize] = Room { held: Some(new), used: true };
        replacement.entered(slot, gone.is_some(), ignored_report);
        counts.evictions += u64::from(gone.is_some());
        gone.map(|old| Victim { asid: old.asid, vpn: old.pages().start, order: old.order })
    }

    fn drop(&mut self, slot: usize) {
        self.slots[slot].held = None;
        self.replacement.dropped(slot as u32);
    }

    /// Drops entries whole and returns how many there were.
    pub fn drop_where(&mut self, goes: impl Fn(&Bundle) -> bool) -> u64 {
        let mut gone = 0;
        for slot in 0..self.slots.len() {
            if self.slots[slot].held.as_ref().is_some_and(&goes) {
                self.drop(slot);
                gone += 1;
            }
        }
        gone
    }

    pub fn switch(&mut self, to: Asid) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|bundle| bundle.asid != to) }
    }

    /// Its entries. Of a superpage, the page listed is the first that has this set; of a bundle also the last.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        for (slot, place) in self.slots.iter().enumerate() {
            let Some(bundle) = place.held else { continue };
            let (pages, sets) = (bundle.pages(), self.geometry.sets as u64);
            let set = (slot / self.geometry.ways) as u64;
            let first = set.wrapping_sub(pages.start.0) & (sets - 1);
            let last = first + (pages.pages - 1 - first) / sets * sets;
            let page = |offset| (offset, bundle.translate(Vpn(pages.start.0 + offset)), false);
            into.push(EntryView {
                slot: before + slot,
                asid: bundle.asid,
                base: pages.start,
                order: pages.pages.next_power_of_two().trailing_zeros() as u8,
                pages: if bundle.many > 1 { vec![page(first), page(last)] } else { vec![page(first)] },
                sb_enabled: None,
                used: None,
            });
        }
    }
}
