//! A map from block ids to values.

/// Values by block id: an array for dense ids, as recorders number them, a map for the rest. So one hostile id does not
/// take memory up to its value.
#[derive(Clone, Debug)]
pub struct ById<T> {
    dense: Vec<Option<T>>,
    sparse: std::collections::HashMap<u32, T>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        ById { dense: Vec::new(), sparse: Default::default() }
    }
}

impl<T> ById<T> {
    /// The value at `id`.
    #[inline(always)]
    pub fn get(&self, id: u32) -> Option<&T> {
        match self.dense.get(id as usize) {
            Some(slot) => slot.as_ref(),
            None => self.get_sparse(id),
        }
    }
    /// The value at `id`, to change it.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.dense.get_mut(id as usize) {
            Some(slot) => slot.as_mut(),
            None => self.sparse.get_mut(&id),
        }
    }
    #[cold]
    fn get_sparse(&self, id: u32) -> Option<&T> {
        self.sparse.get(&id)
    }
    /// The array of dense ids, by id, for prefetches.
    #[inline(always)]
    pub fn slots(&self) -> &[Option<T>] {
        &self.dense
    }
    /// Inserts a value at an id that has none.
    pub fn insert(&mut self, id: u32, value: T) {
        let at = id as usize;
        if at >= self.dense.len() {
            if at > 4 * self.dense.len() + (1 << 16) {
                self.sparse.insert(id, value);
                return;
            }
            let end = (at + 1).max(self.dense.len() * 2).max(1024);
            self.dense.resize_with(end, || None);
            // Entries of the map that now belong into the array.
            let (moved, stay) = std::mem::take(&mut self.sparse).into_iter().partition(|(i, _)| (*i as usize) < end);
            self.sparse = stay;
            let moved: std::collections::HashMap<u32, T> = moved;
            for (i, value) in moved {
                self.dense[i as usize] = Some(value);
            }
        }
        self.dense[at] = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_BLOCKS;
    use super::*;

    #[test]
    fn ids_dense_and_far_apart() {
        let mut by_id = ById::default();
        let ids = [3, 0, MAX_BLOCKS - 1, 70_000, 1, 200_000, 500_000_000, 65_000, 300_000, 1_000_000, 140_000];
        for (i, id) in ids.iter().enumerate() {
            assert_eq!(by_id.get(*id), None);
            by_id.insert(*id, i);
            for (k, id) in ids.iter().enumerate().take(i + 1) {
                assert_eq!(by_id.get(*id), Some(&k));
            }
        }
        assert_eq!((by_id.get(2), by_id.get(u32::MAX)), (None, None));
        assert!(by_id.dense.len() < 3_000_000, "one far id takes no array: {}", by_id.dense.len());
    }
}
