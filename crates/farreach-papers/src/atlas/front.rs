//! Pareto fronts.

/// Whether no row is at least as good as this one in everything that is known of both, and better in something.
/// Less is better.
pub(crate) fn is_on(rows: &[Vec<Option<f64>>], this: &[Option<f64>]) -> bool {
    let beats = |other: &[Option<f64>]| {
        let both: Vec<(f64, f64)> = other.iter().zip(this).filter_map(|(a, b)| a.zip(*b)).collect();
        let known = this.iter().flatten().count();
        // A row of which less is known shows nothing about the rest.
        both.len() == known && both.iter().all(|(a, b)| a <= b) && both.iter().any(|(a, b)| a < b)
    };
    !rows.iter().any(|other| beats(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        let rows: Vec<Vec<Option<f64>>> =
            [[1.0, 4.0], [2.0, 2.0], [4.0, 1.0], [3.0, 3.0], [2.0, 2.0]].map(|row| row.map(Some).into()).into();
        assert_eq!([0, 1, 2, 3, 4].map(|i| is_on(&rows, &rows[i])), [true, true, true, false, true]);
    }

    #[test]
    fn what_is_unknown_beats_nothing() {
        let rows = vec![vec![Some(1.0), None], vec![Some(2.0), Some(2.0)], vec![Some(3.0), None]];
        assert_eq!([0, 1, 2].map(|i| is_on(&rows, &rows[i])), [true, true, false]);
    }
}
