//! Accessed bits (OSC-2), for policies that look at which pages are in use. A leaf of the page table has one, a
//! superpage one for all of its pages. Hardware sets it when it walks to the leaf, never at a hit of a TLB, so an entry
//! that stays when the bit is cleared hides what is accessed later.
//!
//! Who drives the system says which walks there were ([`Os::walked`]), if it wants to know ([`Os::counts_walks`]).
//! Walks ahead of a lookup, which hardware makes by itself, are none of them.

use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::Entry;
use crate::placement::{carrefour, hawkeye, utopia};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};

/// What sets and clears the bits. A policy that looks at them has this key.
pub(crate) const ACCESS_BITS: Key = Key {
    name: "access_bits",
    default: "walk",
    allowed: Allowed::OneOf(&["walk", "walk+flush", "exact"]),
    about: "accessed bits are set by page walks, and clearing one keeps the TLB's entry or drops it; or, as a bound, \
            each access sets them (OSC-2)",
};

/// What sets and clears the bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessBits {
    /// Nothing: the policy does not look at them.
    Unused,
    /// Walks set them.
    Walk {
        /// Clearing one invalidates the entries of TLBs.
        flush: bool,
    },
    /// Every access sets them.
    Exact,
}

impl AccessBits {
    /// From the keys.
    pub fn new(params: &Params) -> AccessBits {
        if !params.has(ACCESS_BITS.name) {
            return AccessBits::Unused;
        }
        match params.text(ACCESS_BITS.name) {
            "exact" => AccessBits::Exact,
            text => AccessBits::Walk { flush: text == "walk+flush" },
        }
    }
}

/// What makes a system want to know of the walks of its machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WalkKey {
    /// The key.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// A value with which the system does without.
    pub without: &'static str,
}

/// The key for which a system with these keys must be told of walks: [`Os::counts_walks`].
pub fn walk_key(params: &Params) -> Option<WalkKey> {
    let key = |key: &Key, value: String, without| WalkKey { name: key.name, value, without };
    if let AccessBits::Walk { .. } = AccessBits::new(params) {
        return Some(key(&ACCESS_BITS, params.text(ACCESS_BITS.name).to_owned(), "exact"));
    }
    let choice = hawkeye::CHOICE.name;
    if params.has(choice) && params.text(choice) == hawkeye::BY_OVERHEAD {
        return Some(key(&hawkeye::CHOICE, hawkeye::BY_OVERHEAD.to_owned(), "coverage"));
    }
    let nodes = carrefour::NODES.name;
    if params.has(nodes) && params.int(nodes) > 1 {
        return Some(key(&carrefour::NODES, params.int(nodes).to_string(), "1"));
    }
    let walks_at = utopia::WALKS_AT.name;
    let walks = if params.has(walks_at) { params.int(walks_at) } else { 0 };
    (walks > 0).then(|| key(&utopia::WALKS_AT, walks.to_string(), "0"))
}

/// A leaf as a scan finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScannedLeaf {
    /// Its first page.
    pub vpn: Vpn,
    /// The frame of that.
    pub pfn: Pfn,
    /// log2 of its pages.
    pub order: u8,
    /// Its accessed bit.
    pub accessed: bool,
}

impl ScannedLeaf {
    pub fn pages(&self) -> VpnRange {
        VpnRange { start: self.vpn, pages: 1 << self.order }
    }
}

/// What clearing did.
#[derive(Clone, Copy, Default)]
pub(crate) struct AccessTally {
    /// Bits that were cleared.
    cleared: u64,
    /// Leaves whose entries in TLBs were invalidated for it.
    flushed: u64,
}

impl Os {
    /// Whether the system is to be told of walks: see [`Os::walked`].
    pub fn counts_walks(&self) -> bool {
        matches!(self.access_bits, AccessBits::Walk { .. })
            || self.daemons_count_walks
            || self.placement.counts_walks()
            || self.numa.is_some()
    }

