//! Tables for the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// Names longer than this go on several lines, broken where an override begins.
const NAME_WIDTH: usize = 26;

/// Between columns.
const GAP: usize = 2;

/// A table: two rows of headings, a rule, the rows. The first column is left-aligned, the others right-aligned. If it
/// is wider than `width`, the remaining columns follow below, with the first column repeated.
pub fn lines(heads: &[Vec<String>; 2], rows: &[Vec<String>], width: usize) -> String {
    placed(heads, rows, |_| false, |_| false, width)
}

/// As [`lines`], with a set of left-aligned columns, and columns that must stay beside the one before them.
pub fn placed(
    heads: &[Vec<String>; 2],
    rows: &[Vec<String>],
    left: impl Fn(usize) -> bool,
    belongs: impl Fn(usize) -> bool,
    width: usize,
) -> String {
    let wide = |i: usize| {
        let cells = heads.iter().chain(rows).filter_map(|row| row.get(i)).flat_map(|cell| cell.lines());
        cells.map(|line| line.chars().count()).max().unwrap_or(0) + GAP
    };
    let columns: Vec<usize> = (1..heads[1].len()).collect();
    let mut blocks = vec![vec![0]];
    let mut used = wide(0);
    for together in columns.chunk_by(|_, &next| belongs(next)) {
        let more: usize = together.iter().map(|&i| wide(i)).sum();
        if blocks.last().is_some_and(|block| block.len() > 1) && used + more - GAP > width {
            blocks.push(vec![0]);
            used = wide(0);
        }
        blocks.last_mut().expect("there is always a block").extend(together);
        used += more;
    }
    let blocks = blocks.iter().map(|columns| block(heads, rows, columns, &left));
    blocks.collect::<Vec<_>>().join("\n")
}

fn block(heads: &[Vec<String>; 2], rows: &[Vec<String>], columns: &[usize], left: &impl Fn(usize) -> bool) -> String {
    // Headings of several lines stand on the rule.
    let height = |row: &[String]| columns.iter().filter_map(|&i| row.get(i)).map(|cell| cell.lines().count()).max();
    let heights = heads.each_ref().map(|row| height(row).unwrap_or(0).max(1));
    let lowered = |text: &String, height: usize| "\n".repeat(height.saturating_sub(text.lines().count().max(1))) + text;
    let heads = [0, 1].map(|i| heads[i].iter().map(|text| lowered(text, heights[i])).collect::<Vec<_>>());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in heads.iter().chain(rows) {
        let cell = |&i: &usize| match row.get(i) {
            None => Cell::new(""),
            Some(text) if i == 0 || left(i) => Cell::new(text),
            Some(text) => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        table.add_row(columns.iter().map(cell));
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, GAP as u16));
    });
    let text = table.trim_fmt();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        out += line;
        out.push('\n');
        if i + 1 == heights[0] + heights[1] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_too_many_stand_below() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let heads = [row(["", "", "of", ""]), row(["name", "one", "two", "three"])];
        let rows = [row(["a", "1", "22", "333333"]), row(["bb\n  b", "4", "5", "6"])];
        let whole = [
            "            of",
            "name  one  two   three",
            "──────────────────────",
            "a       1   22  333333",
            "bb      4    5       6",
            "  b",
        ];
        let shown = |width| lines(&heads, &rows, width).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(shown(usize::MAX), whole);
        assert_eq!(shown(22), whole);
        let parts = [
            "            of",
            "name  one  two",
            "──────────────",
            "a       1   22",
            "bb      4    5",
            "  b",
            "",
            "",
            "name   three",
            "────────────",
            "a     333333",
            "bb         6",
            "  b",
        ];
        assert_eq!(shown(21), parts);
        // A name as a heading may take several lines.
        let heads = [row(["", "", "t94/single:\n  cpi=2", ""]), row(["name", "one", "misses", "three"])];
        let tall: Vec<_> = lines(&heads, &rows, usize::MAX).lines().take(5).map(str::to_owned).collect();
        let expected = [
            "           t94/single:",
            "                 cpi=2",
            "name  one       misses   three",
            "──────────────────────────────",
            "a       1           22  333333",
        ];
        assert_eq!(tall, expected);
        // A group of columns that is too wide is neither cut nor split.
        let tables = |belongs: fn(usize) -> bool| placed(&heads, &rows, |_| false, belongs, 1).matches("name").count();
        assert_eq!([tables(|_| false), tables(|i| i == 3), tables(|_| true)], [3, 2, 1]);
    }
}
