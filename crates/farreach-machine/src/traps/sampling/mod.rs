//! Sampling: what a part of the misses says about all of them, with a standard error.
//!
//! * [`SetSample`]: pages of some sets are simulated, chosen at random. Pages of other sets are never seen.
//! * [`Estimate`]: totals and standard errors from it.
//! * [`Pace`]: how large a part can be simulated at an accepted slowdown.

mod estimate;
mod pace;
mod sets;

pub use estimate::Estimate;
pub use pace::Pace;
pub use sets::SetSample;
