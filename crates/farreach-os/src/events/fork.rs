//! A process begins as a copy of another, and ends.

use crate::contract::What;
use crate::frames::numbers;
use crate::object::ObjectId;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::region::Region;
use crate::space::Space;
use farreach_types::addr::Asid;
use std::collections::{BTreeSet, HashMap};

impl Os {
    /// The child gets the same regions; private pages are shared until one side stores to them (T94-57).
    pub(crate) fn fork(&mut self, asid: Asid, child: Asid) {
        self.memory.counts.forks += 1;
        self.segment_before_fork(asid, child);
        self.space(child);
        let parent = self.space(asid);
        let regions: Vec<Region> = parent.regions.iter().cloned().collect();
        let (mapped_by_events, parts, program, thp) =
            (parent.mapped_by_events, parent.parts.clone(), parent.program.clone(), parent.thp);
        let mut copies: HashMap<ObjectId, ObjectId> = HashMap::new();
        for region in &regions {
            if self.memory.objects.get(region.object).private && !copies.contains_key(&region.object) {
                copies.insert(region.object, self.memory.objects.copy_for_fork(region.object));
            }
        }
        if self.placement.forks_objects() {
            for (&parent, &child) in &copies {
                self.memory.reservations.detach(parent);
                for object in [parent, child] {
                    self.memory.objects.get_mut(object).own = Some(BTreeSet::new());
                }
            }
        }
        let copy = |object: ObjectId| copies.get(&object).copied().unwrap_or(object);
        *self.space(child) =
            Space { mapped_by_events, parts, program, thp, paged_until_exit_of: vec![child], ..Space::default() };
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
                    let new = attributes(region.prot, true);
                    if entry.attr != new {
                        entry.attr = new;
                        protected.push(vpn);
                    }
                }
                *entry
            });
            let entry = entry.expect("just listed");
            if self.memory.objects.get(region.object).private && !numbers::is_zeros(entry.pfn) {
                self.memory.rename(copy(region.object), region.page_of(vpn), entry.pfn);
            }
            let inherited = Entry { touched: false, accessed: false, populated: false, forbidden: false, ..entry };
            self.map_page(child, vpn, inherited);
        }
        self.ranges_changed(asid, &protected);
        self.stale(asid, &protected);
    }

    /// A process ends.
    pub(crate) fn end(&mut self, asid: Asid) {
        let all = self.all_pages();
        self.space(asid);
        self.ranges_end(asid);
        self.segment_end(asid);
        self.placement.release_kept(&mut self.memory, Some(asid));
        self.spaces[asid.0 as usize].ranges = None;
        self.unmap_range(asid, all);
        for region in self.take(asid, all) {
            self.forget_private(&region, false);
            self.memory.drop_mapper(region.object);
        }
        let counted_pages = self.space(asid).counted_pages;
        *self.space(asid) = Space { mapped_by_events: true, ended: true, counted_pages, ..Space::default() };
        self.tell_daemons(|daemon, _| daemon.ended(asid));
        self.change(asid, all, What::Gone);
    }
}
