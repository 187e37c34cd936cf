//! Progress on standard error: a line that is redrawn on a terminal, a line every 30 seconds in a file.

use super::common::note;
use farreach_machine::Progress;
use farreach_report::format::counted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// How often a line is drawn on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// How often a line is written into a file.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// Another interval for files, in seconds: for tests.
const INTERVAL_VARIABLE: &str = "FARREACH_PROGRESS_SECONDS";

/// A line on standard error that says how far something is.
pub struct Line {
    bar: ProgressBar,
    started: Instant,
    shown: Instant,
    interval: Duration,
}

impl Line {
    /// Starts a line now.
    pub fn new() -> Line {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is right"));
        let given =
            || std::env::var(INTERVAL_VARIABLE).ok()?.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let interval = if bar.is_hidden() { given().unwrap_or(LINE_INTERVAL) } else { REDRAW_INTERVAL };
        let now = Instant::now();
        Line { bar, started: now, shown: now, interval }
    }

    /// Called often, prints at intervals. `message` gets the time since the start.
    pub fn show(&mut self, message: impl FnOnce(Duration) -> String) {
        if self.shown.elapsed() < self.interval {
            return;
        }
        self.shown = Instant::now();
        let message = message(self.started.elapsed());
        if self.bar.is_hidden() {
            note(message);
        } else {
            self.bar.set_message(message);
            self.bar.tick();
        }
    }

    /// Clears the line on a terminal. Lines in a file stay.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Known bounds of the length of a run; the first one reached ends it.
#[derive(Clone, Copy, Default)]
pub struct Goal {
    /// In instructions.
    pub instructions: Option<u64>,
    /// In references.
    pub references: Option<u64>,
}

impl Goal {
    /// The remaining time after `elapsed`.
    fn left(&self, progress: Progress, elapsed: Duration) -> Option<Duration> {
        let part = |done: u64, all: Option<u64>| all.map_or(0.0, |all| done as f64 / all.max(1) as f64);
        let done =
            part(progress.instructions, self.instructions).max(part(progress.references, self.references)).min(1.0);
        Duration::try_from_secs_f64(elapsed.as_secs_f64() * (1.0 - done) / done).ok()
    }
}

/// A line with the progress of a run.
pub struct Display {
    line: Line,
    goal: Goal,
}

impl Display {
    /// Starts the line of a run now.
    pub fn new(goal: Goal) -> Display {
        Display { line: Line::new(), goal }
    }

    /// Called often, prints at intervals.
    pub fn update(&mut self, progress: Progress) {
        self.line.show(|elapsed| {
            let rate = progress.references as f64 / elapsed.as_secs_f64();
            format!(
                "{}, {}, {}/s, {}{}",
                counted(progress.instructions, "instruction"),
                counted(progress.references, "reference"),
                counted(rate as u64, "reference"),
                time(elapsed),
                self.goal.left(progress, elapsed).map_or(String::new(), |left| format!(", about {} left", time(left))),
            )
        });
    }

    /// Clears the line.
    pub fn finish(self) {
        self.line.finish();
    }
}

/// A time as text: `40 s`, `3 min 20 s`, `2 h 5 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_goal_says_how_long_it_takes() {
        let seconds = Duration::from_secs;
        let progress = Progress { instructions: 25, references: 50 };
        let left = |instructions, references| Goal { instructions, references }.left(progress, seconds(10));
        assert_eq!(left(None, None), None);
        assert_eq!(left(Some(100), None), Some(seconds(30)));
        assert_eq!(left(None, Some(100)), Some(seconds(10)));
        assert_eq!(left(Some(100), Some(100)), Some(seconds(10)));
        assert_eq!(left(Some(10), None), Some(seconds(0)), "a limit is reached within a batch");
        assert_eq!(Goal { instructions: Some(9), references: None }.left(Progress::default(), seconds(1)), None);
    }

    #[test]
    fn times_are_for_people() {
        let shown = [0, 59, 60, 200, 3600, 7500].map(|s| time(Duration::from_secs(s)));
        assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "3 min 20 s", "1 h 0 min", "2 h 5 min"]);
    }
}
