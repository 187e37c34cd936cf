//! What a design that must know the future gets between its two passes over a stream (REP-1).

/// No use follows.
pub(in crate::tlb) const NEVER: u32 = u32::MAX;

/// What a design has learned in the first pass, for another of the same keys in the second.
#[derive(Default)]
pub struct Future(pub(in crate::tlb) Vec<Uses>);

/// One lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Use {
    /// The number of the next lookup that the entry of this one can answer, or [`NEVER`].
    pub next: u32,
    /// A hash of what was looked up, so that passes that differ are noticed.
    pub check: u32,
}

/// The lookups of a level, in order: 8 bytes each. Numbers begin with 0.
#[derive(Default)]
pub(in crate::tlb) struct Uses(Vec<Box<[Use]>>);

/// log2 of the lookups in a piece. A list in one piece would need twice its memory whenever it grows.
const PIECE: u32 = 16;

impl Uses {
    /// The next lookup, which is number `at`.
    pub fn push(&mut self, at: u32, use_: Use) {
        if at as usize >> PIECE == self.0.len() {
            self.0.push(vec![Use { next: NEVER, check: 0 }; 1 << PIECE].into());
        }
        *self.at(at) = use_;
    }

    /// One of those there are.
    pub fn at(&mut self, at: u32) -> &mut Use {
        &mut self.0[at as usize >> PIECE][at as usize & ((1 << PIECE) - 1)]
    }

    /// As before, to look at. Behind the last, what no lookup has.
    pub fn get(&self, at: u32) -> Use {
        let piece = self.0.get(at as usize >> PIECE);
        piece.map_or(Use { next: NEVER, check: 0 }, |piece| piece[at as usize & ((1 << PIECE) - 1)])
    }
}
