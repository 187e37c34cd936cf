//! The contract of a kernel.

use super::memory::Native;
use super::traced::{Layout, Traced};

/// One kernel of the catalogue.
pub struct Kernel {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What kind of program it is.
    pub class: &'static str,
    /// The benchmarks that it stands for. It is none of them, and a report must not present it as one.
    pub stands_for: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Footprint in bytes that the paper's table gives, or a moderate one where any size is of interest.
    pub default_size: u64,
    /// A size for quick runs.
    pub small_size: u64,
    /// Smallest size in bytes.
    pub smallest: u64,
    /// Largest size in bytes.
    pub largest: u64,
    /// Where its arrays lie.
    pub layout: Layout,
    /// Length of its text in pages of 4 KB: one for each phase, as a rule.
    pub text_pages: u32,
    /// The algorithm over a memory that traces.
    pub(super) traced: fn(&mut Traced, &Settings) -> u64,
    /// The algorithm over real memory.
    pub(super) native: fn(&mut Native, &Settings) -> u64,
}

/// How a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of data. A kernel keeps to it within a factor of two.
    pub size: u64,
    /// Budget of data references. The kernel ends at the end of the round in which it is used up.
    pub references: u64,
    /// Seed of everything random.
    pub seed: u64,
}
