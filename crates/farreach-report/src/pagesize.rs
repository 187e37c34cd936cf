//! The page-size study as a text table and as CSV.

use super::csv as rows;
use super::format::{NONE, bytes, count, rate};
use super::grid::{broken, lines};
use super::prices::miss_cycles;
use super::table::header;
use super::view::cleaned_study;
use farreach_types::addr::Bytes;
use farreach_types::counts::{MachineResult, PageCounts, PagePhase, PageRow, PageSizeResult, PhaseSize};
use farreach_types::plural::with_noun;
use serde_json::{Map, Value as Json};

const HEADS: [(&str, &str); 13] = [
    ("", "page size"),
    ("fetch", "misses"),
    ("% of", "first"),
    ("data", "misses"),
    ("% of", "first"),
    ("", "code"),
    ("", "data"),
    ("", "total"),
    ("more,", "%"),
    ("at the", "peak"),
    ("page", "tables"),
    ("write-", "back"),
    ("miss", "cycles"),
];

/// The table, its footnotes, the frontier and the advice.
pub fn table(result: &PageSizeResult, width: usize) -> String {
    let result = &cleaned_study(result);
    let mut out = header(&result.workload);
    out.push('\n');
    let columns = if result.policies.is_empty() { HEADS.len() - 1 } else { HEADS.len() };
    let heads = [0, 1].map(|line| HEADS.map(|h| if line == 0 { h.0 } else { h.1 }.to_owned())[..columns].to_vec());
    let mut cells: Vec<Vec<String>> =
        result.rows.iter().map(size).chain(result.policies.iter().map(|m| policy(m, result.rows.first()))).collect();
    cells.iter_mut().for_each(|row| row.truncate(columns));
    out += &lines(&heads, &cells, width);
    out += &format!(
        "
  misses: of two true-LRU TLBs, {} for fetches and {} for loads and stores; of a machine, its own. %: of the misses at \
the first size.
  code, data, total: distinct pages ever touched, by fetches, by loads and stores, by either; more: growth of total.
  write-back: distinct pages ever stored to. Numbers for other entries, from 1 to {} and more, are in the other reports.
",
        with_noun(result.entries, "entry"),
        result.entries,
        result.entry_counts.last().copied().unwrap_or(0)
    );
    if !result.policies.is_empty() {
        out += "  peak of a machine: the most memory resident at any time; frames that several processes share count \
                once.\n";
        out += &format!("  {}\n", miss_cycles(&result.policies));
    }
    out += &phases(result, width);
    let names: Vec<&str> = result.frontier.iter().map(|p| p.name.as_str()).collect();
    if !names.is_empty() {
        out += &format!("\nNothing has both fewer misses and a lower peak than one of: {}\n", names.join(", "));
    }
    if let Some(advice) = &result.advice {
        out += &format!("\n{}\n{}\n", advice.text, advice.rule);
    }
    out + &super::limits::render(&result.workload, width)
}

/// Misses and working sets with a row for each phase; nothing if the run has none.
fn phases(result: &PageSizeResult, width: usize) -> String {
    if result.phases.is_empty() {
        return String::new();
    }
    let sizes = result.rows.iter().map(|row| Bytes(row.counts.page_size).to_string());
    let machines = result.policies.iter().map(|machine| broken(&machine.name));
    let blocks: [(&str, Vec<String>, Cells); 2] = [
        ("Misses, phase by phase", sizes.clone().chain(machines).collect(), |result, at| {
            let sizes = result.phases[at].sizes.iter().map(|size| count(size.fetch_misses + size.data_misses));
            let machine = |machine: &MachineResult| machine.phases.get(at).map_or(NONE.into(), |p| count(p.misses));
            sizes.chain(result.policies.iter().map(machine)).collect()
        }),
        ("Working set of each phase: the pages that it touches", sizes.collect(), |result, at| {
            result.phases[at].sizes.iter().map(|size| bytes(size.total_bytes)).collect()
        }),
    ];
    let block = |(name, heads, cells): (&str, Vec<String>, Cells)| {
        let above = vec![String::new(); heads.len() + 2];
        let heads = ["phase", "instructions"].map(str::to_owned).into_iter().chain(heads).collect();
        let row = |(at, phase): (usize, &PagePhase)| {
            [(at + 1).to_string(), count(phase.instructions)].into_iter().chain(cells(result, at)).collect()
        };
        let rows: Vec<Vec<String>> = result.phases.iter().enumerate().map(row).collect();
        format!("\n{name}\n{}", lines(&[above, heads], &rows, width))
    };
    blocks.into_iter().map(block).collect()
}

