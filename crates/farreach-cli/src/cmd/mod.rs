//! The subcommands.

pub mod area;
mod common;
pub mod machines;
mod program;
mod progress;
pub mod record;
pub mod run;
pub mod sim;
pub mod trace;
