//! Many machines over many programs: what determines a result, which results come out of one pass over a program, and
//! how results are kept.
//!
//! A *point* is one machine on one program, up to one limit. Its [key](Point::key) is a hash of everything that
//! determines what it finds: the resolved machine, the content of the trace, the limit, the version of the model. A
//! [`Pass`] takes one program through many points at once, which is cheaper than one by one. A pass is data: it can be
//! written down, and run somewhere else. The [`Cache`] has a file for each result under its key. Nothing in it is ever
//! out of date: a changed input has another key. Each file has its key and a checksum in it.
//!
//! This crate owns points, passes, the cache and estimates of time. It must not know who schedules passes, nor what
//! results are for: no threads of its own but those of estimates, no terminal.
#![forbid(unsafe_code)]

mod cache;
mod estimate;
mod pass;
mod plan;
mod point;
mod program;
mod sealed;

pub use cache::{Cache, hash_file};
pub use estimate::Estimate;
pub use farreach_papers::{Answer, Measured};
pub use pass::{Extent, Pass, Work};
pub use plan::{Wanted, plan};
pub use point::{Point, key};
pub use program::Program;
pub use sealed::{Kept, keep, kept};

/// The version of the model: a hash of the sources that decide what a machine finds.
pub const MODEL: &str = env!("FARREACH_MODEL");
