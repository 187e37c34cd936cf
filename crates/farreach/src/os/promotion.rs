//! Superpage promotion and demotion (T94-40 to T94-42, T94-54 to T94-56): decided by counting mapped pages, never by moving any.

use super::fault::attr;
use super::object::{ObjectKind, Slot};
use super::page_table::Entry;
use super::placement::object_kinds;
use super::region::Region;
use super::{Os, What};
use crate::addr::{Asid, BASE_SHIFT, Pfn, Vpn, VpnRange};
use crate::hw::tlb::Attr;
use crate::params::{Allowed, Key, Params};

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
        Ok(Promotion {
            orders: params.sizes("promote").iter().map(|s| s.trailing_zeros() - BASE_SHIFT).collect(),
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
    /// After `vpn` was mapped: promotes the groups around it that reached their threshold, smallest first.
    pub(super) fn promote_around(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let kind = self.memory.objects.get(region.object).kind;
        for i in 0..self.promotion.orders.len() {
            let order = self.promotion.orders[i];
            let count = self.space(asid).populations.get(&(order, vpn.group(order))).map_or(0, |c| u64::from(*c));
            if !self.promotion.kinds.contains(&kind) || count < self.promotion.threshold(kind, order).max(1) {
                continue;
            }
            self.memory.counts.promotions_tried += 1;
            let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
            let counter = match self.check_group(asid, group, region) {
                Ok(missing) => {
                    self.promote(asid, group, order, region, &missing);
                    continue;
                }
                Err(Refusal::SmallObject) => &mut self.memory.counts.refused_small_object,
                Err(Refusal::Frames) => &mut self.memory.counts.refused_frames,
                Err(Refusal::Attributes) => &mut self.memory.counts.refused_attributes,
                Err(Refusal::NotResident) => &mut self.memory.counts.refused_not_resident,
            };
            *counter += 1;
        }
    }

    /// Whether the group can be one mapping as it is, without moving a page; the pages that would have to be populated. The first
    /// page in ascending order that does not fit gives the reason.
    fn check_group(&mut self, asid: Asid, group: VpnRange, region: &Region) -> Result<Vec<(Vpn, Pfn)>, Refusal> {
        if group.start < region.range.start || group.end() > region.range.end() {
            return Err(Refusal::SmallObject);
        }
        self.memory.counts.pt_probes += group.pages;
        let space = &self.spaces[asid.0 as usize];
        let object = self.memory.objects.get(region.object);
        let populated = self.common_attr(region);
        let (mut base, mut common) = (None, None);
        let mut missing = Vec::new();
        for vpn in group.iter() {
            let offset = vpn.0 - group.start.0;
            let pfn = match space.table.get(vpn) {
                Some(e) if *common.get_or_insert((e.attr, e.cow)) != (e.attr, e.cow) => return Err(Refusal::Attributes),
                Some(e) => e.pfn,
                None if *common.get_or_insert(populated) != populated => return Err(Refusal::Attributes),
                None => match object.slots.get(&region.page_of(vpn)) {
                    Some(Slot::Reserved(pfn, _) | Slot::Busy(pfn)) => {
                        missing.push((vpn, *pfn));
                        *pfn
                    }
                    None => return Err(Refusal::NotResident),
                },
            };
            let start = pfn.0.wrapping_sub(offset);
            if !start.is_multiple_of(group.pages) || *base.get_or_insert(start) != start {
                return Err(Refusal::Frames);
            }
        }
        Ok(missing)
    }

    /// Attributes that a page of the region gets when it is populated.
    fn common_attr(&self, region: &Region) -> (Attr, bool) {
        let cow = !region.shared && self.memory.objects.get(region.object).kind.is_file();
        (attr(region.prot, cow), cow)
    }

    fn promote(&mut self, asid: Asid, group: VpnRange, order: u32, region: &Region, missing: &[(Vpn, Pfn)]) {
        let (attr, cow) = self.common_attr(region);
        for &(vpn, pfn) in missing {
            let (claimed, was_reserved) =
                self.memory.claim(region.object, region.page_of(vpn)).expect("the check found it in place");
            debug_assert_eq!(claimed, pfn);
            if was_reserved {
                self.count_read(region.object);
            }
            self.map_page(asid, vpn, Entry { pfn, attr, cow, present: true, populated: true, ..Entry::default() });
            self.memory.counts.populated_pages += 1;
        }
        let mut dirty = None;
        for vpn in group.iter() {
            let entry = self.spaces[asid.0 as usize].table.get_mut(vpn).expect("all of the group is mapped");
            entry.order = order as u8;
            dirty = dirty.or(entry.dirty.then_some(vpn));
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
        for page in group.iter() {
            if let Some(e) = self.spaces[asid.0 as usize].table.get_mut(page) {
                e.order = 0;
            }
        }
        self.memory.counts.demotions += 1;
        self.change(asid, group, What::Demoted);
    }
}
