//! A trace through one operating system and one TLB.
//!
//! * OR-1 One lookup per 4 KB page that an access touches, ascending (XC-1). For each page: the operating system first
//!   (faults, invalidations), then the lookup, once. So a store to a copy-on-write page is one lookup and at most one miss.
//! * OR-2 The TLB is told of a switch at the first access of another space than the access before; events do not switch.
//! * OR-3 An `End` drops the TLB entries of the space (`invalidate_space`), not page by page. Exec: `End`, then a `Start`.
//! * OR-4 All other events change the TLB only by the changes that [`super::os`] names.
//! * OR-5 `Start` of a space, or its first event, creates it. A trace without any `Map` event: OO-10.

use super::os::{Change, OsConfig, PlainOs};
use super::tlb::{PlainTlb, TlbConfig};
use farreach::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach::counts::{Lookups, OsCounts, TlbCounts};
use farreach::event::{Item, Kind, Op};
use farreach::hw::tlb::{EntryView, Lookup, Outcome, PageTableView, Tlb};

/// What runs.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Hardware.
    pub tlb: TlbConfig,
    /// Software.
    pub os: OsConfig,
}

/// What came out.
#[derive(Clone, PartialEq, Debug)]
pub struct OracleResult {
    /// Of the TLB, with `lookups`.
    pub tlb: TlbCounts,
    /// Of the operating system.
    pub os: OsCounts,
    /// Lookups by kind.
    pub lookups: Lookups,
    /// References before splitting at page boundaries, by kind.
    pub references: Lookups,
    /// The TLB at the end.
    pub entries: Vec<EntryView>,
    /// Each lookup's outcome, in order.
    pub outcomes: Vec<Outcome>,
}

/// Runs all items.
pub fn run(config: &RunConfig, items: &[(Asid, Item<'_>)]) -> OracleResult {
    let maps = items.iter().any(|(_, item)| matches!(item, Item::Op(Op::Map(_))));
    let mut os = PlainOs::new(config.os.clone(), !maps);
    let mut tlb = PlainTlb::new(config.tlb.clone());
    let (mut lookups, mut references, mut outcomes) = (Lookups::default(), Lookups::default(), Vec::new());
    for (asid, item) in items {
        let asid = *asid;
        match item {
            Item::Access(access) => {
                tlb.switch_to(asid);
                count(&mut references, access.kind);
                for vpn in VpnRange::of_bytes(access.addr, u64::from(access.size), BASE_SHIFT).iter() {
                    let changes = os.touch(asid, vpn, access.kind);
                    deliver(&mut tlb, &changes);
                    let pte = os.pte(asid, vpn).expect("the operating system mapped it");
                    let outcome = tlb.lookup(Lookup { asid, vpn, kind: access.kind }, pte, &os);
                    let inside = tlb.probe(asid, vpn, access.kind);
                    assert!(inside.is_none_or(|t| t.pfn == pte.pfn && t.attr == pte.attr), "XC-3 at {asid:?} {vpn:?}");
                    outcomes.push(outcome);
                    count(&mut lookups, access.kind);
                }
            }
            Item::Op(op) => {
                let changes = match op {
                    Op::Start { .. } => {
                        os.start(asid);
                        Vec::new()
                    }
                    Op::Fork { child } => os.fork(asid, *child),
                    Op::Map(mapping) => os.map(asid, mapping),
                    Op::Unmap { start, len } => os.unmap(asid, *start, *len),
                    Op::Remap { old_start, old_len, new_start, new_len } => {
                        os.remap(asid, *old_start, *old_len, *new_start, *new_len)
                    }
                    Op::Protect { start, len, prot } => os.protect(asid, *start, *len, *prot),
                    Op::Advise { start, len, advice } => os.advise(asid, *start, *len, *advice),
                    Op::End(_) => {
                        os.end(asid);
                        tlb.drop_space(asid);
                        Vec::new()
                    }
                    Op::Define { .. } | Op::ThreadStart { .. } | Op::ThreadExit { .. } | Op::Switch { .. } => Vec::new(),
                };
                deliver(&mut tlb, &changes);
            }
        }
    }
    let mut counts = tlb.counts().clone();
    counts.lookups = lookups.total();
    OracleResult { tlb: counts, os: os.counts(), lookups, references, entries: tlb.views(), outcomes }
}

fn deliver(tlb: &mut PlainTlb, changes: &[Change]) {
    for &(asid, pages) in changes {
        tlb.invalidate_pages(asid, pages);
    }
}

fn count(lookups: &mut Lookups, kind: Kind) {
    match kind {
        Kind::Fetch => lookups.fetch += 1,
        Kind::Load => lookups.load += 1,
        Kind::Store => lookups.store += 1,
    }
}
