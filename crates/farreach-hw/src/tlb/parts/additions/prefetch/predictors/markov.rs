//! MP: the pages that missed after this one before (MP-1).

use super::rows::Successors;
use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "markov",
    build: |params| Ok(Box::new(Markov { rows: Successors::new(params)?, previous: None })),
    ..Listed::NEW
};

struct Markov {
    rows: Successors,
    /// The page of the miss before.
    previous: Option<i64>,
}

impl Predictor for Markov {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        into.extend_from_slice(self.rows.of(at.page));
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        if let Some(previous) = self.previous.replace(at.page) {
            self.rows.put_first(previous, at.page);
        }
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.previous = None;
    }
}
