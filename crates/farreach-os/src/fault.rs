//! Serving references: finds the page table entry of a page and serves the faults that this takes.

use crate::contract::{OutOfMemory, Touched, Unserved};
use crate::frames::numbers;
use crate::labels;
use crate::object::{ObjectId, ObjectKind};
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::FrameRequest;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::{Kind, Prot};
use farreach_types::translation::{Attr, Pte};

#[inline]
pub(crate) fn touched(e: &Entry) -> Touched {
    Touched { pte: Pte { pfn: e.pfn, attr: e.attr, order: e.order }, label: e.label }
}

pub(crate) fn needs(kind: Kind) -> u8 {
    match kind {
        Kind::Fetch => Attr::EXEC,
        Kind::Load => Attr::READ,
        Kind::Store => Attr::WRITE,
    }
}

impl Os {
    /// A reference of `kind` to a page: serves the faults it causes, marks the page referenced and, for a store,
    /// modified. Changes for the hardware are in [`Os::take_changes`].
    #[inline]
    pub fn touch(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, Unserved> {
        if self.guest.is_some() {
            return self.guest_touch(asid, vpn, kind);
        }
        if let Some(e) = self.served(asid, vpn, kind) {
            return Ok(touched(&e));
        }
        let result = self.touch_first(asid, vpn, kind);
        if result.is_err() {
            // Making room may have dissolved ranges, even if it failed.
            self.sync_ranges(asid);
        }
        Ok(result?)
    }

    /// Whether a reference of `kind` to a page would change nothing in this system.
    pub fn is_served(&self, asid: Asid, vpn: Vpn, kind: Kind) -> bool {
        self.served(asid, vpn, kind).is_some()
    }

    /// The entry of a page, if a touch of it would change nothing.
    #[inline]
    fn served(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Entry> {
        let entry = self.spaces.get(asid.0 as usize).and_then(|s| s.table.get(vpn))?;
        let quiet = entry.touched
            && entry.attr.0 & needs(kind) != 0
            && (kind != Kind::Store || entry.dirty)
            && !self.notes_access(&entry)
            && (kind != Kind::Store || !self.memory.holds_zeros(entry.pfn));
        quiet.then_some(entry)
    }

    /// A touch that changes the state of a page: the first touch, the first store, or a fault.
    fn touch_first(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<Touched, OutOfMemory> {
        self.runs(asid);
        let absent = self.space(asid).table.get(vpn).is_none();
        if absent && !self.segment_page(asid, vpn) && !self.direct_page(asid, vpn) {
            let served = self.page_fault(asid, vpn, kind);
            if served.is_ok() {
                self.tick();
            }
            self.keep_out_of_segment(asid, vpn);
            served?;
        }
        let entry = self.space(asid).table.get(vpn).expect("the fault mapped it");
        let copies = kind == Kind::Store && entry.cow && self.may_write(asid, vpn);
        if copies {
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
        if self.notes_access(&before) {
            self.set_accessed(asid, vpn);
        }
        if !before.touched && !numbers::is_zeros(before.pfn) {
            self.touched_pages += 1;
            self.memory.touch(before.pfn);
        }
        let told = kind == Kind::Store && !before.dirty && self.first_store(asid, vpn, &before, copies);
        if absent || copies {
            self.fill_around(asid, vpn);
        }
        if absent || copies || told {
            self.promote_full(asid, vpn);
        }
        self.sync_ranges(asid);
        let entry = self.spaces[asid.0 as usize].table.get(vpn).expect("still mapped");
        if kind == Kind::Store && entry.attr.0 & Attr::WRITE != 0 {
            self.memory.wrote(entry.pfn);
        }
        if absent || copies {
            self.daemons_see_use();
        }
        Ok(touched(&entry))
    }

    fn may_write(&mut self, asid: Asid, vpn: Vpn) -> bool {
        self.region(asid, vpn).prot.write
    }

    /// The region of a page. A space that references memory before its trace mapped any is filled by one anonymous
    /// object; a stray reference into a hole of a space that has regions makes a region of one page.
    pub(crate) fn region(&mut self, asid: Asid, vpn: Vpn) -> Region {
        let space = self.space(asid);
        if let Some(region) = space.regions.find(vpn) {
            return region.clone();
        }
        let (range, label) = if space.mapped_by_events || space.regions.iter().next().is_some() {
            self.memory.counts.wild_faults += 1;
            (VpnRange::one(vpn), self.labels.intern(labels::NOT_MAPPED))
        } else {
            (self.all_pages(), self.labels.intern(labels::WHOLE_SPACE))
        };
        let object = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
        let region = Region {
            range,
            prot: Prot::RWX,
            shared: false,
            object,
            first_page: range.start.0,
            label,
            advice: HugeAdvice::None,
        };
        self.placement.region_mapped(&self.memory, &region, self.labels.name(label));
        self.insert(asid, region.clone());
        region
    }

    /// A fault brings in its own page and nothing else, unless a superpage brings in a whole region (T94-23).
    fn page_fault(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<(), OutOfMemory> {
        self.memory.counts.page_faults += 1;
        let before = self.pages_worked();
        let served = self.bring_in(asid, vpn, kind);
        let pages = self.pages_worked() - before;
        let most = &mut self.memory.counts.largest_fault_pages;
        *most = (*most).max(pages);
        served
    }

    /// Pages filled with zeros or copied so far.
    fn pages_worked(&self) -> u64 {
        let counts = &self.memory.counts;
        counts.zeroed_pages + counts.gathered_pages + counts.cow_copies
    }

    /// The program asks for pages before it touches them (MAP_POPULATE). They come as at faults, without the faults;
    /// when memory is full, the rest comes when it is touched, as in Linux.
    pub(crate) fn populate(&mut self, asid: Asid, range: VpnRange) {
        let regions = self.space(asid).regions.within(range);
        for region in regions.into_iter().filter(|region| region.prot != Prot::NONE) {
            let kind = if region.prot.write && !region.shared { Kind::Store } else { Kind::Load };
            for vpn in region.range.iter() {
                let mapped = self.space(asid).table.get(vpn).is_some();
                if mapped || self.segment_page(asid, vpn) || self.direct_page(asid, vpn) {
                    continue;
                }
                let brought_in = self.bring_in(asid, vpn, kind);
                self.keep_out_of_segment(asid, vpn);
                if brought_in.is_err() {
                    return;
                }
                if self.is_zeros(asid, vpn) {
                    continue;
                }
                let entry = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
                    entry.populated = true;
                    *entry
                });
                self.memory.counts.populated_pages += 1;
                let in_superpage = entry.is_some_and(|entry| entry.order > 0);
                self.memory.counts.populated_in_superpages += u64::from(in_superpage);
                self.fill_around(asid, vpn);
                self.promote_full(asid, vpn);
            }
        }
    }

    /// Maps a page that is not mapped.
    fn bring_in(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<(), OutOfMemory> {
        self.memory.counts.pt_probes += 1;
        let region = self.region(asid, vpn);
        if self.request_touched(asid, vpn, &region) {
            self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.populated = false);
            return Ok(());
        }
        if self.zeros_fault(asid, vpn, &region, kind)
            || self.superpage_fault(asid, vpn, &region)
            || self.map_full(asid, vpn, &region, kind)
        {
            self.daemons_see_fault(asid, vpn, &region);
            return Ok(());
        }
        if !self.cached_fault(asid, vpn, &region, kind)? {
            self.map_alone(asid, vpn, &region, kind)?;
        }
        self.map_large(asid, vpn, &region);
        self.promote_around(asid, vpn, &region);
        self.collapse_later(asid, vpn, &region);
        self.daemons_see_fault(asid, vpn, &region);
        Ok(())
    }

    /// Maps a page that is not mapped by an entry of its own, and what is around it.
    fn map_alone(&mut self, asid: Asid, vpn: Vpn, region: &Region, kind: Kind) -> Result<(), OutOfMemory> {
        let pfn = self.object_frame(self.request_for(asid, vpn, region))?;
        let private_file = !region.shared && self.memory.objects.get(region.object).kind.is_file();
        let label = region.label;
        let entry = if private_file && kind == Kind::Store && region.prot.write {
            // The first touch of a private file page is a store: it gets its own copy at once.
            let copy = self.copy_frame(asid, vpn, region)?;
            self.memory.fill_nameless(copy, None);
            self.memory.counts.cow_copies += 1;
            Entry { pfn: copy, label, attr: attributes(region.prot, false), present: true, ..Entry::default() }
        } else {
            Entry {
                pfn,
                label,
                attr: attributes(region.prot, private_file),
                cow: private_file,
                present: true,
                ..Entry::default()
            }
        };
        self.map_page(asid, vpn, entry);
        if kind != Kind::Store {
            self.map_around(asid, vpn, region);
        }
        Ok(())
    }

    /// After a load or fetch of a file faulted: maps the pages around it, as far as there are frames (PGC-6).
    fn map_around(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let order = self.placement.fault_around();
        if order == 0 || !self.memory.objects.get(region.object).kind.is_file() {
            return;
        }
        let window = VpnRange { start: vpn.align_down(order), pages: 1 << order }.and(region.range);
        let cow = !region.shared;
        let entry = Entry {
            label: region.label,
            attr: attributes(region.prot, cow),
            cow,
            present: true,
            populated: true,
            ..Entry::default()
        };
        for vpn in window.iter() {
            if self.spaces[asid.0 as usize].table.get(vpn).is_some() {
                continue;
            }
            let request = self.request_for(asid, vpn, region);
            let Ok(pfn) = self.object_frame(request) else { return };
            self.map_page(asid, vpn, Entry { pfn, ..entry });
            self.memory.counts.populated_pages += 1;
        }
    }

    /// The frame of an object page, made busy: the frame it has, the frame reserved for it (T94-45), or a new one.
    pub(crate) fn object_frame(&mut self, request: FrameRequest) -> Result<Pfn, OutOfMemory> {
        let FrameRequest { vpn, object, page, .. } = request;
        if let Some((pfn, was_reserved)) = self.memory.claim(object, page) {
            if was_reserved {
                self.memory.counts.reservations_honoured += 1;
                self.count_read(object, 1);
            }
            return Ok(pfn);
        }
        // HWE-6: what comes from a file replaces the zeros.
        self.memory.alloc.prefer_zeroed(!self.memory.objects.get(object).kind.is_file());
        self.make_way(request, 0);
        let pfn = loop {
            match self.placement.allocate(&mut self.memory, request) {
                Some(pfn) => break pfn,
                None if self.make_room() => {}
                None => return Err(OutOfMemory { vpn }),
            }
        };
        self.memory.fill(object, page, pfn);
        self.count_read(object, 1);
        Ok(pfn)
    }

    /// Pages were read into their frames, if they are those of a file.
    pub(crate) fn count_read(&mut self, object: ObjectId, pages: u64) {
        if self.memory.objects.get(object).kind.is_file() {
            self.memory.counts.io_bytes += pages * self.memory.page_bytes();
        }
    }
}
