//! Design by design, against the machine without it.

use super::*;
use farreach_types::papers::{Bars, Chart, Series};

pub(crate) const STUDY: Study = Study {
    id: "since-designs",
    title: "Walks, sole answers, references and cycles of designs since 2000, against the machine without them",
    rules: "HW-2, HW-7, HW-L1",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(DESIGNS.iter())));
        wanted
    },
    section,
};

/// Programs that walk often enough on the base.
pub(crate) fn busy<'a>(results: &'a Results, set: &'a Set) -> impl Iterator<Item = &'a Program> + Clone {
    programs(set).filter(move |p| walks_enough(results, &p.name, BASE) == Some(true))
}

/// A design in percent of its base, by geometric mean over the programs that walk often enough.
pub(crate) fn mean(results: &Results, set: &Set, design: &Design, of: fn(&Walks) -> u64) -> Option<f64> {
    let pairs = busy(results, set).map(|p| {
        let walks = |machine| Walks::of(results, &p.name, machine);
        Some((of(&walks(design.machine)?), of(&walks(design.base)?)))
    });
    geomean(pairs.collect::<Option<Vec<_>>>()?.into_iter())
}

type What = (&'static str, fn(&Walks) -> u64);

const WHAT: [What; 3] = [
    ("Walks", |w| w.walks),
    ("References that the program waits for, less those that are hidden, and references in the background", |w| {
        (w.demand - w.hidden) + w.background
    }),
    ("Cycles of translation by the model", |w| w.cycles),
];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut means = Table::new("In percent of the machine without the design, geometric means", "design");
    means.column("walks", Origin::Measured, "%");
    means.column("sole answers", Origin::Measured, "% of misses");
    means.column("references waited for", Origin::Measured, "%");
    means.column("of these hidden", Origin::Measured, "%");
    means.column("in the background", Origin::Measured, "% of the references without it");
    means.column("cycles", Origin::Measured, "%");
    for d in DESIGNS {
        let all: Option<Vec<(Walks, Walks)>> = busy(results, set)
            .map(|p| Some((Walks::of(results, &p.name, d.machine)?, Walks::of(results, &p.name, d.base)?)))
            .collect();
        let sum = |of: fn(&(Walks, Walks)) -> u64| all.as_ref().map(|all| all.iter().map(of).sum::<u64>());
        let ratio = |a: Option<u64>, b: Option<u64>| a.zip(b).filter(|&(_, b)| b > 0).map(|(a, b)| share(a, b));
        let cells = vec![
            mean(results, set, d, |w| w.walks).into(),
            ratio(sum(|(w, _)| w.sole), sum(|(w, _)| w.sole + w.walks)).into(),
            mean(results, set, d, |w| w.demand).into(),
            ratio(sum(|(w, _)| w.hidden), sum(|(w, _)| w.demand)).into(),
            ratio(sum(|(w, _)| w.background), sum(|(_, b)| b.demand)).into(),
            mean(results, set, d, |w| w.cycles).into(),
        ];
        means.row(d.name, cells);
    }
    section.tables.push(means);
    let mut base = Table::new("The machine without them", "program");
    for (name, unit) in [("walks", "walks"), ("pages", "pages"), ("references", "references"), ("cycles", "cycles")] {
        base.column(name, Origin::Measured, unit);
    }
    base.column("references a walk", Origin::Measured, "references");
    for p in programs(set) {
        let of = Walks::of(results, &p.name, BASE);
        let counts = of.map_or([None; 4], |w| [w.walks, w.pages, w.demand, w.cycles].map(Some));
        let cells = counts.map(Cell::from);
        base.row(&p.name, [&cells[..], &[of.and_then(|w| w.each()).into()]].concat());
    }
    section.tables.push(base);
    let shown: Vec<&Program> = walking(results, set).collect();
    for (title, of) in WHAT {
        let mut table = Table::new(&format!("{title}, in percent of the machine without the design"), "design");
        shown.iter().for_each(|p| table.column(&p.name, Origin::Measured, "%"));
        for d in DESIGNS {
            let cell = |p: &&Program| -> Option<f64> {
                let base = of(&Walks::of(results, &p.name, d.base)?);
                (base > 0).then_some(())?;
                Some(share(of(&Walks::of(results, &p.name, d.machine)?), base))
            };
            table.row(d.name, shown.iter().map(|p| cell(p).into()).collect());
        }
        section.tables.push(table);
    }
    let places: Vec<String> = DESIGNS.iter().map(|d| d.name.to_owned()).collect();
    let series = [("walks", WHAT[0].1), ("references", WHAT[1].1), ("cycles", WHAT[2].1)].map(|(name, of)| Series {
        name: name.into(),
        values: DESIGNS.iter().map(|d| mean(results, set, d, of)).collect(),
    });
    let chart = Chart {
        title: "Against the machine without the design".into(),
        x: "design".into(),
        places,
        y: "% of the machine without it".into(),
        series: series.into(),
    };
    section.bars.push(Bars { chart, clip: Some(200.0) });
    section.note(format!(
        "Means are of programs that walk at least {LEAST_WALKS} times beyond the first walk to each page. The base is \
         {BASE}; that of victima reads walks through the same caches ({BASE_VICTIMA}), that of spectlb has \
         reservations ({BASE_RESERVED}), that of utopia its placement ({BASE_RESTRICTED}), that of spot, \
         clustered, colt-all and anchor memory in one piece ({BASE_EAGER}), that of shadow and agile is in a virtual \
         machine, too ({NESTED}). Other programs of the set run on the base alone."
    ));
    section.note(MODEL);
}
