//! Following the program: every event that changes an address space.

use super::base_pages::{self, Piece, Step};
use super::direct_map;
use super::fault::attr;
use super::object::{File, ObjectId, ObjectKind};
use super::region::{Huge, Region};
use super::{Os, Space, What, huge_rounding};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::event::{Backing, Op, Prot};
use std::collections::HashMap;
use std::sync::Arc;

impl Os {
    /// One event of the program. What changed for the hardware is in [`Os::take_changes`].
    pub fn apply(&mut self, asid: Asid, op: &Op) {
        match op {
            Op::Start { program, .. } => {
                debug_assert!(!self.space(asid).ended, "address spaces are numbered once");
                self.space(asid).program = Some(Arc::clone(program));
            }
            Op::Fork { child } => self.fork(asid, *child),
            Op::End(_) => self.end(asid),
            op if self.shift == BASE_SHIFT => base_pages::in_4k_pages(op).into_iter().for_each(|step| self.step(asid, step)),
            op => {
                let k = self.shift - BASE_SHIFT;
                self.space(asid).parts.to_base_pages(op, k).into_iter().for_each(|step| self.step(asid, step));
            }
        }
        self.memory.release_freed();
        self.tick();
        for asid in std::iter::once(asid).chain(match op {
            Op::Fork { child } => Some(*child),
            _ => None,
        }) {
            self.count_virtual(asid);
            self.shape_segment(asid);
            self.follow_direct_map(asid);
            self.sync_ranges(asid);
        }
    }

    /// An event in pages of this system.
    fn step(&mut self, asid: Asid, step: Step) {
        match step {
            Step::Map(piece) => self.map(asid, &piece),
            Step::Unmap(range) => {
                for range in self.keep_rest(asid, range) {
                    self.unmap(asid, range);
                }
            }
            Step::Remap(old, new) => self.remap(asid, old, new),
            Step::Protect(range, prot) => self.protect(asid, range, prot),
            Step::Discard(range) => self.discard(asid, range),
            Step::Huge(range, huge) => {
                for region in self.take(asid, range) {
                    let huge = if region.huge == Huge::Rest { Huge::Rest } else { huge };
                    self.put(asid, Region { huge, ..region });
                }
            }
        }
    }

    /// Keeps the sum over all address spaces, of which an event changes one or two.
    fn count_virtual(&mut self, asid: Asid) {
        let space = self.space(asid);
        let now = if space.mapped_by_events { space.regions.pages() } else { 0 };
        let before = std::mem::replace(&mut space.counted, now);
        self.virtual_pages = self.virtual_pages - before + now;
        self.virtual_peak = self.virtual_peak.max(self.virtual_pages);
    }

    fn map(&mut self, asid: Asid, mapping: &Piece) {
        let range = mapping.range;
        // A file that is mapped over its last mapping stays the same object.
        let file = match &mapping.backing {
            Backing::File { path, offset } => self.memory.objects.file(&self.file_page(path, *offset).0),
            _ => None,
        };
        if let Some(file) = file {
            self.memory.objects.get_mut(file).mappers += 1;
        }
        let adopted = self.adopt(asid, mapping);
        for gap in huge_rounding::between(range, &adopted) {
            self.unmap(asid, gap);
        }
        self.space(asid).mapped_by_events = true;
        let (object, first_page) = self.object_for(asid, mapping);
        let label = self.name(mapping);
        let region =
            Region { range, prot: mapping.prot, shared: mapping.shared, object, first_page, label, huge: Huge::Unsaid };
        self.placement.mapped(&self.memory, &region, &self.labels.names[label as usize]);
        self.adopted(asid, &adopted, &region);
        self.insert(asid, region);
        if let Some(file) = file {
            self.memory.drop_mapper(file);
        }
        if matches!(mapping.backing, Backing::Anonymous | Backing::Heap) {
            self.request(asid, range);
        }
    }

    /// Adds a region that is a new mapper of its object.
    pub(super) fn insert(&mut self, asid: Asid, region: Region) {
        self.memory.objects.get_mut(region.object).mappers += 1;
        self.put(asid, region);
    }

    /// Takes the regions of a range out of the space. Each piece counts as a mapper of its object until it is put back
    /// ([`Os::put`]) or given up ([`Memory::drop_mapper`](super::memory::Memory::drop_mapper)).
    pub(super) fn take(&mut self, asid: Asid, range: VpnRange) -> Vec<Region> {
        let pieces = self.space(asid).regions.take(range);
        for (piece, rest) in &pieces {
            let object = self.memory.objects.get_mut(piece.object);
            object.mappers += rest;
            object.cover(piece.first_page, piece.range.pages, -1);
        }
        pieces.into_iter().map(|(piece, _)| piece).collect()
    }

