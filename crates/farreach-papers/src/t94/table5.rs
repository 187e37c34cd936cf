//! Table 5: the programs.

use super::*;
use crate::machines::{CACHE, SINGLE};
use crate::printed;
use crate::stress::{self, Stress};
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table5",
    title: "The programs: memory, misses, and time on misses",
    rules: "T94-73, T94-74",
    plan: |_, set| grid(set, &[SINGLE.to_owned(), CACHE.to_owned()]),
    section,
};

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table5");
    let mut table = Table::new("Programs on the 64-entry single-page-size TLB", "program");
    table.column("instructions", Origin::Measured, "");
    table.column("references", Origin::Measured, "");
    table.column("peak memory", Origin::Measured, "MB");
    table.column("peak memory", Origin::Printed, "MB");
    table.column("misses", Origin::Measured, "misses");
    table.column("misses", Origin::Printed, "thousand");
    table.column("user time on misses", Origin::Measured, "%");
    table.column("user time on misses", Origin::Printed, "%");
    table.column(stress::COLUMN, Origin::Measured, "");
    table.column("cache misses", Origin::Measured, "misses");
    table.column("cache misses", Origin::Printed, "thousand");
    let mut stressed = Vec::new();
    for p in &set.programs {
        let m = results.measured(&p.name, SINGLE);
        let time = m.and_then(|m| m.machine.cost.percent_of_time);
        let stress = stress::least(&paper, "pct_user_time_40cycle", p, time);
        table.row(
            head(p),
            vec![
                m.map(|m| m.workload.instructions).into(),
                m.map(|m| m.workload.references.total()).into(),
                m.map(|m| m.machine.memory.resident_bytes as f64 / (1 << 20) as f64).into(),
                super::printed(&paper, p, "peak_mem_mb"),
                misses(results, p, SINGLE),
                super::printed(&paper, p, "user_tlb_misses_k_64e_fa_4k"),
                time.into(),
                super::printed(&paper, p, "pct_user_time_40cycle"),
                Stress::cell(stress.as_ref()),
                cache_misses(results, &p.name).into(),
                super::printed(&paper, p, "user_plus_kernel_cache_misses_k"),
            ],
        );
        stressed.extend(stress.map(|stress| (head(p), stress)));
    }
    section.tables.push(table);
    stress::note(stressed.iter().map(|(head, stress)| (head.as_str(), stress)))
        .into_iter()
        .for_each(|n| section.note(n));
    section.note(SUBSTITUTES);
    section.note(
        "Cache misses: references that miss a direct-mapped cache of 1 MB in lines of 32 bytes (T94-74), one for \
         fetches and one for data; those of the kernel, which the printed numbers include, are not simulated.",
    );
    section.note(
        "User time cannot be measured for a stream of references. It is taken as instructions x cpi + misses x 40 \
         cycles, at the machine's key cpi (1); the share on misses follows by T94-73. Elapsed time has no counterpart.",
    );
}

/// References of the program that miss the cache of T94's machine.
pub(crate) fn cache_misses(results: &Results, program: &str) -> Option<u64> {
    let system = results.machine(program, CACHE)?.system.as_ref()?;
    Some(system.fetch.l2_misses + system.data.l2_misses)
}
