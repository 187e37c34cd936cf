//! The table for a terminal. No colours; columns that are empty for all designs are left out.

use super::format::{NONE, bytes, count, counted, huge_page_words, rate};
use super::grid::{broken, lines};
use super::guest;
use super::prices::{among, miss_cycles};
use super::view::{
    baseline, cleaned, per_second, per_thousand, per_thousand_instructions, percent_error, percent_of, pj_per_lookup,
    sampled,
};
use farreach_types::counts::{MachineResult, RunResult, TABLE, Workload};

/// The cell of a column for a design.
type CellOf<'a> = Box<dyn Fn(&MachineResult) -> Option<String> + 'a>;

/// A column: heading, cells, and footnote.
struct Column<'a> {
    heading: [&'a str; 2],
    cell: CellOf<'a>,
    note: Option<String>,
    /// The column is left out if all designs have this value.
    dull: &'a str,
}

/// The header, the table and its footnotes.
pub fn render(result: &RunResult, width: usize) -> String {
    let result = &cleaned(result);
    let mut out = header(&result.workload);
    let Some(base) = result.machines.get(baseline(result)) else {
        return out + "\nNo designs.\n" + &super::limits::render(&result.workload, width);
    };
    let columns: Vec<Column> = columns(base, result)
        .into_iter()
        .filter(|c| result.machines.iter().any(|m| (c.cell)(m).is_some_and(|text| text != c.dull)))
        .collect();

    let heads = |line: usize, first: &str| {
        std::iter::once(first.to_owned()).chain(columns.iter().map(|c| c.heading[line].to_owned())).collect()
    };
    let row = |machine: &MachineResult| {
        let cells = columns.iter().map(|c| (c.cell)(machine).unwrap_or_else(|| NONE.into()));
        std::iter::once(broken(&machine.name)).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = result.machines.iter().map(row).collect();
    out.push('\n');
    out += &lines(&[heads(0, ""), heads(1, "design")], &rows, width);
    let notes: Vec<&String> = columns.iter().filter_map(|c| c.note.as_ref()).collect();
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        out += &format!("  {note}\n");
    }
    out + &super::phases::render(result, width)
        + &guest::render(result, baseline(result), width)
        + &super::systems::render(result, width)
        + &super::compaction::render(result, width)
        + &super::limits::render(&result.workload, width)
}

/// What ran.
pub(super) fn header(w: &Workload) -> String {
    let mut out = format!("{}\n", if w.source.is_empty() { "(no source)" } else { &w.source });
    let mut facts = Vec::new();
    if w.instructions > 0 {
        facts.push(counted(w.instructions, "instruction"));
    }
    let l = &w.lookups;
    match &w.traps {
        Some(traps) => {
            let seconds = |micros: u64| rate(micros as f64 / 1e6);
            facts.push(format!(
                "{} s of its own in {} s",
                seconds(traps.own_microseconds),
                seconds(traps.microseconds)
            ));
            facts.push(format!("{} simulated", counted(traps.simulated, "trap")));
            if traps.switches > 0 {
                facts.push(counted(traps.switches, "switch"));
            }
        }
        None => facts.push(format!(
            "{} ({} fetch, {} load, {} store)",
            counted(l.total(), "lookup"),
            count(l.fetch),
            count(l.load),
            count(l.store)
        )),
    }
    facts.push(format!("{} touched", bytes(w.touched_bytes)));
    out += &format!("  {}\n", facts.join(", "));
    match &w.guest {
        Some(guest) => {
            out += &format!("  {}, seed {}\n", guest::about(guest), w.seed);
            guest::header(guest).iter().for_each(|line| out += &format!("  {line}\n"));
        }
        None => {
            let (processes, threads) = (counted(w.processes, "process"), counted(w.threads, "thread"));
            out += &format!("  {processes}, {threads}, seed {}\n", w.seed);
        }
    }
    if let Some(words) = huge_page_words(&w.huge_pages, w.allocator.as_deref()) {
        out += &format!("  {words}\n");
    }
    if let Some(words) = super::limits::endings(&w.signals) {
        out += &format!("  {words}\n");
    }
    if let Some(part) = sampled(w) {
        out += &format!("  {part}\n");
    }
    if let Some(why) = &w.stopped {
        out += &format!("  Stopped early: {why}. Everything below is about the part that ran.\n");
    }
    out
}

