//! Table 4: the composition of the overhead.

use super::*;
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-table4",
    title: "What the overhead of software translation consists of",
    rules: "SV97-40, SV97-41, CW-9",
    plan: |_, set| grid(set, &PLACES.map(placed)),
    section,
};

/// Places of the handler's code, in bytes from the start of its memory: on the same lines as the start of text; the
/// usual one; further ones.
const PLACES: [u64; 5] = [0, 768, 20 << 10, 131_840, 640 << 10];

/// The machine with its handler there.
fn placed(at: u64) -> String {
    with(SOFTVM, if at == 768 { vec![] } else { vec![format!("handler_at={at}")] }.as_slice())
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("sv97_table4");
    // Programs like gcc first, next to the printed numbers.
    let mut shown: Vec<&Program> = programs(set).filter(|p| results.has(&Request::machine(&p.name, SOFTVM))).collect();
    shown.sort_by_key(|p| like(p) != "gcc");
    let mut table = Table::new("Events per instruction and the cycles they add", "event");
    table.column("penalty", Origin::Printed, "cycles");
    for (unit, origin) in [("per instruction", Origin::Printed), ("CPI", Origin::Printed)] {
        table.column("gcc", origin, unit);
    }
    for p in &shown {
        table.column(head(p), Origin::Measured, "per instruction");
        table.column(head(p), Origin::Measured, "CPI");
    }
    // Both in the order of the paper: the last printed row is the total.
    for (i, row) in paper.rows().enumerate() {
        let cells = shown.iter().flat_map(|p| {
            let machine = results.machine(&p.name, SOFTVM);
            let event = machine.and_then(|m| m.overhead.iter().filter(|row| row.of_misses).nth(i));
            match (row, event) {
                ("total", _) => [Cell::Nothing, machine.and_then(overhead).into()],
                (_, event) => [event.and_then(|e| e.per_instruction).into(), event.and_then(|e| e.cpi).into()],
            }
        });
        let printed = ["penalty_cycles", "freq_per_instr", "cpi"].map(|column| paper.cell(row, column));
        table.row(row, printed.into_iter().chain(cells).collect());
    }
    let mut places = Table::new("Overhead by the place of the handler's code", "program");
    PLACES.iter().for_each(|at| places.column(format!("at {at:#x}"), Origin::Measured, "CPI"));
    for p in &shown {
        places.row(head(p), PLACES.iter().map(|&at| overhead_of(results, p, &placed(at)).into()).collect());
    }
    section.tables.extend([table, places]);
    section.note(
        "In direct-mapped caches the handler and the program displace each other wherever they share sets, and each \
         time it costs a run that displaces once more. At 0 the handler shares them with the start of the program's \
         text, where kernels have their loops. The paper does not say where its handler lies; elsewhere here it is at \
         0x300, the vector of a data storage interrupt on its processor.",
    );
    section.note(
        "Rows as in the paper. Fetching the program's own line from memory is no overhead (AMB-45); write-backs are in \
         sv97-table3.",
    );
    section.note(SUBSTITUTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_cost::system::rows;
    use farreach_machine::MachineSpec;

    /// The rows that are matched by their place are the same in kind and price.
    #[test]
    fn rows_are_those_of_the_paper() {
        let spec = MachineSpec::parse(SOFTVM, 0).unwrap();
        let rows = rows(&Default::default(), &Default::default(), &spec.params);
        let ours: Vec<f64> = rows.iter().filter(|row| row.of_misses).map(|row| row.penalty).collect();
        let paper = printed::table("sv97_table4");
        let theirs: Vec<f64> = paper.rows().filter_map(|row| paper.number(row, "penalty_cycles")).collect();
        assert_eq!(ours, theirs);
        assert_eq!(paper.rows().count(), ours.len() + 1);
    }
}
