//! All claims as the abstracts and others print them, and those that nothing here can test.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-open",
    title: "What the papers since 2000 claim, and what cannot be tested here",
    rules: "HW-7, HW-12",
    plan: |_, _| Vec::new(),
    section: |_, _, section| {
        let paper = printed::table("since_claims");
        let mut table = Table::new("Claims, as facts", "claim");
        for (name, unit) in [("design", ""), ("printed", ""), ("source", ""), ("tested by", "")] {
            table.column(name, Origin::Printed, unit);
        }
        for record in paper.records() {
            table.row(&record[0], record[1..5].iter().map(|text| Cell::from(text.as_str())).collect());
        }
        section.tables.push(table);
        section.note(
            "Source: abstract means that the abstract was read; memory that the figure is recalled, and its text was \
             not; code and rule, that the claim is about how a design works.",
        );
    },
};
