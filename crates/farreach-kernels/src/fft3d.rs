//! A partial differential equation by three-dimensional Fourier transforms: 64 x 64 x 64 complex numbers at the default
//! size. Each pass takes lines out of the array, with strides of 1, 64 and 4096 elements, transforms them in a buffer,
//! and puts them back. The last stride is 64 KB: every element of a line lies in another superpage.

use super::kernel::{Kernel, Settings};
use super::memory::{Element, Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "fft3d",
    class: "three-dimensional Fourier transform",
    stands_for: "fftpde",
    about: "lines of a cube of complex numbers in three directions, and a sweep in between",
    default_size: 12_672 << 10,
    small_size: 1_600 << 10,
    smallest: 64 << 10,
    largest: 8 << 30,
    layout: Layout::Heap,
    text_pages: 4,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// A complex number: 16 bytes, one reference.
type Complex = [f64; 2];

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

struct Cube<M: Memory> {
    /// log2 of the length in each direction; the first is the one of stride 1.
    log: [u32; 3],
    /// The frequencies at the start, the frequencies now, and the field made of them.
    start: M::Array<Complex>,
    now: M::Array<Complex>,
    field: M::Array<Complex>,
    line: M::Array<Complex>,
    roots: M::Array<Complex>,
    longest: usize,
}

impl<M: Memory> Cube<M> {
    fn new(m: &mut M, s: &Settings) -> Cube<M> {
        // The power of two nearest to a third of the size.
        let elements = (s.size / 48).max(1);
        let total = elements.ilog2() + u32::from(elements * elements >= 1 << (2 * elements.ilog2() + 1));
        let log = [total.div_ceil(3), (total + 1) / 3, total / 3];
        let (n, longest) = (1 << total, 1usize << log[0]);
        let mut rng = Rng::new(s.seed);
        let start = m.input((0..n).map(|_| [rng.unit() - 0.5, rng.unit() - 0.5]));
        let (now, field) = (m.array(n), m.array(n));
        let line = m.array(longest);
        let angle = |k: usize| -2.0 * std::f64::consts::PI * k as f64 / longest as f64;
        let roots = m.input((0..longest / 2).map(|k| [angle(k).cos(), angle(k).sin()]));
        Cube { log, start, now, field, line, roots, longest }
    }

    fn len(&self) -> usize {
        1 << self.log.iter().sum::<u32>()
    }

    /// Transforms `field` along each direction in turn.
    fn transform(&mut self, m: &mut M) {
        let mut shift = 0;
        for (pass, log) in (0..).zip(self.log) {
            let stride = 1usize << shift;
            let n = 1usize << log;
            for line in 0..self.len() / n {
                // The line's first element: the bits of the line's number, with zeros for this direction's bits.
                let first = (line >> shift << (shift + log)) | (line & (stride - 1));
                self.one_line(m, pass, first, stride, log);
            }
            shift += log;
        }
    }

    fn one_line(&mut self, m: &mut M, pass: u32, first: usize, stride: usize, log: u32) {
        let n = 1usize << log;
        for i in 0..n {
            let value = m.load(site(pass, 0), &self.field, first + i * stride);
            let at = if log == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - log) };
            m.store(site(pass, 1), &mut self.line, at, value);
        }
        for half in (0..log).map(|stage| 1usize << stage) {
            for start in (0..n).step_by(2 * half) {
                for k in 0..half {
                    let root = m.load(site(pass, 2), &self.roots, k * (self.longest / (2 * half)));
                    let high = times(m.load(site(pass, 3), &self.line, start + half + k), root);
                    let low = m.load(site(pass, 4), &self.line, start + k);
                    m.work(site(pass, 5));
                    m.store(site(pass, 6), &mut self.line, start + k, [low[0] + high[0], low[1] + high[1]]);
                    m.store(site(pass, 7), &mut self.line, start + half + k, [low[0] - high[0], low[1] - high[1]]);
                }
            }
        }
        for i in 0..n {
            let value = m.load(site(pass, 8), &self.line, i);
            m.store(site(pass, 9), &mut self.field, first + i * stride, value);
        }
    }

    /// Damps the frequencies, higher ones faster, and copies them to the field.
    fn fade(&mut self, m: &mut M, step: u32) {
        const START: Site = site(3, 0);
        const NOW: Site = site(3, 1);
        const FIELD: Site = site(3, 2);
        const WORK: Site = site(3, 3);
        let n = self.len();
        for i in 0..n {
            let value = m.load(START, &self.start, i);
            let factor = 1.0 / (1.0 + f64::from(step) * i as f64 / n as f64);
            m.work(WORK);
            let value = [value[0] * factor, value[1] * factor];
            m.store(NOW, &mut self.now, i, value);
            m.store(FIELD, &mut self.field, i, value);
        }
    }
}

/// Mixes the bits of a number into a sum.
fn mix<T: Element + Into<f64>>(sum: u64, value: T) -> u64 {
    sum.rotate_left(5) ^ Into::<f64>::into(value).to_bits()
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut cube = Cube::new(m, s);
    let mut sum = 0;
    let mut step = 0;
    while m.budget_left() {
        step += 1;
        cube.fade(m, step);
        cube.transform(m);
        for q in 0..cube.len().min(1024) {
            let value = m.load(site(3, 4), &cube.field, q.wrapping_mul(5003) & (cube.len() - 1));
            sum = mix(mix(sum, value[0]), value[1]);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_fourier_transform() {
        let mut m = Native::new(u64::MAX);
        // 512 elements: 8 x 8 x 8; and 256: 8 x 8 x 4.
        for size in [512, 256] {
            let mut cube = Cube::new(&mut m, &Settings { size: size * 48, references: 1, seed: 5 });
            cube.fade(&mut m, 0);
            let before = cube.field.clone();
            cube.transform(&mut m);
            let dims = cube.log.map(|l| 1usize << l);
            assert_eq!(dims.iter().product::<usize>(), size as usize);
            let place = |i: usize| [i % dims[0], i / dims[0] % dims[1], i / dims[0] / dims[1]];
            for i in 0..before.len() {
                let mut expected = [0.0, 0.0];
                for (k, value) in before.iter().enumerate() {
                    let turns: f64 = (0..3).map(|d| (place(i)[d] * place(k)[d]) as f64 / dims[d] as f64).sum();
                    let angle = -2.0 * std::f64::consts::PI * turns;
                    let term = times(*value, [angle.cos(), angle.sin()]);
                    expected = [expected[0] + term[0], expected[1] + term[1]];
                }
                let got = cube.field[i];
                assert!(
                    (got[0] - expected[0]).abs() < 1e-9 && (got[1] - expected[1]).abs() < 1e-9,
                    "{i}: {got:?} {expected:?}"
                );
            }
        }
    }
}
