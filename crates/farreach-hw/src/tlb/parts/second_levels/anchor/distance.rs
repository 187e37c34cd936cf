//! The distance between the anchors of each process: that of the machine, or what the system chooses (ANC-4).
//!
//! The rule counts entries by lengths of runs. Here the places of the runs count too, since an anchor reaches only
//! forward: pages before the first anchor of a run have entries of their own.

use farreach_types::addr::{Asid, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::PageTableView;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::ops::RangeInclusive;

/// log2 of the distances that the system chooses from: 2 to 65536 pages.
const ORDERS: RangeInclusive<u8> = 1..=16;

/// ANC-1.
pub const ANCHOR_DISTANCE: Key = Key {
    name: "anchor_distance",
    default: "8",
    allowed: Allowed::PowerOfTwo { min: 2, max: 65536 },
    about: "pages from one anchor to the next, and pages that an anchor entry translates at most",
};
/// ANC-4.
pub const ANCHOR_EPOCH: Key = Key {
    name: "anchor_epoch",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 60 },
    about: "instructions after which the system chooses the distance of a process anew, by its runs of pages; 0: it \
            stays anchor_distance",
};

/// Whether the system chooses distances.
pub(super) fn chooses(params: &Params) -> bool {
    params.int(ANCHOR_EPOCH.name) > 0
}

/// A choice of the system.
#[derive(Clone, Copy)]
struct Chosen {
    /// log2 of the distance.
    order: u8,
    /// The number of the epoch in which it was made.
    epoch: u64,
}

/// What a choice comes to.
pub(super) struct Choice {
    /// log2 of the distance.
    pub order: u8,
    /// Anchors that the page table gets, if the distance is another one than before.
    pub rewrites: Option<u64>,
}

/// See the module.
pub(super) struct Distances {
    /// log2 of the distance, until the system chooses another.
    first: u8,
    /// Instructions of an epoch; 0: the system chooses nothing.
    epoch: u64,
    /// What the system chose, by process.
    chosen: HashMap<Asid, Chosen, FixedState>,
}

impl Distances {
    pub fn new(params: &Params) -> Distances {
        Distances {
            first: params.int(ANCHOR_DISTANCE.name).trailing_zeros() as u8,
            epoch: params.int(ANCHOR_EPOCH.name),
            chosen: HashMap::default(),
        }
    }

    /// log2 of the distance of a process.
    #[inline]
    pub fn order(&self, asid: Asid) -> u8 {
        if self.epoch == 0 { self.first } else { self.chosen.get(&asid).map_or(self.first, |chosen| chosen.order) }
    }

    /// ANC-4: the choice of an epoch, at the first call for the process in it.
    pub fn choose(&mut self, asid: Asid, position: u64, table: &dyn PageTableView) -> Option<Choice> {
        let epoch = position.checked_div(self.epoch)?;
        if epoch <= self.chosen.get(&asid).map_or(0, |chosen| chosen.epoch) {
            return None;
        }
        let (runs, before) = (table.runs(asid), self.order(asid));
        let order = if runs.is_empty() { before } else { best(&runs) };
        self.chosen.insert(asid, Chosen { order, epoch });
        let rewrites = (order != before).then(|| runs.iter().map(|run| anchors_of(run, order).0).sum());
        Some(Choice { order, rewrites })
    }

    /// The process ended. The next one of its number begins as the first did.
    pub fn forget(&mut self, asid: Asid) {
        self.chosen.remove(&asid);
    }
}

/// With anchors every `2^order` pages, those that a run of pages has, and its pages before the first.
fn anchors_of(run: &VpnRange, order: u8) -> (u64, u64) {
    let distance = 1u64 << order;
    let before = run.pages.min(run.start.0.next_multiple_of(distance) - run.start.0);
    ((run.pages - before).div_ceil(distance), before)
}

/// log2 of the distance with which these runs take the fewest entries, one for each anchor and for each page that none
/// reaches. Of equal ones the shortest, whose entries reach less that may change.
fn best(runs: &[VpnRange]) -> u8 {
    let entries = |order: u8| -> u64 {
        let of = |run| anchors_of(run, order);
        runs.iter().map(of).map(|(anchors, before)| anchors + before).sum()
    };
    ORDERS.min_by_key(|order| entries(*order)).expect("there are orders")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::addr::Vpn;

    fn runs(runs: &[(u64, u64)]) -> Vec<VpnRange> {
        runs.iter().map(|&(start, pages)| VpnRange { start: Vpn(start), pages }).collect()
    }

    /// ANC-4, by hand: entries with anchors every 8 pages, and the distance that is chosen.
    #[test]
    fn anc_4_the_fewest_entries() {
        let every = |n: u64, pages, from| (0..n).map(|i| (i * 64 + from, pages)).collect::<Vec<_>>();
        for (histogram, with_8, distance) in [
            (vec![(0, 1024)], 128, 1024),
            // 16 runs of 8 pages, where anchors are: longer distances do not save any.
            (every(16, 8, 0), 16, 8),
            // The same between anchors: 4 pages before and one anchor each; with 4, two anchors each.
            (every(16, 8, 4), 16 * 5, 4),
            // Pages alone have an entry each, anchor or not.
            (every(16, 1, 3), 16, 2),
            (vec![(4, 64)], 4 + 8, 8),
            // One long run and 100 pairs, which anchors do not reach where they are every 4 pages or more.
            ([&[(1 << 20, 512)][..], &every(100, 2, 2)].concat(), 64 + 200, 512),
            // With 120 runs of 8 it would be 8, but for the long one.
            ([&[(1 << 20, 4096)][..], &every(120, 8, 8)].concat(), 512 + 120, 8),
            (vec![(0, 1 << 18)], 1 << 15, 65536),
        ] {
            let histogram = runs(&histogram);
            let each = histogram.iter().map(|run| anchors_of(run, 3));
            let entries: u64 = each.map(|(anchors, left)| anchors + left).sum();
            assert_eq!((entries, 1 << best(&histogram)), (with_8, distance), "{histogram:?}");
        }
    }
}
