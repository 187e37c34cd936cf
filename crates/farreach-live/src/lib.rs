//! Recording a program as it runs.
//!
//! [`Recorder::start`] runs a command under the recorder (`capture/valgrind`, a Valgrind tool) and is the
//! [`Source`](farreach_types::event::Source) of its stream, all its children included. `docs/book/src/reference/recorder.md` tells how it works.

mod advice;
mod check;
mod decode;
mod fault;
#[doc(hidden)]
pub mod fuzz;
mod launch;
mod layout;
mod log;
mod process;
mod recorder;
mod scan;
mod shared;
mod signals;
mod wait;

pub use advice::{huge_pages_for, no_huge_pages, populate};
pub use check::check_program;
pub use decode::Counts;
pub use launch::{Options, TOOL, TOOL_VARIABLE, tool_dir};
pub use process::has_living_task as is_running;
pub use recorder::{Exit, Recorder, Report};
pub use scan::huge_pages;
pub use signals::send;
pub use signals::{Watch, full_files_are_errors};
pub use wait::{own_cpu, own_user};

#[cfg(test)]
mod tests;
