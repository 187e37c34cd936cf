//! What the table for people says of fragmentation and compaction (F-14).

use super::format::{NONE, count, significant};
use super::grid::{broken, lines};
use crate::addr::Bytes;
use crate::counts::{CompactionCost, CompactionUse, MachineResult, RunResult};

const HEADS: [[&str; 2]; 10] = [
    ["unusable %", "at start"],
    ["", "before"],
    ["", "after"],
    ["", "at end"],
    ["free blocks", "at start"],
    ["", "at end"],
    ["", "runs"],
    ["pages", "copied"],
    ["of", "others"],
    ["copying", "s"],
];

/// The table; nothing if no machine compacted memory.
pub(super) fn render(result: &RunResult) -> String {
    let used = |m: &MachineResult| m.compaction.as_ref().is_some_and(|used| used.runs > 0);
    if !result.machines.iter().any(used) {
        return String::new();
    }
    let head = |line: usize, first: &str| {
        std::iter::once(first.to_owned()).chain(HEADS.iter().map(|heading| heading[line].to_owned())).collect()
    };
    let rows: Vec<Vec<String>> = result.machines.iter().filter_map(row).collect();
    let blocks: std::collections::BTreeSet<u64> = result.machines.iter().filter_map(block).collect();
    let blocks: Vec<String> = blocks.into_iter().map(|bytes| Bytes(bytes).to_string()).collect();
    let mut out = format!("\nFree memory and compaction, in blocks of {}\n\n", blocks.join(" or "));
    out += &lines(&[head(0, ""), head(1, "machine")], &rows);
    out + "\n  unusable: share of free memory that lies in smaller blocks; before and after: mean of all runs of compaction.\n"
        + "  copying: at 0.3 s for each GB.\n"
}

/// Bytes of the block that a machine is judged by.
fn block(machine: &MachineResult) -> Option<u64> {
    Some(machine.config.get("page_size")?.as_u64()? << machine.compaction.as_ref()?.order)
}

fn row(machine: &MachineResult) -> Option<Vec<String>> {
    let (used, cost): (&CompactionUse, &CompactionCost) = (machine.compaction.as_ref()?, machine.cost.compaction.as_ref()?);
    let order = used.order as usize;
    let index = |of: &Vec<f64>| of.get(order).map_or_else(|| NONE.into(), |percent| significant(*percent));
    let ran = |text: String| if used.runs == 0 { NONE.into() } else { text };
    Some(vec![
        broken(&machine.name),
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
