//! Entries in slots, and an index from a tag to the entries that carry it, in constant time for any number of entries.

use farreach_types::addr::{Asid, Vpn};

/// No slot.
pub(in crate::tlb) const NONE: u32 = u32::MAX;

/// log2 of the parts into which the pages under a tag are divided, at most: one per bit of a word.
pub(in crate::tlb) const PARTS: u32 = 6;

/// The tag of an entry: process, size of the group it covers, and number of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Tag {
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
    /// log2 of the pages in a part: one, unless there are more than 64.
    #[inline]
    pub fn part_order(self) -> u32 {
        u32::from(self.order()).saturating_sub(PARTS)
    }
    /// The bit of the part that has this page, one of those covered, in a mask over the parts from the first on.
    #[inline]
    pub fn part(self, vpn: Vpn) -> u64 {
        1 << (vpn.offset_in(self.order().into()) >> self.part_order())
    }
}

/// One slot. Fields that are read together are adjacent.
#[derive(Clone, Copy)]
pub(in crate::tlb) struct Node<E> {
    pub tag: Tag,
    pub entry: E,
    /// The next slot of the chain, or [`NONE`].
    next: u32,
    /// Its chain; [`NONE`]: the slot is in no chain, and has no tag.
    bucket: u32,
}

impl<E> Node<E> {
    /// Whether there is an entry.
    #[inline(always)]
    pub fn is_valid(&self) -> bool {
        self.bucket != NONE
    }
}

/// Hash chains through the slots. Several slots may carry the same tag (T94-17).
pub(in crate::tlb) struct TagIndex<E> {
    heads: Box<[u32]>,
    shift: u32,
    nodes: Box<[Node<E>]>,
}

impl<E: Copy + Default> TagIndex<E> {
    pub fn new(slots: usize) -> TagIndex<E> {
        // With this number of buckets a chain is rarely longer than one slot, which branch prediction handles well. A
        // large index would be worse for the cache.
        let buckets = (slots * if slots <= 1024 { 8 } else { 2 }).next_power_of_two();
        let empty = Node { tag: Tag { group: 0, meta: 0 }, entry: E::default(), next: NONE, bucket: NONE };
        TagIndex {
            heads: vec![NONE; buckets].into(),
            shift: 64 - buckets.trailing_zeros(),
            nodes: vec![empty; slots].into(),
        }
    }

    #[inline]
    fn bucket(&self, tag: Tag) -> usize {
        ((tag.group ^ tag.meta.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// All slots.
    #[inline(always)]
    pub fn nodes(&mut self) -> &mut [Node<E>] {
        &mut self.nodes
    }
    /// A slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> &Node<E> {
        &self.nodes[slot as usize]
    }
    /// See [`TagIndex::get`]. The tag is changed by [`TagIndex::insert`] and [`TagIndex::remove`].
    #[inline(always)]
    pub fn get_mut(&mut self, slot: u32) -> &mut Node<E> {
        &mut self.nodes[slot as usize]
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

    /// Puts an entry into an empty slot.
    #[inline(always)]
    pub fn insert(&mut self, slot: u32, tag: Tag, entry: E) {
        let bucket = self.bucket(tag);
        let head = &mut self.heads[bucket];
        self.nodes[slot as usize] = Node { tag, entry, next: *head, bucket: bucket as u32 };
        *head = slot;
    }

    /// Empties a slot.
    #[inline(always)]
    pub fn remove(&mut self, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        let (next, bucket) = (node.next, std::mem::replace(&mut node.bucket, NONE));
        let head = &mut self.heads[bucket as usize];
        if *head == slot {
            *head = next;
        } else {
            unlink(&mut self.nodes, *head, slot, next);
        }
    }
}

/// Removes a slot that is not the first from its chain.
fn unlink<E>(nodes: &mut [Node<E>], first: u32, slot: u32, next: u32) {
    let mut at = first;
    while nodes[at as usize].next != slot {
        at = nodes[at as usize].next;
    }
    nodes[at as usize].next = next;
}
