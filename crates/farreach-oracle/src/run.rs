//! A trace through one operating system and one TLB.
//!
//! * OR-1 One lookup per base page of the machine that an access touches, ascending (XC-1). For each page: the
//!   operating system first (faults, invalidations), then the lookup, once. So a store to a copy-on-write page is one
//!   lookup and at most one miss.
//! * OR-2 The TLB gets a switch at the first item (reference or event) of another space than the item before. Events
//!   count because a process must run to unmap its memory.
//! * OR-3 An `End` drops the TLB entries of the space (`invalidate_space`), not page by page. Exec: `End`, then a
//!   `Start`.
//! * OR-4 All other events change the TLB only by the changes that [`super::os`] names.
//! * OR-5 `Start` of a space, or its first event, creates it. References before the first `Map`: OO-10.
//! * OR-6 Entries of superpages that demotion drops count as invalidations.

use super::os::{Change, OsConfig, Peaks, PlainOs, What};
use super::tlb::{PlainTlb, TlbConfig};
use farreach_hw::tlb::{EntryView, Lookup, OnDemotion, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, BASE_SHIFT, VpnRange};
use farreach_types::counts::{Lookups, OsCounts, TlbCounts};
use farreach_types::event::{Access, Item, Kind, Op};
use farreach_types::translation::PageTableView;
use std::collections::BTreeSet;

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Hardware.
    pub tlb: TlbConfig,
    /// Software.
    pub os: OsConfig,
}

/// The result.
#[derive(Clone, PartialEq, Debug)]
pub struct OracleResult {
    /// Of the TLB, with `lookups`.
    pub tlb: TlbCounts,
    /// Of the operating system.
    pub os: OsCounts,
    /// Lookups by kind if all pages had 4 KB.
    pub lookups: Lookups,
    /// References before splitting at page boundaries, by kind.
    pub references: Lookups,
    /// The TLB at the end.
    pub entries: Vec<EntryView>,
    /// Each lookup's outcome, in order.
    pub outcomes: Vec<Outcome>,
    /// Distinct 4 KB pages of all spaces that were referenced.
    pub touched: u64,
    /// Most memory at any time.
    pub peaks: Peaks,
}

/// Runs all items.
pub fn run(config: &RunConfig, items: &[(Asid, Item<'_>)]) -> OracleResult {
    let mut os = PlainOs::new(config.os.clone());
    let mut touched = BTreeSet::new();
    let mut tlb = PlainTlb::new(config.tlb.clone());
    let (mut lookups, mut references, mut outcomes) = (Lookups::default(), Lookups::default(), Vec::new());
    let bytes = |a: &Access, shift| VpnRange::of_bytes(a.addr, u64::from(a.size), shift);
    for (asid, item) in items {
        let asid = *asid;
        tlb.switch_to(asid);
        match item {
            Item::Access(access) => {
                count(&mut references, access.kind);
                for fine in bytes(access, BASE_SHIFT).iter() {
                    touched.insert((asid, fine));
                    count(&mut lookups, access.kind);
                }
                for vpn in bytes(access, BASE_SHIFT + config.os.k).iter() {
                    let changes = os.touch(asid, vpn, access.kind);
                    deliver(&mut tlb, &changes);
                    let pte = os.pte(asid, vpn).expect("the operating system mapped it");
                    let outcome = tlb.lookup(Lookup { asid, vpn, kind: access.kind }, pte, &os);
                    let inside = tlb.probe(asid, vpn, access.kind);
                    assert!(inside.is_none_or(|t| t.pfn == pte.pfn && t.attr == pte.attr), "XC-3 at {asid:?} {vpn:?}");
                    outcomes.push(outcome);
                }
            }
            Item::Op(op) => {
                let changes = os.apply(asid, op);
                if matches!(op, Op::End(_)) {
                    tlb.drop_space(asid);
                }
                deliver(&mut tlb, &changes);
            }
        }
    }
    let mut counts = tlb.counts().clone();
    counts.lookups = outcomes.len() as u64;
    let touched = touched.len() as u64;
    OracleResult {
        tlb: counts,
        os: os.counts(),
        lookups,
        references,
        entries: tlb.views(),
        outcomes,
        touched,
        peaks: os.peaks(),
    }
}

fn deliver(tlb: &mut PlainTlb, changes: &[Change]) {
    for &(asid, pages, what) in changes {
        match what {
            What::Stale => tlb.invalidate_pages(asid, pages),
            What::Demoted => tlb.demote(asid, pages, &mut Unfiltered::default()),
        }
    }
}

fn count(lookups: &mut Lookups, kind: Kind) {
    match kind {
        Kind::Fetch => lookups.fetch += 1,
        Kind::Load => lookups.load += 1,
        Kind::Store => lookups.store += 1,
    }
}
