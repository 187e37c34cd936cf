//! A fully associative array with LRU replacement: VLBs and MLBs.

/// Entries, the one used last first.
pub(super) struct Lru<T> {
    entries: Vec<T>,
    most: usize,
}

impl<T: Copy> Lru<T> {
    /// An empty array of this many entries; 0: it never holds anything.
    pub fn new(most: u64) -> Lru<T> {
        Lru { entries: Vec::with_capacity(most as usize), most: most as usize }
    }

    /// The entry for which `is` holds, of which there is one at most. Finding it is a use.
    #[inline]
    pub fn find(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.entries.iter().position(is)?;
        self.entries[..=at].rotate_right(1);
        Some(self.entries[0])
    }

    /// Adds an entry that is not there; returns whether another had to go.
    pub fn fill(&mut self, entry: T) -> bool {
        if self.most == 0 {
            return false;
        }
        let full = self.entries.len() == self.most;
        if full {
            self.entries.pop();
        }
        self.entries.insert(0, entry);
        full
    }

    /// Drops entries; returns how many.
    pub fn drop_where(&mut self, goes: impl Fn(&T) -> bool) -> u64 {
        let before = self.entries.len();
        self.entries.retain(|entry| !goes(entry));
        (before - self.entries.len()) as u64
    }
}
