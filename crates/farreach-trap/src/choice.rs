//! What part of a run by traps is simulated: everything, a sample of sets, or what an accepted slowdown allows.

use crate::TrapReport;
use farreach_machine::{Pace, SetSample, TrapLab};
use farreach_types::{Error, Result, bail};
use std::ops::Range;
use std::time::Duration;

/// How long an automatic choice measures, and CPU time in microseconds that the program must have had meanwhile.
const MEASURED: Duration = Duration::from_secs(2);
const LEAST_TIME: f64 = 200_000.0;
/// How long after a choice its cost is not judged: pages of all other sets are mapped first.
const SETTLED: Duration = Duration::from_secs(1);
/// A choice is made again where the slowdown is above the asked one by this factor.
const TOO_SLOW: f64 = 1.25;
/// An automatic choice measures this part of the sets. Simulating everything would slow down a server so much that the
/// ways of its clients change.
const MEASURED_PART: u32 = 8;
/// Classes of pages that an automatic choice takes at least: with fewer, the standard error is itself uncertain.
const LEAST_CLASSES: u32 = 8;

/// The part of the sets that is simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Share {
    /// As much as keeps the program within this many times its own time, from 1.01 on. An eighth is measured for two
    /// seconds, then chosen; and chosen again when the program misses more.
    Auto(f64),
    /// One set in so many, a power of two, chosen at random.
    OneIn(u32),
}

/// What is simulated, and whether that is still to be decided.
pub struct Sampling {
    seed: u64,
    auto: Option<Auto>,
}

/// An automatic choice. A program's misses change: the first seconds of a load may be quiet.
struct Auto {
    /// The bits of the page number by which sets may be chosen.
    bits: Range<u32>,
    /// The slowdown to keep.
    slowdown: f64,
    /// Classes of pages that are simulated now.
    classes: u32,
    /// Whether a choice was made.
    chosen: bool,
    /// Since when the pace is measured, and the report of that time: what a server was filled with before the run is
    /// simulated says nothing of its traps.
    before: Option<(Duration, TrapReport)>,
}

impl Sampling {
    /// Begins with this share; everything is simulated without one. `seed`: of the choice of sets.
    ///
    /// # Errors
    /// A machine has no sets, or fewer.
    pub fn begin(share: Option<Share>, lab: &mut TrapLab, seed: u64) -> Result<Sampling> {
        let mut sampling = Sampling { seed, auto: None };
        let Some(share) = share else { return Ok(sampling) };
        let shown = match share {
            Share::Auto(_) => "auto".to_owned(),
            Share::OneIn(n) => n.to_string(),
        };
        let bits = lab.set_bits().map_err(|why| Error::Failed(format!("--sample {shown}: {why}")))?;
        let of = SetSample::classes(&bits);
        match share {
            Share::Auto(slowdown) => {
                let auto = Auto::new(bits, slowdown);
                lab.sample(Some(SetSample::choose(&auto.bits, auto.classes, seed)));
                sampling.auto = Some(auto);
            }
            Share::OneIn(n) if n <= of => lab.sample(Some(SetSample::choose(&bits, of / n, seed))),
            Share::OneIn(n) => bail!(
                "--sample {n}: there are {of} classes of pages, whole sets in all arrays of all machines; from 1 to \
                 {of} is allowed"
            ),
        }
        Ok(sampling)
    }

    /// To be called several times a second while the run is simulated. `since`: for how long it has been. Returns what
    /// was chosen and why, in words.
    pub fn tick(&mut self, lab: &mut TrapLab, report: &TrapReport, since: Duration) -> Option<String> {
        let auto = self.auto.as_mut()?;
        let begin = if auto.chosen { since + SETTLED } else { since };
        let (begun, before) = auto.before.get_or_insert_with(|| (begin, report.clone()));
        if since <= *begun {
            *before = report.clone();
        }
        if since < *begun + MEASURED || report.traps() == before.traps() {
            return None;
        }
        let pace = report.pace_since(before);
        if pace.time < LEAST_TIME {
            return None;
        }
        auto.before = Some((since, report.clone()));
        let (classes, reason) = auto.choose(pace)?;
        let sets = SetSample::choose(&auto.bits, classes, self.seed);
        lab.sample((classes < sets.of()).then_some(sets)); // estimates begin here
        (auto.classes, auto.chosen, auto.before) = (classes, true, None);
        Some(format!("--sample auto: {reason}"))
    }
}

