//! Invalidation: entries that leave a store because a mapping changed.

use super::tag_index::{NONE, Node, Tag};
use super::{Contents, Entry, Store, ones};
use crate::tlb::filter::Unfiltered;
use farreach_types::addr::{Asid, Vpn, VpnRange};

impl<C: Contents> Store<C> {
    /// Finds the slots with tags of this order that share a page with the range.
    fn overlapping(&mut self, asid: Asid, range: VpnRange, order: u8) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let live = u64::from(self.live(order));
        if live == 0 || range.pages == 0 {
            return found;
        }
        let of = range.pages.trailing_zeros() as u8;
        let is_group = range.pages.is_power_of_two() && range.start.offset_in(of.into()) == 0;
        if is_group && order < of && self.index.has_none_within(asid, range.start, of) {
            return found;
        }
        let (first, last) = (range.start.0 >> order, range.start.0.saturating_add(range.pages - 1) >> order);
        if last - first < live {
            for group in first..=last {
                let mut slot = self.index.first(Tag::of(asid, Vpn(group << order), order));
                while slot != NONE {
                    found.push(slot);
                    slot = self.index.next(slot);
                }
            }
        } else {
            let inside = |tag: Tag| tag.asid() == asid && tag.order() == order && (first..=last).contains(&tag.group());
            found.extend(self.slots().filter(|&slot| inside(self.tag(slot))));
        }
        found
    }

    /// Drops the entries of this order that share a page with the range, whole, and returns how many there were.
    pub fn drop_overlapping(&mut self, asid: Asid, range: VpnRange, order: u8, unfiltered: &mut Unfiltered) -> u64 {
        let mut found = self.overlapping(asid, range, order);
        let dropped = found.len() as u64;
        found.drain(..).for_each(|slot| self.drop(slot, unfiltered));
        self.found = found;
        dropped
    }

    /// Mappings in the range changed: drops the translations that entries of this order have of them (T94-18). Returns
    /// how many were dropped: subblocks, or entries without.
    pub fn invalidate(&mut self, asid: Asid, range: VpnRange, order: u8, unfiltered: &mut Unfiltered) -> u64 {
        let mut found = self.overlapping(asid, range, order);
        let mut gone = 0;
        for slot in found.drain(..) {
            let Node { tag, entry, .. } = self.index.get_mut(slot);
            let Entry { contents, filtered_parts, used } = entry;
            let Some(valid) = contents.subblocks() else {
                self.drop(slot, unfiltered);
                gone += 1;
                continue;
            };
            let mask = valid & inside(range, tag.base(), order);
            if mask == 0 {
                continue;
            }
            let mask = contents.falling(mask);
            gone += u64::from(mask.count_ones());
            // The times of lookups of the dropped pages would be lost.
            if let Some(lookups) = unfiltered.last_lookups() {
                let (asid, base, gone) = (tag.asid(), tag.base(), *filtered_parts & mask);
                let since = |since| lookups.any_since(since, asid, base, gone);
                self.replacement.learn(slot, used, since, |known| lookups.last_of(known, asid, base, gone, 0));
            }
            if mask == valid {
                self.drop(slot, unfiltered);
            } else {
                contents.clear(mask);
                unfiltered.add(asid, tag.base(), *filtered_parts & mask);
                *filtered_parts &= !mask;
            }
        }
        self.found = found;
        gone
    }

    /// The process has ended: drops its entries. Returns how many translations were dropped: subblocks, or entries
    /// without.
    pub fn drop_space(&mut self, of: Asid, unfiltered: &mut Unfiltered) -> u64 {
        self.drop_where(|asid| asid == of, unfiltered)
    }

    /// Another process runs. Without process ids the entries of its predecessor are dropped; returns how many
    /// translations.
    pub fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|asid| asid != to, unfiltered) }
    }

    fn drop_where(&mut self, goes: impl Fn(Asid) -> bool, unfiltered: &mut Unfiltered) -> u64 {
        let mut gone = 0;
        for slot in 0..self.entries() as u32 {
            if self.index.get(slot).is_valid() && goes(self.tag(slot).asid()) {
                gone += self.get(slot).subblocks().map_or(1, |mask| u64::from(mask.count_ones()));
                self.drop(slot, unfiltered);
            }
        }
        gone
    }
}

/// The pages of `range` in the group of `2^order` pages (at most 64) that begins at `base`.
fn inside(range: VpnRange, base: Vpn, order: u8) -> u64 {
    let n = 1u64 << order;
    let from = range.start.0.saturating_sub(base.0).min(n);
    let to = range.start.0.saturating_add(range.pages).saturating_sub(base.0).min(n);
    ones(to as u32) & !ones(from as u32)
}
