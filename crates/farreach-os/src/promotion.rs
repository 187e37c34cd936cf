//! Superpage promotion and demotion (T94-40 to T94-42, T94-54 to T94-56): decided by counting mapped pages, never by moving any.

use super::fault::attr;
use super::object::ObjectKind;
use super::page_index::PageLocation;
use super::page_table::Entry;
use super::placement::object_kinds;
use super::region::Region;
use super::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};

const PROMOTE: Key = Key {
    name: "promote",
    default: "none",
    allowed: Allowed::PageSizesOrNone { min: 8192, max: 1 << 30 },
    about: "superpage sizes that the system promotes to (T94-54)",
};
const PROMOTE_KINDS: Key = Key {
    name: "promote_kinds",
    default: "file+nfs+heap",
    allowed: Allowed::Texts,
    about: "kinds of object that are promoted: file, nfs, heap (all anonymous memory) (T94-77)",
};
const THRESHOLD: Allowed = Allowed::Number { min: 0.0, max: 1.0 };
const HEAP: Key = Key {
    name: "threshold_heap",
    default: "1.0",
    allowed: THRESHOLD,
    about: "share of a superpage's pages that must be mapped before promotion: anonymous memory",
};
const DISK: Key = Key { name: "threshold_file", default: "0.5", allowed: THRESHOLD, about: "as before: files on a local disk" };
const NFS: Key = Key { name: "threshold_nfs", default: "0.75", allowed: THRESHOLD, about: "as before: remote files" };
const STRICT: Key = Key {
    name: "strict_threshold",
    default: "false",
    allowed: Allowed::Flag,
    about: "promote when the share exceeds the threshold instead of reaching it (AMB-2)",
};

/// All keys of promotion.
pub const KEYS: &[&Key] = &[&PROMOTE, &PROMOTE_KINDS, &HEAP, &DISK, &NFS, &STRICT];

/// When to promote.
pub struct Promotion {
    orders: Vec<u32>,
    kinds: Vec<ObjectKind>,
    heap: f64,
    disk: f64,
    nfs: f64,
    strict: bool,
}

impl Promotion {
    /// From the keys.
    pub fn new(params: &Params) -> Result<Promotion, String> {
        let orders: Vec<u32> = params.sizes("promote").iter().map(|&s| params.order("promote", s)).collect::<Result<_, _>>()?;
        if orders.first() == Some(&0) {
            return Err(format!(
                "promote = {} is not allowed: that is page_size; promote must be larger",
                params.int("page_size")
            ));
        }
        Ok(Promotion {
            orders,
            kinds: object_kinds(params, "promote_kinds")?,
            heap: params.number("threshold_heap"),
            disk: params.number("threshold_file"),
            nfs: params.number("threshold_nfs"),
            strict: params.flag("strict_threshold"),
        })
    }

    /// log2 of the base pages of each superpage size, ascending.
    pub fn orders(&self) -> &[u32] {
        &self.orders
    }

    /// Mapped pages at which a group of `2^order` pages of such an object is promoted.
    pub fn threshold(&self, kind: ObjectKind, order: u32) -> u64 {
        let share = match kind {
            ObjectKind::Anonymous => self.heap,
            ObjectKind::Disk => self.disk,
            ObjectKind::Nfs => self.nfs,
        };
        let pages = share * (1u64 << order) as f64;
        if self.strict { pages.floor() as u64 + 1 } else { pages.ceil() as u64 }
    }
}

/// Why a group is not promoted (T94-55).
enum Refusal {
    SmallObject,
    Frames,
    Attributes,
    NotResident,
}

impl Os {
    /// After `vpn` was mapped: promotes the groups around it that reached their threshold, smallest first, and are larger than what it is
    /// mapped by.
    pub(super) fn promote_around(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let kind = self.memory.objects.get(region.object).kind;
        for i in 0..self.promotion.orders.len() {
            let order = self.promotion.orders[i];
            let count = self.space(asid).populations.get(&(order, vpn.group(order))).map_or(0, |c| u64::from(*c));
            let is = self.space(asid).table.get(vpn).map_or(0, |e| u32::from(e.order));
            if order <= is || !self.promotion.kinds.contains(&kind) || count < self.promotion.threshold(kind, order).max(1) {
                continue;
            }
            self.try_promotion(asid, vpn, region, order);
        }
    }

    /// After `vpn` was mapped: maps the large page around it as one, if its frames were allocated so. Counted as a promotion.
    pub(super) fn map_large(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let Some(order) = self.placement.large() else { return };
        let object = self.memory.objects.get(region.object);
        if object.large.contains(&(region.page_of(vpn).wrapping_add(object.shift) >> order)) {
            self.try_promotion(asid, vpn, region, order);
        }
    }

