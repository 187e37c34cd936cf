//! The tree of tree-PLRU as hardware has it: a bit for each node of a binary tree over the ways of a set, which says on
//! which side the next victim is. An access turns the bits on the path to its way, so that all point away from it.

/// The tree of one set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    ways: usize,
    /// By node, from the root at 1: the nodes below node `n` are `2n` and `2n + 1`, ways come last. True: to `2n + 1`.
    bits: Vec<bool>,
}

impl Tree {
    /// A tree that points to way 0.
    pub fn new(ways: usize) -> Tree {
        assert!(ways.is_power_of_two(), "a tree halves sets");
        Tree { ways, bits: vec![false; ways] }
    }

    /// An access to this way.
    pub fn touch(&mut self, way: usize) {
        let mut node = self.ways + way;
        while node > 1 {
            let right = node % 2 == 1;
            node /= 2;
            self.bits[node] = !right;
        }
    }

    /// The way it points to.
    pub fn victim(&self) -> usize {
        let mut node = 1;
        while node < self.ways {
            node = 2 * node + usize::from(self.bits[node]);
        }
        node - self.ways
    }

    /// Whether an access to this way would change nothing: every node on its path points away from it.
    pub fn points_away(&self, way: usize) -> bool {
        let mut after = self.clone();
        after.touch(way);
        after == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of states of a set of four lines (Intel, Embedded Pentium Processor Family Developer's Manual, 1998,
    /// Figure 37): bits of the root, of lines 0 and 1, of lines 2 and 3, each 1 if its left side was used last.
    #[test]
    fn four_ways_are_as_in_the_manual_of_the_pentium() {
        for state in 0..8u8 {
            let bits = [false, state & 4 != 0, state & 2 != 0, state & 1 != 0];
            let tree = Tree { ways: 4, bits: bits.to_vec() };
            let (victim, after) = match bits {
                [_, false, false, _] => (0, [true, true, bits[3]]),
                [_, false, true, _] => (1, [true, false, bits[3]]),
                [_, true, _, false] => (2, [false, bits[2], true]),
                [_, true, _, true] => (3, [false, bits[2], false]),
            };
            assert_eq!(tree.victim(), victim, "{state:03b}");
            let mut touched = tree.clone();
            touched.touch(victim);
            assert_eq!(touched.bits[1..], after, "{state:03b}");
        }
    }

    /// Which hits may be filtered without the times of lookups: those of the way used last, and no others.
    #[test]
    fn the_tree_points_away_from_the_way_used_last_alone() {
        for ways in [1, 2, 4, 8, 16, 64] {
            let mut tree = Tree::new(ways);
            let mut dice = 1usize;
            for _ in 0..200 {
                dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let last = (dice >> 33) % ways;
                tree.touch(last);
                let quiet: Vec<usize> = (0..ways).filter(|&way| tree.points_away(way)).collect();
                assert_eq!(quiet, [last]);
            }
        }
    }
}
