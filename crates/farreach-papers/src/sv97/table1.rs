//! Table 1: which of caches and TLB hit, and which machine pays for each event.

use super::*;
use crate::printed;
use crate::study::Study;
use farreach_types::counts::SideCounts;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-table1",
    title: "How often which of caches and TLB hit, and what a TLB and software translation do then",
    rules: "SV97-42, AMB-40, CW-9",
    plan: |_, set| grid(set, &[SOFTVM, MIPS].map(str::to_owned)),
    section,
};

/// The classes, by the number that the paper gives them.
const CLASSES: [&str; 6] = [
    "1: L1 hit, TLB hit",
    "2: L1 hit, TLB miss",
    "3: L2 hit, TLB hit",
    "4: L2 hit, TLB miss",
    "5: L2 miss, TLB hit",
    "6: L2 miss, TLB miss",
];

/// Number of events that a machine pays for, on both sides together.
pub(crate) struct Classes {
    /// Events 2 and 4: the caches hit, the TLB does not.
    pub cache_hits: u64,
    /// Event 5: the caches miss, the TLB hits.
    pub cache_misses: u64,
    /// Event 6: neither hits.
    pub both_miss: u64,
}

/// The classes of a machine on a program.
pub(crate) fn classes(results: &Results, program: &Program, machine: &str) -> Option<Classes> {
    let counts = results.machine(&program.name, machine)?.system.as_ref()?;
    let sum = |i: usize| counts.fetch.events[i] + counts.data.events[i];
    Some(Classes { cache_hits: sum(1) + sum(3), cache_misses: sum(4), both_miss: sum(5) })
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("sv97_table1");
    type Read = fn(&farreach_types::counts::SystemCounts) -> &SideCounts;
    let sides: [(&str, &str, Read); 2] =
        [("Instruction side", "i_side_pct", |c| &c.fetch), ("Data side", "d_side_pct", |c| &c.data)];
    for (side, column, read) in sides {
        let mut table = Table::new(&format!("{side}: share of all accesses"), "event");
        programs(set).for_each(|p| table.column(head(p), Origin::Measured, "%"));
        table.column("SPECint95", Origin::Printed, "%");
        for (i, class) in CLASSES.iter().enumerate() {
            let share = |p: &Program| {
                let counts = read(results.machine(&p.name, MIPS)?.system.as_ref()?);
                (counts.accesses > 0).then(|| 100.0 * counts.events[i] as f64 / counts.accesses as f64)
            };
            let cells = programs(set).map(|p| Cell::from(share(p)));
            table.row(*class, cells.chain([paper.cell(&(i + 1).to_string(), column)]).collect());
        }
        section.tables.push(table);
    }
    let mut actions = Table::new("What each takes", "event");
    actions.column("TLB beside virtual caches", Origin::Printed, "");
    actions.column("software translation", Origin::Printed, "");
    for (i, class) in CLASSES.iter().enumerate() {
        let row = (i + 1).to_string();
        actions.row(*class, ["tlb_vcache_actions", "softvm_actions"].map(|c| Cell::from(paper.text(&row, c))).into());
    }
    let mut pays = Table::new("Who pays where, in one run of both machines", "program");
    for (name, unit) in [
        ("events 2 and 4: only the TLB machine pays", "references"),
        ("event 5: only software pays", "references"),
        ("event 6: both pay", "references"),
        ("softvm: handlers run for the program", "references"),
        ("TLB machine", "CPI"),
        ("softvm", "CPI"),
    ] {
        pays.column(name, Origin::Measured, unit);
    }
    for p in programs(set) {
        let found = classes(results, p, MIPS);
        let count = |read: fn(&Classes) -> u64| Cell::from(found.as_ref().map(read));
        pays.row(
            head(p),
            vec![
                count(|c| c.cache_hits),
                count(|c| c.cache_misses),
                count(|c| c.both_miss),
                results.misses(&p.name, SOFTVM).into(),
                overhead_of(results, p, MIPS).into(),
                overhead_of(results, p, SOFTVM).into(),
            ],
        );
    }
    section.tables.extend([actions, pays]);
    section.note(
        "8 KB and 512 KB to a side, direct-mapped, 16-byte lines; a unified TLB of 64 entries, 8 of them reserved, \
         random replacement. An access is one line that a reference touches.",
    );
    section.note(SUBSTITUTES);
    paper.doubts().for_each(|d| section.note(d));
}
