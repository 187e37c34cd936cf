//! TLBs of Intel processors: leaf 0x18, and before it the descriptors of leaf 2.

use super::Leaves;
use super::arrays::{Array, G1, K4, M2, Side};
use raw_cpuid::DatType;

const DESCRIPTORS: u32 = 2;
const TRANSLATIONS: u32 = 0x18;

/// A descriptor of leaf 2: side, level, sizes, entries, ways (0: fully associative, or not told).
type Row = (u8, Side, u8, &'static [u64], u64, u64);

/// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID, table of the encoding of leaf 2: the
/// TLBs of 64-bit processors.
#[rustfmt::skip]
const ROWS: [Row; 31] = [
    (0x01, Side::Fetch, 1, &[K4], 32, 4),
    (0x03, Side::Data, 1, &[K4], 64, 4),
    (0x4f, Side::Fetch, 1, &[K4], 32, 0),
    (0x50, Side::Fetch, 1, &[K4, M2], 64, 0),
    (0x51, Side::Fetch, 1, &[K4, M2], 128, 0),
    (0x52, Side::Fetch, 1, &[K4, M2], 256, 0),
    (0x55, Side::Fetch, 1, &[M2], 7, 0),
    (0x57, Side::Data, 1, &[K4], 16, 4),
    (0x59, Side::Data, 1, &[K4], 16, 0),
    (0x5a, Side::Data, 1, &[M2], 32, 4),
    (0x61, Side::Fetch, 1, &[K4], 48, 0),
    (0x63, Side::Data, 1, &[M2], 32, 4),
    (0x63, Side::Data, 1, &[G1], 4, 4),
    (0x6a, Side::Data, 1, &[K4], 64, 8),
    (0x6b, Side::Data, 2, &[K4], 256, 8),
    (0x6c, Side::Data, 2, &[M2], 128, 8),
    (0x6d, Side::Data, 2, &[G1], 16, 0),
    (0x76, Side::Fetch, 1, &[M2], 8, 0),
    (0xa0, Side::Data, 1, &[K4], 32, 0),
    (0xb0, Side::Fetch, 1, &[K4], 128, 4),
    (0xb1, Side::Fetch, 1, &[M2], 8, 4),
    (0xb2, Side::Fetch, 1, &[K4], 64, 4),
    (0xb3, Side::Data, 1, &[K4], 128, 4),
    (0xb4, Side::Data, 2, &[K4], 256, 4),
    (0xb5, Side::Fetch, 1, &[K4], 64, 8),
    (0xb6, Side::Fetch, 1, &[K4], 128, 8),
    (0xba, Side::Data, 2, &[K4], 64, 4),
    (0xc1, Side::Both, 2, &[K4, M2], 1024, 8),
    (0xc3, Side::Both, 2, &[K4, M2], 1536, 6),
    (0xc3, Side::Both, 2, &[G1], 16, 4),
    (0xca, Side::Both, 2, &[K4], 512, 4),
];

/// The arrays that the leaves describe: leaf 0x18 where it says anything, else leaf 2.
pub(super) fn arrays(leaves: &Leaves) -> Vec<Array> {
    let arrays = translations(leaves);
    if arrays.is_empty() { descriptors(leaves) } else { arrays }
}

fn descriptors(leaves: &Leaves) -> Vec<Array> {
    let registers = leaves.get(DESCRIPTORS, 0);
    // The lowest byte of EAX is no descriptor; a register whose highest bit is set has none.
    let bytes = registers.into_iter().filter(|register| register >> 31 == 0).flat_map(u32::to_le_bytes);
    let skip = usize::from(registers[0] >> 31 == 0);
    let rows = bytes.skip(skip).flat_map(|byte| ROWS.iter().filter(move |row| row.0 == byte));
    rows.map(|&(_, side, level, sizes, entries, ways)| {
        let ways = (ways > 0).then_some(ways);
        Array { side, level, sizes: sizes.to_vec(), entries, ways, leaf: DESCRIPTORS }
    })
    .collect()
}

/// More subleaves than there are: the library would read all of them.
const MOST_SUBLEAVES: u32 = 64;

fn translations(leaves: &Leaves) -> Vec<Array> {
    if leaves.get(TRANSLATIONS, 0)[0] > MOST_SUBLEAVES {
        return Vec::new();
    }
    let decoder = leaves.decoder();
    let Some(found) = decoder.get_deterministic_address_translation_info() else { return Vec::new() };
    let array = |dat: raw_cpuid::DatInfo| {
        let side = match dat.cache_type() {
            DatType::DataTLB | DatType::LoadOnly => Side::Data,
            DatType::InstructionTLB => Side::Fetch,
            DatType::UnifiedTLB => Side::Both,
            DatType::StoreOnly => Side::Store,
            DatType::Null | DatType::Unknown => return None,
        };
        let has = [(K4, dat.has_4k_entries()), (M2, dat.has_2mb_entries()), (G1, dat.has_1gb_entries())];
        let sizes = has.into_iter().filter_map(|(size, has)| has.then_some(size)).collect();
        let ways = u64::from(dat.ways());
        let entries = ways * u64::from(dat.sets());
        let ways = (!dat.is_fully_associative()).then_some(ways);
        Some(Array { side, level: dat.cache_level(), sizes, entries, ways, leaf: TRANSLATIONS })
    };
    found.filter_map(array).filter(|array| array.entries > 0 && !array.sizes.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library has the same table as text, written by others; a few rows are not in it.
    #[test]
    fn descriptors_are_those_of_the_library() {
        let mut compared = 0;
        for (byte, side, _, sizes, entries, ways) in ROWS {
            let leaves: Leaves =
                [((0, 0), [2, 0, 0, 0]), ((2, 0), [u32::from(byte) << 8 | 1, 0, 0, 0])].into_iter().collect();
            let text = leaves.decoder().get_cache_info().unwrap().map(|info| info.desc().to_owned());
            let text = text.collect::<Vec<_>>().join("; ");
            if text.is_empty() {
                continue;
            }
            compared += 1;
            let words = [
                if side == Side::Fetch {
                    "Instruction TLB"
                } else if side == Side::Both {
                    "Shared"
                } else {
                    "TLB"
                }
                .to_owned(),
                match sizes[0] {
                    K4 => "4 K",
                    M2 => "2M",
                    _ => "1G",
                }
                .to_owned(),
                format!("{entries} entries"),
                if ways > 0 { format!("{ways}-way") } else { String::new() },
            ];
            let plain = |text: &str| text.to_lowercase().replace([' ', '-'], "").replace("byte", "").replace("mb", "m");
            for word in words {
                assert!(plain(&text).contains(&plain(&word)), "{byte:#x}: '{word}' is not in '{text}'");
            }
        }
        assert!(compared >= ROWS.len() - 3, "{compared}");
    }
}
