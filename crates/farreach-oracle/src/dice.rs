//! Random choices for streams and configurations, repeatable by seed.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The seeds of a test of this many random cases. `FARREACH_TIMES=10` multiplies them by ten, as `make test-long` does;
/// `FARREACH_SEED=7` runs one case alone, to study a failure.
pub fn seeds(cases: u64) -> std::ops::Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} = {text}: a whole number is allowed")))
    };
    match number("FARREACH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..cases * number("FARREACH_TIMES").unwrap_or(1),
    }
}

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
