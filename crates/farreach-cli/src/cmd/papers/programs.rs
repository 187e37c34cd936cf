//! Which programs a run of studies is about, and how each becomes a stream.

use super::cache::{Cache, hash_file};
use crate::cmd::common::note;
use crate::cmd::progress::Display;
use crate::cmd::record::header;
use anyhow::{Context, Result, anyhow, bail};
use farreach::event::Source;
use farreach::machine::Progress;
use farreach::report::format::count;
use farreach::study::{Program, Set, micro};
use farreach::trace::frt::TraceWriter;
use farreach::trace::kernels::{KERNELS, Kernel, Settings};
use farreach::trace::open_trace;
use farreach_cli::workloads::{self, Asked, Workload, find};
use std::path::Path;

/// Data references of a kernel in the small set: enough to see every kernel in its steady state.
const SMALL_REFERENCES: u64 = 3_000_000;
/// Data references of a kernel in the full set.
const FULL_REFERENCES: u64 = 100_000_000;
/// Instructions of a real program, unless a limit is given.
const SMALL_INSTRUCTIONS: u64 = 10_000_000;
const FULL_INSTRUCTIONS: u64 = 300_000_000;

/// Programs by name.
pub struct Programs {
    /// As studies see them.
    pub set: Set,
    streams: Vec<Stream>,
}

/// Where the references of a program come from.
enum Stream {
    Kernel(&'static Kernel, Settings),
    Trace { file: String, hash: String, references: u64 },
}

/// Where a set's programs come from.
pub struct Sources<'a> {
    /// Where recordings are kept.
    pub cache: &'a Cache,
    /// Short runs.
    pub small: bool,
    /// Instructions per program.
    pub limit: Option<u64>,
    /// Of kernels, and of the inputs of programs.
    pub seed: u64,
}

impl Programs {
    /// The kernels that stand for programs of the subblock paper; in the full set, real programs besides. `None`: interrupted.
    pub fn standard(from: &Sources) -> Result<Option<Programs>> {
        let mut programs = Programs::none(if from.small { "small" } else { "full" });
        for kernel in KERNELS.iter().filter(|k| T94.contains(&k.stands_for)) {
            programs.add_kernel(kernel, from);
        }
        if !from.small {
            let packages = workloads::programs().iter().flat_map(|p| p.packages.iter().map(String::as_str));
            let there = workloads::installed(packages);
            let (ready, absent): (Vec<_>, Vec<_>) =
                workloads::programs().iter().partition(|p| p.packages.iter().all(|name| there.contains(name)));
            for program in ready {
                if !programs.add_program(program, from)? {
                    return Ok(None);
                }
            }
            if !absent.is_empty() {
                let names = absent.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
                note(format_args!("left out, not installed: {names} (`farreach workloads` says what they need)"));
            }
        }
        Ok(Some(programs))
    }

