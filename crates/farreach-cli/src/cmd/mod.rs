//! The subcommands.

pub mod advise;
pub mod area;
pub mod common;
pub mod completions;
pub mod contiguity;
pub mod doctor;
mod feed;
mod handover;
pub mod machines;
pub mod man;
mod native;
pub mod pagesize;
pub mod papers;
pub mod program;
mod progress;
pub mod record;
pub mod rtl;
pub mod run;
mod sampling;
pub mod sim;
pub mod sweep;
mod system;
mod this;
pub mod trace;
pub mod trap;
pub mod watch;
pub mod workloads;
