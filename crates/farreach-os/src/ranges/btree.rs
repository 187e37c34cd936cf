//! The range table of RMM15-7: a B-tree of order 5 in memory, each node but the root with two to four ranges (AMB-90).

use super::node::{Line, NODE_BYTES, Node, RANGES};
use super::table::RangeTable;
use farreach_types::addr::Vpn;
use farreach_types::translation::{Range, RangeWalk};

/// Ranges in a node other than the root, at least.
const FEWEST: usize = RANGES / 2;

/// The tree, and the memory that holds it. No node has address 0.
#[derive(Default)]
pub struct BTree {
    memory: Vec<Line>,
    free: Vec<u64>,
    /// The register CR-RT (RMM15-8); 0 if there is no range.
    root: u64,
    nodes: u64,
}

impl BTree {
    fn read(&self, at: u64) -> Node {
        Node::read(&self.memory[(at / NODE_BYTES - 1) as usize])
    }

    fn write(&mut self, at: u64, node: &Node) {
        self.memory[(at / NODE_BYTES - 1) as usize] = node.write();
    }

    fn create(&mut self, node: &Node) -> u64 {
        self.nodes += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.memory.push([0; NODE_BYTES as usize]);
            self.memory.len() as u64 * NODE_BYTES
        });
        self.write(at, node);
        at
    }

    fn delete(&mut self, at: u64) {
        self.nodes -= 1;
        self.free.push(at);
    }

    /// Inserts below a node. A node that would hold five ranges splits: the caller gets its middle range and the new
    /// right node.
    fn insert_below(&mut self, at: u64, range: Range) -> Option<(Range, u64)> {
        let mut node = self.read(at);
        let i = node.ranges.partition_point(|r| r.first < range.first);
        if node.children.is_empty() {
            node.ranges.insert(i, range);
        } else {
            let (middle, right) = self.insert_below(node.children[i], range)?;
            node.ranges.insert(i, middle);
            node.children.insert(i + 1, right);
        }
        let mut split = None;
        if node.ranges.len() > RANGES {
            let right = Node {
                ranges: node.ranges.split_off(FEWEST + 1),
                children: if node.children.is_empty() { Vec::new() } else { node.children.split_off(FEWEST + 1) },
            };
            let middle = node.ranges.pop().expect("five ranges");
            split = Some((middle, self.create(&right)));
        }
        self.write(at, &node);
        split
    }

    /// Removes the range that begins at `first` below a node, which may be left with one range too few.
    fn remove_below(&mut self, at: u64, first: Vpn) -> Option<Range> {
        let mut node = self.read(at);
        let i = node.ranges.partition_point(|r| r.first < first);
        let here = node.ranges.get(i).copied().filter(|r| r.first == first);
        if node.children.is_empty() {
            let gone = here?;
            node.ranges.remove(i);
            self.write(at, &node);
            return Some(gone);
        }
        let gone = match here {
            Some(range) => {
                // The last range before it, which is in a leaf, takes its place.
                node.ranges[i] = self.remove_last(node.children[i]);
                range
            }
            None => self.remove_below(node.children[i], first)?,
        };
        self.refill(&mut node, i);
        self.write(at, &node);
        Some(gone)
    }

    fn remove_last(&mut self, at: u64) -> Range {
        let mut node = self.read(at);
        let last = match node.children.last() {
            None => node.ranges.pop().expect("no node is empty"),
            Some(&child) => {
                let last = self.remove_last(child);
                let i = node.children.len() - 1;
                self.refill(&mut node, i);
                last
            }
        };
        self.write(at, &node);
        last
    }

    /// Child `i` has too few ranges, or enough: it borrows one from a neighbour that can spare one, or the two become
    /// one.
    fn refill(&mut self, node: &mut Node, i: usize) {
        let mut child = self.read(node.children[i]);
        if child.ranges.len() >= FEWEST {
            return;
        }
        let left = (i > 0).then(|| self.read(node.children[i - 1]));
        let right = (i + 1 < node.children.len()).then(|| self.read(node.children[i + 1]));
        match (left, right) {
            (Some(mut left), _) if left.ranges.len() > FEWEST => {
                let range = left.ranges.pop().expect("three or more");
                child.ranges.insert(0, std::mem::replace(&mut node.ranges[i - 1], range));
                child.children.splice(0..0, left.children.pop());
                self.write(node.children[i - 1], &left);
                self.write(node.children[i], &child);
            }
            (_, Some(mut right)) if right.ranges.len() > FEWEST => {
                let range = right.ranges.remove(0);
                child.ranges.push(std::mem::replace(&mut node.ranges[i], range));
                if !right.children.is_empty() {
                    child.children.push(right.children.remove(0));
                }
                self.write(node.children[i + 1], &right);
                self.write(node.children[i], &child);
            }
            (Some(left), _) => self.join(node, i - 1, left, child),
            (None, Some(right)) => self.join(node, i, child, right),
            (None, None) => unreachable!("an inner node has two children at least"),
        }
    }

    /// Children `i` and `i + 1` become one, with the range between them.
    fn join(&mut self, node: &mut Node, i: usize, mut left: Node, right: Node) {
        left.ranges.push(node.ranges.remove(i));
        left.ranges.extend(right.ranges);
        left.children.extend(right.children);
        self.delete(node.children.remove(i + 1));
        self.write(node.children[i], &left);
    }

    fn list(&self, at: u64, into: &mut Vec<Range>) {
        let node = self.read(at);
        for (i, range) in node.ranges.iter().enumerate() {
            if let Some(&child) = node.children.get(i) {
                self.list(child, into);
            }
            into.push(*range);
        }
        if let Some(&child) = node.children.last() {
            self.list(child, into);
        }
    }

    /// The search of RMM15-9; `visit` gets the address of each node.
    fn descend(&self, vpn: Vpn, mut visit: impl FnMut(u64)) -> Option<Range> {
        let mut at = self.root;
        while at != 0 {
            visit(at);
            let node = self.read(at);
            let i = node.ranges.partition_point(|r| r.first.0 + r.pages <= vpn.0);
            match node.ranges.get(i) {
                Some(range) if range.first <= vpn => return Some(*range),
                _ => at = node.children.get(i).copied().unwrap_or(0),
            }
        }
        None
    }

    /// Levels; panics if the tree is not one of AMB-90. For tests.
    pub fn check(&self) -> u32 {
        if self.root == 0 {
            assert_eq!(self.nodes, 0);
            return 0;
        }
        let mut seen = 0;
        let levels = self.check_below(self.root, 1, &mut seen);
        assert_eq!(seen, self.nodes, "every node hangs in the tree");
        levels
    }

    fn check_below(&self, at: u64, fewest: usize, seen: &mut u64) -> u32 {
        *seen += 1;
        let node = self.read(at);
        assert!((fewest..=RANGES).contains(&node.ranges.len()), "a node has {} ranges", node.ranges.len());
        let below: Vec<u32> = node.children.iter().map(|&child| self.check_below(child, FEWEST, seen)).collect();
        assert!(below.is_empty() || below.len() == node.ranges.len() + 1);
        assert!(below.windows(2).all(|w| w[0] == w[1]), "all leaves lie at the same depth");
        1 + below.first().copied().unwrap_or(0)
    }
}

