//! Events: regions that are added, removed and changed.

use super::*;

impl PlainOs {
    pub(super) fn new_object(&mut self, class: Class) -> ObjectId {
        self.next_object += 1;
        self.classes.insert(self.next_object, class);
        self.alignment.insert(self.next_object, 0);
        self.next_object
    }

    /// A new, empty space.
    pub fn start(&mut self, asid: Asid) {
        self.spaces.insert(asid, Space::default());
    }

    pub(super) fn space(&mut self, asid: Asid) -> &mut Space {
        if !self.spaces.contains_key(&asid) {
            self.start(asid);
        }
        self.spaces.get_mut(&asid).expect("just started")
    }

    /// `Op::Map`.
    pub fn map(&mut self, asid: Asid, m: &Mapping) -> Vec<Change> {
        let (start, end) = (m.start >> 12, (m.start + m.len) >> 12);
        self.space(asid).mapped_by_events = true;
        let mut changes = Vec::new();
        let object = match &m.backing {
            Backing::File { path, offset } => {
                // The object first, so that a file mapped over its last mapping stays the same object.
                let object = match self.files.get(&**path) {
                    Some(&object) => object,
                    None => {
                        let nfs = self.config.nfs_prefixes.iter().any(|p| path.starts_with(p.as_str()));
                        let object = self.new_object(if nfs { Class::NfsFile } else { Class::DiskFile });
                        self.files.insert(path.to_string(), object);
                        self.alignment.insert(object, start as i64 - (offset >> 12) as i64);
                        object
                    }
                };
                changes = self.clear(asid, start, end);
                object
            }
            _ => {
                changes.extend(self.clear(asid, start, end));
                let mut regions = self.space(asid).regions.clone();
                regions.sort_by_key(|r| r.start);
                let continued = match &m.backing {
                    Backing::Heap => regions.iter().find(|r| r.heap).map(|r| r.object),
                    Backing::Stack => regions.iter().find(|r| r.stack && r.start == end).map(|r| r.object),
                    _ => None,
                };
                let class = match &m.backing {
                    Backing::Anonymous if m.shared => Class::SharedMemory,
                    _ => Class::Memory,
                };
                let unmapped = |o: &ObjectId| !self.any_mapped(*o, start as i64, end as i64);
                continued.filter(unmapped).unwrap_or_else(|| self.new_object(class))
            }
        };
        let first = match &m.backing {
            Backing::File { offset, .. } => (offset >> 12) as i64,
            _ => start as i64,
        };
        let (heap, stack) = (m.backing == Backing::Heap, m.backing == Backing::Stack);
        self.space(asid).regions.push(Region {
            start,
            end,
            prot: m.prot,
            shared: m.shared,
            heap,
            stack,
            object,
            first,
        });
        self.collect();
        changes
    }

    /// Whether some region maps one of the object's pages `first..last`.
    pub(super) fn any_mapped(&self, object: ObjectId, first: i64, last: i64) -> bool {
        let mut regions = self.spaces.values().flat_map(|s| &s.regions).filter(|r| r.object == object);
        regions.any(|r| r.first < last && first < r.first + (r.end - r.start) as i64)
    }

    /// Cuts regions so that none straddles `at`.
    pub(super) fn split(&mut self, asid: Asid, at: u64) {
        let space = self.space(asid);
        let Some(i) = space.regions.iter().position(|r| r.start < at && at < r.end) else { return };
        let mut upper = space.regions[i].clone();
        upper.first = upper.page(at as i64);
        upper.start = at;
        space.regions[i].end = at;
        space.regions.push(upper);
    }

    /// Demotes the superpages that lie in the range, but not wholly.
    pub(super) fn demote_straddling(&mut self, asid: Asid, start: u64, end: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let inside: Vec<u64> = self.space(asid).table.range(start..end).map(|(v, _)| *v).collect();
        for v in inside {
            let order = self.space(asid).table[&v].order;
            let (first, last) = (v >> order << order, (v >> order << order) + (1 << order));
            if order > 0 && (first < start || last > end) {
                changes.push(self.demote(asid, v));
            }
        }
        changes
    }

    /// T94-42.
    pub(super) fn demote(&mut self, asid: Asid, v: u64) -> Change {
        let order = self.space(asid).table[&v].order;
        assert!(order > 0);
        let first = v >> order << order;
        for w in first..first + (1 << order) {
            self.space(asid).table.get_mut(&w).expect("pages of a superpage are mapped").order = 0;
        }
        self.counts.demotions += 1;
        (asid, VpnRange { start: Vpn(first), pages: 1 << order }, What::Demoted)
    }

    /// Removes entries from the page table.
    pub(super) fn drop_entries(&mut self, asid: Asid, start: u64, end: u64) {
        let space = self.space(asid);
        let inside: Vec<u64> = space.table.range(start..end).map(|(v, _)| *v).collect();
        let mut unused = 0;
        for v in inside {
            space.table.remove(&v);
            unused += u64::from(space.unreferenced.remove(&v));
        }
        self.counts.populated_never_used += unused;
    }

