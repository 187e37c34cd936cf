//! The nodes of a radix tree above its leaf tables, which are only counted.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// log2 of the entries of a node.
const RADIX: u32 = 9;

/// By number, the nodes of the two levels between leaf tables and root, each with the number of its children.
#[derive(Clone, Debug, Default)]
pub(super) struct Upper([HashMap<u64, u32, FixedState>; 2]);

impl Upper {
    /// There is a leaf table of this number now.
    pub fn enter(&mut self, leaf: u64) {
        let mut number = leaf;
        for level in &mut self.0 {
            number >>= RADIX;
            let children = level.entry(number).or_insert(0);
            *children += 1;
            if *children > 1 {
                return;
            }
        }
    }

    /// There is no leaf table of this number any more.
    pub fn leave(&mut self, leaf: u64) {
        let mut number = leaf;
        for level in &mut self.0 {
            number >>= RADIX;
            let children = level.get_mut(&number).expect("it has the leaf");
            *children -= 1;
            if *children > 0 {
                return;
            }
            level.remove(&number);
        }
    }

    /// Nodes of these levels, and the root, if there are any.
    pub fn nodes(&self) -> usize {
        let [low, high] = self.0.each_ref().map(HashMap::len);
        low + high + usize::from(high > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_of_a_tree() {
        let mut upper = Upper::default();
        let mut nodes = |change: fn(&mut Upper, u64), leaf| {
            change(&mut upper, leaf);
            upper.nodes()
        };
        assert_eq!(nodes(Upper::enter, 0), 3, "one of each level");
        assert_eq!(nodes(Upper::enter, 511), 3);
        assert_eq!(nodes(Upper::enter, 512), 4, "another 1 GB");
        assert_eq!(nodes(Upper::enter, 1 << 18), 6, "another 512 GB");
        assert_eq!(nodes(Upper::leave, 0), 6);
        assert_eq!(nodes(Upper::leave, 511), 5);
        assert_eq!(nodes(Upper::leave, 1 << 18), 3);
        assert_eq!(nodes(Upper::leave, 512), 0);
    }
}
