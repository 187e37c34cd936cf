//! The numbers the papers print, from `papers/*.csv`, and which of their cells are doubtful.

use farreach_types::papers::Cell;

macro_rules! carried {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name, ".csv")))),*]
    };
}

const CARRIED: &[(&str, &str)] = carried!["papers":
    "t94_table1", "t94_table5", "t94_table6", "t94_table7", "t94_table8", "t94_table9", "t94_table10",
    "t94_fig1_entry_layout",
    "ps_claims", "sv97_table1", "sv97_table2", "sv97_table3", "sv97_table4", "sv97_table5", "sv97_fig8_axes",
    "ds13_table1", "ds13_table2", "ds13_table3", "ds13_table4", "ds13_table5", "ds13_fig_anchors",
    "rmm15_table1", "rmm15_table2", "rmm15_table3", "rmm15_table4", "rmm15_table5", "rmm15_table6", "rmm15_table7",
    "rmm15_fig_anchors", "since_claims", "os_claims",
];
/// Entries as drawn.
const FIGURES: &[(&str, &str)] = carried!["fixtures/t94": "fig2_vectors", "fig3_vectors"];

/// Cells that the papers print and that cannot be right, with the reason: table, row, column.
pub const DOUBTFUL: &[(&str, &str, &str, &str)] = &[
    (
        "t94_table6",
        "coral",
        "super_pct",
        "coral, superpage: 64.3 % is printed; the printed counts, repeated in Table 9, give 63.1 %.",
    ),
    (
        "t94_table7",
        "spice",
        "complete_area",
        "spice, complete: 34 entries and 2.6 are printed; the area model gives 2.53 for 34 entries, and no model \
         linear in the entries gives 2.6 here and the rest of the column.",
    ),
    (
        "t94_table9",
        "coral",
        "partial16_256_k",
        "coral, partial, 256 entries: 3986 stands displaced in the printed table.",
    ),
    ("t94_table10", "mp3d", "single_80e_k", "Table 10 is mostly lost; that 3669 belongs to mp3d is inferred."),
    ("t94_table10", "spice", "single_80e_k", "Table 10 is mostly lost; the column of 14328 is inferred."),
    ("t94_table10", "pthor", "single_80e_k", "Table 10 is mostly lost; the column of 2439 is inferred."),
    ("t94_table10", "ML", "single_80e_k", "Table 10 is mostly lost; the column of 30292 is inferred."),
    ("sv97_table1", "1", "i_side_pct", "Event 1: the printed columns add up to 99.948 and 99.971 %."),
    ("sv97_table1", "1", "d_side_pct", "Event 1 of the data side: as on the instruction side."),
    // AMB-68.
    ("ds13_table4", "MySQL", "dtlb_1g_pct", "MySQL, 1 GB: 43 is printed; the text names 4.3 % as the low end."),
    ("ds13_table4", "NPB:CG", "dtlb_2m_pct", "NPB:CG, 2 MB: 1.4 is printed, the text has 1.45."),
    // AMB-98.
    (
        "rmm15_table7",
        "Graph500",
        "ep_ranges",
        "Graph500, eager: 32 ranges of 187236 pages are 24.5 GB, where 99.99 % of 73 GB are meant; with blocks of 2 GB \
         there are at least 34.",
    ),
    (
        "rmm15_table7",
        "Graph500",
        "ep_avg",
        "Graph500, eager: the mean does not fit the number of ranges and the footprint, see there.",
    ),
    (
        "rmm15_table7",
        "Memcached",
        "dp_ranges",
        "Memcached, demand: 1540 ranges of 29629 pages are 187 GB, where 75 GB are meant; a mean of 11.9 thousand \
         pages would fit.",
    ),
    (
        "rmm15_table7",
        "Memcached",
        "dp_avg",
        "Memcached, demand: the mean does not fit the number of ranges and the footprint, see there.",
    ),
];

/// One printed table.
pub struct Printed {
    name: &'static str,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The printed table with this name; its first column names the rows.
///
/// # Panics
/// There is none: the names are written in this program.
pub fn table(name: &str) -> Printed {
    let (name, text) =
        CARRIED.iter().chain(FIGURES).find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no printed table {name}"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let words = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let head = words(reader.headers().expect("carried tables are CSV"));
    let rows = reader.records().map(|r| words(&r.expect("carried tables are CSV"))).collect();
    Printed { name, head, rows }
}

impl Printed {
    /// The text of a cell; empty if there is no such row.
    pub fn text(&self, row: &str, column: &str) -> &str {
        let at = self
            .head
            .iter()
            .position(|h| h == column)
            .unwrap_or_else(|| panic!("{} has no column {column}", self.name));
        self.rows.iter().find(|r| r[0] == row).map_or("", |r| &r[at])
    }

    /// The number in a cell.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        self.text(row, column).parse().ok()
    }

    /// As a cell of a table. Doubtful ones are marked.
    pub fn cell(&self, row: &str, column: &str) -> Cell {
        let doubtful = DOUBTFUL.iter().any(|&(t, r, c, _)| (t, r, c) == (self.name, row, column));
        match self.number(row, column) {
            Some(x) if doubtful => Cell::Doubtful(x),
            Some(x) => Cell::Number(x),
            None => Cell::from(self.text(row, column)),
        }
    }

    /// Notes about its doubtful cells.
    pub fn doubts(&self) -> impl Iterator<Item = &'static str> {
        let name = self.name;
        DOUBTFUL.iter().filter(move |d| d.0 == name).map(|d| d.3)
    }

    /// Its rows, whole.
    pub fn records(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rows.iter()
    }

    /// Its rows' names.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|r| r[0].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AMB-68: the low ends are one for each page size. AMB-98: four cells contradict the footprints.
    #[test]
    fn readings_of_doubtful_cells() {
        let mysql = ["dtlb_2m_pct", "dtlb_1g_pct"].map(|column| table("ds13_table4").number("MySQL", column));
        assert_eq!(mysql, [Some(4.9), Some(4.3)]);
        assert_eq!(table("rmm15_table7").doubts().count(), 4);
    }

    #[test]
    fn every_carried_table_reads_and_every_doubt_names_a_cell() {
        for (name, _) in CARRIED {
            assert!(table(name).rows().count() > 0, "{name}");
        }
        for (name, row, column, _) in DOUBTFUL {
            assert!(matches!(table(name).cell(row, column), Cell::Doubtful(_)), "{name} {row} {column}");
        }
    }
}