    /// Puts a region in that counts as a mapper already.
    fn put(&mut self, asid: Asid, region: Region) {
        let (id, first, pages) = (region.object, region.first_page, region.range.pages);
        let joined = self.space(asid).regions.insert(region);
        let object = self.memory.objects.get_mut(id);
        object.mappers -= joined;
        object.cover(first, pages, 1);
    }

    /// The object behind a new mapping and the page of it at the mapping's start. Anonymous objects number their pages like
    /// the addresses of their first mapping.
    fn object_for(&mut self, asid: Asid, mapping: &Piece) -> (ObjectId, u64) {
        let range = mapping.range;
        let fresh = |os: &mut Os| os.memory.objects.create(ObjectKind::Anonymous, None, !mapping.shared, 0);
        // A heap or stack goes on as the same object, unless these pages of it were moved elsewhere.
        let unmapped = |os: &Os, id: ObjectId| !os.memory.objects.get(id).contains_any(range.start.0, range.pages);
        match &mapping.backing {
            Backing::File { path, offset } => {
                let (file, page) = self.file_page(path, *offset);
                let object = self.memory.objects.file(&file).unwrap_or_else(|| {
                    let kind = self.kind_of_file(path);
                    let shift = range.start.0.wrapping_sub(page);
                    self.memory.objects.create(kind, Some(file), false, shift)
                });
                (object, page)
            }
            Backing::Heap => {
                let heap = self.labels.intern("heap");
                let known = self.space(asid).regions.iter().find(|r| r.label == heap).map(|r| r.object);
                (known.filter(|&id| unmapped(self, id)).unwrap_or_else(|| fresh(self)), range.start.0)
            }
            Backing::Stack => {
                // A stack that grows maps the pages below its lowest region: the same object.
                let stack = self.labels.intern("stack");
                let next = self.space(asid).regions.find(range.end());
                let above = next.filter(|r| r.range.start == range.end() && r.label == stack).map(|r| r.object);
                (above.filter(|&id| unmapped(self, id)).unwrap_or_else(|| fresh(self)), range.start.0)
            }
            Backing::Anonymous if !mapping.shared && self.placement.joins() => {
                let anonymous = self.labels.intern("anonymous");
                let regions = &self.space(asid).regions;
                let beside = [Vpn(range.start.0.wrapping_sub(1)), range.end()].map(|vpn| regions.find(vpn).cloned());
                let like = |r: &Region| r.label == anonymous && r.first_page == r.range.start.0;
                let known = beside.into_iter().flatten().filter(like).map(|r| r.object).find(|&id| unmapped(self, id));
                (known.unwrap_or_else(|| fresh(self)), range.start.0)
            }
            Backing::Anonymous | Backing::Kernel => (fresh(self), range.start.0),
        }
    }

    /// The object of a file and the page of it at a byte. Only files that lie alike in pages share frames; what lies before the first
    /// whole page is page 0.
    fn file_page(&self, path: &Arc<str>, offset: u64) -> (File, u64) {
        let page = self.memory.page_bytes();
        let skew = (offset & (page - 1)) >> BASE_SHIFT;
        (File { path: Arc::clone(path), skew }, offset.wrapping_add(page - (1 << BASE_SHIFT)) >> self.shift)
    }

    fn name(&mut self, mapping: &Piece) -> u32 {
        match &mapping.backing {
            Backing::File { path, .. } => {
                let base = path.rsplit('/').next().unwrap_or(path);
                let part = if mapping.prot.exec { "code" } else { "data" };
                self.labels.intern(&format!("{base} {part}"))
            }
            Backing::Heap => self.labels.intern("heap"),
            Backing::Stack => self.labels.intern("stack"),
            Backing::Kernel if self.is_direct_map(mapping) => self.labels.intern(direct_map::NAME),
            Backing::Kernel => self.labels.intern("kernel-provided"),
            Backing::Anonymous if mapping.shared => self.labels.intern("shared memory"),
            Backing::Anonymous => self.labels.intern("anonymous"),
        }
    }

    /// Splits the superpages that stick out of a range at either end.
    fn demote_edges(&mut self, asid: Asid, range: VpnRange) {
        self.demote_edges_of(asid, range, range);
    }

