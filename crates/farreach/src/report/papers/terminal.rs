//! Tables for people at a terminal. What charts show is in the tables.

use super::cells::{Stands, shown, stands, under};
use crate::report::format::{clean, count};
use crate::study::{Judged, Papers, Section, Table, Verdict};
use comfy_table::{Cell, CellAlignment, Table as Grid, presets};

/// Columns of text.
const WIDTH: usize = 120;

/// All sections, then the verdicts in one list if there are several sections.
pub fn render(papers: &Papers) -> String {
    let mut out = String::new();
    for section in &papers.sections {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &self::section(section);
    }
    if papers.sections.len() > 1 {
        out += "\nVerdicts\n";
        for v in papers.verdicts() {
            out += &format!("  {:10} {}\n", v.id, v.verdict);
        }
        let number = |verdict| papers.verdicts().iter().filter(|v| v.verdict == verdict).count() as u64;
        out += &format!(
            "\n  {} hold, {} fail, {} cannot be tested here; programs: {} set.\n",
            count(number(Verdict::Holds)),
            count(number(Verdict::Fails)),
            count(number(Verdict::NotTestable)),
            papers.set,
        );
    }
    out
}

fn section(section: &Section) -> String {
    let mut out = format!("{}: {}\n", section.id, section.title);
    out += &format!("{}\n", "─".repeat(out.trim_end().chars().count().min(WIDTH)));
    for table in &section.tables {
        out += &format!("\n{}\n", table.title);
        out += &grid(table);
    }
    for v in &section.verdicts {
        out.push('\n');
        out += &verdict(v);
    }
    if !section.notes.is_empty() {
        out.push('\n');
    }
    for note in &section.notes {
        out += &wrapped(note, "  ");
    }
    out
}

fn verdict(v: &Judged) -> String {
    wrapped(&format!("{}: {}.", v.id, v.claim), "  ")
        + &wrapped(&format!("{}: {}", v.verdict.to_string().to_uppercase(), clean(&v.why)), "    ")
}

fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::from(indent);
    let mut at = indent.len();
    for (i, word) in text.split_whitespace().enumerate() {
        let len = word.chars().count();
        if i > 0 && at + 1 + len > WIDTH {
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

fn grid(table: &Table) -> String {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    let stands = stands(table);
    let placed = |i: usize, text: String| match stands[i] {
        Stands::Right => Cell::new(text).set_alignment(CellAlignment::Right),
        Stands::Left | Stands::Wrapped => Cell::new(text),
    };
    // A name that spans several columns stands once.
    let names = table.columns.iter().enumerate().map(|(i, c)| match i.checked_sub(1).map(|j| &table.columns[j].name) {
        Some(before) if *before == c.name => placed(i, String::new()),
        _ => placed(i, c.name.clone()),
    });
    grid.add_row(std::iter::once(Cell::new("")).chain(names));
    let units = table.columns.iter().enumerate().map(|(i, c)| placed(i, under(c)));
    grid.add_row(std::iter::once(Cell::new(&table.rows_are)).chain(units));
    for row in &table.rows {
        let cells = row.cells.iter().zip(&table.columns).enumerate().map(|(i, (cell, column))| placed(i, shown(cell, column)));
        grid.add_row(std::iter::once(Cell::new(clean(&row.name))).chain(cells));
    }
    grid.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    let text = grid.trim_fmt();
    let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        out += &format!("  {}\n", line.trim_end());
        if i == 1 {
            out += &format!("  {}\n", "─".repeat(width));
        }
    }
    out
}
