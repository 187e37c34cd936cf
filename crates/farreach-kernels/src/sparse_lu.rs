//! Transient analysis of a circuit. Every step walks the list of devices, each of which adds to four elements of a
//! sparse matrix, then factors the matrix and solves. Matrix elements and devices are linked records that lie in
//! netlist order, which is not the order of the lists: pointer chasing over a small set of pages, again and again.

use std::collections::BTreeSet;

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "sparse-lu",
    class: "circuit analysis",
    stands_for: "spice",
    about: "device lists and a sparse LU factorisation, linked records all over the heap",
    default_size: 4_300 << 10,
    small_size: 1 << 20,
    smallest: 64 << 10,
    largest: 1 << 30,
    layout: Layout::Heap,
    text_pages: 4,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Nodes of a subcircuit; each is tied to the next one by two devices.
const NODES: usize = 12;
/// Devices of a subcircuit, besides those two and one to ground at each node.
const INNER: usize = 16;

/// Words of a matrix element: value, row, next element in the row, next in the column. Links are 1 + number of the
/// first word.
const ELEMENT: usize = 4;
const ROW: usize = 1;
const RIGHT: usize = 2;
const DOWN: usize = 3;
/// Words of a device: the next device, conductance, two nodes (0 is ground), and the elements at (a, a), (b, b), (a,
/// b), (b, a).
const DEVICE: usize = 8;

struct Circuit<M: Memory> {
    nodes: usize,
    /// Nodes, elements and devices.
    count: usize,
    elements: M::Array<u64>,
    devices: M::Array<u64>,
    first_device: usize,
    /// Element of (i, i), 1 + number of its first word.
    diagonal: M::Array<u32>,
    right: M::Array<f64>,
    voltage: M::Array<f64>,
}

/// The places of a matrix that are not zero after elimination without pivoting.
fn fill_in(rows: &mut [BTreeSet<usize>]) {
    for pivot in 0..rows.len() {
        let upper: Vec<usize> = rows[pivot].range(pivot + 1..).copied().collect();
        // Symmetric: the column below the pivot is the row beside it.
        for &row in &upper {
            rows[row].extend(&upper);
        }
    }
}

/// Pairs of connected nodes in netlist order. The second may be ground (0). Nodes count from 1.
fn netlist(subcircuits: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for sub in 0..subcircuits {
        let node = |i: usize| sub * NODES + i + 1;
        pairs.extend((0..NODES).map(|i| (node(i), 0)));
        for _ in 0..INNER {
            let a = rng.below(NODES);
            pairs.push((node(a), node((a + 1 + rng.below(NODES - 1)) % NODES)));
        }
        if sub + 1 < subcircuits {
            pairs.extend([(node(NODES - 2), node(NODES)), (node(NODES - 1), node(NODES + 1))]);
        }
    }
    pairs
}

impl<M: Memory> Circuit<M> {
    fn new(m: &mut M, s: &Settings) -> Circuit<M> {
        let mut rng = Rng::new(s.seed);
        // A subcircuit has about 100 elements of 32 bytes, 30 devices of 64, and 12 nodes of 20.
        let subcircuits = s.size as usize / (100 * 32 + 30 * 64 + 12 * 20);
        let nodes = subcircuits * NODES;
        let pairs = netlist(subcircuits, &mut rng);
        let mut rows: Vec<BTreeSet<usize>> = (0..nodes).map(|i| BTreeSet::from([i])).collect();
        for &(a, b) in pairs.iter().filter(|(_, b)| *b != 0) {
            rows[a - 1].insert(b - 1);
            rows[b - 1].insert(a - 1);
        }
        fill_in(&mut rows);
        let count: usize = rows.iter().map(BTreeSet::len).sum();
        let order = rng.order(count);
        let mut places = order.iter().map(|&k| k as usize * ELEMENT + 1);
        let places: Vec<Vec<(usize, usize)>> =
            rows.iter().map(|row| row.iter().copied().zip(places.by_ref()).collect()).collect();
        let at = |row: usize, column: usize| {
            let row = &places[row];
            row[row.binary_search_by_key(&column, |e| e.0).expect("an element")].1
        };
        let mut elements = vec![0u64; count * ELEMENT];
        // By column: the last element that was linked.
        let mut above = vec![0; nodes];
        for (i, row) in places.iter().enumerate() {
            for (k, &(column, place)) in row.iter().enumerate() {
                elements[place - 1 + ROW] = i as u64;
                elements[place - 1 + RIGHT] = row.get(k + 1).map_or(0, |e| e.1 as u64);
                if above[column] != 0 {
                    elements[above[column] - 1 + DOWN] = place as u64;
                }
                above[column] = place;
            }
        }
        let order = rng.order(pairs.len());
        let mut devices = vec![0u64; pairs.len() * DEVICE];
        for (k, &(a, b)) in pairs.iter().enumerate() {
            let record = &mut devices[order[k] as usize * DEVICE..][..DEVICE];
            record[0] = order.get(k + 1).map_or(0, |&next| u64::from(next) * DEVICE as u64 + 1);
            record[1] = (0.5 + rng.unit()).to_bits();
            (record[2], record[3], record[4]) = (a as u64, b as u64, at(a - 1, a - 1) as u64);
            if b != 0 {
                let places = [at(b - 1, b - 1), at(a - 1, b - 1), at(b - 1, a - 1)];
                record[5..].copy_from_slice(&places.map(|p| p as u64));
            }
        }
        let diagonal = m.input((0..nodes).map(|i| at(i, i) as u32));
        Circuit {
            nodes,
            count,
            elements: m.input(elements.into_iter()),
            devices: m.input(devices.into_iter()),
            first_device: order[0] as usize * DEVICE + 1,
            diagonal,
            right: m.array(nodes),
            voltage: m.array(nodes),
        }
    }

