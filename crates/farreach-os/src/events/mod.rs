//! Events of the program that change an address space.

mod collapse;
mod fork;
mod kernel_store;
mod mapping;
mod protect;
mod remap;

use crate::base_pages::{self, Piece, Step};
use crate::contract::What;
use crate::huge_rounding;
use crate::os::Os;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::event::{Backing, Op};
use std::sync::Arc;

impl Os {
    /// One event of the program. Changes for the hardware are in [`Os::take_changes`].
    pub fn apply(&mut self, asid: Asid, op: &Op) {
        if self.guest.is_some() {
            return self.guest_apply(asid, op);
        }
        self.runs(asid);
        match op {
            Op::Guest(_) => {
                let placement = self.placement_name;
                self.refusal.get_or_insert_with(|| {
                    format!(
                        "this machine has placement = {placement}; a recording of a whole system needs placement = \
                         guest"
                    )
                });
            }
            Op::Start { program, .. } => {
                debug_assert!(!self.space(asid).ended, "address spaces are numbered once");
                self.space(asid).program = Some(Arc::clone(program));
            }
            Op::Fork { child } => self.fork(asid, *child),
            Op::Thp(rule) => self.space(asid).thp = *rule,
            Op::Boundary(_) => return,
            // References, but for TLBs: they change no mapping.
            Op::KernelStore { start, len } => {
                return self.kernel_store(asid, VpnRange::of_bytes(*start, *len, self.shift));
            }
            Op::End(_) => self.end(asid),
            op if self.shift == BASE_SHIFT => {
                base_pages::in_4k_pages(op).into_iter().for_each(|step| self.step(asid, step))
            }
            op => {
                let k = self.shift - BASE_SHIFT;
                self.space(asid).parts.steps_of(op, k).into_iter().for_each(|step| self.step(asid, step));
            }
        }
        self.follow_threads(asid, op);
        if matches!(op, Op::Unmap { .. }) {
            self.memory.hold_freed(self.time_of_event);
        }
        self.memory.release_freed();
        self.tick();
        for asid in std::iter::once(asid).chain(match op {
            Op::Fork { child } => Some(*child),
            _ => None,
        }) {
            self.count_virtual(asid);
            self.sample_protection(asid);
            self.shape_segment(asid);
            self.follow_direct_map(asid);
            self.sync_ranges(asid);
        }
        self.daemons_see_use();
    }

    /// An event in pages of this system.
    fn step(&mut self, asid: Asid, step: Step) {
        match step {
            Step::Map(piece) => self.map(asid, &piece),
            Step::Unmap(range) => {
                let since = self.changes.len();
                for range in self.keep_rest(asid, range) {
                    self.unmap(asid, range);
                }
                self.drop_lonely_rest(asid, range);
                let stale = self.changes.iter_mut().skip(since).filter(|change| change.what == What::Stale);
                stale.for_each(|change| change.flush.unmapped = true);
            }
            Step::Remap(old, new) => {
                self.remap(asid, old, new);
                self.drop_lonely_rest(asid, old);
                self.drop_lonely_rest(asid, new);
            }
            Step::Protect(range, prot) => self.protect(asid, range, prot),
            Step::Discard(range) => self.discard(asid, range),
            Step::Populate(range) => self.populate(asid, range),
            Step::Collapse(range) => self.collapse_asked(asid, range),
            Step::Huge(range, advice) => {
                for region in self.take(asid, range) {
                    let advice = if region.advice == HugeAdvice::Rest { HugeAdvice::Rest } else { advice };
                    self.put(asid, Region { advice, ..region });
                }
                if advice == HugeAdvice::Huge {
                    self.request_advised(asid, range);
                    self.daemons_see_advice(asid, range);
                }
            }
        }
    }

    /// Updates the number of virtual pages of all address spaces after one of them changed.
    fn count_virtual(&mut self, asid: Asid) {
        let space = self.space(asid);
        let now = if space.mapped_by_events { space.regions.pages() } else { 0 };
        let before = std::mem::replace(&mut space.counted_pages, now);
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
        let label = self.label_of(mapping);
        let region = Region {
            range,
            prot: mapping.prot,
            shared: mapping.shared,
            object,
            first_page,
            label,
            advice: HugeAdvice::None,
        };
        self.placement.region_mapped(&self.memory, &region, self.labels.name(label));
        self.adopted(asid, &adopted, &region);
        self.insert(asid, region);
        if let Some(file) = file {
            self.memory.drop_mapper(file);
        }
        if matches!(mapping.backing, Backing::Anonymous | Backing::Heap) {
            self.request(asid, range);
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
                while sticks_out(self, edge) {
                    self.split(asid, edge);
                }
            }
        }
    }

    /// Clears the translations of a range and frees frames without further use.
    fn clear(&mut self, asid: Asid, range: VpnRange) {
        self.demote_edges(asid, range);
        let nodes = self.nodes;
        let (since, unmapped) = (self.changes.len(), self.unmap_range(asid, range));
        for (pages, order) in unmapped {
            self.change(asid, pages, What::Stale);
            let flush = &mut self.changes.last_mut().expect("just reported").flush;
            (flush.order, flush.tables) = (order, self.nodes < nodes);
        }
        self.join_changes(since);
        self.daemons_see_unmap(asid, range);
    }

    pub(crate) fn unmap(&mut self, asid: Asid, range: VpnRange) {
        self.tell_daemons(|daemon, _| daemon.left(asid, range));
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
        let inside: Vec<Region> =
            self.space(asid).regions.iter().filter(|r| r.range.overlaps(&range)).cloned().collect();
        for region in inside {
            let start = region.range.start.max(range.start);
            let part = VpnRange::between(start, region.range.end().min(range.end()));
            self.forget_private(&Region { range: part, first_page: region.page_of(start), ..region }, true);
        }
    }
}
