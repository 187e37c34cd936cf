//! Conjugate gradients on a sparse symmetric matrix: rows in sequence, and a gather from a vector at random columns.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "spmv",
    class: "sparse linear algebra",
    stands_for: "NPB:CG, soplex, cactusADM",
    about: "conjugate gradients: sparse matrix times vector, five long vectors",
    default_size: 64 << 20,
    small_size: 8 << 20,
    smallest: 64 << 10,
    largest: 8 << 30,
    layout: Layout::Mapped,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Elements of a row: the diagonal, and one from each of eleven random pairings of the rows. So the matrix is
/// symmetric.
const ROW: usize = 12;

/// Columns of all rows, ascending within a row.
fn columns(rows: usize, rng: &mut Rng) -> Vec<u32> {
    let mut columns: Vec<u32> = (0..rows * ROW).map(|k| (k / ROW) as u32).collect();
    for pairing in 1..ROW {
        for pair in rng.order(rows).chunks_exact(2) {
            columns[pair[0] as usize * ROW + pairing] = pair[1];
            columns[pair[1] as usize * ROW + pairing] = pair[0];
        }
    }
    columns.chunks_mut(ROW).for_each(<[u32]>::sort_unstable);
    columns
}

/// A matrix element: symmetric, and small compared with the diagonal.
fn value(row: usize, column: usize) -> f64 {
    if row == column {
        return 4.0;
    }
    let (a, b) = (row.min(column) as u64, row.max(column) as u64);
    ((a << 32 | b).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1 << 24) as f64 / 4.0
}

struct Cg<M: Memory> {
    rows: usize,
    column: M::Array<u32>,
    matrix: M::Array<f64>,
    x: M::Array<f64>,
    r: M::Array<f64>,
    p: M::Array<f64>,
    q: M::Array<f64>,
    rho: f64,
}

impl<M: Memory> Cg<M> {
    /// A system with a right side of all ones.
    fn new(m: &mut M, s: &Settings) -> Cg<M> {
        let rows = (s.size as usize / (ROW * 12 + 4 * 8)) & !1;
        let columns = columns(rows, &mut Rng::new(s.seed));
        let mut matrix = m.opaque(rows * ROW);
        m.read(&mut matrix, columns.iter().enumerate().map(|(k, &column)| value(k / ROW, column as usize)));
        let column = m.input(columns.into_iter());
        let mut cg = Cg {
            rows,
            column,
            matrix,
            x: m.opaque(rows),
            r: m.opaque(rows),
            p: m.opaque(rows),
            q: m.opaque(rows),
            rho: 0.0,
        };
        m.read(&mut cg.r, std::iter::repeat_n(1.0, rows));
        m.read(&mut cg.p, std::iter::repeat_n(1.0, rows));
        cg.rho = rows as f64;
        cg
    }

    /// q = A p. Returns the product p q. Ends early when the reference budget is used up.
    fn multiply(&mut self, m: &mut M) -> f64 {
        const COLUMN: Site = site(0, 0);
        const ELEMENT: Site = site(0, 1);
        const GATHER: Site = site(0, 2);
        const SUM: Site = site(0, 3);
        const OWN: Site = site(0, 4);
        let mut product = 0.0;
        for row in 0..self.rows {
            let mut sum = 0.0;
            for k in row * ROW..(row + 1) * ROW {
                let column = m.load(COLUMN, &self.column, k) as usize;
                sum += m.load(ELEMENT, &self.matrix, k) * m.load(GATHER, &self.p, column);
            }
            m.store(SUM, &mut self.q, row, sum);
            product += sum * m.load(OWN, &self.p, row);
            if row % 256 == 0 && !m.budget_left() {
                break;
            }
        }
        product
    }

    /// One iteration. Returns the square of the residual.
    fn iterate(&mut self, m: &mut M) -> f64 {
        const X: [Site; 2] = [site(1, 0), site(1, 1)];
        const R: [Site; 2] = [site(1, 2), site(1, 3)];
        const P: [Site; 2] = [site(2, 0), site(2, 1)];
        let alpha = self.rho / self.multiply(m);
        let mut rho = 0.0;
        for i in 0..self.rows {
            let p = m.load(X[0], &self.p, i);
            m.update(X[1], &mut self.x, i, |x| x + alpha * p);
            let q = m.load(R[0], &self.q, i);
            let r = m.update(R[1], &mut self.r, i, |r| r - alpha * q);
            rho += r * r;
        }
        let beta = rho / self.rho;
        for i in 0..self.rows {
            let r = m.load(P[0], &self.r, i);
            m.update(P[1], &mut self.p, i, |p| r + beta * p);
        }
        self.rho = rho;
        rho
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut cg = Cg::new(m, s);
    while m.budget_left() {
        cg.iterate(m);
    }
    (0..16).fold(1, |sum: u64, i| sum.rotate_left(3) ^ m.load(site(2, 2), &cg.x, i).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solution_solves_the_system() {
        let mut m = Native::new(u64::MAX);
        let mut cg = Cg::new(&mut m, &Settings { size: 128 << 10, references: 1, seed: 1 });
        let mut iterations = 0;
        while cg.iterate(&mut m) > 1e-20 {
            iterations += 1;
            assert!(iterations < 200, "it converges");
        }
        for row in 0..cg.rows {
            let sum: f64 =
                cg.column[row * ROW..][..ROW].iter().map(|&c| value(row, c as usize) * cg.x[c as usize]).sum();
            assert!((sum - 1.0).abs() < 1e-9, "row {row}: {sum}");
        }
    }
}