impl Auto {
    fn new(bits: Range<u32>, slowdown: f64) -> Auto {
        let of = SetSample::classes(&bits);
        Auto { bits, slowdown, classes: (of / MEASURED_PART).max(LEAST_CLASSES.min(of)), chosen: false, before: None }
    }

    /// The classes that the slowdown allows, after what is simulated now ran at this pace, and the reason; none if it
    /// may stay as it is.
    fn choose(&self, pace: Pace) -> Option<(u32, String)> {
        let of = SetSample::classes(&self.bits);
        if self.chosen && pace.slowdown(1.0) <= TOO_SLOW * self.slowdown {
            return None;
        }
        let all = pace.of_everything(self.classes, of);
        let classes = all.classes(self.slowdown, of, LEAST_CLASSES);
        if self.chosen && classes >= self.classes {
            return None;
        }
        let measured = format!("simulating everything slows the program down {:.2} times; ", all.slowdown(1.0));
        if classes == of {
            return Some((of, measured + "everything is simulated"));
        }
        let kept = all.slowdown(f64::from(classes) / f64::from(of));
        Some((classes, format!("{measured}{classes} of {of} classes of pages {kept:.2} times")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_keeps_the_slowdown_if_it_can_and_says_what_it_is() {
        // Of an eighth of the sets: nine times the program's own time for all of them.
        let slow = Pace { time: 17.0, trap_time: 9.0 };
        let auto = Auto::new(0..7, 2.0);
        assert_eq!(auto.classes, 16);
        let (classes, reason) = auto.choose(slow).unwrap();
        assert_eq!(
            reason,
            "simulating everything slows the program down 10.00 times; 14 of 128 classes of pages 1.98 times"
        );
        assert_eq!(classes, 14);
        // Half of 16 sets, which is the least.
        let (classes, reason) = Auto::new(0..4, 1.1).choose(Pace { time: 11.0, trap_time: 9.0 }).unwrap();
        assert_eq!(
            reason,
            "simulating everything slows the program down 10.00 times; 8 of 16 classes of pages 5.50 times"
        );
        assert_eq!(classes, 8);
        for (pace, bits, words) in [
            (Pace { time: 10.0, trap_time: 9.0 }, 0..3, "10.00 times; everything is simulated"),
            (Pace { time: 17.0, trap_time: 1.0 }, 0..7, "1.50 times; everything is simulated"),
        ] {
            let (classes, reason) = Auto::new(bits.clone(), 2.0).choose(pace).unwrap();
            assert_eq!(classes, SetSample::classes(&bits), "{reason}");
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn a_choice_is_made_again_when_the_program_misses_more() {
        let chosen = |classes: u32| Auto { chosen: true, classes, ..Auto::new(0..7, 2.0) };
        let pace = |slowdown: f64| Pace { time: slowdown, trap_time: slowdown - 1.0 };
        assert_eq!(chosen(64).choose(pace(2.49)), None);
        let (classes, reason) = chosen(64).choose(pace(5.0)).unwrap();
        assert_eq!(
            reason,
            "simulating everything slows the program down 9.00 times; 16 of 128 classes of pages 2.00 times"
        );
        assert_eq!(classes, 16);
        assert_eq!(chosen(8).choose(pace(5.0)), None, "there are no fewer");
        assert_eq!(chosen(128).choose(pace(3.0)).unwrap().0, 64, "everything was simulated until now");
    }
}
