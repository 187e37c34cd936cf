//! Hand cases of walks in two dimensions, and their laws on random streams.

use super::super::clustered::ClusteredConfig;
use super::super::cuckoo::CuckooConfig;
use super::super::flat::{FlatConfig, nested};
use super::super::hashed::HashedConfig;
use super::super::nested::{Line, Nested, NestedConfig, Organisation, Piece, one_after_the_other};
use super::super::radix::Shape;
use super::super::{Found, Hash};
use crate::dice::{Dice, seeds};
use std::collections::BTreeSet;

fn tree(levels: u8, flatten: &str, caches: [usize; 4]) -> Organisation {
    let shape = Shape { merged: Shape::pairs(flatten), ..Shape::plain(levels) };
    Organisation::Flat(FlatConfig { shape, caches, process_ids: true })
}

fn radix(levels: u8) -> Organisation {
    tree(levels, "", [0; 4])
}

fn hashed() -> Organisation {
    Organisation::Hashed(HashedConfig { buckets: 256, ..HashedConfig::default() })
}

fn clustered() -> Organisation {
    Organisation::Clustered(ClusteredConfig { buckets: 64, ..ClusteredConfig::default() })
}

fn cuckoo() -> Organisation {
    Organisation::Cuckoo(CuckooConfig { entries: 256, ..CuckooConfig::default() })
}

fn machine(guest: Organisation, host: Organisation, nested_tlb: usize) -> Nested {
    Nested::new(NestedConfig { guest, host, host_order: 0, nested_tlb }, one_after_the_other())
}

fn map_at_1000(m: &mut Nested, pages: &[u64]) {
    pages.iter().for_each(|page| m.map(1, *page, 0, 1000 + page));
}

/// The second walk to page 0, with its frame at 77.
fn second(guest: Organisation, host: Organisation) -> (u64, u64) {
    let mut m = machine(guest, host, 0);
    m.map(1, 0, 0, 77);
    m.walk(1, 0);
    let Found { references, steps } = m.walk(1, 0);
    (references, steps)
}

#[test]
fn fl_1_trees_in_trees_by_hand() {
    let flat = || tree(4, "l4l3+l2l1", [0; 4]);
    assert_eq!(second(radix(4), radix(4)), (24, 24));
    assert_eq!(second(radix(5), radix(5)), (35, 35));
    assert_eq!(second(flat(), flat()), (8, 8));
    assert_eq!(second(flat(), radix(4)), (14, 14));
    assert_eq!(second(radix(4), flat()), (14, 14));
    assert_eq!(second(tree(4, "l2l1", [0; 4]), tree(5, "l3l2", [0; 4])), (19, 19));
    for (g, h) in [(4, 4), (4, 5), (5, 4), (5, 5)] {
        let n = nested(u64::from(g), u64::from(h));
        assert_eq!(second(radix(g), radix(h)), (n, n));
    }
}

/// EC: three steps of 9, 3 and 3. In a tree three parallel walks of four steps, a line of three, and four more.
#[test]
fn ec_6_ec_8_cuckoo_tables_by_hand() {
    assert_eq!(second(cuckoo(), cuckoo()), (9 + 3 + 3, 3));
    assert_eq!(second(cuckoo(), radix(4)), (3 * 4 + 3 + 4, 4 + 1 + 4));
    assert_eq!(second(radix(4), cuckoo()), (4 * (3 + 1) + 3, 4 * 2 + 1));
    // Pages of 2 MB in both: the way is known after the first walk.
    let mut m = Nested::new(
        NestedConfig { guest: cuckoo(), host: cuckoo(), host_order: 9, nested_tlb: 0 },
        one_after_the_other(),
    );
    m.map(1, 512, 9, 1024);
    assert_eq!(m.walk(1, 600).steps, 3);
    assert_eq!(m.walk(1, 601), Found { references: 1 + 1 + 1, steps: 3 });
    assert_eq!([m.frame(1, 512), m.frame(1, 600)], [1024, 1024 + 88]);
    // Two sizes in the guest's 16 MB: four lines.
    m.map(1, 0, 0, 5);
    m.walk(1, 0);
    assert_eq!(m.walk(1, 0), Found { references: 4 + 4 + 1, steps: 3 });
}

