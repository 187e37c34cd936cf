//! Results as data: `rtl/results.csv`.

use super::activity::Energies;

/// One configuration in one library.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Name of the configuration.
    pub configuration: String,
    /// Name of the library.
    pub library: String,
    /// Process, voltage, temperature.
    pub corner: String,
    /// Versions of the tools.
    pub tools: String,
    /// Cell area in square micrometres.
    pub area: f64,
    /// In units of the two-input NAND of the library.
    pub nand2: f64,
    /// Flip-flops.
    pub flip_flops: usize,
    /// Shortest period of the clock in ns.
    pub period: f64,
    /// Leakage in nW.
    pub leakage: f64,
    /// Energies by program.
    pub energies: Vec<(String, Energies)>,
}

/// The heading.
const HEAD: [&str; 15] = [
    "configuration",
    "library",
    "corner",
    "tools",
    "area_um2",
    "nand2",
    "flip_flops",
    "period_ns",
    "leakage_nw",
    "clock_pj",
    "idle_pj",
    "program",
    "lookup_pj",
    "fill_pj",
    "hits",
];

/// Rows as a file: a line for each program, or one without energies.
///
/// # Errors
/// Of the writer.
pub fn csv(rows: &[Row]) -> Result<String, csv::Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(HEAD)?;
    for row in rows {
        let own = [
            row.configuration.clone(),
            row.library.clone(),
            row.corner.clone(),
            row.tools.clone(),
            format!("{:.0}", row.area),
            format!("{:.0}", row.nand2),
            row.flip_flops.to_string(),
            format!("{:.3}", row.period),
            format!("{:.1}", row.leakage),
        ];
        let of_program = |(program, e): &(String, Energies)| {
            let Energies { clock, idle, lookup, fill, hits } = e;
            let fill = fill.map_or_else(String::new, |fill| format!("{fill:.3}"));
            [
                format!("{clock:.3}"),
                format!("{idle:.4}"),
                program.clone(),
                format!("{lookup:.3}"),
                fill,
                format!("{hits:.3}"),
            ]
        };
        let mut energies: Vec<_> = row.energies.iter().map(of_program).collect();
        if energies.is_empty() {
            energies.push([const { String::new() }; 6]);
        }
        for energies in &energies {
            out.write_record(own.iter().chain(energies))?;
        }
    }
    let bytes = out.into_inner().map_err(|e| e.into_error())?;
    Ok(String::from_utf8(bytes).expect("text was written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_a_comma() {
        let energies = Energies { clock: 1.0, idle: 0.5, lookup: 2.25, fill: None, hits: 1.0 };
        let row = Row {
            configuration: "l1d-64".into(),
            library: "a".into(),
            corner: "x".into(),
            tools: "y; z".into(),
            area: 100.4,
            nand2: 12.0,
            flip_flops: 7,
            period: 2.5,
            leakage: 3.0,
            energies: vec![("a, b".into(), energies)],
        };
        let text = csv(&[row.clone(), Row { energies: Vec::new(), ..row }]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], HEAD.join(","));
        assert_eq!(lines[1], "l1d-64,a,x,y; z,100,12,7,2.500,3.0,1.000,0.5000,\"a, b\",2.250,,1.000");
        assert_eq!(lines[2], "l1d-64,a,x,y; z,100,12,7,2.500,3.0,,,,,,");
    }
}
