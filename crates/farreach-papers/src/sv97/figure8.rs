//! Figure 8: overhead by the sizes of both levels and of a line. 64 machines, one pass over each program.

use super::*;
use crate::study::Study;
use farreach_types::papers::{Chart, Origin, Section, Series, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-fig8",
    title: "Overhead of software translation by size of caches and lines",
    rules: "SV97-25, AMB-48, CW-9",
    plan: |_, set| {
        let all = L2.iter().flat_map(|&l2| LINES.iter().flat_map(move |&line| L1.map(|l1| machine(l1, l2, line))));
        grid(set, &all.chain(SECOND.iter().flat_map(|&l2| [second(SOFTVM, l2), second(MIPS, l2)])).collect::<Vec<_>>())
    },
    section,
};

/// Bytes of the first level, to a side.
pub(crate) const L1: [u64; 8] = [KB, 2 * KB, 4 * KB, 8 * KB, 16 * KB, 32 * KB, 64 * KB, 128 * KB];
/// Bytes of the second level, to a side.
pub(crate) const L2: [u64; 2] = [512 * KB, 1024 * KB];
/// Bytes of a line.
pub(crate) const LINES: [u64; 4] = [16, 32, 64, 128];
/// Second levels beyond the figure (H-SV-14, H-SV-15).
pub(crate) const SECOND: [u64; 7] = [32 * KB, 64 * KB, 128 * KB, 256 * KB, 512 * KB, 1024 * KB, 2048 * KB];

/// A point of the figure.
pub(crate) fn machine(l1: u64, l2: u64, line: u64) -> String {
    caches(SOFTVM, l1, l2, line)
}

/// A machine with another second level.
pub(crate) fn second(preset: &str, l2: u64) -> String {
    caches(preset, 8 * KB, l2, 16)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for p in programs(set) {
        let mut table = Table::new(&format!("{}: overhead, cycles per instruction", head(p)), "second level, line");
        L1.iter().for_each(|&l1| table.column(format!("L1 {}", Bytes(l1)), Origin::Measured, "CPI"));
        for l2 in L2 {
            let mut chart = Chart {
                title: format!("{}, second level {}", head(p), Bytes(l2)),
                x: "first level, KB to a side".into(),
                places: L1.map(|l1| (l1 / KB).to_string()).into(),
                y: "overhead CPI".into(),
                series: Vec::new(),
            };
            for line in LINES {
                let values: Vec<Option<f64>> =
                    L1.iter().map(|&l1| overhead_of(results, p, &machine(l1, l2, line))).collect();
                table.row(format!("{}, {line}", Bytes(l2)), values.iter().map(|&v| v.into()).collect());
                chart.series.push(Series { name: format!("line {line}"), values });
            }
            section.charts.push(chart);
        }
        section.tables.push(table);
    }
    let mut sizes = Table::new("Overhead by size of the second level, first level 8K, line 16", "program");
    for l2 in SECOND {
        for name in ["softvm", "mips"] {
            sizes.column(format!("{name} {}", Bytes(l2)), Origin::Measured, "CPI");
        }
    }
    for p in programs(set) {
        let cells =
            SECOND.iter().flat_map(|&l2| [SOFTVM, MIPS].map(|m| overhead_of(results, p, &second(m, l2)).into()));
        sizes.row(head(p), cells.collect());
    }
    section.tables.push(sizes);
    section.note(
        "The printed curves are lost; of them the text says: gcc about ten times less when the second level doubles, \
         vortex two times; three times less from 1 KB to 128 KB of first level; line size worth two times or more, the \
         shortest and the longest line worst; best points below 0.01. The paper ran 10^9 references of each.",
    );
    section.note(
        "Direct-mapped at both levels, lines of equal size, both sides alike. All machines of a program run in one \
         pass.",
    );
    section.note(SUBSTITUTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed;

    #[test]
    fn axes_are_those_of_the_figure() {
        let axes = printed::table("sv97_fig8_axes");
        let values = |row: &str, unit: u64| -> Vec<u64> {
            axes.text(row, "values").split(';').map(|n| unit * n.parse::<u64>().expect("a number")).collect()
        };
        assert_eq!(values("L1 per side (KB)", KB), L1);
        assert_eq!(values("L2 per side (KB)", KB), L2);
        assert_eq!(values("line size (B)", 1), LINES);
        assert!(axes.text("benchmarks", "values").split("; ").all(|name| LIKE.iter().any(|l| l.1 == name)));
    }

    /// Equal machines have equal names, so that the studies share runs.
    #[test]
    fn usual_sizes_are_not_said() {
        assert_eq!(machine(8 * KB, 512 * KB, 16), SOFTVM);
        assert_eq!(second(MIPS, 1024 * KB), "sv97/mips:l2_size=1M");
        assert_eq!(machine(KB, 512 * KB, 64), "sv97/softvm:l1_size=1K,line=64");
    }
}
