//! Matching of sequences by a suffix tree. The tree of one genome, with nodes in order of creation, is walked from the
//! root for each position of another genome. The upper part of the tree is hot; walks end all over it.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "suffix",
    class: "sequence matching",
    stands_for: "tigr, mummer",
    about: "a suffix tree is built, then walked for each place of another genome",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 64 << 10,
    largest: 2 << 30,
    layout: Layout::Mapped,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a node: first base of the edge to it, one past the last, suffix link, and four children (0: none).
const NODE: usize = 8;
const FROM: usize = 0;
const TO: usize = 1;
const LINK: usize = 2;
const CHILD: usize = 3;
/// The end of an edge to a leaf: it grows as the text does.
const OPEN: u32 = u32::MAX;
const ROOT: u32 = 1;

struct Tree<M: Memory> {
    bases: usize,
    /// The genome, one base (0 to 3) per byte, and a window of the other genome.
    text: M::Array<u8>,
    other: M::Array<u8>,
    node: M::Array<u32>,
    used: u32,
    /// Ukkonen's active point, suffixes still to be inserted, and bases read.
    active: u32,
    edge: usize,
    along: usize,
    remaining: usize,
    taken: usize,
}

const WINDOW: usize = 16 << 10;

impl<M: Memory> Tree<M> {
    fn new(m: &mut M, s: &Settings) -> Tree<M> {
        // Two nodes of 32 bytes for each base.
        let bases = (s.size as usize - WINDOW) / (2 * 4 * NODE + 1);
        let mut rng = Rng::new(s.seed);
        let mut genome: Vec<u8> = Vec::with_capacity(bases + 256);
        while genome.len() < bases {
            // One stretch of four is a copy of an earlier one.
            if genome.len() > 1024 && rng.below(4) == 0 {
                let from = rng.below(genome.len() - 256);
                genome.extend_from_within(from..from + 256);
            } else {
                genome.extend((0..256).map(|_| rng.below(4) as u8));
            }
        }
        let text = m.input(genome[..bases].iter().copied());
        let (other, node) = (m.array(WINDOW), m.array((2 * bases + 2) * NODE));
        Tree { bases, text, other, node, used: ROOT + 1, active: ROOT, edge: 0, along: 0, remaining: 0, taken: 0 }
    }

    fn get(&self, m: &mut M, at: u32, node: u32, word: usize) -> u32 {
        m.load(site(0, at), &self.node, node as usize * NODE + word)
    }

    fn put(&mut self, m: &mut M, at: u32, node: u32, word: usize, value: u32) {
        m.store(site(0, at), &mut self.node, node as usize * NODE + word, value);
    }

    fn create(&mut self, m: &mut M, at: u32, from: usize, to: u32) -> u32 {
        let new = self.used;
        self.used += 1;
        self.put(m, at, new, FROM, from as u32);
        self.put(m, at + 1, new, TO, to);
        new
    }

    fn base(&self, m: &mut M, at: u32, place: usize) -> usize {
        m.load(site(0, at), &self.text, place) as usize
    }

