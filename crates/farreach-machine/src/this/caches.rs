//! Caches as CPUID describes them: leaf 4 of Intel, leaf 0x8000001D of AMD.

use super::Leaves;
use farreach_types::addr::Bytes;
use raw_cpuid::CacheType;

/// Caches are no larger, have no more ways and no more slices.
const MOST: [u64; 3] = [1 << 32, 128, 256];

/// Keys of the caches that walkers may read through, with their values as TOML. Empty unless all of them are told, as
/// caches that can be.
pub(super) fn keys(leaves: &Leaves) -> Vec<(&'static str, String)> {
    let decoder = leaves.decoder();
    let Some(caches) = decoder.get_cache_parameters() else { return Vec::new() };
    let (mut keys, mut last) = (Vec::new(), None);
    for cache in caches.take(8) {
        let ways = cache.associativity() as u64;
        let lines = (cache.coherency_line_size() * cache.physical_line_partitions()) as u64;
        let bytes = ways.saturating_mul(cache.sets() as u64).saturating_mul(lines);
        let sets = cache.sets() as u64;
        let slices = if cache.level() == 3 { sets >> sets.trailing_zeros() } else { 1 };
        let possible = (sets / slices).is_power_of_two() && cache.coherency_line_size() == 64;
        if !possible || [bytes, ways, slices].iter().zip(MOST).any(|(value, most)| *value > most) {
            return Vec::new();
        }
        let shape = |bytes: u64| format!("\"{}/{ways}\"", Bytes(bytes));
        match (cache.level(), cache.cache_type()) {
            (1, CacheType::Instruction) => keys.push(("cache_l1i", shape(bytes))),
            (1, CacheType::Data) => keys.push(("cache_l1d", shape(bytes))),
            (2, CacheType::Unified) => keys.push(("cache_l2", shape(bytes))),
            (3, CacheType::Unified) => {
                // The fewest slices with a power of two of sets in each.
                last = Some([("cache_llc", shape(bytes / slices)), ("cache_slices", slices.to_string())]);
            }
            _ => {}
        }
    }
    keys.sort_unstable_by_key(|key| key.0);
    keys.dedup_by_key(|key| key.0);
    if keys.len() != 3 {
        return Vec::new();
    }
    keys.extend(last.unwrap_or([("cache_llc", "\"none\"".into()), ("cache_slices", "1".into())]));
    keys
}
