//! Differences of counts, added up and scaled as JSON, so that a new counter needs no line here.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Counts as a tree of numbers.
pub(super) fn json(counts: &impl Serialize) -> Value {
    serde_json::to_value(counts).expect("counts are data")
}

/// Each number of both, which have the same shape; where one has nothing, that is 0. All other values are those of
/// the first.
pub(super) fn combined(a: &Value, b: &Value, how: &dyn Fn(u64, u64) -> u64) -> Value {
    match (a, b) {
        (Value::Object(a), b) => {
            let more = b.as_object().into_iter().flatten().filter(|(key, _)| !a.contains_key(*key));
            let mine =
                a.iter().map(|(key, value)| (key.clone(), combined(value, b.get(key).unwrap_or(&Value::Null), how)));
            Value::Object(
                mine.chain(more.map(|(key, value)| (key.clone(), combined(&Value::Null, value, how)))).collect(),
            )
        }
        (Value::Null, Value::Object(b)) => {
            Value::Object(b.iter().map(|(key, value)| (key.clone(), combined(&Value::Null, value, how))).collect())
        }
        (Value::Array(a), b) => Value::Array(
            a.iter().enumerate().map(|(i, value)| combined(value, b.get(i).unwrap_or(&Value::Null), how)).collect(),
        ),
        (Value::Null, Value::Array(b)) => {
            Value::Array(b.iter().map(|value| combined(&Value::Null, value, how)).collect())
        }
        (a, b) if a.is_u64() || b.is_u64() => how(a.as_u64().unwrap_or(0), b.as_u64().unwrap_or(0)).into(),
        (Value::Null, b) => b.clone(),
        (a, _) => a.clone(),
    }
}

/// Numbers that are no counts but say how much there is, or was at most: of parts
/// ([`farreach_types::counts::Parts`]), of operating systems and of virtual caches. So do all whose names end in
/// `_at_end` or `_at_most`.
const LEVELS: [&str; 11] = [
    "resident",
    "table_bytes",
    "table_bytes_most",
    "largest_fault_pages",
    "populated_never_used",
    "first_conflict_ppm",
    "zero_unknown",
    "partpop",
    "partpop_unused",
    "fullpop",
    "most_write_backs",
];

fn is_level(name: &str) -> bool {
    LEVELS.contains(&name) || ["_at_end", "_at_most"].iter().any(|end| name.ends_with(end))
}

/// Levels are those of now, which are exact: they are not scaled, and no differences.
pub(super) fn with_levels(mut counts: Value, now: &Value) -> Value {
    if let Value::Object(all) = &mut counts {
        for (key, value) in all.iter_mut() {
            let now = now.get(key).unwrap_or(&Value::Null);
            // A part that has nothing now is not there.
            *value = match is_level(key) {
                true => now.as_u64().unwrap_or(0).into(),
                false => with_levels(value.take(), now),
            };
        }
    }
    counts
}

/// What was counted between two moments; levels are those of the second.
pub(super) fn since<T: Serialize + DeserializeOwned>(now: &T, before: &T) -> T {
    let now = json(now);
    let less = combined(&now, &json(before), &|now, before| now.saturating_sub(before));
    serde_json::from_value(with_levels(less, &now)).expect("the same shape")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::counts::{OsCounts, TlbCounts};

    #[test]
    fn counters_are_differences_and_levels_are_not() {
        let before = OsCounts { page_faults: 7, largest_fault_pages: 512, forks: 1, ..OsCounts::default() };
        let now =
            OsCounts { page_faults: 17, largest_fault_pages: 512, cow_copies: 3, forks: 1, ..OsCounts::default() };
        let expected = OsCounts { page_faults: 10, largest_fault_pages: 512, cow_copies: 3, ..OsCounts::default() };
        assert_eq!(since(&now, &before), expected);
        let (mut now, mut before) = (TlbCounts { misses: 5, ..TlbCounts::default() }, TlbCounts::default());
        for (counts, steps, bytes) in [(&mut before, 3, 64), (&mut now, 10, 32)] {
            let table = counts.parts.add("table", &["table_bytes", "moves"]);
            *counts.parts.at(table).counters.at(0) += bytes;
            counts.parts.at(table).memory.made.steps += steps;
        }
        let less = since(&now, &before);
        assert_eq!((less.misses, less.parts.count("table", "table_bytes")), (5, 32));
        assert_eq!(less.parts.get("table").unwrap().memory.made.steps, 7);
    }
}
