//! A functional program and its copying collector. Sets are immutable binary trees: an insertion copies the path from
//! the root. Allocation moves through one half of the heap. When it is full, Cheney's collector copies the live nodes
//! to the other half.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "semispace",
    class: "garbage-collected functional program",
    stands_for: "ML",
    about: "persistent trees; allocation sweeps a semispace, Cheney's collector copies live objects",
    default_size: 34_406 << 10,
    small_size: 2 << 20,
    smallest: 128 << 10,
    largest: 4 << 30,
    layout: Layout::Heap,
    text_pages: 4,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a node: key, left, right, and the place it was moved to. Links are 1 + number of the node's first word.
const NODE: usize = 4;
const KEY: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
const MOVED: usize = 3;
/// Trees alive at a time.
const TREES: usize = 16;

struct Heap<M: Memory> {
    words: M::Array<u64>,
    /// Words of a half, the half in use (0 or 1), and the next free word.
    half: usize,
    used: usize,
    free: usize,
    roots: M::Array<u64>,
    collections: u64,
}

impl<M: Memory> Heap<M> {
    fn new(m: &mut M, s: &Settings) -> Heap<M> {
        let half = s.size as usize / 16 / NODE * NODE;
        Heap { words: m.array(2 * half), half, used: 0, free: 0, roots: m.stack(TREES), collections: 0 }
    }

    /// Whether there is room for this many nodes.
    fn has_room(&self, nodes: usize) -> bool {
        self.free + nodes * NODE <= (self.used + 1) * self.half
    }

    fn allocate(&mut self, m: &mut M, key: u64, left: u64, right: u64) -> u64 {
        let at = self.free;
        self.free += NODE;
        m.store(site(0, 0), &mut self.words, at + KEY, key);
        m.store(site(0, 1), &mut self.words, at + LEFT, left);
        m.store(site(0, 2), &mut self.words, at + RIGHT, right);
        m.store(site(0, 3), &mut self.words, at + MOVED, 0);
        at as u64 + 1
    }

    /// The depth at which a key would be inserted; `None` if the tree has it.
    fn depth(&mut self, m: &mut M, tree: usize, key: u64) -> Option<usize> {
        const ROOT: Site = site(1, 0);
        const AT: Site = site(1, 1);
        const DOWN: [Site; 2] = [site(1, 2), site(1, 3)];
        let mut link = m.load(ROOT, &self.roots, tree);
        let mut depth = 0;
        while link != 0 {
            let node = link as usize - 1;
            let here = m.load(AT, &self.words, node + KEY);
            if here == key {
                return None;
            }
            let right = usize::from(key > here);
            link = m.load(DOWN[right], &self.words, node + LEFT + right);
            depth += 1;
        }
        Some(depth)
    }

    /// Inserts a key: copies the path from the root and shares the rest. The caller has made sure that there is room.
    fn insert(&mut self, m: &mut M, tree: usize, key: u64) {
        const ROOT: Site = site(2, 0);
        const OLD: [Site; 3] = [site(2, 1), site(2, 2), site(2, 3)];
        const LINK: [Site; 2] = [site(2, 4), site(2, 5)];
        const NEW_ROOT: Site = site(2, 6);
        let mut old = m.load(ROOT, &self.roots, tree);
        // The new node whose link still points to the old child.
        let mut above: Option<(usize, usize)> = None;
        loop {
            let new = match old {
                0 => self.allocate(m, key, 0, 0),
                link => {
                    let node = link as usize - 1;
                    let [here, left, right] =
                        [KEY, LEFT, RIGHT].map(|word| m.load(OLD[word], &self.words, node + word));
                    let side = usize::from(key > here);
                    old = [left, right][side];
                    let new = self.allocate(m, here, left, right);
                    let last = above.replace((new as usize - 1, side));
                    self.link(m, tree, last, new, LINK, NEW_ROOT);
                    continue;
                }
            };
            self.link(m, tree, above, new, LINK, NEW_ROOT);
            return;
        }
    }

    fn link(&mut self, m: &mut M, tree: usize, above: Option<(usize, usize)>, new: u64, link: [Site; 2], root: Site) {
        match above {
            Some((node, side)) => m.store(link[side], &mut self.words, node + LEFT + side, new),
            None => m.store(root, &mut self.roots, tree, new),
        }
    }

