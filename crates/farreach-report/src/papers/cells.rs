//! Text of cells and heads.

use crate::format::{NONE, clean, count, digits, rate, significant};
use farreach_types::papers::{Cell, Column, Origin, Table};

/// Texts longer than this are sentences.
const SENTENCE: usize = 60;

/// A cell in its column.
pub(super) fn shown(cell: &Cell, column: &Column) -> String {
    let number = |x: f64| match column.unit.as_str() {
        "%" => percent(x),
        // As printed.
        _ if column.origin == Origin::Printed => x.to_string(),
        "CPI" | "per instruction" => significant(x),
        _ => rate(x),
    };
    match cell {
        Cell::Nothing => NONE.into(),
        Cell::Text(text) => clean(text),
        Cell::Count(n) if matches!(column.unit.as_str(), "entries" | "pages") => n.to_string(),
        Cell::Count(n) => count(*n),
        Cell::Number(x) => number(*x),
        Cell::Doubtful(x) => format!("{}?", number(*x)),
    }
}

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Numbers, right-aligned.
    Right,
    /// Names and words.
    Left,
    /// Sentences, which may take several lines.
    Wrapped,
}

/// Alignment of the columns of a table.
pub(super) fn stands(table: &Table) -> Vec<Stands> {
    let stands = |i: usize| {
        let texts = table.rows.iter().filter_map(|row| match &row.cells[i] {
            Cell::Nothing => None,
            Cell::Text(text) => Some(Some(text)),
            _ => Some(None),
        });
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else { return Stands::Right };
        let any = |what: &dyn Fn(&str) -> bool| texts.iter().any(|text| what(text));
        match (any(&|text| text.chars().count() > SENTENCE), any(&|text| text.contains(char::is_alphabetic))) {
            (true, _) => Stands::Wrapped,
            (false, true) => Stands::Left,
            (false, false) => Stands::Right,
        }
    };
    (0..table.columns.len()).map(stands).collect()
}

/// One decimal, as the papers print percentages; more where a nonzero value would be printed as zero.
fn percent(x: f64) -> String {
    if x > 0.0 && x < 0.05 {
        rate(x)
    } else if x < 1000.0 {
        format!("{x:.1}")
    } else {
        digits(x)
    }
}

/// Second line of a head.
pub(super) fn under(column: &Column) -> String {
    let origin = match column.origin {
        Origin::Measured => "",
        Origin::Printed => "printed",
        Origin::Computed => "model",
    };
    [origin, column.unit.as_str()].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::papers::Row;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let text = |text: &str| Cell::Text(text.into());
        let rows = [
            [Cell::Count(72), text("72"), text("t94/partial"), text(&"word ".repeat(20)), Cell::Nothing],
            [Cell::Nothing, text("1024"), Cell::Nothing, text("short"), text("a word")],
            [text("none"), text("0"), text("8"), Cell::Nothing, Cell::Number(0.5)],
        ];
        let columns =
            (0..5).map(|_| Column { name: String::new(), origin: Origin::Measured, unit: String::new() }).collect();
        let rows = rows.map(|cells| Row { name: String::new(), command: String::new(), cells: cells.into() }).into();
        let table = Table { title: String::new(), rows_are: String::new(), command: String::new(), columns, rows };
        let [right, left, wrapped] = [Stands::Right, Stands::Left, Stands::Wrapped];
        assert!(stands(&table) == [right, right, left, wrapped, right]);
    }
}
