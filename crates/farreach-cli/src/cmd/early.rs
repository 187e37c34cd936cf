//! What a command ends with where its run ended before the program did.

use super::common::note;
use super::program;
use anyhow::{Result, bail};
use farreach_live::early::Early;
use std::process::ExitCode;

/// The exit status; of memory that runs short it is `failed`, with a message.
pub fn status(early: &Early, failed: u8) -> ExitCode {
    match early {
        Early::Signal(signal) => program::interrupted(*signal),
        Early::Memory(_) => {
            note(format_args!("{}; the result is of what was seen until then", early.words()));
            ExitCode::from(failed)
        }
    }
}

/// The signal, for commands that have no result then.
///
/// # Errors
/// It was memory.
pub fn signal(early: Option<Early>) -> Result<Option<i32>> {
    match early {
        Some(Early::Memory(_)) => bail!("{}", early.map_or_else(String::new, |early| early.words())),
        Some(Early::Signal(signal)) => Ok(Some(signal)),
        None => Ok(None),
    }
}
