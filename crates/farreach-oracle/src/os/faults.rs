//! References: faults, reservation, copies, promotion.

use super::*;

impl PlainOs {
    /// A reference to one page, with the faults it causes.
    pub fn touch(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Vec<Change> {
        let v = vpn.0;
        let mut changes = Vec::new();
        if self.space(asid).region(v).is_none() {
            let object = self.new_object(Class::Memory);
            let all = 1 << (52 - self.config.k);
            let space = self.space(asid);
            let nothing_said = !space.mapped_by_events && space.regions.is_empty();
            let (start, end) = if nothing_said { (0, all) } else { (v, v + 1) };
            let first = start as i64;
            let region =
                Region { start, end, prot: Prot::RWX, shared: false, heap: false, stack: false, object, first };
            space.regions.push(region);
            self.counts.wild_faults += u64::from(!nothing_said);
        }
        let region = self.space(asid).region(v).expect("just seen").clone();
        let allowed = match kind {
            Kind::Fetch => region.prot.exec,
            Kind::Load => region.prot.read,
            Kind::Store => region.prot.write,
        };
        let writes = kind == Kind::Store && allowed;
        match self.space(asid).table.get(&v).copied() {
            None => self.page_fault(asid, v, &region, writes),
            Some(e) if writes && e.cow => changes.extend(self.protection_fault(asid, v, &region)),
            Some(_) => {}
        }
        self.space(asid).unreferenced.remove(&v);
        let e = self.space(asid).table.get_mut(&v).expect("mapped");
        if !allowed && !e.forbidden {
            e.forbidden = true;
            self.counts.forbidden_accesses += 1;
        }
        if kind == Kind::Store {
            let e = self.space(asid).table[&v];
            let first = v >> e.order << e.order;
            self.make_dirty(asid, first, 1 << e.order);
        }
        changes
    }

    pub(super) fn make_dirty(&mut self, asid: Asid, first: u64, pages: u64) {
        for w in first..first + pages {
            let e = self.space(asid).table.get_mut(&w).expect("mapped");
            if !e.dirty {
                e.dirty = true;
                self.counts.dirty_pages += 1;
            }
        }
    }

    pub(super) fn page_fault(&mut self, asid: Asid, v: u64, region: &Region, writes: bool) {
        self.counts.page_faults += 1;
        let before = self.counts.zeroed_pages + self.counts.cow_copies;
        let private_file = self.classes[&region.object].is_file() && !region.shared;
        let mut frame = self.frame_of(v, region);
        if private_file && writes {
            frame = self.ordinary_frame();
            self.counts.cow_copies += 1;
        }
        let cow = private_file && !writes;
        let entry = Entry { frame, attr: attr_of(region.prot, cow), order: 0, cow, dirty: false, forbidden: false };
        self.space(asid).table.insert(v, entry);
        if self.large.contains(&(region.object, self.group(v, region))) {
            self.promotion(asid, v, self.config.region);
        }
        for n in self.config.promote.clone() {
            self.try_promotion(asid, v, n);
        }
        let worked = self.counts.zeroed_pages + self.counts.cow_copies - before;
        self.counts.largest_fault_pages = self.counts.largest_fault_pages.max(worked);
        self.check();
    }

    /// The frame of the object page behind `v`, busy and loaded (T94-43 to T94-50).
    pub(super) fn frame_of(&mut self, v: u64, region: &Region) -> u64 {
        let page = (region.object, region.page(v as i64));
        if let Some(&frame) = self.index.get(&page) {
            if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
                self.reserved.remove(at);
                self.busy.insert(frame);
                self.counts.reservations_honoured += 1;
                self.load(page);
            }
            return frame;
        }
        if self.config.reservation
            && let Some(frame) = self.reserve(v, region)
        {
            return frame;
        }
        if self.config.two_size.is_some()
            && let Some(frame) = self.large_page(v, region)
        {
            return frame;
        }
        let frame = self.ordinary_frame();
        self.own(page, frame);
        self.load(page);
        frame
    }

    /// First object page of the group of `region` pages in which the page behind `v` lies.
    pub(super) fn group(&self, v: u64, region: &Region) -> i64 {
        let asked = region.page(v as i64);
        asked - (asked + self.alignment[&region.object]).rem_euclid(self.config.region as i64)
    }

