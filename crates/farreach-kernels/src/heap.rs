//! A binary heap in the memory of a kernel: a priority queue, the smallest key first.

use super::memory::{Element, Memory, Site};

/// Places of the code that adds an item.
pub(super) struct PushSites {
    /// Loads the parent.
    pub parent: Site,
    /// Moves the parent down.
    pub down: Site,
    /// Stores the new item.
    pub placed: Site,
}

/// Places of the code that takes the first item.
pub(super) struct PopSites {
    /// Loads the first item.
    pub first: Site,
    /// Loads the last item, which is to take its place.
    pub last: Site,
    /// Loads the left child.
    pub left: Site,
    /// Loads the right child.
    pub right: Site,
    /// Moves a child up.
    pub up: Site,
    /// Stores what was the last item.
    pub placed: Site,
}

/// Whose key is asked for. Each may be a load at a place of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyOf {
    Parent,
    Last,
    Left,
    Right,
}

pub(super) struct Heap<M: Memory, T: Element> {
    items: M::Array<T>,
    len: usize,
}

impl<M: Memory, T: Element> Heap<M, T> {
    /// An empty heap with room for `room` items.
    pub fn new(m: &mut M, room: usize) -> Heap<M, T> {
        Heap { items: m.array(room), len: 0 }
    }

    /// Items in the heap.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Forgets all items.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds an item with this key; `key_of` are the keys of others. There must be room.
    #[inline]
    pub fn push(&mut self, m: &mut M, at: &PushSites, item: T, key: u64, key_of: impl Fn(&mut M, KeyOf, T) -> u64) {
        let mut hole = self.len;
        self.len += 1;
        while hole > 0 {
            let parent = m.load(at.parent, &self.items, (hole - 1) / 2);
            if key_of(m, KeyOf::Parent, parent) <= key {
                break;
            }
            m.store(at.down, &mut self.items, hole, parent);
            hole = (hole - 1) / 2;
        }
        m.store(at.placed, &mut self.items, hole, item);
    }

    /// Takes the item with the smallest key.
    #[inline]
    pub fn pop(&mut self, m: &mut M, at: &PopSites, key_of: impl Fn(&mut M, KeyOf, T) -> u64) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let first = m.load(at.first, &self.items, 0);
        let last = m.load(at.last, &self.items, self.len);
        let key = key_of(m, KeyOf::Last, last);
        let mut hole = 0;
        while 2 * hole + 1 < self.len {
            let mut child = 2 * hole + 1;
            let mut item = m.load(at.left, &self.items, child);
            let mut smaller = key_of(m, KeyOf::Left, item);
            if child + 1 < self.len {
                let right = m.load(at.right, &self.items, child + 1);
                let its = key_of(m, KeyOf::Right, right);
                if its < smaller {
                    (child, item, smaller) = (child + 1, right, its);
                }
            }
            if key <= smaller {
                break;
            }
            m.store(at.up, &mut self.items, hole, item);
            hole = child;
        }
        m.store(at.placed, &mut self.items, hole, last);
        Some(first)
    }
}
