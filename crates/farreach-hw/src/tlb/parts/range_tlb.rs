//! The range TLB (RMM15-2): a fully associative array of range translations, with a pointer to the one used last
//! (RMM15-10).

use crate::tlb::contract::EntryView;
use crate::tlb::parts::spans::{Span, Spans};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::RangeCounts;
use farreach_types::params::Params;
use farreach_types::translation::Range;

/// The array.
pub(in crate::tlb) struct RangeTlb {
    spans: Spans,
    /// The range used last, if it is still in the array (RMM15-10).
    newest: Option<usize>,
    /// Whether the range used last is looked at first.
    mru_pointer: bool,
    process_ids: bool,
}

impl RangeTlb {
    /// Of this many entries, from the keys `range_replacement` (RMM15-11, AMB-80), `mru_pointer` and `process_ids`.
    pub fn new(entries: u64, params: &Params, seed: u64) -> Result<RangeTlb, String> {
        Ok(RangeTlb {
            spans: Spans::new(entries, "range_replacement", params, seed)?,
            newest: None,
            mru_pointer: params.flag("mru_pointer"),
            process_ids: params.flag("process_ids"),
        })
    }

    /// The range that contains a page, changing nothing.
    pub fn probe(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.spans.find(asid, vpn).and_then(|slot| self.spans.get(slot)).map(|span| span.range)
    }

    /// Looks a page up; a hit is a use. The pointer spares a search, and no time: both are looked at in one cycle
    /// (AMB-95).
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn, counts: &mut RangeCounts) -> Option<Range> {
        let hit = self.spans.find(asid, vpn);
        let by_pointer = self.mru_pointer && hit.is_some() && hit == self.newest;
        *(if by_pointer { &mut counts.mru_hits } else { &mut counts.full_searches }) += 1;
        *(if hit.is_some() { &mut counts.hits } else { &mut counts.misses }) += 1;
        let slot = hit?;
        self.spans.touch(slot);
        self.newest = hit;
        self.spans.get(slot).map(|span| span.range)
    }

    /// Adds a range that the range-table walker found. Ranges that it overlaps are dropped, such as an earlier, shorter
    /// version of it.
    pub fn fill(&mut self, asid: Asid, range: Range, counts: &mut RangeCounts) {
        self.invalidate(asid, range.virtual_pages());
        let (slot, evicts) = self.spans.place(Span { asid, range, order: 0 });
        counts.evictions += u64::from(evicts);
        self.newest = Some(slot);
    }

    fn drop_where(&mut self, goes: impl Fn(&Span) -> bool) -> u64 {
        let gone = self.spans.drop_where(goes).len() as u64;
        self.newest = self.newest.filter(|&slot| self.spans.get(slot).is_some());
        gone
    }

    /// Drops ranges that share a page with these, whole (RMM15-12), and returns how many there were.
    pub fn invalidate(&mut self, asid: Asid, pages: VpnRange) -> u64 {
        self.drop_where(|span| span.meets(asid, pages))
    }

    pub fn drop_space(&mut self, asid: Asid) -> u64 {
        self.drop_where(|span| span.asid == asid)
    }

    /// RMM15-13.
    pub fn switch(&mut self, to: Asid) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|span| span.asid != to) }
    }

    /// All slots.
    pub fn entries(&self) -> usize {
        self.spans.entries()
    }

    /// Its entries, as [`Spans::views`] says.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.spans.views(before, into);
    }
}