    /// A demand walk found this page in the page table (OSC-2, UTO-6, CLP-1). To be called after each one, if
    /// [`Os::counts_walks`]; these are points of the stream, so the result depends on nothing else.
    pub fn walked(&mut self, asid: Asid, vpn: Vpn) {
        if self.daemons_count_walks {
            let now = self.time_of_event;
            self.tell_daemons(|daemon, _| daemon.walked(asid, now));
        }
        if let AccessBits::Walk { .. } = self.access_bits {
            self.set_accessed(asid, vpn);
        }
        self.walk_sampled(asid, vpn);
        self.walked_to_restseg(asid, vpn);
    }

    /// Whether an access that finds this entry would change its accessed bit.
    #[inline]
    pub(crate) fn notes_access(&self, entry: &Entry) -> bool {
        self.access_bits == AccessBits::Exact && !entry.accessed
    }

    /// Sets the bit of the leaf of a page, if it has one that hardware sees.
    pub(crate) fn set_accessed(&mut self, asid: Asid, vpn: Vpn) {
        let Some(table) = self.spaces.get_mut(asid.0 as usize).map(|space| &mut space.table) else { return };
        if let Some(entry) = table.get(vpn).filter(|entry| !entry.accessed && !entry.segment) {
            let order = u32::from(entry.order);
            table.set_accessed(VpnRange { start: vpn.align_down(order), pages: 1 << order }, true);
        }
    }

    /// Pages became one leaf: its bit is set if one of theirs was.
    pub(crate) fn join_accessed(&mut self, asid: Asid, group: VpnRange) {
        if self.access_bits == AccessBits::Unused {
            return;
        }
        let table = &mut self.spaces[asid.0 as usize].table;
        if group.iter().any(|vpn| table.get(vpn).is_some_and(|entry| entry.accessed)) {
            table.set_accessed(group, true);
        }
    }

    /// Whether a page was accessed lately: by its accessed bit, or else since it was mapped.
    pub(crate) fn is_young(&self, entry: &Entry) -> bool {
        if self.access_bits == AccessBits::Unused { entry.touched } else { entry.accessed }
    }

    /// The leaves that begin in a range, ascending.
    pub(crate) fn scan_leaves(&self, asid: Asid, range: VpnRange) -> Vec<ScannedLeaf> {
        let table = &self.spaces[asid.0 as usize].table;
        let mut leaves = Vec::new();
        for run in table.runs_in(range) {
            let order = u32::from(run.entry.order);
            let starts = (run.first.0..run.first.0 + run.pages).filter(|vpn| Vpn(*vpn).offset_in(order) == 0);
            leaves.extend(starts.map(|vpn| {
                let accessed = table.get(Vpn(vpn)).is_some_and(|entry| entry.accessed);
                let pfn = Pfn(run.entry.pfn.0 + (vpn - run.first.0));
                ScannedLeaf { vpn: Vpn(vpn), pfn, order: run.entry.order, accessed }
            }));
        }
        leaves
    }

    /// Clears the bits of these ascending leaves that have them set.
    pub(crate) fn clear_accessed(&mut self, asid: Asid, leaves: &[ScannedLeaf]) {
        let mut cleared: Vec<VpnRange> = Vec::new();
        for leaf in leaves.iter().filter(|leaf| leaf.accessed) {
            self.spaces[asid.0 as usize].table.set_accessed(leaf.pages(), false);
            self.access_tally.cleared += 1;
            match cleared.last_mut() {
                Some(last) if last.end() == leaf.vpn => last.pages += leaf.pages().pages,
                _ => cleared.push(leaf.pages()),
            }
        }
        let what = match self.access_bits {
            AccessBits::Walk { flush: true } => What::FlushedEverywhere,
            AccessBits::Exact => What::Unaccessed,
            AccessBits::Walk { flush: false } | AccessBits::Unused => return,
        };
        if what == What::FlushedEverywhere {
            self.access_tally.flushed += leaves.iter().filter(|leaf| leaf.accessed).count() as u64;
        }
        cleared.into_iter().for_each(|pages| self.change(asid, pages, what));
    }

    /// What clearing did, by name; nothing for policies that do not look at the bits.
    pub(crate) fn access_counters(&self) -> Vec<(&'static str, u64)> {
        let AccessTally { cleared, flushed } = self.access_tally;
        match self.access_bits {
            AccessBits::Unused => Vec::new(),
            _ => vec![("accessed_bits_cleared", cleared), ("accessed_bits_flushed", flushed)],
        }
    }
}

#[cfg(test)]
mod tests;
