//! Caches of lines: one level ([`Cache`]), two levels of one side ([`Side`]), and those of a current processor
//! ([`Levels`]). A cache works on line numbers, addresses divided by the line size; the caller decides whether they are
//! virtual or physical.

pub mod levels;
mod nodes;
mod port;
pub mod replacement;
mod second;
mod side;

pub use levels::{At, Levels};
pub(crate) use nodes::{Entry, Nodes, RADIX};
pub(crate) use port::answered_at;
pub use port::{Begins, LastWalk, NodeRead, Port, Purpose};
pub(crate) use second::PART;
pub use side::{Found, Lost, Side};

use farreach_types::addr::Bytes;
use farreach_types::translation::Attr;

/// Size, line and ways of one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes.
    pub size: u64,
    /// Bytes per line, a power of two.
    pub line: u64,
    /// Lines per set; 0: fully associative.
    pub ways: u64,
}

impl Shape {
    /// Sets and ways; the error names the values that do not fit together.
    fn arrange(&self) -> Result<(u64, usize), String> {
        let lines = self.size / self.line;
        let ways = if self.ways == 0 { lines } else { self.ways };
        let whole = self.line.is_power_of_two() && self.size.is_multiple_of(self.line) && lines > 0;
        if !whole || !lines.is_multiple_of(ways) || !(lines / ways).is_power_of_two() {
            return Err(format!(
                "{} bytes of {}-byte lines, {} to a set, is not allowed: the number of sets must be a power of two",
                Bytes(self.size),
                self.line,
                ways
            ));
        }
        Ok((lines / ways, ways as usize))
    }
}

/// A valid line: its number, dirty bit and protection bits (SV97-3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Line(u64);

impl Line {
    const VALID: u64 = 1;
    const DIRTY: u64 = 2;
    const ATTR_SHIFT: u32 = 2;
    const NUMBER_SHIFT: u32 = 8;
    const ATTR: u64 = 0x3f << Line::ATTR_SHIFT;
    const EMPTY: Line = Line(0);

    /// Line numbers go up to here.
    pub const MAX_NUMBER: u64 = (1 << (64 - Line::NUMBER_SHIFT)) - 1;

    #[inline(always)]
    fn key(number: u64) -> u64 {
        number << Line::NUMBER_SHIFT | Line::VALID
    }
    #[inline(always)]
    fn matches(self, key: u64) -> bool {
        self.0 & !(Line::DIRTY | Line::ATTR) == key
    }
    fn new(number: u64, attr: Attr, dirty: bool) -> Line {
        debug_assert!(number <= Line::MAX_NUMBER, "line {number:#x}");
        let attr = u64::from(attr.0) << Line::ATTR_SHIFT & Line::ATTR;
        Line(Line::key(number) | attr | if dirty { Line::DIRTY } else { 0 })
    }
    fn valid(self) -> bool {
        self.0 & Line::VALID != 0
    }
    /// Its number: the address div the line size.
    pub fn number(self) -> u64 {
        self.0 >> Line::NUMBER_SHIFT
    }
    /// Stored to since it was brought in.
    #[inline(always)]
    pub fn dirty(self) -> bool {
        self.0 & Line::DIRTY != 0
    }
    /// Protection.
    #[inline(always)]
    pub fn attr(self) -> Attr {
        Attr(((self.0 & Line::ATTR) >> Line::ATTR_SHIFT) as u8)
    }
    /// Marks it modified.
    #[inline(always)]
    pub fn set_dirty(&mut self) {
        self.0 |= Line::DIRTY;
    }
    /// Changes the protection.
    pub fn set_attr(&mut self, attr: Attr) {
        *self = Line::new(self.number(), attr, self.dirty());
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}{}:{:o}", self.number(), if self.dirty() { "*" } else { "" }, self.attr().0)
    }
}

/// Puts a line at the front of a set; those in front of this way move back by one, and the one in it goes.
#[inline(always)]
fn push(set: &mut [Line], way: usize, line: Line) {
    set.copy_within(..way, 1);
    set[0] = line;
}

/// One cache: write-back, with LRU replacement in a set. The set is the low bits of the line number.
#[derive(Clone, Debug)]
pub struct Cache {
    mask: u64,
    ways: usize,
    /// Set after set; inside a set the most recently used line first, empty ones last.
    lines: Vec<Line>,
}

impl Cache {
    /// An empty cache.
    pub fn new(shape: Shape) -> Result<Cache, String> {
        let (sets, ways) = shape.arrange()?;
        Ok(Cache { mask: sets - 1, ways, lines: vec![Line::EMPTY; sets as usize * ways] })
    }

    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.mask + 1
    }

    /// Lines that it can hold.
    pub(crate) fn slots(&self) -> usize {
        self.lines.len()
    }

    #[inline(always)]
    fn set(&self, number: u64) -> usize {
        (number & self.mask) as usize * self.ways
    }

    /// A reference: the line, now the most recently used of its set.
    #[inline(always)]
    pub fn find(&mut self, number: u64) -> Option<&mut Line> {
        let at = self.set(number);
        if !self.lines[at].matches(Line::key(number)) && (self.ways == 1 || !self.raise(at, number)) {
            return None;
        }
        Some(&mut self.lines[at])
    }

    /// Moves a line of the set at `at` to its front, if it is there.
    fn raise(&mut self, at: usize, number: u64) -> bool {
        let set = &mut self.lines[at..at + self.ways];
        let way = set.iter().position(|line| line.matches(Line::key(number)));
        if let Some(way) = way {
            let line = set[way];
            push(set, way, line);
        }
        way.is_some()
    }

    /// The line, without a reference to it.
    pub fn peek(&self, number: u64) -> Option<Line> {
        let at = self.set(number);
        self.lines[at..at + self.ways].iter().copied().find(|line| line.matches(Line::key(number)))
    }

    /// As [`Cache::peek`], to change it.
    pub fn peek_mut(&mut self, number: u64) -> Option<&mut Line> {
        let at = self.set(number);
        self.lines[at..at + self.ways].iter_mut().find(|line| line.matches(Line::key(number)))
    }

    /// Inserts a line that is not there; returns the evicted one.
    pub fn insert(&mut self, number: u64, attr: Attr, dirty: bool) -> Option<Line> {
        debug_assert!(self.peek(number).is_none(), "line {number:#x} is there already");
        let at = self.set(number);
        let set = &mut self.lines[at..at + self.ways];
        let victim = set[self.ways - 1];
        push(set, self.ways - 1, Line::new(number, attr, dirty));
        victim.valid().then_some(victim)
    }

    /// Removes a line.
    pub fn remove(&mut self, number: u64) -> Option<Line> {
        let at = self.set(number);
        let set = &mut self.lines[at..at + self.ways];
        let way = set.iter().position(|line| line.matches(Line::key(number)))?;
        let gone = set[way];
        set[way..].rotate_left(1);
        set[self.ways - 1] = Line::EMPTY;
        Some(gone)
    }

    /// The valid lines, set by set, most recently used first.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.lines.iter().copied().filter(|line| line.valid())
    }
}
