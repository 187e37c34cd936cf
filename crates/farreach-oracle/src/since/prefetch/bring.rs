//! What a candidate and a line of the page table bring in (PB-5, PB-6, PB-7, SBFP-3).

use super::*;

const BEYOND: i64 = 1 << 35;

impl PlainPrefetch {
    /// PB-5 (7), for the candidate and the page that missed, as base pages. With `(free entries?, by a pointer of
    /// RP-5?)`. True if something was brought in.
    pub(super) fn issue(&mut self, miss: &Miss, page: i64, own: i64, how: (bool, bool), world: &mut dyn World) -> bool {
        self.add("candidates", 1);
        let (asid, vpn) = (miss.asid, page as u64);
        let there = |world: &dyn World| match self.config.filter {
            Filter::None => false,
            Filter::L2 => world.in_l2(asid, vpn),
            Filter::L1 => world.in_l1(asid, vpn) || world.in_l2(asid, vpn),
        };
        if page == own || !(0..BEYOND).contains(&page) || there(world) || self.buffer.has(asid, vpn) {
            self.add("filtered", 1);
            return false;
        }
        let (free, pointer) = how;
        let nodes = if pointer { 1 } else { world.background_walk(asid, vpn) };
        self.add("walks", 1);
        self.add("nodes", nodes);
        let Some((_, order, _)) = world.mapping(asid, vpn) else {
            self.add("faulting", 1);
            return false;
        };
        self.add("prefetched", 1);
        self.fill(miss, vpn, Source::Prefetcher, world);
        if free {
            self.bring_free(miss, vpn, order, world);
        }
        true
    }

    fn fill(&mut self, miss: &Miss, vpn: u64, source: Source, world: &mut dyn World) {
        if self.config.into_l2 {
            self.add("into_l2", 1);
            return world.fill_l2(miss.asid, vpn);
        }
        let (first, order, frame) = world.mapping(miss.asid, vpn).expect("only mapped pages are brought in");
        let frame = frame - (vpn - first);
        let left = self.buffer.fill(Held { asid: miss.asid, first, order, frame, source, position: miss.position });
        self.add("evicted_unused", u64::from(left));
    }

    /// SBFP-3, after a walk that read the leaf of this page.
    pub(super) fn bring_free(&mut self, miss: &Miss, vpn: u64, order: u8, world: &mut dyn World) {
        let page = (vpn >> order) as i64;
        for d in distances(page) {
            let neighbour = ((page + d) << order) as u64;
            if world.mapping(miss.asid, neighbour).is_none_or(|(_, o, _)| o != order) {
                continue;
            }
            let wanted = match (&self.config.free, &mut self.sbfp) {
                (Free::All, _) => true,
                (Free::Static(some), _) => some.contains(&d),
                (_, Some(sbfp)) if sbfp.above(order, d) => true,
                (_, Some(sbfp)) => {
                    sbfp.sample(miss.asid, order, page + d, d);
                    false
                }
                (_, None) => false,
            };
            if wanted && !world.in_l2(miss.asid, neighbour) && !self.buffer.has(miss.asid, neighbour) {
                self.add("free", 1);
                self.fill(miss, neighbour, Source::Free(d), world);
            }
        }
    }
}