    /// Kernels, programs and trace files by name. `None`: interrupted.
    pub fn chosen(names: &[String], from: &Sources) -> Result<Option<Programs>> {
        let mut programs = Programs::none("chosen");
        for name in names {
            if programs.set.programs.iter().any(|p| p.name == *name) {
                bail!("--workload {name} is given twice");
            }
            if Path::new(name).is_file() {
                programs.add_trace(name, "", Path::new(name))?;
                continue;
            }
            match find(name).with_context(|| format!("--workload {name}: no such file"))? {
                Workload::Kernel(kernel) => programs.add_kernel(kernel, from),
                Workload::Program(program) => {
                    if !programs.add_program(program, from)? {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(programs))
    }

    fn none(name: &str) -> Programs {
        Programs { set: Set { name: name.into(), programs: Vec::new() }, streams: Vec::new() }
    }

    fn add(&mut self, name: &str, stands_for: &str, real: bool, stream: Stream) {
        let stands_for = if T94.contains(&stands_for) { stands_for.to_owned() } else { String::new() };
        self.set.programs.push(Program { name: name.into(), stands_for, real });
        self.streams.push(stream);
    }

    fn add_kernel(&mut self, kernel: &'static Kernel, from: &Sources) {
        let references = if from.small { SMALL_REFERENCES } else { FULL_REFERENCES };
        let settings = Settings { size: kernel.default_size, references, seed: from.seed };
        self.add(kernel.name, kernel.stands_for, false, Stream::Kernel(kernel, settings));
    }

    fn add_trace(&mut self, name: &str, stands_for: &str, file: &Path) -> Result<()> {
        let hash = hash_file(file)?.to_hex().to_string();
        // A rough number, only to say how long it will take: recorded traces have some sixteen references in a byte.
        let references = 16 * file.metadata().with_context(|| file.display().to_string())?.len();
        self.add(name, stands_for, true, Stream::Trace { file: file.display().to_string(), hash, references });
        Ok(())
    }

    /// A program of the catalogue, recorded once; false: interrupted.
    fn add_program(&mut self, program: &workloads::Program, from: &Sources) -> Result<bool> {
        let limit = from.limit.unwrap_or(if from.small { SMALL_INSTRUCTIONS } else { FULL_INSTRUCTIONS });
        let dir = from.cache.dir().join("traces");
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let file = dir.join(format!("{}-{limit}-{}.frt", program.name, from.seed));
        if !file.exists() && !record(program, &file, limit, from.seed).with_context(|| format!("recording {}", program.name))? {
            return Ok(false);
        }
        // Two real programs may stand for one of the paper's, beside the kernel that does: their names keep them apart.
        self.add_trace(&format!("{}*", program.name), &program.stands_for, &file)?;
        Ok(true)
    }

    fn stream(&self, name: &str) -> Option<&Stream> {
        self.set.programs.iter().position(|p| p.name == name).map(|i| &self.streams[i])
    }

    /// Everything that decides what a program does, as text. What a kernel does is also decided by this program, which every
    /// name in the cache depends on.
    pub fn identity(&self, name: &str) -> String {
        match self.stream(name) {
            Some(Stream::Kernel(kernel, settings)) => format!("kernel {} {settings:?}", kernel.name),
            Some(Stream::Trace { hash, .. }) => format!("trace {hash}"),
            None => format!("micro {name}"),
        }
    }

    /// About how many references it makes.
    pub fn references(&self, name: &str) -> u64 {
        match self.stream(name) {
            // Three to five instructions for each data reference.
            Some(Stream::Kernel(_, settings)) => 5 * settings.references,
            Some(Stream::Trace { references, .. }) => *references,
            None => 0,
        }
    }

    /// The program, from its beginning.
    pub fn open(&self, name: &str) -> Result<Box<dyn Source + Send>> {
        Ok(match self.stream(name) {
            Some(Stream::Kernel(kernel, settings)) => kernel.source(settings)?,
            Some(Stream::Trace { file, .. }) => open_trace(file, None)?.source,
            None => micro::source(name).ok_or_else(|| anyhow!("no program '{name}'"))?,
        })
    }
}

/// Stores the trace of a program's first instructions; false: interrupted, and there is no trace.
fn record(program: &workloads::Program, file: &Path, limit: u64, seed: u64) -> Result<bool> {
    note(format_args!("recording {}: {}, up to {} instructions", program.name, program.about, count(limit)));
    let prepared = workloads::prepare(program, &Asked { seed: Some(seed), ..Asked::default() })?;
    let mut writer = TraceWriter::create(file, header(&prepared.command)?)?;
    let mut recorder = prepared.record()?;
    let mut display = Display::new();
    while let Some(batch) = recorder.next_batch()? {
        writer.write(&batch)?;
        let totals = writer.totals();
        display.update(Progress { instructions: totals.instructions, references: totals.references() });
        if totals.instructions >= limit {
            break;
        }
    }
    let interrupted = recorder.finish()?.interrupted;
    display.finish();
    if !interrupted {
        writer.finish()?;
    }
    Ok(!interrupted)
}

/// The programs of T94's tables.
const T94: [&str; 10] = ["coral", "nasa7", "compress", "fftpde", "wave5", "mp3d", "spice", "pthor", "ML", "gcc"];
