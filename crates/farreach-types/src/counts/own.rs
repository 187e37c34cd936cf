//! Counters that a part of a machine names itself, so that a new part needs no change here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters by name. In JSON an object, as other blocks of counters, without those that are 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub struct OwnCounts(Vec<(String, u64)>);

impl OwnCounts {
    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, count)| *count == 0)
    }

    /// The sum of the counters whose names end so.
    pub fn ending_in(&self, end: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, count)| count).sum()
    }

    /// Counters of these names, at 0. Allocates only if the names were others.
    pub fn reset(&mut self, names: &[&str]) {
        if self.0.iter().map(|(name, _)| name.as_str()).eq(names.iter().copied()) {
            self.0.iter_mut().for_each(|(_, count)| *count = 0);
        } else {
            self.0 = names.iter().map(|name| (name.to_string(), 0)).collect();
        }
    }

    /// Adds to the counter at this place of the names.
    pub fn add(&mut self, at: usize, count: u64) {
        self.0[at].1 += count;
    }

    /// The counter at this place of the names.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut u64 {
        &mut self.0[place].1
    }

    /// The counter of this name; 0 if there is none.
    pub fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count)
    }
}

/// Equal counts under equal names; one that is 0 is none.
impl PartialEq for OwnCounts {
    fn eq(&self, other: &OwnCounts) -> bool {
        BTreeMap::from(self.clone()) == BTreeMap::from(other.clone())
    }
}

impl Eq for OwnCounts {}

impl FromIterator<(String, u64)> for OwnCounts {
    fn from_iter<T: IntoIterator<Item = (String, u64)>>(counts: T) -> OwnCounts {
        OwnCounts(counts.into_iter().collect())
    }
}

impl From<BTreeMap<String, u64>> for OwnCounts {
    fn from(counts: BTreeMap<String, u64>) -> OwnCounts {
        OwnCounts(counts.into_iter().collect())
    }
}

impl From<OwnCounts> for BTreeMap<String, u64> {
    fn from(counts: OwnCounts) -> BTreeMap<String, u64> {
        counts.0.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl std::ops::AddAssign<&OwnCounts> for OwnCounts {
    fn add_assign(&mut self, other: &OwnCounts) {
        for (name, count) in &other.0 {
            match self.0.iter_mut().find(|(of, _)| of == name) {
                Some((_, sum)) => *sum += count,
                None => self.0.push((name.clone(), *count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(&str, u64)]) -> OwnCounts {
        OwnCounts(counts.iter().map(|(name, count)| (name.to_string(), *count)).collect())
    }

    #[test]
    fn counters_are_added_by_name() {
        let mut sum = OwnCounts::default();
        assert!(sum.is_empty());
        sum += &of(&[("b", 1), ("a", 2)]);
        sum += &of(&[("a", 3), ("c", 0)]);
        assert_eq!(["a", "b", "c", "d"].map(|name| sum.get(name)), [5, 1, 0, 0]);
        assert!(!sum.is_empty());
        assert_eq!(serde_json::to_string(&sum).unwrap(), r#"{"a":5,"b":1}"#);
        let read: OwnCounts = serde_json::from_str(r#"{"a":5,"b":1}"#).unwrap();
        assert_eq!((read.get("a"), read.get("b")), (5, 1));
        assert_eq!(read, sum, "the one that is 0 is not missed");
        assert_ne!(read, of(&[("a", 5)]));
        sum.reset(&["x", "y"]);
        sum.add(1, 7);
        sum.add(1, 1);
        assert_eq!((sum.get("x"), sum.get("y"), sum.get("a")), (0, 8, 0));
        sum.add(0, 2);
        assert_eq!(sum.ending_in(""), 10);
        assert_eq!(sum.ending_in("y"), 8);
        sum.reset(&["x", "y"]);
        assert!(sum.is_empty());
    }
}
