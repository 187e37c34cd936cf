//! Field widths of T94-1, from which AREA-2 builds its entries (AMB-19): the bits above the page offset, of 64 bits of
//! virtual and 48 bits of physical address.

use farreach_types::params::Params;

/// Attributes of one mapping.
pub(in crate::tlb) const ATTR: u64 = 8;
/// The size field of an entry that can have several page sizes, log2 of its base pages (AMB-21).
pub(in crate::tlb) const SIZE: u64 = 4;
/// The used bit (AREA-2, S).
pub(in crate::tlb) const USED: u64 = 1;

/// Virtual page number: 52 bits for 4 KB pages.
pub(in crate::tlb) fn vpn(params: &Params) -> u64 {
    64 - u64::from(params.page_shift())
}

/// Physical page number: 36 bits for 4 KB pages.
pub(in crate::tlb) fn ppn(params: &Params) -> u64 {
    48 - u64::from(params.page_shift())
}

/// The process id; a design without one does not pay for it.
pub(in crate::tlb) fn pid(params: &Params) -> u64 {
    if params.flag("process_ids") { 12 } else { 0 }
}

#[cfg(test)]
mod tests {
    use crate::tlb::{EntryBits, design};
    use farreach_types::params::Params;
    use serde_json::json;

    fn bits(kind: &str, given: serde_json::Value) -> Option<EntryBits> {
        let design = design(kind).unwrap();
        (design.bits)(&Params::resolve(design.keys, given.as_object().unwrap()).unwrap())
    }

    #[test]
    fn area_2_bit_counts() {
        for (kind, factor, tag, data) in [
            ("single", None, 64, 46),
            ("superpage", None, 68, 46),
            ("complete", Some(16), 60, 736),
            ("complete", Some(2), 63, 92),
            ("complete", Some(4), 62, 184),
            ("partial", Some(16), 76, 61),
            ("partial", Some(2), 65, 47),
        ] {
            let given = factor.map_or(json!({}), |factor| json!({ "factor": factor }));
            assert_eq!(bits(kind, given), Some(EntryBits { tag, data, status: 1 }), "{kind} {factor:?}");
        }
    }

    #[test]
    fn no_figure_beyond_the_model() {
        for (kind, given) in [
            ("single", json!({"ways": 4})),
            ("superpage", json!({"lookup": "per-size"})),
            ("partial", json!({"all_valid": true})),
        ] {
            assert_eq!(bits(kind, given), None, "{kind}");
        }
        let tag = |given| bits("single", given).unwrap().tag;
        assert_eq!(tag(json!({})) - tag(json!({"process_ids": false})), 12);
    }

    #[test]
    fn a_larger_base_page_has_shorter_page_numbers() {
        assert_eq!(bits("single", json!({"page_size": "16K"})), Some(EntryBits { tag: 62, data: 44, status: 1 }));
        let given = json!({"page_size": "64K", "sizes": "64K+1M"});
        assert_eq!(bits("superpage", given), Some(EntryBits { tag: 64, data: 42, status: 1 }));
        assert_eq!(bits("partial", json!({"page_size": "8K"})), Some(EntryBits { tag: 75, data: 60, status: 1 }));
        assert_eq!(
            bits("complete", json!({"page_size": "8K", "factor": 2})),
            Some(EntryBits { tag: 62, data: 90, status: 1 })
        );
    }
}
