//! What the tables and figures of the papers show when they are measured again, as data. Reports turn it into text,
//! pages and files.

mod verdict;

use serde::Serialize;
pub use verdict::{Finding, Head, Judged, Kind, Verdict, claim_order, counts};

/// One table or figure of a paper, measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Section {
    /// Id of the study.
    pub id: String,
    /// One line for display.
    pub title: String,
    /// Rules it rests on.
    pub rules: String,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Charts; all their numbers are in the tables too.
    pub charts: Vec<Chart>,
    /// As before, as bars.
    pub bars: Vec<Bars>,
    /// The claims that rest on it.
    pub verdicts: Vec<Judged>,
    /// What the reader must know: how the numbers were made, which printed cells are doubtful, what cannot be
    /// reproduced.
    pub notes: Vec<String>,
    /// The codes in `rules`, `notes` and verdicts, such as AMB-93, in words.
    pub codes: Vec<Code>,
}

/// A code of the specification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Code {
    /// `AMB-93`.
    pub id: String,
    /// What it says, in a few words.
    pub words: String,
}

/// Rows of numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// One line for display.
    pub title: String,
    /// What the rows are: `program`.
    pub rows_are: String,
    /// The command line that makes it again.
    pub command: String,
    /// Heads.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// Where a number comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Counted here, or derived from what was counted here.
    Measured,
    /// The paper.
    Printed,
    /// A formula without workload, such as the area model.
    Computed,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// What it is about: the design, the size.
    pub name: String,
    /// Where its numbers come from.
    pub origin: Origin,
    /// `misses`, `thousand misses`, `%`, `entries`, `x`, ...; empty for texts.
    pub unit: String,
}

/// A row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its head.
    pub name: String,
    /// The command line that finds its numbers again; empty if only that of the table does.
    pub command: String,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// A value.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// No value: not run, not printed, or lost.
    Nothing,
    /// Words.
    Text(String),
    /// Exact.
    Count(u64),
    /// Anything else.
    Number(f64),
    /// Printed, and doubtful; a note of the section says why.
    #[serde(serialize_with = "plain")]
    Doubtful(f64),
}

fn plain<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*value)
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Chart {
    /// One line for display.
    pub title: String,
    /// Title of the x axis.
    pub x: String,
    /// Labels of the places on the x axis, in equal steps.
    pub places: Vec<String>,
    /// Title of the y axis, which is logarithmic where values differ much.
    pub y: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// Groups of bars: a group for each place, a bar for each series, from 0.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bars {
    /// What they show.
    pub chart: Chart,
    /// Longer bars end here and carry their value.
    pub clip: Option<f64>,
}

/// One line of a chart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// A value per place, where there is one.
    pub values: Vec<Option<f64>>,
}

impl Section {
    /// An empty one.
    pub fn new(id: &str, title: &str, rules: &str) -> Section {
        Section {
            id: id.into(),
            title: title.into(),
            rules: rules.into(),
            tables: Vec::new(),
            charts: Vec::new(),
            bars: Vec::new(),
            verdicts: Vec::new(),
            notes: Vec::new(),
            codes: Vec::new(),
        }
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl Table {
    /// An empty table; `rows_are` is for instance "program".
    pub fn new(title: &str, rows_are: &str) -> Table {
        Table {
            title: title.into(),
            rows_are: rows_are.into(),
            command: String::new(),
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// One more column.
    pub fn column(&mut self, name: impl Into<String>, origin: Origin, unit: &str) {
        self.columns.push(Column { name: name.into(), origin, unit: unit.into() });
    }

    /// One more row.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell per column");
        self.rows.push(Row { name: name.into(), command: String::new(), cells });
    }
}

impl From<Option<u64>> for Cell {
    fn from(value: Option<u64>) -> Cell {
        value.map_or(Cell::Nothing, Cell::Count)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Cell {
        value.map_or(Cell::Nothing, Cell::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        if text.is_empty() { Cell::Nothing } else { Cell::Text(text.into()) }
    }
}

/// Version of the JSON of [`Papers`]. Fields may be added under the same version; none is renamed or removed.
pub const PAPERS_SCHEMA: &str = "farreach.papers/1";

/// Several sections: what `farreach papers` prints.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Papers {
    /// [`PAPERS_SCHEMA`].
    pub schema: String,
    /// Name of the set of programs.
    pub set: String,
    /// The programs of the sections.
    pub programs: Vec<Program>,
    /// One for each paper of which a claim is judged here.
    pub heads: Vec<Head>,
    /// One per table or figure.
    pub sections: Vec<Section>,
}

impl Papers {
    /// The verdicts of all sections, by paper and number, each once.
    pub fn verdicts(&self) -> Vec<&Judged> {
        let mut all: Vec<&Judged> = self.sections.iter().flat_map(|s| &s.verdicts).collect();
        all.sort_by_key(|v| claim_order(&v.id));
        all.dedup_by_key(|v| &v.id);
        all
    }
}

/// A program of a set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Program {
    /// Its name, unique in the set.
    pub name: String,
    /// The programs of the papers whose behaviour it has, in the spelling of the tables, joined by `, `; empty for
    /// others.
    pub stands_for: String,
    /// It has code of its own, so that fetches mean something.
    pub real: bool,
    /// What `farreach sim` takes to run it: a file, or a kernel with its settings.
    pub argument: String,
    /// What `farreach papers --workload` takes to run it as here; empty if nothing does.
    pub workload: String,
}

impl Program {
    /// It stands for one of these programs of the papers, whose tables do not spell them alike (Graph500, graph500).
    pub fn is_like(&self, names: &[&str]) -> bool {
        self.stands_for.split(", ").any(|own| names.iter().any(|name| own.eq_ignore_ascii_case(name)))
    }
}
