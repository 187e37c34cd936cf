//! The recorder.

use farreach_types::Error;
use farreach_types::event::Source;

use super::{Failure, Tried};
use crate::launch::{Options, TOOL, tool_dir};
use crate::recorder::{Exit, Recorder, Report};

/// Any program that ends soon.
const PROGRAM: &str = "true";

/// Records a program that does nothing.
pub fn recorder() -> Tried {
    let missing = |e| match e {
        Error::Trace { place, .. } => Failure::new(format!("{TOOL} is not in {place}")),
        other => Failure::new(other.to_string()),
    };
    let dir = tool_dir(None).map_err(|e| missing(e).or_turn_on("sudo apt-get install valgrind && make tool"))?;
    let report = record().map_err(|e| Failure::new(e.to_string()))?;
    let instructions = report.counts.instructions;
    match report.exit {
        Exit::Code(0) if instructions > 0 => {
            Ok(format!("{instructions} instructions of '{PROGRAM}' were recorded by {}", dir.display()))
        }
        exit => Err(Failure::new(format!("'{PROGRAM}' ended with {exit:?} after {instructions} instructions"))),
    }
}

fn record() -> farreach_types::Result<Report> {
    let mut recorder = Recorder::start(&[PROGRAM.into()], &Options::default())?;
    while recorder.next_batch()?.is_some() {}
    recorder.finish()
}
