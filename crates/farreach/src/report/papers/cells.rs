//! Cells and heads for people.

use crate::report::format::{NONE, clean, count, digits, rate, significant};
use crate::study::{Cell, Column, Origin};

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

/// One decimal, as the papers print percentages; what would look like zero keeps a digit.
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
