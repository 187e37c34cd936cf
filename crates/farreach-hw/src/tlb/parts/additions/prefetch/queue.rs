//! A queue of entries with unique keys, from which any entry can leave.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::Hash;

/// No slot.
const NONE: u32 = u32::MAX;

struct Node<K, V> {
    /// `None`: the slot is free, and `older` is the next that is free.
    item: Option<(K, V)>,
    newer: u32,
    older: u32,
}

/// See the module. Slots keep their number while they hold an entry. Once there have been as many entries as were
/// promised, nothing is allocated any more.
pub(super) struct Queue<K, V> {
    slots: HashMap<K, u32, FixedState>,
    nodes: Vec<Node<K, V>>,
    free: u32,
    newest: u32,
    oldest: u32,
}

impl<K: Copy + Eq + Hash, V> Queue<K, V> {
    /// With room for this many entries.
    pub fn new(room: usize) -> Queue<K, V> {
        Queue {
            // Twice as many, since entries that left take room in a hash table, too.
            slots: HashMap::with_capacity_and_hasher(2 * room, FixedState::default()),
            nodes: Vec::with_capacity(room),
            free: NONE,
            newest: NONE,
            oldest: NONE,
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn contains(&self, key: &K) -> bool {
        self.slots.contains_key(key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.nodes[*self.slots.get(key)? as usize].item.as_ref().map(|(_, value)| value)
    }

    fn key(&self, slot: u32) -> Option<K> {
        self.nodes.get(slot as usize).and_then(|node| node.item.as_ref()).map(|(key, _)| *key)
    }

    /// The newest entry.
    pub fn newest(&self) -> Option<K> {
        self.key(self.newest)
    }

    /// The entry that came next after this one.
    pub fn newer(&self, key: &K) -> Option<K> {
        self.key(self.nodes[*self.slots.get(key)? as usize].newer)
    }

    /// The entry that came last before this one.
    pub fn older(&self, key: &K) -> Option<K> {
        self.key(self.nodes[*self.slots.get(key)? as usize].older)
    }

    /// Adds an entry, whose key is not there, as the newest.
    pub fn push(&mut self, key: K, value: V) {
        let node = Node { item: Some((key, value)), newer: NONE, older: self.newest };
        let slot = match self.free {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            free => {
                self.free = self.nodes[free as usize].older;
                self.nodes[free as usize] = node;
                free
            }
        };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.nodes[newest as usize].newer = slot,
        }
        self.newest = slot;
        let there = self.slots.insert(key, slot);
        debug_assert_eq!(there, None, "a key is there twice");
    }

    fn unlink(&mut self, slot: u32) -> Option<(K, V)> {
        let free = std::mem::replace(&mut self.free, slot);
        let node = &mut self.nodes[slot as usize];
        let (newer, older) = (node.newer, std::mem::replace(&mut node.older, free));
        let item = node.item.take();
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        item
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.unlink(slot).map(|(_, value)| value)
    }

    /// Takes the oldest entry out.
    pub fn pop(&mut self) -> Option<(K, V)> {
        let key = self.key(self.oldest)?;
        self.remove(&key).map(|value| (key, value))
    }

    /// Takes the entries out for which this holds. Returns how many there were.
    pub fn drop_where(&mut self, goes: impl Fn(&K, &V) -> bool) -> u64 {
        let before = self.len();
        for slot in 0..self.nodes.len() {
            if let Some((key, value)) = &self.nodes[slot].item
                && goes(key, value)
            {
                let key = *key;
                self.slots.remove(&key);
                self.unlink(slot as u32);
            }
        }
        (before - self.len()) as u64
    }

    /// The entries by slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, &K, &V)> {
        let item = |(slot, node)| {
            let node: &Node<K, V> = node;
            node.item.as_ref().map(|(key, value)| (slot, key, value))
        };
        self.nodes.iter().enumerate().filter_map(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(queue: &Queue<u64, ()>) -> Vec<u64> {
        std::iter::successors(queue.newest(), |key| queue.older(key)).collect()
    }

    #[test]
    fn entries_leave_from_any_place_and_slots_are_used_again() {
        let mut queue = Queue::new(3);
        for key in [1, 2, 3] {
            queue.push(key, ());
        }
        assert_eq!((keys(&queue), queue.newer(&1), queue.older(&1)), (vec![3, 2, 1], Some(2), None));
        assert_eq!((queue.remove(&2), queue.remove(&2)), (Some(()), None));
        queue.push(4, ());
        assert_eq!(keys(&queue), [4, 3, 1]);
        assert_eq!(queue.slots().map(|(_, key, ())| *key).collect::<Vec<_>>(), [1, 4, 3]);
        assert_eq!(queue.pop(), Some((1, ())));
        assert_eq!((queue.drop_where(|key, ()| *key == 4), queue.len()), (1, 1));
        assert_eq!((queue.pop(), queue.pop(), queue.newest()), (Some((3, ())), None, None));
        queue.push(5, ());
        assert_eq!(keys(&queue), [5]);
    }
}
