//! Minimum-cost flow by the network simplex method. Arcs are priced in sequence, a block at a time. The best arc closes
//! a cycle with the paths to the root of a spanning tree. Nodes are records linked by parent, first child and siblings.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "simplex",
    class: "network simplex",
    stands_for: "mcf",
    about: "arcs priced in sequence, walks up and down a spanning tree of linked nodes",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 128 << 10,
    largest: 4 << 30,
    layout: Layout::Mapped,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a node: parent, arc to the parent, whether that arc points up, depth, price, first child, next and previous
/// sibling.
const NODE: usize = 8;
const PARENT: usize = 0;
const ARC: usize = 1;
const UP: usize = 2;
const DEPTH: usize = 3;
const PRICE: usize = 4;
const CHILD: usize = 5;
const NEXT: usize = 6;
const BEFORE: usize = 7;
/// Words of an arc: from, to, cost, capacity, flow, and whether it is in the tree.
const ARC_WORDS: usize = 6;
/// Arcs per node, besides the one to the root.
const ARCS: usize = 6;
/// Cost of an arc to the root: more than any path.
const BIG: i64 = 1 << 40;

struct Network<M: Memory> {
    nodes: usize,
    arcs: usize,
    /// Node 0 is the root.
    node: M::Array<i64>,
    arc: M::Array<i64>,
    next_arc: usize,
}

impl<M: Memory> Network<M> {
    /// Every node starts with its supply on an arc to or from the root.
    fn new(m: &mut M, s: &Settings) -> Network<M> {
        let nodes = s.size as usize / (8 * NODE + 8 * ARC_WORDS * (ARCS + 1));
        let arcs = nodes * (ARCS + 1);
        let mut rng = Rng::new(s.seed);
        let mut arc = vec![0i64; arcs * ARC_WORDS];
        let mut node = vec![0i64; (nodes + 1) * NODE];
        let mut supply = 0;
        for n in 1..=nodes {
            // Supplies in pairs: the second node takes what the first one gives.
            supply = if n % 2 == 1 { if n == nodes { 0 } else { rng.below(20) as i64 } } else { -supply };
            let up = supply >= 0;
            let (from, to) = if up { (n, 0) } else { (0, n) };
            let record = [from as i64, to as i64, BIG, i64::MAX, supply.abs(), 1];
            arc[(n - 1) * ARC_WORDS..][..ARC_WORDS].copy_from_slice(&record);
            let price = if up { BIG } else { -BIG };
            let next = if n < nodes { n as i64 + 1 } else { 0 };
            node[n * NODE..][..NODE].copy_from_slice(&[
                0,
                n as i64 - 1,
                i64::from(up),
                1,
                price,
                0,
                next,
                n as i64 - 1,
            ]);
        }
        node[CHILD] = 1;
        for a in nodes..arcs {
            let from = 1 + rng.below(nodes);
            // Mostly near neighbours, so that paths exist and are long.
            let to = if rng.below(4) == 0 { 1 + rng.below(nodes) } else { 1 + (from + rng.below(64)) % nodes };
            let record = [from as i64, to as i64, 1 + rng.below(1000) as i64, 10 + rng.below(90) as i64, 0, 0];
            arc[a * ARC_WORDS..][..ARC_WORDS].copy_from_slice(&record);
        }
        Network { nodes, arcs, node: m.input(node.into_iter()), arc: m.input(arc.into_iter()), next_arc: nodes }
    }

    fn get(&self, m: &mut M, at: Site, node: i64, word: usize) -> i64 {
        m.load(at, &self.node, node as usize * NODE + word)
    }

