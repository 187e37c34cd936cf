//! Random choices for streams and configurations, repeatable by seed.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Seeded choices.
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The choices of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg64Mcg::seed_from_u64(seed))
    }
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
    /// True with this probability in percent.
    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }
    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
