//! From a module to cells and their timing: Yosys and abc, then OpenSTA.

use crate::compile::{run, start, version};
use crate::modules::{Module, Parameters};
use crate::sources::{SOURCES, needed};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A library of cells that can be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cells {
    /// Short name.
    pub name: &'static str,
    /// Its Liberty file.
    pub liberty: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Feature size in nm.
    pub nanometres: u32,
}

/// Those there are, the main one first.
pub const LIBRARIES: &[Cells] = &[
    Cells {
        name: "osu018",
        liberty: "/usr/share/qflow/tech/osu018/osu018_stdcells.lib",
        package: "qflow-tech-osu018",
        nanometres: 180,
    },
    Cells {
        name: "osu035",
        liberty: "/usr/share/qflow/tech/osu035/osu035_stdcells.lib",
        package: "qflow-tech-osu035",
        nanometres: 350,
    },
];

/// What abc does: optimises, maps, then buffers nets of more than 16 loads, those that registers drive as well, and
/// chooses the sizes of cells, for delay.
const ABC: &str = "strash\n&get -n\n&fraig -x\n&put\nscorr\ndc2\ndch -f\nmap -B 0.9\ntopo\nbuffer -c -N 16 -p\ntopo\n\
                   upsize\ndnsize\n";
/// The same without the searches for equal signals and choices, which take hours for the largest arrays.
const QUICK_ABC: &str = "strash\ndc2\nmap -B 0.9\ntopo\nbuffer -c -N 16 -p\ntopo\nupsize\ndnsize\n";
/// Modules that are mapped by themselves, so that the registers in them are not merged with those of their like.
const BANKS: [&str; 2] = ["set_bank", "range_bank"];
/// Drives the cell of this area for 1.
pub const UNIT_CELL: &str = "NAND2X1";

/// The tools, and what they call themselves.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Yosys, which brings its abc.
    pub yosys: String,
    /// OpenSTA.
    pub sta: String,
}

impl Tools {
    /// # Errors
    /// One is missing: it says which Debian package has it.
    pub fn find() -> Result<Tools, String> {
        let yosys = version("yosys", "-V", None, "yosys")?;
        let sta = version("sta", "-version", None, "opensta")?;
        // Name and version, without what it was built with.
        let yosys = yosys.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        Ok(Tools { yosys, sta: format!("OpenSTA {sta}") })
    }
}

/// The Liberty text of a library.
///
/// # Errors
/// It is not installed: it says which Debian package has it.
pub fn liberty(cells: &Cells) -> Result<String, String> {
    fs::read_to_string(cells.liberty)
        .map_err(|e| format!("{}: {e}: the Debian package {} has it", cells.liberty, cells.package))
}

/// The files that Yosys reads for a module, with `synth.ys`, which says what it does with them.
pub(super) fn recipe(
    module: &Module,
    parameters: &Parameters,
    quick: bool,
    cells: &Cells,
) -> Vec<(&'static str, String)> {
    let all: Vec<(&str, &str)> = SOURCES.iter().map(|source| (source.name, source.text)).collect();
    let sources = needed(module.name, &all).into_iter().filter(|(name, _)| name.contains(".sv"));
    let mut files: Vec<(&str, String)> = sources.map(|(name, text)| (*name, (*text).to_owned())).collect();
    let modules: Vec<&str> =
        files.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".sv") && *name != "tlb_pkg.sv").collect();
    let mut script = format!("read_verilog -sv tlb_pkg.sv\nread_verilog -sv -defer -I. {}\n", modules.join(" "));
    let set: String = parameters.iter().map(|(name, value)| format!(" -set {name} {value}")).collect();
    let top = module.name;
    // Words of a Liberty file are not quoted here: none of the paths has a space.
    let liberty = cells.liberty;
    let _ = writeln!(script, "chparam{set} {top}\nhierarchy -check -top {top}\nrename -top top");
    for bank in BANKS {
        let _ = writeln!(script, "setattr -mod -set keep_hierarchy 1 *{bank}*");
    }
    let _ = write!(
        script,
        "synth -top top -flatten\ncheck -assert\n\
         dfflibmap -liberty {liberty}\nabc -liberty {liberty} -script abc.script\n\
         opt_clean -purge\nsetattr -mod -unset keep_hierarchy *\nflatten\nsetundef -zero\nopt_clean -purge\n\
         write_json net.json\n"
    );
    files.extend([("abc.script", if quick { QUICK_ABC } else { ABC }.to_owned()), ("synth.ys", script)]);
    files
}

/// Maps a module to cells, quickly or as well as can be, in a folder: `net.json` is the netlist, flat, as Yosys writes
/// it.
///
/// # Errors
/// A file cannot be written, or Yosys cannot do it.
pub fn map(module: &Module, parameters: &Parameters, quick: bool, cells: &Cells, dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for (name, text) in recipe(module, parameters, quick, cells) {
        let file = dir.join(name);
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    run(start("yosys", "yosys")?.current_dir(dir).args(["-q", "-l", "yosys.log", "synth.ys"]), module.name)
}

/// The shortest period of the clock that the netlist keeps, in ns, to a picosecond. Ports are registers of the same
/// clock without delay. All paths take one period, so that the period less the worst slack is the shortest; the script
/// sees that it is kept, and that a picosecond less is not.
///
/// # Errors
/// OpenSTA cannot do it.
pub fn period(dir: &Path, verilog: &str, cells: &Cells) -> Result<f64, String> {
    let file = dir.join("net.v");
    fs::write(&file, verilog).map_err(|e| format!("{}: {e}", file.display()))?;
    let script = dir.join("time.tcl");
    let text = format!(
        "read_liberty {}\nread_verilog net.v\nlink_design top\n\
         set inputs {{}}\nforeach port [all_inputs] {{\n  \
           if {{ [get_property $port full_name] != \"clk\" }} {{ lappend inputs $port }}\n}}\n\
         proc slack {{period}} {{\n  global inputs\n  create_clock -name clk -period $period [get_ports clk]\n  \
           set_input_delay 0 -clock clk $inputs\n  set_output_delay 0 -clock clk [all_outputs]\n  \
           return [worst_slack]\n}}\n\
         set period [expr {{ ceil((64 - [slack 64]) * 1000) / 1000 }}]\n\
         if {{ [slack $period] >= 0 && [slack [expr {{ $period - 0.002 }}]] < 0 }} {{ puts \"period $period\" }}\n\
         exit\n",
        cells.liberty
    );
    fs::write(&script, text).map_err(|e| format!("{}: {e}", script.display()))?;
    let mut sta = start("sta", "opensta")?;
    sta.current_dir(dir).args(["-no_splash", "-exit", "time.tcl"]);
    let said = sta.output().map_err(|e| format!("sta: {e}"))?;
    let out = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    let period = out.lines().find_map(|line| line.strip_prefix("period ")?.trim().parse().ok());
    period.filter(|_| !out.contains("Error")).ok_or_else(|| format!("{}: sta finds no period:\n{out}", dir.display()))
}
