//! Two levels of one side of a split hierarchy.

use super::{Cache, Line, Shape};
use crate::hw::tlb::Attr;

/// Two levels, the second inclusive: what leaves it leaves the first level too, so that every first-level line has a line to be written
/// back to. Both are write-back. A second-level line is one or more first-level lines long; a fill brings the whole of it into the second
/// level and the part asked for into the first (AMB-48). Lines are named by the number of the *first-level* line.
#[derive(Clone, Debug)]
pub struct Side {
    l1: Cache,
    l2: Cache,
    /// log2 of the first-level lines in a second-level line.
    over: u32,
}

/// Where a reference was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// First level.
    L1(Attr),
    /// Second level; it is in the first now.
    L2(Attr),
    /// Neither.
    Memory,
}

/// A second-level line that had to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Number of its first first-level line.
    pub number: u64,
    /// It was modified and is to be written back.
    pub dirty: bool,
}

impl Side {
    /// Two empty levels. The error says what does not fit.
    pub fn new(l1: Shape, l2: Shape) -> Result<Side, String> {
        if !l2.line.is_power_of_two() {
            return Err(format!("l2_line = {} is not allowed: a line is a power of two", l2.line));
        }
        if l2.line < l1.line {
            return Err(format!("a second-level line of {} bytes is shorter than a first-level one of {}", l2.line, l1.line));
        }
        let over = (l2.line / l1.line).trailing_zeros();
        Ok(Side { l1: Cache::new(l1)?, l2: Cache::new(l2)?, over })
    }

    /// A reference that hits the first level: the line.
    #[inline(always)]
    pub fn first(&mut self, number: u64) -> Option<&mut Line> {
        self.l1.find(number)
    }

    /// A reference. `store` marks the line modified, if it is found.
    pub fn reference(&mut self, number: u64, store: bool) -> Found {
        if let Some(line) = self.l1.find(number) {
            if store {
                line.set_dirty();
            }
            return Found::L1(line.attr());
        }
        let Some(attr) = self.l2.find(number >> self.over).map(|line| line.attr()) else { return Found::Memory };
        self.fill_first(number, attr, store);
        Found::L2(attr)
    }

    /// Brings a line in from memory that is in neither level. What left the second level is the answer.
    pub fn insert(&mut self, number: u64, attr: Attr, store: bool) -> Option<Lost> {
        let lost = self.l2.insert(number >> self.over, attr, false).map(|victim| {
            let first = victim.number() << self.over;
            let mut dirty = victim.dirty();
            for part in first..first + (1 << self.over) {
                dirty |= self.l1.remove(part).is_some_and(Line::dirty);
            }
            Lost { number: first, dirty }
        });
        self.fill_first(number, attr, store);
        lost
    }

    fn fill_first(&mut self, number: u64, attr: Attr, store: bool) {
        if let Some(victim) = self.l1.insert(number, attr, store).filter(|line| line.dirty()) {
            self.l2.peek_mut(victim.number() >> self.over).expect("the second level is inclusive").set_dirty();
        }
    }

    /// Takes the second-level line around `number` out of both levels; whether it was there, and whether it was modified.
    pub fn remove(&mut self, number: u64) -> Option<Lost> {
        let line = self.l2.remove(number >> self.over)?;
        let first = line.number() << self.over;
        let parts = (first..first + (1 << self.over)).filter_map(|part| self.l1.remove(part));
        let dirty = parts.fold(line.dirty(), |dirty, part| dirty | part.dirty());
        Some(Lost { number: first, dirty })
    }

    /// Takes out every second-level line of which `which` says so, given the number of its first first-level line.
    pub fn remove_all(&mut self, which: impl Fn(u64) -> bool) -> Vec<Lost> {
        let numbers: Vec<u64> = self.l2.lines().map(|line| line.number() << self.over).filter(|&n| which(n)).collect();
        numbers.into_iter().filter_map(|n| self.remove(n)).collect()
    }

    /// First-level lines in a second-level one.
    pub fn parts(&self) -> u64 {
        1 << self.over
    }

    /// The first level.
    pub fn l1(&self) -> &Cache {
        &self.l1
    }

    /// The second level. It knows lines by their own, longer size: see [`Side::parts`].
    pub fn l2(&self) -> &Cache {
        &self.l2
    }

    /// Changes the protection of one first-level line where it is; whether it was there.
    pub fn protect_first(&mut self, number: u64, attr: Attr) -> bool {
        self.l1.peek_mut(number).map(|line| line.set_attr(attr)).is_some()
    }

    /// Changes the protection of the second-level line around `number`; whether it was there.
    pub fn protect_second(&mut self, number: u64, attr: Attr) -> bool {
        self.l2.peek_mut(number >> self.over).map(|line| line.set_attr(attr)).is_some()
    }
}
