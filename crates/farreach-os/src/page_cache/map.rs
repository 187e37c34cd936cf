//! Mapping folios at faults (PGC-6).

use crate::contract::OutOfMemory;
use crate::huge::inside;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;

/// Pages that one fault maps.
#[derive(Default)]
struct Mapped {
    pages: u64,
    in_superpages: u64,
}

impl Os {
    /// A fault on a page of a file that is read in windows, or of shared memory with folios: brings it into memory, and
    /// maps it with what is around it. False: it is of another kind, or the fault maps its page alone.
    pub(crate) fn cached_fault(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        region: &Region,
        kind: Kind,
    ) -> Result<bool, OutOfMemory> {
        if !self.memory.page_cache.is_used() || self.memory.objects.get(region.object).private {
            return Ok(false);
        }
        let of_file = self.memory.objects.get(region.object).kind.is_file();
        match of_file {
            true if self.memory.page_cache.files.is_none() => return Ok(false),
            true => self.read_ahead(asid, vpn, region),
            false if self.memory.page_cache.shared.is_empty() => return Ok(false),
            false => self.shared_folio(asid, vpn, region),
        }
        self.object_frame(self.request_for(asid, vpn, region))?;
        if of_file {
            self.memory.note_page(region.object, region.page_of(vpn));
        }
        if of_file && kind == Kind::Store && !region.shared {
            return Ok(false);
        }
        if self.map_leaf(asid, vpn, region) {
            return Ok(true);
        }
        if of_file && kind == Kind::Store {
            return Ok(false);
        }
        self.map_resident(asid, vpn, region, kind);
        Ok(true)
    }

    /// The entries of a mapping of a folio, but for frame and size.
    fn entry_of(&self, region: &Region) -> Entry {
        let cow = !region.shared && self.memory.objects.get(region.object).kind.is_file();
        let attr = attributes(region.prot, cow);
        Entry { label: region.label, attr, cow, present: true, populated: true, ..Entry::default() }
    }

    /// Maps a folio that an entry of a page directory can map, if it is aligned alike in the mapping, all of it lies
    /// there, and none of it is mapped.
    fn map_leaf(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let order = self.memory.page_cache.entries.leaf;
        let object = self.memory.objects.get(region.object);
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let folio = object.cache.folio(region.page_of(vpn)).filter(|(_, folio)| folio.order >= order);
        if folio.is_none()
            || !inside(group, region.range)
            || !region.page_of(group.start).is_multiple_of(group.pages)
            || self.huge_advice(asid, region) == HugeAdvice::NoHuge
            || self.spaces[asid.0 as usize].table.any_in(group)
        {
            return false;
        }
        let first = region.page_of(group.start);
        let Some(base) = self.memory.frame_of(region.object, first) else { return false };
        // Compaction may have moved some of its pages.
        let follows = |at: u64| self.memory.frame_of(region.object, first + at) == Some(Pfn(base.0 + at));
        if !base.0.is_multiple_of(group.pages) || !(1..group.pages).all(follows) {
            return false;
        }
        let entry = Entry { pfn: base, order: order as u8, ..self.entry_of(region) };
        self.map_run(asid, group, entry);
        self.superpage_came(asid, vpn, group);
        true
    }

    /// Maps a page that is in memory, and those around it that are, folio by folio. Folios that carry the marker are
    /// left out, so that their first access is a fault that meets it. A store maps pages of its own folio alone.
    fn map_resident(&mut self, asid: Asid, vpn: Vpn, region: &Region, kind: Kind) {
        let around = self.memory.page_cache.entries.around;
        let mut window = VpnRange { start: vpn.align_down(around), pages: 1 << around }.and(region.range);
        if kind == Kind::Store {
            let cache = &self.memory.objects.get(region.object).cache;
            let own = cache.folio(region.page_of(vpn)).map_or(VpnRange::one(vpn), |(first, folio)| {
                let before = (region.page_of(vpn) - first).min(vpn.0);
                VpnRange { start: Vpn(vpn.0 - before), pages: 1 << folio.order }
            });
            window = window.and(own);
        }
        let (entry, mut mapped) = (self.entry_of(region), Mapped::default());
        let mut at = window.start;
        while at < window.end() {
            let rest = VpnRange::between(at, window.end());
            match self.mappable(asid, rest, region) {
                Some((pfn, pages)) => {
                    self.map_blocks(asid, VpnRange { start: at, pages }, Entry { pfn, ..entry }, &mut mapped);
                    at.0 += pages;
                }
                None => at.0 += 1,
            }
        }
        let own = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
            entry.populated = false;
            entry.order
        });
        let in_superpage = u64::from(own.expect("it is in memory, and carries no marker") > 0);
        let counts = &mut self.memory.counts;
        counts.superpage_faults += in_superpage;
        counts.populated_pages += mapped.pages - 1;
        counts.populated_in_superpages += mapped.in_superpages - in_superpage;
    }

    /// The frame of the first of these pages, and how many from there on lie in one folio and in frames that follow
    /// each other. `None`: the first is mapped, or not to be mapped.
    fn mappable(&self, asid: Asid, pages: VpnRange, region: &Region) -> Option<(Pfn, u64)> {
        let (table, page) = (&self.spaces[asid.0 as usize].table, region.page_of(pages.start));
        let pfn = self.memory.frame_of(region.object, page).filter(|_| table.get(pages.start).is_none())?;
        let (end, marker) = match self.memory.objects.get(region.object).cache.folio(page) {
            Some((first, folio)) => (folio.pages(first).end, folio.marker),
            None => (page + 1, false),
        };
        let most = pages.pages.min(end - page);
        let follows = |at: &u64| {
            table.get(Vpn(pages.start.0 + at)).is_none()
                && self.memory.frame_of(region.object, page + at) == Some(Pfn(pfn.0 + at))
        };
        (!marker).then(|| (pfn, 1 + (1..most).take_while(follows).count() as u64))
    }

    /// Maps pages of a folio in one call: whole aligned blocks get the contiguous bit (CPT-1). `entry` is the first.
    fn map_blocks(&mut self, asid: Asid, pages: VpnRange, entry: Entry, mapped: &mut Mapped) {
        let order = self.memory.page_cache.entries.contpte;
        let (mut at, block) = (0, 1 << order);
        while at < pages.pages {
            let (vpn, pfn, rest) = (pages.start.0 + at, entry.pfn.0 + at, pages.pages - at);
            let whole = order > 0 && vpn.is_multiple_of(block) && pfn.is_multiple_of(block) && rest >= block;
            let part = match order {
                0 => rest,
                _ => rest.min(block - vpn % block),
            };
            let (range, order) = (VpnRange { start: Vpn(vpn), pages: part }, if whole { order as u8 } else { 0 });
            self.map_run(asid, range, Entry { pfn: Pfn(pfn), order, ..entry });
            mapped.in_superpages += if whole { part } else { 0 };
            at += part;
        }
        mapped.pages += pages.pages;
    }
}
