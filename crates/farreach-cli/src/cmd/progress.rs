//! Progress on standard error, when that is a terminal.

use farreach_machine::Progress;
use farreach_report::format::counted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// A line on standard error; nothing if that is no terminal.
pub fn line() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is right"));
    bar
}

/// A line that says how far a run is.
pub struct Display {
    bar: ProgressBar,
    started: Instant,
    shown: Instant,
}

impl Display {
    /// Shows nothing if standard error is not a terminal.
    pub fn new() -> Display {
        Display { bar: line(), started: Instant::now(), shown: Instant::now() }
    }

    /// Called often; draws seldom.
    pub fn update(&mut self, progress: Progress) {
        if self.bar.is_hidden() || self.shown.elapsed() < Duration::from_millis(100) {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = progress.references as f64 / seconds;
        self.bar.set_message(format!(
            "{}, {}, {}/s, {seconds:.0} s",
            counted(progress.instructions, "instruction"),
            counted(progress.references, "reference"),
            counted(rate as u64, "reference"),
        ));
        self.bar.tick();
    }

    /// Takes the line away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
