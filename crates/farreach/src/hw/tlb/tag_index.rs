//! From a tag to the entries that carry it, in constant time however many entries there are.

use crate::addr::{Asid, Vpn};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The tag of an entry: process, size of what it covers, and which aligned group of that size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    group: u64,
    /// Process and size in one word, so that comparing tags is comparing two words.
    meta: u64,
}

impl Tag {
    /// The tag under which an entry of `2^order` pages would translate this page.
    #[inline]
    pub fn of(asid: Asid, vpn: Vpn, order: u8) -> Tag {
        Tag { group: vpn.0 >> order, meta: u64::from(asid.0) << 8 | u64::from(order) }
    }
    #[inline]
    pub fn asid(self) -> Asid {
        Asid((self.meta >> 8) as u32)
    }
    /// log2 of the pages covered.
    #[inline]
    pub fn order(self) -> u8 {
        self.meta as u8
    }
    /// Number of the aligned group.
    #[inline]
    pub fn group(self) -> u64 {
        self.group
    }
    /// First page covered.
    #[inline]
    pub fn base(self) -> Vpn {
        Vpn(self.group << self.order())
    }
}

/// One slot. Tag and chain lie together, as they are looked at together.
#[derive(Clone, Copy)]
struct Node {
    tag: Tag,
    /// The next slot of the chain, or [`NONE`].
    next: u32,
    /// Which chain.
    bucket: u32,
}

/// Hash chains through the slots. Several slots may carry the same tag (T94-17).
pub(super) struct TagIndex {
    heads: Box<[u32]>,
    shift: u32,
    nodes: Box<[Node]>,
}

impl TagIndex {
    pub fn new(entries: usize) -> TagIndex {
        // With so many buckets a chain is rarely longer than one slot, and whether it is can be foreseen. A large index had better be in
        // the cache.
        let buckets = (entries * if entries <= 1024 { 8 } else { 2 }).next_power_of_two();
        TagIndex {
            heads: vec![NONE; buckets].into(),
            shift: 64 - buckets.trailing_zeros(),
            nodes: vec![Node { tag: Tag { group: 0, meta: 0 }, next: NONE, bucket: 0 }; entries].into(),
        }
    }

    #[inline]
    fn bucket(&self, tag: Tag) -> usize {
        ((tag.group ^ tag.meta.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// The tag of a slot that is in the index.
    #[inline]
    pub fn tag(&self, slot: u32) -> Tag {
        self.nodes[slot as usize].tag
    }

    /// A slot with this tag, or `NONE`.
    #[inline]
    pub fn first(&self, tag: Tag) -> u32 {
        self.same(self.heads[self.bucket(tag)], tag)
    }

    /// The next slot with the same tag as this one, or `NONE`.
    #[inline]
    pub fn next(&self, slot: u32) -> u32 {
        let Node { tag, next, .. } = self.nodes[slot as usize];
        self.same(next, tag)
    }

    #[inline]
    fn same(&self, mut slot: u32, tag: Tag) -> u32 {
        while slot != NONE {
            let node = &self.nodes[slot as usize];
            if node.tag == tag {
                break;
            }
            slot = node.next;
        }
        slot
    }

    /// Adds a slot that is not in the index.
    #[inline]
    pub fn insert(&mut self, slot: u32, tag: Tag) {
        let bucket = self.bucket(tag);
        let head = &mut self.heads[bucket];
        self.nodes[slot as usize] = Node { tag, next: *head, bucket: bucket as u32 };
        *head = slot;
    }

    /// Takes a slot out of the index.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let Node { next, bucket, .. } = self.nodes[slot as usize];
        let head = &mut self.heads[bucket as usize];
        if *head == slot {
            *head = next;
            return;
        }
        let mut at = *head;
        while self.nodes[at as usize].next != slot {
            at = self.nodes[at as usize].next;
        }
        self.nodes[at as usize].next = next;
    }
}