    /// Ukkonen's step: adds the next base to the tree.
    fn extend(&mut self, m: &mut M) {
        let place = self.taken;
        let base = self.base(m, 0, place);
        self.taken += 1;
        self.remaining += 1;
        // The last node that waits for its suffix link.
        let mut waits = 0;
        while self.remaining > 0 {
            if self.along == 0 {
                self.edge = place;
            }
            let first = self.base(m, 1, self.edge);
            let child = self.get(m, 2, self.active, CHILD + first);
            if child == 0 {
                let leaf = self.create(m, 3, place, OPEN);
                self.put(m, 5, self.active, CHILD + first, leaf);
                if waits != 0 {
                    self.put(m, 6, waits, LINK, self.active);
                    waits = 0;
                }
            } else {
                let from = self.get(m, 7, child, FROM) as usize;
                let to = self.get(m, 8, child, TO);
                let len = if to == OPEN { self.taken - from } else { to as usize - from };
                if self.along >= len {
                    (self.edge, self.along, self.active) = (self.edge + len, self.along - len, child);
                    continue;
                }
                let there = self.base(m, 9, from + self.along);
                if there == base {
                    self.along += 1;
                    if waits != 0 && self.active != ROOT {
                        self.put(m, 10, waits, LINK, self.active);
                    }
                    return;
                }
                let split = self.create(m, 11, from, (from + self.along) as u32);
                self.put(m, 13, self.active, CHILD + first, split);
                let leaf = self.create(m, 14, place, OPEN);
                self.put(m, 16, split, CHILD + base, leaf);
                self.put(m, 17, child, FROM, (from + self.along) as u32);
                self.put(m, 18, split, CHILD + there, child);
                if waits != 0 {
                    self.put(m, 19, waits, LINK, split);
                }
                waits = split;
            }
            self.remaining -= 1;
            if self.active == ROOT && self.along > 0 {
                self.along -= 1;
                self.edge = place + 1 - self.remaining;
            } else if self.active != ROOT {
                let link = self.get(m, 20, self.active, LINK);
                self.active = if link == 0 { ROOT } else { link };
            }
        }
    }

    /// Length of the longest match, anywhere in this genome, of the other genome from a position of the window on.
    fn longest(&self, m: &mut M, start: usize) -> usize {
        const OTHER: [Site; 2] = [site(1, 0), site(1, 1)];
        const DOWN: Site = site(1, 2);
        const EDGE: [Site; 2] = [site(1, 3), site(1, 4)];
        const TEXT: Site = site(1, 5);
        let (mut node, mut at) = (ROOT, start);
        while at < WINDOW {
            let base = m.load(OTHER[0], &self.other, at) as usize;
            node = m.load(DOWN, &self.node, node as usize * NODE + CHILD + base);
            if node == 0 {
                break;
            }
            let from = m.load(EDGE[0], &self.node, node as usize * NODE + FROM) as usize;
            let to = m.load(EDGE[1], &self.node, node as usize * NODE + TO);
            let end = if to == OPEN { self.taken } else { to as usize };
            // The child was chosen by its first base.
            at += 1;
            for place in from + 1..end {
                if at == WINDOW || m.load(TEXT, &self.text, place) != m.load(OTHER[1], &self.other, at) {
                    return at - start;
                }
                at += 1;
            }
        }
        at - start
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut tree = Tree::new(m, s);
    while tree.taken < tree.bases && m.budget_left() {
        tree.extend(m);
    }
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = u64::from(tree.used);
    while m.budget_left() {
        let window: Vec<u8> = (0..WINDOW).map(|_| rng.below(4) as u8).collect();
        m.read(&mut tree.other, window.into_iter());
        for start in 0..WINDOW {
            sum = sum.rotate_left(3) ^ tree.longest(m, start) as u64;
            if !m.budget_left() {
                break;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_the_longest() {
        let mut m = Native::new(u64::MAX);
        let mut tree = Tree::new(&mut m, &Settings { size: 128 << 10, references: 1, seed: 6 });
        while tree.taken < tree.bases {
            tree.extend(&mut m);
        }
        let mut rng = Rng::new(3);
        // Random bases, with a part of the genome in the second half.
        let mut window: Vec<u8> = (0..WINDOW).map(|_| rng.below(4) as u8).collect();
        window[WINDOW / 2..][..500].copy_from_slice(&tree.text[300..800]);
        tree.other.copy_from_slice(&window);
        let occurs = |piece: &[u8]| tree.text.windows(piece.len()).any(|w| w == piece);
        for start in (0..200).chain(WINDOW / 2 - 20..WINDOW / 2 + 100) {
            let len = tree.longest(&mut m, start);
            assert!(len == 0 || occurs(&window[start..start + len]), "at {start}: {len} bases");
            assert!(!occurs(&window[start..start + len + 1]), "at {start}: more than {len} bases");
        }
        assert!(tree.longest(&mut m, WINDOW / 2) >= 500);
    }
}
