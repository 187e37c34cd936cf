//! Section 8.4: the range TLB beside the L2 TLB as hardware, and what a larger L2 TLB would bring for the same.

use super::large::{RMM_OFF, data_misses, ranges_of};
use super::*;
use farreach_cost::hardware::{self, Figure, LIBRARY, figures, find};
use farreach_types::papers::{Chart, Series};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-hw",
    title: "Area, clock and energy of the range TLB beside the L2 TLB, synthesised",
    rules: "RMM15-46, RMM15-2, RMM15-3",
    plan: |_, set| {
        let machines: Vec<String> =
            larger(figures()).into_iter().map(l2_of).chain(RANGE_ENTRIES.map(ranges_of)).collect();
        let machines: Vec<&str> = machines.iter().map(String::as_str).chain([RMM_OFF]).collect();
        large::grid(set.large.iter(), &machines)
    },
    section,
};

/// The L2 TLB of the paper.
const L2: &str = "l2-512";
/// Its range TLB.
const RANGES: &str = "range-32";
const RANGE_ENTRIES: [u64; 5] = [8, 16, 32, 64, 128];
const L2_ENTRIES: [u64; 3] = [128, 256, 512];
/// Entries and sets of the L2 TLB of the paper.
const PAPER_ENTRIES: u64 = 512;
const SETS: u64 = 128;

/// What a structure takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Take {
    /// Square micrometres.
    Area,
    /// Energy in pJ of a cycle with a lookup, clock included, the mean of the programs.
    Power,
}

impl Take {
    fn of(self, figure: &Figure) -> Option<f64> {
        match self {
            Take::Area => Some(figure.area_um2),
            Take::Power => {
                let all = figure.energies.iter().map(|e| e.clock + e.idle + e.lookup);
                (!figure.energies.is_empty()).then(|| all.sum::<f64>() / figure.energies.len() as f64)
            }
        }
    }

    fn find(self, all: &[Figure], configuration: &str) -> Option<f64> {
        self.of(find(all, configuration, LIBRARY)?)
    }

    /// The L2 TLB that takes as much as this range TLB, in entries: on the line through the two sizes nearest to it.
    fn equal_l2(self, all: &[Figure], ranges: u64) -> Option<f64> {
        let takes = self.find(all, &format!("range-{ranges}"))?;
        let l2 = |entries: u64| self.find(all, &format!("l2-{entries}"));
        let upper = if takes <= l2(256)? { [128, 256] } else { [256, 512] };
        let [(a, at_a), (b, at_b)] = [(upper[0], l2(upper[0])?), (upper[1], l2(upper[1])?)];
        Some(a as f64 + (takes - at_a) * (b - a) as f64 / (at_b - at_a))
    }

    /// Entries that the L2 TLB of the paper could have more instead of this range TLB: along the line from 256 to 512
    /// entries.
    fn more_entries(self, all: &[Figure], ranges: u64) -> Option<f64> {
        let [small, large] = [self.find(all, "l2-256")?, self.find(all, L2)?];
        Some(self.find(all, &format!("range-{ranges}"))? * 256.0 / (large - small))
    }

    /// The L2 TLB with those entries more, in whole ways of 128 sets.
    fn larger_l2(self, all: &[Figure], ranges: u64) -> Option<u64> {
        let entries = PAPER_ENTRIES as f64 + self.more_entries(all, ranges)?;
        Some((entries / SETS as f64).ceil() as u64 * SETS)
    }
}

/// 100 x `a` / `b`.
fn percent(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(100.0 * a? / b.filter(|b| *b > 0.0)?)
}

