//! SP: the pages behind that of the miss (SP-1).

use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// SP-1.
pub const PREFETCH_DEGREE: Key = Key {
    name: "prefetch_degree",
    default: "1",
    allowed: Allowed::Int { min: 0, max: 64 },
    about: "prefetcher = sequential: next pages that a miss prefetches; 0: off",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "sequential",
    keys: &[&PREFETCH_DEGREE],
    build: |params| Ok(Box::new(Sequential::new(params))),
    ..Listed::NEW
};

struct Sequential {
    degree: i64,
}

impl Sequential {
    fn new(params: &Params) -> Sequential {
        Sequential { degree: params.int(PREFETCH_DEGREE.name) as i64 }
    }
}

impl Predictor for Sequential {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        into.extend((1..=self.degree).map(|n| at.page + n));
    }
    fn train(&mut self, _: &Trigger, _: &mut OwnCounts) {}
    fn forget(&mut self) {}
}
