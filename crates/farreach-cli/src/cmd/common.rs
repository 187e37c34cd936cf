//! Options that several subcommands share.

use anyhow::{Context, Result};
use clap::Args;
use farreach::addr::Bytes;
use farreach::counts::RunResult;
use farreach::event::Batch;
use farreach::machine::{Lab, MachineSpec, Options};
use farreach::report;
use farreach::trace::Relocator;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The designs that are compared when nothing else is asked for: the five of the subblock paper's Table 6.
const DEFAULT_MACHINES: [&str; 5] = ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"];

/// Which machines, and how long.
#[derive(Args)]
pub struct LabArgs {
    /// A preset or a TOML file, with overrides: NAME[:key=value,...]. Repeatable. `farreach machines` lists them.
    /// Default: the five designs of the subblock paper.
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    /// Stop after N instructions (references, in a trace without instruction fetches).
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Seed of everything random; printed with the result.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Give every new mapping a start that is a multiple of SIZE, such as 64K: a system whose mmap aligns for superpages (T94-53).
    /// Growth of heap and stack and the segments of one library stay together. Needs a trace that has mappings.
    #[arg(long, value_name = "SIZE")]
    align: Option<Bytes>,
    /// Without shortcuts: ask every design at every reference. Slow, same result; for checking farreach itself.
    #[arg(long)]
    plain: bool,
}

impl LabArgs {
    /// Builds the laboratory; bad descriptions end here, before anything runs.
    pub fn lab(&self) -> Result<Lab> {
        let default = || DEFAULT_MACHINES.iter().map(|m| (*m).to_owned()).collect();
        let names: Vec<String> = if self.machines.is_empty() { default() } else { self.machines.clone() };
        let specs = names.iter().map(|n| MachineSpec::parse(n, self.seed)).collect::<Result<Vec<_>, _>>()?;
        Ok(Lab::new(specs, Options { limit: self.limit, seed: self.seed, plain: self.plain })?)
    }

    /// What aligns new mappings, if that was asked for.
    pub fn alignment(&self) -> Result<Alignment> {
        let relocator = self.align.map(|size| Relocator::new(size.0).map_err(|what| anyhow::anyhow!("--align: {what}")));
        Ok(Alignment { size: self.align, relocator: relocator.transpose()? })
    }
}

/// Passes batches through, aligned if need be.
pub struct Alignment {
    size: Option<Bytes>,
    relocator: Option<Relocator>,
}

impl Alignment {
    /// The batch as the machines shall see it.
    pub fn apply(&mut self, batch: Batch) -> Result<Batch> {
        Ok(match &mut self.relocator {
            Some(relocator) => relocator.apply(&batch)?,
            None => batch,
        })
    }

    /// The name of what runs, for the result.
    pub fn label(&self, source: &str) -> String {
        self.size.map_or_else(|| source.to_owned(), |size| format!("{source} (new mappings aligned to {size})"))
    }
}

/// What is printed where.
#[derive(Args)]
pub struct OutputArgs {
    /// Print the result as JSON (schema farreach.result/1).
    #[arg(long, group = "format")]
    json: bool,
    /// Print the result as CSV, one row per machine.
    #[arg(long, group = "format")]
    csv: bool,
    /// Also write a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result to a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputArgs {
    /// Finds out before a long run whether the files can be written.
    pub fn check(&self) -> Result<()> {
        for path in self.html.iter().chain(&self.output) {
            let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
            anyhow::ensure!(dir.is_dir(), "{}: the directory {} does not exist", path.display(), dir.display());
            anyhow::ensure!(!path.is_dir(), "{}: is a directory; a file name is wanted", path.display());
        }
        Ok(())
    }

    /// Prints the result in the form asked for.
    pub fn emit(&self, result: &RunResult) -> Result<()> {
        if let Some(path) = &self.html {
            write_whole(path, report::html::render(result).as_bytes())?;
            eprintln!("farreach: report in {}", path.display());
        }
        let text = match (self.json, self.csv) {
            (true, _) => report::json::render(result),
            (_, true) => report::csv::render(result),
            _ => report::table::render(result),
        };
        match &self.output {
            Some(path) => write_whole(path, text.as_bytes()),
            None => print(&text),
        }
    }
}

/// Prints to standard output.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Writes a file whole or not at all: under another name first, renamed when every byte is on disk. What is not a plain
/// file (a pipe, /dev/stderr) is written to directly.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = || path.display().to_string();
    if path.exists() && !path.is_file() {
        return std::fs::write(path, bytes).with_context(name);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&partial))).with_context(name)
}