/// The L2 TLBs that stand for range TLBs of any size, in entries.
fn larger(all: &[Figure]) -> Vec<u64> {
    let each = |ranges| [Take::Area, Take::Power].map(|take| take.larger_l2(all, ranges));
    let mut sizes: Vec<u64> = RANGE_ENTRIES.into_iter().flat_map(each).flatten().collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The machine without a range TLB and with an L2 TLB of this number of entries.
fn l2_of(entries: u64) -> String {
    format!("{RMM_OFF},l2=4K:{entries}/{}", entries / SETS)
}

/// The printed shares, in percent: area, power.
fn printed_share(what: &str) -> Cell {
    let paper = printed::table("rmm15_fig_anchors");
    let row = paper.records().find(|row| row[1] == what);
    row.and_then(|row| row[2].parse::<f64>().ok()).map(|share| 100.0 * share).into()
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let all = figures();
    section.tables = vec![shares(all), sizes(all), instead(all), walks(all, results, set), others(all), libraries(all)];
    section.charts.push(Chart {
        title: "Area in thousand NAND gates, by entries".into(),
        x: "entries".into(),
        places: [8, 16, 32, 64, 128, 256, 512u64].iter().map(u64::to_string).collect(),
        y: "thousand NAND2".into(),
        series: [("range TLB", "range"), ("L2 TLB, 4 ways", "l2")]
            .map(|(name, structure)| {
                let value = |entries: u64| Some(find(all, &format!("{structure}-{entries}"), LIBRARY)?.nand2 / 1000.0);
                let values = [8, 16, 32, 64, 128, 256, 512].map(value).into();
                Series { name: name.to_owned(), values }
            })
            .into(),
    });
    if let Some(figure) = all.first() {
        section.note(format!("Tools: {}. Corner of {LIBRARY}: {}.", figure.tools, figure.corner));
    }
    section.note(
        "The paper synthesised both structures with D flip-flops for all memory cells, timing first, six cycles for a \
         search. Here they are flip-flops and six cycles too, in the 0.18 and 0.35 micrometre libraries of Oklahoma \
         State University, typical corner, mapped by Yosys and abc. Wires take no area and no energy, there is no \
         clock gating, and no tree of buffers for the clock. Fields have the widths of RMM15-7: 36 bits of page and of \
         frame, 12 of process, 8 of attributes.",
    );
    section.note(
        "Power depends on what is compared. A lookup adds switching of nets, as the cells did it in excerpts of \
         programs: that is its energy here. The clock of all flip-flops is the larger part where nothing gates it; \
         with it the ratio is nearly that of the areas. The paper does not say which activity its 39.6 % are for.",
    );
    section.note(
        "Periods are of nets with trees of buffers, so that nothing drives more than 16 inputs; the clock comes to all \
         flip-flops at once. The slowest way of a range TLB goes from the match through the search for the entry to \
         replace, entry by entry; what it enables is changed a cycle later.",
    );
    section.note(
        "L2 TLBs that take as much are on the line through the two nearest sizes; more entries of that of 512 on the \
         line from 256 to 512. Whole ways: as many as that takes at 128 sets.",
    );
    section.note(large::SCALED);
}

/// The two ratios of the paper.
fn shares(all: &[Figure]) -> Table {
    let mut table = Table::new("Range TLB of 32 entries, in percent of the L2 TLB of 512", "of");
    table.column(LIBRARY, Origin::Computed, "%");
    table.column("the paper", Origin::Printed, "%");
    let (range, l2) = (find(all, RANGES, LIBRARY), find(all, L2, LIBRARY));
    let of = |value: &dyn Fn(&Figure) -> Option<f64>| percent(range.and_then(value), l2.and_then(value));
    let power = || printed_share("range TLB power relative to L2 TLB");
    table.row(
        "area",
        vec![of(&|figure| Some(figure.area_um2)).into(), printed_share("range TLB area relative to L2 TLB")],
    );
    for program in l2.iter().flat_map(|figure| &figure.energies).map(|energies| &*energies.program) {
        let lookup = of(&|figure| Some(figure.energies.iter().find(|e| e.program == program)?.lookup));
        table.row(format!("energy of a lookup, {program}"), vec![lookup.into(), power()]);
    }
    table.row("energy of a lookup, mean", vec![of(&|figure| figure.request_pj().0).into(), power()]);
    table.row(
        "power of a lookup at each cycle, clock included",
        vec![of(&|figure| Take::Power.of(figure)).into(), power()],
    );
    table.row("shortest period", vec![of(&|figure| Some(figure.period_ns)).into(), Cell::Nothing]);
    table
}

/// Columns of a structure by itself.
fn figure_columns(table: &mut Table) {
    table.column("area", Origin::Computed, "µm²");
    table.column("area", Origin::Computed, "% of L2");
    table.column("flip-flops", Origin::Computed, "");
    table.column("shortest period", Origin::Computed, "ns");
    table.column("clock", Origin::Computed, "pJ a cycle");
    table.column("lookup", Origin::Computed, "pJ");
    table.column("fill", Origin::Computed, "pJ");
}

fn figure_cells(all: &[Figure], figure: &Figure) -> Vec<Cell> {
    let (lookup, fill) = figure.request_pj();
    vec![
        Cell::Count(figure.area_um2.round() as u64),
        percent(Some(figure.area_um2), Take::Area.find(all, L2)).into(),
        Cell::Count(figure.flip_flops),
        Cell::Number(figure.period_ns),
        figure.energies.first().map(|e| e.clock).into(),
        lookup.into(),
        fill.into(),
    ]
}

/// Both by entries.
fn sizes(all: &[Figure]) -> Table {
    let mut table = Table::new(&format!("By entries, in {LIBRARY}"), "structure");
    figure_columns(&mut table);
    let names = RANGE_ENTRIES.map(|n| ("range", "range TLB", n)).into_iter();
    for (structure, name, entries) in names.chain(L2_ENTRIES.map(|n| ("l2", "L2 TLB", n))) {
        let Some(figure) = find(all, &format!("{structure}-{entries}"), LIBRARY) else { continue };
        table.row(format!("{name}, {entries} entries"), figure_cells(all, figure));
    }
    table
}

/// L2 TLBs in place of range TLBs.
fn instead(all: &[Figure]) -> Table {
    let mut table =
        Table::new("L2 TLBs that take as much as a range TLB, and what the L2 of 512 gets for it", "range TLB");
    for column in ["as much", "more for it", "in whole ways"] {
        table.column(column, Origin::Computed, "entries");
    }
    for (take, name) in [(Take::Area, "area"), (Take::Power, "power")] {
        for ranges in RANGE_ENTRIES {
            let equal = take.equal_l2(all, ranges).filter(|entries| *entries > 0.0);
            let larger = take.larger_l2(all, ranges);
            let cells = vec![equal.into(), take.more_entries(all, ranges).into(), larger.into()];
            table.row(format!("{ranges} entries, {name}"), cells);
        }
    }
    table
}

/// What is left of the walks with range TLBs, and with larger L2 TLBs.
fn walks(all: &[Figure], results: &Results, set: &Set) -> Table {
    let title = "Walks that are left, in percent of those of an L2 TLB of 512 entries without a range TLB";
    let mut table = Table::new(title, "program");
    let larger = larger(all);
    let machines: Vec<String> =
        RANGE_ENTRIES.map(ranges_of).into_iter().chain(larger.iter().map(|&n| l2_of(n))).collect();
    RANGE_ENTRIES.iter().for_each(|n| table.column(format!("{n} ranges"), Origin::Measured, "%"));
    larger.iter().for_each(|n| table.column(format!("L2, {n} entries"), Origin::Measured, "%"));
    let left = |program: &str, machine: &str| {
        let walks = |machine: &str| data_misses(results, program, machine).map(|n| n as f64);
        percent(walks(machine), walks(RMM_OFF))
    };
    for p in &set.large {
        table.row(&p.name, machines.iter().map(|machine| left(&p.name, machine).into()).collect());
    }
    let mean = |machine: &String| large::mean(set.large.iter().map(|p| left(&p.name, machine)));
    table.row("mean of the programs", machines.iter().map(|machine| mean(machine).into()).collect());
    table
}

/// What else there is.
fn others(all: &[Figure]) -> Table {
    let mut table = Table::new(&format!("Other structures, in {LIBRARY}"), "structure");
    figure_columns(&mut table);
    for (name, configuration) in [
        ("L1 data TLB, 64 entries, 4 ways", "l1d-64"),
        ("L1 instruction TLB, 128 entries, 4 ways", "l1i-128"),
        ("L1 data TLB for 2 MB, 32 entries, 4 ways", "l1d-2m-32"),
        ("direct segment", "segment"),
        ("page walker", "walker-bare"),
        ("page walker, 2 cached entries", "walker"),
        ("range-table walker", "range-walker"),
    ] {
        let Some(figure) = find(all, configuration, LIBRARY) else { continue };
        table.row(name, figure_cells(all, figure));
    }
    table
}

/// Ratios in each library: how much depends on it.
fn libraries(all: &[Figure]) -> Table {
    let libraries = hardware::libraries(all);
    let mut table = Table::new("In percent of another structure, by library", "structure");
    for library in &libraries {
        table.column(*library, Origin::Computed, "% of area");
        table.column(*library, Origin::Computed, "% of period");
        table.column(*library, Origin::Computed, "% of lookup");
    }
    for (name, configuration, base) in [
        ("range TLB of 32, of the L2 TLB of 128", RANGES, "l2-128"),
        ("range TLB of 32, of the L1 TLB of 64", RANGES, "l1d-64"),
        ("direct segment, of the L1 TLB of 64", "segment", "l1d-64"),
    ] {
        let mut cells = Vec::new();
        for library in &libraries {
            let (of, base) = (find(all, configuration, library), find(all, base, library));
            cells.push(percent(of.map(|f| f.area_um2), base.map(|f| f.area_um2)).into());
            cells.push(percent(of.map(|f| f.period_ns), base.map(|f| f.period_ns)).into());
            cells.push(percent(of.and_then(|f| f.request_pj().0), base.and_then(|f| f.request_pj().0)).into());
        }
        table.row(name, cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_cost::hardware::Energies;

    fn figure(configuration: &str, area_um2: f64, power: [f64; 2]) -> Figure {
        let energies = |lookup| Energies { program: "p".into(), clock: 10.0, idle: 1.0, lookup, fill: None };
        Figure {
            configuration: configuration.into(),
            library: LIBRARY.into(),
            corner: String::new(),
            tools: String::new(),
            area_um2,
            nand2: area_um2,
            flip_flops: 0,
            period_ns: 1.0,
            leakage_nw: 0.0,
            energies: power.map(|power| energies(power - 11.0)).into(),
        }
    }

    /// An L2 TLB that takes 100 + 2 n below 256 entries, and 4 n - 412 above.
    fn all() -> Vec<Figure> {
        vec![
            figure("l2-128", 356.0, [356.0, 356.0]),
            figure("l2-256", 612.0, [612.0, 612.0]),
            figure("l2-512", 1636.0, [1636.0, 1636.0]),
            figure("range-8", 156.0, [300.0, 312.0]),
            figure("range-32", 400.0, [800.0, 824.0]),
            figure("range-64", 1012.0, [1012.0, 1012.0]),
        ]
    }

    #[test]
    fn l2_tlbs_in_the_area_of_a_range_tlb() {
        let all = all();
        let near =
            |value: Option<f64>, wanted: f64| assert!((value.unwrap() - wanted).abs() < 1e-9, "{value:?} {wanted}");
        // On the lower line, and beyond its end: 28 entries take 156. On the upper one: 356 take 1012.
        near(Take::Area.equal_l2(&all, 8), 28.0);
        near(Take::Area.equal_l2(&all, 32), 150.0);
        near(Take::Area.equal_l2(&all, 64), 356.0);
        // 4 for each more of 512: 100 entries for 400, which takes one way more; 253 for 1012, two.
        near(Take::Area.more_entries(&all, 32), 100.0);
        assert_eq!(Take::Area.larger_l2(&all, 32), Some(640));
        assert_eq!(Take::Area.larger_l2(&all, 64), Some(768));
        // The mean of both programs counts.
        near(Take::Power.equal_l2(&all, 8), 103.0);
        near(Take::Power.more_entries(&all, 32), 203.0);
        assert_eq!(larger(&all), [640, 768]);
        assert_eq!(l2_of(768), format!("{RMM_OFF},l2=4K:768/6"));
    }

    #[test]
    fn machines_are_descriptions_that_can_be_read() {
        for entries in larger(figures()) {
            farreach_machine::MachineSpec::parse(&l2_of(entries), 0).unwrap_or_else(|e| panic!("{e}"));
        }
        assert_eq!(percent(Some(1.0), Some(0.0)), None);
    }

    /// What RMM15 prints is found.
    #[test]
    fn rmm15_46_printed_shares() {
        for (what, share) in [("area", 13.0), ("power", 39.6)] {
            let Cell::Number(found) = printed_share(&format!("range TLB {what} relative to L2 TLB")) else {
                panic!("{what}")
            };
            assert!((found - share).abs() < 1e-9, "{what}: {found}");
        }
    }
}
