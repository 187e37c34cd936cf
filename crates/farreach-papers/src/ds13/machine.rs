//! Table 1, the machine, and Table 2, the workloads; the machine is that of RMM15's Table 5 too.

use super::*;
use farreach_machine::MachineSpec;
use farreach_types::addr::Bytes;
use large::DS_4K;

pub(crate) const TABLE_1: Study = Study {
    id: "ds13-table1",
    title: "The TLBs of the machine, as printed and as the presets have them",
    rules: "DS13-36",
    plan: |_, _| Vec::new(),
    section: |_, _, section| tlbs(section, "ds13_table1", DS_4K),
};

pub(crate) const TABLE_2: Study = Study {
    id: "ds13-table2",
    title: "The workloads, and what stands in for them",
    rules: "DS13-33, CW-11",
    plan: |_, set| large::grid(of_ds13(set), &[DS_4K]),
    section: workloads,
};

/// The array of one size in the words of the papers: `64 entries, 4-way`.
fn array_text(arrays: &[String], size: &str) -> Option<String> {
    let [entries, ways] = arrays.iter().find_map(|array| {
        let (sizes, rest) = array.split_once(':')?;
        let (entries, ways) = rest.split_once('/').map_or((rest, ""), |(e, w)| (e, w));
        sizes.split('|').any(|s| s == size).then_some([entries, ways])
    })?;
    Some(match ways {
        "" => format!("{entries} entries, fully associative"),
        ways => format!("{entries} entries, {ways}-way"),
    })
}

/// Rows of the printed machine beside a preset.
pub(crate) fn tlbs(section: &mut Section, paper: &str, preset: &str) {
    let spec = MachineSpec::parse(preset, 0).expect("presets are descriptions");
    let paper = printed::table(paper);
    let mut table = Table::new("Items of the machine", "item");
    table.column("the paper", Origin::Printed, "");
    table.column("here", Origin::Computed, "");
    table.column("the same", Origin::Computed, "");
    for row in paper.records() {
        let (item, value) = (row[0].as_str(), row[1].as_str());
        let here = item.split_once("TLB ").or(item.split_once("L2 TLB")).and_then(|(level, rest)| {
            let key = match level.trim() {
                "L1 D" => "l1d",
                "L1 I" => "l1i",
                "L2" => "l2",
                _ => return None,
            };
            let size = ["4KB", "2MB", "1GB"].into_iter().find(|s| rest.contains(s) || value.contains(s))?;
            let words = array_text(&spec.params.texts(key), &size[..2]);
            Some(words.unwrap_or_else(|| "none".into()))
        });
        let here = match (item, here) {
            ("range TLB", _) => MachineSpec::parse(large::RMM_RANGE, 0)
                .ok()
                .map(|s| format!("{} entries, fully associative", s.params.int("range_entries"))),
            (_, here) => here,
        };
        let same = here.as_ref().map(|here| if value.contains(here.as_str()) { "yes" } else { "no" });
        table.row(item, vec![value.into(), here.as_deref().unwrap_or("").into(), same.unwrap_or("").into()]);
    }
    section.tables.push(table);
    section.note(format!(
        "The processor, its clock and the operating system are not simulated: memory has as many frames as are used, \
         demand paging is that of the placement `demand`, and no cache is simulated. Preset: {preset}."
    ));
    for record in paper.records().filter(|r| r.get(2).is_some_and(|doubt| !doubt.is_empty())) {
        section.note(format!("{}: {}.", record[0], record[2]));
    }
}

fn workloads(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("ds13_table2");
    let mut table = Table::new("Workloads", "program");
    table.column("the paper's", Origin::Printed, "");
    table.column("memory in use", Origin::Measured, "MB");
    table.column("instructions", Origin::Measured, "");
    for Stand { program, head, row } in stands(of_ds13(set), &paper) {
        let found = results.measured(&program.name, DS_4K);
        table.row(
            head,
            vec![
                paper.text(&row, "kind").into(),
                found.map_or(Cell::Nothing, |m| large::megabytes(m.machine.memory.resident_bytes)),
                found.map(|m| m.workload.instructions).into(),
            ],
        );
    }
    let there = |row: &str| set.large.iter().any(|p| p.is_like(&[row]));
    let absent: Vec<String> = paper.rows().filter(|row| !there(row)).map(str::to_owned).collect();
    section.tables.push(table);
    section.note(large::SCALED);
    if !absent.is_empty() {
        section.note(format!("Nothing in this set stands for {}.", crate::number_text::list(&absent)));
    }
}

/// A size as the tables print it.
pub(super) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DS13-36, RMM15 Table 5: every TLB of the printed machine is in the presets.
    #[test]
    fn presets_have_the_printed_tlbs() {
        for (paper, preset, tlbs_there) in [("ds13_table1", DS_4K, 6), ("rmm15_table5", large::RMM_4K, 7)] {
            let mut section = Section::new("", "", "");
            tlbs(&mut section, paper, preset);
            let verdicts: Vec<&Cell> =
                section.tables[0].rows.iter().map(|r| &r.cells[2]).filter(|c| **c != Cell::Nothing).collect();
            let yes = Cell::from("yes");
            assert!(verdicts.iter().filter(|c| ***c == yes).count() >= tlbs_there, "{paper}: {section:?}");
            assert!(verdicts.iter().all(|c| **c == yes), "{paper}: {section:?}");
        }
    }
}
