//! Direct memory translation (DM; Zhang and others, ASPLOS 2024): the entries of the pages of a region lie in one array
//! (TEA), and registers say where the arrays of the largest regions are. A walk in such a region reads one entry. For
//! other pages the arrays are the last level of a radix tree.

mod regions;

use super::memory::{OWN, PTE, WRITES, counted};
use super::tree::{Merging, Tree};
use super::{ListedTable, Mapping, Places, Reads, Table, TableLaw};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key};
use regions::Regions;

/// DM-1.
pub const DMT_REGISTERS: Key = Key {
    name: "dmt_registers",
    default: "16",
    allowed: Allowed::Int { min: 0, max: 1024 },
    about: "table = dmt: registers, each for a region whose entries lie in one array; those of the largest regions",
};
/// DM-2.
pub const DMT_GUEST_ARRAYS: Key = Key {
    name: "dmt_guest_arrays",
    default: "contiguous",
    allowed: Allowed::OneOf(&["contiguous", "paged"]),
    about: "table = dmt: with guest = walk: contiguous: arrays lie in memory that the host has in a row, and registers \
            have its system addresses; paged: the host translates the address of each entry",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "dmt",
    about: "arrays with the entries of whole regions, the largest found by registers, and a radix tree (DM)",
    keys: &[&DMT_REGISTERS, &DMT_GUEST_ARRAYS],
    guest_keys: &[&DMT_GUEST_ARRAYS],
    has_walk_caches: true,
    counters: counted! {
        moves: "entries that were moved because the array of a region grew or was joined to another",
        collisions: "none here",
        Counter::new("covered", "walks in a region that has a register"),
        Counter::new("conventional", "walks through the radix tree"),
        Counter::new("walk_cache_hits", "of these, demand walks that began at a cached entry"),
    },
    laws: &[TableLaw {
        name: "DM-5: walks are covered or conventional",
        sides: |part, walks| (walks, part.counters.get("covered") + part.counters.get("conventional")),
    }],
    build: |params, _| {
        let tree = Tree::new(params, Merging::NONE, false)?;
        Ok(Box::new(Dmt {
            tree,
            regions: Regions::above(Places::growing(params)),
            registers: params.int(DMT_REGISTERS.name) as usize,
            is_known: params.text(DMT_GUEST_ARRAYS.name) == DMT_GUEST_ARRAYS.default,
        }))
    },
    in_guests: true,
};

const COVERED: usize = OWN;
const CONVENTIONAL: usize = OWN + 1;
const WALK_CACHE_HITS: usize = OWN + 2;

/// See the module.
struct Dmt {
    /// All levels above the entries of pages.
    tree: Tree,
    regions: Regions,
    registers: usize,
    /// Whether registers of a guest have the system addresses of arrays.
    is_known: bool,
}

impl Table for Dmt {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        *own.at(WRITES) += self.tree.map(mapping, own);
        if mapping.order < 18 {
            self.regions.map(mapping, own);
        }
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        *own.at(WRITES) += self.tree.unmap(mapping, own);
        if mapping.order < 18 {
            self.regions.unmap(mapping, own);
        }
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
        let region = self.regions.of(asid, vpn);
        let entries = region.map(|(first, region)| region.entries(first, vpn));
        let is_covered =
            region.is_some_and(|(first, region)| self.regions.is_among(self.registers, asid, first, region));
        if let (true, Some((page, superpage))) = (is_covered, entries) {
            // DM-2, DM-3: one step.
            let both = [page, superpage.unwrap_or(page)];
            let arrays = &both[..1 + usize::from(superpage.is_some())];
            match self.is_known {
                true => reads.known(arrays),
                false => reads.step(arrays),
            }
            // Pages of 1 GB are in no array.
            if mapping.is_none_or(|mapping| mapping.order < 18) {
                reads.count(COVERED, 1);
                return;
            }
        }
        let mut path = self.tree.path(asid, vpn, mapping);
        // The last entry lies in the array of its region.
        if let (Some((level, address)), Some((page, superpage))) = (path.last(), entries) {
            *address = match level {
                0 => page,
                1 => superpage.unwrap_or(*address),
                _ => *address,
            };
        }
        let is_hit = self.tree.walk(asid, vpn, &path, reads);
        reads.count(CONVENTIONAL, 1);
        reads.count(WALK_CACHE_HITS, is_hit.into());
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.tree.bytes() + self.regions.bytes()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let all: Vec<Mapping> = mappings.collect();
        self.tree.check(&mut all.iter().copied());
        self.regions.check(all.iter().filter(|mapping| mapping.order < 18));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use serde_json::json;

