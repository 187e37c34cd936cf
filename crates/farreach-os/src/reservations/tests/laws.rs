//! OSC-5 on random programs: (a) free + busy + reserved = frames after every event, (b) no frame in two places unless
//! shared, (c) every superpage is aligned and alike, (e) without reservations all is as with `demand`, (f) equal seeds
//! give equal counts. That no entry of a TLB outlives a change (d) is tested by the conformance suite.

use super::*;
use farreach_types::addr::Pfn;
use farreach_types::counts::OsCounts;
use farreach_types::event::{Advice, End};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

const PAGES: u64 = 160;

/// A program: processes that map, unmap, protect, discard, move, fork, end and touch. The entries that touches found.
fn run(os: &mut Os, seed: u64, checked: bool) -> Vec<Option<Pte>> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.next_u64() % n;
    let (mut alive, mut born, mut seen) = (vec![0u32], 1, Vec::new());
    for event in 0..400 {
        let asid = alive[below(alive.len() as u64) as usize];
        let (first, pages) = (below(PAGES - 40), 1 + below(40));
        let first = if below(2) == 0 { first & !7 } else { first };
        let (start, len) = (first << 12, pages << 12);
        match below(40) {
            0..=3 => map_as(os, asid, first, pages, false, Backing::Anonymous),
            4 => map_as(os, asid, first, pages, false, Backing::Heap),
            5 => map_as(os, asid, first, pages, false, Backing::Stack),
            6 => map_as(os, asid, first, pages, below(2) == 0, file(["/a", "/b"][below(2) as usize], first / 3)),
            7 => map_as(os, asid, first, pages, true, Backing::Anonymous),
            8 => os.apply(Asid(asid), &Op::Unmap { start, len }),
            9 => {
                let prot = Prot { write: below(2) == 0, ..Prot::RW };
                os.apply(Asid(asid), &Op::Protect { start, len, prot });
            }
            10 => os.apply(Asid(asid), &Op::Advise { start, len, advice: Advice::DontNeed }),
            11 if alive.len() < 4 => {
                os.apply(Asid(asid), &Op::Fork { child: Asid(born) });
                alive.push(born);
                born += 1;
            }
            12 if alive.len() > 1 && below(3) == 0 => {
                os.apply(Asid(asid), &Op::End(End::Exit(0)));
                alive.retain(|other| *other != asid);
            }
            _ => {
                for page in first..first + pages {
                    if os.spaces[asid as usize].regions.find(Vpn(page)).is_none() {
                        continue;
                    }
                    let kind = if below(3) == 0 { Kind::Store } else { Kind::Load };
                    seen.push(os.touch(Asid(asid), Vpn(page), kind).ok().map(|touched| touched.pte));
                }
            }
        }
        if checked {
            law(os, &alive).unwrap_or_else(|what| panic!("seed {seed}, event {event}: {what}"));
        }
    }
    seen
}

fn law(os: &Os, alive: &[u32]) -> Result<(), String> {
    os.check();
    let frames = os.frames();
    let sum = frames.free.unwrap() + frames.resident + frames.reserved;
    if Some(sum) != frames.total {
        return Err(format!("(a): {frames:?}"));
    }
    let mut owners: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    for &asid in alive {
        let table = &os.spaces[asid as usize].table;
        for vpn in (0..PAGES).map(Vpn) {
            let Some(entry) = table.get(vpn) else { continue };
            let order = u32::from(entry.order);
            let first = table.get(vpn.align_down(order)).ok_or("(c): half a superpage")?;
            let place = Pfn(first.pfn.0 + vpn.offset_in(order));
            let alike = (first.order, first.attr, first.cow) == (entry.order, entry.attr, entry.cow);
            if !alike || entry.pfn != place || first.pfn.offset_in(order) != 0 {
                return Err(format!("(c): {asid} {vpn:?} is {entry:?} in a superpage of {first:?}"));
            }
            let region = os.spaces[asid as usize].regions.find(vpn).ok_or("no region")?;
            let shared = region.shared || entry.cow;
            if let Some(other) = owners.insert(entry.pfn.0, (asid, vpn.0)).filter(|_| !shared) {
                return Err(format!("(b): {:?} is that of {other:?} and {asid} {vpn:?}", entry.pfn));
            }
        }
    }
    Ok(())
}

const MACHINES: [(&str, &str); 9] = [
    ("navarro", "nav_sizes=1+4+16"),
    ("navarro", "nav_sizes=1+4+16,nav_dirty_rule=all"),
    ("navarro", "nav_sizes=1+2+4+8+16,nav_preempt=oldest,address_ordered=true"),
    ("navarro", "nav_sizes=1+16,nav_dirty_rule=off,allocator=fifo"),
    ("navarro", "nav_sizes=1+16,nav_dirty_rule=all"),
    ("freebsd", "fbr_pages=16"),
    ("freebsd", "fbr_pages=16,fbr_tick=1,address_ordered=true"),
    ("freebsd", "fbr_pages=4,fbr_tick=3"),
    ("freebsd", "fbr_pages=4,allocator=fifo"),
];

#[test]
fn osc_5_frames_page_tables_and_superpages_agree() {
    let (mut promoted, mut split, mut broken) = (0, 0, 0);
    for (placement, keys) in MACHINES {
        for (seed, memory) in (0..4).zip(["4M", "1M", "768K", "512K"]) {
            let mut os = os(placement, &format!("{keys},memory={memory}"));
            run(&mut os, seed, true);
            let counts = os.counts();
            promoted += counts.promotions;
            split += counts.demotions;
            broken += counts.policy.get("preempted") + counts.policy.get("broken");
        }
    }
    assert!(promoted > 500 && split > 200 && broken > 100, "{promoted} {split} {broken}");
}

#[test]
fn osc_5_f_equal_seeds_give_equal_counts() {
    for (placement, keys) in MACHINES {
        let of = || {
            let mut os = os(placement, &format!("{keys},memory=1M"));
            (run(&mut os, 9, false), os.counts())
        };
        assert_eq!(of(), of(), "{placement} {keys}");
    }
}

/// OSC-5 e: sizes of a page alone are demand paging, and so are blocks that are larger than memory.
#[test]
fn osc_5_e_without_a_second_size_all_is_as_with_demand() {
    for (seed, memory) in (20..24).zip(["4M", "1M", "768K", "512K"]) {
        let of = |placement: &str, keys: &str| {
            let mut os = os(placement, &format!("{keys}memory={memory},allocator=buddy"));
            let seen = run(&mut os, seed, false);
            (seen, OsCounts { policy: Default::default(), alloc_steps: 0, failed_region_allocs: 0, ..os.counts() })
        };
        assert_eq!(of("navarro", "nav_sizes=1,"), of("demand", ""), "seed {seed}");
        assert_eq!(of("freebsd", "fbr_pages=2048,"), of("demand", ""), "seed {seed}");
    }
}
