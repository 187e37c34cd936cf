//! What the program's own references do to the caches, for machines that pass them on line by line.

use super::{Item, NONE};
use crate::cache::At;
use farreach_types::counts::{CacheCounts, LineCounts};

/// Misses of the program by side, and which references may be skipped.
pub(super) struct ProgramLines {
    /// By kind: the line that, referenced again, is a hit that changes nothing.
    last: [u64; 3],
    counts: [LineCounts; 2],
}

impl ProgramLines {
    pub fn new() -> ProgramLines {
        ProgramLines { last: [NONE; 3], counts: Default::default() }
    }

    /// Whether a reference to the line is a hit that changes nothing.
    #[inline(always)]
    pub fn repeats(&self, item: Item, line: u64) -> bool {
        self.last[item.kind_index()] == line
    }

    /// This level answered a reference to the line.
    #[inline(always)]
    pub fn referenced(&mut self, item: Item, line: u64, at: At) {
        if at > At::L1 {
            // The fill may have evicted any other line.
            self.forget();
            let counts = &mut self.counts[item.side()];
            counts.l1_misses += 1;
            counts.l2_misses += u64::from(at > At::L2);
            counts.llc_misses += u64::from(at > At::Llc);
        }
        match item.kind_index() {
            0 => self.last[0] = line,
            // A store to a line that is not yet modified changes it.
            1 => (self.last[1], self.last[2]) = (line, if self.last[2] == line { line } else { NONE }),
            _ => (self.last[1], self.last[2]) = (line, line),
        }
    }

    /// Any line may have left the caches.
    #[inline]
    pub fn forget(&mut self) {
        self.last = [NONE; 3];
    }

    /// The counts. `accesses`: as for [`System::counts`](super::System::counts).
    pub fn counts(&self, accesses: [u64; 2], memory_writes: u64) -> CacheCounts {
        let of = |side: usize| LineCounts { accesses: accesses[side], ..self.counts[side].clone() };
        CacheCounts { fetch: of(0), data: of(1), memory_writes }
    }
}