    /// The arc of a block with the largest price violation, and whether its flow is to grow. `None` after a whole round
    /// without one.
    fn price(&mut self, m: &mut M) -> Option<(usize, bool)> {
        const END: [Site; 2] = [site(0, 0), site(0, 1)];
        const COST: Site = site(0, 2);
        const ROOM: [Site; 2] = [site(0, 3), site(0, 4)];
        const IN_TREE: Site = site(0, 5);
        const PRICES: [Site; 2] = [site(0, 6), site(0, 7)];
        let block = self.arcs.isqrt().max(64);
        let (mut seen, mut best) = (0, None);
        while seen < self.arcs {
            let mut most = 0;
            for _ in 0..block.min(self.arcs - seen) {
                let a = self.next_arc;
                self.next_arc = if a + 1 == self.arcs { 0 } else { a + 1 };
                seen += 1;
                if m.load(IN_TREE, &self.arc, a * ARC_WORDS + 5) == 1 {
                    continue;
                }
                let from = m.load(END[0], &self.arc, a * ARC_WORDS);
                let to = m.load(END[1], &self.arc, a * ARC_WORDS + 1);
                let cost = m.load(COST, &self.arc, a * ARC_WORDS + 2);
                let reduced = cost - self.get(m, PRICES[0], from, PRICE) + self.get(m, PRICES[1], to, PRICE);
                let capacity = m.load(ROOM[0], &self.arc, a * ARC_WORDS + 3);
                let flow = m.load(ROOM[1], &self.arc, a * ARC_WORDS + 4);
                let gain = if reduced < 0 && flow < capacity {
                    -reduced
                } else if reduced > 0 && flow > 0 {
                    reduced
                } else {
                    0
                };
                if gain > most {
                    (most, best) = (gain, Some((a, reduced < 0)));
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// Room for flow up (or down) on the tree arc of a node.
    fn room(&self, m: &mut M, node: i64, up: bool) -> i64 {
        const ARC_OF: Site = site(1, 0);
        const POINTS: Site = site(1, 1);
        const FLOW: Site = site(1, 2);
        const CAPACITY: Site = site(1, 3);
        let a = self.get(m, ARC_OF, node, ARC) as usize;
        let along = (self.get(m, POINTS, node, UP) == 1) == up;
        let flow = m.load(FLOW, &self.arc, a * ARC_WORDS + 4);
        if along { m.load(CAPACITY, &self.arc, a * ARC_WORDS + 3) - flow } else { flow }
    }

    fn push(&mut self, m: &mut M, node: i64, up: bool, amount: i64) {
        const ARC_OF: Site = site(1, 4);
        const POINTS: Site = site(1, 5);
        const FLOW: Site = site(1, 6);
        let a = self.get(m, ARC_OF, node, ARC) as usize;
        let along = (self.get(m, POINTS, node, UP) == 1) == up;
        m.update(FLOW, &mut self.arc, a * ARC_WORDS + 4, |flow| if along { flow + amount } else { flow - amount });
    }

    /// Sends as much flow as fits around the cycle that an arc closes. The arc that limits it leaves the tree.
    fn pivot(&mut self, m: &mut M, enters: usize, grow: bool) {
        const END: [Site; 2] = [site(1, 7), site(1, 8)];
        const OWN: [Site; 3] = [site(1, 9), site(1, 10), site(1, 11)];
        const DEEP: [Site; 2] = [site(1, 12), site(1, 13)];
        const CLIMB: [Site; 2] = [site(1, 14), site(1, 15)];
        const AGAIN: Site = site(1, 16);
        let [from, to] = [0, 1].map(|k| m.load(END[k], &self.arc, enters * ARC_WORDS + k));
        // Flow goes tail -> head on the arc, up from the head to where the paths meet, and down to the tail.
        let (tail, head) = if grow { (from, to) } else { (to, from) };
        let flow = m.load(OWN[0], &self.arc, enters * ARC_WORDS + 4);
        let mut least = if grow { m.load(OWN[1], &self.arc, enters * ARC_WORDS + 3) - flow } else { flow };
        // The node below the leaving arc, and its side of the cycle.
        let mut leaves = None;
        let (mut a, mut b) = (tail, head);
        while a != b {
            let (deep_a, deep_b) = (self.get(m, DEEP[0], a, DEPTH), self.get(m, DEEP[1], b, DEPTH));
            if deep_a >= deep_b {
                let room = self.room(m, a, false);
                if room < least {
                    (least, leaves) = (room, Some((a, true)));
                }
                a = self.get(m, CLIMB[0], a, PARENT);
            } else {
                let room = self.room(m, b, true);
                if room < least {
                    (least, leaves) = (room, Some((b, false)));
                }
                b = self.get(m, CLIMB[1], b, PARENT);
            }
        }
        let top = a;
        if least > 0 {
            m.update(OWN[2], &mut self.arc, enters * ARC_WORDS + 4, |f| if grow { f + least } else { f - least });
            for (end, up) in [(tail, false), (head, true)] {
                let mut node = end;
                while node != top {
                    self.push(m, node, up, least);
                    node = self.get(m, AGAIN, node, PARENT);
                }
            }
        }
        if let Some((below, at_tail)) = leaves {
            let (inside, outside) = if at_tail { (tail, head) } else { (head, tail) };
            self.rehang(m, enters, inside, outside, below);
        }
    }

    /// New costs for one in 64 of the arcs outside the tree, so that no price changes.
    fn change(&mut self, m: &mut M, rng: &mut Rng) {
        for _ in 0..self.arcs / 64 {
            let a = self.nodes + rng.below(self.arcs - self.nodes);
            if m.load(site(0, 10), &self.arc, a * ARC_WORDS + 5) == 0 {
                m.store(site(0, 11), &mut self.arc, a * ARC_WORDS + 2, 1 + rng.below(1000) as i64);
            }
        }
    }

    fn put(&mut self, m: &mut M, at: Site, node: i64, word: usize, value: i64) {
        m.store(at, &mut self.node, node as usize * NODE + word, value);
    }

    /// Takes a node out of its parent's list of children.
    fn unlink(&mut self, m: &mut M, node: i64) {
        let [parent, next, before] = [PARENT, NEXT, BEFORE].map(|w| self.get(m, site(2, w as u32), node, w));
        match before {
            0 => self.put(m, site(2, 8), parent, CHILD, next),
            _ => self.put(m, site(2, 9), before, NEXT, next),
        }
        if next != 0 {
            self.put(m, site(2, 10), next, BEFORE, before);
        }
    }

    /// Hangs the tree below `below` on `outside` by the entering arc, with `inside` at its top. Links on the path
    /// between are reversed, then depths and prices of the whole piece are updated.
    fn rehang(&mut self, m: &mut M, enters: usize, inside: i64, outside: i64, below: i64) {
        let tail = m.load(site(2, 20), &self.arc, enters * ARC_WORDS);
        let (mut node, mut parent, mut arc, mut up) = (inside, outside, enters as i64, i64::from(tail == inside));
        m.store(site(2, 21), &mut self.arc, enters * ARC_WORDS + 5, 1);
        loop {
            let [old_parent, old_arc, old_up] = [PARENT, ARC, UP].map(|w| self.get(m, site(2, 22 + w as u32), node, w));
            self.unlink(m, node);
            for (k, (word, value)) in (0..).zip([(PARENT, parent), (ARC, arc), (UP, up), (BEFORE, 0)]) {
                self.put(m, site(2, 30 + k), node, word, value);
            }
            let first = self.get(m, site(2, 35), parent, CHILD);
            self.put(m, site(2, 36), node, NEXT, first);
            if first != 0 {
                self.put(m, site(2, 37), first, BEFORE, node);
            }
            self.put(m, site(2, 38), parent, CHILD, node);
            if node == below {
                m.store(site(2, 39), &mut self.arc, old_arc as usize * ARC_WORDS + 5, 0);
                break;
            }
            (parent, arc, up, node) = (node, old_arc, 1 - old_up, old_parent);
        }
        // In preorder, without a stack: down to a child, on to a sibling, or up to one of an ancestor.
        let mut node = inside;
        loop {
            let [parent, arc, up] = [PARENT, ARC, UP].map(|w| self.get(m, site(2, 40 + w as u32), node, w));
            let cost = m.load(site(2, 44), &self.arc, arc as usize * ARC_WORDS + 2);
            let price = self.get(m, site(2, 45), parent, PRICE) + if up == 1 { cost } else { -cost };
            let depth = self.get(m, site(2, 46), parent, DEPTH) + 1;
            self.put(m, site(2, 47), node, PRICE, price);
            self.put(m, site(2, 48), node, DEPTH, depth);
            let child = self.get(m, site(2, 49), node, CHILD);
            if child != 0 {
                node = child;
                continue;
            }
            loop {
                if node == inside {
                    return;
                }
                let next = self.get(m, site(2, 50), node, NEXT);
                if next != 0 {
                    node = next;
                    break;
                }
                node = self.get(m, site(2, 51), node, PARENT);
            }
        }
    }
}

/// Solves; then some costs change, as in a schedule, and the search continues from the current tree.
fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut network = Network::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = 1u64;
    while m.budget_left() {
        match network.price(m) {
            Some((arc, grow)) => {
                network.pivot(m, arc, grow);
                sum = sum.rotate_left(3) ^ arc as u64;
            }
            None => network.change(m, &mut rng),
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flow is conserved and within capacity, and there is no way to make it cheaper: no negative cycle is left.
    fn assert_optimal(n: &Network<Native>, supply: &[i64]) {
        let mut balance = vec![0i64; n.nodes + 1];
        let mut steps = Vec::new();
        for a in n.arc.chunks(ARC_WORDS) {
            let (from, to) = (a[0] as usize, a[1] as usize);
            assert!((0..=a[3]).contains(&a[4]));
            balance[from] += a[4];
            balance[to] -= a[4];
            if a[4] < a[3] {
                steps.push((from, to, a[2]));
            }
            if a[4] > 0 {
                steps.push((to, from, -a[2]));
            }
        }
        assert_eq!(balance, supply);
        let mut distance = vec![0i64; n.nodes + 1];
        for round in 0.. {
            let mut changed = false;
            for &(from, to, cost) in &steps {
                if distance[from] + cost < distance[to] {
                    distance[to] = distance[from] + cost;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
            assert!(round <= n.nodes, "a negative cycle");
        }
    }

    #[test]
    fn flows_are_optimal() {
        let mut m = Native::new(u64::MAX);
        let mut n = Network::new(&mut m, &Settings { size: 128 << 10, references: 1, seed: 3 });
        let mut supply = vec![0i64; n.nodes + 1];
        for a in n.arc.chunks(ARC_WORDS) {
            supply[a[0] as usize] += a[4];
            supply[a[1] as usize] -= a[4];
        }
        let mut rng = Rng::new(1);
        for _ in 0..3 {
            let mut pivots = 0;
            while let Some((arc, grow)) = n.price(&mut m) {
                n.pivot(&mut m, arc, grow);
                pivots += 1;
                assert!(pivots < 1_000_000, "it ends");
            }
            assert!(pivots > 0);
            assert_optimal(&n, &supply);
            n.change(&mut m, &mut rng);
        }
    }
}
