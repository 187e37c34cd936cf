//! Results as data: `rtl/results.csv`.

use super::activity::Energies;
use std::fmt::Write as _;

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
const HEAD: &str = "configuration,library,corner,tools,area_um2,nand2,flip_flops,period_ns,leakage_nw,clock_pj,\
                    idle_pj,program,lookup_pj,fill_pj,hits";

/// Rows as a file: a line for each program, or one without energies.
pub fn csv(rows: &[Row]) -> String {
    let mut out = format!("{HEAD}\n");
    for row in rows {
        let own = format!(
            "{},{},{},{},{:.0},{:.0},{},{:.3},{:.1}",
            row.configuration,
            row.library,
            row.corner,
            row.tools,
            row.area,
            row.nand2,
            row.flip_flops,
            row.period,
            row.leakage
        );
        if row.energies.is_empty() {
            let _ = writeln!(out, "{own},,,,,,");
        }
        for (program, e) in &row.energies {
            let Energies { clock, idle, lookup, fill, hits } = e;
            let fill = fill.map_or_else(String::new, |fill| format!("{fill:.3}"));
            let _ = writeln!(out, "{own},{clock:.3},{idle:.4},{program},{lookup:.3},{fill},{hits:.3}");
        }
    }
    out
}
