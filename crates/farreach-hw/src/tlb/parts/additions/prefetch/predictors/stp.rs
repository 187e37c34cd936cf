//! STP: two pages on either side (STP-1).

use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed { name: "stp", build: |_| Ok(Box::new(Stp)), ..Listed::NEW };

pub(super) struct Stp;

impl Predictor for Stp {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        into.extend([-2, -1, 1, 2].map(|distance| at.page + distance));
    }
    fn train(&mut self, _: &Trigger, _: &mut OwnCounts) {}
    fn forget(&mut self) {}
}
