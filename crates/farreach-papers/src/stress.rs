//! Whether a stand-in stresses what the original did: a claim about the misses that a design removes says nothing of a
//! program that hardly misses.

use crate::number_text::list;
use crate::printed::Printed;
use farreach_types::papers::{Cell, Program};

/// Share of the printed overhead that a stand-in must reach. Below it, it does not stress what the original did.
pub(crate) const LEAST: f64 = 0.25;

/// The overhead of a stand-in beside that of the program that it stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stress {
    /// The program of the paper.
    pub of: String,
    /// Overhead here.
    pub measured: f64,
    /// Overhead there.
    pub printed: f64,
    /// What both are in: ` %`, ` CPI`.
    pub unit: &'static str,
}

impl Stress {
    /// It is too low here.
    pub fn too_little(&self) -> bool {
        self.measured < LEAST * self.printed
    }

    /// As a cell of a table.
    pub fn cell(stress: Option<&Stress>) -> Cell {
        stress.map_or(Cell::Nothing, |s| (if s.too_little() { "too little" } else { "enough" }).into())
    }

    /// `1.3 % where cactusADM has 39 %`.
    pub fn words(&self) -> String {
        let Stress { of, measured, printed, unit } = self;
        let measured = if *measured < 0.1 { format!("{measured:.3}") } else { format!("{measured:.1}") };
        format!("{measured}{unit} where {of} has {printed}{unit}")
    }
}

/// Head of the column with [`Stress::cell`].
pub(crate) const COLUMN: &str = "stress of the original";

/// The least stress that a program is asked for: that of the original with the least printed overhead among those that
/// it stands for. `None` where nothing is printed or measured.
pub(crate) fn least(paper: &Printed, column: &str, program: &Program, measured: Option<f64>) -> Option<Stress> {
    let of = paper.rows().filter(|row| program.is_like(&[row]));
    let all = of.filter_map(|row| Some((row, paper.number(row, column)?)));
    let (of, printed) = all.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Stress { of: of.into(), measured: measured?, printed, unit: " %" })
}

/// The note under a table with such a column, if a row has too little.
pub(crate) fn note<'a>(rows: impl Iterator<Item = (&'a str, &'a Stress)>) -> Option<String> {
    let too_little = rows.filter(|(_, stress)| stress.too_little());
    let words: Vec<String> = too_little.map(|(program, stress)| format!("{program}: {}", stress.words())).collect();
    (!words.is_empty()).then(|| {
        format!(
            "Too little stress: {}. A stand-in with less than a quarter of the printed overhead does not stress what \
             the original did; for claims about what a design saves it says nothing.",
            list(&words)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed::table;

    #[test]
    fn less_than_a_quarter_of_the_printed_overhead_is_too_little() {
        let stress = |measured| Stress { of: "cactusADM".into(), measured, printed: 40.0, unit: " %" };
        assert!(stress(9.9).too_little() && !stress(10.0).too_little() && !stress(200.0).too_little());
        let (weak, hard) = (stress(1.3), stress(20.0));
        let text = note([("stencil", &weak), ("bfs", &hard)].into_iter()).unwrap();
        assert!(text.starts_with("Too little stress: stencil: 1.3 % where cactusADM has 40 %. "), "{text}");
        assert_eq!(note([("bfs", &hard)].into_iter()), None);
        assert_eq!(Stress::cell(Some(&weak)), Cell::from("too little"));
        assert_eq!(Stress::cell(None), Cell::Nothing);
    }

    #[test]
    fn a_stand_in_for_several_is_asked_for_the_least() {
        let paper = table("ds13_table4");
        let of = |like: &str, measured| {
            least(&paper, "dtlb_4k_pct", &Program { stands_for: like.into(), ..Program::default() }, measured)
        };
        assert_eq!(of("NPB:CG, NPB:BT", Some(2.0)).unwrap().of, "NPB:BT");
        assert_eq!(of("mcf", Some(2.0)), None, "nothing is printed");
        assert_eq!(of("GUPS", None), None, "nothing was run");
    }
}
