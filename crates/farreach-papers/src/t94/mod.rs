//! T94: superpages, subblock TLBs, page reservation.

pub(super) mod figures;
pub(super) mod hardware;
pub(super) mod ledger;
pub(super) mod options;
pub(super) mod pressure;
pub(super) mod sweeps;
pub(super) mod table1;
pub(super) mod table10;
pub(super) mod table5;
pub(super) mod table6;
pub(super) mod table7;
pub(super) mod table8;
pub(super) mod table9;
pub(super) mod worked_examples;

use super::printed::Printed;
use crate::results::{Request, Results, Set};
use farreach_types::papers::Cell;

/// Every machine on every program.
fn grid(set: &Set, machines: &[String]) -> Vec<Request> {
    super::results::grid(set.programs.iter(), machines)
}

/// Head of a program's row: its name, and the program it stands for.
fn head(program: &super::Program) -> String {
    match program.stands_for.as_str() {
        "" => program.name.clone(),
        like => format!("{} ({like})", program.name),
    }
}

/// The misses of a machine on a program.
fn misses(results: &Results, program: &super::Program, machine: &str) -> Cell {
    results.misses(&program.name, machine).into()
}

/// A cell of the row that the program stands for.
fn printed(table: &Printed, program: &super::Program, column: &str) -> Cell {
    table.cell(&program.stands_for, column)
}

/// One number in percent of another, both in thousands.
fn share(table: &Printed, program: &super::Program, column: &str, of: &str) -> Cell {
    let row = &program.stands_for;
    let value = table.number(row, column).zip(table.number(row, of)).map(|(a, b)| 100.0 * a / b);
    Cell::from(value)
}

/// The note under every table of the paper's programs.
const SUBSTITUTES: &str = "The paper's programs and inputs are not available; each row is a program with the behaviour \
                           of the one in parentheses. Shape, order and ratio can be compared, counts cannot.";