fn columns<'a>(base: &'a MachineResult, result: &'a RunResult) -> Vec<Column<'a>> {
    let one = |heading, cell: CellOf<'a>, dull, note| Column { heading, cell, note, dull };
    let short = if base.name.starts_with("t94/single") { "single" } else { "first" };
    let several = result.machines.len() > 1;
    let with_caches = result.machines.iter().any(|m| m.system.is_some());
    // Walks of more than one kind: in virtual machines, and where results name the table (HW-4).
    let walks_differ = |m: &MachineResult| {
        m.config.get("guest").is_some_and(|guest| guest != "none") || m.counts.tlb.parts.get(TABLE).is_some()
    };
    let walks_differ = result.machines.iter().any(walks_differ);
    let tables_differ = result.machines.iter().any(|m| m.counts.tlb.parts.get(TABLE).is_some());
    let windows = &result.workload.windows;
    let covered = result.machines.iter().any(|m| m.cost.area_rbe.is_none());
    vec![
        one(["", "misses"], Box::new(|m| Some(count(m.counts.tlb.misses))), "", None),
        one(
            ["estimated", "misses"],
            // In windows, all counts of TLBs are estimates.
            Box::new(|m| m.estimate.filter(|_| windows.is_none()).map(|e| count(e.misses.round() as u64))),
            "",
            None,
        ),
        one(
            ["standard", "error %"],
            Box::new(|m| percent_error(m).map(rate)),
            "",
            Some(match windows {
                Some(_) => "standard error %: of the misses.".into(),
                None => "standard error %: of the estimated misses.".into(),
            }),
        ),
        one(
            ["misses", "a second"],
            Box::new(|m| per_second(m, &result.workload).map(|n| count(n.round() as u64))),
            "",
            result.workload.traps.as_ref().map(|traps| match &traps.sample {
                Some(_) => "misses a second: estimated, of the time in which the program's own code ran.".into(),
                None => "misses a second: of the time in which the program's own code ran.".into(),
            }),
        ),
        one(["per 1000", "instr."], Box::new(|m| per_thousand_instructions(m, &result.workload).map(rate)), "", None),
        one(["per 1000", "lookups"], Box::new(|m| per_thousand(m).map(rate)), "", None),
        one(
            ["% of", short],
            Box::new(move |m| if several { percent_of(m, base).map(rate) } else { None }),
            "",
            (several && base.counts.tlb.misses > 0)
                .then(|| format!("% of {}: misses in percent of those of {}.", short, base.name)),
        ),
        one(["miss", "cycles"], Box::new(|m| Some(count(m.cost.cycles))), "", Some(miss_cycles(&result.machines))),
        one(
            ["refs", "a walk"],
            Box::new(move |m| {
                let tlb = &m.counts.tlb;
                let (walks, references) = (tlb.walk.walks, tlb.table_references());
                // Midgard's walks are of other tables.
                (walks_differ && walks > 0 && references > 0).then(|| rate(references as f64 / walks as f64))
            }),
            "",
            Some("refs a walk: references to page tables for a miss, those to a virtual machine's host too.".into()),
        ),
        one(
            ["% of", "time"],
            Box::new(|m| m.cost.percent_of_time.map(rate)),
            "",
            Some(format!(
                "% of time: share of miss cycles in the run{}{}.",
                among(&result.machines, &|_| true, "cpi", ", everything else at", " a CPI of"),
                if with_caches { "; behind virtual caches the program's own cache misses too" } else { "" }
            )),
        ),
        one(["", "resident"], Box::new(|m| Some(bytes(m.memory.resident_bytes))), "0", None),
        one(
            ["page", "tables"],
            Box::new(move |m| m.memory.page_table_bytes.filter(|_| tables_differ).map(bytes)),
            "",
            Some(
                "page tables: most memory of page tables at any time, in a virtual machine of the guest's, beside what \
                 is resident."
                    .into(),
            ),
        ),
        one(
            ["", "wasted"],
            Box::new(|m| Some(bytes(m.memory.wasted_bytes))),
            "0",
            Some("resident, wasted: at the peak; wasted is resident and never referenced by then.".into()),
        ),
        one(["", "faults"], Box::new(|m| Some(count(m.counts.os.page_faults))), "0", None),
        one(
            ["% from", "dump"],
            Box::new(|m| {
                let os = &m.counts.os;
                let asked = os.mapping_pages + os.mapping_missing + os.mapping_taken;
                (asked > 0).then(|| rate(100.0 * os.mapping_pages as f64 / asked as f64))
            }),
            "",
            Some(
                "% from dump: pages that got the frame of the live process; the dump did not have the others, which \
                 got ordinary ones."
                    .into(),
            ),
        ),
        one(
            ["register", "traps"],
            Box::new(|m| Some(count(m.counts.tlb.segment.traps))),
            "0",
            Some(format!(
                "register traps: writes of a guest to its segment registers{}.",
                among(&result.machines, &|_| true, "vm_exit_cycles", ", at", " a price in hypervisor cycles of")
            )),
        ),
        one(["promo-", "tions"], Box::new(|m| Some(count(m.counts.os.promotions))), "0", None),
        one(
            ["area", "rbe"],
            Box::new(|m| m.cost.area_rbe.map(|a| count(a.round() as u64))),
            "",
            Some(format!(
                "rbe: register-bit equivalents of chip area.{}",
                if covered { " The model covers fully associative TLBs only." } else { "" }
            )),
        ),
        one(
            ["", "pJ"],
            Box::new(|m| pj_per_lookup(m).map(rate)),
            "",
            Some(format!(
                "pJ: energy of translation for each lookup{}; – where none is known.",
                among(
                    &result.machines,
                    &|m| m.cost.energy_pj.is_some(),
                    "technology",
                    ", at a feature size in nm of",
                    ""
                )
            )),
        ),
        one(
            ["", "reach"],
            // A machine without a TLB has none.
            Box::new(|m| (m.cost.reach_bytes > 0).then(|| bytes(m.cost.reach_bytes))),
            "",
            Some("reach: what the TLB maps when every entry is of the largest kind and full.".into()),
        ),
    ]
}
