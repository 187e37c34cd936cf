//! Bits per TLB entry, as the registry of designs gives them.

use farreach_hw::tlb::{EntryBits, design};
use farreach_types::params::Params;
use serde_json::Map;

/// Bits of one entry of a fully associative design; `factor` is for those that have one.
pub fn entry_bits(kind: &str, factor: u64) -> EntryBits {
    let design = design(kind).expect(kind);
    let mut given = Map::new();
    if design.keys.iter().any(|key| key.name == "factor") {
        given.insert("factor".to_owned(), factor.into());
    }
    let params = Params::resolve(design.keys, &given).unwrap_or_else(|e| panic!("{kind}: {e}"));
    (design.bits)(&params).expect(kind)
}