    fn try_promotion(&mut self, asid: Asid, vpn: Vpn, region: &Region, order: u32) {
        self.memory.counts.promotions_tried += 1;
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let counter = match self.check_group(asid, group, region) {
            Ok(missing) => return self.promote(asid, group, order, &missing),
            Err(Refusal::SmallObject) => &mut self.memory.counts.refused_small_object,
            Err(Refusal::Frames) => &mut self.memory.counts.refused_frames,
            Err(Refusal::Attributes) => &mut self.memory.counts.refused_attributes,
            Err(Refusal::NotResident) => &mut self.memory.counts.refused_not_resident,
        };
        *counter += 1;
    }

    /// Whether the group can be one mapping as it is, without moving a page; the pages that would have to be populated.
    fn check_group(&mut self, asid: Asid, group: VpnRange, region: &Region) -> Result<Vec<(Vpn, Pfn)>, Refusal> {
        self.memory.counts.pt_probes += group.pages;
        let space = &self.spaces[asid.0 as usize];
        let object = self.memory.objects.get(region.object);
        let page_of = |vpn: Vpn| region.first_page.wrapping_add(vpn.0.wrapping_sub(region.range.start.0));
        let file = object.kind.is_file();
        let (mut base, mut common, mut missing) = (None, None, Vec::new());
        let (mut frames, mut attributes, mut resident) = (true, true, true);
        for vpn in group.iter() {
            // The object must fill the group; it may do so in several regions that differ in protection.
            let here = space.regions.find(vpn).filter(|r| r.object == region.object && r.page_of(vpn) == page_of(vpn));
            let here = here.ok_or(Refusal::SmallObject)?;
            let cow = file && !here.shared;
            let (pfn, has) = match (space.table.get(vpn), object.page_index.get(page_of(vpn))) {
                (Some(e), _) => (Some(e.pfn), (e.attr, e.cow)),
                (None, Some(PageLocation::Reserved(pfn, _) | PageLocation::Busy(pfn))) => {
                    missing.push((vpn, pfn));
                    (Some(pfn), (attr(here.prot, cow), cow))
                }
                (None, None) => (None, (attr(here.prot, cow), cow)),
            };
            attributes &= *common.get_or_insert(has) == has;
            resident &= pfn.is_some();
            if let Some(pfn) = pfn {
                let start = pfn.0.wrapping_sub(vpn.0 - group.start.0);
                frames &= start.is_multiple_of(group.pages) && *base.get_or_insert(start) == start;
            }
        }
        match (frames, attributes, resident) {
            (false, ..) => Err(Refusal::Frames),
            (_, false, _) => Err(Refusal::Attributes),
            (.., false) => Err(Refusal::NotResident),
            _ => Ok(missing),
        }
    }

    fn promote(&mut self, asid: Asid, group: VpnRange, order: u32, missing: &[(Vpn, Pfn)]) {
        for &(vpn, pfn) in missing {
            let here = self.region(asid, vpn);
            let cow = !here.shared && self.memory.objects.get(here.object).kind.is_file();
            let attr = attr(here.prot, cow);
            let (claimed, was_reserved) =
                self.memory.claim(here.object, here.page_of(vpn)).expect("the check found it in place");
            debug_assert_eq!(claimed, pfn);
            if was_reserved {
                self.count_read(here.object);
            }
            self.map_page(
                asid,
                vpn,
                Entry { pfn, label: here.label, attr, cow, present: true, populated: true, ..Entry::default() },
            );
            self.memory.counts.populated_pages += 1;
        }
        let mut dirty = None;
        for vpn in group.iter() {
            let is_dirty = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
                entry.order = order as u8;
                entry.dirty
            });
            dirty = dirty.or(is_dirty.expect("all of the group is mapped").then_some(vpn));
        }
        if let Some(vpn) = dirty {
            self.mark_dirty(asid, vpn, order as u8);
        }
        self.memory.counts.promotions += 1;
        self.change(asid, group, What::Promoted);
    }

    /// Splits the superpage that a page lies in, if any (T94-42).
    pub(super) fn demote(&mut self, asid: Asid, vpn: Vpn) {
        let order = match self.space(asid).table.get(vpn) {
            Some(e) if e.order > 0 => u32::from(e.order),
            _ => return,
        };
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        self.keep_census(asid);
        self.spaces[asid.0 as usize].table.set_order(group, 0);
        self.memory.counts.demotions += 1;
        self.change(asid, group, What::Demoted);
    }
}
