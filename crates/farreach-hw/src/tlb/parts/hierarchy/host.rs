//! The second dimension of a virtual machine: the program's own page table or segment leads to guest physical memory,
//! and a host translates that to system memory (DS13-40 to DS13-42, F-1).
//!
//! TLBs hold the composed translation, so that a hit is as fast as without a host. The host keeps its guest in
//! contiguous memory, and system frames have the numbers of the guest's frames; the host's tables over it, and the cost
//! of reading them, are modelled here.

use super::cores::CORES;
use super::nodes::{Entry, Nodes, Pointer, RADIX};
use super::walk::by_caches;
use crate::cache::{NodeRead, Port};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};
use farreach_types::translation::Segment;

/// The first dimension.
pub const GUEST: Key = Key {
    name: "guest",
    default: "none",
    allowed: Allowed::OneOf(&["none", "walk", "segment", "composed"]),
    about: "the program is in a virtual machine, where its system translates to guest physical memory by walk: page \
            table; segment: registers, page table outside; composed: as segment, by registers that the hypervisor made \
            to lead to system memory; none: no virtual machine",
};
/// The second.
pub const HOST: Key = Key {
    name: "host",
    default: "walk",
    allowed: Allowed::OneOf(&["walk", "segment"]),
    about: "what translates guest physical to system memory: walk: a page table of the host; segment: registers over \
            all memory of the guest",
};
/// Leaves of the second.
pub const HOST_PAGE: Key = Key {
    name: "host_page",
    default: "4K",
    allowed: Allowed::OneOf(&["4K", "2M", "1G"]),
    about: "pages in which the host's table has the memory of the guest",
};
/// As [`super::walk::WALK_LEVELS`].
pub const HOST_LEVELS: Key = Key {
    name: "host_levels",
    default: "4",
    allowed: Allowed::Int { min: 4, max: 5 },
    about: "levels of the host's page table",
};
/// As in processors.
pub const HOST_FRACTURE: Key = Key {
    name: "host_fracture",
    default: "true",
    allowed: Allowed::Flag,
    about: "TLB entries are no larger than host_page; false: as large as the guest's pages, as if it were known that \
            host pages lie in a row",
};
/// Bhargava et al., ASPLOS 2008.
pub const NESTED_TLB: Key = Key {
    name: "nested_tlb",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "cached translations of the host, of pages and of nodes of the guest's table, fully associative; 0: none",
};

/// All of them.
pub(in crate::tlb) const KEYS: [&Key; 6] = [&GUEST, &HOST, &HOST_PAGE, &HOST_LEVELS, &HOST_FRACTURE, &NESTED_TLB];

/// The reach of a design's entries, as it matters with a host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::tlb) enum Entries {
    /// One page each.
    Pages,
    /// One page each, with segment registers beside them; `served`: the registers translate the pages inside the
    /// segment.
    Segment { served: bool },
    /// Several pages in consecutive frames or in a group, derived from the guest's page table alone.
    Runs,
    /// Ranges, from the guest's range table.
    Ranges,
}

/// Base pages for which there is a page table: those of x86-64, and the other granules of Arm.
const GRANULES: [Bytes; 3] = [Bytes(4 << 10), Bytes(16 << 10), Bytes(64 << 10)];

/// Refuses impossible combinations with a part whose entries reach so far; `kind`: its key and value.
pub(in crate::tlb) fn check(params: &Params, kind: &str, entries: Entries) -> Result<(), String> {
    let (guest, host) = (params.text(GUEST.name), params.text(HOST.name));
    let refuse = |what: &str, with: &str, why: &str| Err(format!("{what} is not allowed with {with}: {why}"));
    let (of_guest, of_host) = (format!("guest = {guest}"), format!("host = {host}"));
    let page = Bytes(params.int(PAGE_SIZE.name));
    let of_page = format!("page_size = {page}");
    match (page == GRANULES[0], entries, guest) {
        (true, ..) => {}
        (false, Entries::Pages, "none") if GRANULES.contains(&page) => {}
        (false, Entries::Pages, "none") => {
            return Err(format!("{of_page} is not allowed: page tables have base pages of 4K, 16K or 64K"));
        }
        (false, Entries::Pages, _) => {
            return refuse(&of_page, &of_guest, "tables of virtual machines have pages of 4K, 2M and 1G");
        }
        (false, ..) => return refuse(&of_page, kind, "its page table is that of x86-64, with pages of 4K, 2M and 1G"),
    }
    match (guest, entries) {
        ("none", _) if host != HOST.default => {
            return refuse(
                &of_host,
                &of_guest,
                "there is no virtual machine; guest must be one of walk, segment, composed",
            );
        }
        ("none", _) => return Ok(()),
        ("segment" | "composed", Entries::Pages | Entries::Runs | Entries::Ranges) => {
            return refuse(
                &of_guest,
                kind,
                "it has no segment registers; guest must be none or walk, or kind must be segment",
            );
        }
        ("walk", Entries::Segment { served: true }) => {
            let why = "what lies inside the segment is not walked for; guest must be none, segment or composed, or \
                       segment_served_by must be pages";
            return refuse(&of_guest, "segment_served_by = registers", why);
        }
        ("segment" | "composed", Entries::Segment { served: false }) => {
            let why = "pages, and not the registers, translate inside the segment; guest must be none or walk";
            return refuse(&of_guest, "segment_served_by = pages", why);
        }
        _ => {}
    }
    let cores = params.int(CORES.name);
    if host == "walk" && params.int(NESTED_TLB.name) > 0 && cores > 1 {
        let what = format!("nested_tlb = {}", params.int(NESTED_TLB.name));
        return refuse(
            &what,
            &format!("cores = {cores}"),
            "each core would have a guest page table in places of its own",
        );
    }
    let (walks, fracture) = (host == "walk", params.flag(HOST_FRACTURE.name));
    match entries {
        Entries::Ranges if walks => refuse(
            &of_host,
            kind,
            "no table says which ranges of the guest are ranges of the system; host must be segment",
        ),
        Entries::Runs if walks && fracture => refuse(
            "host_fracture = true",
            &format!("{kind} and {of_host}"),
            "its entries reach beyond one page of the guest, and of the host perhaps; host_fracture must be false, or \
             host must be segment",
        ),
        _ => Ok(()),
    }
}