    /// Unmaps the range; frames are not collected yet.
    pub(super) fn clear(&mut self, asid: Asid, start: u64, end: u64) -> Vec<Change> {
        let mut changes = self.demote_straddling(asid, start, end);
        self.drop_entries(asid, start, end);
        self.split(asid, start);
        self.split(asid, end);
        let space = self.space(asid);
        let gone: Vec<Region> = space.regions.extract_if(.., |r| start < r.end && r.start < end).collect();
        for r in gone {
            if self.classes[&r.object] != Class::Memory {
                continue;
            }
            let (first, last) = ((r.object, r.first), (r.object, r.first + (r.end - r.start) as i64));
            let pages: Vec<ObjectPage> = self.index.range(first..last).map(|(p, _)| *p).collect();
            pages.into_iter().for_each(|p| self.forget(p));
        }
        changes.push((asid, VpnRange::between(Vpn(start), Vpn(end)), What::Stale));
        changes
    }

    /// `Op::Unmap`.
    pub fn unmap(&mut self, asid: Asid, start: u64, len: u64) -> Vec<Change> {
        let changes = self.clear(asid, start >> 12, (start + len) >> 12);
        self.collect();
        changes
    }

    /// `Op::Protect`.
    pub fn protect(&mut self, asid: Asid, start: u64, len: u64, prot: Prot) -> Vec<Change> {
        let (start, end) = (start >> 12, (start + len) >> 12);
        self.split(asid, start);
        self.split(asid, end);
        let mut changes = Vec::new();
        let space = self.space(asid);
        let changed: Vec<u64> = space
            .table
            .range(start..end)
            .map(|(v, _)| *v)
            .filter(|v| space.region(*v).is_some_and(|r| r.prot != prot))
            .collect();
        for &v in &changed {
            let order = self.space(asid).table[&v].order;
            let (first, last) = (v >> order << order, (v >> order << order) + (1 << order));
            if order > 0 && (first < start || last > end) {
                changes.push(self.demote(asid, v));
            }
        }
        for r in &mut self.space(asid).regions {
            if start <= r.start && r.end <= end {
                r.prot = prot;
            }
        }
        for v in changed {
            let e = self.space(asid).table.get_mut(&v).expect("mapped");
            let attr = attr_of(prot, e.cow);
            if attr != e.attr {
                (e.attr, e.forbidden) = (attr, false);
                changes.push((asid, VpnRange::one(Vpn(v)), What::Stale));
            }
        }
        self.check();
        changes
    }

    /// `Op::Advise`.
    pub fn advise(&mut self, asid: Asid, start: u64, len: u64, advice: Advice) -> Vec<Change> {
        if advice != Advice::DontNeed {
            return Vec::new();
        }
        let (start, end) = (start >> 12, (start + len) >> 12);
        let mut changes = self.demote_straddling(asid, start, end);
        for v in start..end {
            let Some(r) = self.space(asid).region(v).cloned() else { continue };
            let page = (r.object, r.page(v as i64));
            let busy = |f: &u64| self.busy.contains(f);
            if self.classes[&r.object] == Class::Memory && self.index.get(&page).is_some_and(busy) {
                let frame = self.index.remove(&page).expect("just seen");
                self.owner.remove(&frame);
            }
        }
        self.drop_entries(asid, start, end);
        self.collect();
        changes.push((asid, VpnRange::between(Vpn(start), Vpn(end)), What::Stale));
        changes
    }

    /// `Op::Remap`.
    pub fn remap(&mut self, asid: Asid, old_start: u64, old_len: u64, new_start: u64, new_len: u64) -> Vec<Change> {
        let (old, old_end) = (old_start >> 12, (old_start + old_len) >> 12);
        let (new, new_end) = (new_start >> 12, (new_start + new_len) >> 12);
        let mut changes = Vec::new();
        let source = self.space(asid).region(if old_end > old { old_end - 1 } else { old }).cloned();
        if new_end - new < old_end - old {
            changes.extend(self.clear(asid, old + (new_end - new), old_end));
        }
        let kept = old + (new_end - new).min(old_end - old);
        if old == new {
            // In place: only the pages it grows over are unmapped.
            if new_end > old_end {
                changes.extend(self.clear(asid, old_end, new_end));
                self.grow(asid, source, old_end, old_end, new_end);
            }
            self.collect();
            return changes;
        }
        changes.extend(self.clear(asid, new, new_end));
        for v in old..kept {
            if self.space(asid).table.get(&v).is_some_and(|e| e.order > 0) {
                changes.push(self.demote(asid, v));
            }
        }
        self.split(asid, old);
        self.split(asid, kept);
        let space = self.space(asid);
        for r in &mut space.regions {
            if old <= r.start && r.end <= kept {
                r.start = r.start - old + new;
                r.end = r.end - old + new;
            }
        }
        let entries: Vec<_> = (old..kept).filter_map(|v| space.table.remove_entry(&v)).collect();
        space.table.extend(entries.into_iter().map(|(v, e)| (v - old + new, e)));
        let unreferenced: Vec<_> = (old..kept).filter_map(|v| space.unreferenced.take(&v)).collect();
        space.unreferenced.extend(unreferenced.into_iter().map(|v| v - old + new));
        self.grow(asid, source, old_end, new + (kept - old), new_end);
        changes.push((asid, VpnRange::between(Vpn(old), Vpn(old_end)), What::Stale));
        self.collect();
        changes
    }

