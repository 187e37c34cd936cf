//! What runs: a stored trace, a kernel, or something made of these.

use farreach_kernels::{KernelSpec, Settings, kernel};
use farreach_papers::micro;
use farreach_trace::{Chain, Dealt, Interleaved, Relocated, open_trace};
use farreach_types::addr::Bytes;
use farreach_types::event::Source;
use farreach_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// A program, as far as it decides what machines find.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A kernel of the library.
    Kernel {
        /// Its name.
        name: String,
        /// Bytes of data.
        size: u64,
        /// Data references.
        references: u64,
        /// Seed of everything random in it.
        seed: u64,
    },
    /// A stored trace.
    Trace {
        /// Where it is.
        file: String,
        /// The format that it is read as, if it is not found by content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
        /// [`hash_file`](crate::hash_file) of it.
        hash: String,
        /// Its size.
        bytes: u64,
    },
    /// Programs one after the other.
    Chain(Vec<Program>),
    /// Programs in turn on one machine, with time slices of this many instructions, at least 1.
    Interleaved(Vec<Program>, u64),
    /// A program with new mappings aligned to this size.
    Aligned(Box<Program>, u64),
    /// A kernel whose work is dealt out to this many threads.
    Dealt(Box<Program>, u32),
    /// A small program made by hand, of the studies.
    Micro(String),
    /// A server that is filled, and then observed by its traps. It is no stream: what runs passes runs it, and numbers
    /// of two runs are not those of the same requests in the same order.
    Server {
        /// Its name in the catalogue.
        name: String,
        /// Bytes that it is filled to.
        size: Option<u64>,
        /// Seed of its inputs.
        seed: u64,
        /// The commands of the server and of its load.
        commands: String,
        /// The machines that observe it together. What is compared comes from one run.
        together: Vec<String>,
    },
}

impl Program {
    /// The kernel that `workload:NAME[:SETTINGS]` names; `None` if the text does not begin so.
    ///
    /// # Errors
    /// [`Error::Workload`]: there is no such kernel, or the settings are none.
    pub fn kernel(text: &str) -> Result<Option<Program>> {
        let of = |(kernel, spec): (&farreach_kernels::Kernel, KernelSpec)| {
            let Settings { size, references, seed } = spec.settings(kernel);
            let program = Program::Kernel { name: kernel.name.to_owned(), size, references, seed };
            match spec.threads.unwrap_or(1) {
                1 => program,
                threads => Program::Dealt(Box::new(program), threads),
            }
        };
        Ok(KernelSpec::of(text)?.map(of))
    }

    /// Everything that decides what it does, as text. What a kernel does is also decided by the version of the model.
    pub fn identity(&self) -> String {
        match self {
            Program::Kernel { name, size, references, seed } => format!("kernel {name} {size} {references} {seed}"),
            Program::Trace { format: None, hash, .. } => format!("trace {hash}"),
            Program::Trace { format: Some(format), hash, .. } => format!("trace {hash} as {format}"),
            Program::Chain(parts) => parts.iter().map(Program::identity).collect::<Vec<_>>().join(" then "),
            Program::Interleaved(parts, slice) => {
                let parts: Vec<String> = parts.iter().map(Program::identity).collect();
                format!("({}) in turn, {slice} instructions each", parts.join(" beside "))
            }
            Program::Aligned(inner, size) => format!("{} aligned to {}", inner.identity(), Bytes(*size)),
            Program::Dealt(inner, threads) => format!("{} dealt out to {threads} threads", inner.identity()),
            Program::Micro(name) => format!("by its name {name}"),
            Program::Server { name, size, seed, commands, together } => {
                format!("server {name} {size:?} {seed} {commands:?} {together:?}")
            }
        }
    }

    /// About how many references it makes, to say how long it will take.
    pub fn references(&self) -> u64 {
        match self {
            // Three to five instructions for each data reference.
            Program::Kernel { references, .. } => 5 * references,
            // Recorded traces have some sixteen references in a byte.
            Program::Trace { bytes, .. } => 16 * bytes,
            Program::Chain(parts) | Program::Interleaved(parts, _) => parts.iter().map(Program::references).sum(),
            Program::Aligned(inner, _) | Program::Dealt(inner, _) => inner.references(),
            Program::Micro(_) | Program::Server { .. } => 0,
        }
    }

    /// Its stream, from the beginning.
    ///
    /// # Errors
    /// The trace cannot be read, or the kernel cannot run so.
    pub fn open(&self) -> Result<Box<dyn Source + Send>> {
        let fail = |name: &str, what: String| Error::Workload { workload: name.to_owned(), what };
        Ok(match self {
            Program::Kernel { name, size, references, seed } => {
                let kernel = kernel(name).ok_or_else(|| fail(name, "there is no such kernel".into()))?;
                kernel.source(&Settings { size: *size, references: *references, seed: *seed })?
            }
            Program::Trace { file, format, .. } => open_trace(file, format.as_deref())?.source,
            Program::Chain(parts) => Box::new(Chain::new(parts.iter().map(Program::open).collect::<Result<_>>()?)),
            Program::Interleaved(parts, slice) => {
                Box::new(Interleaved::new(parts.iter().map(Program::open).collect::<Result<_>>()?, *slice))
            }
            Program::Aligned(inner, size) => {
                Box::new(Relocated::new(inner.open()?, *size).map_err(|e| fail("aligned", e.to_string()))?)
            }
            Program::Dealt(inner, threads) => Box::new(Dealt::new(inner.open()?, *threads)),
            Program::Server { name, .. } => return Err(fail(name, "a server by its traps is no stream".into())),
            Program::Micro(name) => micro::source(name).ok_or_else(|| fail(name, "there is no such program".into()))?,
        })
    }

    /// The stored traces in it.
    pub fn traces_mut(&mut self) -> Vec<(&mut String, &str)> {
        match self {
            Program::Trace { file, hash, .. } => vec![(file, hash)],
            Program::Chain(parts) | Program::Interleaved(parts, _) => {
                parts.iter_mut().flat_map(Program::traces_mut).collect()
            }
            Program::Aligned(inner, _) | Program::Dealt(inner, _) => inner.traces_mut(),
            Program::Kernel { .. } | Program::Micro(_) | Program::Server { .. } => Vec::new(),
        }
    }
}
