//! The options about what part of a run by traps is simulated.

use clap::Args;
use farreach_trap::Share;

/// The options.
#[derive(Args)]
pub struct SampleArgs {
    /// Simulate 1/N of the sets, chosen at random, or as many as the slowdown allows: N is a power of two, or `auto`.
    /// Machines must have sets, in every array. Misses of the whole are estimated, with their standard error.
    #[arg(long, value_name = "N|auto", value_parser = share)]
    sample: Option<Sample>,
    /// With --sample auto: how many times its own time the program may take, from 1.01 on. An eighth of the sets is
    /// measured for two seconds, then a sample chosen.
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, value_parser = slowdown)]
    slowdown: f64,
}

impl SampleArgs {
    /// What they ask for.
    pub fn share(&self) -> Option<Share> {
        Some(match self.sample? {
            Sample::Auto => Share::Auto(self.slowdown),
            Sample::OneIn(n) => Share::OneIn(n),
        })
    }
}

/// A value of `--sample`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sample {
    Auto,
    OneIn(u32),
}

fn share(text: &str) -> Result<Sample, String> {
    match text.parse::<u32>() {
        _ if text == "auto" => Ok(Sample::Auto),
        Ok(n) if n.is_power_of_two() => Ok(Sample::OneIn(n)),
        _ => Err("a power of two is allowed, such as 8 for every eighth set, or auto".into()),
    }
}

fn slowdown(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n| (1.01..=1000.0).contains(n)).ok_or("a number from 1.01 to 1000 is allowed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_powers_of_two_or_auto() {
        assert_eq!(["1", "8", "auto"].map(share), [Ok(Sample::OneIn(1)), Ok(Sample::OneIn(8)), Ok(Sample::Auto)]);
        assert!(["0", "3", "-8", "1.5", "Auto", ""].iter().all(|text| share(text).is_err()));
        assert_eq!(slowdown("1.5"), Ok(1.5));
        assert!(["1", "0.5", "inf", "nan", "2x"].iter().all(|text| slowdown(text).is_err()));
    }
}
