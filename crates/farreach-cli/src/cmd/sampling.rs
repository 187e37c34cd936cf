//! The options about what part of a run is simulated: windows of all references, or sets of a run by traps.

use clap::Args;
use farreach_machine as machine;
use farreach_trap::Share;
use farreach_types::count::parse_count;

/// Instructions of the shortest and the longest sample window.
const WINDOW: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// A value of `--sample` of `run` and `sim`: N, or N:LENGTH.
pub fn windows(text: &str) -> Result<machine::Sample, String> {
    let (n, length) = text.split_once(':').map_or((text, None), |(n, length)| (n, Some(length)));
    let one_in = n.parse().ok().filter(|n| (2..=1000).contains(n));
    let one_in = one_in.ok_or_else(|| format!("'{n}': a number from 2 to 1000 is allowed, such as 8 for an eighth"))?;
    let window = length.map_or(Ok(machine::Sample::WINDOW), |text| {
        let count = parse_count::<1>(text).ok().filter(|n| WINDOW.contains(n));
        count.ok_or_else(|| format!("'{text}': a window has 1k to 1G instructions, such as 2M"))
    })?;
    Ok(machine::Sample { one_in, window })
}

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
    fn windows_are_one_in_several() {
        let sample = |one_in, window| Ok(machine::Sample { one_in, window });
        assert_eq!(windows("8"), sample(8, 1_000_000));
        assert_eq!([windows("2:1k"), windows("1000:4M")], [sample(2, 1_000), sample(1000, 4_000_000)]);
        assert!(
            ["", "1", "1001", "-8", "auto", "x:1M"].iter().all(|text| windows(text).unwrap_err().contains("2 to 1000"))
        );
        assert!(["8:", "8:999", "8:2G", "8:x"].iter().all(|text| windows(text).unwrap_err().contains("1k to 1G")));
    }

    #[test]
    fn shares_are_powers_of_two_or_auto() {
        assert_eq!(["1", "8", "auto"].map(share), [Ok(Sample::OneIn(1)), Ok(Sample::OneIn(8)), Ok(Sample::Auto)]);
        assert!(["0", "3", "-8", "1.5", "Auto", ""].iter().all(|text| share(text).is_err()));
        assert_eq!(slowdown("1.5"), Ok(1.5));
        assert!(["1", "0.5", "inf", "nan", "2x"].iter().all(|text| slowdown(text).is_err()));
    }
}
