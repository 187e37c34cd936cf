//! Page tables behind the handler (SV97-18, F-23): same translations, other loads.

use super::world::{World, spec};
use farreach_hw::system::tables::{TABLES, table};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{HashMap, HashSet};

fn organisations() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|t| t.name).filter(|name| *name != "linear")
}

/// No two mapped pages have their entry in one place, a page's entry stays where it is while nothing changes, and every
/// load is at an address inside physical memory. Random maps, unmaps, and ends of segments.
#[test]
fn entries_are_distinct_and_stay() {
    for name in organisations() {
        let mut organisation = table(&spec(&format!("sv97/softvm:table={name},buckets=16"))).unwrap().unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut mapped = HashSet::new();
        let mut most = 0;
        for step in 0..3000 {
            let page = (u64::from(random.random_range(0..3u32)) << 16)
                | (random.random_range(0..40u64) * random.random_range(1..200));
            match random.random_range(0..100) {
                0..20 => {
                    organisation.unmap(page);
                    mapped.remove(&page);
                }
                20 => {
                    let id = random.random_range(0..3u32);
                    organisation.gone(id);
                    mapped.retain(|p| p >> 16 != u64::from(id));
                }
                _ => {
                    let mut loads = Vec::new();
                    organisation.path(page, 0xFF10_0000 + (page >> 10) * 4, 0, &mut loads);
                    mapped.insert(page);
                    assert!(loads.iter().all(|l| *l < 1 << 32), "{name}: {loads:x?}");
                    most = most.max(loads.len());
                }
            }
            if step % 100 == 0 {
                let mut places: HashMap<u64, u64> = HashMap::new();
                let last = |page: u64, o: &mut Box<dyn farreach_hw::system::tables::Organisation>| {
                    let mut loads = Vec::new();
                    o.path(page, 0xFF10_0000 + (page >> 10) * 4, 0, &mut loads);
                    *loads.last().unwrap()
                };
                if mapped.len() == 1 && name == "guarded" {
                    continue; // The root entry alone translates it.
                }
                for &page in &mapped {
                    let at = last(page, &mut organisation);
                    assert_eq!(at, last(page, &mut organisation), "{name}: looking changes nothing");
                    assert_eq!(places.insert(at, page), None, "{name}: step {step}, page {page:#x}");
                }
            }
        }
        assert!(most >= 2, "{name}");
    }
}

/// What a program counts of its own does not depend on the page table as long as the caches are not touched by it:
/// here, first-level accesses and pages needing a translation; and the misses of the handler are those of the
/// organisation.
#[test]
fn loads_of_a_cold_page() {
    // Runs, loads, loads that miss L2 at physical addresses, entries fetched for an interrupted handler.
    for (name, expected) in [
        ("linear", (2, 2, 1, 1)),
        ("radix", (1, 2, 2, 0)),
        ("hashed", (1, 2, 2, 0)),
        ("clustered", (1, 3, 3, 0)),
        ("guarded", (1, 1, 1, 0)),
    ] {
        let mut w = World::new(&format!("table={name}"));
        w.load(0x5000);
        let r = w.counts().handler;
        assert_eq!((r.data_runs, r.loads, r.l2d_misses, r.upte_loads), expected, "{name}");
    }
}

/// A guarded tree: one page needs no node, two need one at any distance, and the levels between cost nothing.
#[test]
fn guards_leave_levels_out() {
    let mut organisation = table(&spec("sv97/softvm:table=guarded")).unwrap().unwrap();
    let mut loads = |page: u64| {
        let mut loads = Vec::new();
        organisation.path(page, 0xFF10_0000, 0, &mut loads);
        loads.len()
    };
    assert_eq!([loads(0x0), loads(0x0)], [1, 1]);
    assert_eq!([loads(0xFF_FFFF), loads(0x0)], [2, 2]);
    assert_eq!([loads(0x1), loads(0x0), loads(0xFF_FFFF)], [3, 3, 2]);
}
