//! Phases of a run in the study (`--every`): the misses of each, and its *working set*, the distinct pages of each size
//! that it touches.
//!
//! Misses of the phases add up to those of the run, because stacks are not emptied in between. Working sets do not: a
//! page belongs to each phase that touches it.

use super::super::marks::{MOST_PHASES, too_many};
use super::super::tally::Tally;
use super::sides::Sides;
use super::touched_pages::WorkingSet;

/// What was counted in a phase.
#[derive(Clone)]
pub(super) struct Part {
    pub tally: Tally,
    /// For each size: misses by side, and its pages.
    pub sizes: Vec<([u64; 2], WorkingSet)>,
}

/// The phases so far.
pub(super) struct Parts {
    /// Of the TLBs whose misses are told.
    entries: u64,
    /// What was counted before the phase began, if it began later than all else.
    before: Option<Part>,
    ended: Vec<Part>,
}

impl Parts {
    pub fn new(entries: u64) -> Parts {
        Parts { entries, before: None, ended: Vec::new() }
    }

    /// What is counted begins here.
    pub fn begin(&mut self, sides: &mut Sides) {
        self.before = Some(self.now(sides));
        sides.begin_part();
    }

    /// A phase ends, and another begins. There may not be too many.
    pub fn end_phase(&mut self, sides: &mut Sides) -> Result<(), String> {
        if self.ended.len() == MOST_PHASES {
            return Err(too_many());
        }
        self.ended.push(self.part(sides));
        self.begin(sides);
        Ok(())
    }

    fn now(&self, sides: &Sides) -> Part {
        Part { tally: sides.tally, sizes: sides.in_part(self.entries) }
    }

    /// The phase that is under way.
    fn part(&self, sides: &Sides) -> Part {
        let mut part = self.now(sides);
        if let Some(before) = &self.before {
            part.tally = part.tally.since(&before.tally);
            for ((misses, _), (earlier, _)) in part.sizes.iter_mut().zip(&before.sizes) {
                (misses[0], misses[1]) = (misses[0] - earlier[0], misses[1] - earlier[1]);
            }
        }
        part
    }

    /// All phases, the last as far as it came; none if no phase ended.
    pub fn phases(&self, sides: &Sides) -> Vec<Part> {
        let mut parts = self.ended.clone();
        if !parts.is_empty() {
            parts.extend(Some(self.part(sides)).filter(|part| part.tally.references.total() > 0));
        }
        parts
    }
}