    /// The hand-worked case of DM-5: DM-1.
    #[test]
    fn seventeen_regions_of_equal_size() {
        let mut bench = Bench::new(json!({"table": "dmt"}));
        for region in 0..17 {
            (0..10).for_each(|page| bench.map(0, region << 20 | page, 0));
        }
        assert_eq!((0..17).map(|region| bench.walk(0, region << 20).references).sum::<u64>(), 20);
        assert_eq!((bench.count("covered"), bench.count("conventional")), (16, 1));
        bench.map(0, 16 << 20 | 10, 0);
        assert_eq!(bench.walk(0, 16 << 20).references, 1, "the largest has a register");
        assert_eq!(bench.walk(0, 15 << 20).references, 4);
        bench.check();
    }

    /// DM-2: the rest is a conventional walk, with its caches.
    #[test]
    fn without_registers_it_is_a_radix_tree() {
        let mut bench = Bench::new(json!({"table": "dmt", "dmt_registers": 0, "pwc_pd": 4, "replacement": "lru"}));
        bench.map(0, 7, 0);
        bench.map(0, 512, 9);
        bench.map(0, 1 << 18, 18);
        assert_eq!([7, 7, 600, 1 << 18].map(|page| bench.walk(0, page).references), [4, 1, 3, 2]);
        // Three upper levels. Two regions, each with an array for pages, and one of them with one for superpages.
        assert_eq!(bench.count("table_bytes"), (3 + 3) * 4096);
    }

    /// DM-3.
    #[test]
    fn superpages_have_an_array_of_their_own() {
        let mut bench = Bench::new(json!({"table": "dmt"}));
        bench.map(0, 512, 9);
        (0..8).for_each(|page| bench.map(0, 1024 + page, 0));
        for page in [512, 1024] {
            let walked = bench.walk(0, page);
            assert_eq!((walked.references, walked.steps), (2, 1));
        }
        bench.unmap(0, 512, 9);
        assert_eq!(bench.walk(0, 1024).references, 1);
    }

    /// DM-4: an array grows in place as long as the frames behind it are free.
    #[test]
    fn arrays_grow_and_move() {
        let mut bench = Bench::new(json!({"table": "dmt"}));
        let far = 1 << 20;
        (0..513).for_each(|page| bench.map(0, page, 0));
        assert_eq!((bench.count("resizes"), bench.count("moves"), bench.count("table_contiguous")), (1, 0, 8192));
        bench.map(0, far, 0);
        (513..1025).for_each(|page| bench.map(0, page, 0));
        assert_eq!((bench.count("resizes"), bench.count("moves"), bench.count("table_contiguous")), (2, 1024, 12288));
        bench.map(0, far - 1, 0);
        assert_eq!((bench.count("resizes"), bench.count("moves")), (3, 1025), "in front there is no room");
        bench.check();
    }

    /// DM-5: regions of 100 pages with 3 between them share a register, with 4 they do not.
    #[test]
    fn regions_that_are_close_are_one() {
        for (gap, registers) in [(3, 1), (4, 2)] {
            let mut bench = Bench::new(json!({"table": "dmt", "dmt_registers": 1}));
            let second = 100 + gap;
            (0..100).chain(second..second + 100).for_each(|page| bench.map(0, page, 0));
            let covered = [0, second].map(|page| bench.walk(0, page).references == 1);
            assert_eq!(covered.iter().filter(|covered| !**covered).count() + 1, registers, "{gap}");
            bench.check();
        }
    }
}
