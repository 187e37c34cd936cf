//! Tables for the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Names longer than this go on several lines, broken where an override begins.
const NAME_WIDTH: usize = 26;

/// A table: two lines of headings, a rule, the rows. The first column stands left, the others right.
pub fn lines(heads: &[Vec<String>; 2], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in heads.iter().chain(rows) {
        let cell = |(i, text): (usize, &String)| match i {
            0 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        table.add_row(row.iter().enumerate().map(cell));
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    let text = table.trim_fmt();
    let lines: Vec<&str> = text.lines().collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out += line;
        out.push('\n');
        if i == 1 {
            out += &"─".repeat(width);
            out.push('\n');
        }
    }
    out
}

/// A name on several lines, broken after `:`, `,` and `/`; nothing is cut.
pub fn broken(name: &str) -> String {
    if name.chars().count() <= NAME_WIDTH {
        return name.to_owned();
    }
    let mut lines = vec![String::new()];
    for part in name.split_inclusive([':', ',', '/']) {
        let line = lines.last_mut().expect("there is always a line");
        let length = line.chars().count();
        if length > 0 && length + part.chars().count() > NAME_WIDTH {
            lines.push(format!("  {part}"));
        } else {
            line.push_str(part);
        }
    }
    lines.join("\n")
}
