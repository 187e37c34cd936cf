//! Sampling: what a part of the misses says about all of them, with a standard error.
//!
//! * [`SetSample`]: pages of some sets are simulated, chosen at random. Pages of other sets are never seen.
//! * [`WindowPlan`]: pieces of the time are simulated, placed at random.
//! * [`Estimate`]: totals and standard errors from either, or both.
//! * [`Pace`]: how large a part can be simulated at an accepted slowdown.

mod estimate;
mod pace;
mod sets;
mod windows;

pub use estimate::{Estimate, Window};
pub use pace::{Pace, Part};
pub use sets::SetSample;
pub use windows::{Phase, WindowPlan};