    fn value(&self, m: &mut M, at: Site, element: u64) -> f64 {
        f64::from_bits(m.load(at, &self.elements, element as usize - 1))
    }

    fn change(&mut self, m: &mut M, at: Site, element: u64, f: impl FnOnce(f64) -> f64) -> f64 {
        f64::from_bits(m.update(at, &mut self.elements, element as usize - 1, |bits| f(f64::from_bits(bits)).to_bits()))
    }

    /// Builds the matrix and the right side for the current voltages.
    fn stamp(&mut self, m: &mut M, step: u32) {
        const ZERO: Site = site(0, 0);
        const SOURCE: Site = site(0, 1);
        const FIELD: [Site; 4] = [site(0, 2), site(0, 3), site(0, 4), site(0, 5)];
        const VOLTAGE: [Site; 2] = [site(0, 6), site(0, 7)];
        const PLACE: [Site; 4] = [site(0, 8), site(0, 9), site(0, 10), site(0, 11)];
        const ADD: [Site; 4] = [site(0, 12), site(0, 13), site(0, 14), site(0, 15)];
        const MODEL: Site = site(0, 16);
        for element in 0..self.count {
            m.store(ZERO, &mut self.elements, element * ELEMENT, 0);
        }
        // A triangular wave into every subcircuit's first node, each with its own phase.
        for node in 0..self.nodes {
            let phase = (step as usize * 3 + node) % 64;
            let wave = phase.min(64 - phase) as f64 / 32.0;
            m.store(SOURCE, &mut self.right, node, if node % NODES == 0 { wave } else { 0.0 });
        }
        let mut device = self.first_device;
        while device != 0 {
            let [next, g, a, b] = [0, 1, 2, 3].map(|w| m.load(FIELD[w], &self.devices, device - 1 + w));
            let (a, b) = (a as usize, b as usize);
            let across = m.load(VOLTAGE[0], &self.voltage, a - 1);
            let across = if b == 0 { across } else { across - m.load(VOLTAGE[1], &self.voltage, b - 1) };
            m.work(MODEL);
            let g = f64::from_bits(g) * (1.0 + across * across / (1.0 + across * across));
            let sign = [1.0, 1.0, -1.0, -1.0];
            for k in 0..if b == 0 { 1 } else { 4 } {
                let element = m.load(PLACE[k], &self.devices, device - 1 + 4 + k);
                self.change(m, ADD[k], element, |value| value + sign[k] * g);
            }
            device = next as usize;
        }
    }

    /// LU decomposition in place. L is the pivots and everything below them; U is everything right of them, with ones
    /// on its diagonal.
    fn factor(&mut self, m: &mut M) {
        const PIVOT: [Site; 4] = [site(1, 0), site(1, 1), site(1, 2), site(1, 3)];
        const SCALE: Site = site(1, 4);
        const BELOW: Site = site(1, 5);
        const TARGET_ROW: Site = site(1, 6);
        const LOWER: [Site; 2] = [site(1, 7), site(1, 8)];
        const SUBTRACT: Site = site(1, 9);
        const NEXT: [Site; 3] = [site(1, 10), site(1, 11), site(1, 12)];
        const WORK: Site = site(1, 13);
        for k in 0..self.nodes {
            let pivot = u64::from(m.load(PIVOT[0], &self.diagonal, k));
            let inverse = 1.0 / self.value(m, PIVOT[1], pivot);
            let mut upper = m.load(PIVOT[2], &self.elements, pivot as usize - 1 + RIGHT);
            let column = m.load(PIVOT[3], &self.elements, pivot as usize - 1 + DOWN);
            while upper != 0 {
                m.work(WORK);
                let factor = self.change(m, SCALE, upper, |value| value * inverse);
                let mut target = m.load(BELOW, &self.elements, upper as usize - 1 + DOWN);
                let mut lower = column;
                while lower != 0 {
                    let row = m.load(LOWER[0], &self.elements, lower as usize - 1 + ROW);
                    while m.load(TARGET_ROW, &self.elements, target as usize - 1 + ROW) < row {
                        target = m.load(NEXT[0], &self.elements, target as usize - 1 + DOWN);
                    }
                    let other = self.value(m, LOWER[1], lower);
                    self.change(m, SUBTRACT, target, |value| value - other * factor);
                    lower = m.load(NEXT[1], &self.elements, lower as usize - 1 + DOWN);
                }
                upper = m.load(NEXT[2], &self.elements, upper as usize - 1 + RIGHT);
            }
        }
    }

