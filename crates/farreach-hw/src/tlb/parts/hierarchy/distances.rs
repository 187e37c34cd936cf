//! How far apart walks read the same line of page tables: reuse distances, in classes.
//!
//! The distance of a walk is the number of distinct lines of leaves that walks read since its own line was read last,
//! its own included. Lines in a list by last use, with a mark at the end of each class: a walk costs a step for each
//! class, at any distance.

use crate::tlb::parts::store::tag_index::{NONE, Tag};
use farreach_types::counts::WalkDistances;
use farreach_types::params::{Allowed, Key};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Whether distances are counted.
pub const WALK_DISTANCES: Key = Key {
    name: "walk_distances",
    default: "false",
    allowed: Allowed::Flag,
    about: "walker: count walks to base pages by how many lines of the page table other walks read since theirs was",
};

/// log2 of the base pages whose leaves share a line: 8 entries of 8 bytes in 64.
pub(in crate::tlb) const LINE_ORDER: u8 = 3;

struct Line {
    tag: (u64, u64),
    newer: u32,
    older: u32,
    class: u8,
}

/// Lines by last use, the newest first.
pub(in crate::tlb) struct Distances<const CLASSES: usize = { WalkDistances::ENDS.len() }> {
    /// Lines up to the end of each class.
    ends: [u32; CLASSES],
    /// The last line of each class that is full.
    last: [u32; CLASSES],
    lines: Vec<Line>,
    index: HashMap<(u64, u64), u32, FixedState>,
    newest: u32,
    oldest: u32,
}

impl Default for Distances {
    fn default() -> Self {
        Distances::new(WalkDistances::ENDS)
    }
}

impl<const CLASSES: usize> Distances<CLASSES> {
    /// Classes end at these numbers of lines, which ascend from one or more.
    pub fn new(ends: [u32; CLASSES]) -> Self {
        debug_assert!(ends.is_sorted() && ends[0] > 0);
        Distances {
            ends,
            last: [NONE; CLASSES],
            lines: Vec::new(),
            index: HashMap::default(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// A walk reads this line. The class of its distance; the number of classes for a line that lies beyond them all or
    /// that no walk has read.
    pub fn read(&mut self, tag: Tag) -> usize {
        let tag = (tag.group(), u64::from(tag.asid().0));
        let (at, class) = match self.index.get(&tag) {
            Some(&at) => {
                let class = usize::from(self.lines[at as usize].class);
                self.leave(at, class);
                (at, class)
            }
            None => (self.place(tag), CLASSES),
        };
        self.enter(at);
        // The last line of each nearer class moves on.
        for nearer in 0..class.min(CLASSES - 1) {
            let moved = self.last[nearer];
            if moved == NONE {
                break;
            }
            let line = &mut self.lines[moved as usize];
            line.class += 1;
            self.last[nearer] = line.newer;
        }
        if class == CLASSES {
            let known = self.lines.len() as u32;
            self.ends
                .iter()
                .zip(&mut self.last)
                .filter(|(end, _)| **end == known)
                .for_each(|(_, last)| *last = self.oldest);
        }
        class
    }

    /// Takes a line out of the list.
    fn leave(&mut self, at: u32, class: usize) {
        let Line { newer, older, .. } = self.lines[at as usize];
        if self.last[class] == at && newer != NONE {
            self.last[class] = newer;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.lines[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.lines[older as usize].newer = newer,
        }
    }

    /// Puts a line before all others.
    fn enter(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        let line = &mut self.lines[at as usize];
        (line.newer, line.older, line.class) = (NONE, before, 0);
        match before {
            NONE => self.oldest = at,
            before => self.lines[before as usize].newer = at,
        }
    }

    /// A place for a line that is not in the list: a new one, or that of the oldest if there are as many as the classes
    /// have.
    fn place(&mut self, tag: (u64, u64)) -> u32 {
        let at = if self.lines.len() < self.ends[CLASSES - 1] as usize {
            self.lines.push(Line { tag, newer: NONE, older: NONE, class: 0 });
            self.lines.len() as u32 - 1
        } else {
            let oldest = self.oldest;
            self.leave(oldest, CLASSES - 1);
            self.index.remove(&self.lines[oldest as usize].tag);
            self.lines[oldest as usize].tag = tag;
            oldest
        };
        self.index.insert(tag, at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::addr::{Asid, Vpn};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    /// The list as it is defined, searched from its newest end.
    fn plain<const CLASSES: usize>(seen: &mut Vec<(u64, u32)>, line: (u64, u32), ends: [u32; CLASSES]) -> usize {
        let distance = seen.iter().position(|s| *s == line).map(|at| {
            seen.remove(at);
            at as u32 + 1
        });
        seen.insert(0, line);
        distance.map_or(CLASSES, |distance| ends.iter().position(|end| distance <= *end).unwrap_or(CLASSES))
    }

    fn agrees<const CLASSES: usize>(ends: [u32; CLASSES]) {
        let mut counted = vec![0u32; CLASSES + 1];
        for seed in 0..20 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let (mut distances, mut seen) = (Distances::new(ends), Vec::new());
            let most = [1, 2, 3, 7, 40][seed as usize % 5];
            for step in 0..2_000 {
                // Often near, so that every class is met.
                let range = if rng.random_bool(0.5) { 1 + most / 4 } else { most };
                let line = (rng.random_range(0..range), rng.random_range(0..2));
                let class = distances.read(Tag::of(Asid(line.1), Vpn((line.0 << LINE_ORDER) + step % 8), LINE_ORDER));
                assert_eq!(class, plain(&mut seen, line, ends), "seed {seed}, step {step}, {ends:?}");
                counted[class] += 1;
            }
            assert!(distances.lines.len() <= ends[CLASSES - 1] as usize);
        }
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
    }

    #[test]
    fn classes_are_those_of_the_definition() {
        agrees([1]);
        agrees([4]);
        agrees([1, 2, 3]);
        agrees([2, 8, 32]);
        agrees([5, 6, 20, 60]);
    }
}
