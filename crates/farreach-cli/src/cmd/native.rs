//! `farreach workloads KERNEL --native --pages 4k,2m`: the kernel on real memory with pages of several sizes, beside
//! the prediction.

use super::common::{note, own_path, print, terminal_width, threads};
use anyhow::Result;
use farreach_kernels::{Kernel, Settings};
use farreach_native::pages::{Comparison, MACHINES, PageSize, Predicted, measure, predict, sizes, spread, told};
use farreach_report::format::{NONE, bytes, count, digits, rate};
use farreach_report::grid::lines;

/// Measures, then predicts, and prints a table after each.
pub fn compare(kernel: &Kernel, settings: &Settings, pages: &[PageSize], rounds: u32) -> Result<()> {
    let sizes = sizes(pages, &mut |line| note(line))?;
    let found = measure(kernel, settings, sizes, rounds, &own_path()?)?;
    let mut out = format!(
        "kernel/{}, {}, {} references, {rounds} rounds in turns; user time of the algorithm. Its input, made before, \
         took {} times as long and does not count.\n",
        kernel.name,
        bytes(settings.size),
        count(found.runs[0][0].references),
        rate(found.setup()),
    );
    if !found.loads.is_empty() {
        let [median, least, most] = spread(found.loads.iter().copied());
        out += &format!("Load of this machine meanwhile: {median:.1} ({least:.1} to {most:.1}).\n");
    }
    out += &format!("\n{}", measured_table(&found));
    out += "
chain of 256 pages: how many times as long a load takes there, each after the other, as in one of 16; 1 where one TLB \
entry holds them all.
";
    if found.is_virtual {
        out += "This is a virtual machine: its walks go through two page tables, the predicted ones through one.\n";
    }
    if found.large_entries() == Some(false) {
        out += "The chain misses the first TLB on pages of 2 MB as it does on those of 4 KB: entries are no larger \
with them here, as when a host maps the
memory of its guest in 4 KB pages. What they spare is the last level of a walk; the machines that predict have entries \
of 2 MB.\n";
    }
    // The measurement is printed before the prediction, which takes long.
    print(&out)?;
    let predicted = predict(kernel, settings, &found.sizes, threads(0))?;
    print(&format!(
        "\n{}
alone: misses and `cpi` cycles per instruction, nothing else (no data cache).
on top: what the machine says that 4 KB pages add to the time measured with the larger ones (as RMM15-40 takes the \
ideal time).
a walk here: the cycles a walk would have to cost for that to be the measured time; beside them what the machine takes \
for one.\n",
        predicted_table(&found.sizes, &found.cycles(), &predicted)
    ))
}

fn head<const N: usize>(first: [&str; N], second: [&str; N]) -> [Vec<String>; 2] {
    [first, second].map(|line| line.map(str::to_owned).to_vec())
}

fn measured_table(found: &Comparison) -> String {
    let heads = head(
        ["measured", "of arrays", "chain of", "cycles a", "times as fast as 4 KB", ""],
        ["pages", "in such", "256 pages", "reference", "median", "least to most"],
    );
    let row = |(at, (size, cycles)): (usize, (&PageSize, Option<f64>))| {
        let [median, least, most] = found.speedup(at);
        vec![
            size.name(),
            if *size == PageSize::BASE { NONE.to_owned() } else { format!("{} %", rate(found.held_percent(at))) },
            digits(found.chain(at)),
            cycles.map_or_else(|| NONE.to_owned(), digits),
            format!("{median:.2}"),
            format!("{least:.2} to {most:.2}"),
        ]
    };
    let rows: Vec<_> = found.sizes.iter().zip(found.cycles()).enumerate().map(row).collect();
    lines(&heads, &rows, terminal_width())
}

/// `measured`: cycles of this machine for each data reference, by size.
fn predicted_table(sizes: &[PageSize], measured: &[Option<f64>], predicted: &[Predicted]) -> String {
    let heads = head(
        ["", "", "per 1000", "references", "cycles a", "times as", "fast", "cycles of", "cycles"],
        ["predicted", "pages", "second level", "walks", "reference", "alone", "on top", "a walk here", "taken"],
    );
    let none = || NONE.to_owned();
    let mut rows = Vec::new();
    for (preset, of) in MACHINES.iter().zip(predicted.chunks(sizes.len())) {
        for (i, (size, own)) in sizes.iter().zip(of).enumerate() {
            let told = told(&of[0], own, [measured[0], measured[i]]);
            let first = i == 0;
            rows.push(vec![
                if first { (*preset).to_owned() } else { String::new() },
                size.name(),
                rate(1000.0 * own.second),
                rate(1000.0 * own.walks),
                digits(own.cycles),
                if first { none() } else { format!("{:.2}", told.alone) },
                if first { none() } else { told.on_top.map_or_else(none, |x| format!("{x:.2}")) },
                told.walk.map_or_else(none, |x| format!("{x:.0}")),
                if own.walks > 0.0 { format!("{:.0}", own.walk_cycles / own.walks) } else { none() },
            ]);
        }
    }
    lines(&heads, &rows, terminal_width())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [PageSize; 2] = [PageSize::BASE, PageSize { bytes: 2 << 20 }];

    /// 4 KB: 0.25 walks at 48 cycles; 2 MB: 0.2 hits of the second level at 7. Measured 36 and 16 cycles.
    #[test]
    fn a_prediction_is_a_row_for_each_size() {
        let four = Predicted { walks: 0.25, cycles: 12.0, walk_cycles: 12.0, work: 4.5, ..Predicted::default() };
        let two = Predicted { second: 0.2, cycles: 1.4, work: 4.5, ..Predicted::default() };
        let table = predicted_table(&SIZES, &[Some(36.0), Some(16.0)], &[[four, two]; 4].concat());
        let row = table.lines().rfind(|line| line.contains("2M")).unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["2M", "200", "0", "1.40", "2.80", "1.66", "86", "–"],
            "{table}"
        );
        let table = predicted_table(&SIZES, &[None, None], &[[four, two]; 4].concat());
        assert!(table.lines().filter(|line| line.contains("2M")).all(|line| line.contains("2.80")), "{table}");
    }
}
