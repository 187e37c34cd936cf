//! Changes of mappings, ends and switches of processes: which entries of all levels are dropped, and which of them
//! count (OM-5, OM-6, OM-12, OM-13).

use super::*;

impl PlainMmu {
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, from: u8) {
        let meets = |r: &Range| r.first.0 < pages.start.0 + pages.pages && pages.start.0 < r.first.0 + r.pages;
        if self.registers.as_ref().is_some_and(|r| r.0 == asid && r.2.iter().any(meets)) {
            self.registers = None;
        }
        let c = &mut self.counts.invalidations;
        for level in self.l1.iter_mut().chain(&mut self.l2).chain(&mut self.l2i) {
            *c += level.drop_if(|e| e.order >= from && e.meets(asid, pages));
        }
        if let Some(clusters) = self.clusters.as_mut().filter(|_| from == 0) {
            for slot in &mut clusters.slots {
                let Some(cluster) = slot.as_mut().filter(|c| c.asid == asid) else { continue };
                for i in 0..8 {
                    if i < self.cluster.0
                        && pages.contains(Vpn(cluster.number * self.cluster.0 + i))
                        && cluster.pages[i as usize].take().is_some()
                    {
                        *c += 1;
                    }
                }
                if cluster.pages == [None; 8] {
                    *slot = None;
                }
            }
        }
        self.drop_rows(|r| r.meets(asid, pages) && (from == 0 || r.superpage.is_some()));
        self.counts.range.invalidations += self.drop_ranges(|h| h.meets(asid, pages.start.0, pages.pages));
        self.caches.iter_mut().for_each(|cache| _ = cache.drop_if(|p| p.0 == asid));
    }

    pub fn invalidate(&mut self, asid: Asid, pages: VpnRange) {
        self.drop_pages(asid, pages, 0);
    }

    pub fn demote(&mut self, asid: Asid, pages: VpnRange) {
        self.drop_pages(asid, pages, 1);
    }

    fn drop_spaces(&mut self, goes: impl Fn(Asid) -> bool) {
        let c = &mut self.counts.invalidations;
        for level in self.l1.iter_mut().chain(&mut self.l2).chain(&mut self.l2i) {
            *c += level.drop_if(|e| goes(e.asid));
        }
        if let Some(clusters) = &mut self.clusters {
            *c +=
                clusters.drop_if(|c| goes(c.asid)).iter().map(|c| c.pages.iter().flatten().count() as u64).sum::<u64>();
        }
        self.drop_rows(|r| goes(r.asid));
        self.counts.range.invalidations += self.drop_ranges(|h| goes(h.asid));
        self.caches.iter_mut().for_each(|cache| _ = cache.drop_if(|p| goes(p.0)));
    }

    pub fn drop_space(&mut self, asid: Asid) {
        self.registers = self.registers.take().filter(|r| r.0 != asid);
        self.drop_spaces(|a| a == asid);
    }

    pub fn switch(&mut self, to: Asid) {
        if !self.config.process_ids {
            self.drop_spaces(|a| a != to);
        }
    }
}
