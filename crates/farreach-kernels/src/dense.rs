//! Dense matrices whose rows are a power of two long: a product, a transposition, and tridiagonal systems down the
//! columns. A walk down a column of a row-major matrix has a stride of one row, which at the default size is exactly
//! one page.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "dense",
    class: "dense numeric kernels",
    stands_for: "nasa7",
    about: "matrix product, transposition, systems down columns; strides of a power of two",
    default_size: 3_800 << 10,
    small_size: 1 << 20,
    smallest: 96 << 10,
    largest: 1 << 30,
    layout: Layout::Heap,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Three matrices of `n` rows with `ld` elements each, of which `n` are used.
struct Matrices<M: Memory> {
    n: usize,
    ld: usize,
    a: M::Array<f64>,
    b: M::Array<f64>,
    c: M::Array<f64>,
}

impl<M: Memory> Matrices<M> {
    fn new(m: &mut M, s: &Settings) -> Matrices<M> {
        let elements = s.size as usize / 24;
        let ld = elements.isqrt().next_power_of_two();
        // Rows for which there is room; a square of them is used.
        let n = (elements / ld).min(ld);
        let mut rng = Rng::new(s.seed);
        let a = m.input((0..n * ld).map(|_| rng.unit() - 0.5));
        let b = m.input((0..n * ld).map(|_| rng.unit() - 0.5));
        let c = m.array(n * ld);
        Matrices { n, ld, a, b, c }
    }

    /// c = a b / sqrt(n) + a, the rows of a by the columns of b: values stay bounded and do not vanish. Ends after the
    /// row in which the reference budget is used up.
    fn product(&mut self, m: &mut M) {
        const A: Site = site(0, 0);
        const B: Site = site(0, 1);
        const ADD: Site = site(0, 2);
        const C: Site = site(0, 3);
        let (n, ld) = (self.n, self.ld);
        let scale = 1.0 / (n as f64).sqrt();
        for i in 0..n {
            for j in 0..n {
                let mut sum = 0.0;
                for k in 0..n {
                    sum += m.load(A, &self.a, i * ld + k) * m.load(B, &self.b, k * ld + j);
                }
                let value = sum * scale + m.load(ADD, &self.a, i * ld + j);
                m.store(C, &mut self.c, i * ld + j, value);
            }
            if !m.budget_left() {
                return;
            }
        }
    }

    /// b = the transpose of c.
    fn transpose(&mut self, m: &mut M) {
        const C: Site = site(1, 0);
        const B: Site = site(1, 1);
        for i in 0..self.n {
            for j in 0..self.n {
                let value = m.load(C, &self.c, j * self.ld + i);
                m.store(B, &mut self.b, i * self.ld + j, value);
            }
        }
    }

    /// Each column of c becomes the solution x of -x[i-1] + 4 x[i] - x[i+1] = c[i], by elimination down and
    /// substitution up; the factors are kept in the column of b, which is free.
    fn columns(&mut self, m: &mut M) {
        const LOAD: Site = site(2, 0);
        const FACTOR: Site = site(2, 1);
        const STORE: Site = site(2, 2);
        const DIVIDE: Site = site(2, 3);
        const BACK: Site = site(2, 4);
        const BACK_FACTOR: Site = site(2, 5);
        let (n, ld) = (self.n, self.ld);
        for j in 0..n {
            let (mut factor, mut before) = (0.0, 0.0);
            for i in 0..n {
                let pivot = 1.0 / (4.0 - factor);
                m.work(DIVIDE);
                before = (m.load(LOAD, &self.c, i * ld + j) + before) * pivot;
                m.store(STORE, &mut self.c, i * ld + j, before);
                factor = pivot;
                m.store(FACTOR, &mut self.b, i * ld + j, factor);
            }
            for i in (0..n - 1).rev() {
                let factor = m.load(BACK_FACTOR, &self.b, i * ld + j);
                let below = before;
                before = m.update(BACK, &mut self.c, i * ld + j, |x| x + factor * below);
            }
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut matrices = Matrices::new(m, s);
    while m.budget_left() {
        matrices.product(m);
        matrices.columns(m);
        matrices.transpose(m);
    }
    (0..matrices.n)
        .fold(0, |sum, i| sum ^ m.load(site(1, 2), &matrices.c, i * matrices.ld + i).to_bits().rotate_left(i as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> (Native, Matrices<Native>) {
        let mut m = Native::new(u64::MAX);
        let matrices = Matrices::new(&mut m, &Settings { size: 96 << 10, references: 1, seed: 7 });
        (m, matrices)
    }

    #[test]
    fn the_product_is_the_product() {
        let (mut m, mut x) = given();
        x.product(&mut m);
        let (n, ld) = (x.n, x.ld);
        assert!(n >= 32 && ld.is_power_of_two() && n <= ld);
        for i in 0..n {
            for j in 0..n {
                let expected: f64 = (0..n).map(|k| x.a[i * ld + k] * x.b[k * ld + j]).sum();
                let expected = expected / (n as f64).sqrt() + x.a[i * ld + j];
                assert!((x.c[i * ld + j] - expected).abs() < 1e-12);
            }
        }
        x.transpose(&mut m);
        assert!((0..n).all(|i| (0..n).all(|j| x.b[i * ld + j] == x.c[j * ld + i])));
    }

    #[test]
    fn columns_solve_their_systems() {
        let (mut m, mut x) = given();
        x.product(&mut m);
        let right = x.c.clone();
        x.columns(&mut m);
        let (n, ld) = (x.n, x.ld);
        for j in 0..n {
            let at = |i: usize| x.c[i * ld + j];
            for i in 0..n {
                let above = if i > 0 { at(i - 1) } else { 0.0 };
                let below = if i + 1 < n { at(i + 1) } else { 0.0 };
                assert!((4.0 * at(i) - above - below - right[i * ld + j]).abs() < 1e-12);
            }
        }
    }
}
