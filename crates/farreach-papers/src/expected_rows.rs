//! Rows of studies on programs made by hand: measured numbers beside the expected ones.

use crate::results::{Request, Results};
use farreach_types::counts::MachineResult;
use farreach_types::papers::{Cell, Finding, Origin, Table, Verdict};

/// One number of one machine on one program.
pub struct Row {
    /// A program of [`super::micro`].
    pub program: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// What the number is.
    pub what: &'static str,
    /// The number.
    pub read: fn(&MachineResult) -> u64,
    /// The expected number: at least, at most.
    pub rules: (u64, u64),
}

/// What a row reads, and how.
pub type What = (&'static str, fn(&MachineResult) -> u64);

impl Row {
    /// A row with exactly one expected number.
    pub const fn exactly(program: &'static str, machine: &'static str, (what, read): What, number: u64) -> Row {
        Row { program, machine, what, read, rules: (number, number) }
    }

    /// The measured number.
    pub fn found(&self, results: &Results) -> Option<u64> {
        results.machine(self.program, self.machine).map(self.read)
    }

    fn expected(&self) -> String {
        match self.rules {
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        }
    }
}

/// The requests for these rows.
pub fn plan(rows: &[Row]) -> Vec<Request> {
    rows.iter().map(|row| Request::machine(row.program, row.machine)).collect()
}

/// All of them.
pub fn table(rows: &[Row], results: &Results) -> Table {
    let mut table = Table::new("What is found, and what the rules give", "program");
    table.column("machine", Origin::Measured, "");
    table.column("what", Origin::Measured, "");
    table.column("found", Origin::Measured, "");
    table.column("by the rules", Origin::Computed, "");
    for row in rows {
        let cells = vec![row.machine.into(), row.what.into(), row.found(results).into(), Cell::Text(row.expected())];
        table.row(row.program, cells);
    }
    table
}

/// Whether all rows of these programs are as expected.
pub fn judged(rows: &[Row], results: &Results, programs: &[&str]) -> Finding {
    let mut words = Vec::new();
    let mut verdict = Verdict::Holds;
    for row in rows.iter().filter(|row| programs.contains(&row.program)) {
        let Some(n) = row.found(results) else {
            return Finding { verdict: Verdict::NotTestable, why: "it was not run.".into() };
        };
        let right = (row.rules.0..=row.rules.1).contains(&n);
        let off = if right { String::new() } else { format!(", not {}", row.expected()) };
        if !right {
            verdict = Verdict::Fails;
        }
        let of = if programs.len() > 1 { format!("{}: ", row.program) } else { String::new() };
        words.push(format!("{of}{} {n}{off} ({})", row.what, row.machine));
    }
    assert!(!words.is_empty(), "no row is about {programs:?}");
    Finding { verdict, why: format!("{}.", words.join("; ")) }
}
