//! All claims about page policies, and those that nothing here judges.

use crate::hypotheses::HYPOTHESES;
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Cell, Origin, Table};

pub(crate) const STUDY: Study = Study {
    id: "os-open",
    title: "What papers and kernels since 2002 claim of page policies, and what is judged here",
    rules: "OSC-1, OSC-5",
    plan: |_, _| Vec::new(),
    section: |_, _, section| {
        let mut table = Table::new("Claims, as facts", "claim");
        for name in ["policy", "printed", "source"] {
            table.column(name, Origin::Printed, "");
        }
        table.column("judged", Origin::Computed, "");
        table.column("why not", Origin::Computed, "");
        let claims = printed::table("os_claims");
        for record in claims.records() {
            let mut cells: Vec<Cell> = record[1..4].iter().map(|text| Cell::from(text.as_str())).collect();
            let judged = HYPOTHESES.iter().any(|h| h.id == record[0]);
            cells.push(Cell::from(if judged { "yes" } else { "no" }));
            cells.push(Cell::from(record[4].as_str()));
            table.row(&record[0], cells);
        }
        section.tables.push(table);
        section.note(
            "Source: abstract, that it was read; memory, that the figure is recalled and its text was not read; code, \
             documentation and patches are those of the kernels.",
        );
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_claim_is_judged_or_has_a_reason() {
        let claims = printed::table("os_claims");
        for record in claims.records() {
            let judged = HYPOTHESES.iter().any(|h| h.id == record[0]);
            assert!(judged == record[4].is_empty(), "{}: {}", record[0], record[4]);
        }
        let listed = |id: &str| claims.records().any(|record| record[0] == id);
        assert!(HYPOTHESES.iter().all(|h| !h.id.starts_with("H-OS-") || listed(h.id)));
    }
}