/// What a block shows of a phase.
type Cells = fn(&PageSizeResult, usize) -> Vec<String>;

fn size(row: &PageRow) -> Vec<String> {
    let (c, r) = (&row.counts, &row.relative);
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| NONE.into(), |x| rate(100.0 * x));
    let mut cells = vec![Bytes(c.page_size).to_string()];
    cells.extend([count(c.fetch_misses), percent(r.relative_fetch_misses)]);
    cells.extend([count(c.data_misses), percent(r.relative_data_misses)]);
    cells.extend([c.code_bytes, c.data_bytes, c.total_bytes].map(bytes));
    cells.push(percent(r.relative_memory));
    cells.extend([c.peak_bytes, c.page_table_bytes, c.write_back_bytes].map(bytes));
    cells.push(NONE.into());
    cells
}

fn policy(machine: &MachineResult, first: Option<&PageRow>) -> Vec<String> {
    let none = || NONE.to_owned();
    let tlb = &machine.counts.tlb;
    let percent = |misses: u64, of: fn(&PageCounts) -> u64| {
        let base = first.map(|row| of(&row.counts)).filter(|&base| base > 0);
        base.map_or_else(none, |base| rate(100.0 * misses as f64 / base as f64))
    };
    let mut cells = vec![broken(&machine.name)];
    cells.extend([count(tlb.fetch_misses), percent(tlb.fetch_misses, |c| c.fetch_misses)]);
    cells.extend([count(tlb.data_misses), percent(tlb.data_misses, |c| c.data_misses)]);
    cells.extend([none(), none(), none(), none(), bytes(machine.memory.resident_bytes), none(), none()]);
    cells.push(count(machine.cost.cycles));
    cells
}

/// One row per page size, then one per policy (RFC 4180): the fields under the names they have in the JSON, `name`
/// before them, `workload.*` behind. Misses by number of entries are `fetch_misses_64` and so on. Behind them, one row
/// per page size and phase, and per policy and phase, if there are phases, with its number under `phase`.
pub fn csv(result: &PageSizeResult) -> String {
    let workload = rows::flat("workload.", rows::json(&result.workload));
    let size = |row: &PageRow| {
        let mut fields = Map::new();
        fields.insert("name".into(), Json::from(Bytes(row.counts.page_size).to_string()));
        fields.extend(rows::flat("", rows::json(row)));
        for side in ["fetch_misses", "data_misses"] {
            let Some(Json::Array(misses)) = fields.shift_remove(&format!("{side}_by_entries")) else { continue };
            fields.extend(result.entry_counts.iter().zip(misses).map(|(n, m)| (format!("{side}_{n}"), m)));
        }
        fields.insert("entries".into(), Json::from(result.entries));
        fields.extend(workload.clone());
        fields
    };
    let policy = |machine: &MachineResult| {
        let tlb = &machine.counts.tlb;
        let mut fields = Map::new();
        fields.insert("name".into(), Json::from(machine.name.as_str()));
        fields.insert("fetch_misses".into(), Json::from(tlb.fetch_misses));
        fields.insert("data_misses".into(), Json::from(tlb.data_misses));
        fields.insert("peak_bytes".into(), Json::from(machine.memory.resident_bytes));
        fields.insert("miss_cycles".into(), Json::from(machine.cost.cycles));
        fields.extend(workload.clone());
        fields
    };
    let phase = |(at, phase): (u64, &PagePhase)| {
        let size = |size: &PhaseSize| {
            let mut fields = Map::new();
            fields.insert("name".into(), Json::from(Bytes(size.page_size).to_string()));
            fields.insert("phase".into(), Json::from(at));
            fields.insert("instructions".into(), Json::from(phase.instructions));
            fields.extend(rows::flat("", rows::json(size)));
            fields
        };
        phase.sizes.iter().map(size).collect::<Vec<_>>()
    };
    let all: Vec<_> = (result.rows.iter().map(size))
        .chain(result.policies.iter().map(policy))
        .chain((1..).zip(&result.phases).flat_map(phase))
        .chain(result.policies.iter().flat_map(super::phases::rows))
        .collect();
    rows::table(&all)
}
