//! Tables 1, 3, 4 and 5: the approaches, the parts of the design, the workloads, the machine.

use super::*;
use farreach_machine::MachineSpec;
use large::{DS_1G, DS_SEGMENT, RMM_4K, RMM_CLUSTERED, RMM_RANGE, RMM_THP};

pub(crate) const TABLE_1: Study = Study {
    id: "rmm15-table1",
    title: "Approaches: entries, reach of an entry, and what they need",
    rules: "RMM15-2, RMM15-42",
    plan: |_, _| Vec::new(),
    section: approaches,
};

pub(crate) const TABLE_3: Study = Study {
    id: "rmm15-table3",
    title: "Parts of paging and of range translation, and where they are here",
    rules: "RMM15-1 to RMM15-9, RMM15-20 to RMM15-23",
    plan: |_, _| Vec::new(),
    section: parts,
};

pub(crate) const TABLE_4: Study = Study {
    id: "rmm15-table4",
    title: "The workloads, and what stands in for them",
    rules: "CW-12",
    plan: |_, set| large::grid(set.large.iter(), &[RMM_4K]),
    section: workloads,
};

pub(crate) const TABLE_5: Study = Study {
    id: "rmm15-table5",
    title: "The TLBs of the machine, as printed and as the presets have them",
    rules: "DS13-36, RMM15-2, RMM15-3",
    plan: |_, _| Vec::new(),
    section: |_, _, section| crate::ds13::machine::tlbs(section, "rmm15_table5", RMM_4K),
};

/// Row of Table 1, machine, key with its number of entries, entry of a list of arrays.
const APPROACHES: [(&str, &str, &str); 5] = [
    ("multipage mappings", RMM_CLUSTERED, "cluster_entries"),
    ("transparent huge pages", RMM_THP, "2M"),
    ("libhugetlbfs", DS_1G, "1G"),
    ("direct segments", DS_SEGMENT, ""),
    ("redundant memory mappings", RMM_RANGE, "range_entries"),
];

fn approaches(_: &Results, _: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table1");
    let mut table = Table::new("Approaches", "approach");
    table.column("machine", Origin::Computed, "");
    table.column("entries", Origin::Computed, "");
    table.column("entries", Origin::Printed, "");
    for name in ["reach of an entry", "for programs", "any size and alignment", "transparent", "kernel", "hardware"] {
        table.column(name, Origin::Printed, "");
    }
    for (row, machine, key) in APPROACHES {
        let spec = MachineSpec::parse(machine, 0).expect("machines are descriptions");
        let entries = match key {
            "" => Some(1),
            size if size.ends_with(['M', 'G']) => {
                let arrays = spec.params.texts("l1d");
                let array = arrays.iter().find_map(|a| a.strip_prefix(size)?.strip_prefix(':').map(str::to_owned));
                array.and_then(|a| a.split('/').next()?.parse().ok())
            }
            key => Some(spec.params.int(key)),
        };
        let columns = [
            "entries",
            "reach_per_entry",
            "domain",
            "no_size_alignment_restriction",
            "transparent_to_app",
            "kernel_support",
            "hw_support",
        ];
        let mut cells = vec![Cell::from(machine), entries.into()];
        cells.extend(columns.map(|c| paper.cell(row, c)));
        table.row(row, cells);
    }
    section.tables.push(table);
    section.note(
        "The paper's N entries of redundant memory mappings are 32 in its default machine and here. The marks of the \
         printed table are symbols of a font.",
    );
}

/// Layer of Table 3: where it is here, for paging and for ranges.
const PARTS: [(&str, &str, &str); 6] = [
    (
        "cache",
        "keys l1d, l1i, l2; second_level_data_hits, misses",
        "keys range_entries, range_order; range.hits, range.sole_hits",
    ),
    ("memory structure", "a radix tree of walk_levels", "key range_table: btree or list; contiguity.table_bytes"),
    ("root register", "switch of the address space", "the same"),
    ("walker", "walk.walks, walk.pt_references and above", "range.walks, range.nodes"),
    ("os management", "page_faults, pt_probes", "contiguity.table_inserted, table_removed, dissolved"),
    ("allocation", "placement = demand or thp", "placement = eager; eager_requests, eager_pages"),
];

fn parts(_: &Results, _: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table3");
    let mut table = Table::new("Parts", "layer");
    for name in ["paging", "range translation"] {
        table.column(name, Origin::Printed, "");
        table.column(name, Origin::Computed, "");
    }
    for (layer, paging, ranges) in PARTS {
        let printed = ["paging", "range_translation"].map(|c| paper.cell(layer, c));
        let [one, two] = printed;
        table.row(layer, vec![one, paging.into(), two, ranges.into()]);
    }
    section.tables.push(table);
    section.note("Here: keys of a machine description, and counts of a result.");
}

fn workloads(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table4");
    let mut table = Table::new("Workloads", "program");
    table.column("suite", Origin::Printed, "");
    table.column("memory", Origin::Printed, "MB");
    table.column("memory asked for", Origin::Measured, "MB");
    table.column("memory in use", Origin::Measured, "MB");
    for Stand { program, head, row } in stands(set.large.iter(), &paper) {
        let memory = results.machine(&program.name, RMM_4K).map(|m| &m.memory);
        let cell = |bytes: Option<u64>| bytes.map_or(Cell::Nothing, large::megabytes);
        table.row(
            head,
            vec![
                paper.cell(&row, "suite"),
                paper.cell(&row, "memory_mb"),
                cell(memory.map(|m| m.virtual_bytes)),
                cell(memory.map(|m| m.resident_bytes)),
            ],
        );
    }
    section.tables.push(table);
    section.note(large::SCALED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::shown;

    /// RMM15-42: the machines have as many entries as the table prints.
    #[test]
    fn machines_have_the_printed_entries() {
        let section = shown(&TABLE_1, &Results::default(), &Set::default());
        for row in &section.tables[0].rows {
            let (here, printed) = (&row.cells[1], &row.cells[2]);
            match (here, printed) {
                (Cell::Count(here), Cell::Number(printed)) => assert_eq!(*here as f64, *printed, "{}", row.name),
                (Cell::Count(32), Cell::Text(n)) => {
                    assert_eq!((n.as_str(), row.name.as_str()), ("N", "redundant memory mappings"))
                }
                other => panic!("{}: {other:?}", row.name),
            }
        }
        let section = shown(&TABLE_3, &Results::default(), &Set::default());
        assert!(section.tables[0].rows.iter().flat_map(|r| &r.cells).all(|c| *c != Cell::Nothing), "{section:?}");
    }
}
