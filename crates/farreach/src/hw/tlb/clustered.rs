//! A clustered second level (RMM15-42, AMB-91): an entry holds those of eight aligned pages that lie, in any order, in one group of
//! eight aligned frames. The miss reads all eight page table entries in one line.

use super::hierarchy::{Behind, FIRST_LEVEL_KEYS, Hierarchy, count_second_level_hit, joined};
use super::keys::Geometry;
use super::level;
use super::store::{Contents, Store};
use super::tag_index::{NONE, Tag};
use super::walker::leaf_level;
use super::{Attr, Design, EntryView, Lookup, Noise, PageTableView, Pte, Translation};
use crate::addr::{Asid, Pfn, Vpn, VpnRange};
use crate::counts::TlbCounts;
use crate::event::Kind;
use crate::params::{Allowed, Key, Params};

/// log2 of the pages of a cluster: the page table entries of one 64-byte line.
const ORDER: u8 = 3;

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

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "clustered",
    about: "a hierarchy whose second level has entries for clusters of eight pages (RMM15-42)",
    keys: &joined::<27>(&[&CLUSTER_ENTRIES, &CLUSTER_WAYS], FIRST_LEVEL_KEYS),
    build: |params| Ok(Box::new(Hierarchy::new(params, Clusters::new(params)?)?)),
    bits: |_| None,
    reach: |params| level::reach(params, "l1d").max(params.int("cluster_entries") << (12 + ORDER)),
};

/// Which pages of a cluster lie where.
#[derive(Clone, Copy, Default)]
struct Cluster {
    /// Group of eight frames.
    frames: Pfn,
    attr: Attr,
    /// Frame of each page in the group.
    places: [u8; 1 << ORDER],
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
    /// The pages of the line that share group of frames and attributes with this one.
    fn of(asid: Asid, vpn: Vpn, page: Translation, table: &dyn PageTableView) -> Cluster {
        let order = u32::from(ORDER);
        let mut cluster = Cluster { frames: page.pfn.align_down(order), attr: page.attr, ..Cluster::default() };
        for i in 0..1 << ORDER {
            let pte = table.pte(asid, Vpn(vpn.align_down(order).0 + i));
            if let Some(p) = pte.filter(|p| p.pfn.align_down(order) == cluster.frames && p.attr == cluster.attr) {
                cluster.valid |= 1 << i;
                cluster.places[i as usize] = p.pfn.offset_in(order) as u8;
            }
        }
        cluster
    }
    fn has(&self, vpn: Vpn) -> bool {
        self.valid >> vpn.offset_in(ORDER.into()) & 1 != 0
    }
    fn translate(&self, offset: u64) -> Translation {
        Translation { pfn: Pfn(self.frames.0 | u64::from(self.places[offset as usize])), attr: self.attr }
    }
}

/// The second level. A cluster whose pages lie in several groups of frames has several entries.
struct Clusters {
    store: Store<Cluster>,
    unheard: Noise,
}

impl Clusters {
    fn new(params: &Params) -> Result<Clusters, String> {
        let geometry = Geometry::new(params.int("cluster_entries"), params.int("cluster_ways"))?;
        let seed = params.int("seed").wrapping_add(64);
        Ok(Clusters { store: Store::new(geometry, params, seed), unheard: Noise::default() })
    }

    fn slots(&self, asid: Asid, vpn: Vpn) -> impl Iterator<Item = u32> + '_ {
        let first = self.store.first(Tag::of(asid, vpn, ORDER));
        let some = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(some(first), move |&slot| some(self.store.next(slot)))
    }

    fn find(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let mut hits = self.slots(asid, vpn).filter(|&slot| self.store.get(slot).has(vpn));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "T94-17: two entries match {asid:?} {vpn:?}");
        hit
    }
}

impl Behind for Clusters {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts) -> Option<(Translation, u8)> {
        let slot = self.find(at.asid, at.vpn)?;
        self.unheard.clear();
        self.store.touch(slot, &mut self.unheard);
        count_second_level_hit(counts, at.kind);
        Some((self.store.get(slot).translate(at.vpn.offset_in(ORDER.into())), 0))
    }

    fn fill(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView, counts: &mut TlbCounts) {
        if leaf_level(order) > 0 {
            return;
        }
        self.unheard.clear();
        let cluster = Cluster::of(at.asid, at.vpn, page, table);
        let same = |c: &Cluster| (c.frames, c.attr) == (cluster.frames, cluster.attr);
        let joined = self.slots(at.asid, at.vpn).find(|&slot| same(self.store.get(slot)));
        let slot = match joined {
            Some(slot) => {
                counts.merges += 1;
                counts.preloaded += u64::from((cluster.valid & !self.store.get(slot).valid).count_ones()) - 1;
                *self.store.get_mut(slot) = cluster;
                slot
            }
            None => {
                counts.preloaded += u64::from(cluster.valid.count_ones()) - 1;
                let tag = Tag::of(at.asid, at.vpn, ORDER);
                self.store.place(tag, cluster, None, counts, &mut self.unheard).expect("no slot is kept")
            }
        };
        self.store.replay(slot, &mut self.unheard);
    }

    fn takes(&self, _: Kind) -> bool {
        true
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, _: &mut TlbCounts) -> u64 {
        self.unheard.clear();
        // Each page has a translation of its own, which stays true.
        if demoted { 0 } else { self.store.invalidate(asid, pages, ORDER, &mut self.unheard) }
    }

    fn drop_space(&mut self, asid: Asid, _: &mut TlbCounts) -> u64 {
        self.unheard.clear();
        self.store.drop_space(asid, &mut self.unheard)
    }

    fn switch(&mut self, to: Asid, _: &mut TlbCounts) -> u64 {
        self.unheard.clear();
        self.store.switch(to, &mut self.unheard)
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).map(|slot| self.store.get(slot).translate(vpn.offset_in(ORDER.into())))
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        into.extend(self.store.slots().map(|slot| {
            let (tag, cluster) = (self.store.tag(slot), self.store.get(slot));
            let pages = (0..1 << ORDER).filter(|i| cluster.valid >> i & 1 != 0).map(|i| (i, cluster.translate(i), false));
            EntryView {
                slot: before + slot as usize,
                asid: tag.asid(),
                base: tag.base(),
                order: ORDER,
                pages: pages.collect(),
                sb_enabled: None,
                used: None,
            }
        }));
    }
}
