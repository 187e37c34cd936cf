//! Windows of time: one in each period, at a random place in it, so that a rhythm of the program's own does not meet
//! them always in the same step. Each begins with a warm-up that is not counted, in which designs that kept their
//! entries from the window before take in those of now.

use super::sets::below;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Where windows lie in a run. All times are in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowPlan {
    period: u32,
    warm_up: u32,
    counted: u32,
    seed: u64,
}

/// What is done at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing is simulated.
    Unobserved,
    /// Misses are simulated and not counted.
    WarmUp,
    /// Misses are counted.
    Counted,
}

impl WindowPlan {
    /// In each `period` a window of `warm_up` and `counted`.
    ///
    /// # Errors
    /// The window is longer than the period, or nothing is counted.
    pub fn new(period: u32, warm_up: u32, counted: u32, seed: u64) -> Result<WindowPlan, String> {
        let window = u64::from(warm_up) + u64::from(counted);
        if counted == 0 || window > period.into() {
            return Err(format!(
                "a window of {warm_up} + {counted} in a period of {period}: something must be counted, and warm-up and \
                 window must fit into the period"
            ));
        }
        Ok(WindowPlan { period, warm_up, counted, seed })
    }

    /// When the n-th window begins, warm-up included, and ends.
    pub fn window(&self, n: u64) -> Range<u64> {
        let length = self.warm_up + self.counted;
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let begin = n * u64::from(self.period) + u64::from(below(&mut rng, self.period - length + 1));
        begin..begin + u64::from(length)
    }

    /// What is done at a time, and when that ends.
    pub fn phase(&self, at: u64) -> (Phase, u64) {
        let n = at / u64::from(self.period);
        let window = self.window(n);
        let counted = window.start + u64::from(self.warm_up);
        if at < window.start {
            (Phase::Unobserved, window.start)
        } else if at < counted {
            (Phase::WarmUp, counted)
        } else if at < window.end {
            (Phase::Counted, window.end)
        } else {
            (Phase::Unobserved, self.window(n + 1).start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other_and_have_their_lengths() {
        for (period, warm_up, counted) in [(100, 10, 20), (30, 10, 20), (7, 0, 1), (50, 49, 1)] {
            let plan = WindowPlan::new(period, warm_up, counted, 9).unwrap();
            let mut spent = [0u64; 3];
            let mut at = 0;
            const PERIODS: u64 = 500;
            while at < u64::from(period) * PERIODS {
                let (phase, until) = plan.phase(at);
                assert!(until > at, "{phase:?}");
                assert_eq!(plan.phase(until - 1), (phase, until), "the same until it ends");
                spent[phase as usize] += until.min(u64::from(period) * PERIODS) - at;
                at = until;
            }
            let expected = [period - warm_up - counted, warm_up, counted].map(|part| u64::from(part) * PERIODS);
            assert_eq!(spent, expected, "{plan:?}");
        }
    }

    #[test]
    fn places_are_random_and_repeat_with_the_seed() {
        let plan = |seed| WindowPlan::new(1000, 0, 100, seed).unwrap();
        let starts = |seed| (0..2000).map(move |n| plan(seed).window(n).start % 1000);
        assert!(starts(1).eq(starts(1)) && !starts(1).eq(starts(2)));
        let mean = starts(1).sum::<u64>() as f64 / 2000.0;
        assert!((430.0..470.0).contains(&mean), "450 is expected, with a standard deviation of 6: {mean}");
        assert!(starts(1).max().unwrap() <= 900);
        assert!(starts(1).min().unwrap() < 20 && starts(1).max().unwrap() > 880);
    }

    #[test]
    fn impossible_plans_are_refused() {
        for (period, warm_up, counted) in [(10, 5, 6), (10, 10, 0), (0, 0, 0), (u32::MAX, u32::MAX, 1)] {
            let why = WindowPlan::new(period, warm_up, counted, 0).unwrap_err();
            assert!(why.contains(&format!("{warm_up} + {counted}")), "{why}");
        }
    }
}
