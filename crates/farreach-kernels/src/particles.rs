//! Particles in a plasma on a two-dimensional periodic grid. Each moves in the field of its cell and adds its charge to
//! the four corners. Then the field is computed from the charge. Particles are visited in sequence; their cells lie in
//! a band of the grid.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "particles",
    class: "particles on a grid",
    stands_for: "wave5",
    about: "particles in sequence, gather from and scatter to a grid, field sweeps",
    default_size: 15_155 << 10,
    small_size: 2 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Heap,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

struct Plasma<M: Memory> {
    particles: usize,
    side: usize,
    /// Position in cells, and speed in cells per step.
    x: M::Array<f64>,
    y: M::Array<f64>,
    vx: M::Array<f64>,
    vy: M::Array<f64>,
    /// Field and charge, by row and column.
    ex: M::Array<f64>,
    ey: M::Array<f64>,
    charge: M::Array<f64>,
}

impl<M: Memory> Plasma<M> {
    fn new(m: &mut M, s: &Settings) -> Plasma<M> {
        // Three fifths for particles of 32 bytes, the rest for cells of 24.
        let particles = s.size as usize / 5 * 3 / 32;
        let side = (s.size as usize / 5 * 2 / 24).isqrt();
        let mut rng = Rng::new(s.seed);
        let width = side as f64;
        // In the order of rows, give or take a sixteenth of the grid.
        let row = |i: usize, jitter: f64| (i as f64 / particles as f64 + jitter / 16.0) * width % width;
        let x = m.input((0..particles).map(|_| rng.unit() * width));
        let y = m.input((0..particles).map(|i| row(i, rng.unit())));
        let vx = m.input((0..particles).map(|_| rng.unit() - 0.5));
        let vy = m.input((0..particles).map(|_| rng.unit() - 0.5));
        let cells = side * side;
        Plasma { particles, side, x, y, vx, vy, ex: m.array(cells), ey: m.array(cells), charge: m.array(cells) }
    }

    /// Moves every particle and deposits its charge. False: the reference budget is used up.
    fn push(&mut self, m: &mut M) -> bool {
        const LOAD: [Site; 4] = [site(0, 0), site(0, 1), site(0, 2), site(0, 3)];
        const FIELD: [Site; 2] = [site(0, 4), site(0, 5)];
        const STORE: [Site; 4] = [site(0, 6), site(0, 7), site(0, 8), site(0, 9)];
        const CORNER: [Site; 4] = [site(0, 10), site(0, 11), site(0, 12), site(0, 13)];
        const WORK: [Site; 2] = [site(0, 14), site(0, 15)];
        let side = self.side;
        let wrap = |v: f64| {
            let v = if v < 0.0 { v + side as f64 } else { v };
            if v >= side as f64 { v - side as f64 } else { v }
        };
        for p in 0..self.particles {
            let (x, y) = (m.load(LOAD[0], &self.x, p), m.load(LOAD[1], &self.y, p));
            let cell = y as usize * side + x as usize;
            // Slower than light, which crosses a cell in a step.
            let limit = |v: f64| v.clamp(-1.0, 1.0);
            let vx = limit(m.load(LOAD[2], &self.vx, p) + m.load(FIELD[0], &self.ex, cell));
            let vy = limit(m.load(LOAD[3], &self.vy, p) + m.load(FIELD[1], &self.ey, cell));
            m.work(WORK[0]);
            let (x, y) = (wrap(x + vx), wrap(y + vy));
            m.store(STORE[0], &mut self.x, p, x);
            m.store(STORE[1], &mut self.y, p, y);
            m.store(STORE[2], &mut self.vx, p, vx);
            m.store(STORE[3], &mut self.vy, p, vy);
            let (i, j) = (y as usize, x as usize);
            let (fy, fx) = (y - i as f64, x - j as f64);
            let (i1, j1) = (if i + 1 == side { 0 } else { i + 1 }, if j + 1 == side { 0 } else { j + 1 });
            m.work(WORK[1]);
            let corners = [
                (i, j, (1.0 - fy) * (1.0 - fx)),
                (i, j1, (1.0 - fy) * fx),
                (i1, j, fy * (1.0 - fx)),
                (i1, j1, fy * fx),
            ];
            for (at, (i, j, part)) in CORNER.into_iter().zip(corners) {
                m.update(at, &mut self.charge, i * side + j, |c| c + part);
            }
            if p % 4096 == 0 && !m.budget_left() {
                return false;
            }
        }
        true
    }

    /// Computes the field, which drives particles away from where there are many, and clears the charge.
    fn solve(&mut self, m: &mut M) {
        const NEAR: [Site; 4] = [site(1, 0), site(1, 1), site(1, 2), site(1, 3)];
        const EX: Site = site(1, 4);
        const EY: Site = site(1, 5);
        let side = self.side;
        let (before, after) =
            (|i: usize| if i == 0 { side - 1 } else { i - 1 }, |i: usize| if i + 1 == side { 0 } else { i + 1 });
        for i in 0..side {
            for j in 0..side {
                let left = m.load(NEAR[0], &self.charge, i * side + before(j));
                let right = m.load(NEAR[1], &self.charge, i * side + after(j));
                let above = m.load(NEAR[2], &self.charge, before(i) * side + j);
                let below = m.load(NEAR[3], &self.charge, after(i) * side + j);
                m.store(EX, &mut self.ex, i * side + j, (left - right) / 1024.0);
                m.store(EY, &mut self.ey, i * side + j, (above - below) / 1024.0);
            }
        }
    }

    fn clear(&mut self, m: &mut M) {
        const CLEAR: Site = site(2, 0);
        for cell in 0..self.side * self.side {
            m.store(CLEAR, &mut self.charge, cell, 0.0);
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut plasma = Plasma::new(m, s);
    while m.budget_left() {
        plasma.clear(m);
        if plasma.push(m) {
            plasma.solve(m);
        }
    }
    (0..16).fold(0, |sum, p| sum ^ m.load(site(2, 1), &plasma.x, p).to_bits().rotate_left(p as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_is_conserved_and_particles_stay_in_the_box() {
        let mut m = Native::new(u64::MAX);
        let mut plasma = Plasma::new(&mut m, &Settings { size: 256 << 10, references: 1, seed: 4 });
        for _ in 0..20 {
            plasma.clear(&mut m);
            assert!(plasma.push(&mut m));
            plasma.solve(&mut m);
            let total: f64 = plasma.charge.iter().sum();
            assert!((total - plasma.particles as f64).abs() < 1e-6);
            // What one cell pushes to the right, its neighbour gets from the left.
            assert!(plasma.ex.iter().sum::<f64>().abs() < 1e-6 && plasma.ey.iter().sum::<f64>().abs() < 1e-6);
        }
        let inside = |v: &f64| (0.0..plasma.side as f64).contains(v);
        assert!(plasma.x.iter().all(inside) && plasma.y.iter().all(inside));
        assert!(plasma.ex.iter().any(|&e| e != 0.0));
    }
}
