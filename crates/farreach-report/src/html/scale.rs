//! Scales of axes: the place of a value, and the values that get a label.

/// From this ratio of largest to smallest on, small values vanish on a linear axis.
const LOG_FROM: f64 = 60.0;
/// Where values above zero begin on a logarithmic axis that must also show zero.
const ABOVE_ZERO: f64 = 0.06;

/// An axis from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Scale {
    /// From zero to this.
    Linear(f64),
    /// Between these powers of ten; with room for zero below if the flag is set.
    Log(i32, i32, bool),
}

impl Scale {
    /// The axis that suits these values, none of them negative.
    pub(crate) fn fit(values: impl Iterator<Item = f64> + Clone) -> Scale {
        Scale::fit_from(LOG_FROM, values)
    }

    /// As [`Scale::fit`], logarithmic from another ratio of largest to smallest on.
    pub(crate) fn fit_from(log_from: f64, values: impl Iterator<Item = f64> + Clone) -> Scale {
        let max = values.clone().fold(0.0, f64::max);
        let min = values.clone().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        if max > 0.0 && max / min >= log_from {
            let zero = values.clone().any(|v| v == 0.0);
            Scale::Log(min.log10().floor() as i32, max.log10().ceil() as i32, zero)
        } else {
            Scale::linear(max)
        }
    }

    /// A linear axis that ends at or a little above `max`.
    pub(crate) fn linear(max: f64) -> Scale {
        Scale::Linear(if max > 0.0 { max } else { 1.0 })
    }

    /// The place of `value` on the axis, from 0 to 1.
    pub(crate) fn at(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear(max) => value / max,
            Scale::Log(..) if value <= 0.0 => 0.0,
            Scale::Log(low, high, zero) => {
                let floor = if zero { ABOVE_ZERO } else { 0.0 };
                floor + (1.0 - floor) * (value.log10() - f64::from(low)) / f64::from(high - low)
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// Values to label: round numbers, few enough to read.
    pub(crate) fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear(max) => {
                let step = round_step(max / 4.0);
                (0..).map(|i| f64::from(i) * step).take_while(|t| *t <= max * 1.0001).collect()
            }
            Scale::Log(low, high, zero) => {
                let powers = (low..=high).step_by(self.powers_apart()).map(|p| 10f64.powi(p));
                zero.then_some(0.0).into_iter().chain(powers).collect()
            }
        }
    }

    /// Powers of ten from one tick of a logarithmic axis to the next.
    fn powers_apart(self) -> usize {
        match self {
            Scale::Linear(_) => 0,
            Scale::Log(low, high, _) => ((high - low) / 6 + 1) as usize,
        }
    }

    /// The ratio of two neighbouring ticks of a logarithmic axis, as text.
    pub(crate) fn times(self) -> String {
        match self.powers_apart() {
            0 | 1 => "ten".into(),
            2 => "a hundred".into(),
            3 => "a thousand".into(),
            powers => format!("10^{powers}"),
        }
    }

    /// Whether distances mean ratios.
    pub(crate) fn is_log(self) -> bool {
        matches!(self, Scale::Log(..))
    }
}

/// 1, 2 or 5 times a power of ten, at least `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough * 0.999).unwrap_or(power * 10.0)
}

/// A label for a tick.
pub(crate) fn tick_label(value: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    for (unit, name) in UNITS {
        if value >= unit {
            return format!("{}{name}", plain(value / unit));
        }
    }
    plain(value)
}

/// Shortest decimal that is right to four places behind its first digit.
fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let places = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_values_are_linear_and_distant_ones_logarithmic() {
        assert_eq!(Scale::fit([3.0, 100.0].into_iter()), Scale::Linear(100.0));
        assert_eq!(Scale::fit([9.0, 20_000.0].into_iter()), Scale::Log(0, 5, false));
        assert_eq!(Scale::fit([0.0, 9.0, 20_000.0].into_iter()), Scale::Log(0, 5, true));
        assert_eq!(Scale::fit([0.0, 0.0].into_iter()), Scale::Linear(1.0));
    }

    #[test]
    fn places_keep_order_and_stay_inside() {
        for scale in [Scale::Linear(40.0), Scale::Log(-1, 3, true), Scale::Log(0, 2, false)] {
            let places: Vec<f64> = [0.0, 0.5, 1.0, 7.0, 30.0, 40.0].into_iter().map(|v| scale.at(v)).collect();
            assert!(places.is_sorted() && places.iter().all(|p| (0.0..=1.0).contains(p)), "{scale:?} {places:?}");
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::Linear(3_335_412.0).ticks(), [0.0, 1e6, 2e6, 3e6]);
        assert_eq!(Scale::Log(0, 4, true).ticks(), [0.0, 1.0, 10.0, 100.0, 1e3, 1e4]);
        for (low, high, times) in
            [(0, 4, "ten"), (-1, 4, "ten"), (-4, 2, "a hundred"), (-9, 3, "a thousand"), (-9, 9, "10^4")]
        {
            let (scale, ticks) = (Scale::Log(low, high, false), Scale::Log(low, high, false).ticks());
            let ratio =
                ["ten", "a hundred", "a thousand", "10^4"].into_iter().position(|t| t == times).unwrap() as i32 + 1;
            assert_eq!(scale.times(), times);
            assert!((ticks[1] / ticks[0] / 10f64.powi(ratio) - 1.0).abs() < 1e-9, "{times}: {ticks:?}");
        }
        let labels: Vec<String> = [0.0, 0.25, 1500.0, 2e6, 0.001].into_iter().map(tick_label).collect();
        assert_eq!(labels, ["0", "0.25", "1.5k", "2M", "0.001"]);
    }
}
