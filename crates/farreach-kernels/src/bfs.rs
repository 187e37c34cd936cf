//! Breadth-first search over a power-law graph (Kronecker, 16 edges per vertex) in compressed rows. The kernel reads
//! the graph, it does not make it. Every search begins at another vertex.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "bfs",
    class: "graph search",
    stands_for: "graph500",
    about: "breadth-first searches over a Kronecker graph in compressed rows",
    default_size: 64 << 20,
    small_size: 8 << 20,
    smallest: 128 << 10,
    largest: 4 << 30,
    layout: Layout::Mapped,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

const EDGES: usize = 16;
/// A vertex that no search has reached.
const NONE: u32 = u32::MAX;

/// Edges by the four probabilities of graph500 (57, 19, 19, 5 %), both ends renamed at random; loops are kept.
fn edges(scale: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = Rng::new(seed);
    let names = rng.order(1 << scale);
    let mut edge = || {
        let (mut a, mut b) = (0usize, 0usize);
        for _ in 0..scale {
            let pick = rng.below(100);
            a = 2 * a + usize::from(pick >= 76);
            b = 2 * b + usize::from((57..76).contains(&pick) || pick >= 95);
        }
        (names[a], names[b])
    };
    (0..EDGES << scale).map(|_| edge()).collect()
}

struct Graph<M: Memory> {
    vertices: usize,
    /// Where the neighbours of each vertex begin; the last element is where the last vertex's neighbours end.
    row: M::Array<u32>,
    neighbour: M::Array<u32>,
    parent: M::Array<u32>,
    queue: M::Array<u32>,
}

impl<M: Memory> Graph<M> {
    fn new(m: &mut M, s: &Settings) -> Graph<M> {
        // 4 bytes for each of two ends of 16 edges, and three numbers: the power of two nearest to that.
        let vertices = s.size / (8 * EDGES as u64 + 12);
        let scale = vertices.ilog2() + u32::from(vertices * vertices >= 1 << (2 * vertices.ilog2() + 1));
        let edges = edges(scale, s.seed);
        let vertices = 1usize << scale;
        let mut row = vec![0u32; vertices + 1];
        for &(a, b) in &edges {
            row[a as usize] += 1;
            row[b as usize] += 1;
        }
        // Ends of rows. Rows are filled from the back, so these become the beginnings.
        let mut sum = 0;
        for end in &mut row {
            sum += *end;
            *end = sum;
        }
        let mut neighbour = vec![0u32; 2 * edges.len()];
        for &(a, b) in &edges {
            for (from, to) in [(a, b), (b, a)] {
                row[from as usize] -= 1;
                neighbour[row[from as usize] as usize] = to;
            }
        }
        drop(edges);
        let row = m.input(row.into_iter());
        let neighbour = m.input(neighbour.into_iter());
        Graph { vertices, row, neighbour, parent: m.array(vertices), queue: m.array(vertices) }
    }

    /// One search. Returns how many vertices it reached. It ends early when the reference budget is used up.
    fn search(&mut self, m: &mut M, root: usize) -> usize {
        const CLEAR: Site = site(0, 0);
        const BEGIN: [Site; 2] = [site(0, 1), site(0, 2)];
        const TAKE: Site = site(1, 0);
        const ROW: [Site; 2] = [site(1, 1), site(1, 2)];
        const NEIGHBOUR: Site = site(1, 3);
        const PARENT: Site = site(1, 4);
        const REACH: Site = site(1, 5);
        const PUT: Site = site(1, 6);
        for vertex in 0..self.vertices {
            m.store(CLEAR, &mut self.parent, vertex, NONE);
        }
        m.store(BEGIN[0], &mut self.parent, root, root as u32);
        m.store(BEGIN[1], &mut self.queue, 0, root as u32);
        let (mut taken, mut put) = (0, 1);
        while taken < put && m.budget_left() {
            let vertex = m.load(TAKE, &self.queue, taken);
            taken += 1;
            let from = m.load(ROW[0], &self.row, vertex as usize);
            let to = m.load(ROW[1], &self.row, vertex as usize + 1);
            for k in from..to {
                let next = m.load(NEIGHBOUR, &self.neighbour, k as usize);
                if m.load(PARENT, &self.parent, next as usize) == NONE {
                    m.store(REACH, &mut self.parent, next as usize, vertex);
                    m.store(PUT, &mut self.queue, put, next);
                    put += 1;
                }
            }
        }
        put
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut graph = Graph::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = 0u64;
    while m.budget_left() {
        let root = rng.below(graph.vertices);
        let reached = graph.search(m, root);
        sum = sum.rotate_left(11) ^ (root as u64) << 32 ^ reached as u64;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_a_shortest_path_tree() {
        let mut m = Native::new(u64::MAX);
        let s = Settings { size: 512 << 10, references: 1, seed: 3 };
        let mut g = Graph::new(&mut m, &s);
        let edges = edges(g.vertices.ilog2(), 3);
        let root = edges[0].0 as usize;
        let reached = g.search(&mut m, root);
        // Distances the slow way: relax all edges until nothing changes.
        let mut distance = vec![usize::MAX - 1; g.vertices];
        distance[root] = 0;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &(a, b) in edges.iter().chain(&edges.iter().map(|e| (e.1, e.0)).collect::<Vec<_>>()) {
                if distance[a as usize] + 1 < distance[b as usize] {
                    distance[b as usize] = distance[a as usize] + 1;
                    changed = true;
                }
            }
        }
        assert_eq!(reached, distance.iter().filter(|d| **d < usize::MAX - 1).count());
        assert!(reached > g.vertices / 2);
        for vertex in 0..g.vertices {
            let parent = g.parent[vertex];
            match distance[vertex] {
                0 => assert_eq!(parent as usize, root),
                far if far == usize::MAX - 1 => assert_eq!(parent, NONE),
                far => {
                    assert_eq!(distance[parent as usize] + 1, far);
                    let range = g.row[vertex] as usize..g.row[vertex + 1] as usize;
                    assert!(g.neighbour[range].contains(&parent), "along an edge");
                }
            }
        }
    }
}
