//! The two sides of the study, fetches and data (PS-1), each with an LRU stack per page size.
//!
//! The definition: each reference, in program order, makes one lookup per page *of that size* that it touches, on its
//! side.
//!
//! Two shortcuts make it fast. A lookup of the 4 KB page that its side looked up last is at distance 1, so it is only
//! counted. And the front page of one size lies in the front page of every larger size, so sizes are tried in ascending
//! order until one finds its page at distance 1. `plain` uses neither; the tests compare the two.

use super::super::tally::{Tally, counter_of};
use super::stack::{Distances, Stack};
use super::touched_pages::{DATA, DATA_NOW, FETCHED, FETCHED_NOW, Pages, STORED, TouchedPages, WorkingSet};
use farreach_types::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach_types::event::Kind;

/// No 4 KB page.
const NO_PAGE: u64 = u64::MAX;

/// See the module.
pub(super) struct Sides {
    pub tally: Tally,
    pub touched_pages: TouchedPages,
    /// Over 4 KB, as powers of two, ascending.
    orders: Vec<u32>,
    /// For each size, lookups besides one per reference, by side.
    crossings: Vec<[u64; 2]>,
    /// By side, for each size.
    stacks: [Vec<Stack>; 2],
    /// By kind: the 4 KB page whose next lookup would change nothing.
    last: [u64; 3],
    plain: bool,
}

/// The counters of one page size.
pub(super) struct Row {
    pub order: u32,
    /// Lookups, by side.
    pub lookups: [u64; 2],
    /// Distances, by side.
    pub distances: [Distances; 2],
    pub pages: Pages,
}

impl Row {
    /// What was counted before does not count.
    pub fn begin_after(&mut self, before: &Row) {
        for side in 0..2 {
            self.lookups[side] -= before.lookups[side];
            self.distances[side].subtract(&before.distances[side]);
        }
    }
}

/// 0 for fetches, 1 for loads and stores.
fn side(kind: Kind) -> usize {
    usize::from(kind != Kind::Fetch)
}

impl Sides {
    /// `orders`: page sizes over 4 KB, as powers of two, ascending. `plain`: without shortcuts.
    pub fn new(orders: &[u32], plain: bool) -> Sides {
        let stacks = || orders.iter().map(|_| Stack::new()).collect();
        Sides {
            tally: Tally::default(),
            touched_pages: TouchedPages::new(orders),
            orders: orders.to_vec(),
            crossings: vec![[0; 2]; orders.len()],
            stacks: [stacks(), stacks()],
            last: [NO_PAGE; 3],
            plain,
        }
    }

    /// One reference: its 4 KB pages in ascending order, and with them its pages of every size. Several 4 KB pages of
    /// one larger page are one lookup of it (CA-18).
    pub fn reference(&mut self, asid: Asid, kind: Kind, addr: u64, size: u64) {
        let (from, to) = (addr >> BASE_SHIFT, addr.saturating_add(size - 1) >> BASE_SHIFT);
        *counter_of(&mut self.tally.references, kind) += 1;
        if from != to {
            *counter_of(&mut self.tally.further, kind) += to - from;
            for (crossings, order) in self.crossings.iter_mut().zip(&self.orders) {
                crossings[side(kind)] += (to >> order) - (from >> order);
            }
        }
        (from..=to).for_each(|vpn| self.lookup(asid, vpn, kind));
    }

    /// A lookup of a 4 KB page, and of the pages of every size it lies in; counted by the caller.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: u64, kind: Kind) {
        if vpn != self.last[kind as usize] || self.plain {
            self.lookup_in_stacks(asid, vpn, kind);
        }
    }

    fn lookup_in_stacks(&mut self, asid: Asid, vpn: u64, kind: Kind) {
        let flags = match kind {
            Kind::Fetch => FETCHED | FETCHED_NOW,
            Kind::Load => DATA | DATA_NOW,
            Kind::Store => DATA | DATA_NOW | STORED,
        };
        // After pages were released, the fronts may differ until one page has moved to the front of all sizes.
        let agreed = self.last[if kind == Kind::Fetch { kind } else { Kind::Load } as usize] != NO_PAGE && !self.plain;
        let row = self.touched_pages.touch(asid, vpn, flags);
        for (stack, &id) in self.stacks[side(kind)].iter_mut().zip(self.touched_pages.ids(row)) {
            if !stack.lookup(id) && agreed {
                break;
            }
        }
        if kind == Kind::Fetch {
            self.last[Kind::Fetch as usize] = vpn;
        } else {
            self.last[Kind::Load as usize] = vpn;
            self.last[Kind::Store as usize] = if self.touched_pages.is_stored(row) { vpn } else { NO_PAGE };
        }
    }

    /// Releases the pages of a range, as [`TouchedPages::release`] does.
    pub fn release(&mut self, asid: Asid, range: VpnRange) {
        let [fetch, data] = &mut self.stacks;
        self.touched_pages.release(asid, range, |i, id| {
            fetch[i].release(id);
            data[i].release(id);
        });
        self.nothing_is_last();
    }

    /// Another part of the run begins: its pages are counted anew.
    pub fn begin_part(&mut self) {
        self.touched_pages.begin_part();
        self.nothing_is_last();
    }

    /// What was counted so far at each size, in their order: misses of TLBs with this many entries, by side, and the
    /// pages of this part of the run.
    pub fn in_part(&self, entries: u64) -> Vec<([u64; 2], WorkingSet)> {
        let misses = |i: usize| [0, 1].map(|side: usize| self.stacks[side][i].distances().misses(entries));
        self.touched_pages.working_sets().into_iter().enumerate().map(|(i, set)| (misses(i), set)).collect()
    }

    /// The address space changed, pages were released, or another part began.
    pub fn nothing_is_last(&mut self) {
        self.last = [NO_PAGE; 3];
    }

    /// The counters so far, in the order of the sizes.
    pub fn rows(&self) -> Vec<Row> {
        let n = self.tally.references;
        let references = [n.fetch, n.load + n.store];
        let row = |(i, pages): (usize, Pages)| Row {
            order: self.orders[i],
            lookups: [0, 1].map(|side: usize| references[side] + self.crossings[i][side]),
            distances: [0, 1].map(|side: usize| self.stacks[side][i].distances()),
            pages,
        };
        self.touched_pages.pages().into_iter().enumerate().map(row).collect()
    }
}
