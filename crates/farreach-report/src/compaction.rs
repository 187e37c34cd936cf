//! The part of the text table about fragmentation and compaction (F-14).

use super::format::{NONE, count, significant};
use super::grid::{broken, lines};
use farreach_types::addr::Bytes;
use farreach_types::counts::{CompactionCost, CompactionUse, MachineResult, RunResult};

/// The columns of a machine: the two lines of a heading, and their meaning.
pub(super) const ROWS: [(&str, &str, &str); 10] = [
    ("unusable %", "at start", "unusable at the start, %"),
    ("", "before", "unusable before a run, %"),
    ("", "after", "unusable after a run, %"),
    ("", "at end", "unusable at the end, %"),
    ("free blocks", "at start", "free blocks at the start"),
    ("", "at end", "free blocks at the end"),
    ("", "runs", "runs of compaction"),
    ("pages", "copied", "pages copied"),
    ("of", "others", "of these, of others"),
    ("copying", "s", "copying, s"),
];

/// How to read it.
pub(super) const NOTES: [&str; 2] = [
    "unusable: share of free memory that lies in smaller blocks; before and after: mean of all runs of compaction.",
    "copying: at 0.3 s for each GB.",
];

/// The table; nothing if no machine compacted memory.
pub(super) fn render(result: &RunResult, width: usize) -> String {
    let cells = cells(result);
    if cells.is_empty() {
        return String::new();
    }
    let head = |part: fn((&str, &str, &str)) -> String, first: &str| {
        std::iter::once(first.to_owned()).chain(ROWS.map(part)).collect()
    };
    let row =
        |(machine, cells): (&MachineResult, Option<Cells>)| Some([vec![broken(&machine.name)], cells?.into()].concat());
    let rows: Vec<Vec<String>> = result.machines.iter().zip(cells).filter_map(row).collect();
    let table =
        lines(&[head(|(group, ..)| group.into(), ""), head(|(_, what, _)| what.into(), "machine")], &rows, width);
    let notes: String = NOTES.iter().map(|note| format!("  {note}\n")).collect();
    format!("\n{}\n\n{table}\n{notes}", title(result))
}

/// The title, which names the size of the blocks.
pub(super) fn title(result: &RunResult) -> String {
    let blocks: std::collections::BTreeSet<u64> = result.machines.iter().filter_map(block).collect();
    let blocks: Vec<String> = blocks.into_iter().map(|bytes| Bytes(bytes).to_string()).collect();
    format!("Free memory and compaction, in blocks of {}", blocks.join(" or "))
}

/// One for each of [`ROWS`].
pub(super) type Cells = [String; ROWS.len()];

/// By machine; `None` for a machine without fragmentation figures. Empty if no machine compacted.
pub(super) fn cells(result: &RunResult) -> Vec<Option<Cells>> {
    let used = |m: &MachineResult| m.compaction.as_ref().is_some_and(|used| used.runs > 0);
    if result.machines.iter().any(used) { result.machines.iter().map(column).collect() } else { Vec::new() }
}

/// Bytes of the block whose index a machine reports.
fn block(machine: &MachineResult) -> Option<u64> {
    Some(machine.config.get("page_size")?.as_u64()? << machine.compaction.as_ref()?.order)
}

fn column(machine: &MachineResult) -> Option<Cells> {
    let (used, cost): (&CompactionUse, &CompactionCost) =
        (machine.compaction.as_ref()?, machine.cost.compaction.as_ref()?);
    let order = used.order as usize;
    let index = |of: &Vec<f64>| of.get(order).map_or_else(|| NONE.into(), |percent| significant(*percent));
    let ran = |text: String| if used.runs == 0 { NONE.into() } else { text };
    Some([
        index(&cost.unusable_at_start),
        ran(index(&cost.unusable_before)),
        ran(index(&cost.unusable_after)),
        index(&cost.unusable_at_end),
        count(used.at_start.blocks_of(used.order)),
        count(used.at_end.blocks_of(used.order)),
        count(used.runs),
        count(used.moved_pages),
        count(used.moved_of_others),
        ran(significant(cost.copy_seconds)),
    ])
}
