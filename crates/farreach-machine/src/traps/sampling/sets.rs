//! A sample of sets: the pages with some of the values of those bits of the page number that choose the set in every
//! array of every machine.
//!
//! Such a value is a *class* of pages. Pages of different classes are never in one set, so what happens to the pages of
//! a class is the same whether or not the others are simulated (for replacement that draws no random numbers).

use farreach_types::addr::Vpn;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Classes at most; with more common bits, the lowest are used.
const MOST_BITS: u32 = 16;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetSample {
    shift: u32,
    /// By class: its place among the sampled ones.
    places: Vec<Option<u32>>,
    sampled: u32,
}

impl SetSample {
    /// The number of classes of pages, if these are the bits of the page number that every array looks at.
    pub fn classes(bits: &Range<u32>) -> u32 {
        1 << (bits.end - bits.start).min(MOST_BITS)
    }

    /// Chooses `sampled` of the classes of these bits at random, each choice equally likely.
    ///
    /// # Panics
    /// There are fewer classes, or none is to be sampled.
    pub fn choose(bits: &Range<u32>, sampled: u32, seed: u64) -> SetSample {
        let classes = SetSample::classes(bits);
        assert!((1..=classes).contains(&sampled), "{sampled} of {classes} classes");
        let mut order: Vec<u32> = (0..classes).collect();
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut places = vec![None; classes as usize];
        for place in 0..sampled {
            let other = place + below(&mut rng, classes - place);
            order.swap(place as usize, other as usize);
        }
        order.truncate(sampled as usize);
        order.sort_unstable();
        for (place, class) in order.into_iter().enumerate() {
            places[class as usize] = Some(place as u32);
        }
        SetSample { shift: bits.start, places, sampled }
    }

    /// The place of a page's class among the sampled ones, ascending by class; `None`: the page is not simulated.
    #[inline]
    pub fn place(&self, vpn: Vpn) -> Option<usize> {
        let class = (vpn.0 >> self.shift) as usize & (self.places.len() - 1);
        self.places[class].map(|place| place as usize)
    }

    /// Sampled classes.
    pub fn sampled(&self) -> u32 {
        self.sampled
    }

    /// All classes.
    pub fn of(&self) -> u32 {
        self.places.len() as u32
    }

    /// Consecutive pages that are of one class.
    pub fn run(&self) -> u64 {
        1 << self.shift
    }
}

/// A number below `n`, each equally likely. The sequence is the same on every machine and with every version of the
/// crate.
pub(super) fn below(rng: &mut Pcg64Mcg, n: u32) -> u32 {
    use rand::Rng;
    // Numbers of the last, incomplete run of n would make small results more likely.
    let limit = (1u64 << 32) / u64::from(n) * u64::from(n);
    loop {
        let number = rng.next_u64() >> 32;
        if number < limit {
            return (number % u64::from(n)) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_sampled_classes_are_in_and_no_others() {
        let sample = SetSample::choose(&(3..7), 5, 1);
        assert_eq!((sample.sampled(), sample.of(), sample.run()), (5, 16, 8));
        let places = |first: u64| (first..first + 128).map(|page| sample.place(Vpn(page))).collect::<Vec<_>>();
        let one = places(0);
        assert_eq!(one, places(0x7f_ffff_ff80), "other bits do not count");
        assert!(one.chunks(8).all(|run| run.iter().all(|place| *place == run[0])));
        let found: Vec<usize> = one.iter().step_by(8).filter_map(|place| *place).collect();
        assert_eq!(found, [0, 1, 2, 3, 4], "ascending, each once");
    }

    #[test]
    fn every_class_is_as_likely_and_the_seed_decides() {
        let mut times = [0u32; 8];
        for seed in 0..4000 {
            let sample = SetSample::choose(&(0..3), 2, seed);
            assert_eq!(sample, SetSample::choose(&(0..3), 2, seed));
            (0..8).for_each(|page| times[page] += u32::from(sample.place(Vpn(page as u64)).is_some()));
        }
        // 1000 each is expected, with a standard deviation of 27.
        assert!(times.iter().all(|n| (860..1140).contains(n)), "{times:?}");
        assert_eq!(times.iter().sum::<u32>(), 8000);
        let all = SetSample::choose(&(0..3), 8, 3);
        assert!((0..64).all(|page| all.place(Vpn(page)) == Some(page as usize % 8)));
    }

    #[test]
    fn many_bits_are_cut() {
        assert_eq!([0..1, 4..11, 0..64].map(|bits| SetSample::classes(&bits)), [2, 128, 1 << 16]);
    }
}
