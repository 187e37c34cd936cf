//! A kernel with its size, length and seed as text: `workload:gups:size=64M,references=1M,seed=3`.

use crate::kernel::{Kernel, Settings};
use crate::registry::{KERNELS, kernel};
use farreach_trace::Dealt;
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use farreach_types::event::Source;
use farreach_types::suggest::did_you_mean;
use farreach_types::{Error, Result};

/// Default number of data references of a kernel.
pub const REFERENCES: u64 = 10_000_000;

/// Threads at most.
const MOST_THREADS: u32 = 64;

/// What such a text begins with.
const PREFIX: &str = "workload:";

/// The settings that a user gives; the catalogue has the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelSpec {
    /// Bytes: a kernel's footprint, or a program's first input that is made.
    pub size: Option<u64>,
    /// Data references of a kernel.
    pub references: Option<u64>,
    /// Seed of a kernel, or of a program's inputs.
    pub seed: Option<u64>,
    /// Threads that the work of a kernel is dealt out to ([`Dealt`]), if it is simulated; 1 if there are none.
    pub threads: Option<u32>,
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

    /// The name and what is asked of it in `workload:NAME[:SETTINGS]`; `None` if the text does not begin so.
    ///
    /// # Errors
    /// [`Error::Workload`]: the settings are no `KEY=VALUE`, or a value is not allowed.
    pub fn split(text: &str) -> Result<Option<(&str, KernelSpec)>> {
        let Some(rest) = text.strip_prefix(PREFIX) else { return Ok(None) };
        let (name, settings) = rest.split_once(':').unwrap_or((rest, ""));
        let fail = |what| Error::Workload { workload: name.to_owned(), what };
        Ok(Some((name, KernelSpec::parse(settings).map_err(fail)?)))
    }

    /// The kernel that `workload:NAME[:SETTINGS]` names, and what is asked of it; `None` if the text does not begin so.
    ///
    /// # Errors
    /// As [`KernelSpec::split`], and if there is no such kernel.
    pub fn of(text: &str) -> Result<Option<(&'static Kernel, KernelSpec)>> {
        let Some((name, spec)) = KernelSpec::split(text)? else { return Ok(None) };
        let short = name.strip_prefix("kernel/").unwrap_or(name);
        let Some(kernel) = kernel(short) else {
            let meant = did_you_mean(short, KERNELS.iter().map(|k| k.name));
            let what = format!("there is no such kernel{meant}");
            return Err(Error::Workload { workload: name.to_owned(), what });
        };
        Ok(Some((kernel, spec)))
    }

    /// Reads `size=64M,references=1000000,seed=3`, any part of it.
    fn parse(text: &str) -> std::result::Result<KernelSpec, String> {
        let mut spec = KernelSpec::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not KEY=VALUE"))?;
            let refuse = |why: &dyn std::fmt::Display| format!("{key}={value}: {why}");
            match key {
                "size" => spec.size = Some(value.parse::<Bytes>().map_err(|e| refuse(&e))?.0),
                "references" => spec.references = Some(parse_count::<0>(value).map_err(|e| refuse(&e))?),
                "seed" => {
                    spec.seed = Some(
                        value
                            .parse()
                            .map_err(|_| refuse(&"a whole number from 0 to 18446744073709551615 is allowed"))?,
                    )
                }
                "threads" => {
                    let threads = value.parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
                    let Some(threads) = threads else {
                        return Err(refuse(&format!("a whole number from 1 to {MOST_THREADS} is allowed")));
                    };
                    spec.threads = Some(threads);
                }
                _ => {
                    return Err(format!(
                        "'{key}' is not a setting of a kernel; those are size, references, seed, threads"
                    ));
                }
            }
        }
        Ok(spec)
    }
}

/// The stream of the kernel that `workload:NAME[:size=..,references=..,seed=..,threads=..]` names; `None` if the text
/// does not begin so.
///
/// # Errors
/// As [`KernelSpec::of`], and settings that the kernel cannot run with.
pub fn open_source(text: &str) -> Result<Option<Box<dyn Source + Send>>> {
    let open = |(kernel, spec): (&Kernel, KernelSpec)| {
        let source = kernel.source(&spec.settings(kernel))?;
        Ok(match spec.threads.unwrap_or(1) {
            1 => source,
            threads => Box::new(Dealt::new(source, threads)),
        })
    };
    KernelSpec::of(text)?.map(open).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_refused() {
        let spec = KernelSpec::parse("size=64M,seed=3").unwrap();
        assert_eq!(spec, KernelSpec { size: Some(64 << 20), seed: Some(3), ..KernelSpec::default() });
        assert_eq!(KernelSpec::parse("").unwrap(), KernelSpec::default());
        for (text, words) in [
            ("workload:gups:size=x", "size=x"),
            ("workload:gups:sise=1", "size, references, seed, threads"),
            ("workload:gups:threads=0", "threads=0: a whole number from 1 to 64"),
            ("workload:gups:seed", "KEY=VALUE"),
            ("workload:gups:size=1", "size = 1 is not allowed: size must be from 64K to 16G"),
            ("workload:gupz", "gups"),
        ] {
            let error = open_source(text).err().expect("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(open_source("gups.frt").unwrap().is_none());
        assert!(open_source("workload:kernel/gups:references=10").unwrap().is_some());
    }
}