#[test]
fn ht_2_cl_3_chains_by_hand() {
    assert_eq!(second(hashed(), hashed()), (3, 3), "a bucket in each dimension");
    assert_eq!(second(clustered(), radix(4)), (2 * 5 + 4, 14), "head and node");
    assert_eq!(second(radix(4), hashed()), (4 * 2 + 1, 9));
    // Slot 7 has a line of its own. The frame 77 is slot 13 of its block in the host.
    let mut m = machine(clustered(), radix(4), 0);
    m.map(1, 7, 0, 77);
    assert_eq!(m.walk(1, 7), Found { references: 3 * 5 + 4, steps: 19 });
    // Buckets of HT in the order of the search: 0, 8 and 16 in one.
    let guest = HashedConfig { buckets: 8, hash: Hash::Identity, ..HashedConfig::default() };
    let mut m = machine(Organisation::Hashed(guest), radix(4), 0);
    map_at_1000(&mut m, &[0, 64, 128]);
    assert_eq!([0, 64, 128].map(|page| m.walk(1, page).references), [9, 14, 19]);
}

/// OW-42: a node that was translated is known, and so is the page.
#[test]
fn hw_12_the_nested_tlb_by_hand() {
    let mut m = machine(radix(4), radix(4), 100);
    map_at_1000(&mut m, &[0, 1, 512]);
    assert_eq!([0, 0, 1, 512].map(|page| m.walk(1, page).references), [24, 4, 8, 12]);
    let counts = m.counts();
    let some = ["walks", "guest_references", "host_references", "host_walks", "nested_hits"].map(|name| counts[name]);
    assert_eq!(some, [4, 16, 32, 8, 12]);
    // With one entry, only the page itself is there again, and never here.
    let mut m = machine(radix(4), radix(4), 1);
    m.map(1, 0, 0, 1000);
    assert_eq!([m.walk(1, 0).references, m.walk(1, 0).references], [24, 24]);
    // A host with pages of 2 MB: the nodes of the guest are in one.
    let mut m = Nested::new(
        NestedConfig { guest: radix(4), host: radix(4), host_order: 9, nested_tlb: 2 },
        one_after_the_other(),
    );
    m.map(1, 0, 0, 1000);
    assert_eq!([m.walk(1, 0), m.walk(1, 0)].map(|found| found.references), [3 + 4 + 3, 4]);
}

/// OW-43: walk caches of the guest save its nodes with their host walks, those of the host its own nodes.
#[test]
fn hw_12_walk_caches_of_both_dimensions_by_hand() {
    let cached = || tree(4, "", [8, 8, 8, 0]);
    let mut m = machine(cached(), radix(4), 0);
    map_at_1000(&mut m, &[0, 1, 512]);
    assert_eq!([0, 0, 1, 512].map(|page| m.walk(1, page).references), [24, 5, 5, 5 + 5]);
    assert_eq!(m.counts()["known"], 3);
    // The first walk of the host reads four nodes. The guest's tables and the frame of the page are far apart.
    assert_eq!(second(radix(4), cached()), (4 * (1 + 1) + 1, 9));
    assert_eq!(second(cached(), cached()), (1 + 1, 2));
    let mut m = machine(radix(4), cached(), 0);
    m.map(1, 0, 0, 77);
    assert_eq!(m.walk(1, 0).references, (4 + 1) + 3 * 2 + 4);
}

