//! A node of the range table in memory (RMM15-7): two cache lines with up to four ranges and five children.
//!
//! | bytes | what |
//! |---|---|
//! | 17 i .. 17 i + 17, i = 0..4 | range i; BASE = LIMIT: none |
//! | 68 + 8 i .. 76 + 8 i, i = 0..5 | child i: physical address, 0 for none |
//! | 108 .. 128 | not used |
//!
//! A range is 136 bits, little endian: BASE 36, LIMIT 36, OFFSET 56, attributes 8.

use farreach_types::addr::{Pfn, Vpn};
use farreach_types::translation::{Attr, Range};

/// Bytes of a node: two cache lines.
pub const NODE_BYTES: u64 = 128;
/// Ranges a node holds.
pub const RANGES: usize = 4;
/// Bits of BASE and LIMIT.
pub const PAGE_BITS: u32 = 36;
const RANGE_BYTES: usize = 17;
const CHILDREN_AT: usize = RANGES * RANGE_BYTES;
const OFFSET_BITS: u32 = 56;

/// The bytes in memory.
pub type Line = [u8; NODE_BYTES as usize];

/// A node as the system works on it: between two writes it may hold one range too many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Ascending.
    pub ranges: Vec<Range>,
    /// Physical addresses; none in a leaf, one more than ranges otherwise.
    pub children: Vec<u64>,
}

impl Node {
    /// Reads a node.
    pub fn read(line: &Line) -> Node {
        let ranges = (0..RANGES).map(|i| read_range(&line[i * RANGE_BYTES..(i + 1) * RANGE_BYTES]));
        let child = |i: usize| {
            let bytes = &line[CHILDREN_AT + 8 * i..CHILDREN_AT + 8 * i + 8];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        Node { ranges: ranges.flatten().collect(), children: (0..=RANGES).map(child).filter(|&c| c != 0).collect() }
    }

    /// Writes it.
    pub fn write(&self) -> Line {
        assert!(self.ranges.len() <= RANGES && [0, self.ranges.len() + 1].contains(&self.children.len()));
        let mut line = [0; NODE_BYTES as usize];
        for (i, range) in self.ranges.iter().enumerate() {
            line[i * RANGE_BYTES..(i + 1) * RANGE_BYTES].copy_from_slice(&write_range(range));
        }
        for (i, child) in self.children.iter().enumerate() {
            line[CHILDREN_AT + 8 * i..CHILDREN_AT + 8 * i + 8].copy_from_slice(&child.to_le_bytes());
        }
        line
    }
}

/// Whether BASE and LIMIT have room for it (AMB-96: the last page of the space is in no range).
pub fn fits(range: &Range) -> bool {
    range.first.0.checked_add(range.pages).is_some_and(|limit| limit < 1 << PAGE_BITS)
}

fn write_range(range: &Range) -> [u8; RANGE_BYTES] {
    debug_assert!(fits(range) && range.pages > 0);
    let offset = range.pfn.0.wrapping_sub(range.first.0) & ((1 << OFFSET_BITS) - 1);
    let pages = u128::from(range.first.0) | u128::from(range.first.0 + range.pages) << PAGE_BITS;
    let low = pages | u128::from(offset) << (2 * PAGE_BITS);
    let mut bytes = [0; RANGE_BYTES];
    bytes[..RANGE_BYTES - 1].copy_from_slice(&low.to_le_bytes());
    bytes[RANGE_BYTES - 1] = range.attr.0;
    bytes
}

fn read_range(bytes: &[u8]) -> Option<Range> {
    let low = u128::from_le_bytes(bytes[..RANGE_BYTES - 1].try_into().expect("sixteen bytes"));
    let field = |at: u32, bits: u32| (low >> at) as u64 & ((1 << bits) - 1);
    let (base, limit) = (field(0, PAGE_BITS), field(PAGE_BITS, PAGE_BITS));
    // The offset is a two's complement number: below 0 where frames lie below pages.
    let offset = (field(2 * PAGE_BITS, OFFSET_BITS) << (64 - OFFSET_BITS)) as i64 >> (64 - OFFSET_BITS);
    (base < limit).then(|| Range {
        first: Vpn(base),
        pages: limit - base,
        pfn: Pfn(base.wrapping_add(offset as u64)),
        attr: Attr(bytes[RANGE_BYTES - 1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmm15_7_a_node_is_what_was_written() {
        let range = |first, pages, pfn, attr| Range { first: Vpn(first), pages, pfn: Pfn(pfn), attr: Attr(attr) };
        let ranges = vec![
            range(0, 1, 1 << 40, 7),
            range(0x100, 0x80, 0x600, 3),
            range(0x1000, 8, 2, 1),
            range((1 << 36) - 9, 8, 0, 255),
        ];
        assert!(ranges.iter().all(fits) && !fits(&range((1 << 36) - 8, 8, 0, 0)), "AMB-96");
        let node = Node { ranges, children: vec![128, 1 << 50, 256, 384, 512] };
        assert_eq!(Node::read(&node.write()), node);
        let leaf = Node { ranges: node.ranges[..2].to_vec(), children: Vec::new() };
        assert_eq!(Node::read(&leaf.write()), leaf);
        assert_eq!(Node::read(&[0; 128]), Node::default());
        // RMM15-7: 4 x 136 bits and 5 pointers.
        assert_eq!((RANGE_BYTES * 8, CHILDREN_AT + 5 * 8), (136, 108));
    }
}
