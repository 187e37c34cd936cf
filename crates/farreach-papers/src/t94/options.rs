//! Options that the paper discusses without a table: preloading, thresholds, no reservation, colouring, sets,
//! integration.

use super::*;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, superpage_of};
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const PRELOAD: Study = Study {
    id: "t94-preload",
    title: "Preloading the pages that share an entry, or a region",
    rules: "T94-22, T94-26",
    plan: |_, set| {
        grid(set, &[SINGLE, SUPERPAGE, PARTIAL, COMPLETE, SAME_ENTRY, REGION, COMPLETE_REGION].map(str::to_owned))
    },
    section: |results, set, section| {
        let designs = [
            ("superpage", SUPERPAGE),
            ("partial", PARTIAL),
            ("partial, same entry", SAME_ENTRY),
            ("partial, region", REGION),
            ("complete", COMPLETE),
            ("complete, region", COMPLETE_REGION),
        ];
        shares(results, set, section, &designs);
        let mut cycles = Table::new("Cycles on misses, in percent of the single-page-size TLB", "program");
        designs.iter().for_each(|d| cycles.column(d.0, Origin::Measured, "%"));
        for p in &set.programs {
            let of = |m: &str| results.machine(&p.name, m).map(|m| m.cost.cycles as f64);
            let base = of(SINGLE).filter(|b| *b > 0.0);
            cycles.row(head(p), designs.iter().map(|d| of(d.1).zip(base).map(|(a, b)| 100.0 * a / b).into()).collect());
        }
        section.tables.push(cycles);
        section.note(
            "A miss costs 40 cycles, each further page table entry that preloading reads 2 (keys penalty and \
             pte_cost).",
        );
    },
};

pub(crate) const SAME_ENTRY: &str = "t94/partial:preload=same-entry";
pub(crate) const REGION: &str = "t94/partial:preload=region";
pub(crate) const COMPLETE_REGION: &str = "t94/complete:preload=region";

pub(crate) const THRESHOLDS: Study = Study {
    id: "t94-thresholds",
    title: "When to promote: the threshold for heaps",
    rules: "T94-54, AMB-2, AMB-12",
    plan: |_, set| {
        let mut machines: Vec<String> = SHARES.map(heap).into();
        machines.extend([superpage_of(8), SINGLE.to_owned()]);
        grid(set, &machines)
    },
    section: |results, set, section| {
        let designs = SHARES.map(|s| (format!("{s} %"), heap(s)));
        let designs: Vec<(&str, &str)> = designs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        shares(results, set, section, &designs);
        let mut memory = Table::new("Peak memory, in percent of the single-page-size TLB on demand paging", "program");
        designs.iter().for_each(|d| memory.column(d.0, Origin::Measured, "%"));
        for p in &set.programs {
            let cell = |d: &(&str, &str)| growth(results, &p.name, d.1).map(|g| 100.0 * g).into();
            memory.row(head(p), designs.iter().map(cell).collect());
        }
        section.tables.push(memory);
        section.note(
            "Share of a region's 16 pages that must be mapped before a heap region becomes a superpage; the paper's \
             choice is 100 %.",
        );
    },
};

/// Shares of the pages of a region, in percent.
pub(crate) const SHARES: [u64; 4] = [25, 50, 75, 100];

/// The superpage TLB of Table 6 with another threshold for heaps.
pub(crate) fn heap(percent: u64) -> String {
    if percent == 100 { SUPERPAGE.to_owned() } else { format!("{SUPERPAGE}:threshold_heap=0.{percent}") }
}

/// Peak memory relative to demand paging.
pub(crate) fn growth(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let of = |m: &str| results.machine(program, m).map(|m| m.memory.resident_bytes as f64);
    Some(of(machine)? / of(SINGLE).filter(|b| *b > 0.0)?)
}

pub(crate) const MECHANISMS: Study = Study {
    id: "t94-mechanisms",
    title: "What sharing rests on: reservation, colouring, sets, integration, copy-on-write",
    rules: "T94-7, T94-16, T94-24, T94-57, T94-61",
    plan: |_, set| grid(set, &DESIGNS.map(|d| d.1.to_owned())),
    section: |results, set, section| {
        shares(results, set, section, &DESIGNS[1..]);
        let mut split = Table::new("Partial entries begun although one with the tag was there, by reason", "program");
        ["unaligned", "other frames", "attributes"].iter().for_each(|n| split.column(*n, Origin::Measured, "entries"));
        split.column("copy-on-write", Origin::Measured, "pages");
        split.column("superpage mappings", Origin::Measured, "% of superpage misses");
        for p in &set.programs {
            let c = results.machine(&p.name, PARTIAL).map(|m| &m.counts);
            split.row(
                head(p),
                vec![
                    c.map(|c| c.tlb.split_unaligned).into(),
                    c.map(|c| c.tlb.split_frames).into(),
                    c.map(|c| c.tlb.split_attributes).into(),
                    c.map(|c| c.os.cow_copies).into(),
                    superpage_share(results, &p.name).into(),
                ],
            );
        }
        section.tables.push(split);
    },
};

/// Name and machine.
pub(crate) const DESIGNS: [(&str, &str); 10] = [
    ("single", SINGLE),
    ("superpage", SUPERPAGE),
    ("partial", PARTIAL),
    ("partial, no reservation", NO_RESERVATION),
    ("partial, colouring", COLOURING),
    ("complete", COMPLETE),
    ("complete, reservation", COMPLETE_RESERVED),
    ("partial, 4-way", PARTIAL_SETS),
    ("complete, 4-way", COMPLETE_SETS),
    ("integrated", INTEGRATED),
];
pub(crate) const NO_RESERVATION: &str = "t94/partial:placement=demand";
pub(crate) const COLOURING: &str = "t94/partial:placement=demand,allocator=colouring";
pub(crate) const COMPLETE_RESERVED: &str = "t94/complete:placement=reservation";
pub(crate) const PARTIAL_SETS: &str = "t94/partial:ways=4";
pub(crate) const COMPLETE_SETS: &str = "t94/complete:ways=4";
pub(crate) const INTEGRATED: &str = "t94/integrated";

/// Misses to superpage mappings, in percent of the misses of the superpage TLB (H-T94-23).
pub(crate) fn superpage_share(results: &Results, program: &str) -> Option<f64> {
    let tlb = &results.machine(program, SUPERPAGE)?.counts.tlb;
    (tlb.misses > 0).then(|| 100.0 * tlb.superpage_misses as f64 / tlb.misses as f64)
}

fn shares(results: &Results, set: &Set, section: &mut Section, designs: &[(&str, &str)]) {
    let mut table = Table::new("Misses in percent of those of the single-page-size TLB", "program");
    designs.iter().for_each(|d| table.column(d.0, Origin::Measured, "%"));
    for p in &set.programs {
        table.row(head(p), designs.iter().map(|d| results.percent(&p.name, d.1, SINGLE).into()).collect());
    }
    section.tables.push(table);
}
