//! Finite differences on a three-dimensional grid, as in programs that evolve space-time. There are many grid
//! functions, each an array of its own, in three time levels. One loop over the points advances all of them by a step.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "stencil",
    class: "finite differences on a grid",
    stands_for: "cactusADM, GemsFDTD, NPB:BT",
    about: "a wave equation for twelve fields at once, in 42 arrays",
    default_size: 64 << 20,
    small_size: 8 << 20,
    smallest: 256 << 10,
    largest: 8 << 30,
    layout: Layout::Mapped,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Fields that are evolved: six components of a metric and six of its curvature.
const FIELDS: usize = 12;
const LEVELS: usize = 3;
/// Functions of the point alone: speeds and sources.
const GIVEN: usize = 6;
const ARRAYS: usize = FIELDS * LEVELS + GIVEN;
/// Square of the time step over that of the grid.
const STEP: f64 = 0.04;

struct Grid<M: Memory> {
    side: usize,
    /// By time level and field.
    field: Vec<Vec<M::Array<f64>>>,
    given: Vec<M::Array<f64>>,
}

/// Initial value of element `i` of an array.
fn initial(seed: u64, array: usize, i: usize) -> f64 {
    let mut rng = Rng::new(seed ^ ((array as u64) << 48) ^ i as u64);
    (rng.bits() >> 11) as f64 / (1u64 << 53) as f64
}

impl<M: Memory> Grid<M> {
    fn new(m: &mut M, s: &Settings) -> Grid<M> {
        let points = s.size as usize / (8 * ARRAYS);
        let side = (1..).take_while(|n| n * n * n <= points).last().expect("sizes begin above one point").max(4);
        let len = side * side * side;
        let mut number = 0;
        let mut array = |m: &mut M, read: bool| {
            number += 1;
            let mut array = m.opaque::<f64>(len);
            if read {
                m.read(&mut array, (0..len).map(|i| initial(s.seed, number, i)));
            }
            array
        };
        // The level that is computed first needs no initial values.
        let field = (0..LEVELS).map(|level| (0..FIELDS).map(|_| array(m, level < 2)).collect()).collect();
        let given = (0..GIVEN).map(|_| array(m, true)).collect();
        Grid { side, field, given }
    }

    /// One time step from the two levels before, at all inner points, for all fields. Ends early when the reference
    /// budget is used up.
    fn step(&mut self, m: &mut M) {
        let n = self.side;
        let [before, now, next] = &mut self.field[..] else { unreachable!("three levels") };
        for z in 1..n - 1 {
            for y in 1..n - 1 {
                let row = (z * n + y) * n;
                for i in row + 1..row + n - 1 {
                    let mut speed = 0.0;
                    for (k, given) in self.given.iter().enumerate() {
                        speed += m.load(site(0, k as u32), given, i);
                    }
                    for f in 0..FIELDS {
                        let place = |step: usize| site(f as u32 / 6, 8 + (f as u32 % 6) * 10 + step as u32);
                        let mut sum = 0.0;
                        for (k, at) in [i - 1, i + 1, i - n, i + n, i - n * n, i + n * n].into_iter().enumerate() {
                            sum += m.load(place(k), &now[f], at);
                        }
                        let here = m.load(place(6), &now[f], i);
                        let old = m.load(place(7), &before[f], i);
                        let value = 2.0 * here - old + STEP * speed / GIVEN as f64 * (sum - 6.0 * here);
                        m.store(place(8), &mut next[f], i, value);
                    }
                }
                if !m.budget_left() {
                    return;
                }
            }
        }
        self.field.rotate_left(1);
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    const RESULT: Site = site(1, 100);
    let mut grid = Grid::new(m, s);
    while m.budget_left() {
        grid.step(m);
    }
    let middle = (grid.side / 2 * grid.side + 1) * grid.side;
    (0..grid.side).fold(1, |sum: u64, i| sum.rotate_left(3) ^ m.load(RESULT, &grid.field[1][0], middle + i).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same recurrence, a field at a time, by coordinates.
    #[test]
    fn fields_are_those_of_the_recurrence() {
        let mut m = Native::new(u64::MAX);
        let mut grid = Grid::new(&mut m, &Settings { size: 256 << 10, references: 1, seed: 4 });
        let n = grid.side;
        let value = |levels: &[Vec<f64>; 3], level: usize, [x, y, z]: [usize; 3]| levels[level][(z * n + y) * n + x];
        let speed: Vec<f64> =
            (0..n * n * n).map(|i| grid.given.iter().map(|g| g[i]).sum::<f64>() / GIVEN as f64).collect();
        let mut plain: Vec<[Vec<f64>; 3]> =
            (0..FIELDS).map(|f| [0, 1, 2].map(|level| grid.field[level][f].clone())).collect();
        for _ in 0..3 {
            grid.step(&mut m);
            for (f, levels) in plain.iter_mut().enumerate() {
                for p in (0..n * n * n).map(|i| [i % n, i / n % n, i / n / n]) {
                    if p.iter().any(|&c| c == 0 || c == n - 1) {
                        continue;
                    }
                    let here = value(levels, 1, p);
                    let mut laplacian = 0.0;
                    for d in 0..3 {
                        let (mut low, mut high) = (p, p);
                        low[d] -= 1;
                        high[d] += 1;
                        laplacian += value(levels, 1, low) + value(levels, 1, high) - 2.0 * here;
                    }
                    let i = (p[2] * n + p[1]) * n + p[0];
                    levels[2][i] = 2.0 * here - value(levels, 0, p) + STEP * speed[i] * laplacian;
                    assert!((levels[2][i] - grid.field[1][f][i]).abs() < 1e-9, "field {f} at {p:?}");
                }
                levels.rotate_left(1);
            }
        }
    }
}
