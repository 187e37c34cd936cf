//! The obligations of a design towards the filter of repeat hits.
//!
//! Programs look the same pages up again and again. The machine keeps a table in front of the designs, the *filter*:
//! for each page and design, whether repeating the lookup would be a hit that changes nothing in the design. It counts
//! such lookups and does not pass them on. Most of its speed comes from this, and it requires two things of a design:
//!
//! 1. After each access the design says in [`Answer::filterable`](super::Answer::filterable) whether the same lookup,
//!    repeated at once, would be a hit that changes nothing: no counter (the machine counts lookups itself), no used
//!    bit, no order of recency, no modified bit. If this holds for a store it must hold for a load, too. `false` is
//!    always allowed.
//! 2. From then on the page is filtered. As soon as this no longer holds, for any reason, the design reports the page
//!    in the [`Unfiltered`] that it gets. A page that never was filterable need not be reported, and reporting too many
//!    pages is always allowed.
//!
//! Reporting too many pages costs time. Reporting too few gives wrong counts: the next lookup of a page would have been
//! a miss, for instance, but is counted as a hit and never reaches the design. So the tests run every design with the
//! filter and without.
//!
//! An example: a TLB with two entries and LRU replacement.
//!
//! | lookup | what happens | `filterable` | reported |
//! |---|---|---|---|
//! | load A | miss, fills | `true`: once more would be a hit on the most recent entry | none |
//! | load A | does not arrive: it is filtered | | |
//! | load B | miss, fills | `true` | A: its next hit makes it the most recent entry again |
//! | store B | arrives: only loads of B are filtered. Hit, sets the modified bit | `true`: again sets nothing | none |
//! | load C | miss, evicts A | `true` | B: it is no longer the most recent. A was reported before |
//! | B is unmapped | the entry of B goes | | none: B was reported before. Reporting it again does no harm |
//!
//! With random or FIFO replacement a hit changes no order, so only pages whose entries are dropped are reported. With
//! used bits, so are the pages whose used bit is cleared. A design on the shared store inherits all this.
//!
//! A machine that keeps the [times] of lookups spares the store much of it: with LRU, too, only pages whose
//! entries are dropped are reported then, for the store learns from the times which entry was used longest ago. In the
//! example the report about B would be empty.

pub mod times;

use farreach_types::addr::{Asid, Vpn};
use times::{LastLookups, LookupTimes};

/// The report of a design: pages that leave the filter. See the [module](self).
#[derive(Default, Debug)]
pub struct Unfiltered {
    pages: Vec<(Asid, Vpn, u64)>,
    all: bool,
    /// The report is ignored, so it stays empty.
    unread: bool,
    /// Times of the last lookups, if the machine keeps them.
    times: Option<Box<LookupTimes>>,
    /// Whether the TLB that is accessed sees fetches, and whether it sees data.
    sees: [bool; 2],
    /// log2 of the pages of the machine's table in a page of that TLB.
    order: u32,
}

/// For designs.
impl Unfiltered {
    /// The report of an array whose lookups are never filtered, such as that of a second level. It stays empty.
    pub(in crate::tlb) fn unread() -> Unfiltered {
        Unfiltered { unread: true, ..Unfiltered::default() }
    }
    /// Whether the report is ignored.
    #[inline(always)]
    pub(in crate::tlb) fn is_unread(&self) -> bool {
        self.unread
    }
    /// These pages leave the filter: bit `i` of `mask` stands for page `base + i`.
    #[inline]
    pub fn add(&mut self, asid: Asid, base: Vpn, mask: u64) {
        if !self.unread {
            self.pages.push((asid, base, mask));
        }
    }
    /// All pages leave the filter.
    #[inline]
    pub fn add_all(&mut self) {
        self.all = !self.unread;
    }

    /// A time after all lookups so far and before all others. `None` without a clock: then the design must see what it
    /// needs to know.
    #[inline(always)]
    pub(in crate::tlb) fn tick(&mut self) -> Option<u64> {
        self.times.as_mut().map(|times| times.tick())
    }
    /// The last lookups that the TLB sees; `None` without a clock.
    #[inline(always)]
    pub(in crate::tlb) fn last_lookups(&self) -> Option<LastLookups<'_>> {
        self.times.as_ref()?.seen(self.sees, self.order)
    }
}

/// For callers of a design.
impl Unfiltered {
    /// Empties the report.
    #[inline]
    pub fn clear(&mut self) {
        self.pages.clear();
        self.all = false;
    }
    /// Empties the report, for a TLB that sees fetches, data or both.
    #[inline(always)]
    pub fn clear_for(&mut self, sees: [bool; 2]) {
        self.clear();
        self.set_sides(sees);
    }
    /// The next TLBs have base pages of `2^order` 4 KB pages.
    #[inline(always)]
    pub fn set_order(&mut self, order: u32) {
        self.order = order;
    }
    /// Continues the same report, for a TLB that sees fetches, data or both.
    #[inline(always)]
    pub fn set_sides(&mut self, sees: [bool; 2]) {
        self.sees = sees;
    }
    /// Whether every page leaves the filter.
    #[inline(always)]
    pub fn is_all(&self) -> bool {
        self.all
    }
    /// The pages that leave it, in groups of up to 64 pages from a base page on, as a bit mask.
    #[inline(always)]
    pub fn pages(&self) -> &[(Asid, Vpn, u64)] {
        &self.pages
    }
    /// Whether this page leaves the filter.
    pub fn contains(&self, asid: Asid, vpn: Vpn) -> bool {
        let named = |&(of, base, mask): &(Asid, Vpn, u64)| {
            let offset = vpn.0.wrapping_sub(base.0);
            of == asid && offset < 64 && mask >> offset & 1 != 0
        };
        self.all || self.pages.iter().any(named)
    }
}
