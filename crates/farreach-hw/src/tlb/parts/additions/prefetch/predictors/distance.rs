//! DP: the distances that came after the one that led here (DP-1 to DP-4).

use super::rows::Successors;
use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// DP-3.
pub const DP_TRAIN: Key = Key {
    name: "dp_train",
    default: "lookup",
    allowed: Allowed::OneOf(&["lookup", "first"]),
    about: "prefetcher = distance: a miss is learnt after the table was looked up, or before (first)",
};
/// DP-3.
pub const DP_ALLOCATE: Key = Key {
    name: "dp_allocate",
    default: "write",
    allowed: Allowed::OneOf(&["write", "lookup"]),
    about: "prefetcher = distance: a row is begun when it is first written, or looked up",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "distance",
    keys: &[&DP_TRAIN, &DP_ALLOCATE],
    build: |params| Ok(Box::new(Distance::new(params)?)),
    ..Listed::NEW
};

struct Distance {
    rows: Successors,
    /// The page of the miss before, and the distance that led there.
    previous: Option<(i64, Option<i64>)>,
    learns_first: bool,
    begins_at_lookup: bool,
}

impl Distance {
    fn new(params: &Params) -> Result<Distance, String> {
        Ok(Distance {
            rows: Successors::new(params)?,
            previous: None,
            learns_first: params.text(DP_TRAIN.name) == "first",
            begins_at_lookup: params.text(DP_ALLOCATE.name) == "lookup",
        })
    }

    /// DP-3.
    fn learn(&mut self, page: i64) {
        if let Some((previous, Some(before))) = self.previous {
            self.rows.put_first(before, page - previous);
        }
    }
}

impl Predictor for Distance {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        if self.learns_first {
            self.learn(at.page);
        }
        let Some((previous, _)) = self.previous else { return };
        let distance = at.page - previous;
        // DP-2.
        into.extend(self.rows.of(distance).iter().map(|next| at.page + next));
        if self.begins_at_lookup {
            self.rows.begin(distance);
        }
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        if !self.learns_first {
            self.learn(at.page);
        }
        let distance = self.previous.map(|(previous, _)| at.page - previous);
        self.previous = Some((at.page, distance));
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.previous = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DP-2, DP-3: what the golden stream leaves.
    #[test]
    fn dp_3_rows_by_hand() {
        let (params, mut own) = super::super::defaults();
        let mut distance = Distance::new(&params).unwrap();
        let made = super::super::drive(&mut distance, &[1, 2, 4, 5, 7, 8].map(|page| (page, None)), &mut own);
        assert_eq!(made, [vec![], vec![], vec![], vec![7], vec![8], vec![10]]);
        let rows = [1, 2, 3, -1].map(|row| distance.rows.of(row).to_vec());
        assert_eq!(rows, [vec![2], vec![1], vec![], vec![]]);
    }
}
