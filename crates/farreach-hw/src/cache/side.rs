//! Two levels of one side of a split hierarchy.

use super::{Cache, Line, Shape};
use farreach_types::translation::Attr;

/// Two levels, the second inclusive: a line evicted from it leaves the first level too, so that every first-level line
/// has a line to be written back to. Both are write-back. A second-level line is one or more first-level lines long; a
/// fill brings the whole of it into the second level and the requested part into the first (AMB-48). Lines are named by
/// the number of the *first-level* line.
///
/// There may be several first levels beside each other, as if the program ran on several machines. Then all levels are
/// direct-mapped, so each set holds the line that was referenced there last, unless it was removed from all levels: a
/// line in one first level is in every larger one too, and the second level is the same below any of them.
#[derive(Clone, Debug)]
pub struct Side {
    /// The smallest first.
    first_levels: Vec<Cache>,
    l2: Cache,
    /// log2 of the first-level lines in a second-level line.
    over: u32,
}

/// Where a reference was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Found in a first level; this many smaller ones missed and have it now. 0: all have it.
    L1(usize),
    /// Second level; it is in the first now.
    L2,
    /// Neither.
    Memory,
}

/// A second-level line that was evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Number of its first first-level line.
    pub number: u64,
    /// Whether it was modified and must be written back.
    pub dirty: bool,
}

impl Side {
    /// Empty levels. Several first levels come in ascending order of size, with equal lines; then all are
    /// direct-mapped, as is the second level. The error names the values that do not fit.
    pub fn new(first_levels: &[Shape], l2: Shape) -> Result<Side, String> {
        let l1 = first_levels[0];
        let direct = |shape: &Shape| shape.ways == 1;
        assert!(first_levels.len() == 1 || first_levels.iter().chain([&l2]).all(direct), "a family is direct-mapped");
        assert!(
            first_levels.is_sorted_by_key(|f| f.size) && first_levels.iter().all(|f| f.line == l1.line),
            "a family ascends"
        );
        if !l2.line.is_power_of_two() {
            return Err(format!("l2_line = {} is not allowed: a line is a power of two", l2.line));
        }
        if l2.line < l1.line {
            return Err(format!(
                "a second-level line of {} bytes is shorter than a first-level one of {}",
                l2.line, l1.line
            ));
        }
        let over = (l2.line / l1.line).trailing_zeros();
        let first_levels = first_levels.iter().map(|&first| Cache::new(first)).collect::<Result<_, _>>()?;
        Ok(Side { first_levels, l2: Cache::new(l2)?, over })
    }

    /// A reference that hits the smallest first level: the line.
    #[inline(always)]
    pub fn first(&mut self, number: u64) -> Option<&mut Line> {
        self.first_levels[0].find(number)
    }

    /// A reference. `store` marks the line modified, if it is found.
    pub fn reference(&mut self, number: u64, store: bool) -> Found {
        for missed in 0..self.first_levels.len() {
            if let Some(line) = self.first_levels[missed].find(number) {
                let attr = line.attr();
                if missed > 0 {
                    self.fill_first_levels(missed, number, attr, store);
                } else if store {
                    line.set_dirty();
                }
                return Found::L1(missed);
            }
        }
        let Some(attr) = self.l2.find(number >> self.over).map(|line| line.attr()) else { return Found::Memory };
        self.fill_first_levels(self.first_levels.len(), number, attr, store);
        Found::L2
    }

    /// The number of first levels that missed.
    pub fn missed(&self, found: Found) -> usize {
        match found {
            Found::L1(missed) => missed,
            Found::L2 | Found::Memory => self.first_levels.len(),
        }
    }

    /// Brings a line that is in neither level from memory into both (SV97-8, AMB-44). Returns the line evicted from the
    /// second level.
    pub fn insert(&mut self, number: u64, attr: Attr, store: bool) -> Option<Lost> {
        let lost = self.l2.insert(number >> self.over, attr, false).map(|victim| self.lose(victim));
        self.fill_first_levels(self.first_levels.len(), number, attr, store);
        lost
    }

    /// Brings a line into the smallest first levels. Only the smallest of them keeps the modified bit, for all: it is
    /// the first to evict the line.
    fn fill_first_levels(&mut self, levels: usize, number: u64, attr: Attr, store: bool) {
        for (i, first) in self.first_levels[..levels].iter_mut().enumerate() {
            if let Some(victim) = first.insert(number, attr, store && i == 0).filter(|line| line.dirty()) {
                self.l2.peek_mut(victim.number() >> self.over).expect("the second level is inclusive").set_dirty();
            }
        }
    }

    /// Removes the second-level line around `number` from both levels; returns whether it was there, and whether it was
    /// modified.
    pub fn remove(&mut self, number: u64) -> Option<Lost> {
        self.l2.remove(number >> self.over).map(|line| self.lose(line))
    }

    /// Removes a line that left the second level from the first levels, too.
    fn lose(&mut self, line: Line) -> Lost {
        let number = line.number() << self.over;
        let parts = number..number + self.parts();
        let each = self.first_levels.iter_mut().flat_map(|first| parts.clone().filter_map(|part| first.remove(part)));
        Lost { number, dirty: each.fold(line.dirty(), |dirty, part| dirty | part.dirty()) }
    }

    /// Removes every second-level line for which `which` holds, given the number of its first first-level line.
    pub fn remove_all(&mut self, which: impl Fn(u64) -> bool) -> Vec<Lost> {
        let numbers: Vec<u64> = self.l2.lines().map(|line| line.number() << self.over).filter(|&n| which(n)).collect();
        numbers.into_iter().filter_map(|n| self.remove(n)).collect()
    }

    /// First-level lines in a second-level one.
    pub fn parts(&self) -> u64 {
        1 << self.over
    }

    /// The first level, or the smallest.
    pub fn l1(&self) -> &Cache {
        &self.first_levels[0]
    }

    /// The second level, with numbers of its own, longer lines: see [`Side::parts`].
    pub fn l2(&self) -> &Cache {
        &self.l2
    }

    /// Changes the protection of one first-level line where it is cached; returns the number of first levels, the
    /// smallest, that do not have it.
    pub fn protect_first(&mut self, number: u64, attr: Attr) -> usize {
        let levels = self.first_levels.len();
        levels
            - self
                .first_levels
                .iter_mut()
                .filter_map(|first| first.peek_mut(number).map(|line| line.set_attr(attr)))
                .count()
    }

    /// Changes the protection of the second-level line around `number`; returns whether it was there.
    pub fn protect_second(&mut self, number: u64, attr: Attr) -> bool {
        self.l2.peek_mut(number >> self.over).map(|line| line.set_attr(attr)).is_some()
    }
}
