//! farreach: a laboratory for virtual-memory address translation.
//!
//! One program (a recorded trace, or one running now) goes through many translation designs side by side. See
//! `ARCHITECTURE.md` for the layers; data flows one way: [`trace`] → [`event`] → [`machine`] ([`os`], [`hw`]) → [`counts`] →
//! [`cost`] → [`study`] → [`report`].
#![forbid(unsafe_code)]

pub mod addr;
pub mod cost;
pub mod counts;
pub mod error;
pub mod event;
pub mod hw;
pub mod machine;
pub mod nouns;
pub mod os;
pub mod params;
pub mod report;
pub mod study;
mod text_file;
pub mod trace;

pub use error::{Error, Result};
