//! A world for tests: a TLB of one level with LRU, walks of up to four nodes, and a run over it.

use super::{Config, Miss, PlainPrefetch, World};
use std::collections::BTreeMap;

/// Mappings and the second level.
pub(super) struct Plain {
    /// Order and frame by process and first page.
    pub mapped: BTreeMap<(u32, u64), (u8, u64)>,
    /// Process, first page, order; oldest use first.
    pub tlb: Vec<(u32, u64, u8)>,
    pub entries: usize,
    pub background: u64,
}

impl Plain {
    pub fn new(entries: usize) -> Plain {
        Plain { mapped: BTreeMap::new(), tlb: Vec::new(), entries, background: 0 }
    }

    pub fn place(&self, asid: u32, vpn: u64) -> Option<usize> {
        self.tlb.iter().position(|e| e.0 == asid && e.1 == vpn >> e.2 << e.2)
    }

    /// The victim, as process, first page and order.
    pub fn fill(&mut self, asid: u32, vpn: u64) -> Option<(u32, u64, u8)> {
        let (first, order, _) = self.mapping(asid, vpn).expect("it is mapped");
        let full = self.tlb.len() == self.entries;
        let victim = full.then(|| self.tlb.remove(0));
        self.tlb.push((asid, first, order));
        victim
    }
}

impl World for Plain {
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8, u64)> {
        [0, 9, 18].into_iter().find_map(|order| {
            let first = vpn >> order << order;
            let (o, frame) = *self.mapped.get(&(asid, first))?;
            (o == order).then_some((first, order, frame + vpn - first))
        })
    }

    fn in_l1(&self, _: u32, _: u64) -> bool {
        false
    }

    fn in_l2(&self, asid: u32, vpn: u64) -> bool {
        self.place(asid, vpn).is_some()
    }

    fn background_walk(&mut self, asid: u32, vpn: u64) -> u64 {
        self.background += 1;
        4 - u64::from(self.mapping(asid, vpn).map_or(0, |m| m.1 / 9))
    }

    fn fill_l2(&mut self, asid: u32, vpn: u64) {
        if self.place(asid, vpn).is_none() {
            self.fill(asid, vpn);
        }
    }
}

/// A run with a prefetcher.
pub(super) struct Bench {
    pub world: Plain,
    pub prefetch: PlainPrefetch,
    /// Pages that were walked for.
    pub walked: Vec<u64>,
    /// Pages that the buffer answered.
    pub answered: Vec<u64>,
    pub position: u64,
}

impl Bench {
    /// A TLB of this number of entries, and these base pages of process 1.
    pub fn new(config: Config, entries: usize, pages: impl IntoIterator<Item = u64>) -> Bench {
        let mut world = Plain::new(entries);
        world.mapped.extend(pages.into_iter().map(|page| ((1, page), (0, 1000 + page))));
        let prefetch = PlainPrefetch::new(config);
        Bench { world, prefetch, walked: Vec::new(), answered: Vec::new(), position: 0 }
    }

    /// A reference.
    pub fn touch(&mut self, asid: u32, vpn: u64, pc: u64, fetch: bool) {
        self.position += 1;
        if let Some(place) = self.world.place(asid, vpn) {
            let entry = self.world.tlb.remove(place);
            return self.world.tlb.push(entry);
        }
        let (_, order, _) = self.world.mapping(asid, vpn).expect("tests touch mapped pages");
        let miss = Miss { asid, vpn, pc, fetch, position: self.position, order };
        let by_buffer = self.prefetch.missed(&miss);
        if by_buffer { &mut self.answered } else { &mut self.walked }.push(vpn);
        let victim = self.world.fill(asid, vpn);
        self.prefetch.filled(&miss, by_buffer, victim, &mut self.world);
    }

    /// Loads of process 1 at one place of the program.
    pub fn run(mut self, pages: impl IntoIterator<Item = u64>) -> Bench {
        pages.into_iter().for_each(|page| self.touch(1, page, 0x40, false));
        self
    }

    pub fn count(&self, name: &str) -> u64 {
        self.prefetch.counts()[name]
    }

    /// Demand walks, hits of the buffer, prefetch walks, faulting ones.
    pub fn sums(&self) -> [u64; 4] {
        [self.walked.len() as u64, self.count("hits"), self.count("walks"), self.count("faulting")]
    }
}
