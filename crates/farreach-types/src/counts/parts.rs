//! What the parts of a hierarchy counted that name their counters themselves: additions behind the second level, and
//! organisations of the page table.

use super::{Answered, OwnCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

counters! {
    /// References of one part to its tables in memory (HW-7). A step is a set of references made in parallel.
    StepCounts {
        /// Steps that the program waits for.
        steps,
        /// References of these.
        references,
        /// References while the program runs on: prefetches, verification, upkeep of tables.
        background_references,
    }
}

/// References of a part, and what answered them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryCounts {
    /// How many.
    #[serde(flatten)]
    pub made: StepCounts,
    /// Steps that the program waits for, by what answered the slowest reference of each; absent where references have
    /// a fixed price.
    #[serde(skip_serializing_if = "Answered::is_empty")]
    pub answered: Answered,
    /// Background references, by what answered them.
    #[serde(skip_serializing_if = "Answered::is_empty")]
    pub background_answered: Answered,
    /// Steps of demand walks (nodes of a radix tree) for which the program did not wait, because the part had predicted
    /// the page (SPT-4) or had read them ahead (ASA-3). Walks count them as ever.
    #[serde(skip_serializing_if = "is_zero")]
    pub hidden_references: u64,
    /// Of these, by what answered them; absent where references have a fixed price.
    #[serde(skip_serializing_if = "Answered::is_empty")]
    pub hidden_answered: Answered,
}

/// For counters that are absent at 0.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl MemoryCounts {
    /// Nothing was read.
    pub fn is_empty(&self) -> bool {
        *self == MemoryCounts::default()
    }
}

impl std::ops::AddAssign<&MemoryCounts> for MemoryCounts {
    fn add_assign(&mut self, other: &MemoryCounts) {
        let MemoryCounts { made, answered, background_answered, hidden_references, hidden_answered } = other;
        self.made += made;
        self.answered += answered;
        self.background_answered += background_answered;
        self.hidden_references += hidden_references;
        self.hidden_answered += hidden_answered;
    }
}

/// What one part counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PartCounts {
    /// Counters that the part names itself.
    #[serde(skip_serializing_if = "OwnCounts::is_empty")]
    pub counters: OwnCounts,
    /// Its references to memory.
    #[serde(skip_serializing_if = "MemoryCounts::is_empty")]
    pub memory: MemoryCounts,
}

impl PartCounts {
    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.memory.is_empty()
    }
}

/// The name of a page table that is no radix tree.
pub const TABLE: &str = "table";

/// The name of the table of a host (DS13-42), where it or the guest's is no radix tree.
pub const HOST_TABLE: &str = "host_table";

/// Parts by name. In JSON an object, without parts that counted nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, PartCounts>", into = "BTreeMap<String, PartCounts>")]
pub struct Parts(Vec<(String, PartCounts)>);

impl Parts {
    /// No part counted anything.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, part)| part.is_empty())
    }

    /// Adds a part with its counters, at 0. Returns its place.
    pub fn add(&mut self, name: &str, counters: &[&str]) -> usize {
        let mut part = PartCounts::default();
        part.counters.reset(counters);
        self.0.push((name.to_owned(), part));
        self.0.len() - 1
    }

    /// The part at this place.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut PartCounts {
        &mut self.0[place].1
    }

    /// The part of this name.
    pub fn get(&self, name: &str) -> Option<&PartCounts> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, part)| part)
    }

    /// A counter of a part; 0 if there is none.
    pub fn count(&self, part: &str, counter: &str) -> u64 {
        self.get(part).map_or(0, |part| part.counters.get(counter))
    }

    /// All of them, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PartCounts)> {
        self.0.iter().map(|(name, part)| (name.as_str(), part))
    }
}

/// Equal counts under equal names.
impl PartialEq for Parts {
    fn eq(&self, other: &Parts) -> bool {
        BTreeMap::from(self.clone()) == BTreeMap::from(other.clone())
    }
}

impl Eq for Parts {}

impl From<BTreeMap<String, PartCounts>> for Parts {
    fn from(parts: BTreeMap<String, PartCounts>) -> Parts {
        Parts(parts.into_iter().collect())
    }
}

impl From<Parts> for BTreeMap<String, PartCounts> {
    fn from(parts: Parts) -> BTreeMap<String, PartCounts> {
        parts.0.into_iter().filter(|(_, part)| !part.is_empty()).collect()
    }
}

impl std::ops::AddAssign<&Parts> for Parts {
    fn add_assign(&mut self, other: &Parts) {
        for (name, part) in &other.0 {
            let known = self.0.iter().position(|(of, _)| of == name).unwrap_or_else(|| self.add(name, &[]));
            self.0[known].1.counters += &part.counters;
            self.0[known].1.memory += &part.memory;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_by_name_and_read_as_written() {
        let mut one = Parts::default();
        let (pom, prefetch) = (one.add("pom", &["hits"]), one.add("prefetch", &["walks", "hits"]));
        *one.at(prefetch).counters.at(1) += 3;
        one.at(pom).memory.made.references += 2;
        let mut both = Parts::default();
        both += &one;
        both += &one;
        assert_eq!((both.count("prefetch", "hits"), both.count("prefetch", "walks")), (6, 0));
        assert_eq!(both.get("pom").unwrap().memory.made.references, 4);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(
            text,
            r#"{"pom":{"memory":{"steps":0,"references":2,"background_references":0}},"prefetch":{"counters":{"hits":3}}}"#
        );
        assert_eq!(serde_json::from_str::<Parts>(&text).unwrap(), one);
        assert!(!one.is_empty() && Parts::default().is_empty());
    }
}
