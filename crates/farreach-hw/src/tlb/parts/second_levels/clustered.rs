//! Second levels with entries for several pages of one line of the page table, which the walk reads anyway.
//!
//! * A clustered TLB (RMM15-42, AMB-91): those of eight aligned pages that lie, in any order, in one group of eight
//!   aligned frames.
//! * A coalesced TLB (CoLT, Pham et al., MICRO 2012): those of four aligned pages, or eight, that make one run with the
//!   page that missed, in consecutive frames of any alignment.
//!
//! The addition `runs` behind runs of four is CoLT-All (COL-1). An ordinary second level beside groups of eight is the
//! machine of the paper about clustered TLBs (Pham et al., HPCA 2014, COL-3).

use super::{ListedSecondLevel, shown};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::level::{self, Level, Size};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::hierarchy::{SecondLevel, count_second_level_hit};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::{NONE, Tag};
use crate::tlb::parts::store::{Contents, Store};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};

/// Pages of a cluster at most: the page table entries of one 64-byte line.
const MOST: usize = 8;

/// RMM15-42.
pub const CLUSTER_ENTRIES: Key = Key {
    name: "cluster_entries",
    default: "512",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the clustered second level",
};
/// RMM15-42.
pub const CLUSTER_WAYS: Key = Key {
    name: "cluster_ways",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "entries per set of the clustered second level; 0: fully associative",
};

/// As in a clustered TLB; CoLT-SA has 4.
pub const CLUSTER_PAGES: Key = Key {
    name: "cluster_pages",
    default: "8",
    allowed: Allowed::PowerOfTwo { min: 2, max: MOST as u64 },
    about: "aligned pages that can share an entry of the clustered second level",
};
/// RMM15-42, or CoLT.
pub const CLUSTER_FRAMES: Key = Key {
    name: "cluster_frames",
    default: "group",
    allowed: Allowed::OneOf(&["group", "run"]),
    about: "pages that share an entry: group: all in one aligned group of as many frames; run: a run of pages in \
            consecutive frames (CoLT)",
};

/// COL-3.
pub const CLUSTER_BESIDE: Key = Key {
    name: "cluster_beside",
    default: "none",
    allowed: Allowed::Texts,
    about: "an ordinary second level beside the clustered one, as l2, for pages that share an entry with no other, and \
            for sizes that it has; none: all go to the clustered one, and superpages nowhere",
};

/// The second level as the registry knows it.
pub const LISTED: ListedSecondLevel = ListedSecondLevel {
    name: "clustered",
    about: "entries for clusters of pages (RMM15-42, COL-3) or runs of them (CoLT-SA)",
    keys: &[&CLUSTER_ENTRIES, &CLUSTER_WAYS, &CLUSTER_PAGES, &CLUSTER_FRAMES, &CLUSTER_BESIDE],
    check: |params| host::check(params, &shown(&LISTED), Entries::Runs),
    reach: |params| {
        let clusters = (params.int(CLUSTER_ENTRIES.name) * params.int(CLUSTER_PAGES.name)) << 12;
        clusters + level::reach(params, CLUSTER_BESIDE.name)
    },
    build: |params| Ok(Box::new(Clusters::new(params)?)),
    ..ListedSecondLevel::NEW
};

/// The pages of a cluster and their frames.
#[derive(Clone, Copy, Default)]
struct Cluster {
    /// First frame of the group; in a run, the frame that the first page of the cluster would have.
    frames: Pfn,
    attr: Attr,
    /// Frame of each page, from there.
    places: [u8; MOST],
    valid: u8,
}

impl Contents for Cluster {
    fn subblocks(&self) -> Option<u64> {
        Some(self.valid.into())
    }
    fn clear(&mut self, mask: u64) {
        self.valid &= !(mask as u8);
    }
}

