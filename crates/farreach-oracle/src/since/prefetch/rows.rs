//! A table of rows with full tags: sets by the low bits of the key, LRU in a set (section 2.2).

pub(super) struct Rows<T> {
    ways: usize,
    /// Each set with the row used longest ago first.
    sets: Vec<Vec<(i64, T)>>,
}

impl<T> Rows<T> {
    pub fn new(rows: usize, ways: usize) -> Rows<T> {
        assert!(rows.is_multiple_of(ways) && (rows / ways).is_power_of_two(), "{rows} rows in sets of {ways} (HW-13)");
        Rows { ways, sets: (0..rows / ways).map(|_| Vec::new()).collect() }
    }

    fn set(&mut self, key: i64) -> &mut Vec<(i64, T)> {
        let index = (key as u64) % self.sets.len() as u64;
        &mut self.sets[index as usize]
    }

    /// The row of this key, which is used by that.
    pub fn get(&mut self, key: i64) -> Option<&mut T> {
        let set = self.set(key);
        let place = set.iter().position(|row| row.0 == key)?;
        let row = set.remove(place);
        set.push(row);
        set.last_mut().map(|row| &mut row.1)
    }

    /// The row of this key, begun with this value if there is none.
    pub fn begun(&mut self, key: i64, new: T) -> &mut T {
        if self.get(key).is_none() {
            let ways = self.ways;
            let set = self.set(key);
            if set.len() == ways {
                set.remove(0);
            }
            set.push((key, new));
        }
        self.get(key).expect("it was begun")
    }

    /// All rows, by key.
    #[cfg(test)]
    pub fn all(&self) -> std::collections::BTreeMap<i64, &T> {
        self.sets.iter().flatten().map(|(key, row)| (*key, row)).collect()
    }
}

/// Puts a value first in a list of limited length; if it was there it moves (MP-1, DP-3).
pub(super) fn put_first(list: &mut Vec<i64>, value: i64, slots: usize) {
    list.retain(|old| *old != value);
    list.insert(0, value);
    list.truncate(slots);
}
