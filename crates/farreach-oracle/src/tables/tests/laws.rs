//! Laws of section 3 and of WC.

use super::super::PlainTable;
use super::super::walk_caches::{Kind, WalkCacheConfig, WalkCaches};
use super::super::{flat::*, radix::Shape};
use crate::dice::Dice;

fn caches(kind: Kind, by_level: [usize; 4]) -> WalkCaches {
    WalkCaches::new(WalkCacheConfig { levels: 4, kind, entries: 1 << 20, by_level, process_ids: true })
}

#[test]
fn wc_4_infinite_caches_leave_one_reference_in_the_same_2_mb() {
    for kind in [Kind::Stc, Kind::Utc, Kind::Uptc, Kind::Sptc, Kind::Tpc] {
        let (mut table, mut dice) = (caches(kind, [1 << 20; 4]), Dice::new(7));
        let pages: Vec<u64> = (0..500).map(|_| dice.below(1 << 34)).collect();
        pages.iter().for_each(|page| table.map(1, *page, 0));
        for &page in &pages {
            table.walk(1, page);
            assert_eq!(table.walk(1, page).references, 1, "{kind:?}");
        }
    }
}

#[test]
fn wc_1_is_the_flat_tree_without_merged_levels() {
    let sizes = [4, 2, 1, 0];
    let mut split = caches(Kind::Stc, sizes);
    let mut flat = Flat::new(FlatConfig { shape: Shape::plain(4), caches: sizes, process_ids: true });
    let mut dice = Dice::new(3);
    let pages: Vec<u64> = (0..100).map(|_| dice.below(1 << 24) | dice.below(2) << 30).collect();
    let superpages: Vec<u64> = (0..20).map(|i| (1 << 32) + i * 512).collect();
    for table in [&mut split as &mut dyn PlainTable, &mut flat] {
        pages.iter().for_each(|&page| table.map(1, page, 0));
        superpages.iter().for_each(|&page| table.map(1, page, 9));
    }
    for _ in 0..5000 {
        let page = if dice.percent(20) { dice.pick(&superpages) + dice.below(512) } else { dice.pick(&pages) };
        assert_eq!(split.walk(1, page), flat.walk(1, page));
    }
}
