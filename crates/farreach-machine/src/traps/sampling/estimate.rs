//! Totals from samples, with standard errors (Cochran, Sampling Techniques, 3rd edition, chapters 2 and 6).

/// A total that was estimated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The expected total.
    pub total: f64,
    /// Its standard error; `None` if there was but one of several units, which says nothing about the others.
    pub standard_error: Option<f64>,
}

/// A piece of time in which something was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Events.
    pub count: u64,
    /// Its length.
    pub length: u64,
}

impl Estimate {
    /// Of `of` units, among which those with these counts were chosen at random, each choice equally likely: the mean
    /// times the number, with the finite-population correction.
    ///
    /// # Panics
    /// More units were counted than there are.
    pub fn over_sets(counts: &[u64], of: u32) -> Estimate {
        let (n, all) = (counts.len() as f64, f64::from(of));
        assert!(n <= all, "{n} of {of} units");
        if counts.is_empty() {
            return Estimate { total: 0.0, standard_error: None };
        }
        let mean = counts.iter().sum::<u64>() as f64 / n;
        let squares: f64 = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum();
        Estimate { total: all * mean, standard_error: spread(squares, n, n / all).map(|error| error * all) }
    }

    /// Of a time of `length`, of which these windows were observed: a ratio, events by time, times all of the time.
    /// Windows are taken for placed at random.
    ///
    /// # Panics
    /// More was observed than there was.
    pub fn over_windows(windows: &[Window], length: u64) -> Estimate {
        let observed: u64 = windows.iter().map(|window| window.length).sum();
        assert!(observed <= length, "{observed} of {length}");
        if observed == 0 {
            return Estimate { total: 0.0, standard_error: if length == 0 { Some(0.0) } else { None } };
        }
        let (n, all, seen) = (windows.len() as f64, length as f64, observed as f64);
        let ratio = windows.iter().map(|window| window.count).sum::<u64>() as f64 / seen;
        let squares: f64 = windows.iter().map(|w| (w.count as f64 - ratio * w.length as f64).powi(2)).sum();
        let error = spread(squares, n, seen / all).map(|error| error * all * n / seen);
        Estimate { total: ratio * all, standard_error: error }
    }

    /// Of `count` events in a sample of both: sets within windows. The relative errors of both add up as if
    /// independent. An error that is not known makes the whole unknown.
    pub fn over_both(count: u64, sets: Estimate, windows: Estimate) -> Estimate {
        if count == 0 {
            return Estimate { total: 0.0, standard_error: sets.standard_error.and(windows.standard_error) };
        }
        let count = count as f64;
        let total = sets.total / count * windows.total;
        let relative = |e: Estimate| e.standard_error.map(|error| error / e.total);
        let error = relative(sets).zip(relative(windows)).map(|(one, other)| one.hypot(other) * total);
        Estimate { total, standard_error: error }
    }
}

/// The standard error of a mean of n units, which are this fraction of all, from the sum of the squares of their
/// deviations.
fn spread(squares: f64, n: f64, fraction: f64) -> Option<f64> {
    match n {
        _ if fraction >= 1.0 => Some(0.0),
        n if n < 2.0 => None,
        n => Some(((1.0 - fraction) * squares / (n - 1.0) / n).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traps::sampling::SetSample;
    use farreach_types::addr::Vpn;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn sets_by_hand() {
        // Mean 4, variance 4, 2 of 8 sampled: sqrt(6/8 * 8/1 / 2) = sqrt 3 for the mean, 8 times that for the total.
        let two = Estimate::over_sets(&[2, 6], 8);
        assert_eq!(two.total, 32.0);
        assert!((two.standard_error.unwrap() - 8.0 * 3f64.sqrt()).abs() < 1e-12, "{two:?}");
        assert_eq!(Estimate::over_sets(&[2, 6], 2), Estimate { total: 8.0, standard_error: Some(0.0) });
        assert_eq!(Estimate::over_sets(&[5], 4), Estimate { total: 20.0, standard_error: None });
        assert_eq!(Estimate::over_sets(&[5], 1), Estimate { total: 5.0, standard_error: Some(0.0) });
    }

    #[test]
    fn windows_by_hand() {
        let window = |count, length| Window { count, length };
        // 10 and 30 events in 10 each of 80: ratio 2, deviations -10 and 10, sqrt(3/4 * 200 / 1 / 2) = sqrt 75 for the
        // mean of a window, times 80 / 10.
        let two = Estimate::over_windows(&[window(10, 10), window(30, 10)], 80);
        assert_eq!(two.total, 160.0);
        assert!((two.standard_error.unwrap() - 8.0 * 75f64.sqrt()).abs() < 1e-9, "{two:?}");
        // At a constant rate the lengths do not matter.
        let steady = Estimate::over_windows(&[window(10, 5), window(40, 20), window(2, 1)], 1000);
        assert_eq!((steady.total, steady.standard_error), (2000.0, Some(0.0)));
        let whole = Estimate::over_windows(&[window(7, 12)], 12);
        assert_eq!((whole.total, whole.standard_error), (7.0, Some(0.0)));
        assert_eq!(Estimate::over_windows(&[], 0).standard_error, Some(0.0));
        assert_eq!(Estimate::over_windows(&[], 9), Estimate { total: 0.0, standard_error: None });
    }

    #[test]
    fn both_by_hand() {
        let sets = Estimate { total: 80.0, standard_error: Some(24.0) };
        let windows = Estimate { total: 40.0, standard_error: Some(16.0) };
        // 20 events were counted: a quarter of the sets, half of the time.
        let both = Estimate::over_both(20, sets, windows);
        assert_eq!((both.total, both.standard_error), (160.0, Some(80.0)), "0.3, 0.4, 0.5 of it");
        let unknown = Estimate { standard_error: None, ..sets };
        assert_eq!(Estimate::over_both(20, unknown, windows).standard_error, None);
        assert_eq!(Estimate::over_both(0, sets, windows).total, 0.0);
    }

    /// Samples of a known population: the mean of the estimates is the truth, and their spread is the error they state.
    #[test]
    fn the_error_is_the_spread_of_estimates() {
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let population: Vec<u64> =
            (0..64).map(|i| rng.random_range(0..100) + if i % 9 == 0 { 300 } else { 0 }).collect();
        let truth = population.iter().sum::<u64>() as f64;
        const TIMES: u64 = 4000;
        let (mut sum, mut squares, mut variances) = (0.0, 0.0, 0.0);
        for seed in 0..TIMES {
            let sample = SetSample::choose(&(0..6), 16, seed);
            let counts: Vec<u64> = (0..64)
                .filter(|page| sample.place(Vpn(*page)).is_some())
                .map(|page| population[page as usize])
                .collect();
            let estimate = Estimate::over_sets(&counts, 64);
            sum += estimate.total;
            squares += (estimate.total - truth).powi(2);
            variances += estimate.standard_error.unwrap().powi(2);
        }
        let times = TIMES as f64;
        assert!((sum / times / truth - 1.0).abs() < 0.02, "{} instead of {truth}", sum / times);
        assert!((variances / squares - 1.0).abs() < 0.08, "variance {} stated, {} found", variances, squares);
    }
}
