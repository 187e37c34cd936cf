//! Table 6: five designs at their standard sizes.

use super::*;
use crate::machines::{COMPLETE, FIVE, PARTIAL, SET_ASSOCIATIVE, SINGLE, SUPERPAGE};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table6",
    title: "Misses of 64-entry fully associative TLBs and of a 256-entry 4-way single-page-size TLB",
    rules: "T94-10 to T94-16, T94-72, CW-1",
    plan: |_, set| grid(set, &FIVE.map(str::to_owned)),
    section,
};

/// Design, its column of counts, its column of percentages.
const COLUMNS: [(&str, &str, &str, &str); 4] = [
    ("superpage", SUPERPAGE, "super64_k", "super_pct"),
    ("partial", PARTIAL, "partial64_k", "partial_pct"),
    ("complete", COMPLETE, "complete64_k", "complete_pct"),
    ("256 4-way", SET_ASSOCIATIVE, "sa256_4way_4k_k", "sa256_pct"),
];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table6");
    let mut shares = Table::new("Misses in percent of those of the single-page-size TLB", "program");
    let mut counts = Table::new("Misses", "program");
    counts.column("single", Origin::Measured, "misses");
    counts.column("single", Origin::Printed, "thousand");
    for (name, ..) in COLUMNS {
        shares.column(name, Origin::Measured, "%");
        shares.column(name, Origin::Printed, "%");
        counts.column(name, Origin::Measured, "misses");
        counts.column(name, Origin::Printed, "thousand");
    }
    for p in &set.programs {
        let mut share = Vec::new();
        let mut count = vec![misses(results, p, SINGLE), super::printed(&paper, p, "single64_k")];
        for (_, machine, thousands, percent) in COLUMNS {
            share.extend([results.percent(&p.name, machine, SINGLE).into(), super::printed(&paper, p, percent)]);
            count.extend([misses(results, p, machine), super::printed(&paper, p, thousands)]);
        }
        shares.row(head(p), share);
        counts.row(head(p), count);
    }
    section.tables = vec![shares, counts];
    section.note(SUBSTITUTES);
    paper.doubts().for_each(|d| section.note(d));
}
