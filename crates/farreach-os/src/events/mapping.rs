//! Mappings: regions enter and leave an address space; the object behind a new mapping, and its name.

use crate::base_pages::Piece;
use crate::labels;
use crate::object::{File, Growth, ObjectId, ObjectKind};
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::event::Backing;
use std::sync::Arc;

impl Os {
    /// Adds a region that is a new mapper of its object.
    pub(crate) fn insert(&mut self, asid: Asid, region: Region) {
        self.memory.objects.get_mut(region.object).mappers += 1;
        self.put(asid, region);
    }

    /// Removes the regions of a range from the space. Each piece counts as a mapper of its object until it is put back
    /// ([`Os::put`]) or dropped ([`Memory::drop_mapper`](crate::memory::Memory::drop_mapper)).
    pub(crate) fn take(&mut self, asid: Asid, range: VpnRange) -> Vec<Region> {
        let pieces = self.space(asid).regions.take(range);
        for (piece, rest) in &pieces {
            let object = self.memory.objects.get_mut(piece.object);
            object.mappers += rest;
            object.cover(piece.first_page, piece.range.pages, -1);
        }
        pieces.into_iter().map(|(piece, _)| piece).collect()
    }

    /// Inserts a region that counts as a mapper already.
    pub(crate) fn put(&mut self, asid: Asid, region: Region) {
        let (id, first, pages) = (region.object, region.first_page, region.range.pages);
        let joined = self.space(asid).regions.insert(region);
        let object = self.memory.objects.get_mut(id);
        object.mappers -= joined;
        object.cover(first, pages, 1);
    }

    /// The object behind a new mapping and the page of it at the mapping's start. Anonymous objects number their pages
    /// like the addresses of their first mapping.
    pub(crate) fn object_for(&mut self, asid: Asid, mapping: &Piece) -> (ObjectId, u64) {
        let range = mapping.range;
        let fresh = |os: &mut Os| os.memory.objects.create(ObjectKind::Anonymous, None, !mapping.shared, 0);
        let growing = |os: &mut Os, grows: Growth| {
            let object = fresh(os);
            os.memory.objects.get_mut(object).grows = grows;
            object
        };
        // A heap or stack continues as the same object, unless these pages of it were moved elsewhere.
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
                let heap = self.labels.intern(labels::HEAP);
                let known = self.space(asid).regions.iter().find(|r| r.label == heap).map(|r| r.object);
                (known.filter(|&id| unmapped(self, id)).unwrap_or_else(|| growing(self, Growth::Up)), range.start.0)
            }
            Backing::Stack => {
                // A stack that grows maps the pages below its lowest region: the same object.
                let stack = self.labels.intern(labels::STACK);
                let next = self.space(asid).regions.find(range.end());
                let above = next.filter(|r| r.range.start == range.end() && r.label == stack).map(|r| r.object);
                (above.filter(|&id| unmapped(self, id)).unwrap_or_else(|| growing(self, Growth::Down)), range.start.0)
            }
            Backing::Anonymous if !mapping.shared && self.placement.merges_neighbours() => {
                let anonymous = self.labels.intern(labels::ANONYMOUS);
                let regions = &self.space(asid).regions;
                let beside = [Vpn(range.start.0.wrapping_sub(1)), range.end()].map(|vpn| regions.find(vpn).cloned());
                let like = |r: &Region| r.label == anonymous && r.first_page == r.range.start.0;
                let known = beside.into_iter().flatten().filter(like).map(|r| r.object).find(|&id| unmapped(self, id));
                (known.unwrap_or_else(|| fresh(self)), range.start.0)
            }
            Backing::Anonymous | Backing::Kernel => (fresh(self), range.start.0),
        }
    }

    /// The object of a file and the page of it at a byte. Only mappings with equal alignment within pages share frames;
    /// bytes before the first whole page are page 0.
    pub(crate) fn file_page(&self, path: &Arc<str>, offset: u64) -> (File, u64) {
        let page = self.memory.page_bytes();
        let skew = (offset & (page - 1)) >> BASE_SHIFT;
        (File { path: Arc::clone(path), skew }, offset.wrapping_add(page - (1 << BASE_SHIFT)) >> self.shift)
    }

    /// The name of a new mapping in results.
    pub(crate) fn label_of(&mut self, mapping: &Piece) -> u32 {
        match &mapping.backing {
            Backing::File { path, .. } => {
                let base = path.rsplit('/').next().unwrap_or(path);
                let part = if mapping.prot.exec { "code" } else { "data" };
                self.labels.intern(&format!("{base} {part}"))
            }
            Backing::Heap => self.labels.intern(labels::HEAP),
            Backing::Stack => self.labels.intern(labels::STACK),
            Backing::Kernel if self.is_direct_map(mapping) => self.labels.intern(labels::DIRECT_MAP),
            Backing::Kernel => self.labels.intern(labels::KERNEL),
            Backing::Anonymous if mapping.shared => self.labels.intern(labels::SHARED),
            Backing::Anonymous => self.labels.intern(labels::ANONYMOUS),
        }
    }
}
