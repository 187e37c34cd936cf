//! Superpages that are mapped at a fault, and base pages that are collapsed into superpages later, as in Linux
//! (RMM15-26): transparent huge pages of several sizes, and huge pages from a pool. [`Os::demote`](super::promotion)
//! splits them.

use crate::accessed::ScannedLeaf;
use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::{CollapsePolicy, Effort, FrameRequest};
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::ThpRule;

impl Os {
    /// Serves a fault with the largest superpage that fits (LNX-2, LNX-3, SOL-1). Its aligned group lies inside a
    /// region, no page of it is mapped or has contents, and there is a free block for it. Shared memory that has its
    /// superpage since a fault of another mapper gets that one.
    pub(super) fn superpage_fault(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let request = self.request_for(asid, vpn, region);
        let advice = self.huge_advice(asid, region);
        let orders = self.placement.superpage_orders(&self.memory, region, request, advice).to_vec();
        self.memory.alloc.prefer_zeroed(true);
        for order in orders {
            let group = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
            if self.shared_superpage(asid, vpn, region, group, order) {
                return true;
            }
            let fits = if inside(group, region.range) {
                let first = region.page_of(group.start);
                !self.memory.objects.get(region.object).page_index.any_in(first..first + group.pages)
            } else {
                self.may_round_up(asid, group, region)
            };
            if !fits || self.spaces[asid.0 as usize].table.any_in(group) {
                continue;
            }
            let first = region.page_of(region.range.start.max(group.start));
            let page = first.wrapping_sub(region.range.start.max(group.start).0 - group.start.0);
            let effort = self.placement.effort(advice, order);
            let Some(base) = self.superpage_block(FrameRequest { vpn: group.start, page, ..request }, order, effort)
            else {
                if self.perforated_fault(asid, vpn, region, group) {
                    return true;
                }
                self.memory.counts.superpage_fallbacks += 1;
                continue;
            };
            let object = self.memory.objects.get_mut(region.object);
            if !object.private {
                object.superpages.insert(page, order);
            }
            self.map_superpage(asid, vpn, group, region, base);
            return true;
        }
        false
    }

    /// Fills and maps a group without pages as one superpage, for a fault on `vpn`. `base`: its block.
    pub(crate) fn map_superpage(&mut self, asid: Asid, vpn: Vpn, group: VpnRange, region: &Region, base: Pfn) {
        let (order, cow) = (group.pages.trailing_zeros() as u8, self.is_private_file(region));
        let attr = attributes(region.prot, cow);
        let entry = Entry { label: region.label, attr, cow, order, present: true, ..Entry::default() };
        for part in self.fill_group(asid, group, region) {
            let pfn = Pfn(base.0 + (part.range.start.0 - group.start.0));
            self.memory.fill_run(part.object, part.first_page, pfn, part.range.pages);
            self.count_read(part.object, part.range.pages);
            self.map_run(asid, part.range, Entry { pfn, label: part.label, populated: true, ..entry });
        }
        self.superpage_came(asid, vpn, group);
    }

    /// What was advised of a region, as far as its process lets it count: prctl(2), PR_SET_THP_DISABLE. Rest of a huge
    /// page of a pool is no matter of THP.
    pub(crate) fn huge_advice(&self, asid: Asid, region: &Region) -> HugeAdvice {
        match (self.spaces[asid.0 as usize].thp, region.advice) {
            (ThpRule::Never, HugeAdvice::Huge | HugeAdvice::None) | (ThpRule::Advised, HugeAdvice::None) => {
                HugeAdvice::NoHuge
            }
            (_, advice) => advice,
        }
    }

    /// Whether a store to its pages copies them.
    fn is_private_file(&self, region: &Region) -> bool {
        !region.shared && self.memory.objects.get(region.object).kind.is_file()
    }