    /// Solves for the voltages; overwrites the right side.
    fn solve(&mut self, m: &mut M) {
        const DIAGONAL: [Site; 3] = [site(2, 0), site(2, 1), site(2, 2)];
        const RIGHT_SIDE: Site = site(2, 3);
        const KEEP: Site = site(2, 4);
        const ELEMENTS: [Site; 3] = [site(2, 5), site(2, 6), site(2, 7)];
        const SUBTRACT: Site = site(2, 8);
        const BACK: [Site; 4] = [site(3, 0), site(3, 1), site(3, 2), site(3, 3)];
        const RESULT: [Site; 2] = [site(3, 4), site(3, 5)];
        for k in 0..self.nodes {
            let pivot = u64::from(m.load(DIAGONAL[0], &self.diagonal, k));
            let y = m.load(RIGHT_SIDE, &self.right, k) / self.value(m, DIAGONAL[1], pivot);
            m.store(KEEP, &mut self.right, k, y);
            let mut lower = m.load(DIAGONAL[2], &self.elements, pivot as usize - 1 + DOWN);
            while lower != 0 {
                let row = m.load(ELEMENTS[0], &self.elements, lower as usize - 1 + ROW) as usize;
                let value = self.value(m, ELEMENTS[1], lower);
                m.update(SUBTRACT, &mut self.right, row, |b| b - value * y);
                lower = m.load(ELEMENTS[2], &self.elements, lower as usize - 1 + DOWN);
            }
        }
        // An element knows only its row. The pattern is symmetric, so the rows of L below a pivot are the columns right
        // of it.
        for k in (0..self.nodes).rev() {
            let pivot = u64::from(m.load(BACK[0], &self.diagonal, k));
            let mut upper = m.load(BACK[1], &self.elements, pivot as usize - 1 + RIGHT);
            let mut lower = m.load(BACK[2], &self.elements, pivot as usize - 1 + DOWN);
            let mut x = m.load(BACK[3], &self.right, k);
            while upper != 0 {
                let column = m.load(site(3, 6), &self.elements, lower as usize - 1 + ROW) as usize;
                let value = self.value(m, site(3, 7), upper);
                x -= value * m.load(RESULT[0], &self.voltage, column);
                upper = m.load(site(3, 8), &self.elements, upper as usize - 1 + RIGHT);
                lower = m.load(site(3, 9), &self.elements, lower as usize - 1 + DOWN);
            }
            m.store(RESULT[1], &mut self.voltage, k, x);
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut circuit = Circuit::new(m, s);
    let mut step = 0;
    while m.budget_left() {
        circuit.stamp(m, step);
        circuit.factor(m);
        circuit.solve(m);
        step += 1;
    }
    (0..16).fold(0, |sum, k| sum ^ m.load(site(3, 10), &circuit.voltage, k).to_bits().rotate_left(k as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voltages_solve_the_circuit() {
        let mut m = Native::new(u64::MAX);
        let mut c = Circuit::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 8 });
        for step in 0..5 {
            let before = c.voltage.clone();
            c.stamp(&mut m, step);
            let right = c.right.clone();
            c.factor(&mut m);
            c.solve(&mut m);
            // Kirchhoff, from the devices themselves: what flows out of a node flows into it.
            let mut balance = right;
            for d in c.devices.chunks(DEVICE) {
                let (a, b) = (d[2] as usize, d[3] as usize);
                let at = |v: &[f64], node: usize| if node == 0 { 0.0 } else { v[node - 1] };
                let across = at(&before, a) - at(&before, b);
                let g = f64::from_bits(d[1]) * (1.0 + across * across / (1.0 + across * across));
                let current = g * (at(&c.voltage, a) - at(&c.voltage, b));
                balance[a - 1] -= current;
                if b != 0 {
                    balance[b - 1] += current;
                }
            }
            assert!(balance.iter().all(|rest| rest.abs() < 1e-12), "{balance:?}");
            assert!(step == 0 || c.voltage.iter().any(|v| *v > 0.01));
        }
    }
}
