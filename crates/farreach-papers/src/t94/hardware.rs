//! Table 7's area model beside synthesised area.

use super::*;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, sized};
use crate::study::Study;
use farreach_cost::area::area_rbe;
use farreach_cost::hardware::{self, Figure, LIBRARY, figures};
use farreach_machine::MachineSpec;
use farreach_types::papers::{Bars, Chart, Origin, Section, Series, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-area",
    title: "Synthesised area beside register-bit equivalents",
    rules: "AREA-1, AREA-2, AREA-3, T94-75",
    plan: |_, _| Vec::new(),
    section,
};

/// Preset, structure of synthesis.
const DESIGNS: [(&str, &str); 4] =
    [(SINGLE, "single"), (SUPERPAGE, "superpage"), (PARTIAL, "partial"), (COMPLETE, "complete")];
const ENTRIES: [u64; 4] = [8, 16, 32, 64];

fn rbe(preset: &str, entries: u64) -> Option<f64> {
    let spec = MachineSpec::parse(&sized(preset, entries), 0).ok()?;
    Some(area_rbe(entries, (spec.hardware.tlb()?.bits)(&spec.params)?))
}

fn find<'a>(all: &'a [Figure], design: &str, entries: u64, library: &str) -> Option<&'a Figure> {
    hardware::find(all, &format!("{design}-{entries}"), library)
}

/// A size of a design: its name, and its area by the model and in cells, in units of a superpage TLB.
#[derive(Clone, PartialEq, Debug)]
struct Pair {
    name: String,
    model: f64,
    cells: f64,
}

/// Those that were synthesised in this library, in units of a superpage TLB of this size.
fn pairs(all: &[Figure], library: &str, unit: u64) -> Vec<Pair> {
    let each = |(preset, design): (&str, &str), entries: u64| {
        let base = find(all, "superpage", unit, library)?;
        Some(Pair {
            name: format!("{design}, {entries} entries"),
            model: rbe(preset, entries)? / rbe(SUPERPAGE, unit)?,
            cells: find(all, design, entries, library)?.area_um2 / base.area_um2,
        })
    };
    DESIGNS.into_iter().flat_map(|design| ENTRIES.into_iter().filter_map(move |n| each(design, n))).collect()
}

fn section(_: &Results, _: &Set, section: &mut Section) {
    let all = figures();
    let pairs_of = pairs(all, LIBRARY, 64);
    section.tables = vec![areas(all, &pairs_of), growth(all), libraries(all)];
    let series = |name: &str, value: fn(&Pair) -> f64| Series {
        name: name.to_owned(),
        values: pairs_of.iter().map(|pair| Some(value(pair))).collect(),
    };
    section.bars.push(Bars {
        chart: Chart {
            title: "Area, 64 superpage entries = 1".into(),
            x: "design".into(),
            places: pairs_of.iter().map(|pair| pair.name.clone()).collect(),
            y: "area".into(),
            series: vec![series("model of 1991", |pair| pair.model), series("synthesised", |pair| pair.cells)],
        },
        clip: None,
    });
    section.note(ranking(&pairs_of));
    section.note(
        "The model counts a bit of RAM as 0.6 and a bit that is compared as 1.2 of a register bit, and drivers at the \
         edges of the arrays. In cells every bit is a flip-flop, with the gates that load, compare and select it, so \
         that a bit of data costs nearly as much as one of a tag: a design with much data for each tag loses more than \
         the model says.",
    );
    section.note(
        "Complete subblocks of 32 and 64 entries are mapped with less effort, because the tools take hours otherwise; \
         complete-quick-16 in rtl/results.csv is that for 16.",
    );
    if let Some(figure) = all.first() {
        section.note(format!("Tools: {}. Corner of {LIBRARY}: {}.", figure.tools, figure.corner));
    }
}

/// The model beside cells.
fn areas(all: &[Figure], pairs: &[Pair]) -> Table {
    let mut table = Table::new("Area, 64 superpage entries = 1", "design");
    table.column("model of 1991", Origin::Computed, "x");
    table.column("synthesised", Origin::Computed, "x");
    table.column("synthesised", Origin::Computed, "µm²");
    table.column("flip-flops", Origin::Computed, "");
    table.column("shortest period", Origin::Computed, "ns");
    table.column("lookup", Origin::Computed, "pJ");
    for (_, design) in DESIGNS {
        for entries in ENTRIES {
            let name = format!("{design}, {entries} entries");
            let Some(figure) = find(all, design, entries, LIBRARY) else { continue };
            let pair = pairs.iter().find(|pair| pair.name == name);
            table.row(
                name,
                vec![
                    pair.map(|pair| pair.model).into(),
                    pair.map(|pair| pair.cells).into(),
                    Cell::Count(figure.area_um2.round() as u64),
                    Cell::Count(figure.flip_flops),
                    Cell::Number(figure.period_ns),
                    figure.request_pj().0.into(),
                ],
            );
        }
    }
    table
}

