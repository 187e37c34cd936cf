//! Clusters: entries of up to eight pages that share a group of frames, or lie in a run of them (OM-7, OM-11).

use super::*;

#[derive(Clone, Copy)]
pub(super) struct Cluster {
    pub(super) asid: Asid,
    pub(super) number: u64,
    frames: u64,
    pub(super) attr: Attr,
    pub(super) pages: [Option<u64>; 8],
    begun: u64,
    pub(super) last: u64,
}

impl PlainMmu {
    pub(super) fn fill_cluster(&mut self, at: Lookup, page: Translation, table: &dyn PageTableView) {
        let (n, runs) = self.cluster;
        let (number, place) = (at.vpn.0 / n, at.vpn.0 % n);
        // The key that distinguishes entries of one cluster.
        let frames = if runs { page.pfn.0 + n - place } else { page.pfn.0 / n };
        let fits = |i: u64| {
            let pte = table.pte(at.asid, Vpn(number * n + i)).filter(|p| i < n && p.attr == page.attr)?;
            (if runs { pte.pfn.0 + n - i == frames } else { pte.pfn.0 / n == frames }).then_some(pte.pfn.0)
        };
        let reached = |i: u64| !runs || (i.min(place)..=i.max(place)).all(|j| fits(j).is_some());
        let pages: [Option<u64>; 8] = std::array::from_fn(|i| fits(i as u64).filter(|_| reached(i as u64)));
        let count = |pages: &[Option<u64>; 8]| pages.iter().flatten().count() as u64;
        let now = self.now;
        let clusters = self.clusters.as_mut().unwrap();
        let same = |c: &Cluster| (c.asid, c.number, c.frames, c.attr) == (at.asid, number, frames, page.attr);
        if let Some(old) = clusters.use_one(same) {
            self.counts.merges += 1;
            let both = std::array::from_fn(|i| pages[i].or(old.pages[i]));
            self.counts.preloaded += count(&both) - count(&old.pages) - 1;
            (old.pages, old.last) = (both, now);
        } else {
            self.counts.preloaded += count(&pages) - 1;
            let (slot, taken) = clusters.victim(number, |c| (c.begun, c.last));
            self.counts.evictions += u64::from(taken);
            let asid = at.asid;
            clusters.slots[slot] =
                Some(Cluster { asid, number, frames, attr: page.attr, pages, begun: now, last: now });
        }
    }
}
