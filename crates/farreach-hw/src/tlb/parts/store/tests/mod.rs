//! The parts of entries that the filter may hold.

mod sets;

use super::*;
use crate::tlb::filter::times::{LookupTimes, TimedReport};
use crate::tlb::keys::{FILL_SETS_USED, PROCESS_IDS, REPLACEMENT};
use farreach_types::addr::{Asid, VpnRange};
use serde_json::json;

/// All pages of its tag, as one.
#[derive(Clone, Copy, Default)]
struct Whole;
impl Contents for Whole {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

fn store(entries: usize, replacement: &str) -> Store<Whole> {
    let given = json!({"replacement": replacement});
    let params = Params::resolve(&[&REPLACEMENT, &FILL_SETS_USED, &PROCESS_IDS], given.as_object().unwrap()).unwrap();
    Store::new(Geometry::one_set(entries), &params, 0).unwrap()
}

/// A miss, with the pages it reports.
fn miss(store: &mut Store<Whole>, unfiltered: &mut Unfiltered, vpn: u64, order: u8) -> (u32, Vec<(u64, u64)>) {
    let tag = Tag::of(Asid(0), Vpn(vpn), order);
    unfiltered.clear();
    let slot = store.place(tag, Whole, &mut TlbCounts::default(), unfiltered);
    assert!(store.replay(slot, tag.part(Vpn(vpn)), unfiltered) && !unfiltered.is_all());
    (slot, unfiltered.pages().iter().map(|&(_, base, mask)| (base.0, mask)).collect())
}

#[test]
fn an_entry_that_goes_names_the_pages_it_answered() {
    let (mut store, mut unfiltered) = (store(1, "fifo"), Unfiltered::default());
    assert_eq!(miss(&mut store, &mut unfiltered, 35, 4), (0, vec![]));
    store.touch(0, Tag::of(Asid(0), Vpn(41), 4).part(Vpn(41)), &mut unfiltered);
    assert_eq!(miss(&mut store, &mut unfiltered, 1024 + 17, 9), (0, vec![(32, 1 << 3 | 1 << 9)]));
    assert_eq!(
        miss(&mut store, &mut unfiltered, 7, 0),
        (0, vec![(1024 + 16, 0xff)]),
        "pages of a large entry are reported in groups of eight"
    );
    assert_eq!(miss(&mut store, &mut unfiltered, 8, 0), (0, vec![(7, 1)]));
    unfiltered.clear();
    assert_eq!(store.invalidate(Asid(0), VpnRange { start: Vpn(0), pages: 64 }, 0, &mut unfiltered), 1);
    assert!(unfiltered.contains(Asid(0), Vpn(8)));
}

#[test]
fn what_is_newest_no_more_is_named_once() {
    let (mut store, mut unfiltered) = (store(2, "lru"), Unfiltered::default());
    assert_eq!(miss(&mut store, &mut unfiltered, 16, 4), (0, vec![]));
    assert_eq!(miss(&mut store, &mut unfiltered, 5, 0), (1, vec![(16, 1)]));
    assert_eq!(miss(&mut store, &mut unfiltered, 6, 0), (0, vec![(5, 1)]), "the one that goes was named before");
}

#[test]
fn an_entry_whose_pages_were_looked_up_was_used() {
    let mut store = store(2, "used-bit");
    let mut timed = TimedReport::new();
    timed.times_mut().asid = Some(Asid(0));
    timed.report().clear_for([true, true]);
    miss(&mut store, timed.report(), 16, 4);
    miss(&mut store, timed.report(), 5, 0);
    // All are used: the bits are cleared, and only the evicted entry is reported.
    assert_eq!(miss(&mut store, timed.report(), 6, 0), (0, vec![(16, 1)]));
    let times = timed.times_mut();
    times.replace(LookupTimes::hash(5), 5);
    times.stamp(LookupTimes::hash(5));
    assert_eq!(miss(&mut store, timed.report(), 7, 0).0, 0, "the other was looked up, so the bits are cleared again");
    assert_eq!(miss(&mut store, timed.report(), 8, 0), (1, vec![(5, 1)]), "and not since");
}

/// Lookups while another core ran, say.
#[test]
fn a_lookup_of_a_page_that_the_entry_did_not_answer_is_not_its_own() {
    let mut store = store(2, "used-bit");
    let mut timed = TimedReport::new();
    for vpn in [16, 32, 48] {
        miss(&mut store, timed.report(), vpn, 4);
    }
    let other = store.find(Tag::of(Asid(0), Vpn(32), 4)).unwrap();
    store.note_lookup(other, 1 << 5, u64::MAX - 1);
    assert_eq!(store.used(other), Some(false));
    store.note_lookup(other, 1, u64::MAX - 1);
    assert_eq!(store.used(other), Some(true));
}

#[test]
fn lru_learns_from_the_times_of_lookups_until_they_are_those_of_others() {
    for settled in [false, true] {
        let mut store = store(2, "lru");
        let mut timed = TimedReport::new();
        timed.times_mut().asid = Some(Asid(0));
        timed.report().clear_for([true, true]);
        miss(&mut store, timed.report(), 16, 4);
        assert_eq!(miss(&mut store, timed.report(), 5, 0), (1, vec![]), "what is newest no more stays in the filter");
        timed.times_mut().replace(LookupTimes::hash(16), 16);
        if settled {
            store.settle(timed.report());
            assert!(timed.report().contains(Asid(0), Vpn(16)) && timed.report().contains(Asid(0), Vpn(5)));
        }
        timed.times_mut().stamp(LookupTimes::hash(16));
        let (victim, _) = miss(&mut store, timed.report(), 6, 0);
        assert_eq!(victim, u32::from(!settled), "the first was looked up last");
    }
}
