//! Totals from samples, with standard errors (Cochran, Sampling Techniques, 3rd edition, chapters 2 and 6).

/// A total that was estimated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The expected total.
    pub total: f64,
    /// Its standard error; `None` if there was but one of several units, which says nothing about the others.
    pub standard_error: Option<f64>,
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
