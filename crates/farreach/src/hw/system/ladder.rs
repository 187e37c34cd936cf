//! What machines with equally long lines know in common about a span: which references are hits in a first level of which size, as long as only the
//! program is at work.
//!
//! A direct-mapped cache holds whatever was referenced last in each of its sets. So what hits one with so many sets hits one with twice as many,
//! and the rungs of a ladder of such caches are looked at from the smallest on, up to the first hit. The same is true of the most recent
//! line of each set of an associative cache. What else moves lines, handlers and changes of mappings, a machine notes itself: see [`Exceptions`].

use super::{Item, NONE, PIECE_SHIFT};

/// What a ladder says of an item: log2 of the sets of the smallest rung in which it is a hit that changes nothing, or [`Mark::NO_RUNG`]; and as much of
/// its line and kind as [`Exceptions`] ask for.
#[derive(Clone, Copy)]
pub struct Mark(u32);

impl Mark {
    const RUNG_SHIFT: u32 = 27;
    /// Bits of the kind, below those of the line.
    const KIND_BITS: u32 = 2;
    const NO_RUNG: u32 = 31;
    /// log2 of the most sets whose numbers have room in it.
    pub const MOST_SETS: u32 = Mark::RUNG_SHIFT - Mark::KIND_BITS;

    #[inline(always)]
    fn new(rung: u32, line: u64, item: Item) -> Mark {
        let low = (line << Mark::KIND_BITS) as u32 | item.kind_index() as u32;
        Mark(rung << Mark::RUNG_SHIFT | low & ((1 << Mark::RUNG_SHIFT) - 1))
    }
}

/// Set in a place of a rung whose line was stored to.
const DIRTY: u64 = 1 << 63;

/// Direct-mapped caches from the smallest to the largest number of sets, of each side, for one line size.
pub struct Ladder {
    line_shift: u32,
    /// log2 of the sets of the first rung.
    first: u32,
    /// By side, rung after rung: lines with [`DIRTY`].
    rungs: [Vec<Vec<u64>>; 2],
    marks: Vec<Mark>,
}

impl Ladder {
    /// For machines with lines of `2^line_shift` bytes whose first levels have `2^fewest` to `2^most` sets.
    pub fn new(line_shift: u32, fewest: u32, most: u32) -> Ladder {
        let side: Vec<Vec<u64>> = (fewest..=most).map(|sets| vec![NONE; 1 << sets]).collect();
        Ladder { line_shift, first: fewest, rungs: [side.clone(), side], marks: Vec::new() }
    }

    /// log2 of the bytes of a line.
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// Another address space runs: nothing is known.
    pub fn clear(&mut self) {
        self.rungs.iter_mut().flatten().for_each(|rung| rung.fill(NONE));
    }

    /// A mark for each item.
    pub fn mark(&mut self, span: &[Item]) -> &[Mark] {
        self.marks.clear();
        let (over, first) = (self.line_shift - PIECE_SHIFT, self.first);
        let rungs = &mut self.rungs;
        self.marks.extend(span.iter().map(|&item| {
            let (line, store) = (item.piece() >> over, item.kind_index() == 2);
            for (i, rung) in rungs[item.side()].iter_mut().enumerate() {
                let mask = rung.len() - 1;
                let place = &mut rung[line as usize & mask];
                if *place & !DIRTY == line {
                    if !store || *place & DIRTY != 0 {
                        return Mark::new(first + i as u32, line, item);
                    }
                    *place = line | DIRTY;
                } else {
                    *place = line | if store { DIRTY } else { 0 };
                }
            }
            Mark::new(Mark::NO_RUNG, line, item)
        }));
        &self.marks
    }
}

/// Sets of a machine's first level in which a reference that the ladder calls a hit is not one that changes nothing: the line is not there, not modified, or
/// its protection is behind.
///
/// For every set without exception for a kind of reference: the line that the program referenced there last is in the first level and the most recent of
/// its set, it allows that kind, and for stores it is modified.
pub struct Exceptions {
    /// By set and kind of reference: whether one that the ladder calls a hit must be looked at.
    of: Vec<bool>,
    /// All of them.
    all: bool,
    /// Marks below are hits on the ladder.
    limit: u32,
}

impl Exceptions {
    /// Of a first level with `2^sets` sets to a side: nothing is known yet.
    pub fn new(sets: u32) -> Exceptions {
        let limit = (sets.min(Mark::MOST_SETS) + 1) << Mark::RUNG_SHIFT;
        Exceptions { of: vec![true; 1 << (sets + Mark::KIND_BITS)], all: true, limit }
    }

    /// log2 of the sets.
    pub fn sets(&self) -> u32 {
        self.of.len().trailing_zeros() - Mark::KIND_BITS
    }

    /// Nothing is known any more.
    pub fn all(&mut self) {
        if !self.all {
            self.of.fill(true);
            self.all = true;
        }
    }

    /// Where a line of a kind of reference stands.
    #[inline(always)]
    fn at(&mut self, line: u64, kind: usize) -> &mut bool {
        let mask = self.of.len() - 1;
        &mut self.of[(line << Mark::KIND_BITS) as usize & mask | kind]
    }

    /// Something other than a reference of the program moved lines in the set of this line.
    #[inline(always)]
    pub fn add(&mut self, side: usize, line: u64) {
        if side == 0 {
            *self.at(line, 0) = true;
        } else {
            *self.at(line, 1) = true;
            *self.at(line, 2) = true;
        }
    }

    /// Whether the reference must be looked at.
    #[inline(always)]
    pub fn concern(&self, mark: Mark) -> bool {
        mark.0 >= self.limit || self.of[mark.0 as usize & (self.of.len() - 1)]
    }

    /// The program has just referenced this line: whether a reference of a kind to it would be a hit that changes nothing.
    #[inline(always)]
    pub fn settle(&mut self, line: u64, kind: usize, quiet: bool) {
        self.all = false;
        *self.at(line, kind) = !quiet;
    }
}
