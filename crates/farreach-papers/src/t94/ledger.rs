//! The ledger of Tables 2 to 4: misses saved by superpages and subblocks, and their cost for the operating system.

use super::*;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE};
use crate::study::Study;
use farreach_cost as cost;
use farreach_machine::MachineSpec;
use farreach_types::counts::LedgerLine;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-ledger",
    title: "Benefit against cost (Tables 2 to 4), and what files cost by policy",
    rules: "T94-26, T94-52, T94-78, CW-14",
    plan: |_, set| {
        let machines = [SINGLE].into_iter().chain(DESIGNS.map(|d| d.1)).chain(FILES.map(|f| f.1));
        grid(set, &machines.map(str::to_owned).collect::<Vec<_>>())
    },
    section,
};

const DESIGNS: [(&str, &str); 3] = [("superpage", SUPERPAGE), ("partial", PARTIAL), ("complete", COMPLETE)];

/// Policies for files, with superpages: on a local disk, without read-ahead, on a remote server.
const FILES: [(&str, &str); 3] = [
    ("disk", SUPERPAGE),
    ("disk, no read-ahead", "t94/superpage:prefetch=false"),
    ("remote", "t94/superpage:nfs=/+kernel/"),
];

/// The ledger of a machine against the single-page-size TLB on the same program.
fn ledger(results: &Results, program: &str, machine: &str) -> Option<Vec<LedgerLine>> {
    let (mine, base) = (results.machine(program, machine)?, results.machine(program, SINGLE)?);
    let params = |machine: &str| MachineSpec::parse(machine, 0).ok().map(|s| s.params);
    let (own, basic) = (params(machine)?, params(SINGLE)?);
    Some(cost::ledger(&mine.counts, &mine.memory, Some((&base.counts, &basic)), &own))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut net = Table::new("Cycles against the single-page-size TLB; negative is gained", "program");
    for (name, _) in DESIGNS {
        net.column(name, Origin::Measured, "misses");
        net.column(name, Origin::Measured, "system");
        net.column(name, Origin::Measured, "net");
    }
    for p in &set.programs {
        let cells = DESIGNS.iter().flat_map(|(_, machine)| {
            let lines = ledger(results, &p.name, machine);
            let sum = |of: &dyn Fn(&LedgerLine) -> bool| {
                lines.as_ref().map(|l| l.iter().filter(|l| of(l)).filter_map(|l| l.cycles).sum::<i64>())
            };
            let misses = |l: &LedgerLine| l.item.starts_with("TLB misses") || l.item.starts_with("misses:");
            let cell = |n: Option<i64>| n.map_or(Cell::Nothing, |n| Cell::Text(signed(n)));
            [cell(sum(&misses)), cell(sum(&|l| !misses(l))), cell(sum(&|_| true))]
        });
        net.row(head(p), cells.collect());
    }
    section.tables.push(net);

    let mut files = Table::new("Files under superpages", "program");
    for (name, _) in FILES {
        files.column(name, Origin::Measured, "bytes read");
        files.column(name, Origin::Measured, "read ahead");
        files.column(name, Origin::Measured, "populated");
        files.column(name, Origin::Measured, "never used");
    }
    for p in &set.programs {
        let cells = FILES.iter().flat_map(|(_, machine)| {
            let os = results.machine(&p.name, machine).map(|m| &m.counts.os);
            let cell = |n: Option<u64>| Cell::from(n);
            [
                cell(os.map(|o| o.io_bytes)),
                cell(os.map(|o| o.pages_prefetched)),
                cell(os.map(|o| o.populated_pages)),
                cell(os.map(|o| o.populated_never_used)),
            ]
        });
        files.row(head(p), cells.collect());
    }
    section.tables.push(files);

    for p in set.programs.iter().filter(|p| p.stands_for == "gcc") {
        let ledgers = DESIGNS.map(|d| ledger(results, &p.name, d.1).unwrap_or_default());
        let mut table = Table::new(&format!("The ledger of {}", head(p)), "mechanism");
        for (name, _) in DESIGNS {
            table.column(name, Origin::Measured, "count");
            table.column(name, Origin::Measured, "cycles");
        }
        for i in 1..ledgers[0].len() {
            if ledgers.iter().all(|l| l.get(i).is_none_or(|l| l.count == 0)) {
                continue;
            }
            let cells = ledgers.iter().flat_map(|l| {
                let line = l.get(i);
                let cycles = line.and_then(|l| l.cycles).map_or(Cell::Nothing, |n| Cell::Text(signed(n)));
                [line.map(|l| l.count).into(), cycles]
            });
            table.row(format!("{} ({})", ledgers[0][i].item, ledgers[0][i].unit), cells.collect());
        }
        section.tables.push(table);
    }
    section.note(
        "Prices are keys of the machine: 40 cycles per miss is the paper's; the others are stated assumptions. \
         `farreach run` and `farreach sim --html` show the whole ledger of any program.",
    );
}

/// A number with its sign.
fn signed(n: i64) -> String {
    let digits = n.unsigned_abs();
    let sign = if n < 0 { "−" } else { "+" };
    match digits {
        0 => "0".into(),
        1..10_000 => format!("{sign}{digits}"),
        _ => format!("{sign}{} k", (digits + 500) / 1000),
    }
}
