//! Serving references: the page table entry of a page, after whatever faults it takes to get one.

use super::bits;
use super::object::{ObjectId, ObjectKind};
use super::page_table::Entry;
use super::placement::FrameRequest;
use super::region::{Huge, Region};
use super::{Os, OutOfMemory, Touched, What};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::{Kind, Prot};
use farreach_types::translation::{Attr, Pte};

/// Attributes of a protection.
pub(super) fn attr(prot: Prot, cow: bool) -> Attr {
    let bit = |on: bool, bit: u8| if on { bit } else { 0 };
    Attr(bit(prot.read, Attr::READ) | bit(prot.write && !cow, Attr::WRITE) | bit(prot.exec, Attr::EXEC))
}

#[inline]
fn touched(e: &Entry) -> Touched {
    Touched { pte: Pte { pfn: e.pfn, attr: e.attr, order: e.order }, label: e.label }
}

fn needs(kind: Kind) -> u8 {
    match kind {
        Kind::Fetch => Attr::EXEC,
        Kind::Load => Attr::READ,
        Kind::Store => Attr::WRITE,
    }
}

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
    /// A reference of `kind` to a page: serves the faults it causes, marks the page referenced and, for a store, modified.
    /// What changed for the hardware is in [`Os::take_changes`].
    #[inline]
    pub fn touch(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, OutOfMemory> {
        if let Some(e) = self.spaces.get(asid.0 as usize).and_then(|s| s.table.get(vpn))
            && e.touched
            && e.attr.0 & needs(kind) != 0
            && (kind != Kind::Store || e.dirty)
        {
            return Ok(touched(&e));
        }
        let result = self.touch_first(asid, vpn, kind);
        if result.is_err() {
            // Whoever made room in vain may have dissolved ranges.
            self.sync_ranges(asid);
        }
        result
    }

    /// A touch that changes something: the first one, the first store, one that faults.
    fn touch_first(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, OutOfMemory> {
        if self.space(asid).table.get(vpn).is_none() && !self.segment_page(asid, vpn) && !self.direct_page(asid, vpn) {
            self.page_fault(asid, vpn, kind)?;
            self.tick();
            self.keep_out_of_segment(asid, vpn);
        }
        let entry = self.space(asid).table.get(vpn).expect("the fault mapped it");
        if kind == Kind::Store && entry.cow && self.may_write(asid, vpn) {
            self.copy_on_write(asid, vpn)?;
        }
        let space = &mut self.spaces[asid.0 as usize];
        let before = space.table.update(vpn, |entry| {
            let before = *entry;
            entry.forbidden |= entry.attr.0 & needs(kind) == 0;
            entry.touched = true;
            before
        });
        let before = before.expect("still mapped");
        if before.attr.0 & needs(kind) == 0 && !before.forbidden {
            self.memory.counts.forbidden_accesses += 1;
        }
        if !before.touched {
            self.touched_pages += 1;
            self.memory.touch(before.pfn);
        }
        if kind == Kind::Store && !before.dirty {
            self.mark_dirty(asid, vpn, before.order);
        }
        self.sync_ranges(asid);
        let entry = self.spaces[asid.0 as usize].table.get(vpn).expect("still mapped");
        Ok(touched(&entry))
    }

    fn may_write(&mut self, asid: Asid, vpn: Vpn) -> bool {
        self.region(asid, vpn).prot.write
    }

    /// A superpage has one modified bit for all its pages (T94-19).
    pub(super) fn mark_dirty(&mut self, asid: Asid, vpn: Vpn, order: u8) {
        let group = VpnRange { start: vpn.align_down(u32::from(order)), pages: 1 << order };
        self.memory.counts.dirty_pages += self.spaces[asid.0 as usize].table.set_dirty(group);
    }

    /// The region of a page. A space that references memory before its trace mapped any is filled by one anonymous object; a stray
    /// reference into a hole of a space that has regions makes a region of one page.
    pub(super) fn region(&mut self, asid: Asid, vpn: Vpn) -> Region {
        let space = self.space(asid);
        if let Some(region) = space.regions.find(vpn) {
            return region.clone();
        }
        let (range, label) = if space.mapped_by_events || space.regions.iter().next().is_some() {
            self.memory.counts.wild_faults += 1;
            (VpnRange::one(vpn), self.labels.intern("not mapped"))
        } else {
            (self.all_pages(), self.labels.intern("whole space"))
        };
        let object = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
        let region =
            Region { range, prot: Prot::RWX, shared: false, object, first_page: range.start.0, label, huge: Huge::Unsaid };
        self.placement.mapped(&self.memory, &region, &self.labels.names[label as usize]);
        self.insert(asid, region.clone());
        region
    }

    /// A fault brings in its own page and nothing else of the region, unless a superpage wants all of it (T94-23).
    fn page_fault(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<(), OutOfMemory> {
        self.memory.counts.page_faults += 1;
        self.memory.counts.pt_probes += 1;
        let region = self.region(asid, vpn);
        if self.superpage_fault(asid, vpn, &region) {
            return Ok(());
        }
        let pfn = self.object_frame(vpn, region.object, region.page_of(vpn))?;
        let private_file = !region.shared && self.memory.objects.get(region.object).kind.is_file();
        let label = region.label;
        let entry = if private_file && kind == Kind::Store && region.prot.write {
            // The first touch of a private file page is a store: it gets its own copy at once.
            let copy = self.copy_frame(vpn, &region)?;
            self.memory.fill_nameless(copy);
            self.memory.counts.cow_copies += 1;
            Entry { pfn: copy, label, attr: attr(region.prot, false), present: true, ..Entry::default() }
        } else {
            Entry { pfn, label, attr: attr(region.prot, private_file), cow: private_file, present: true, ..Entry::default() }
        };
        self.map_page(asid, vpn, entry);
        self.map_large(asid, vpn, &region);
        self.promote_around(asid, vpn, &region);
        self.collapse_later(asid, vpn, &region);
        Ok(())
    }

    /// The busy frame of an object page: the one it has, the one reserved for it (T94-45), or a new one.
    fn object_frame(&mut self, vpn: Vpn, object: ObjectId, page: u64) -> Result<Pfn, OutOfMemory> {
        if let Some((pfn, was_reserved)) = self.memory.claim(object, page) {
            if was_reserved {
                self.memory.counts.reservations_honoured += 1;
                self.count_read(object);
            }
            return Ok(pfn);
        }
        let pfn = loop {
            match self.placement.place(&mut self.memory, FrameRequest { vpn, object, page }) {
                Some(pfn) => break pfn,
                None if self.make_room() => {}
                None => return Err(OutOfMemory { vpn }),
            }
        };
        self.memory.fill(object, page, pfn);
        self.count_read(object);
        Ok(pfn)
    }

    /// The frame for a process's own copy of a page.
    fn copy_frame(&mut self, vpn: Vpn, region: &Region) -> Result<Pfn, OutOfMemory> {
        if !self.memory.objects.get(region.object).kind.is_file() {
            return self.ordinary(vpn);
        }
        let request = FrameRequest { vpn, object: region.object, page: region.page_of(vpn) };
        loop {
            match self.placement.copy(&mut self.memory, request) {
                Some(pfn) => return Ok(pfn),
                None if self.make_room() => {}
                None => return Err(OutOfMemory { vpn }),
            }
        }
    }

    /// A file page was read into its frame.
    pub(super) fn count_read(&mut self, object: ObjectId) {
        if self.memory.objects.get(object).kind.is_file() {
            self.memory.counts.io_bytes += self.memory.page_bytes();
        }
    }

    /// Writes a page table entry and counts it.
    pub(super) fn map_page(&mut self, asid: Asid, vpn: Vpn, entry: Entry) {
        self.memory.map(entry.pfn, 1);
        self.ranges_mapped(asid, VpnRange::one(vpn), entry.pfn, entry.attr);
        let space = &mut self.spaces[asid.0 as usize];
        space.table.insert(vpn, entry);
        for &order in self.promotion.orders() {
            *space.populations.entry((order, vpn.group(order))).or_insert(0) += 1;
        }
        self.segments.pages += u64::from(entry.segment);
        self.mapped += 1;
        self.mapped_peak = self.mapped_peak.max(self.mapped);
    }

    /// As [`Os::map_page`], for pages whose frames follow each other; `entry` is that of the first.
    pub(super) fn map_run(&mut self, asid: Asid, pages: VpnRange, entry: Entry) {
        self.memory.map(entry.pfn, pages.pages);
        self.ranges_mapped(asid, pages, entry.pfn, entry.attr);
        let space = &mut self.spaces[asid.0 as usize];
        space.table.insert_run(pages, entry);
        for &order in self.promotion.orders() {
            for (group, _, n) in bits::groups(pages.start.0, pages.pages, 1 << order) {
                *space.populations.entry((order, group)).or_insert(0) += n as u32;
            }
        }
        self.segments.pages += if entry.segment { pages.pages } else { 0 };
        self.mapped += pages.pages;
        self.mapped_peak = self.mapped_peak.max(self.mapped);
    }

    /// Clears the page table entries of a range and frees the frames of which these were the last; says which pages were mapped. The
    /// caller reports the change and has demoted.
    pub(super) fn unmap_range(&mut self, asid: Asid, range: VpnRange) -> Vec<VpnRange> {
        self.ranges_unmapped(asid, range);
        let space = &mut self.spaces[asid.0 as usize];
        let runs = space.table.runs_in(range);
        space.table.clear(range);
        let mut pages: Vec<VpnRange> = Vec::new();
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
                Some(last) if last.end() == run.first => last.pages += run.pages,
                _ => pages.push(VpnRange { start: run.first, pages: run.pages }),
            }
        }
        pages
    }

    /// Clears a page table entry and frees the frame if it was the last; the caller reports the change and has demoted.
    pub(super) fn unmap_page(&mut self, asid: Asid, vpn: Vpn) {
        self.unmap_range(asid, VpnRange::one(vpn));
    }

    /// Takes an entry out of the table; its frame keeps the mapping.
    pub(super) fn remove_entry(&mut self, asid: Asid, vpn: Vpn) -> Option<Entry> {
        self.ranges_unmapped(asid, VpnRange::one(vpn));
        let space = &mut self.spaces[asid.0 as usize];
        let entry = space.table.remove(vpn)?;
        for &order in self.promotion.orders() {
            forget_population(&mut space.populations, (order, vpn.group(order)), 1);
        }
        self.segments.pages -= u64::from(entry.segment);
        self.mapped -= 1;
        Some(entry)
    }

    /// A store to a copy-on-write page (T94-57): alone with the frame the process keeps it, otherwise it gets a copy in an ordinary
    /// frame. Either way the old translation is void, and so is a superpage around it, unless it is the process's alone and the policy
    /// takes it over whole. Of a range all pages may be copied (F-3).
    fn copy_on_write(&mut self, asid: Asid, vpn: Vpn) -> Result<(), OutOfMemory> {
        self.memory.counts.protection_faults += 1;
        let region = self.region(asid, vpn);
        let pages = self.pages_to_copy(asid, vpn).and(region.range);
        if pages.pages == 1 && self.own_superpage(asid, vpn, &region) {
            return Ok(());
        }
        let mut shared = pages.iter().any(|page| self.is_shared(asid, page, &region));
        let together = if shared && pages.pages > 1 { self.memory.together(pages.pages) } else { None };
        if pages.pages > 1 && shared == together.is_some() {
            let mut frames = together.into_iter().flatten().flat_map(|(base, n)| (base.0..base.0 + n).map(Pfn));
            for page in pages.iter() {
                self.own_page(asid, page, &region, frames.next());
            }
        } else {
            shared = self.is_shared(asid, vpn, &region);
            let to = if shared { Some(self.copy_frame(vpn, &region)?) } else { None };
            self.own_page(asid, vpn, &region, to);
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

    /// A copy-on-write superpage of which nobody else has a frame any more becomes the process's own as a whole, if the policy is one
    /// of Linux (`do_huge_pmd_wp_page`). Whether it did.
    fn own_superpage(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let table = &mut self.spaces[asid.0 as usize].table;
        let order = table.get(vpn).expect("only mapped pages are copied").order;
        let group = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
        let alone = |page: Vpn| table.get(page).is_some_and(|e| e.cow && self.memory.mappings(e.pfn) == 1);
        if order == 0 || !self.placement.reuses() || !group.iter().all(alone) {
            return false;
        }
        for page in group.iter() {
            let owned = table.update(page, |entry| (entry.cow, entry.attr) = (false, attr(region.prot, false)));
            owned.expect("all of a superpage is mapped");
        }
        table.pack(group);
        self.ranges_changed(asid, &group.iter().collect::<Vec<_>>());
        self.change(asid, group, What::Stale);
        true
    }

    /// A copy-on-write page becomes the process's own: a copy in the frame given, or as it is.
    pub(super) fn own_page(&mut self, asid: Asid, vpn: Vpn, region: &Region, to: Option<Pfn>) {
        self.demote(asid, vpn);
        let old = self.spaces[asid.0 as usize].table.get(vpn).expect("only mapped pages are copied");
        if let Some(pfn) = to {
            self.memory.counts.cow_copies += 1;
            self.memory.fill_nameless(pfn);
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
            entry.attr = attr(region.prot, false);
        });
        owned.expect("still mapped");
        self.ranges_changed(asid, &[vpn]);
        self.change(asid, VpnRange::one(vpn), What::Stale);
    }
}
