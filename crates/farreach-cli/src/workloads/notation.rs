//! Size, length and seed of a workload: as options, and as text behind `workload:`.

use anyhow::{Context, Result, bail};
use farreach_kernels::{Kernel, Settings};
use farreach_types::addr::Bytes;
use farreach_types::event::Source;

use super::{Workload, find};
use crate::count::parse_count;

/// Default number of data references of a kernel.
pub const REFERENCES: u64 = 10_000_000;

/// The settings that a user gives; the catalogue has the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelSpec {
    /// Bytes: a kernel's footprint, or a program's first input that is made.
    pub size: Option<u64>,
    /// Data references of a kernel.
    pub references: Option<u64>,
    /// Seed of a kernel, or of a program's inputs.
    pub seed: Option<u64>,
}

impl KernelSpec {
    /// The settings of a kernel.
    pub fn settings(&self, kernel: &Kernel) -> Settings {
        Settings {
            size: self.size.unwrap_or(kernel.default_size),
            references: self.references.unwrap_or(REFERENCES),
            seed: self.seed.unwrap_or(0),
        }
    }

    /// The kernel that `workload:NAME[:SETTINGS]` names, and what is asked of it; `None` if the text does not begin so.
    ///
    /// # Errors
    /// As [`open_source`].
    pub fn of(text: &str) -> Result<Option<(&'static Kernel, KernelSpec)>> {
        let Some(rest) = text.strip_prefix("workload:") else { return Ok(None) };
        let (name, settings) = rest.split_once(':').unwrap_or((rest, ""));
        let kernel_spec = KernelSpec::parse(settings).with_context(|| text.to_owned())?;
        match find(name)? {
            Workload::Kernel(kernel) => Ok(Some((kernel, kernel_spec))),
            Workload::Program(_) => bail!(
                "{name} is a program: record it first, by 'farreach workloads {name} --trace -o {name}.frt', and \
                 simulate that file"
            ),
        }
    }

    /// Reads `size=64M,references=1000000,seed=3`, any part of it.
    fn parse(text: &str) -> Result<KernelSpec> {
        let mut kernel_spec = KernelSpec::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').with_context(|| format!("'{part}' is not KEY=VALUE"))?;
            let number = || value.parse::<u64>().with_context(|| format!("{key}={value}: not a number"));
            match key {
                "size" => {
                    kernel_spec.size = Some(value.parse::<Bytes>().map_err(|e| anyhow::anyhow!("size={value}: {e}"))?.0)
                }
                "references" => {
                    kernel_spec.references =
                        Some(parse_count::<0>(value).map_err(|e| anyhow::anyhow!("references={value}: {e}"))?)
                }
                "seed" => kernel_spec.seed = Some(number()?),
                _ => bail!("'{key}' is not a setting of a kernel; those are size, references, seed"),
            }
        }
        Ok(kernel_spec)
    }
}

/// The kernel that `workload:NAME[:size=..,references=..,seed=..]` names; `None` if the text does not begin so.
///
/// # Errors
/// No such kernel, or settings it cannot run with. A program must be recorded first.
pub fn open_source(text: &str) -> Result<Option<Box<dyn Source + Send>>> {
    match KernelSpec::of(text)? {
        Some((kernel, kernel_spec)) => Ok(Some(kernel.source(&kernel_spec.settings(kernel))?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_refused() {
        let kernel_spec = KernelSpec::parse("size=64M,seed=3").unwrap();
        assert_eq!(kernel_spec, KernelSpec { size: Some(64 << 20), references: None, seed: Some(3) });
        assert_eq!(KernelSpec::parse("").unwrap(), KernelSpec::default());
        for (text, words) in [
            ("workload:gups:size=x", "size=x"),
            ("workload:gups:sise=1", "size, references, seed"),
            ("workload:gups:seed", "KEY=VALUE"),
            ("workload:gups:size=1", "size = 1 is not allowed: size must be from 64K to 16G"),
            ("workload:gupz", "gups"),
            ("workload:gzip", "--trace"),
        ] {
            let error = format!("{:#}", open_source(text).err().expect("refused"));
            assert!(error.contains(words), "{error}");
        }
        assert!(open_source("gups.frt").unwrap().is_none());
        assert!(open_source("workload:kernel/gups:references=10").unwrap().is_some());
    }
}
