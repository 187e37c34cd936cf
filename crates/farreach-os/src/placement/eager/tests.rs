//! EGR-1: when a request gets its frames.

use crate::Os;
use crate::testing::{load, map, map_as, os, store, unmap};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, End, Op};
use farreach_types::translation::PageTableView;

fn hand(at: &str) -> Os {
    os("eager", &format!("memory=1M,address_ordered=true,eager_threshold=4,eager_at={at}"))
}

fn is_mapped(os: &Os, vpn: u64) -> bool {
    os.pte(Asid(0), Vpn(vpn)).is_some()
}

#[test]
fn egr_1_at_the_first_touch_of_a_request_all_of_it_is_mapped() {
    let mut os = hand("touch");
    map(&mut os, 16, 12);
    map_as(&mut os, 0, 100, 8, false, Backing::Heap);
    assert_eq!((os.frames().resident, os.counts().eager_requests), (0, 0));
    assert_eq!(store(&mut os, 20), 4);
    assert_eq!((os.frames().resident, os.counts().page_faults, os.counts().zeroed_pages), (12, 1, 12));
    assert!((16..28).all(|vpn| is_mapped(&os, vpn)) && !is_mapped(&os, 100));
    // A heap that grows has requests of its own.
    map_as(&mut os, 0, 108, 8, false, Backing::Heap);
    load(&mut os, 110);
    assert!((108..116).all(|vpn| is_mapped(&os, vpn)) && !is_mapped(&os, 107));
    assert_eq!((os.counts().eager_requests, os.counts().eager_pages, os.counts().page_faults), (2, 20, 2));
    // What is gone of a request when it is touched is not served, nor what ends with its process.
    map(&mut os, 200, 16);
    unmap(&mut os, 208, 8);
    load(&mut os, 200);
    assert_eq!(os.counts().eager_pages, 28);
    map(&mut os, 300, 16);
    os.apply(Asid(0), &Op::End(End::Exit(0)));
    os.check();
    assert_eq!(os.frames().resident, 0);
}

#[test]
fn egr_1_small_requests_are_served_page_by_page() {
    let mut os = hand("touch");
    map(&mut os, 16, 3);
    load(&mut os, 17);
    assert_eq!((is_mapped(&os, 16), os.counts().eager_requests, os.counts().page_faults), (false, 0, 1));
}

#[test]
fn egr_1_frames_are_held_back_and_mapped_at_touches() {
    let mut os = hand("reserve");
    map(&mut os, 16, 12);
    assert_eq!((os.frames().reserved, os.frames().resident, os.counts().zeroed_pages), (12, 0, 0));
    assert_eq!([27, 16, 20].map(|vpn| store(&mut os, vpn)), [11, 0, 4]);
    assert_eq!((os.frames().reserved, os.counts().zeroed_pages, os.counts().page_faults), (9, 3, 3));
    // Memory is short: what is held back goes, oldest first.
    map(&mut os, 1024, 256);
    let frames: Vec<u64> = (1024..1024 + 253).map(|vpn| load(&mut os, vpn)).collect();
    assert_eq!((os.frames().reserved, frames.len()), (0, 253));
    unmap(&mut os, 16, 12);
    assert_eq!(os.frames().resident, 253);
}