    /// Splits the superpages around the ends of `part` that stick out of `range`, which contains it.
    fn demote_edges_of(&mut self, asid: Asid, part: VpnRange, range: VpnRange) {
        let sticks_out = |os: &mut Os, vpn: Vpn| {
            let order = os.space(asid).table.get(vpn).map_or(0, |e| u32::from(e.order));
            let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
            group.start < range.start || group.end() > range.end()
        };
        if part.pages > 0 {
            for edge in [part.start, Vpn(part.end().0 - 1)] {
                if sticks_out(self, edge) {
                    self.demote(asid, edge);
                }
            }
        }
    }

    /// Takes the translations of a range away and frees what only they used.
    fn clear(&mut self, asid: Asid, range: VpnRange) {
        self.demote_edges(asid, range);
        for pages in self.unmap_range(asid, range) {
            self.change(asid, pages, What::Stale);
        }
    }

    fn unmap(&mut self, asid: Asid, range: VpnRange) {
        self.clear(asid, range);
        for region in self.take(asid, range) {
            self.forget_private(&region, false);
            self.memory.drop_mapper(region.object);
        }
    }

    /// Pages of private memory die with their mapping (T94-60).
    fn forget_private(&mut self, region: &Region, keep_reserved: bool) {
        if self.memory.objects.get(region.object).private {
            let end = region.first_page + region.range.pages;
            self.memory.forget(region.object, region.first_page, end, keep_reserved);
        }
    }

    /// madvise(DONTNEED): private memory is dropped, of other memory the translations only. Reservations stand.
    fn discard(&mut self, asid: Asid, range: VpnRange) {
        self.clear(asid, range);
        let inside: Vec<Region> = self.space(asid).regions.iter().filter(|r| r.range.overlaps(&range)).cloned().collect();
        for region in inside {
            let start = region.range.start.max(range.start);
            let part = VpnRange::between(start, region.range.end().min(range.end()));
            self.forget_private(&Region { range: part, first_page: region.page_of(start), ..region }, true);
        }
    }

    fn protect(&mut self, asid: Asid, range: VpnRange, prot: Prot) {
        let pieces = self.take(asid, range);
        for region in pieces.iter().filter(|r| r.prot != prot) {
            self.demote_edges_of(asid, region.range, range);
        }
        for region in pieces {
            self.put(asid, Region { prot, ..region.clone() });
            if region.prot != prot {
                self.reattribute(asid, region.range, prot);
            }
        }
    }

    /// New attributes for the mapped pages of a range.
    fn reattribute(&mut self, asid: Asid, range: VpnRange, prot: Prot) {
        let (mut changed, mut writable) = (Vec::new(), Vec::new());
        for vpn in self.space(asid).table.mapped_in(range) {
            let other = self.space(asid).table.update(vpn, |entry| {
                let new = attr(prot, entry.cow);
                let other = entry.attr != new;
                if other {
                    entry.attr = new;
                    entry.forbidden = false;
                }
                other
            });
            if other.expect("just listed") {
                changed.push(vpn);
            } else if prot.write {
                writable.push(vpn);
            }
        }
        self.ranges_changed(asid, &changed);
        self.stale(asid, &changed);
        self.report(asid, &writable, What::Writable);
    }

    /// Reports ascending pages as stale.
    fn stale(&mut self, asid: Asid, pages: &[Vpn]) {
        self.report(asid, pages, What::Stale);
    }

    /// Reports ascending pages, in runs.
    fn report(&mut self, asid: Asid, pages: &[Vpn], what: What) {
        for run in pages.chunk_by(|a, b| a.0 + 1 == b.0) {
            self.change(asid, VpnRange { start: run[0], pages: run.len() as u64 }, what);
        }
    }