impl RangeTable for BTree {
    fn insert(&mut self, range: Range) {
        if self.root == 0 {
            self.root = self.create(&Node { ranges: vec![range], children: Vec::new() });
        } else if let Some((middle, right)) = self.insert_below(self.root, range) {
            self.root = self.create(&Node { ranges: vec![middle], children: vec![self.root, right] });
        }
    }

    fn remove(&mut self, first: Vpn) -> Option<Range> {
        if self.root == 0 {
            return None;
        }
        let gone = self.remove_below(self.root, first)?;
        let root = self.read(self.root);
        if root.ranges.is_empty() {
            self.delete(self.root);
            self.root = root.children.first().copied().unwrap_or(0);
        }
        Some(gone)
    }

    fn search(&self, vpn: Vpn) -> RangeWalk {
        let mut nodes = 0;
        let found = self.descend(vpn, |_| nodes += 1);
        RangeWalk { nodes, found }
    }

    fn path(&self, vpn: Vpn, into: &mut Vec<u64>) {
        self.descend(vpn, |at| into.push(at));
    }

    fn node(&self, address: u64) -> Option<Line> {
        self.memory.get((address / NODE_BYTES).checked_sub(1)? as usize).copied()
    }

    fn ranges(&self) -> Vec<Range> {
        let mut all = Vec::new();
        if self.root != 0 {
            self.list(self.root, &mut all);
        }
        all
    }

    fn nodes(&self) -> u64 {
        self.nodes
    }
}