    /// Maps the superpage that shared memory has there already, if no page of its group is mapped in this space.
    fn shared_superpage(&mut self, asid: Asid, vpn: Vpn, region: &Region, group: VpnRange, order: u8) -> bool {
        if !inside(group, region.range) || self.spaces[asid.0 as usize].table.any_in(group) {
            return false;
        }
        let first = region.page_of(group.start);
        if self.memory.objects.get(region.object).superpages.get(&first) != Some(&order) {
            return false;
        }
        let Some(base) = self.memory.frame_of(region.object, first) else { return false };
        // Compaction may have moved some of its pages.
        let follows = |at: u64| self.memory.frame_of(region.object, first + at) == Some(Pfn(base.0 + at));
        if !base.0.is_multiple_of(group.pages) || !(1..group.pages).all(follows) {
            return false;
        }
        let (label, cow) = (region.label, self.is_private_file(region));
        let attr = attributes(region.prot, cow);
        let entry = Entry { pfn: base, label, attr, cow, order, present: true, populated: true, ..Entry::default() };
        self.map_run(asid, group, entry);
        self.superpage_came(asid, vpn, group);
        true
    }

    /// A fault on `vpn` mapped a superpage.
    pub(crate) fn superpage_came(&mut self, asid: Asid, vpn: Vpn, group: VpnRange) {
        self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.populated = false);
        self.memory.counts.superpage_faults += 1;
        self.memory.counts.populated_pages += group.pages - 1;
        self.memory.counts.populated_in_superpages += group.pages - 1;
    }

    /// A block for a superpage. If there is none, memory may be compacted.
    pub(crate) fn superpage_block(&mut self, request: FrameRequest, order: u8, effort: Effort) -> Option<Pfn> {
        self.make_way(request, order);
        let mut block = self.placement.superpage_block(&mut self.memory, request, order);
        if block.is_none() {
            let again = match effort {
                Effort::Configured => self.compact(order.into()),
                Effort::Direct => self.compact_now(order.into()),
                Effort::Wake => {
                    self.compaction.woken = Some(order.into());
                    false
                }
                Effort::Fail => false,
            };
            block = again.then(|| self.placement.superpage_block(&mut self.memory, request, order)).flatten();
        }
        if let Some(base) = block {
            self.memory.folios.add(base.0, order.into());
        }
        block
    }

    /// Whether base pages of a region may be collapsed into superpages of this size.
    pub(crate) fn may_collapse(&self, asid: Asid, region: &Region, order: u8) -> bool {
        let object = self.memory.objects.get(region.object);
        let request = self.request_for(asid, region.range.start, region);
        object.private
            && !object.kind.is_file()
            && self.placement.collapses_into(&self.memory, region, request, self.huge_advice(asid, region), order)
    }

    /// After a fault that brought in a base page: queues its group, and scans some groups of the queue if a scan is
    /// due.
    pub(super) fn collapse_later(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let Some(background) = self.placement.collapse_policy() else { return };
        let group = VpnRange { start: vpn.align_down(background.order.into()), pages: 1 << background.order };
        let request = self.request_for(asid, vpn, region);
        let wanted = self.memory.objects.get(region.object).private
            && self
                .placement
                .superpage_orders(&self.memory, region, request, self.huge_advice(asid, region))
                .contains(&background.order);
        if wanted && inside(group, region.range) {
            self.collapse_queue.push(asid, group.start);
        }
        if !self.collapse_queue.scan_due(background.every) {
            return;
        }
        for _ in 0..background.groups.min(self.collapse_queue.len()) {
            let (asid, first) = self.collapse_queue.pop().expect("as many as there are");
            if self.collapse(asid, first, &background) {
                self.collapse_queue.remove(asid, first);
            } else {
                self.collapse_queue.push_back(asid, first);
            }
            self.sync_ranges(asid);
        }
        self.memory.release_freed();
    }

    /// Copies the pages of a group into a block and maps it as one superpage. True if that is done or has become
    /// impossible.
    fn collapse(&mut self, asid: Asid, first: Vpn, background: &CollapsePolicy) -> bool {
        let order = background.order;
        let group = VpnRange { start: first, pages: 1 << order };
        let space = &self.spaces[asid.0 as usize];
        let Some(region) = space.regions.find(first).filter(|r| inside(group, r.range)).cloned() else { return true };
        let pages = space.table.mapped_in(group);
        let entries: Vec<Entry> = pages.iter().filter_map(|&v| space.table.get(v)).collect();
        let object = self.memory.objects.get(region.object);
        if pages.is_empty() || entries[0].order >= order || !object.private || object.kind.is_file() {
            return true;
        }
        let alone = |e: &Entry| !e.cow && self.memory.mappings(e.pfn) == 1;
        if group.pages - pages.len() as u64 > background.missing || !entries.iter().all(alone) {
            return false;
        }
        self.collapse_group(asid, group, &region, Effort::Configured)
    }

    /// Copies the pages of a group of private memory into a block, fills the rest with zeros, and maps it as one
    /// superpage (LNX-13). Pages that others share are copied, and stay theirs. False, and nothing is changed, if there
    /// is no block.
    pub(crate) fn collapse_group(&mut self, asid: Asid, group: VpnRange, region: &Region, effort: Effort) -> bool {
        let (first, order) = (group.start, group.pages.trailing_zeros() as u8);
        let request = self.request_for(asid, first, region);
        // HWE-6: most of it is copied.
        self.memory.alloc.prefer_zeroed(false);
        let Some(base) = self.superpage_block(request, order, effort) else { return false };
        let table = &self.spaces[asid.0 as usize].table;
        let mut pages = table.mapped_in(group);
        let zeros: Vec<Vpn> = pages.extract_if(.., |&mut vpn| self.is_zeros(asid, vpn)).collect();
        let dirty = pages.iter().any(|&vpn| table.get(vpn).is_some_and(|e| e.dirty));
        if self.placement.copies_parts() {
            self.keep_census(asid);
            self.spaces[asid.0 as usize].table.set_order(group, 0);
        } else if self.placement.split_into(order.into()) > 0 {
            let leaves = self.scan_leaves(asid, group).into_iter().filter(|leaf| leaf.order > 0).collect();
            self.make_base_pages(asid, leaves);
        }
        for &vpn in &pages {
            self.demote(asid, vpn);
        }
        zeros.iter().for_each(|vpn| self.unmap_page(asid, *vpn));
        self.stale(asid, &zeros);
        let home = self.home_of_group(asid, group);
        let (label, attr) = (region.label, attributes(region.prot, false));
        for vpn in group.iter() {
            let to = Pfn(base.0 + (vpn.0 - first.0));
            match self.spaces[asid.0 as usize].table.get(vpn) {
                Some(entry) if self.memory.mappings(entry.pfn) > 1 => {
                    self.take_page(asid, vpn, region, Some(to));
                    self.memory.counts.gathered_pages += 1;
                }
                Some(entry) => {
                    self.move_page(asid, vpn, to);
                    if entry.cow {
                        self.take_page(asid, vpn, region, None);
                    }
                }
                None => {
                    self.memory.fill(region.object, region.page_of(vpn), to);
                    let entry = Entry { pfn: to, label, attr, present: true, populated: true, ..Entry::default() };
                    self.map_page(asid, vpn, entry);
                }
            }
        }
        self.spaces[asid.0 as usize].table.set_order(group, order);
        self.spaces[asid.0 as usize].table.pack(group);
        self.memory.set_home(base, group.pages, home);
        self.join_accessed(asid, group);
        if dirty {
            self.mark_dirty(asid, first, order);
        }
        let missing = group.pages - pages.len() as u64;
        self.memory.counts.collapses += 1;
        self.memory.counts.populated_pages += missing;
        self.memory.counts.populated_in_superpages += missing;
        self.change(asid, group, What::Promoted);
        true
    }

    /// Splits superpages into base pages, each in one step.
    pub(crate) fn make_base_pages(&mut self, asid: Asid, leaves: Vec<ScannedLeaf>) {
        self.keep_census(asid);
        for pages in leaves.iter().map(ScannedLeaf::pages) {
            self.spaces[asid.0 as usize].table.set_order(pages, 0);
            self.memory.counts.demotions += 1;
            self.change(asid, pages, What::Demoted);
        }
    }

    /// Moves a mapped page that is not shared to another frame (DS13-20, F-14).
    pub(super) fn move_page(&mut self, asid: Asid, vpn: Vpn, to: Pfn) {
        self.change_frame(asid, vpn, to);
        self.ranges_changed(asid, &[vpn]);
        self.change(asid, VpnRange::one(vpn), What::Stale);
    }

    /// As [`Os::move_page`], without reporting it to ranges and hardware.
    pub(super) fn change_frame(&mut self, asid: Asid, vpn: Vpn, to: Pfn) {
        let from = self.spaces[asid.0 as usize].table.get(vpn).expect("only mapped pages are moved").pfn;
        self.reframe(asid, vpn, from, to);
        self.memory.move_frame(from, to);
        self.memory.counts.gathered_pages += 1;
    }
}

pub(crate) fn inside(group: VpnRange, range: VpnRange) -> bool {
    group.and(range) == group
}
