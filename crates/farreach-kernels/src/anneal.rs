//! Simulated annealing of a placement. Two random elements swap places if that shortens their wires, and sometimes even
//! if it does not. Every move reads the places of all elements wired to the two, anywhere in memory.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "anneal",
    class: "simulated annealing",
    stands_for: "canneal, twolf",
    about: "random pairs of elements of a netlist exchange places",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 64 << 10,
    largest: 8 << 30,
    layout: Layout::Mapped,
    text_pages: 1,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of an element: place (row and column), number of moves, and the elements it is wired to.
const ELEMENT: usize = 8;
const WIRES: usize = 6;

struct Netlist<M: Memory> {
    elements: usize,
    element: M::Array<u32>,
}

impl<M: Memory> Netlist<M> {
    fn new(m: &mut M, s: &Settings) -> Netlist<M> {
        let elements = (s.size as usize / (4 * ELEMENT)) & !1;
        let side = elements.isqrt() as u32;
        let mut rng = Rng::new(s.seed);
        let mut record = vec![0; elements * ELEMENT];
        for (element, place) in rng.order(elements).into_iter().enumerate() {
            record[element * ELEMENT..][..2].copy_from_slice(&[place / side, place % side]);
        }
        // A wire has two ends: six random pairings of all elements.
        for wire in 2..2 + WIRES {
            for pair in rng.order(elements).chunks_exact(2) {
                record[pair[0] as usize * ELEMENT + wire] = pair[1];
                record[pair[1] as usize * ELEMENT + wire] = pair[0];
            }
        }
        Netlist { elements, element: m.input(record.into_iter()) }
    }

    fn place(&self, m: &mut M, at: [Site; 2], element: usize) -> [i64; 2] {
        [0, 1].map(|k| i64::from(m.load(at[k], &self.element, element * ELEMENT + k)))
    }

    /// How much longer an element's wires become if it moves. The wire to its partner keeps its length.
    fn longer(&self, m: &mut M, [element, partner]: [usize; 2], from: [i64; 2], to: [i64; 2]) -> i64 {
        const WIRE: Site = site(0, 0);
        const END: [Site; 2] = [site(0, 1), site(0, 2)];
        (0..WIRES).fold(0, |sum, k| {
            let other = m.load(WIRE, &self.element, element * ELEMENT + 2 + k) as usize;
            if other == partner {
                return sum;
            }
            let end = self.place(m, END, other);
            sum + (0..2).map(|d| (end[d] - to[d]).abs() - (end[d] - from[d]).abs()).sum::<i64>()
        })
    }

    /// Tries one swap. Returns whether it was made and by how much all wires grew.
    fn exchange(&mut self, m: &mut M, a: usize, b: usize, tolerance: i64) -> (bool, i64) {
        const MINE: [Site; 2] = [site(0, 3), site(0, 4)];
        const OTHERS: [Site; 2] = [site(0, 5), site(0, 6)];
        const MOVE: [Site; 4] = [site(0, 7), site(0, 8), site(0, 9), site(0, 10)];
        const WORK: Site = site(0, 11);
        let (at, to) = (self.place(m, MINE, a), self.place(m, OTHERS, b));
        let longer = self.longer(m, [a, b], at, to) + self.longer(m, [b, a], to, at);
        m.work(WORK);
        if longer > tolerance {
            return (false, longer);
        }
        for k in 0..2 {
            m.store(MOVE[k], &mut self.element, a * ELEMENT + k, to[k] as u32);
            m.store(MOVE[2 + k], &mut self.element, b * ELEMENT + k, at[k] as u32);
        }
        (true, longer)
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut netlist = Netlist::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    // A swap may lengthen the wires by a sixteenth of the side at most. Such swaps become rarer with time.
    let warm = netlist.elements.isqrt() / 16 + 1;
    let (mut moves, mut sum) = (0u64, 1u64);
    while m.budget_left() {
        moves += 1;
        let [a, b] = [0, 1].map(|_| rng.below(netlist.elements));
        let tolerance =
            if rng.below(1 + (moves / netlist.elements as u64) as usize) == 0 { rng.below(warm) as i64 } else { 0 };
        let (made, longer) = netlist.exchange(m, a, b, tolerance);
        sum = sum.rotate_left(3) ^ longer as u64 ^ u64::from(made);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All wires, counted from both ends.
    fn length(n: &Netlist<Native>) -> i64 {
        let place = |e: usize| [i64::from(n.element[e * ELEMENT]), i64::from(n.element[e * ELEMENT + 1])];
        let wire = |a: [i64; 2], b: [i64; 2]| (a[0] - b[0]).abs() + (a[1] - b[1]).abs();
        (0..n.elements)
            .map(|e| (0..WIRES).map(|k| wire(place(e), place(n.element[e * ELEMENT + 2 + k] as usize))).sum::<i64>())
            .sum()
    }

    #[test]
    fn places_are_exchanged_and_wires_get_shorter() {
        let mut m = Native::new(u64::MAX);
        let mut n = Netlist::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 2 });
        let places = |n: &Netlist<Native>| {
            let mut all: Vec<_> = n.element.chunks(ELEMENT).map(|e| (e[0], e[1])).collect();
            all.sort_unstable();
            all
        };
        let (before, long) = (places(&n), length(&n));
        let mut rng = Rng::new(4);
        let mut longer = 0;
        for _ in 0..200_000 {
            let [a, b] = [0, 1].map(|_| rng.below(n.elements));
            let (made, by) = n.exchange(&mut m, a, b, 0);
            longer += if made { by } else { 0 };
        }
        assert_eq!(places(&n), before, "no place is lost");
        assert_eq!(length(&n), long + 2 * longer, "the sum of all moves");
        assert!(-2 * longer > long / 8, "{long} became shorter by {}", -2 * longer);
    }
}
