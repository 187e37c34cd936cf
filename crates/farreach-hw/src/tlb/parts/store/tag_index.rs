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

/// How many tags of smaller groups lie in a group of `2^order` pages, for groups with the same hash together. Most
/// fills of large entries find none, and need not look for each.
struct Census {
    order: u8,
    shift: u32,
    /// A count at the limit stays there.
    counts: Box<[u16]>,
}

impl Census {
    fn new(order: u8, slots: usize) -> Census {
        let counts = (2 * slots).next_power_of_two();
        Census { order, shift: 64 - counts.trailing_zeros(), counts: vec![0; counts].into() }
    }

    /// The place of the group that holds this tag, if its own group is smaller.
    #[inline(always)]
    fn at(&self, tag: Tag) -> Option<usize> {
        let larger = self.order.checked_sub(tag.order()).filter(|&larger| larger > 0)?;
        Some(hash(tag.group >> larger, tag.meta >> 8, self.shift))
    }
}

/// A hash of `64 - shift` bits.
#[inline(always)]
fn hash(group: u64, meta: u64, shift: u32) -> usize {
    ((group ^ meta.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

/// Hash chains through the slots. Several slots may carry the same tag (T94-17).
pub(in crate::tlb) struct TagIndex<E> {
    heads: Box<[u32]>,
    shift: u32,
    nodes: Box<[Node<E>]>,
    /// By size of the groups.
    census: Vec<Census>,
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
            census: Vec::new(),
        }
    }

    /// Answers [`TagIndex::has_none_within`] for groups of this size. There must be no tags yet.
    pub fn count_within(&mut self, order: u8) {
        self.census.push(Census::new(order, self.nodes.len()));
    }

    /// Whether it is known that no smaller group within this one has a tag, of those sizes that are counted.
    #[inline]
    pub fn has_none_within(&self, asid: Asid, vpn: Vpn, order: u8) -> bool {
        let of = self.census.iter().find(|census| census.order == order);
        of.is_some_and(|of| of.counts[hash(vpn.0 >> order, asid.0.into(), of.shift)] == 0)
    }

    #[inline]
    fn bucket(&self, tag: Tag) -> usize {
        hash(tag.group, tag.meta, self.shift)
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

    #[inline(never)]
    fn counts_more(&mut self, tag: Tag) {
        for census in &mut self.census {
            if let Some(at) = census.at(tag) {
                census.counts[at] = census.counts[at].saturating_add(1);
            }
        }
    }

    #[inline(never)]
    fn counts_less(&mut self, tag: Tag) {
        for census in &mut self.census {
            if let Some(at) = census.at(tag) {
                census.counts[at] -= u16::from(census.counts[at] < u16::MAX);
            }
        }
    }

    /// Puts an entry into an empty slot.
    #[inline(always)]
    pub fn insert(&mut self, slot: u32, tag: Tag, entry: E) {
        let bucket = self.bucket(tag);
        if !self.census.is_empty() {
            self.counts_more(tag);
        }
        let head = &mut self.heads[bucket];
        self.nodes[slot as usize] = Node { tag, entry, next: *head, bucket: bucket as u32 };
        *head = slot;
    }

    /// Empties a slot.
    #[inline(always)]
    pub fn remove(&mut self, slot: u32) {
        if !self.census.is_empty() {
            self.counts_less(self.nodes[slot as usize].tag);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A census that says there are none is right, and mostly it does say so.
    #[test]
    fn none_within_a_group_is_known() {
        let mut index = TagIndex::<u8>::new(64);
        [2, 9].into_iter().for_each(|order| index.count_within(order));
        let mut tags: BTreeMap<u32, Tag> = BTreeMap::new();
        let (mut dice, mut known, mut none) = (3u64, 0, 0);
        for _ in 0..20_000 {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (slot, asid, order) =
                ((dice >> 40) as u32 % 64, Asid((dice >> 50) as u32 % 2), [0, 2, 9][(dice >> 60) as usize % 3]);
            if tags.remove(&slot).is_some() {
                index.remove(slot);
            } else {
                let tag = Tag::of(asid, Vpn(dice >> 20 & 0xFFF), order);
                index.insert(slot, tag, 0);
                tags.insert(slot, tag);
            }
            let (vpn, of) = (Vpn(dice >> 8 & 0xFFF), [2, 9][(dice >> 62) as usize % 2]);
            let within = |tag: &Tag| tag.asid() == asid && tag.order() < of && tag.base().0 >> of == vpn.0 >> of;
            let truth = !tags.values().any(within);
            let says = index.has_none_within(asid, vpn, of);
            assert!(truth || !says, "{tags:?} {asid:?} {vpn:?} {of}");
            (known, none) = (known + u32::from(says), none + u32::from(truth));
        }
        assert!(known > 5000 && known * 10 > none * 5, "{known} of {none}");
        assert!(!index.has_none_within(Asid(0), Vpn(0), 4), "that size is not counted");
    }
}
