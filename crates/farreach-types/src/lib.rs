//! The types that the layers of farreach share: addresses, events of a program, parameters, translations, counts and
//! results.
//!
//! Owns the types that cross a boundary between layers. Must not know any layer: nothing here reads a trace, runs a
//! machine, or depends on what a design or a policy does.
#![forbid(unsafe_code)]

pub mod addr;
pub mod count;
pub mod counts;
pub mod error;
pub mod event;
pub mod hash;
pub mod papers;
pub mod params;
pub mod plural;
pub mod restseg;
pub mod suggest;
pub mod text_file;
pub mod translation;

pub use error::{Context, Error, Result};