/// Area of an entry more, and of what does not depend on the entries: the line through the smallest and largest size,
/// in units of the entry of a superpage TLB.
fn growth(all: &[Figure]) -> Table {
    let mut table = Table::new("Growth with the entries: a superpage entry = 1", "design");
    table.column("an entry, model", Origin::Computed, "x");
    table.column("an entry, synthesised", Origin::Computed, "x");
    table.column("beside entries, model", Origin::Computed, "entries of its own");
    table.column("beside entries, synthesised", Origin::Computed, "entries of its own");
    let model = |preset: &str| line(&ENTRIES.map(|n| (n, rbe(preset, n))));
    let cells = |design: &str| line(&ENTRIES.map(|n| (n, find(all, design, n, LIBRARY).map(|f| f.area_um2))));
    let (model_unit, cells_unit) = (model(SUPERPAGE), cells("superpage"));
    for (preset, design) in DESIGNS {
        let (by_model, by_cells) = (model(preset), cells(design));
        let of = |line: Option<(f64, f64)>, unit: Option<(f64, f64)>| Some(line?.1 / unit?.1);
        let beside = |line: Option<(f64, f64)>| line.map(|(none, each)| none / each);
        table.row(
            design,
            vec![
                of(by_model, model_unit).into(),
                of(by_cells, cells_unit).into(),
                beside(by_model).into(),
                beside(by_cells).into(),
            ],
        );
    }
    table
}

/// Area without entries, and of one more, through the first and last size that is there.
fn line(sizes: &[(u64, Option<f64>)]) -> Option<(f64, f64)> {
    let there = || sizes.iter().filter_map(|&(entries, area)| Some((entries as f64, area?)));
    let ((n, first), (m, last)) = (there().next()?, there().next_back()?);
    let each = (last - first) / (m - n);
    (m > n).then_some((first - n * each, each))
}

/// 16 entries in each library: how much depends on it.
fn libraries(all: &[Figure]) -> Table {
    let libraries = hardware::libraries(all);
    let mut table = Table::new("Area by library, 16 superpage entries = 1", "design");
    table.column("model of 1991", Origin::Computed, "x");
    libraries.iter().for_each(|library| table.column(*library, Origin::Computed, "x"));
    for (preset, design) in DESIGNS {
        let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        let mut cells = vec![ratio(rbe(preset, 16), rbe(SUPERPAGE, 16)).into()];
        for library in &libraries {
            let area = |design: &str| find(all, design, 16, library).map(|figure| figure.area_um2);
            cells.push(ratio(area(design), area("superpage")).into());
        }
        table.row(format!("{design}, 16 entries"), cells);
    }
    table
}

/// Does the model rank them as synthesis does?
fn ranking(pairs: &[Pair]) -> String {
    let mut other = Vec::new();
    let mut compared = 0;
    for (i, a) in pairs.iter().enumerate() {
        for b in &pairs[i + 1..] {
            compared += 1;
            if (a.model < b.model) != (a.cells < b.cells) {
                let say = |of: &Pair| format!("{} ({:.2}, {:.2})", of.name, of.model, of.cells);
                other.push(format!("{} and {}", say(a), say(b)));
            }
        }
    }
    match other.is_empty() {
        true => format!("The model ranks all {compared} pairs of rows as synthesis does."),
        false => format!(
            "The model ranks {} of {compared} pairs of rows as synthesis does. The others (model, synthesised): {}.",
            compared - other.len(),
            other.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, model: f64, cells: f64) -> Pair {
        Pair { name: name.into(), model, cells }
    }

    #[test]
    fn ranks_are_compared_pair_by_pair() {
        let same = [pair("a", 1.0, 10.0), pair("b", 2.0, 20.0), pair("c", 3.0, 30.0)];
        assert_eq!(ranking(&same), "The model ranks all 3 pairs of rows as synthesis does.");
        let other = [pair("a", 1.0, 25.0), pair("b", 2.0, 20.0), pair("c", 3.0, 30.0)];
        let text = ranking(&other);
        assert!(text.contains("2 of 3 pairs") && text.contains(": a (1.00, 25.00) and b (2.00, 20.00)."), "{text}");
    }

    #[test]
    fn areas_are_on_a_line() {
        // 100 and 5 for each entry.
        assert_eq!(line(&[(8, None), (16, Some(180.0)), (32, Some(999.0)), (64, Some(420.0))]), Some((100.0, 5.0)));
        assert_eq!(line(&[(8, None), (16, Some(180.0))]), None);
    }

    /// AREA-1 at 16 and 64 entries: 130 + 0.6 (n + 6)(46 + 1 + 6) + 0.6 (1.4142 n + 6)(1.4142 x 68 + 6).
    #[test]
    fn area_1_superpage_by_hand() {
        let by_hand =
            |n: f64| 130.0 + 0.6 * (n + 6.0) * 53.0 + 0.6 * (2f64.sqrt() * n + 6.0) * (2f64.sqrt() * 68.0 + 6.0);
        for (entries, area) in [(16, by_hand(16.0)), (64, by_hand(64.0))] {
            assert!((rbe(SUPERPAGE, entries).unwrap() - area).abs() < 1e-9, "{entries}");
        }
        assert_eq!(format!("{:.0}", by_hand(64.0)), "8272");
    }

    #[test]
    fn there_is_a_row_for_each_size_that_was_synthesised() {
        let all = figures();
        let pairs = pairs(all, LIBRARY, 64);
        let there = |design: &str, n: u64| find(all, design, n, LIBRARY).is_some();
        let rows = DESIGNS.iter().flat_map(|(_, design)| ENTRIES.map(|n| there(design, n))).filter(|there| *there);
        assert_eq!((pairs.len(), pairs.len() >= 10), (rows.count(), true));
        let unit = pairs.iter().find(|pair| pair.name == "superpage, 64 entries").unwrap();
        assert_eq!((unit.model, unit.cells), (1.0, 1.0));
    }
}
