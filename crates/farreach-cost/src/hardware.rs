//! Area, clock and energy of the structures as hardware, from the synthesis of `rtl/` (RMM15-46): `rtl/results.csv`,
//! which `make rtl-synth` writes.

use serde::Deserialize;
use std::sync::OnceLock;

/// The results, as they were written.
const RESULTS: &str = include_str!("../../../rtl/results.csv");

/// The library that has all structures.
pub const LIBRARY: &str = "osu018";

/// A structure of one size in cells of one library.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Structure and entries, such as `l2-512`.
    pub configuration: String,
    /// The library of cells.
    pub library: String,
    /// Process, voltage, temperature.
    pub corner: String,
    /// Versions of the tools.
    pub tools: String,
    /// Area of the cells in square micrometres; wires take none.
    pub area_um2: f64,
    /// The same in units of the library's two-input NAND.
    pub nand2: f64,
    /// Number of flip-flops.
    pub flip_flops: u64,
    /// Shortest period of the clock in ns.
    pub period_ns: f64,
    /// Leakage in nW.
    pub leakage_nw: f64,
    /// Energies, program by program.
    pub energies: Vec<Energies>,
}

/// Energies of a structure at work for a program, in pJ.
#[derive(Clone, PartialEq, Debug)]
pub struct Energies {
    /// The program.
    pub program: String,
    /// Of the clock, at each cycle.
    pub clock: f64,
    /// Of everything else in a cycle without a request.
    pub idle: f64,
    /// Of a lookup, beyond clock and idle cycles.
    pub lookup: f64,
    /// Of a fill, as before; `None` if there was none.
    pub fill: Option<f64>,
}

impl Figure {
    /// Feature size of its library in nm: the digits of its name, in hundredths of a micrometre.
    ///
    /// # Panics
    /// If the name has no digits.
    pub fn technology(&self) -> u64 {
        let digits = self.library.trim_start_matches(|c: char| !c.is_ascii_digit());
        10 * digits.parse::<u64>().unwrap_or_else(|_| panic!("library {}: no feature size in its name", self.library))
    }

    /// Energy in pJ of a lookup and of a fill, each the mean of its programs.
    pub fn request_pj(&self) -> (Option<f64>, Option<f64>) {
        let mean = |of: Vec<f64>| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        let fills = self.energies.iter().filter_map(|e| e.fill).collect();
        (mean(self.energies.iter().map(|e| e.lookup).collect()), mean(fills))
    }

    /// Its programs, for people.
    pub fn programs(&self) -> String {
        self.energies.iter().map(|e| &*e.program).collect::<Vec<_>>().join(", ")
    }
}

/// All figures, in the order of the file.
///
/// # Panics
/// If the file is not as synthesis writes it; a test reads it.
pub fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| parsed(RESULTS).unwrap_or_else(|why| panic!("rtl/results.csv: {why}")))
}

/// That of a configuration in a library.
pub fn find<'a>(all: &'a [Figure], configuration: &str, library: &str) -> Option<&'a Figure> {
    all.iter().find(|figure| figure.configuration == configuration && figure.library == library)
}

/// Their libraries, in the order in which they first appear.
pub fn libraries(all: &[Figure]) -> Vec<&str> {
    let mut libraries = Vec::new();
    for figure in all {
        if !libraries.contains(&&*figure.library) {
            libraries.push(&*figure.library);
        }
    }
    libraries
}

/// A line of the file: one program of a structure, or a structure without energies.
#[derive(Deserialize)]
struct Line {
    configuration: String,
    library: String,
    corner: String,
    tools: String,
    area_um2: f64,
    nand2: f64,
    flip_flops: u64,
    period_ns: f64,
    leakage_nw: f64,
    program: String,
    clock_pj: Option<f64>,
    idle_pj: Option<f64>,
    lookup_pj: Option<f64>,
    fill_pj: Option<f64>,
}

/// Reads such a file.
fn parsed(text: &str) -> Result<Vec<Figure>, csv::Error> {
    let mut all: Vec<Figure> = Vec::new();
    for line in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let line: Line = line?;
        if !all.last().is_some_and(|last| last.configuration == line.configuration && last.library == line.library) {
            all.push(Figure {
                configuration: line.configuration,
                library: line.library,
                corner: line.corner,
                tools: line.tools,
                area_um2: line.area_um2,
                nand2: line.nand2,
                flip_flops: line.flip_flops,
                period_ns: line.period_ns,
                leakage_nw: line.leakage_nw,
                energies: Vec::new(),
            });
        }
        if let (Some(clock), Some(idle), Some(lookup)) = (line.clock_pj, line.idle_pj, line.lookup_pj)
            && let Some(last) = all.last_mut()
        {
            last.energies.push(Energies { program: line.program, clock, idle, lookup, fill: line.fill_pj });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let text = "configuration,library,corner,tools,area_um2,nand2,flip_flops,period_ns,leakage_nw,clock_pj,idle_pj,\
                    program,lookup_pj,fill_pj,hits\n\
                    l1d-64,a,x 1 V,y 2,100,12.5,7,2.5,3,1,0.5,cc1,10,20,0.9\n\
                    l1d-64,a,x 1 V,y 2,100,12.5,7,2.5,3,1,0.5,gups,11,,0.1\n\
                    l1d-64,b,x 1 V,y 2,300,12.5,7,2.5,3,,,,,,\n";
        let all = parsed(text).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].area_um2, all[0].flip_flops, all[0].energies.len()), (100.0, 7, 2));
        assert_eq!((all[0].energies[1].program.as_str(), all[0].energies[1].lookup), ("gups", 11.0));
        assert_eq!((all[0].request_pj(), all[0].programs()), ((Some(10.5), Some(20.0)), "cc1, gups".into()));
        assert_eq!((all[1].library.as_str(), all[1].request_pj()), ("b", (None, None)));
        assert!(parsed(&text.replace("2.5", "?")).is_err());
        assert!(parsed(&text.replace(",20,", ",?,")).is_err());
        assert_eq!(libraries(&all), ["a", "b"]);
    }

    #[test]
    fn the_carried_results_have_every_structure() {
        for name in
            ["range-32", "l2-512", "l1d-64", "segment", "single-64", "superpage-64", "partial-64", "complete-16"]
        {
            let figure = find(figures(), name, LIBRARY).unwrap_or_else(|| panic!("no {name}"));
            assert!(figure.area_um2 > 0.0 && figure.period_ns > 0.0, "{name}");
            assert!(figure.request_pj().0.is_some_and(|pj| pj > 0.0), "{name}");
        }
        let sizes = libraries(figures()).into_iter().map(|library| {
            figures().iter().find(|figure| figure.library == library).map(|figure| (library, figure.technology()))
        });
        assert_eq!(sizes.flatten().collect::<Vec<_>>(), [("osu018", 180), ("osu035", 350)]);
    }
}
