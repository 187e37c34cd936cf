//! Tables for a terminal. The numbers of the charts are in the tables.

use super::cells::{Stands, shown, stands, under};
use super::codes::in_texts;
use crate::format::{clean, sentence};
use crate::grid::placed;
use farreach_types::papers::{Code, Head, Judged, Kind, Papers, Row, Section, Table, counts};

/// Indentation of a table.
const INDENT: &str = "  ";
/// Columns of text, at most.
const WIDTH: usize = 120;

/// The papers in three lines each, all sections, then the verdicts in one list if there are several sections.
pub fn render(papers: &Papers, width: usize) -> String {
    let mut out = papers.heads.iter().map(|h| head(h, width.min(WIDTH))).collect::<Vec<_>>().join("\n");
    for section in &papers.sections {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &self::section(section, width);
    }
    if papers.sections.len() > 1 {
        out += "\nVerdicts\n";
        for v in papers.verdicts() {
            let kind = if v.kind == Kind::Main { "  (main claim)" } else { "" };
            out += &format!("  {:10} {}{kind}\n", v.id, v.verdict);
        }
        let all = counts(papers.verdicts().into_iter());
        out += &format!("\n{}", wrapped(&format!("{}; programs: {} set.", sentence(&all), papers.set), "  ", width));
    }
    out
}

/// What a paper claims, what of it holds here, and what does not.
fn head(head: &Head, width: usize) -> String {
    let mut out = wrapped(&format!("{}, {}: {}.", head.paper, head.title, head.counts), "", width);
    for (name, text) in [("claimed", &head.claimed), ("holds here", &head.holds), ("does not, and why", &head.not)] {
        out += &wrapped(&format!("{name}: {}", clean(text)), "  ", width);
    }
    out
}

fn section(section: &Section, width: usize) -> String {
    let text = width.min(WIDTH);
    let mut out = format!("{}: {}\n", section.id, section.title);
    out += &format!("{}\n", "─".repeat(out.trim_end().chars().count().min(text)));
    for table in &section.tables {
        out += &format!("\n{}\n", table.title);
        out += &grid(table, width);
    }
    // The tables of a section are of the same machines.
    if let Some(table) = section.tables.first().filter(|table| !table.command.is_empty()) {
        out += &again(table);
    }
    for v in &section.verdicts {
        out.push('\n');
        out += &verdict(v, text);
    }
    if !section.notes.is_empty() {
        out.push('\n');
    }
    for note in &section.notes {
        out += &wrapped(note, "  ", text);
    }
    let codes: Vec<&Code> = in_texts(section).collect();
    if !codes.is_empty() {
        out += "\n  Codes\n";
    }
    for code in codes {
        out += &wrapped(&format!("{}: {}", code.id, clean(&code.words)), "    ", text);
    }
    out
}

/// The commands that measure all rows, or one of them, again. Commands are not wrapped, so that they can be copied.
fn again(table: &Table) -> String {
    let one = table.rows.iter().find(|row| !row.command.is_empty());
    let one = one.map_or(String::new(), |row| format!("  {} alone: {}\n", clean(&row.name), clean(&row.command)));
    format!("\n  again: {}\n{one}", clean(&table.command))
}

fn verdict(v: &Judged, width: usize) -> String {
    let kind = if v.kind == Kind::Main { " (main claim)" } else { "" };
    wrapped(&format!("{}{kind}: {}.", v.id, v.claim), "  ", width)
        + &wrapped(&format!("{}: {}", v.verdict.to_string().to_uppercase(), clean(&v.why)), "    ", width)
}

fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut out = String::from(indent);
    let mut at = indent.len();
    for (i, word) in text.split_whitespace().enumerate() {
        let len = word.chars().count();
        if i > 0 && at + 1 + len > width {
            out += &format!("\n{indent}");
            at = indent.len();
        } else if i > 0 {
            out.push(' ');
            at += 1;
        }
        out += word;
        at += len;
    }
    out + "\n"
}

fn grid(table: &Table, width: usize) -> String {
    // A name that spans several columns is printed once. The first column is not among `columns`.
    let spanned = |i: usize| i > 1 && table.columns[i - 1].name == table.columns[i - 2].name;
    let names =
        table.columns.iter().enumerate().map(|(i, c)| if spanned(i + 1) { String::new() } else { c.name.clone() });
    let heads = [
        std::iter::once(String::new()).chain(names).collect(),
        std::iter::once(table.rows_are.clone()).chain(table.columns.iter().map(under)).collect(),
    ];
    let row = |row: &Row| {
        let cells = row.cells.iter().zip(&table.columns).map(|(cell, column)| shown(cell, column));
        std::iter::once(clean(&row.name)).chain(cells).collect()
    };
    let stands = stands(table);
    let left = |i: usize| stands[i - 1] != Stands::Right;
    let rows: Vec<Vec<String>> = table.rows.iter().map(row).collect();
    let text = placed(&heads, &rows, left, spanned, width.saturating_sub(INDENT.len()));
    text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("{INDENT}{line}\n") }).collect()
}