    /// mremap: the frames move with their pages; superpages are split, because their virtual alignment changes.
    fn remap(&mut self, asid: Asid, old: VpnRange, new: VpnRange) {
        // What grows is the region in which the old range ends. There may be none, if the trace never said what was there.
        self.leave_segment(asid, old);
        if old.start != new.start {
            self.leave_segment(asid, new);
        }
        let last = Vpn(old.start.0 + old.pages.saturating_sub(1));
        let source = self.space(asid).regions.find(last).cloned();
        let keep = VpnRange { start: old.start, pages: old.pages.min(new.pages) };
        // While the old place is being emptied the object must not vanish.
        if let Some(source) = &source {
            self.memory.objects.get_mut(source.object).mappers += 1;
        }
        self.unmap(asid, VpnRange::between(keep.end(), old.end()));
        if old.start == new.start {
            self.unmap(asid, VpnRange::between(keep.end(), new.end()));
        } else {
            self.unmap(asid, new);
            self.relocate(asid, keep, new.start);
        }
        let Some(source) = source else { return };
        if new.pages > keep.pages {
            // What was asked for beyond the old length; all of it, for a mapping duplicated with old length 0.
            let range = VpnRange::between(Vpn(new.start.0 + keep.pages), new.end());
            let (mut object, mut first_page) = (source.object, source.page_of(last) + old.pages.min(1));
            let known = self.memory.objects.get(object);
            if known.private && known.contains_any(first_page, range.pages) {
                // The next pages of private memory are mapped elsewhere: what is new is memory of its own.
                object = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
                first_page = range.start.0;
            }
            self.insert(asid, Region { range, object, first_page, ..source.clone() });
            if ![self.labels.intern("stack"), self.labels.intern("kernel-provided")].contains(&source.label) {
                self.request(asid, range);
            }
        }
        self.memory.drop_mapper(source.object);
    }

    /// Moves regions and translations to another place, which is empty.
    fn relocate(&mut self, asid: Asid, from: VpnRange, start: Vpn) {
        let to = |vpn: Vpn| Vpn(vpn.0 - from.start.0 + start.0);
        let moved = self.space(asid).table.mapped_in(from);
        for &vpn in &moved {
            self.demote(asid, vpn);
        }
        self.stale(asid, &moved);
        self.ranges_unmapped(asid, from);
        for piece in self.take(asid, from) {
            let range = VpnRange { start: to(piece.range.start), pages: piece.range.pages };
            self.put(asid, Region { range, ..piece });
        }
        for vpn in moved {
            let entry = self.remove_entry(asid, vpn).expect("just listed");
            self.memory.unmap_soft(entry.pfn);
            self.map_page(asid, to(vpn), entry);
        }
    }

    /// The child gets the same regions; private pages are shared until one side stores to them (T94-57).
    fn fork(&mut self, asid: Asid, child: Asid) {
        self.memory.counts.forks += 1;
        self.segment_before_fork(asid, child);
        self.space(child);
        let parent = self.space(asid);
        let regions: Vec<Region> = parent.regions.iter().cloned().collect();
        let (mapped_by_events, parts, program) = (parent.mapped_by_events, parent.parts.clone(), parent.program.clone());
        let mut copies: HashMap<ObjectId, ObjectId> = HashMap::new();
        for region in &regions {
            if self.memory.objects.get(region.object).private && !copies.contains_key(&region.object) {
                copies.insert(region.object, self.memory.objects.copy_for_fork(region.object));
            }
        }
        let copy = |object: ObjectId| copies.get(&object).copied().unwrap_or(object);
        *self.space(child) = Space { mapped_by_events, parts, program, paged_for: vec![child], ..Space::default() };
        for region in &regions {
            self.insert(child, Region { object: copy(region.object), ..region.clone() });
        }
        let all = self.all_pages();
        let mut protected = Vec::new();
        for vpn in self.space(asid).table.mapped_in(all) {
            let region = self.region(asid, vpn);
            if self.copy_from_segment(asid, vpn, child, &region).is_some() {
                continue;
            }
            let entry = self.space(asid).table.update(vpn, |entry| {
                if !region.shared {
                    entry.cow = true;
                    let new = attr(region.prot, true);
                    if entry.attr != new {
                        entry.attr = new;
                        protected.push(vpn);
                    }
                }
                *entry
            });
            let entry = entry.expect("just listed");
            if self.memory.objects.get(region.object).private {
                self.memory.rename(copy(region.object), region.page_of(vpn), entry.pfn);
            }
            let inherited = super::page_table::Entry { touched: false, populated: false, forbidden: false, ..entry };
            self.map_page(child, vpn, inherited);
        }
        self.ranges_changed(asid, &protected);
        self.stale(asid, &protected);
    }

    fn end(&mut self, asid: Asid) {
        let all = self.all_pages();
        self.space(asid);
        self.ranges_end(asid);
        self.segment_end(asid);
        self.placement.give_up(&mut self.memory, Some(asid));
        self.spaces[asid.0 as usize].ranges = None;
        self.unmap_range(asid, all);
        for region in self.take(asid, all) {
            self.forget_private(&region, false);
            self.memory.drop_mapper(region.object);
        }
        let counted = self.space(asid).counted;
        *self.space(asid) = Space { mapped_by_events: true, ended: true, counted, ..Space::default() };
        self.change(asid, all, What::Gone);
    }
}
