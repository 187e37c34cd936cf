//! A model of a page table, told of each page that comes and goes.

use super::*;
use farreach_oracle::tables::PlainTable;
use farreach_oracle::tables::dmt::Dmt;

pub(super) enum Model {
    Any(Box<dyn PlainTable>),
    Dmt(Box<Dmt>, Regions),
}

/// Of a process: first page, one past the last, mapped base pages.
#[derive(Default)]
pub(super) struct Regions(BTreeMap<u32, Vec<(u64, u64, u64)>>);

impl Regions {
    /// A page is mapped: regions that are closer than 2 % of their pages become one.
    fn map(&mut self, asid: u32, first: u64, pages: u64) {
        let all = self.0.entry(asid).or_default();
        let mut new = (first, first + pages, pages);
        let close = |a: &(u64, u64, u64), b: &(u64, u64, u64)| {
            let gap = a.0.max(b.0).saturating_sub(a.1.min(b.1));
            gap == 0 || 50 * gap < a.2 + b.2
        };
        // Only neighbours can be close.
        while let Some(place) = neighbours(all, new.0).into_iter().find(|i| close(&all[*i], &new)) {
            let old = all.remove(place);
            new = (new.0.min(old.0), new.1.max(old.1), new.2 + old.2);
        }
        all.push(new);
        all.sort_unstable();
    }

    fn unmap(&mut self, asid: u32, first: u64, pages: u64) {
        let all = self.0.entry(asid).or_default();
        let region = all.iter_mut().find(|r| r.0 <= first && first < r.1).expect("it has a region");
        region.2 -= pages;
        all.retain(|r| r.2 > 0);
    }
}

/// The region below a page, and that above.
fn neighbours(all: &[(u64, u64, u64)], first: u64) -> Vec<usize> {
    let at = all.partition_point(|r| r.0 < first);
    [at.checked_sub(1), Some(at).filter(|at| *at < all.len())].into_iter().flatten().collect()
}

pub(super) struct Tabled {
    pub model: Model,
    /// The machine's table counts the references of walks that fail.
    pub counts_faults: bool,
    /// What the model has: process and first page, order.
    pub held: BTreeMap<(u32, u64), u8>,
}

impl Tabled {
    fn table(&mut self) -> &mut dyn PlainTable {
        match &mut self.model {
            Model::Any(table) => &mut **table,
            Model::Dmt(table, _) => &mut **table,
        }
    }

    /// Tells the model of DMT of the regions (OW-30).
    fn regions(&mut self, asid: u32, before: Vec<(u64, u64, u64)>) {
        let Model::Dmt(table, regions) = &mut self.model else { return };
        let now = regions.0.get(&asid).cloned().unwrap_or_default();
        for region in before.iter().filter(|old| !now.iter().any(|new| new.0 == old.0)) {
            table.end_region(asid, region.0);
        }
        for (first, end, mapped) in now {
            if !before.contains(&(first, end, mapped)) {
                table.region_with(asid, first, end - first, mapped);
            }
        }
    }

    /// The regions of a process now.
    fn regions_now(&self, asid: u32) -> Vec<(u64, u64, u64)> {
        let Model::Dmt(_, regions) = &self.model else { return Vec::new() };
        regions.0.get(&asid).cloned().unwrap_or_default()
    }

    fn region(&mut self, asid: u32, first: u64, order: u8, mapped: bool) {
        let Model::Dmt(_, regions) = &mut self.model else { return };
        match mapped {
            _ if order > 9 => {}
            true => regions.map(asid, first, 1 << order),
            false => regions.unmap(asid, first, 1 << order),
        }
    }

    fn unmap(&mut self, asid: u32, first: u64) {
        let order = self.held.remove(&(asid, first)).expect("it is held");
        self.table().unmap(asid, first, order);
        self.region(asid, first, order, false);
    }

    fn map(&mut self, asid: u32, first: u64, order: u8) {
        let over: Vec<_> = self.held.range((asid, first)..(asid, first + (1 << order))).map(|(key, _)| key.1).collect();
        let below = self.held.range(..(asid, first)).next_back();
        let under = below.filter(|(key, of)| key.0 == asid && first - key.1 < 1 << **of).map(|(key, _)| key.1);
        if let Model::Dmt(..) = self.model {
            // Its regions follow every page.
            over.into_iter().chain(under).for_each(|first| self.unmap(asid, first));
        } else {
            over.into_iter().chain(under).for_each(|first| _ = self.held.remove(&(asid, first)));
        }
        self.region(asid, first, order, true);
        self.table().map(asid, first, order);
        self.held.insert((asid, first), order);
    }
}

impl Plain for Tabled {
    fn miss(&mut self, miss: &Miss) -> bool {
        self.table().walk(miss.look.asid(), miss.look.vpn());
        false
    }

    fn faulting(&mut self, asid: u32, vpn: u64) {
        if self.counts_faults {
            self.table().search_absent(asid, vpn);
        }
    }

    fn change(&mut self, asid: u32, pages: VpnRange, split: bool, world: &World) {
        if split {
            return self.mapped(asid, pages, world);
        }
        let inside = self.held.range((asid, pages.start.0)..(asid, pages.end().0));
        let gone: Vec<_> = inside.map(|(key, _)| key.1).filter(|page| world.mapping(asid, *page).is_none()).collect();
        let before = self.regions_now(asid);
        gone.into_iter().for_each(|first| self.unmap(asid, first));
        self.regions(asid, before);
    }

    fn mapped(&mut self, asid: u32, pages: VpnRange, world: &World) {
        let inside = world.mappings.range((asid, pages.start.0)..(asid, pages.end().0));
        let all: Vec<_> = inside.map(|(key, page)| (key.1, page.2)).collect();
        let before = self.regions_now(asid);
        for (first, order) in all {
            if self.held.get(&(asid, first)) != Some(&order) {
                self.map(asid, first, order);
            }
        }
        self.regions(asid, before);
    }

    /// OW-2.
    fn gone(&mut self, asid: u32) {
        let all: Vec<_> = self.held.range((asid, 0)..(asid + 1, 0)).map(|(key, _)| key.1).collect();
        all.into_iter().for_each(|first| self.unmap(asid, first));
        self.table().gone(asid);
        if let Model::Dmt(_, regions) = &mut self.model {
            regions.0.remove(&asid);
        }
    }

    fn switch(&mut self, to: u32) {
        self.table().switch(to);
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.all();
        for name in ["walks", "references", "steps"] {
            counts.remove(name);
        }
        if !self.counts_faults {
            counts.remove("fault_references");
        }
        if let Model::Dmt(..) = self.model {
            for name in ["table_bytes", "table_bytes_most", "table_contiguous", "resizes", "moves"] {
                counts.remove(name);
            }
        }
        counts
    }

    fn references(&self) -> References {
        let counts = self.all();
        let rows = counts.get("cwt_references").copied().unwrap_or(0);
        [counts["steps"], counts["references"], rows, 0]
    }

    fn nodes(&self) -> u64 {
        0
    }
}

impl Tabled {
    fn all(&self) -> BTreeMap<&'static str, u64> {
        match &self.model {
            Model::Any(table) => table.counts(),
            Model::Dmt(table, _) => table.counts(),
        }
    }
}
