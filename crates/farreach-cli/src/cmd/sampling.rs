//! What part of a run by traps is simulated: everything, a sample of sets, or what an accepted slowdown allows.

use super::common::note;
use anyhow::{Result, anyhow};
use clap::Args;
use farreach_machine::{Pace, SetSample, TrapLab};
use farreach_trap::TrapReport;
use std::ops::Range;
use std::time::Duration;

/// How long an automatic choice measures.
const MEASURED: Duration = Duration::from_secs(2);
/// Classes of pages that an automatic choice takes at least: with fewer, the standard error is itself uncertain.
const LEAST_CLASSES: u32 = 8;

/// The options.
#[derive(Args)]
pub struct SampleArgs {
    /// Simulate 1/N of the sets, chosen at random, or as many as the slowdown allows: N is a power of two, or `auto`.
    /// Machines must have sets, in every array. Misses of the whole are estimated, with their standard error.
    #[arg(long, value_name = "N|auto", value_parser = share)]
    sample: Option<Share>,
    /// With --sample auto: how many times its own time the program may take, from 1.01 on. After two seconds of
    /// measuring everything, a sample of sets is chosen.
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, value_parser = slowdown)]
    slowdown: f64,
}

/// A value of `--sample`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Share {
    Auto,
    OneIn(u32),
}

fn share(text: &str) -> Result<Share, String> {
    match text.parse::<u32>() {
        _ if text == "auto" => Ok(Share::Auto),
        Ok(n) if n.is_power_of_two() => Ok(Share::OneIn(n)),
        _ => Err("a power of two is allowed, such as 8 for every eighth set, or auto".into()),
    }
}

fn slowdown(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n| (1.01..=1000.0).contains(n)).ok_or("a number from 1.01 to 1000 is allowed".into())
}

/// A choice that is still to be made.
pub struct Sampling {
    seed: u64,
    /// The bits of the page number by which sets may be chosen, and the slowdown to keep.
    auto: Option<(Range<u32>, f64)>,
}

impl Sampling {
    /// Begins with what the options say.
    pub fn begin(args: &SampleArgs, lab: &mut TrapLab, seed: u64) -> Result<Sampling> {
        let mut sampling = Sampling { seed, auto: None };
        let Some(share) = args.sample else { return Ok(sampling) };
        let shown = match share {
            Share::Auto => "auto".to_owned(),
            Share::OneIn(n) => n.to_string(),
        };
        let bits = lab.set_bits().map_err(|why| anyhow!("--sample {shown}: {why}"))?;
        let of = SetSample::classes(&bits);
        match share {
            Share::Auto => sampling.auto = Some((bits, args.slowdown)),
            Share::OneIn(n) if n <= of => lab.sample(Some(SetSample::choose(&bits, of / n, seed))),
            Share::OneIn(n) => anyhow::bail!(
                "--sample {n}: there are {of} classes of pages, whole sets in all arrays of all machines; from 1 to \
                 {of} is allowed"
            ),
        }
        Ok(sampling)
    }

    /// To be called several times a second.
    pub fn tick(&mut self, lab: &mut TrapLab, report: &TrapReport, now: Duration) {
        if now < MEASURED || report.traps() == 0 {
            return;
        }
        let Some((bits, slowdown)) = self.auto.take() else { return };
        let (sets, reason) = choice(report.pace(), slowdown, &bits, self.seed);
        note(format_args!("--sample auto: {reason}"));
        if sets.is_some() {
            lab.sample(sets); // estimates begin here
        }
    }
}

/// The sample that a slowdown allows, after everything was simulated at this pace, and the reason.
fn choice(pace: Pace, slowdown: f64, bits: &Range<u32>, seed: u64) -> (Option<SetSample>, String) {
    if pace.time <= pace.trap_time {
        return (None, "the program has not run for long enough to be measured; everything is simulated".into());
    }
    let of = SetSample::classes(bits);
    let classes = pace.classes(slowdown, of, LEAST_CLASSES);
    let measured = format!("traps slow the program down {:.2} times; ", pace.slowdown(1.0));
    if classes == of {
        return (None, measured + "everything is simulated");
    }
    let kept = pace.slowdown(f64::from(classes) / f64::from(of));
    let reason = format!("{measured}with {classes} of {of} classes of pages {kept:.2} times");
    (Some(SetSample::choose(bits, classes, seed)), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_keeps_the_slowdown_if_it_can_and_says_what_it_is() {
        let slow = Pace { time: 10.0, trap_time: 9.0 };
        let sampled = |(sets, reason): (Option<SetSample>, String)| (sets.map(|sets| sets.sampled()), reason);
        let made = sampled(choice(slow, 2.0, &(0..7), 1));
        assert_eq!(made.1, "traps slow the program down 10.00 times; with 14 of 128 classes of pages 1.98 times");
        assert_eq!(made.0, Some(14));
        let made = sampled(choice(slow, 1.1, &(0..4), 1));
        assert_eq!(made.1, "traps slow the program down 10.00 times; with 8 of 16 classes of pages 5.50 times");
        for (pace, bits, words) in [
            (slow, 0..3, "10.00 times; everything is simulated"),
            (Pace { time: 3.0, trap_time: 1.0 }, 0..7, "1.50 times; everything is simulated"),
            (Pace { time: 1.0, trap_time: 1.0 }, 0..7, "not run for long enough"),
        ] {
            let made = sampled(choice(pace, 2.0, &bits, 1));
            assert!(made.0.is_none() && made.1.contains(words), "{made:?}");
        }
    }

    #[test]
    fn shares_are_powers_of_two_or_auto() {
        assert_eq!(["1", "8", "auto"].map(share), [Ok(Share::OneIn(1)), Ok(Share::OneIn(8)), Ok(Share::Auto)]);
        assert!(["0", "3", "-8", "1.5", "Auto", ""].iter().all(|text| share(text).is_err()));
        assert_eq!(slowdown("1.5"), Ok(1.5));
        assert!(["1", "0.5", "inf", "nan", "2x"].iter().all(|text| slowdown(text).is_err()));
    }
}