/// A page table of the host, and the cache of its translations. Its upper levels are not cached.
pub(in crate::tlb) struct Host {
    /// Level of its leaves.
    leaf: u8,
    levels: u8,
    fracture: bool,
    /// By guest physical page.
    cache: Option<Store<Pointer>>,
    /// Addresses of its nodes, if references are recorded.
    nodes: Option<Nodes>,
    /// Walks are never filtered.
    ignored_report: Unfiltered,
}

impl Host {
    /// The first frame of the guest's tables: above all memory of programs, and within the reach of four levels.
    pub const GUEST_TABLES: u64 = 1 << 35;
    /// The first frame of the host's.
    const TABLES: u64 = 1 << 40;

    /// `None`: no virtual machine, or one whose host adds without looking anything up.
    pub fn new(params: &Params, seed: u64) -> Result<Option<Host>, String> {
        if params.text(GUEST.name) == "none" || params.text(HOST.name) == "segment" {
            return Ok(None);
        }
        let entries = params.int(NESTED_TLB.name);
        let store = |geometry| Store::new(geometry, params, seed);
        Ok(Some(Host {
            leaf: match params.text(HOST_PAGE.name) {
                "4K" => 0,
                "2M" => 1,
                _ => 2,
            },
            levels: params.int(HOST_LEVELS.name) as u8,
            fracture: params.flag(HOST_FRACTURE.name),
            cache: (entries > 0).then(|| store(Geometry::new(entries, 0)?)).transpose()?,
            nodes: by_caches(params).then(|| Nodes::from(Host::TABLES)),
            ignored_report: Unfiltered::unread(),
        }))
    }

    /// All memory that the guest can have, in one piece: the target of a host's segment, against which guests' segments
    /// are checked.
    pub fn memory(params: &Params) -> Segment {
        Segment { base: Vpn(0), limit: Vpn(1 << (u64::from(RADIX) * params.int(HOST_LEVELS.name))), pfn: Pfn(0) }
    }

    /// See [`HOST_FRACTURE`].
    pub fn largest_entry(&self) -> Option<u8> {
        self.fracture.then_some(RADIX * self.leaf)
    }

    /// Translates a guest physical page.
    pub fn translate(&mut self, page: Pfn, counts: &mut TlbCounts, port: &mut Port) {
        let TlbCounts { host_walk: counts, walk_caches, .. } = counts;
        let page = Vpn(page.0);
        if let Some(cache) = &mut self.cache {
            let tag = Tag::of(Asid(0), page, RADIX * self.leaf);
            let found = cache.find(tag);
            match found {
                Some(slot) => cache.touch(slot, 0, &mut self.ignored_report),
                None => _ = cache.place(tag, Pointer, &mut TlbCounts::default(), &mut self.ignored_report),
            }
            if found.is_some() {
                counts.nested_tlb_hits += 1;
                return;
            }
        }
        counts.walks += 1;
        counts.references += u64::from(self.levels - self.leaf);
        let Some(nodes) = &mut self.nodes else { return };
        for level in (self.leaf..self.levels).rev() {
            let address = nodes.address(Entry::on_the_way(Asid(0), page, level));
            port.node(NodeRead { level: NodeRead::HOST, address }, walk_caches);
        }
    }
}
