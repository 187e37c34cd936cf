//! Families: machines that differ only in the first level. Everything else is equal, so it is simulated and counted
//! once.
//!
//! Levels are direct-mapped and the second includes the first, so each of its sets holds the line that was referenced
//! there last, even if the first level answered the reference. Handlers run where the second level misses: at the same
//! references, for the same lines, in every machine of the family.

use super::keys::{self, L1_SIZE};
use farreach_types::counts::SystemCounts;
use farreach_types::params::Params;

/// Most machines in a family.
pub const FAMILY: usize = 16;

/// Whether machines with virtual caches that differ only in [`L1_SIZE`] may form a family. Not if lines keep an
/// outdated protection, which is noticed when a first level hits them, nor if a first level is larger than the second:
/// the larger one decides whether synonyms fall on the same lines.
pub(super) fn alike(params: &Params) -> bool {
    let (l1, l2) = keys::shapes(params);
    (l1.ways, l2.ways, l1.line) == (1, 1, l2.line)
        && l1.size <= l2.size
        && !params.flag(keys::LAZY_RAISE.name)
        && params.text(keys::ON_REMAP.name) == "flush"
}

/// The key in which machines of a family differ.
pub const DIFFERENCE: &str = L1_SIZE.name;

/// Counts references by the number of first levels that missed, smallest first.
#[derive(Clone, Copy, Default)]
pub(super) struct Missed([u64; FAMILY + 1]);

impl Missed {
    #[inline(always)]
    pub fn add(&mut self, levels: usize) {
        self.0[levels] += 1;
    }
    /// How often the first level of a member missed.
    fn of(&self, member: usize) -> u64 {
        self.0[member + 1..].iter().sum()
    }
    fn all(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Counters that depend on the first level.
#[derive(Clone, Default)]
pub(super) struct L1Misses {
    /// References of the program, by side and by whether the TLB had to be filled. Hits in all that needed no TLB are
    /// not here.
    pub program: [[Missed; 2]; 2],
    /// References of handlers, by side.
    pub handler: [Missed; 2],
    /// The same of handlers that ran again for a line to be written back.
    pub write_back: [Missed; 2],
    /// Lines that a sweep looked for.
    pub swept: Missed,
}

impl L1Misses {
    /// The counts of a member, from those of the family.
    pub fn complete(&self, member: usize, mut counts: SystemCounts) -> SystemCounts {
        for (side, program) in [&mut counts.fetch, &mut counts.data].into_iter().zip(&self.program) {
            for (filled, missed) in program.iter().enumerate() {
                side.l1_misses += missed.of(member);
                side.events[2 + filled] = missed.of(member) - side.events[4 + filled];
            }
            side.events[1] = program[1].all() - program[1].of(member);
        }
        for (rows, missed) in [(&mut counts.handler, &self.handler), (&mut counts.write_back, &self.write_back)] {
            rows.l1i_misses = missed[0].of(member);
            rows.l1d_misses = missed[1].of(member);
        }
        counts.sweep_l1_changed = self.swept.all() - self.swept.of(member);
        counts
    }
}
