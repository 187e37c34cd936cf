//! One row per value (RFC 4180): study, table, row, column, origin, unit, value; verdicts are rows of the table
//! `verdicts`, codes in words of the table `codes`, the heads of papers of the table `head` with the paper as study.
//! Exact, and easy to compare with another run.

use farreach_types::papers::{Cell, Origin, Papers};

/// The table, with a header row.
pub fn render(papers: &Papers) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    let mut write = |fields: [&str; 7]| writer.write_record(fields).expect("memory takes every row of equal length");
    write(["study", "table", "row", "column", "origin", "unit", "value"]);
    for head in &papers.heads {
        for (row, text) in [
            ("counts", &head.counts),
            ("claimed", &head.claimed),
            ("holds here", &head.holds),
            ("does not, and why", &head.not),
        ] {
            write([&head.paper, "head", row, "text", "measured", "", text]);
        }
    }
    for section in &papers.sections {
        for table in &section.tables {
            for row in &table.rows {
                for (cell, column) in row.cells.iter().zip(&table.columns) {
                    let origin = match column.origin {
                        Origin::Measured => "measured",
                        Origin::Printed => "printed",
                        Origin::Computed => "computed",
                    };
                    let value = match cell {
                        Cell::Nothing => String::new(),
                        Cell::Text(text) => text.clone(),
                        Cell::Count(n) => n.to_string(),
                        Cell::Number(x) | Cell::Doubtful(x) => x.to_string(),
                    };
                    write([&section.id, &table.title, &row.name, &column.name, origin, &column.unit, &value]);
                }
            }
        }
        for v in &section.verdicts {
            write([&section.id, "verdicts", &v.id, "kind", "measured", "", &v.kind.to_string()]);
            write([&section.id, "verdicts", &v.id, "verdict", "measured", "", &v.verdict.to_string()]);
            write([&section.id, "verdicts", &v.id, "why", "measured", "", &v.why]);
        }
        for code in &section.codes {
            write([&section.id, "codes", &code.id, "words", "printed", "", &code.words]);
        }
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("every field is text")
}
