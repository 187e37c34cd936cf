//! The page table against a map of entries.

use super::entry::Run;
use super::*;
use std::collections::BTreeMap;

fn entry(pfn: u64) -> Entry {
    Entry { pfn: Pfn(pfn), present: true, ..Entry::default() }
}

#[test]
fn insert_remove_and_list() {
    let mut t = PageTable::default();
    let pages = [0, 1, 511, 512, 5_000_000, (1 << 52) - 1];
    for (i, p) in pages.iter().enumerate() {
        t.insert(Vpn(*p), entry(i as u64));
    }
    let all = VpnRange { start: Vpn(0), pages: 1 << 52 };
    assert_eq!(t.mapped_in(all), pages.map(Vpn));
    assert_eq!(t.mapped_in(VpnRange { start: Vpn(1), pages: 511 }), [Vpn(1), Vpn(511)]);
    assert_eq!(t.remove(Vpn(512)).map(|e| e.pfn), Some(Pfn(3)));
    assert_eq!((t.remove(Vpn(512)), t.get(Vpn(512)), t.present()), (None, None, 5));
    t.insert(Vpn(700), entry(9));
    assert_eq!(t.leaves.len(), 4, "the empty leaf was used again");
}

#[test]
fn a_terabyte_in_one_piece_takes_one_entry_per_leaf() {
    let mut t = PageTable::default();
    let all = VpnRange { start: Vpn(7), pages: 1 << 22 };
    t.insert_run(all, Entry { populated: true, dirty: true, ..entry(1 << 20) });
    assert!(t.leaves.iter().all(|leaf| matches!(leaf, Leaf::Run(_))) && t.leaves.len() == (1 << 13) + 1);
    for at in [0, 505, 100_000, (1 << 22) - 1] {
        t.update(Vpn(7 + at), |e| e.touched = true);
        let expected = Entry { populated: true, dirty: true, touched: true, ..entry((1 << 20) + at) };
        assert_eq!(t.get(Vpn(7 + at)), Some(expected));
    }
    let runs = t.runs_in(VpnRange { start: Vpn(0), pages: 1 << 52 });
    assert_eq!((runs.len(), runs[0].pages, runs[0].unused, t.unused()), (1, 1 << 22, (1 << 22) - 4, (1 << 22) - 4));
    assert!(t.leaves.iter().all(|leaf| matches!(leaf, Leaf::Run(_))), "touching is no difference");
}

/// Against a map of entries: runs form, break, and form again.
#[test]
fn behaves_as_a_map_of_entries() {
    let (mut t, mut plain, mut x) = (PageTable::default(), BTreeMap::<u64, Entry>::new(), 3u64);
    let mut below = |n: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % n
    };
    for _ in 0..20_000 {
        let first = below(1600);
        let most = if below(4) == 0 { 1100 } else { 5 };
        let pages = 1 + below(most);
        let range = VpnRange { start: Vpn(first), pages };
        let new = Entry {
            // Mostly frames in the order of pages.
            pfn: Pfn(if below(12) == 0 { below(5000) } else { 9000 + first }),
            label: u32::from(below(30) == 0),
            dirty: below(2) == 0,
            populated: below(2) == 0,
            ..entry(0)
        };
        let free = plain.range(first..first + pages).next().is_none();
        match below(9) {
            0..2 if free => {
                t.insert_run(range, new);
                plain.extend((0..pages).map(|i| (first + i, Entry { pfn: Pfn(new.pfn.0 + i), ..new })));
            }
            2 if !plain.contains_key(&first) => {
                t.insert(Vpn(first), new);
                plain.insert(first, new);
            }
            3 => {
                t.clear(range);
                plain.retain(|v, _| !range.contains(Vpn(*v)));
            }
            4 => {
                let order = below(3) as u8;
                t.set_order(range, order);
                plain.range_mut(first..first + pages).for_each(|(_, e)| e.order = order);
            }
            5 => {
                let here = plain.range_mut(first..first + pages);
                let clean = here.map(|(_, e)| u64::from(!std::mem::replace(&mut e.dirty, true))).sum::<u64>();
                assert_eq!(t.set_dirty(range), clean);
            }
            6 => t.pack(range),
            7 => assert_eq!(t.remove(Vpn(first)), plain.remove(&first)),
            _ => {
                let which = below(6);
                let change = |e: &mut Entry| match which {
                    0 => e.cow = !e.cow,
                    1 => e.dirty = !e.dirty,
                    _ => e.touched = true,
                };
                let there = plain.get_mut(&first).map(change).is_some();
                assert_eq!(t.update(Vpn(first), change).is_some(), there);
            }
        }
        assert_eq!(t.present(), plain.len() as u64);
        let probe = below(2800);
        assert_eq!(t.get(Vpn(probe)), plain.get(&probe).copied());
        assert_eq!(t.any_in(range), plain.range(first..first + pages).next().is_some());
        let unused = |e: &&Entry| e.is_unused();
        assert_eq!(t.unused(), plain.values().filter(unused).count() as u64);
        let idle = plain.iter().filter(|(_, e)| unused(e) && !e.cow).map(|(v, _)| Vpn(*v)).take(5).collect::<Vec<_>>();
        assert_eq!(t.idle(5, VpnRange { start: Vpn(0), pages: 1 << 52 }), idle);
        if below(20) == 0 {
            let runs = t.runs_in(range);
            let each = runs.iter().flat_map(|run| {
                (0..run.pages).map(|i| (run.first.0 + i, Entry { pfn: Pfn(run.entry.pfn.0 + i), ..run.entry }))
            });
            let expected = plain.range(first..first + pages).map(|(v, e)| (*v, e.common(0)));
            assert!(each.eq(expected));
            let unused_here = plain.range(first..first + pages).filter(|(_, e)| e.is_unused()).count() as u64;
            assert_eq!(runs.iter().map(|run| run.unused).sum::<u64>(), unused_here);
            let joins =
                |w: &[Run]| w[1].first.0 == w[0].first.0 + w[0].pages && w[1].entry.common(w[0].pages) == w[0].entry;
            assert!(!runs.windows(2).any(joins), "runs are as long as they can be");
        }
    }
}
