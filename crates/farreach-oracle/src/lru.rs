//! Sets of entries in the order of their last use, for the models that need no more than that.

/// A set-associative array with LRU.
#[derive(Clone, Debug)]
pub struct Sets<E> {
    ways: usize,
    /// The entry used longest ago first.
    sets: Vec<Vec<E>>,
}

impl<E: Clone> Sets<E> {
    /// Fully associative if there are as many ways as entries; without entries it holds nothing.
    pub fn new(entries: usize, ways: usize) -> Sets<E> {
        let sets = if entries == 0 { 0 } else { entries / ways };
        assert!(entries == 0 || entries == sets * ways && sets.is_power_of_two(), "HW-13: {entries} in {ways} ways");
        Sets { ways, sets: vec![Vec::new(); sets] }
    }

    fn set(&mut self, index: u64) -> Option<&mut Vec<E>> {
        let sets = self.sets.len().max(1) as u64;
        self.sets.get_mut((index % sets) as usize)
    }

    /// The entry that is meant, which is the newest of its set then.
    pub fn hit(&mut self, index: u64, is: impl Fn(&E) -> bool) -> Option<E> {
        let set = self.set(index)?;
        let place = set.iter().position(is)?;
        let entry = set.remove(place);
        set.push(entry.clone());
        Some(entry)
    }

    /// A new entry, and what leaves for it.
    pub fn put(&mut self, index: u64, entry: E) -> Option<E> {
        let ways = self.ways;
        let set = self.set(index)?;
        let oldest = (set.len() == ways).then(|| set.remove(0));
        set.push(entry);
        oldest
    }

    /// Drops entries, and says how many.
    pub fn drop_if(&mut self, goes: impl Fn(&E) -> bool) -> u64 {
        let before = self.all().count();
        self.sets.iter_mut().for_each(|set| set.retain(|entry| !goes(entry)));
        (before - self.all().count()) as u64
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = &E> {
        self.sets.iter().flatten()
    }
}
