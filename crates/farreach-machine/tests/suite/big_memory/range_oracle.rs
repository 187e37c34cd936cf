//! Eager paging and ranges against a plain model, on a buddy allocator in its own order and in order of addresses. The
//! model knows the frame of every page, and finds ranges by a scan.

use super::plain::{Paged, agree};
use super::programs::Shape;
use super::world::pattern;
use farreach_oracle::eager::{Config, Cow, Eager, PlainEager};
use farreach_oracle::frames::Frames;
use farreach_oracle::paging::{Counts, Model};
use farreach_os::Os;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::translation::RangeTableView;

const SHAPE: Shape = Shape {
    pages: 640,
    lengths: &[1, 3, 8, 11, 16, 40, 90],
    align: 1,
    in_a_row: 85,
    shared: 1,
    code: 0,
    populates: false,
    advises: 0,
    alone: false,
};

/// The range of a page is the one that a scan finds.
fn same_range(os: &Os, model: &PlainEager, asid: Asid, page: u64) {
    let got = os.range(asid, Vpn(page)).map(|r| (r.first.0, r.pages, r.pfn.0, r.attr));
    let expected = model.range(asid.0, page);
    let expected = expected.map(|r| (r.pages.start, r.pages.end - r.pages.start, r.frame, r.attr));
    assert_eq!(got, expected, "{asid:?}: the range of {page:#x}");
    assert_eq!(os.contiguity().map(|c| c.dissolved), Some(model.dissolved), "dissolved");
}

fn follows(keys: &str, config: &Config, streams: u64, happened: impl Fn(&Counts) -> Vec<u64>) {
    let pair = |seed| Paged::new(keys, PlainEager::new(config.clone()), (seed, SHAPE), same_range);
    agree((keys, streams, 300), |seed| vec![pair(seed)], |pair| happened(&pair.model.paging().counts));
}

const EAGER: Option<Eager> = Some(Eager { threshold: 8, fragmentation: 0.5, carve: false });
const ALWAYS: Option<Eager> = Some(Eager { threshold: 8, fragmentation: 1.0, carve: false });

#[test]
fn rmm15_24_eager_paging_in_the_allocators_own_order() {
    let requests = |c: &Counts| vec![c.eager_requests, c.eager_pages, c.cow_copies, c.page_faults];
    for (order, by_address) in [("false", false), ("true", true)] {
        let blocks = |frames: u64| Frames::blocks(frames, |_| true, 8, by_address);
        let config = Config { frames: blocks(4096), largest: 7, eager: EAGER, least: 8, cow: Cow::Split };
        let keys = |more: &str| format!("placement=eager,max_order=8,address_ordered={order},{more}");
        follows(&keys("memory=16M,range_cow=split"), &config, 2, requests);
        let copy = Config { eager: ALWAYS, least: 4, cow: Cow::Copy, ..config.clone() };
        follows(&keys("memory=16M,range_cow=copy,eager_fragmentation=1,range_threshold=4"), &copy, 2, requests);
        // Memory that is full now and then.
        let full = Config { frames: blocks(500), cow: Cow::Copy, ..config.clone() };
        follows(&keys("memory=2000K,range_cow=copy"), &full, 2, |c| {
            vec![c.eager_requests, c.eager_refused, c.protection_faults]
        });
        let missing = Config { frames: blocks(500), eager: ALWAYS, ..config };
        follows(&keys("memory=2000K,range_cow=split,eager_fragmentation=1"), &missing, 2, |c| {
            vec![c.eager_requests, c.eager_missing]
        });
    }
}

#[test]
fn rmm15_27_carved_requests_and_memory_of_others() {
    let file = pattern("carved.txt", "every 24 offset 17\n");
    let frames = Frames::blocks(3000, |frame| frame % 24 != 17, 6, false);
    let eager = Some(Eager { carve: true, ..ALWAYS.unwrap() });
    let config = Config { frames, largest: 5, eager, least: 8, cow: Cow::Dissolve };
    follows(
        &format!("placement=eager,max_order=6,memory=12000K,carve=true,eager_fragmentation=1,pattern={file}"),
        &config,
        2,
        |c| vec![c.eager_requests, c.cow_copies, c.page_faults],
    );
}

#[test]
fn rmm15_20_ranges_of_demand_paging() {
    for (keys, cow) in [("dissolve", Cow::Dissolve), ("copy", Cow::Copy)] {
        let frames = Frames::blocks(4096, |_| true, 11, false);
        let config = Config { frames, largest: 10, eager: None, least: 2, cow };
        follows(
            &format!("placement=demand,ranges=true,allocator=buddy,memory=16M,range_threshold=2,range_cow={keys}"),
            &config,
            2,
            |c| vec![c.cow_copies, c.page_faults],
        );
    }
}