    /// OO-30.
    pub(super) fn large_page(&mut self, v: u64, region: &Region) -> Option<u64> {
        let (n, (least, spare)) = (self.config.region, self.config.two_size?);
        let first = self.group(v, region);
        let pages: Vec<ObjectPage> = (first..first + n as i64).map(|p| (region.object, p)).collect();
        // A fork's child has frames that are the parent's by name.
        let inherited = |p: &ObjectPage| {
            let at = |r: &Region| (r.maps(*p)).then(|| r.start + (p.1 - r.first) as u64);
            self.spaces.values().any(|s| s.regions.iter().filter_map(at).any(|v| s.table.contains_key(&v)))
        };
        if pages.iter().any(|p| self.index.contains_key(p) || inherited(p)) {
            return None;
        }
        self.large.remove(&pages[0]);
        let regions: Vec<&Region> =
            self.spaces.values().flat_map(|s| &s.regions).filter(|r| r.object == region.object).collect();
        if !pages.iter().all(|p| regions.iter().any(|r| r.maps(*p))) {
            return None;
        }
        let whole_space = |r: &&Region| r.end - r.start > 1 << 30;
        let extent = |r: &&Region| r.first..r.first + (r.end - r.start) as i64;
        let mapped = match regions.iter().any(whole_space) {
            true => u64::MAX,
            false => regions.iter().flat_map(extent).collect::<BTreeSet<i64>>().len() as u64,
        };
        let enough = self.config.frames.is_none() || self.free.len() as u64 >= n + spare;
        if !self.config.reserve.contains(&self.classes[&region.object]) || mapped < least || !enough {
            return None;
        }
        let Some(group) = self.free_group() else {
            self.counts.failed_region_allocs += 1;
            return None;
        };
        for (i, page) in pages.iter().enumerate() {
            let frame = group + i as u64;
            self.take_frame(frame);
            self.own(*page, frame);
            self.busy.insert(frame);
            self.load(*page);
        }
        self.large.insert(pages[0]);
        Some(group + (region.page(v as i64) - first) as u64)
    }

    /// T94-44, if this is the first fault of its region and reserving is possible.
    pub(super) fn reserve(&mut self, v: u64, region: &Region) -> Option<u64> {
        if !self.config.reserve.contains(&self.classes[&region.object]) {
            return None;
        }
        let n = self.config.region;
        let asked = region.page(v as i64);
        let first = asked - (asked + self.alignment[&region.object]).rem_euclid(n as i64);
        let pages: Vec<ObjectPage> = (0..n as i64).map(|i| (region.object, first + i)).collect();
        let dealt_with = pages.iter().any(|p| self.dealt_with.contains(p));
        self.dealt_with.extend(&pages);
        if dealt_with {
            return None;
        }
        let all_regions: Vec<&Region> = self.spaces.values().flat_map(|s| &s.regions).collect();
        let inside: Vec<bool> = pages.iter().map(|p| all_regions.iter().any(|r| r.maps(*p))).collect();
        if !self.config.clip && inside.contains(&false) {
            return None;
        }
        let Some(group) = self.free_group() else {
            self.counts.failed_region_allocs += 1;
            return None;
        };
        self.counts.reservations_made += 1;
        let prefetch = self.config.prefetch && self.classes[&region.object] == Class::DiskFile;
        for i in 0..n as usize {
            if !inside[i] {
                continue;
            }
            let frame = group + i as u64;
            self.take_frame(frame);
            self.own(pages[i], frame);
            if pages[i].1 == asked {
                self.busy.insert(frame);
                self.load(pages[i]);
            } else if prefetch {
                self.busy.insert(frame);
                self.load(pages[i]);
                self.counts.pages_prefetched += 1;
            } else {
                self.reserved.push(frame);
            }
        }
        self.note_peaks();
        Some(group + (asked - first) as u64)
    }