impl Cluster {
    /// The pages of an aligned group of `2^order` that share group of frames and attributes with this one.
    fn group((asid, vpn): (Asid, Vpn), page: Translation, order: u32, table: &dyn PageTableView) -> Cluster {
        let mut cluster = Cluster { frames: page.pfn.align_down(order), attr: page.attr, ..Cluster::default() };
        for i in 0..1 << order {
            let pte = table.pte(asid, Vpn(vpn.align_down(order).0 + i));
            if let Some(p) = pte.filter(|p| p.pfn.align_down(order) == cluster.frames && p.attr == cluster.attr) {
                cluster.valid |= 1 << i;
                cluster.places[i as usize] = p.pfn.offset_in(order) as u8;
            }
        }
        cluster
    }
    /// The pages of it that make a run with this one, in consecutive frames with equal attributes.
    fn run((asid, vpn): (Asid, Vpn), page: Translation, order: u32, table: &dyn PageTableView) -> Cluster {
        let (base, at) = (vpn.align_down(order).0, vpn.offset_in(order));
        let frames = Pfn(page.pfn.0.wrapping_sub(at));
        let mut cluster = Cluster { frames, attr: page.attr, places: std::array::from_fn(|i| i as u8), valid: 1 << at };
        let joins = |i: &u64| {
            let pte = table.pte(asid, Vpn(base + i));
            pte.is_some_and(|p| p.pfn.0 == frames.0.wrapping_add(*i) && p.attr == page.attr)
        };
        let (before, after) = ((0..at).rev().take_while(joins), (at + 1..1 << order).take_while(joins));
        before.chain(after).for_each(|i| cluster.valid |= 1 << i);
        cluster
    }
    fn has(&self, offset: u64) -> bool {
        self.valid >> offset & 1 != 0
    }
    fn translate(&self, offset: u64) -> Translation {
        Translation { pfn: Pfn(self.frames.0.wrapping_add(self.places[offset as usize].into())), attr: self.attr }
    }
}

/// The second level. A cluster whose pages lie in several groups of frames, or in several runs, has several entries.
struct Clusters {
    store: Store<Cluster>,
    /// log2 of the pages of a cluster.
    order: u8,
    runs: bool,
    /// COL-3.
    beside: Option<Level>,
    ignored_report: Unfiltered,
}

impl Clusters {
    fn new(params: &Params) -> Result<Clusters, String> {
        let geometry = Geometry::new(params.int("cluster_entries"), params.int("cluster_ways"))?;
        let seed = params.int("seed").wrapping_add(64);
        Ok(Clusters {
            store: Store::new(geometry, params, seed)?,
            order: params.int("cluster_pages").trailing_zeros() as u8,
            runs: params.text("cluster_frames") == "run",
            beside: Level::new(params, CLUSTER_BESIDE.name, seed.wrapping_add(1))?,
            ignored_report: Unfiltered::unread(),
        })
    }

    /// Does something to the level beside the clusters. 0 if there is none.
    fn beside(&mut self, act: impl FnOnce(&mut Level, &mut Unfiltered) -> u64) -> u64 {
        self.beside.as_mut().map_or(0, |level| act(level, &mut self.ignored_report))
    }

    /// COL-3: a page that shares with no other, or a superpage of a size that is there.
    fn fill_beside(&mut self, at: Lookup, page: Translation, order: u8, counts: &mut TlbCounts) -> Option<Victim> {
        let level = self.beside.as_mut()?;
        let same_leaf = |fit: &u8| leaf_level(*fit, RADIX) == leaf_level(order, RADIX);
        let fit = level.fitting(order).filter(same_leaf)?;
        let evictions = counts.evictions;
        level.fill((at.asid, at.vpn), page, Size::whole(fit), counts, &mut self.ignored_report);
        (counts.evictions > evictions).then(|| level.victim(fit))
    }

    fn offset(&self, vpn: Vpn) -> u64 {
        vpn.offset_in(self.order.into())
    }

