//! Writing and clearing page table entries, with all parts that count them: frames, ranges, the promotion policy, the
//! segment.

use crate::bits;
use crate::os::Os;
use crate::page_table::entry::Entry;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// Counts of mapped pages in aligned groups, as the promotion policy keeps them.
type Populations = hashbrown::HashMap<(u32, u64), u32, foldhash::fast::FixedState>;

fn forget_population(populations: &mut Populations, group: (u32, u64), pages: u32) {
    let count = populations.get_mut(&group).expect("mapped pages are counted");
    *count -= pages;
    if *count == 0 {
        populations.remove(&group);
    }
}

impl Os {
    /// A superpage has one modified bit for all its pages (T94-19).
    pub(crate) fn mark_dirty(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        let group = VpnRange { start: vpn.align_down(u32::from(order)), pages: 1 << order };
        let table = &mut self.spaces[asid.0 as usize].table;
        self.memory.counts.dirty_pages += table.set_dirty(group);
        if !self.memory.reservations.is_empty()
            && let Some(first) = table.get(group.start)
        {
            self.memory.reservations.store(first.pfn, group.pages);
        }
    }

    /// Writes a page table entry and counts it.
    pub(crate) fn map_page(&mut self, asid: Asid, vpn: Vpn, entry: Entry) {
        self.memory.map(entry.pfn, 1);
        self.ranges_mapped(asid, VpnRange::one(vpn), entry.pfn, entry.attr);
        let space = &mut self.spaces[asid.0 as usize];
        let before = space.table.nodes();
        space.table.insert(vpn, entry);
        self.nodes += space.table.nodes() - before;
        for &order in self.promotion.orders() {
            *space.populations.entry((order, vpn.group(order))).or_insert(0) += 1;
        }
        self.segments.pages += u64::from(entry.segment);
        self.mapped += 1;
        self.mapped_peak = self.mapped_peak.max(self.mapped);
        self.nodes_peak = self.nodes_peak.max(self.nodes);
        self.announce(asid, VpnRange::one(vpn));
    }

    /// As [`Os::map_page`], for pages in consecutive frames. `entry` is the entry of the first.
    pub(crate) fn map_run(&mut self, asid: Asid, pages: VpnRange, entry: Entry) {
        self.memory.map(entry.pfn, pages.pages);
        self.ranges_mapped(asid, pages, entry.pfn, entry.attr);
        let space = &mut self.spaces[asid.0 as usize];
        let before = space.table.nodes();
        space.table.insert_run(pages, entry);
        self.nodes += space.table.nodes() - before;
        for &order in self.promotion.orders() {
            for (group, _, n) in bits::groups(pages.start.0, pages.pages, 1 << order) {
                *space.populations.entry((order, group)).or_insert(0) += n as u32;
            }
        }
        self.segments.pages += if entry.segment { pages.pages } else { 0 };
        self.mapped += pages.pages;
        self.mapped_peak = self.mapped_peak.max(self.mapped);
        self.nodes_peak = self.nodes_peak.max(self.nodes);
        self.announce(asid, pages);
    }

    /// Clears the page table entries of a range and frees the frames that no other entry names. Returns the pages that
    /// were mapped, with log2 of the base pages of their mappings, 0 if these differ. The caller has demoted
    /// superpages, and reports the change.
    pub(crate) fn unmap_range(&mut self, asid: Asid, range: VpnRange) -> Vec<(VpnRange, u8)> {
        self.ranges_unmapped(asid, range);
        let space = &mut self.spaces[asid.0 as usize];
        let runs = space.table.runs_in(range);
        let before = space.table.nodes();
        space.table.clear(range);
        self.nodes -= before - space.table.nodes();
        let mut pages: Vec<(VpnRange, u8)> = Vec::new();
        for run in runs {
            for &order in self.promotion.orders() {
                for (group, _, n) in bits::groups(run.first.0, run.pages, 1 << order) {
                    forget_population(&mut space.populations, (order, group), n as u32);
                }
            }
            self.segments.pages -= if run.entry.segment { run.pages } else { 0 };
            self.mapped -= run.pages;
            self.memory.counts.populated_never_used += run.unused;
            self.memory.unmap(run.entry.pfn, run.pages);
            match pages.last_mut() {
                Some((last, order)) if last.end() == run.first => {
                    last.pages += run.pages;
                    *order = if *order == run.entry.order { *order } else { 0 };
                }
                _ => pages.push((VpnRange { start: run.first, pages: run.pages }, run.entry.order)),
            }
        }
        pages
    }

    /// As [`Os::unmap_range`], for one page.
    pub(crate) fn unmap_page(&mut self, asid: Asid, vpn: Vpn) {
        self.unmap_range(asid, VpnRange::one(vpn));
    }

    /// Takes an entry out of the table; its frame keeps the mapping.
    pub(crate) fn remove_entry(&mut self, asid: Asid, vpn: Vpn) -> Option<Entry> {
        self.ranges_unmapped(asid, VpnRange::one(vpn));
        let space = &mut self.spaces[asid.0 as usize];
        let before = space.table.nodes();
        let entry = space.table.remove(vpn)?;
        self.nodes -= before - space.table.nodes();
        for &order in self.promotion.orders() {
            forget_population(&mut space.populations, (order, vpn.group(order)), 1);
        }
        self.segments.pages -= u64::from(entry.segment);
        self.mapped -= 1;
        Some(entry)
    }
}
