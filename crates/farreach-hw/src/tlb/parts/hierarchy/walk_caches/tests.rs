//! The hand-worked cases of WC, and its laws.

use crate::tlb::contract::{Lookup, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::{design, keys_of};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Value, json};

/// Every page is mapped, in mappings of one order.
struct Uniform(u8);

impl PageTableView for Uniform {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Pte { pfn: Pfn(vpn.0 + (1 << 30)), attr: Attr(3), order: self.0 })
    }
}

fn build(more: Value) -> Result<Box<dyn Tlb>, String> {
    let mut given = json!({"l1d": "4K:1", "l1i": "4K:1", "l2": "none"});
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (given, hierarchy) = (given.as_object().unwrap(), design("hierarchy").unwrap());
    (hierarchy.build)(&Params::resolve(&keys_of(hierarchy, given), given)?)
}

/// The references of the walk for a page.
fn walk(tlb: &mut dyn Tlb, asid: u32, vpn: u64, order: u8) -> u64 {
    let table = Uniform(order);
    let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
    let before = tlb.counts().walk.clone();
    tlb.access(at, table.pte(at.asid, at.vpn).unwrap(), &table, &mut Unfiltered::default());
    assert_eq!(tlb.counts().walk.walks, before.walks + 1, "{vpn} was in the TLB");
    tlb.counts().walk.references() - before.references()
}

fn walks(keys: Value, pages: &[u64]) -> Vec<u64> {
    let mut tlb = build(keys).unwrap();
    pages.iter().map(|page| walk(&mut *tlb, 0, *page, 0)).collect()
}

fn split(kind: &str, entries: u64) -> Value {
    json!({"pwc_kind": kind, "pwc_pd": entries, "pwc_pdpt": entries, "pwc_pml4": entries})
}

/// The hand-worked cases of WC.
#[test]
fn wc_by_hand() {
    let pages = [0, 512, 513];
    assert_eq!(walks(split("stc", 64), &pages), [4, 2, 1], "WC-1");
    assert_eq!(walks(json!({"pwc_kind": "utc"}), &pages), [4, 2, 1], "WC-2");
    assert_eq!(walks(json!({"pwc_kind": "utc", "pwc_entries": 1}), &pages), [4, 4, 1], "WC-2");
    assert_eq!(walks(json!({"pwc_kind": "tpc", "pwc_entries": 1}), &pages), [4, 2, 1], "WC-4");
    // WC-3: every level is passed, and those that are held are not read.
    assert_eq!(walks(json!({"pwc_kind": "uptc"}), &pages), [4, 2, 1]);
    assert_eq!(walks(split("sptc", 64), &pages), [4, 2, 1]);
    // The last of three entries that are read stays alone: from the root on, each drives out the one behind it.
    assert_eq!(walks(json!({"pwc_kind": "uptc", "pwc_entries": 1}), &[0, 1, 2]), [4, 4, 4]);
    assert_eq!(walks(json!({"pwc_kind": "uptc", "pwc_entries": 2}), &[0, 1, 2]), [4, 4, 4]);
    assert_eq!(walks(json!({"pwc_kind": "uptc", "pwc_entries": 3}), &[0, 1, 2]), [4, 1, 1]);
    // By physical address a level can hit below one that misses.
    let keys = json!({"pwc_kind": "sptc", "pwc_pd": 4});
    assert_eq!(walks(keys.clone(), &pages), [4, 4, 3]);
    assert_eq!(walks(json!({"pwc_kind": "stc", "pwc_pd": 4}), &pages), [4, 4, 1]);
}

/// WC-2: only the entry that is used is renewed, so that those above it age.
#[test]
fn wc_2_one_array_ages_from_the_top() {
    // Filled as PML4, PDPT, PD of page 0. Page 1 renews PD, page 512 uses PDPT and adds a PD in the place of PML4.
    let mut tlb = build(json!({"pwc_kind": "utc", "pwc_entries": 3})).unwrap();
    assert_eq!([0, 1, 512].map(|page| walk(&mut *tlb, 0, page, 0)), [4, 1, 2]);
    assert_eq!(walk(&mut *tlb, 0, 1 << 18, 0), 4, "another GB has nothing in common but PML4, which left");
    let walk = &tlb.counts().walk;
    assert_eq!((walk.pd_cache_hits, walk.pdpt_cache_hits, walk.pml4_cache_hits), (1, 1, 0));
}

