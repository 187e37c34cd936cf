//! Files in folios: how they grow, and text of 64 KB. A part of the study of memory.

use super::memory::own;
use crate::micro::FILE_IN_ORDER;
use crate::results::{Request, Results, Set, grid};
use crate::since::compilers;
use farreach_types::counts::MachineResult;
use farreach_types::papers::{Cell, Origin, Table};

/// Readahead of 128 KB, in folios up to 2 MB, on a TLB with entries of 64 KB.
macro_rules! read {
    ($keys:literal) => {
        concat!("today/neoverse-n1:placement=linux,thp=never,contpte=64K,readahead=128K", $keys)
    };
}
/// Windows around the miss of a mapping, and from a read of a page on.
pub(crate) const READING: [&str; 2] = [read!(""), read!(",file_miss=ahead")];
/// Text as other files, and in folios of 64 KB.
pub(crate) const TEXT: [&str; 2] = [read!(""), read!(",exec_folio=64K")];

/// Orders of folios up to that of a window.
pub(crate) const ORDERS: usize = 6;

/// Folios by order.
pub(crate) fn folios(machine: &MachineResult) -> [u64; ORDERS] {
    std::array::from_fn(|order| own(machine, &format!("folios_of_order_{order}")))
}

/// Lookups of fetches that the first level did not answer.
pub(crate) fn fetch_misses(machine: &MachineResult) -> u64 {
    let tlb = &machine.counts.tlb;
    tlb.fetch_misses + tlb.second_level_fetch_hits
}

/// What is to be run.
pub(super) fn plan(set: &Set) -> Vec<Request> {
    let mut wanted = grid(compilers(set), &TEXT);
    wanted.extend(READING.map(|machine| Request::machine(FILE_IN_ORDER, machine)));
    wanted
}

/// Folios and misses of each.
pub(super) fn table(results: &Results, set: &Set) -> Table {
    let mut table = Table::new("Files in folios", "program, machine");
    table.column("windows", Origin::Measured, "");
    for pages in ["single pages", "of 2 pages", "of 4", "of 8", "of 16", "of 32"] {
        table.column(format!("folios: {pages}"), Origin::Measured, "");
    }
    table.column("page faults", Origin::Measured, "");
    table.column("first level: misses of fetches", Origin::Measured, "");
    table.column("walks of fetches", Origin::Measured, "");
    let compilers = compilers(set).flat_map(|p| TEXT.map(|machine| (p.name.as_str(), machine)));
    for (program, machine) in READING.map(|machine| (FILE_IN_ORDER, machine)).into_iter().chain(compilers) {
        let result = results.machine(program, machine);
        let of = |what: fn(&MachineResult) -> u64| Cell::from(result.map(what));
        let mut cells = vec![of(|m| own(m, "readahead_windows"))];
        cells.extend((0..ORDERS).map(|order| Cell::from(result.map(|m| folios(m)[order]))));
        cells.extend([of(|m| m.counts.os.page_faults), of(fetch_misses), of(|m| m.counts.tlb.fetch_misses)]);
        table.row(format!("{program}, {machine}"), cells);
    }
    table
}
