//! Flattened page tables (FL; Park and others, ASPLOS 2022): a radix tree in which two levels can be one node of 2 MB,
//! so that a walk has fewer references. With the walk caches of the radix walker.

use super::memory::{OWN, WRITES, counted};
use super::tree::{LEVELS, Merging, Tree};
use super::{ListedTable, Mapping, Reads, Table};
use crate::tlb::parts::additions::Counter;
use crate::tlb::parts::hierarchy::walk::WALK_LEVELS;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// FL-1.
pub const FLATTEN: Key = Key {
    name: "flatten",
    default: "l4l3+l2l1",
    allowed: Allowed::Texts,
    about: "table = flat: pairs of levels that are one node, of l5l4, l4l3, l3l2 and l2l1, joined by +; none: none",
};
/// FL-2.
pub const FLATTEN_FRACTION: Key = Key {
    name: "flatten_fraction",
    default: "1",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "table = flat: share of such nodes for which 2 MB of memory in a row are found; else they are nodes of 4 KB",
};
/// FL-4.
pub const FLATTEN_HUGE: Key = Key {
    name: "flatten_huge",
    default: "copies",
    allowed: Allowed::OneOf(&["copies", "split"]),
    about: "table = flat: a superpage below a node of two levels: copies: has an entry there for each page; split: the \
            node becomes nodes of one level",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "flat",
    about: "a radix tree with nodes of 2 MB for two levels, and walk caches (FL)",
    keys: &[&FLATTEN, &FLATTEN_FRACTION, &FLATTEN_HUGE],
    counters: counted! {
        moves: "entries of nodes of two levels that became nodes of one",
        collisions: "none here",
        Counter::new("walk_cache_hits", "demand walks that began at a cached entry"),
    },
    has_walk_caches: true,
    in_guests: true,
    build: |params, _| Ok(Box::new(Flat { tree: Tree::new(params, merging(params)?, true)? })),
    ..ListedTable::NEW
};

const WALK_CACHE_HITS: usize = OWN;

/// The keys of the merged levels.
fn merging(params: &Params) -> Result<Merging, String> {
    let texts = params.texts(FLATTEN.name);
    let levels = params.int(WALK_LEVELS.name) as usize;
    let mut pairs = [false; LEVELS];
    for text in texts.iter().filter(|text| texts.len() > 1 || *text != "none") {
        let refuse = |why: &str| {
            let shown = texts.join("+");
            Err(format!("{} = {shown} is not allowed: {text} {why}", FLATTEN.name))
        };
        let Some(upper) = (1..LEVELS).find(|upper| *text == format!("l{}l{upper}", upper + 1)) else {
            return refuse("is none of l5l4, l4l3, l3l2, l2l1");
        };
        if upper >= levels {
            return refuse(&format!("needs more levels than walk_levels = {levels}"));
        }
        if pairs[upper - 1] || pairs[upper] || pairs.get(upper + 1) == Some(&true) {
            return refuse("shares a level with another pair");
        }
        pairs[upper] = true;
    }
    let split = params.text(FLATTEN_HUGE.name) == "split";
    Ok(Merging { pairs, fraction: params.number(FLATTEN_FRACTION.name), split })
}

/// See the module.
struct Flat {
    tree: Tree,
}