    /// T94-57.
    pub(super) fn protection_fault(&mut self, asid: Asid, v: u64, region: &Region) -> Vec<Change> {
        self.counts.protection_faults += 1;
        let mut changes = Vec::new();
        let old = self.space(asid).table[&v];
        if old.order > 0 {
            changes.push(self.demote(asid, v));
        }
        let of_file = self.owner.get(&old.frame).is_some_and(|p| self.classes[&p.0] != Class::Memory);
        let mut frame = old.frame;
        if of_file || self.mappers(old.frame) > 1 {
            frame = self.ordinary_frame();
            self.counts.cow_copies += 1;
            let page = (region.object, region.page(v as i64));
            if self.owner.get(&old.frame) == Some(&page) && self.classes[&page.0] == Class::Memory {
                self.owner.remove(&old.frame);
                self.index.remove(&page);
                self.own(page, frame);
            }
        }
        let attr = attr_of(region.prot, false);
        let dirty = old.dirty && frame == old.frame;
        let entry = Entry { frame, attr, order: 0, cow: false, dirty, forbidden: old.forbidden };
        self.space(asid).table.insert(v, entry);
        changes.push((asid, VpnRange::one(Vpn(v)), What::Stale));
        self.check();
        changes
    }

    /// T94-54.
    pub(super) fn try_promotion(&mut self, asid: Asid, v: u64, n: u64) {
        let first = v / n * n;
        let space = &self.spaces[&asid];
        let region = space.region(v).expect("mapped").clone();
        let mapped = space.table.range(first..first + n).count();
        let threshold = match self.classes[&region.object] {
            Class::Memory | Class::SharedMemory => self.config.threshold_memory,
            Class::DiskFile => self.config.threshold_disk,
            Class::NfsFile => self.config.threshold_nfs,
        };
        let needed = threshold * n as f64;
        let reached = if self.config.strict { mapped as f64 > needed } else { mapped as f64 >= needed };
        let larger = n > 1 << space.table[&v].order;
        if larger && self.config.promote_classes.contains(&self.classes[&region.object]) && reached {
            self.promotion(asid, v, n);
        }
    }

    /// T94-55.
    pub(super) fn promotion(&mut self, asid: Asid, v: u64, n: u64) {
        let order = n.trailing_zeros() as u8;
        let first = v / n * n;
        let space = &self.spaces[&asid];
        let region = space.region(v).expect("mapped").clone();
        self.counts.promotions_tried += 1;
        let same_object = |w: u64| {
            space.region(w).is_some_and(|r| r.object == region.object && r.page(w as i64) == region.page(w as i64))
        };
        if !(first..first + n).all(same_object) {
            self.counts.refused_small_object += 1;
            return;
        }
        let base = space.table[&v].frame.wrapping_sub(v - first);
        let place = |w: u64| match space.table.get(&w) {
            Some(e) => Some(e.frame),
            None => self.index.get(&(region.object, region.page(w as i64))).copied(),
        };
        let out_of_place = (first..first + n).any(|w| place(w).is_some_and(|f| f != base.wrapping_add(w - first)));
        if !base.is_multiple_of(n) || out_of_place {
            self.counts.refused_frames += 1;
            return;
        }
        let attr = |w: u64| match space.table.get(&w) {
            Some(e) => (e.attr, e.cow),
            None => {
                let r = space.region(w).expect("checked");
                let cow = self.classes[&r.object].is_file() && !r.shared;
                (attr_of(r.prot, cow), cow)
            }
        };
        if (first..first + n).any(|w| attr(w) != attr(v)) {
            self.counts.refused_attributes += 1;
            return;
        }
        if (first..first + n).any(|w| place(w).is_none()) {
            self.counts.refused_not_resident += 1;
            return;
        }
        self.counts.promotions += 1;
        let missing: Vec<u64> = (first..first + n).filter(|w| !space.table.contains_key(w)).collect();
        for w in missing {
            let page = (region.object, region.page(w as i64));
            let frame = self.index[&page];
            if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
                self.reserved.remove(at);
                self.busy.insert(frame);
                self.load(page);
            }
            let space = self.spaces.get_mut(&asid).expect("it runs");
            let r = space.region(w).expect("checked");
            let cow = self.classes[&r.object].is_file() && !r.shared;
            let entry = Entry { frame, attr: attr_of(r.prot, cow), order: 0, cow, dirty: false, forbidden: false };
            space.table.insert(w, entry);
            space.unreferenced.insert(w);
            self.counts.populated_pages += 1;
        }
        let dirty = (first..first + n).any(|w| self.spaces[&asid].table[&w].dirty);
        for w in first..first + n {
            self.space(asid).table.get_mut(&w).expect("mapped").order = order;
        }
        if dirty {
            self.make_dirty(asid, first, n);
        }
    }
}
