//! The catalogue of workloads: the library's kernels, and real programs that descend from what the papers measured.
//!
//! Programs stand in `programs.toml`. [`catalogue`] lists all workloads, [`find`] has one by its name, and [`command`]
//! makes any of them ready to run: checks that its packages are installed and makes its inputs, from a seed, in a cache
//! directory. A [`Prepared`] workload runs as it is or under the recorder; a server with its [`Load`] beside it.
//! [`feed`] hands on the batches of a workload, a trace or a program.
//!
//! Owns the catalogue, the makers of inputs, packages, and servers with their loads. Must not know machines, and prints
//! nothing: what a program that it runs says goes where the caller wants it, or into a file.
#![forbid(unsafe_code)]

mod catalogue;
pub mod feed;
mod header;
pub mod inputs;
mod listed;
mod output;
mod prepare;
mod prepared;
mod recording;
mod server;

use std::ffi::OsString;
use std::path::Path;

use farreach_kernels::{KERNELS, Kernel, kernel};
use farreach_types::event::Source;
use farreach_types::suggest::did_you_mean;
use farreach_types::{Context, Result, bail};

pub use catalogue::{Input, Program, programs};
pub use farreach_kernels::{KernelSpec, REFERENCES};
pub use header::{header, system_header};
pub use listed::{Listed, catalogue};
pub use output::Output;
pub use prepare::{cache_dir, install, installed, prepare};
pub use prepared::{Prepared, Usage};
pub use recording::Recording;
pub use server::{Last, Load, RunningLoad, Stage};

/// The workload behind a name.
#[derive(Clone, Copy)]
pub enum Workload {
    /// A kernel of the library.
    Kernel(&'static Kernel),
    /// A program of the system.
    Program(&'static Program),
}

/// The workload of this name. Kernels also answer to `kernel/NAME`.
///
/// # Errors
/// There is none; the message has the names most like it.
pub fn find(name: &str) -> Result<Workload> {
    if let Some(kernel) = kernel(name.strip_prefix("kernel/").unwrap_or(name)) {
        return Ok(Workload::Kernel(kernel));
    }
    if let Some(program) = programs().iter().find(|p| p.name == name) {
        return Ok(Workload::Program(program));
    }
    let meant = did_you_mean(name, KERNELS.iter().map(|k| k.name).chain(programs().iter().map(|p| p.name.as_str())));
    let joint = if meant.is_empty() { ";" } else { "" };
    bail!("there is no workload '{name}'{meant}{joint} `farreach workloads` lists the kernels and programs there are")
}

/// The stream of the kernel that `workload:NAME[:size=..,references=..,seed=..]` names; `None` if the text does not
/// begin so.
///
/// # Errors
/// No such kernel, or settings it cannot run with. A program must be recorded first.
pub fn open_source(text: &str) -> Result<Option<Box<dyn Source + Send>>> {
    if let Some((name, _)) = KernelSpec::split(text)?
        && let Workload::Program(_) = find(name)?
    {
        bail!(
            "{name} is a program: record it first, by 'farreach workloads {name} --trace -o {name}.frt', and simulate \
             that file"
        );
    }
    farreach_kernels::open_source(text)
}

/// Makes the program of this name ready, or a kernel as a native program, which `farreach` runs: the path of that
/// command. `kernel_spec` may change size and seed of its input.
///
/// # Errors
/// There is no such workload, a package is missing (nothing is installed here), or inputs cannot be made.
pub fn command(name: &str, kernel_spec: &KernelSpec, farreach: &Path) -> Result<Prepared> {
    ready(name, kernel_spec, farreach, false)
}

/// As [`command`]; a server whose size can be chosen is filled to that size by its load, and then used.
///
/// # Errors
/// As of [`command`].
pub fn steady(name: &str, kernel_spec: &KernelSpec, farreach: &Path) -> Result<Prepared> {
    ready(name, kernel_spec, farreach, true)
}

fn ready(name: &str, kernel_spec: &KernelSpec, farreach: &Path, steady: bool) -> Result<Prepared> {
    match find(name)? {
        Workload::Program(program) => prepare(program, kernel_spec, steady),
        Workload::Kernel(kernel) => {
            let settings = kernel_spec.settings(kernel);
            let directory = cache_dir()?.join("work").join(kernel.name);
            std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
            let mut command: Vec<OsString> = vec![farreach.into(), "workloads".into(), kernel.name.into()];
            command.push("--native".into());
            for (option, value) in
                [("--size", settings.size), ("--references", settings.references), ("--seed", settings.seed)]
            {
                command.extend([option.into(), value.to_string().into()]);
            }
            Ok(Prepared { command, stdin: None, stdout: directory.join("stdout"), directory, load: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_no_stream() {
        for (text, words) in [("workload:gupz", "gups"), ("workload:gzip", "--trace"), ("workload:gups:size=1", "64K")]
        {
            let error = format!("{:#}", open_source(text).err().expect("refused"));
            assert!(error.contains(words), "{error}");
        }
        assert!(open_source("gups.frt").unwrap().is_none());
    }
}
