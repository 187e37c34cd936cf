//! Updates of uniformly random words: the definition of GUPS. Each update loads and stores one 64-bit word.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

const UPDATE: Site = site(0, 0);
const NEXT: Site = site(0, 1);
const STREAM: Site = site(0, 2);
/// Random numbers made at a time, as the benchmark allows.
const AHEAD: usize = 1024;

pub(super) const KERNEL: Kernel = Kernel {
    name: "gups",
    class: "uniform random updates",
    stands_for: "GUPS",
    about: "exclusive-or of random words of one table; every size up to 16 GB",
    default_size: 64 << 20,
    small_size: 8 << 20,
    smallest: 64 << 10,
    largest: 16 << 30,
    layout: Layout::Mapped,
    text_pages: 1,
    traced: run::<Traced>,
    native: run::<Native>,
};

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let words = s.size as usize / 8;
    let mut table = m.opaque::<u64>(words);
    let mut ahead = m.array::<u64>(AHEAD);
    let mut rng = Rng::new(s.seed);
    let mut sum = 0u64;
    while m.budget_left() {
        for i in 0..AHEAD {
            m.store(STREAM, &mut ahead, i, rng.bits());
            m.work(NEXT);
        }
        for i in 0..AHEAD {
            let random = m.load(site(0, 3), &ahead, i);
            let at = ((u128::from(random) * words as u128) >> 64) as usize;
            sum = sum.wrapping_add(m.update(UPDATE, &mut table, at, |word| word ^ random));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word of the table is the exclusive-or of all its updates.
    #[test]
    fn the_sum_is_that_of_the_definition() {
        let settings = Settings { size: 64 << 10, references: 8 * 1024, seed: 3 };
        let (mut table, mut rng, mut sum) = (vec![0u64; 8192], Rng::new(3), 0u64);
        for _ in 0..2048 {
            let random = rng.bits();
            let at = ((u128::from(random) * 8192) >> 64) as usize;
            table[at] ^= random;
            sum = sum.wrapping_add(table[at]);
        }
        assert_eq!(KERNEL.run_native(&settings).unwrap(), sum);
    }
}
