//! TLBs of AMD processors: leaves 0x80000005, 0x80000006 and 0x80000019 (AMD64 Architecture Programmer's Manual, volume
//! 3, appendix E).

use super::Leaves;
use super::arrays::{Array, G1, K4, M2, Side};

const FIRST: u32 = 0x8000_0005;
const SECOND: u32 = 0x8000_0006;
const GIGABYTE: u32 = 0x8000_0019;
const FEATURES: u32 = 0x8000_0021;
/// L2TlbSizeX32 of leaf 0x80000021: sizes of second-level TLBs are in units of 32 entries.
const UNITS_OF_32: u32 = 1 << 14;

/// Ways by the code of four bits. The outer is `None` where there is no TLB, the inner where it is fully associative.
fn ways(code: u32) -> Option<Option<u64>> {
    let n = match code {
        1 => 1,
        2 => 2,
        3 => 3,
        4 => 4,
        5 => 6,
        6 => 8,
        8 => 16,
        10 => 32,
        11 => 48,
        12 => 64,
        13 => 96,
        14 => 128,
        15 => return Some(None),
        _ => return None,
    };
    Some(Some(n))
}

/// Both halves of a register: entries of 12 bits below a code of ways, fetches in the low half, data in the high.
fn halves(register: u32, level: u8, size: u64, leaf: u32, unit: u64) -> impl Iterator<Item = Array> {
    let half = move |(side, bits): (Side, u32)| {
        let entries = u64::from(bits & 0xfff) * unit;
        let ways = ways(bits >> 12 & 0xf)?;
        (entries > 0).then(|| Array { side, level, sizes: vec![size], entries, ways, leaf })
    };
    [(Side::Fetch, register & 0xffff), (Side::Data, register >> 16)].into_iter().filter_map(half)
}

/// Both halves of a register of the first level: entries of 8 bits, ways of 8 bits, 255 for full associativity.
fn first(register: u32, size: u64) -> impl Iterator<Item = Array> {
    let half = move |(side, bits): (Side, u32)| {
        let (entries, ways) = (u64::from(bits & 0xff), u64::from(bits >> 8 & 0xff));
        let ways = (ways != 0xff).then_some(ways);
        (entries > 0 && ways != Some(0)).then(|| Array {
            side,
            level: 1,
            sizes: vec![size],
            entries,
            ways,
            leaf: FIRST,
        })
    };
    [(Side::Fetch, register & 0xffff), (Side::Data, register >> 16)].into_iter().filter_map(half)
}

/// The arrays that the leaves describe, one for each page size: which of them share entries they do not say.
pub(super) fn arrays(leaves: &Leaves) -> Vec<Array> {
    let unit = if leaves.get(FEATURES, 0)[0] & UNITS_OF_32 != 0 { 32 } else { 1 };
    let [first_2m, first_4k, ..] = leaves.get(FIRST, 0);
    let [second_2m, second_4k, ..] = leaves.get(SECOND, 0);
    let [first_1g, second_1g, ..] = leaves.get(GIGABYTE, 0);
    let all = first(first_4k, K4).chain(first(first_2m, M2)).chain(halves(first_1g, 1, G1, GIGABYTE, 1));
    let all = all.chain(halves(second_4k, 2, K4, SECOND, unit)).chain(halves(second_2m, 2, M2, SECOND, unit));
    all.chain(halves(second_1g, 2, G1, GIGABYTE, unit)).collect()
}

/// The arrays with those that have equal numbers of entries taken as one, as in the cores of Zen. The skewed second
/// level has ways for each size; together they have at least the ways of its largest part.
pub(super) fn shared(arrays: &[Array]) -> Vec<Array> {
    let mut all: Vec<Array> = Vec::new();
    for array in arrays {
        match all.iter_mut().find(|other| other.entries == array.entries) {
            Some(other) => {
                other.sizes.extend(&array.sizes);
                other.ways = other.ways.max(array.ways).filter(|_| other.ways.is_some() && array.ways.is_some());
            }
            None => all.push(array.clone()),
        }
    }
    all
}
