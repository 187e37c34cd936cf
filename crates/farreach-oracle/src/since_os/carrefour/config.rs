//! The keys of the policy, and rules that it does not have.

use crate::huge;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub huge: huge::Config,
    pub cores: u64,
    /// With one node there is no daemon.
    pub nodes: u64,
    /// One of this number of walks is a sample.
    pub sample: u64,
    /// From one run of the daemon to the next.
    pub period: u64,
    pub least_samples: u64,
    /// Percent, as the keys have them.
    pub walks: u64,
    pub faults: u64,
    pub moved: u64,
    pub split: u64,
    pub hot: u64,
    /// Time of a fault, and of a page that is filled or copied.
    pub fault_ticks: u64,
    pub page_ticks: u64,
    pub wrong: Option<Wrong>,
}

/// Rules that are not those of the policy, to show that a comparison finds them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Of equal nodes the lowest, also if another is the home.
    LowestOfEqual,
    /// Of equal nodes the highest if the home is none of them.
    HighestOfEqual,
    /// Pages of hot superpages are dealt to the nodes two by two.
    DealtInPairs,
    /// Pages of hot superpages stay where they are.
    NotDealt,
    /// Superpages are collapsed while they are split.
    Collapses,
    /// Hot superpages do not end collapsing.
    HotCollapses,
    /// Splitting does not switch superpages off.
    StaysOn,
    /// A superpage with the percentage itself is hot.
    HotIfEqual,
    /// Pages without samples in a superpage that is split go with the one below.
    AllOfSplit,
}
