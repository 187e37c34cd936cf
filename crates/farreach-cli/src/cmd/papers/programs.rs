//! Which programs a run of studies is about, and how each becomes a stream.

use super::cache::hash_file;
use anyhow::{Result, anyhow, bail};
use farreach::event::Source;
use farreach::study::{Program, Set, micro};
use farreach::trace::kernels::{KERNELS, Kernel, Settings, kernel};
use farreach::trace::open_trace;
use std::path::Path;

/// Data references of a kernel in the small set: enough to see every kernel in its steady state.
const SMALL_REFERENCES: u64 = 3_000_000;
/// Data references of a kernel in the full set.
const FULL_REFERENCES: u64 = 100_000_000;

/// Programs by name.
pub struct Programs {
    /// As studies see them.
    pub set: Set,
    streams: Vec<Stream>,
}

/// Where the references of a program come from.
enum Stream {
    Kernel(&'static Kernel, Settings),
    Trace { file: String, hash: String },
}

impl Programs {
    /// The kernels that stand for programs of the subblock paper.
    pub fn kernels(small: bool, seed: u64) -> Programs {
        let name = if small { "small" } else { "full" };
        let mut programs = Programs::none(name);
        for kernel in KERNELS.iter().filter(|k| T94.contains(&k.stands_for)) {
            programs.add_kernel(kernel, if small { SMALL_REFERENCES } else { FULL_REFERENCES }, seed);
        }
        programs
    }

    /// Kernels and trace files by name.
    pub fn chosen(names: &[String], small: bool, seed: u64) -> Result<Programs> {
        let mut programs = Programs::none("chosen");
        for name in names {
            if programs.set.programs.iter().any(|p| p.name == *name) {
                bail!("--workload {name} is given twice");
            }
            match kernel(name) {
                Some(kernel) => programs.add_kernel(kernel, if small { SMALL_REFERENCES } else { FULL_REFERENCES }, seed),
                None => {
                    if !Path::new(name).exists() {
                        let kernels = KERNELS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
                        bail!("--workload {name}: no such file, and no such kernel; kernels are {kernels}");
                    }
                    let hash = hash_file(Path::new(name))?.to_hex().to_string();
                    programs.set.programs.push(Program { name: name.clone(), stands_for: String::new(), real: true });
                    programs.streams.push(Stream::Trace { file: name.clone(), hash });
                }
            }
        }
        Ok(programs)
    }

    fn none(name: &str) -> Programs {
        Programs { set: Set { name: name.into(), programs: Vec::new() }, streams: Vec::new() }
    }

    fn add_kernel(&mut self, kernel: &'static Kernel, references: u64, seed: u64) {
        self.set.programs.push(Program {
            name: kernel.name.into(),
            stands_for: if T94.contains(&kernel.stands_for) { kernel.stands_for.into() } else { String::new() },
            real: false,
        });
        self.streams.push(Stream::Kernel(kernel, Settings { size: kernel.default_size, references, seed }));
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

    /// The program, from its beginning.
    pub fn open(&self, name: &str) -> Result<Box<dyn Source + Send>> {
        Ok(match self.stream(name) {
            Some(Stream::Kernel(kernel, settings)) => kernel.source(settings)?,
            Some(Stream::Trace { file, .. }) => open_trace(file, None)?.source,
            None => micro::source(name).ok_or_else(|| anyhow!("no program '{name}'"))?,
        })
    }
}

/// The programs of T94's tables.
const T94: [&str; 10] = ["coral", "nasa7", "compress", "fftpde", "wave5", "mp3d", "spice", "pthor", "ML", "gcc"];
