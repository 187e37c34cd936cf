//! One row per machine (RFC 4180): name, counts, memory, cost under the names they have in the JSON; `system.*` of
//! machines with caches; `kernel.*` and `user.*` of whole systems; then `workload.*` and `config.*`. Keys that a
//! machine does not have are empty. Behind them, one row per machine and phase, if there are phases, with its number
//! under `phase`.

use super::guest::PRIVILEGES;
use super::phases;
use farreach_types::counts::{GuestCounts, RunResult};
use serde_json::{Map, Value as Json};

/// The table, with a header row.
pub fn render(result: &RunResult) -> String {
    let mut workload = flat("workload.", json(&result.workload));
    if let Some(guest) = &result.workload.guest {
        // Its lists are in JSON and HTML.
        for list in ["exceptions", "by_processor", "contexts"] {
            workload.remove(&format!("workload.guest.{list}"));
        }
        for (name, kernel) in PRIVILEGES {
            workload.extend(flat(&format!("workload.guest.{name}.references."), json(&guest.references(kernel))));
            workload.extend(flat(&format!("workload.guest.{name}.lookups."), json(&guest.lookups(kernel))));
        }
    }
    let rows: Vec<Map<String, Json>> = result
        .machines
        .iter()
        .map(|machine| {
            let mut row = Map::new();
            row.insert("name".into(), Json::from(machine.name.as_str()));
            row.extend(flat("", json(&machine.counts)));
            row.extend(flat("estimate.", json(&machine.estimate)));
            row.extend(flat("system.", json(&machine.system)));
            row.extend(machine.guest.as_ref().map(guest).unwrap_or_default());
            row.extend(flat("", json(&machine.memory)));
            let mut cost = flat("", json(&machine.cost));
            // Lists of what energy is made of: only JSON and HTML have them.
            ["energy.parts", "energy.missing"].iter().for_each(|list| drop(cost.remove(*list)));
            row.extend(cost);
            row.extend(workload.clone());
            row.extend(flat("config.", Json::Object(machine.config.clone())));
            row
        })
        .chain(result.machines.iter().flat_map(phases::rows))
        .collect();
    table(&rows)
}

/// What a machine counted of a whole system, the contexts of each privilege added up.
pub(super) fn guest(counts: &GuestCounts) -> Map<String, Json> {
    let mut row = flat("", json(counts));
    row.remove("contexts");
    for (name, kernel) in PRIVILEGES {
        row.extend(flat(&format!("{name}."), json(&counts.of(kernel))));
        row.insert(format!("{name}.cycles"), json(&counts.cycles(kernel)));
    }
    row
}

/// Rows under the union of their keys; only the key of the first column if there are no rows.
pub(super) fn table(rows: &[Map<String, Json>]) -> String {
    let header = names(rows);
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut write = |fields: Vec<String>| writer.write_record(fields).expect("memory takes every row of equal length");
    write(if header.is_empty() { vec!["name".into()] } else { header.iter().map(|&name| name.to_owned()).collect() });
    for row in rows {
        write(header.iter().map(|&name| row.get(name).map_or_else(String::new, field)).collect());
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("every field is text")
}

/// The union of their keys, in order of first appearance.
pub(super) fn names(rows: &[Map<String, Json>]) -> Vec<&str> {
    let mut known = std::collections::HashSet::new();
    rows.iter().flat_map(Map::keys).map(String::as_str).filter(|&key| known.insert(key)).collect()
}

pub(super) fn json(part: &impl serde::Serialize) -> Json {
    serde_json::to_value(part).expect("a result has only text keys, so it is always JSON")
}

/// The fields of an object; objects inside are joined with a dot.
pub(super) fn flat(prefix: &str, value: Json) -> Map<String, Json> {
    let mut out = Map::new();
    if let Json::Object(fields) = value {
        for (key, value) in fields {
            let name = format!("{prefix}{key}");
            match value {
                Json::Object(_) => out.extend(flat(&format!("{name}."), value)),
                value => drop(out.insert(name, value)),
            }
        }
    }
    out
}

fn field(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        // Lists are written as on the command line.
        Json::Array(items) => items.iter().map(field).collect::<Vec<_>>().join("+"),
        value => value.to_string(),
    }
}
