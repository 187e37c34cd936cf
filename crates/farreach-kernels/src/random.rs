//! Random numbers that are the same with every library version: a PCG, with ranges by multiplication.

use rand::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A seeded generator.
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The same numbers for the same seed, everywhere.
    pub fn new(seed: u64) -> Rng {
        Rng(Pcg64Mcg::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to `n - 1`; the bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// From 0 to less than 1, in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A rank below `n` with probability about 1 / (rank + 1): Zipf's law with exponent 1, in integers only. All
    /// intervals between two powers of two are equally likely, and so are all ranks inside an interval.
    #[inline]
    pub fn zipf(&mut self, n: usize) -> usize {
        let octaves = n.ilog2() as usize + 1;
        loop {
            let octave = self.below(octaves);
            let rank = (1 << octave) + self.below(1 << octave) - 1;
            if rank < n {
                return rank;
            }
        }
    }

    /// A random order of 0 to `n - 1`.
    pub fn order(&mut self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}
