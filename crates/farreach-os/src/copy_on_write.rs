//! Stores to copy-on-write pages (T94-57, RMM15-30, LNX-23).

use crate::contract::{OutOfMemory, What};
use crate::os::Os;
use crate::page_table::entry::attributes;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};

impl Os {
    /// A store to a copy-on-write page (T94-57). If the frame has no other user the process keeps it, otherwise it gets
    /// a copy in an ordinary frame. Either way the old translation is invalid, and a superpage around it is split,
    /// unless no other process shares the superpage and the policy keeps it whole for this process. All pages of a
    /// range may be copied (F-3).
    pub(crate) fn copy_on_write(&mut self, asid: Asid, vpn: Vpn) -> Result<(), OutOfMemory> {
        self.memory.counts.protection_faults += 1;
        let region = self.region(asid, vpn);
        if self.is_zeros(asid, vpn) {
            return self.replace_zeros(asid, vpn, &region);
        }
        let pages = self.pages_to_copy(asid, vpn).and(region.range);
        if pages.pages == 1 && self.own_superpage(asid, vpn, &region) {
            return Ok(());
        }
        let mut shared = pages.iter().any(|page| self.is_shared(asid, page, &region));
        let together = if shared && pages.pages > 1 { self.memory.alloc_contiguous(pages.pages) } else { None };
        if pages.pages > 1 && shared == together.is_some() {
            let mut frames = together.into_iter().flatten().flat_map(|(base, n)| (base.0..base.0 + n).map(Pfn));
            for page in pages.iter() {
                self.own_page(asid, page, &region, frames.next());
            }
        } else {
            shared = self.is_shared(asid, vpn, &region);
            let to = if shared { Some(self.copy_frame(asid, vpn, &region)?) } else { None };
            match to {
                // Room was made of this very page.
                Some(to) if !self.has_memory(asid, vpn) => self.own_zeros(asid, vpn, &region, to),
                to => self.own_page(asid, vpn, &region, to),
            }
        }
        if shared {
            // The store under way will touch the copy.
            self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.touched = false).expect("still mapped");
        }
        self.memory.release_freed();
        Ok(())
    }

    /// Whether the frame of a mapped page is shared.
    fn is_shared(&self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let pfn = self.spaces[asid.0 as usize].table.get(vpn).expect("only mapped pages are copied").pfn;
        let of_file = self.memory.objects.get(region.object).kind.is_file();
        let file_frame = of_file && self.memory.frame_of(region.object, region.page_of(vpn)) == Some(pfn);
        file_frame || self.memory.mappings(pfn) > 1
    }

    /// Makes a whole copy-on-write superpage that no other process shares any more writable, if the policy does as
    /// Linux (`do_huge_pmd_wp_page`). Frames of a file stay the file's. Returns whether it did.
    fn own_superpage(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let table = &self.spaces[asid.0 as usize].table;
        let order = table.get(vpn).expect("only mapped pages are copied").order;
        let group = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
        let alone = |page: Vpn| table.get(page).is_some_and(|e| e.cow) && !self.is_shared(asid, page, region);
        if order == 0 || !self.placement.reuses_superpages(order) || !group.iter().all(alone) {
            return false;
        }
        let table = &mut self.spaces[asid.0 as usize].table;
        for page in group.iter() {
            let owned = table.update(page, |entry| (entry.cow, entry.attr) = (false, attributes(region.prot, false)));
            owned.expect("all of a superpage is mapped");
        }
        table.pack(group);
        self.ranges_changed(asid, &group.iter().collect::<Vec<_>>());
        self.change(asid, group, What::Stale);
        true
    }

    /// A store makes a copy-on-write page the process's own: copies it to the frame `to`, or keeps its frame.
    pub(crate) fn own_page(&mut self, asid: Asid, vpn: Vpn, region: &Region, to: Option<Pfn>) {
        self.memory.counts.cow_copies += u64::from(to.is_some());
        self.take_page(asid, vpn, region, to);
    }

    /// As [`Os::own_page`], for other reasons than a store.
    pub(crate) fn take_page(&mut self, asid: Asid, vpn: Vpn, region: &Region, to: Option<Pfn>) {
        self.demote(asid, vpn);
        let old = self.spaces[asid.0 as usize].table.get(vpn).expect("only mapped pages are copied");
        if let Some(pfn) = to {
            self.memory.fill_nameless(pfn, Some(old.pfn));
            self.memory.map(pfn, 1);
            if old.touched {
                self.memory.touch(pfn);
            }
            if !self.memory.objects.get(region.object).kind.is_file() {
                self.memory.rename(region.object, region.page_of(vpn), pfn);
            }
            self.memory.unmap(old.pfn, 1);
        }
        let owned = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
            if let Some(pfn) = to {
                (entry.pfn, entry.dirty) = (pfn, false);
            }
            entry.cow = false;
            entry.attr = attributes(region.prot, false);
        });
        owned.expect("still mapped");
        self.ranges_changed(asid, &[vpn]);
        self.change(asid, VpnRange::one(vpn), What::Stale);
    }

    /// The frame for a process's own copy of a page.
    pub(crate) fn copy_frame(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> Result<Pfn, OutOfMemory> {
        let request = self.request_for(asid, vpn, region);
        self.memory.alloc.prefer_zeroed(false);
        self.make_way(request, 0);
        loop {
            match self.placement.allocate_copy(&mut self.memory, request) {
                Some(pfn) => return Ok(pfn),
                None if self.make_room() => {}
                None => return Err(OutOfMemory { vpn }),
            }
        }
    }
}
