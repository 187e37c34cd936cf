//! Area, clock and energy of the structures as hardware, from the synthesis of `rtl/` (RMM15-46): `rtl/results.csv`,
//! which `make rtl-synth` writes.

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
    /// Feature size of its library in nm.
    pub fn technology(&self) -> u64 {
        if self.library == "osu035" { 350 } else { 180 }
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
    FIGURES.get_or_init(|| parsed(RESULTS).expect("the results of synthesis are in the form in which it writes them"))
}

/// That of a configuration in a library.
pub fn figure(configuration: &str, library: &str) -> Option<&'static Figure> {
    figures().iter().find(|figure| figure.configuration == configuration && figure.library == library)
}

/// Reads such a file.
fn parsed(text: &str) -> Option<Vec<Figure>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.split(',').collect();
    let mut all: Vec<Figure> = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        let word = |name: &str| words.get(head.iter().position(|h| *h == name)?).copied();
        let number = |name: &str| word(name)?.parse::<f64>().ok();
        let text = |name: &str| Some(word(name)?.to_owned());
        let same = |of: &&mut Figure| {
            Some(&*of.configuration) == word("configuration") && Some(&*of.library) == word("library")
        };
        if all.last_mut().filter(same).is_none() {
            all.push(Figure {
                configuration: text("configuration")?,
                library: text("library")?,
                corner: text("corner")?,
                tools: text("tools")?,
                area_um2: number("area_um2")?,
                nand2: number("nand2")?,
                flip_flops: word("flip_flops")?.parse().ok()?,
                period_ns: number("period_ns")?,
                leakage_nw: number("leakage_nw")?,
                energies: Vec::new(),
            });
        }
        let program = text("program")?;
        if !program.is_empty() {
            let energies = Energies {
                program,
                clock: number("clock_pj")?,
                idle: number("idle_pj")?,
                lookup: number("lookup_pj")?,
                fill: if word("fill_pj")?.is_empty() { None } else { Some(number("fill_pj")?) },
            };
            all.last_mut()?.energies.push(energies);
        }
    }
    Some(all)
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
        assert!(parsed(&text.replace("2.5", "?")).is_none());
        assert!(parsed(&text.replace(",20,", ",?,")).is_none());
    }

    #[test]
    fn the_carried_results_have_every_structure() {
        for name in
            ["range-32", "l2-512", "l1d-64", "segment", "single-64", "superpage-64", "partial-64", "complete-16"]
        {
            let figure = figure(name, LIBRARY).unwrap_or_else(|| panic!("no {name}"));
            assert!(figure.area_um2 > 0.0 && figure.period_ns > 0.0, "{name}");
            assert!(figure.request_pj().0.is_some_and(|pj| pj > 0.0), "{name}");
        }
    }
}