    /// Cheney's algorithm: copies everything that the roots reach to the other half, breadth first.
    fn collect(&mut self, m: &mut M) {
        const ROOT: Site = site(3, 0);
        const NEW_ROOT: Site = site(3, 1);
        const SCAN: [Site; 2] = [site(3, 2), site(3, 3)];
        const FIXED: [Site; 2] = [site(3, 4), site(3, 5)];
        self.used = 1 - self.used;
        self.free = self.used * self.half;
        self.collections += 1;
        let mut scan = self.free;
        for tree in 0..TREES {
            let root = m.load(ROOT, &self.roots, tree);
            let root = self.forward(m, root);
            m.store(NEW_ROOT, &mut self.roots, tree, root);
        }
        while scan < self.free {
            for side in 0..2 {
                let link = m.load(SCAN[side], &self.words, scan + LEFT + side);
                let link = self.forward(m, link);
                m.store(FIXED[side], &mut self.words, scan + LEFT + side, link);
            }
            scan += NODE;
        }
    }

    /// The new place of a node, which is copied unless it was copied already.
    fn forward(&mut self, m: &mut M, link: u64) -> u64 {
        const MOVED_TO: Site = site(3, 6);
        const FROM: [Site; 3] = [site(3, 7), site(3, 8), site(3, 9)];
        const LEAVE: Site = site(3, 10);
        if link == 0 {
            return 0;
        }
        let node = link as usize - 1;
        let moved = m.load(MOVED_TO, &self.words, node + MOVED);
        if moved != 0 {
            return moved;
        }
        let [key, left, right] = [KEY, LEFT, RIGHT].map(|word| m.load(FROM[word], &self.words, node + word));
        let to = self.allocate(m, key, left, right);
        m.store(LEAVE, &mut self.words, node + MOVED, to);
        to
    }
}

/// Inserts keys into random trees. A tree that has its share of keys starts over.
struct Program {
    rng: Rng,
    /// Keys in each tree.
    keys: [usize; TREES],
    /// The most a tree may have: live nodes then fill a third of a half.
    most: usize,
}

impl Program {
    fn new<M: Memory>(heap: &Heap<M>, seed: u64) -> Program {
        Program { rng: Rng::new(seed), keys: [0; TREES], most: (heap.half / NODE / 3 / TREES).max(1) }
    }

    /// The tree and the key that was put into it, or `None` if it was emptied.
    fn step<M: Memory>(&mut self, m: &mut M, heap: &mut Heap<M>) -> (usize, Option<u64>) {
        const DROP: Site = site(1, 8);
        let tree = self.rng.below(TREES);
        if self.keys[tree] == self.most {
            m.store(DROP, &mut heap.roots, tree, 0);
            self.keys[tree] = 0;
            return (tree, None);
        }
        let key = self.rng.bits() >> 16;
        if let Some(depth) = heap.depth(m, tree, key) {
            if !heap.has_room(depth + 1) {
                heap.collect(m);
                assert!(heap.has_room(depth + 1), "two thirds are free");
            }
            heap.insert(m, tree, key);
            self.keys[tree] += 1;
        }
        (tree, Some(key))
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut heap = Heap::new(m, s);
    let mut program = Program::new(&heap, s.seed);
    let mut sum = 0u64;
    while m.budget_left() {
        let (tree, key) = program.step(m, &mut heap);
        sum = sum.rotate_left(9) ^ key.unwrap_or(tree as u64);
    }
    sum ^ heap.collections ^ heap.free as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn keys(heap: &Heap<Native>, link: u64, into: &mut Vec<u64>) {
        if link != 0 {
            let node = link as usize - 1;
            assert!((heap.used * heap.half..heap.free).contains(&node), "in the half in use");
            keys(heap, heap.words[node + LEFT], into);
            into.push(heap.words[node + KEY]);
            keys(heap, heap.words[node + RIGHT], into);
        }
    }

    #[test]
    fn collections_preserve_every_tree() {
        let mut m = Native::new(u64::MAX);
        let mut heap = Heap::new(&mut m, &Settings { size: 128 << 10, references: 1, seed: 0 });
        let mut program = Program::new(&heap, 6);
        let mut sets = vec![BTreeSet::new(); TREES];
        for step in 0..20_000 {
            match program.step(&mut m, &mut heap) {
                (tree, Some(key)) => assert!(sets[tree].insert(key)),
                (tree, None) => sets[tree].clear(),
            }
            if step % 500 == 0 {
                for (tree, set) in sets.iter().enumerate() {
                    let mut found = Vec::new();
                    keys(&heap, heap.roots[tree], &mut found);
                    assert!(found.iter().eq(set), "tree {tree} after {step} steps");
                }
            }
        }
        assert!(heap.collections > 20, "{}", heap.collections);
    }
}
