//! Table 5: the rate of protection changes, and the cost of a change without a TLB (SV97-44).

use super::*;
use crate::micro::SNAPSHOTS;
use crate::printed;
use crate::study::Study;
use farreach_cost::cycles::ProtectionSweep;
use farreach_machine::{MachineSpec, two_processes_on_one_line};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::SystemCounts;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-table5",
    title: "Changes of page protection: how often, and what they cost in virtual caches",
    rules: "SV97-22, SV97-44, F-16, CW-10",
    plan: |_, set| {
        let of_snapshots = LINES.map(|line| Request::machine(SNAPSHOTS, caches(SOFTVM, 8 * KB, 512 * KB, line)));
        let lazily = Request::machine(SNAPSHOTS, LAZY);
        let mut all = grid(set, &[SOFTVM, LAZY].map(str::to_owned));
        // A set without programs requests nothing: the numbers are shown beside those of programs.
        if !all.is_empty() {
            all.extend(of_snapshots.into_iter().chain([lazily]));
        }
        all
    },
    section,
};

/// softvm that leaves lines as they are when protection is only raised.
pub(crate) const LAZY: &str = "sv97/softvm:lazy_raise=true";
/// Bytes of a line.
pub(crate) const LINES: [u64; 4] = [16, 32, 64, 128];
const PAGES: [u64; 3] = [4 * KB, 16 * KB, 64 * KB];

/// Counts of protection changes.
pub(crate) struct Changes {
    /// Pages whose protection changed.
    pub pages: u64,
    /// Per million instructions.
    pub per_million: f64,
    /// Cycles of sweeps and traps.
    pub cycles: f64,
    /// The same per instruction.
    pub cpi: f64,
}

/// Of a machine on a program.
pub(crate) fn changes(results: &Results, program: &str, machine: &str) -> Option<Changes> {
    let measured = results.measured(program, machine)?;
    let instructions = Some(measured.workload.instructions).filter(|&n| n > 0)? as f64;
    let pages = measured.machine.system.as_ref()?.protection_changes;
    let cpi = sum(&measured.machine, OverheadRow::is_protection)?;
    Some(Changes { pages, per_million: 1e6 * pages as f64 / instructions, cycles: cpi * instructions, cpi })
}

impl Changes {
    /// Cycles of one change.
    pub(crate) fn each(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.cycles / self.pages as f64)
    }
}

/// Pages whose protection was only raised.
pub(crate) fn raises(results: &Results, program: &str) -> Option<u64> {
    Some(results.machine(program, LAZY)?.system.as_ref()?.lazy_raises)
}

/// The least that a sweep can take by the formula: nothing of the page is cached.
pub(crate) fn least(page: u64, line: u64) -> u64 {
    ProtectionSweep { page, line, l1_changed: 0, l2_changed: 0, ..ProtectionSweep::SV97 }.cycles()
}

/// Turns of each of two processes on one page.
const TURNS: u32 = 100;

/// Two processes on one page, with one segment or with two (SV97-17).
pub(crate) fn two_processes(shared: bool) -> SystemCounts {
    let spec = MachineSpec::parse(SOFTVM, 0).expect("a preset is a description");
    two_processes_on_one_line(&spec, shared, TURNS)
        .expect("a preset can be built, and a segment that was touched shared")
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("sv97_table5");
    let mut rates = Table::new("Rates under Mach 3 as printed, and what they cost by the formula", "program");
    rates.column("changes", Origin::Printed, "pages");
    rates.column("per million instructions", Origin::Printed, "");
    rates.column(format!("at {} cycles", ProtectionSweep::SV97.cycles()), Origin::Computed, "CPI");
    for row in paper.rows() {
        let cpi = paper.number(row, "per_million_instr").map(|rate| ProtectionSweep::SV97.cpi(rate));
        rates.row(row, vec![paper.cell(row, "modifications"), paper.cell(row, "per_million_instr"), cpi.into()]);
    }
    let mut found = Table::new("Changes that software sees here, and what they cost", "program");
    for (name, unit) in [
        ("instructions", "instructions"),
        ("changes", "pages"),
        ("of them raises", "pages"),
        ("copied on writing", "pages"),
        ("per million instructions", ""),
        ("cycles of a change", "cycles"),
        ("swept at once", "CPI"),
        ("raises left to traps", "CPI"),
    ] {
        found.column(name, Origin::Measured, unit);
    }
    found.column("by the formula", Origin::Computed, "CPI");
    let rows = programs(set).map(|p| (p.name.as_str(), head(p))).chain([(SNAPSHOTS, SNAPSHOTS.to_owned())]);
    for (name, head) in rows {
        let here = changes(results, name, SOFTVM);
        let here = here.as_ref();
        let run = results.measured(name, SOFTVM);
        found.row(
            head,
            vec![
                run.map(|m| m.workload.instructions).into(),
                here.map(|c| c.pages).into(),
                raises(results, name).into(),
                run.map(|m| m.machine.counts.os.cow_copies).into(),
                here.map(|c| c.per_million).into(),
                here.and_then(Changes::each).into(),
                here.map(|c| c.cpi).into(),
                changes(results, name, LAZY).map(|c| c.cpi).into(),
                here.map(|c| ProtectionSweep::SV97.cpi(c.per_million)).into(),
            ],
        );
    }
    let mut sizes = Table::new("Cycles of a change by line size", "line");
    sizes.column(format!("{SNAPSHOTS}, page of 4K"), Origin::Measured, "cycles");
    for page in PAGES {
        sizes.column(format!("page of {}, nothing cached", Bytes(page)), Origin::Computed, "cycles");
    }
    for line in LINES {
        let machine = caches(SOFTVM, 8 * KB, 512 * KB, line);
        let each = changes(results, SNAPSHOTS, &machine).and_then(|c| c.each());
        sizes.row(
            line.to_string(),
            [each.into()].into_iter().chain(PAGES.map(|page| Cell::Count(least(page, line)))).collect(),
        );
    }
    let mut sharing =
        Table::new(&format!("Two processes write one page in turn, {TURNS} times each, by hand"), "segments");
    for name in ["misses", "synonyms", "lines flushed"] {
        sharing.column(name, Origin::Measured, "lines");
    }
    for (name, shared) in [("one, shared by identifier", true), ("one each", false)] {
        let c = two_processes(shared);
        sharing.row(name, [c.data.l2_misses, c.synonym_misses, c.flushed_lines].map(Cell::Count).into());
    }
    section.tables = vec![rates, found, sizes, sharing];
    section.note(format!(
        "The formula (SV97-44): {} lines of a page of {} KB are looked for in both levels, 10 and 50 of them found and \
         changed: {} cycles. Measured: the lines that were there.",
        (1 << BASE_SHIFT) / 16,
        (1 << BASE_SHIFT) / KB,
        ProtectionSweep::SV97.cycles()
    ));
    section.note(format!(
        "{SNAPSHOTS} is a store of 2 MB that forks a child to write it out, six times: the fork takes the right to \
         write away, writing gives it back. Its rate is what such a program has, not what a workstation of the paper's \
         time had. A page that is copied is flushed, not swept: it lies in another frame."
    ));
    section.note(
        "Mach changes protection to manage memory of its own; here only forks, writes to copied pages and mprotect do.",
    );
    section.note(SUBSTITUTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_grow_with_pages_and_shrink_with_lines() {
        assert_eq!(least(4 * KB, 16), 256 * 23);
        assert_eq!(least(16 * KB, 16), 4 * 256 * 23);
        assert_eq!(least(4 * KB, 128), 32 * 23);
    }
}