    /// Maps `from..to` to the pages of the source's object that are behind its virtual page `next`.
    pub(super) fn grow(&mut self, asid: Asid, source: Option<Region>, next: u64, from: u64, to: u64) {
        let Some(r) = source.filter(|_| from < to) else { return };
        let mut more = Region { start: from, end: to, first: r.page(next as i64), ..r };
        let taken = self.any_mapped(more.object, more.first, more.first + (to - from) as i64);
        if taken && self.classes[&more.object] == Class::Memory {
            (more.object, more.first) = (self.new_object(Class::Memory), from as i64);
        }
        self.space(asid).regions.push(more);
    }

    /// `Op::Fork`.
    pub fn fork(&mut self, asid: Asid, child: Asid) -> Vec<Change> {
        self.counts.forks += 1;
        let parent = self.space(asid).clone();
        let mut copy = parent.clone();
        copy.unreferenced.clear();
        let mut twins: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
        for r in &mut copy.regions {
            if self.classes[&r.object] != Class::Memory {
                continue;
            }
            let old = r.object;
            r.object = *twins.entry(old).or_insert_with(|| {
                let twin = self.new_object(Class::Memory);
                self.alignment.insert(twin, self.alignment[&old]);
                let pages: Vec<i64> = self.dealt_with.iter().filter(|p| p.0 == old).map(|p| p.1).collect();
                self.dealt_with.extend(pages.into_iter().map(|p| (twin, p)));
                let pages: Vec<i64> = self.large.iter().filter(|p| p.0 == old).map(|p| p.1).collect();
                self.large.extend(pages.into_iter().map(|p| (twin, p)));
                twin
            });
        }
        copy.table.values_mut().for_each(|e| e.forbidden = false);
        let mut changes = Vec::new();
        for (v, e) in &parent.table {
            let r = parent.region(*v).expect("mapped pages have a region");
            if r.shared {
                continue;
            }
            let attr = attr_of(r.prot, true);
            if attr != e.attr {
                changes.push((asid, VpnRange::one(Vpn(*v)), What::Stale));
            }
            for space in [&mut copy, self.space(asid)] {
                let e = space.table.get_mut(v).expect("both have it");
                (e.attr, e.cow) = (attr, true);
            }
        }
        self.spaces.insert(child, copy);
        self.check();
        changes
    }

    /// `Op::End`.
    pub fn end(&mut self, asid: Asid) {
        self.drop_entries(asid, 0, u64::MAX);
        self.spaces.remove(&asid);
        self.collect();
    }

    /// Any event. Returns the changes for the hardware, except the end of a space, which the event itself reports.
    pub fn apply(&mut self, asid: Asid, op: &Op) -> Vec<Change> {
        if let Op::KernelStore { start, len } = op {
            let shift = 12 + self.config.k;
            let pages = start >> shift..=(start + len - 1) >> shift;
            return pages.flat_map(|vpn| self.touch(asid, Vpn(vpn), Kind::Store)).collect();
        }
        if self.config.k == 0 {
            return self.apply_one(asid, op);
        }
        self.held = Some(BTreeSet::new());
        let ops = self.fold.events(asid, op, self.config.k);
        let changes = ops.iter().flat_map(|op| self.apply_one(asid, op)).collect();
        self.held.take().into_iter().flatten().for_each(|frame| self.push_free(frame));
        self.check();
        changes
    }

    pub(super) fn apply_one(&mut self, asid: Asid, op: &Op) -> Vec<Change> {
        match op {
            Op::Start { .. } => self.start(asid),
            Op::End(_) => self.end(asid),
            Op::Fork { child } => return self.fork(asid, *child),
            Op::Map(mapping) => return self.map(asid, mapping),
            Op::Unmap { start, len } => return self.unmap(asid, *start, *len),
            Op::Remap { old_start, old_len, new_start, new_len } => {
                return self.remap(asid, *old_start, *old_len, *new_start, *new_len);
            }
            Op::Protect { start, len, prot } => return self.protect(asid, *start, *len, *prot),
            Op::Advise { start, len, advice } => return self.advise(asid, *start, *len, *advice),
            Op::Define { .. }
            | Op::Code { .. }
            | Op::Pages
            | Op::Samples
            | Op::Boundary(_)
            | Op::KernelStore { .. }
            | Op::Thp(_)
            | Op::Guest(_)
            | Op::ThreadStart { .. }
            | Op::ThreadExit { .. }
            | Op::Switch { .. } => {}
        }
        Vec::new()
    }
}
