//! Sources of batches, with their progress on standard error.

use super::common::note;
use super::progress::{Display, Goal};
use anyhow::Result;
use farreach_live::early::Early;
use farreach_live::{Options, Recorder, Report};
use farreach_machine::Progress;
use farreach_types::event::Batch;
use farreach_workloads::feed::{self, Event};
use std::ffi::OsString;

/// Shows what happens to a source. `limit`: instructions after which no more is wanted.
pub fn shows(limit: Option<u64>) -> impl FnMut(Event<Progress>) {
    let mut display = None::<Display>;
    move |event| match event {
        Event::Begins { references } => display = Some(Display::new(Goal { instructions: limit, references })),
        Event::Progress(progress) => display.iter_mut().for_each(|display| display.update(progress)),
        Event::Ends => display.take().into_iter().for_each(Display::finish),
        Event::Says(line) => note(line),
    }
}

/// As [`feed::stored`]. `limit`: instructions after which `each` wants no more.
pub fn stored(
    file: &str,
    format: Option<&str>,
    limit: Option<u64>,
    each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<Option<Early>> {
    feed::stored(file, format, each, &mut shows(limit))
}

/// As [`feed::recorded`].
pub fn recorded(
    start: impl FnOnce() -> farreach_types::Result<Recorder>,
    limit: Option<u64>,
    each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<(Report, Option<Early>)> {
    feed::recorded(start, each, &mut shows(limit))
}

/// As [`feed::live`].
pub fn live(
    command: &[OsString],
    limit: Option<u64>,
    each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<(Report, Option<Early>)> {
    feed::live(command, &Options::default(), each, &mut shows(limit))
}
