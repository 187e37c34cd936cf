//! Which programs a run of studies is about, and how each becomes a stream.

use super::cache::hash_file;
use anyhow::{Result, bail};
use farreach::event::Source;
use farreach::study::{Program, Set, micro};
use farreach::trace;
use std::path::Path;

/// Programs by name.
pub struct Programs {
    /// As studies see them.
    pub set: Set,
    streams: Vec<Stream>,
}

/// Where the references of a program come from.
enum Stream {
    Trace { file: String, hash: String },
}

impl Programs {
    /// The sets that come with farreach.
    pub fn standard(small: bool, seed: u64) -> Programs {
        let _ = (small, seed);
        todo!()
    }

    /// Kernels and trace files by name.
    pub fn chosen(names: &[String], seed: u64) -> Result<Programs> {
        let _ = seed;
        let mut programs = Programs { set: Set { name: "chosen".into(), programs: Vec::new() }, streams: Vec::new() };
        for name in names {
            if programs.set.programs.iter().any(|p| p.name == *name) {
                bail!("--workload {name} is given twice");
            }
            let hash = hash_file(Path::new(name))?.to_hex().to_string();
            programs.set.programs.push(Program { name: name.clone(), stands_for: String::new(), real: true });
            programs.streams.push(Stream::Trace { file: name.clone(), hash });
        }
        Ok(programs)
    }

    fn stream(&self, name: &str) -> Option<&Stream> {
        self.set.programs.iter().position(|p| p.name == name).map(|i| &self.streams[i])
    }

    /// Everything that decides what a program does, as text.
    pub fn identity(&self, name: &str) -> String {
        match self.stream(name) {
            Some(Stream::Trace { hash, .. }) => format!("trace {hash}"),
            None => format!("micro {name}"),
        }
    }

    /// The program, from its beginning.
    pub fn open(&self, name: &str) -> Result<Box<dyn Source + Send>> {
        Ok(match self.stream(name) {
            Some(Stream::Trace { file, .. }) => trace::open_trace(file, None)?.source,
            None => micro::source(name).ok_or_else(|| anyhow::anyhow!("no program '{name}'"))?,
        })
    }
}