impl Table for Flat {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let written = self.tree.map(mapping, own);
        *own.at(WRITES) += written;
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let written = self.tree.unmap(mapping, own);
        *own.at(WRITES) += written;
    }

    fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        self.tree.gone(asid, own);
    }

    fn forget(&mut self, asid: Asid, _: VpnRange) {
        self.tree.forget(asid);
    }

    fn switch(&mut self, to: Asid, _: bool) {
        self.tree.switch(to);
    }

    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        let path = self.tree.path(asid, vpn, mapping);
        let is_hit = self.tree.walk(asid, vpn, &path, reads);
        reads.count(WALK_CACHE_HITS, is_hit.into());
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        self.tree.check(mappings);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use serde_json::{Value, json};

    fn flat(given: Value) -> Bench {
        let mut all = json!({"table": "flat", "replacement": "lru"});
        all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        Bench::new(all)
    }

    /// FL-1, FL-3, a hand-worked case: ten pages in one GB.
    #[test]
    fn ten_pages_in_one_gigabyte() {
        for (given, references) in [
            (json!({"flatten": "none"}), 40),
            (json!({}), 20),
            (json!({"flatten": "l2l1"}), 30),
            (json!({"flatten": "l3l2"}), 30),
            (json!({"flatten": "l4l3"}), 30),
            (json!({"pwc_pdpt": 1}), 11),
            (json!({"walk_levels": 5}), 30),
            (json!({"walk_levels": 5, "flatten": "l5l4+l3l2"}), 30),
            (json!({"flatten_fraction": 0}), 40),
        ] {
            let mut bench = flat(given.clone());
            let mut sum = 0;
            for i in 0..10 {
                bench.map(0, (3 << 18) + i * 1000, 0);
                sum += bench.walk(0, (3 << 18) + i * 1000).references;
            }
            assert_eq!(sum, references, "{given}");
            bench.check();
        }
    }

    /// FL-3: an entry of a node of two levels belongs to the cache of the lower of them.
    #[test]
    fn caches_of_levels_that_are_merged_stay_empty() {
        for (key, hits) in [("pwc_pml4", 0), ("pwc_pdpt", 1), ("pwc_pd", 0)] {
            let mut given = json!({});
            given[key] = 8.into();
            let mut bench = flat(given);
            bench.map(0, 5, 0);
            (0..2).for_each(|_| _ = bench.walk(0, 5));
            assert_eq!(bench.count("walk_cache_hits"), hits, "{key}");
            bench.forget(0);
            assert_eq!(bench.walk(0, 5).references, 2);
        }
    }

    /// FL-4, FL-5.
    #[test]
    fn superpages_below_a_merged_node() {
        const NODE: u64 = 2 << 20;
        let mut bench = flat(json!({}));
        bench.map(0, 0, 0);
        bench.map(0, 512, 9);
        assert_eq!((bench.count("table_writes"), bench.count("table_bytes")), (513, 2 * NODE));
        assert_eq!(bench.walk(0, 700).references, 2);
        bench.map(0, 1 << 18, 18);
        assert_eq!((bench.walk(0, 1 << 18).references, bench.count("table_bytes")), (1, 2 * NODE));
        bench.unmap(0, 0, 0);
        bench.unmap(0, 512, 9);
        assert_eq!(bench.count("table_bytes"), NODE);

        let mut bench = flat(json!({"flatten_huge": "split"}));
        (0..3).for_each(|i| bench.map(0, i * 600, 0));
        assert_eq!((bench.walk(0, 600).references, bench.count("table_bytes")), (2, 2 * NODE));
        bench.map(0, 5120, 9);
        assert_eq!((bench.walk(0, 600).references, bench.walk(0, 5120).references), (3, 2));
        assert_eq!((bench.count("moves"), bench.count("table_bytes")), (3, NODE + 4 * 4096));
        bench.check();
        bench.end(0);
        assert_eq!(bench.count("table_bytes"), 0);
    }

    /// FL-2: about this share of nodes is merged.
    #[test]
    fn fragmentation_leaves_some_nodes_apart() {
        let mut bench = flat(json!({"flatten": "l2l1", "flatten_fraction": 0.25}));
        (0..400).for_each(|i| bench.map(0, i << 18, 0));
        let merged = (0..400).filter(|i| bench.walk(0, i << 18).references == 3).count();
        assert!((70..130).contains(&merged), "{merged}");
    }

    #[test]
    fn pairs_are_checked() {
        for (flatten, why) in [
            ("l4l3+l3l2", "l3l2 shares a level with another pair"),
            ("l5l4", "l5l4 needs more levels than walk_levels = 4"),
            ("l1l2", "l1l2 is none of l5l4, l4l3, l3l2, l2l1"),
        ] {
            let refusal = Bench::build(json!({"table": "flat", "flatten": flatten})).err().unwrap();
            assert_eq!(refusal, format!("flatten = {flatten} is not allowed: {why}"));
        }
    }
}