    fn slots(&self, asid: Asid, vpn: Vpn) -> impl Iterator<Item = u32> + '_ {
        let first = self.store.first(Tag::of(asid, vpn, self.order));
        let some = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(some(first), move |&slot| some(self.store.next(slot)))
    }

    fn find(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let mut hits = self.slots(asid, vpn).filter(|&slot| self.store.get(slot).has(self.offset(vpn)));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "T94-17: two entries match {asid:?} {vpn:?}");
        hit
    }
}

impl SecondLevel for Clusters {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        let Some(slot) = self.find(at.asid, at.vpn) else {
            let leaf = self.beside.as_mut()?.lookup(at.asid, at.vpn, &mut self.ignored_report)?;
            count_second_level_hit(counts, at.kind);
            return Some((leaf.translate(at.vpn), leaf.order));
        };
        self.store.touch(slot, 0, &mut self.ignored_report);
        count_second_level_hit(counts, at.kind);
        Some((self.store.get(slot).translate(self.offset(at.vpn)), 0))
    }

    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        if leaf_level(order, RADIX) > 0 {
            return self.fill_beside(at, page, order, counts);
        }
        let evictions = counts.evictions;
        let of = if self.runs { Cluster::run } else { Cluster::group };
        let cluster = of((at.asid, at.vpn), page, self.order.into(), table);
        if self.beside.is_some() && cluster.valid.count_ones() == 1 {
            return self.fill_beside(at, page, 0, counts);
        }
        let same = |c: &Cluster| (c.frames, c.attr) == (cluster.frames, cluster.attr);
        let joined = self.slots(at.asid, at.vpn).find(|&slot| same(self.store.get(slot)));
        let slot = match joined {
            Some(slot) => {
                counts.merges += 1;
                counts.preloaded += u64::from((cluster.valid & !self.store.get(slot).valid).count_ones()) - 1;
                // There may be remaining pages of another run on the same frames.
                let valid = cluster.valid | self.store.get(slot).valid;
                *self.store.get_mut(slot) = Cluster { valid, ..cluster };
                slot
            }
            None => {
                counts.preloaded += u64::from(cluster.valid.count_ones()) - 1;
                let tag = Tag::of(at.asid, at.vpn, self.order);
                self.store.place(tag, cluster, counts, &mut self.ignored_report)
            }
        };
        self.store.replay(slot, 0, &mut self.ignored_report);
        let tag = self.store.last_victim();
        (counts.evictions > evictions).then(|| Victim { asid: tag.asid(), vpn: tag.base(), order: tag.order() })
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        // Each page of a cluster has a translation of its own, which stays valid.
        let clusters =
            if demoted { 0 } else { self.store.invalidate(asid, pages, self.order, &mut self.ignored_report) };
        clusters + self.beside(|level, report| level.drop_overlapping(asid, pages, demoted.into(), report))
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        let clusters = self.store.drop_space(asid, &mut self.ignored_report);
        clusters + self.beside(|level, report| level.drop_space(asid, report))
    }

    fn switch(&mut self, to: Asid) -> u64 {
        let clusters = self.store.switch(to, &mut self.ignored_report);
        clusters + self.beside(|level, report| level.switch(to, report))
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        let cluster = self.find(asid, vpn).map(|slot| self.store.get(slot).translate(self.offset(vpn)));
        cluster.or_else(|| self.beside.as_ref()?.probe(asid, vpn))
    }

    fn entries(&self) -> usize {
        self.store.entries() + self.beside.as_ref().map_or(0, Level::entries)
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        into.extend(self.store.slots().map(|slot| {
            let (tag, cluster) = (self.store.tag(slot), self.store.get(slot));
            let pages =
                (0..1 << self.order).filter(|i| cluster.valid >> i & 1 != 0).map(|i| (i, cluster.translate(i), false));
            EntryView {
                slot: before + slot as usize,
                asid: tag.asid(),
                base: tag.base(),
                order: self.order,
                pages: pages.collect(),
                sb_enabled: None,
                used: None,
            }
        }));
        if let Some(level) = &self.beside {
            level.views(before + self.store.entries(), into);
        }
    }
}
