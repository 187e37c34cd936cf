//! H2P: the last two distances, once more (H2P-1).

use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// H2P-1.
pub const H2P_SIGNS: Key = Key {
    name: "h2p_signs",
    default: "one",
    allowed: Allowed::OneOf(&["one", "both"]),
    about: "prefetcher = h2p, alone or in atp: distances as they were, or forwards and backwards (both)",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed =
    Listed { name: "h2p", keys: &[&H2P_SIGNS], build: |params| Ok(Box::new(H2p::new(params))), ..Listed::NEW };

pub(super) struct H2p {
    both_signs: bool,
    /// The pages of the last two misses, the newer first.
    last: [Option<i64>; 2],
}

impl H2p {
    pub fn new(params: &Params) -> H2p {
        H2p { both_signs: params.text(H2P_SIGNS.name) == "both", last: [None; 2] }
    }
}

impl Predictor for H2p {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        let [Some(newer), Some(older)] = self.last else { return };
        let before = into.len();
        for distance in [at.page - newer, newer - older] {
            let distances = match self.both_signs {
                true => [distance.abs(), -distance.abs()],
                false => [distance; 2],
            };
            for candidate in distances.map(|distance| at.page + distance) {
                if !into[before..].contains(&candidate) {
                    into.push(candidate);
                }
            }
        }
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        self.last = [Some(at.page), self.last[0]];
    }

    fn forget(&mut self) {
        self.last = [None; 2];
    }
}
