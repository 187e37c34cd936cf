//! A configuration in a library, from its module to its row of results.

use super::activity::energies;
use super::configurations::Configuration;
use super::fanout::buffer;
use super::flow::{Cells, Tools, UNIT_CELL, liberty, map, period, recipe};
use super::liberty::Library;
use super::netlist::Netlist;
use super::results::Row;
use crate::excerpt::Excerpt;
use std::fs;
use std::path::{Path, PathBuf};

/// Excerpts of programs: name of the program, name of the structure, excerpt.
pub type Excerpts = Vec<(String, Vec<(String, Excerpt)>)>;

/// Synthesis with one library. Netlists are kept, each named by everything that it depends on.
pub struct Synthesis {
    cells: &'static Cells,
    library: Library,
    text: blake3::Hash,
    tools: Tools,
    dir: PathBuf,
}

impl Synthesis {
    /// With this library; netlists go into a folder.
    ///
    /// # Errors
    /// A tool or the library is missing: it says which Debian package has it.
    pub fn new(cells: &'static Cells, dir: &Path) -> Result<Synthesis, String> {
        let tools = Tools::find()?;
        let text = liberty(cells)?;
        let library = Library::read(&text).map_err(|why| format!("{}: {why}", cells.liberty))?;
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Synthesis { cells, library, text: blake3::hash(text.as_bytes()), tools, dir: dir.to_owned() })
    }

    /// Short name of the library.
    pub fn library_name(&self) -> &'static str {
        self.cells.name
    }

    /// The netlist and its shortest period. Each is kept in a folder with a name that all it depends on makes.
    fn mapped(&self, of: &Configuration) -> Result<(Netlist, f64), String> {
        let mut hasher = blake3::Hasher::new();
        let files = recipe(of.module, &of.parameters, of.quick, self.cells);
        let parts = files.iter().flat_map(|(name, text)| [*name, text.as_str()]);
        for part in parts.chain([self.tools.yosys.as_str(), self.tools.sta.as_str()]) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(self.text.as_bytes());
        let name = format!("{}-{}-{}", of.name, self.cells.name, &hasher.finalize().to_hex()[..16]);
        let dir = self.dir.join(&name);
        if !dir.exists() {
            let work = self.dir.join(format!("{name}.{}", std::process::id()));
            map(of.module, &of.parameters, of.quick, self.cells, &work)?;
            fs::rename(&work, &dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let read = |file: &Path| fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
        let json = dir.join("net.json");
        let mut netlist =
            Netlist::read(&read(&json)?, &self.library).map_err(|e| format!("{}: {e}", json.display()))?;
        buffer(&mut netlist, &self.library).map_err(|e| format!("{}: {e}", self.cells.liberty))?;
        let verilog = netlist.verilog(&self.library);
        let file = dir.join(format!("period-{}", &blake3::hash(verilog.as_bytes()).to_hex()[..16]));
        if !file.exists() {
            write_whole(&file, &period(&dir, &verilog, self.cells)?.to_string())?;
        }
        let period = read(&file)?.parse().map_err(|e| format!("{}: {e}", file.display()))?;
        Ok((netlist, period))
    }

    /// Synthesises a configuration, and runs its cells through the excerpts of its structure.
    ///
    /// # Errors
    /// A tool fails, or the netlist does not do what its module does.
    pub fn row(&self, of: &Configuration, excerpts: &Excerpts) -> Result<Row, String> {
        let (netlist, period) = self.mapped(of)?;
        let area = netlist.area(&self.library);
        let unit =
            self.library.cells.get(UNIT_CELL).ok_or_else(|| format!("{}: no {UNIT_CELL}", self.cells.liberty))?;
        let mut all = Vec::new();
        for (program, structures) in excerpts {
            let Some((_, excerpt)) = structures.iter().find(|(name, _)| name == of.structure) else { continue };
            let energies = energies(&netlist, &self.library, &of.parameters, excerpt);
            all.push((program.clone(), energies.map_err(|why| format!("{}, {program}: {why}", of.name))?));
        }
        Ok(Row {
            configuration: of.name.clone(),
            library: self.cells.name.to_owned(),
            corner: self.library.corner.clone(),
            tools: format!("{}; {}", self.tools.yosys, self.tools.sta),
            area,
            nand2: area / unit.area,
            flip_flops: netlist.flip_flops.len(),
            period,
            leakage: netlist.leakage(&self.library),
            energies: all,
        })
    }
}

/// Writes a file that is either whole or not there.
fn write_whole(file: &Path, text: &str) -> Result<(), String> {
    let part = file.with_extension(std::process::id().to_string());
    fs::write(&part, text).and_then(|()| fs::rename(&part, file)).map_err(|e| format!("{}: {e}", file.display()))
}