#[test]
fn pt_3_lines_of_guest_tables_by_hand() {
    let mut place = one_after_the_other();
    let first = 1 << 35;
    let piece = |number, bytes| Piece { asid: 1, part: 0, number, bytes };
    let mut at = |number, bytes, offset| place(Line { piece: piece(number, bytes), offset }) - first;
    assert_eq!([at(0, 4096, 8), at(1, 4096, 4088), at(2, 2 << 20, 4096), at(0, 4096, 16)], [0, 1, 513, 0]);
    // 27 nodes of 144 bytes take 192 each: the 22nd begins at byte 4032 of a page.
    let nodes: Vec<u64> = (0..22).map(|i| at(10 + i, 144, 136)).collect();
    assert!(nodes[..21].iter().all(|&frame| frame == 1024) && nodes[21] == 1025);
}

fn any(dice: &mut Dice) -> Organisation {
    let caches = dice.pick(&[[0; 4], [2, 1, 1, 0]]);
    let table = dice.below(6);
    match table {
        0 => tree(4, "", caches),
        1 => tree(5, "", caches),
        2 => tree(4, "l4l3+l2l1", caches),
        3 => Organisation::Hashed(HashedConfig { buckets: 8, ..HashedConfig::default() }),
        4 => Organisation::Clustered(ClusteredConfig { buckets: 4, inline: dice.percent(50), ..Default::default() }),
        _ => Organisation::Cuckoo(CuckooConfig { entries: 4, cached_rows: [2, 1], ..CuckooConfig::default() }),
    }
}

/// In every walk references are those of both dimensions. The guest's are those of its table alone. Each line has a
/// host walk, a hit, or an address in a walk cache. A nested TLB without end walks once for each page.
#[test]
fn pt_1_hw_12_laws_on_random_streams() {
    for seed in seeds(300) {
        let mut dice = Dice::new(seed);
        let (guest, host, nested_tlb) = (any(&mut dice), any(&mut dice), dice.pick(&[0, 1, 4, 100_000]));
        let host_order = dice.pick(&[0, 0, 9]);
        let mut m = Nested::new(NestedConfig { guest, host, host_order, nested_tlb }, one_after_the_other());
        let mut mapped = BTreeSet::new();
        for _ in 0..200 {
            let (asid, vpn) = (dice.below(2) as u32, dice.below(3) << 18 | dice.below(3) << 9 | dice.below(30));
            let order = if dice.percent(5) { 9 } else { 0 };
            let first = vpn >> order << order;
            match dice.below(20) {
                0 => {
                    m.gone(asid);
                    mapped.retain(|&(of, _, _)| of != asid);
                }
                1 => m.switch(asid),
                2..12 => {
                    m.map(asid, first, order, dice.below(100) << order);
                    let apart = |page: u64, held: u8| page + (1 << held) <= first || first + (1 << order) <= page;
                    mapped.retain(|&(of, page, held)| of != asid || apart(page, held));
                    mapped.insert((asid, first, order));
                }
                _ if mapped.remove(&(asid, first, order)) => m.unmap(asid, first, order),
                _ => {}
            }
            for &(asid, vpn, order) in mapped.iter().skip(dice.below(20) as usize).take(4) {
                let before = m.counts();
                let found = m.walk(asid, vpn + dice.below(1 << order));
                let after = m.counts();
                assert_eq!(found.references, after["references"] - before["references"]);
                assert!(found.steps <= found.references && found.steps > 0);
            }
        }
        let (counts, [guest, host]) = (m.counts(), m.tables());
        let c = |name: &str| counts[name];
        assert_eq!(c("references"), c("guest_references") + c("host_references"));
        assert_eq!([c("walks"), c("guest_references")], [guest["walks"], guest["references"]]);
        assert_eq!([c("host_walks"), c("host_references") + c("host_background")], [host["walks"], host["references"]]);
        let rows = guest.get("cwt_references").copied().unwrap_or(0);
        assert_eq!(c("host_walks") + c("nested_hits") + c("known"), c("guest_references") + c("walks") + rows);
        assert!(nested_tlb > 0 || c("nested_hits") == 0);
        if nested_tlb == 100_000 {
            assert!(c("host_walks") <= host["table_writes"] && (host_order > 0 || c("nested_hits") > 0));
        }
    }
}