/// WC-4: the longest part in common decides, and an entry is a node with leaves, of any level.
#[test]
fn wc_4_paths() {
    let mut tlb = build(json!({"pwc_kind": "tpc", "pwc_entries": 2})).unwrap();
    assert_eq!(walk(&mut *tlb, 0, 0, 0), 4);
    assert_eq!(walk(&mut *tlb, 0, 1 << 18, 0), 3, "PML4 in common");
    assert_eq!(walk(&mut *tlb, 0, 512, 0), 2, "PDPT in common with the first");
    // Its entry took the place of that of the other GB, since the first was used.
    assert_eq!([1, (1 << 18) + 1].map(|page| walk(&mut *tlb, 0, page, 0)), [1, 3]);
    assert_eq!(walk(&mut *tlb, 1, 0, 0), 4, "another process");
    let mut tlb = build(json!({"pwc_kind": "tpc"})).unwrap();
    assert_eq!([0, 512, 1 << 18].map(|page| walk(&mut *tlb, 0, page, 9)), [3, 1, 2], "WC-5: leaves of 2 MB");
    assert_eq!(walk(&mut *tlb, 0, 1024, 0), 2, "the way to a directory helps a walk to a table in it");
    assert_eq!(walk(&mut *tlb, 0, 1536, 9), 1);
    assert_eq!(walk(&mut *tlb, 0, 1025, 0), 1);
}

/// The law of WC: with room for everything, one reference after the first in the same 2 MB. WC-3: references are leaves
/// and misses in the caches.
#[test]
fn wc_laws() {
    for levels in [4, 5] {
        for kind in ["stc", "utc", "uptc", "sptc", "tpc"] {
            let mut keys = match kind {
                "stc" | "sptc" => split(kind, 65536),
                _ => json!({"pwc_kind": kind, "pwc_entries": 65536}),
            };
            keys["walk_levels"] = levels.into();
            if levels == 5 && matches!(kind, "stc" | "sptc") {
                keys["pwc_pml5"] = 65536.into();
            }
            let mut tlb = build(keys).unwrap();
            let mut rng = 1u64;
            for _ in 0..200 {
                rng = rng.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let first = rng >> 30 & !511;
                let seen = walk(&mut *tlb, 0, first, 0);
                assert!((1..=levels).contains(&seen));
                assert_eq!([1, 2, 511].map(|i| walk(&mut *tlb, 0, first + i, 0)), [1; 3], "{kind}");
            }
            let (counts, of) = (tlb.counts(), |name| tlb.counts().parts.count("pwc", name));
            let saved = counts.walk.walks + of("lookups") - of("hits");
            assert!(!matches!(kind, "uptc" | "sptc") || counts.walk.references() == saved, "WC-3");
            tlb.invalidate(Asid(0), VpnRange { start: Vpn(0), pages: 1 }, &mut Unfiltered::default());
            assert_eq!(walk(&mut *tlb, 0, 5, 0), levels, "{kind}: a change drops what it has of the process");
        }
    }
}

#[test]
fn wc_refusals() {
    let refusal = |keys| build(keys).err().expect("it was not refused");
    assert_eq!(
        refusal(json!({"pwc_kind": "utc", "pwc_pd": 4})),
        "pwc_pd = 4 is not allowed with pwc_kind = utc: it has one array of pwc_entries entries; pwc_pd must be 0"
    );
    for keys in [
        json!({"pwc_kind": "tpc", "guest": "walk"}),
        json!({"pwc_kind": "sptc", "cores": 2}),
        json!({"pwc_kind": "uptc", "table": "hashed"}),
    ] {
        assert!(refusal(keys.clone()).starts_with("pwc_kind = "), "{keys}");
    }
    build(json!({"pwc_kind": "stc", "pwc_entries": 4})).err().expect("a key of other kinds");
}
