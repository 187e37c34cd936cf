//! The programs, as `programs.toml` describes them.

use std::sync::LazyLock;

use farreach_types::addr::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

/// A real program with its input.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What it is called on the command line.
    pub name: String,
    /// The benchmarks whose place it takes. It is not one of them, and a report must not call it so.
    pub stands_for: String,
    /// What kind of program it is.
    pub kind: String,
    /// One line for display.
    pub about: String,
    /// Debian packages it needs.
    pub packages: Vec<String>,
    /// What it reads.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// Commands that make further inputs in its directory.
    #[serde(default)]
    pub steps: Vec<Vec<String>>,
    /// The command line. `{FILE}` is the path of an input, `{directory}` the directory where it runs. It stays in the
    /// foreground and ends by itself, a server at SIGTERM.
    pub command: Vec<String>,
    /// If it is a server: the commands of its load, one after the other. `{port}` in them and in `command` is the port
    /// on which it listens, on 127.0.0.1.
    #[serde(default)]
    pub load: Vec<Vec<String>>,
    /// If it is a server that can be filled to a size: the commands of its load under traps, in place of `load`. All
    /// but the last fill it. `{records}` is the number of records that take the size, `{fills}` four times that: as
    /// many random keys fill 98 % of it.
    #[serde(default)]
    pub steady: Vec<Vec<String>>,
    /// Arguments of the server for such a run, behind those of `command`. `{limit}` in them is a number of MiB: half as
    /// much again as the size.
    #[serde(default)]
    pub steady_arguments: Vec<String>,
    /// Memory that a record takes in the server, measured.
    #[serde(default)]
    pub record_bytes: u64,
    /// Whether the full set of `farreach papers` has it; `--workload` has all.
    #[serde(default = "yes")]
    pub full_set: bool,
    /// The input that is standard input.
    #[serde(default)]
    pub stdin: Option<String>,
    /// Approximate peak memory, measured.
    #[serde(deserialize_with = "bytes")]
    pub footprint: u64,
}

/// Placeholder for the directory in which programs run, for those that need its absolute path.
pub(crate) const DIRECTORY: &str = "{directory}";
/// Placeholder for the port of a server.
pub(crate) const PORT: &str = "{port}";

/// Placeholders for the number of records of a server, and for the requests that fill it.
pub(crate) const RECORDS: &str = "{records}";
pub(crate) const FILLS: &str = "{fills}";
/// Placeholder for the memory that a server may use, in MiB.
pub(crate) const LIMIT: &str = "{limit}";

/// A file that is made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name.
    pub file: String,
    /// Its contents; or
    #[serde(default)]
    pub text: Option<String>,
    /// the name of its maker,
    #[serde(default)]
    pub maker: Option<String>,
    /// about how many bytes it has,
    #[serde(default, deserialize_with = "bytes")]
    pub size: u64,
    /// and its seed.
    #[serde(default)]
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: Vec<Program>,
}

fn yes() -> bool {
    true
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    String::deserialize(from)?.parse::<Bytes>().map(|b| b.0).map_err(serde::de::Error::custom)
}

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("programs.toml")).expect("a test reads it");
    file.program
});

/// Every program of the catalogue.
pub fn programs() -> &'static [Program] {
    &PROGRAMS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::maker;
    use farreach_kernels::KERNELS;
    use std::collections::HashSet;

    #[test]
    fn the_catalogue_is_consistent() {
        let mut names: HashSet<&str> = KERNELS.iter().map(|k| k.name).collect();
        for p in programs() {
            assert!(names.insert(&p.name), "{} is there twice", p.name);
            assert!(!p.command.is_empty() && !p.packages.is_empty() && p.footprint > 0, "{}", p.name);
            for input in &p.inputs {
                let by_maker = input.maker.as_ref().is_some_and(|m| maker(m).is_some() && input.size > 0);
                assert!(by_maker != input.text.is_some(), "{}: {}", p.name, input.file);
            }
            // Every placeholder is a file that is made.
            let words = p.command.iter().chain(p.steps.iter().chain(&p.load).chain(&p.steady).flatten());
            let words = words.chain(&p.steady_arguments);
            let known = [PORT, DIRECTORY, RECORDS, FILLS, LIMIT];
            for word in words.filter(|w| w.contains('{') && !known.iter().any(|name| w.contains(name))) {
                let file = word.strip_prefix('{').and_then(|w| w.strip_suffix('}')).expect(word);
                assert!(p.inputs.iter().any(|i| i.file == file), "{}: {word}", p.name);
            }
            // The command of a server contains the port, and so do the commands of its load.
            let loads = || p.load.iter().chain(&p.steady);
            assert_eq!(p.steady.is_empty(), p.record_bytes == 0, "{}", p.name);
            assert!(p.steady_arguments.is_empty() || !p.steady.is_empty(), "{}", p.name);
            assert!(loads().all(|command| command.iter().any(|w| w.contains(PORT))), "{}", p.name);
            assert_eq!(p.command.iter().any(|w| w.contains(PORT)), !p.load.is_empty(), "{}", p.name);
            assert!(!p.steps.iter().flatten().any(|w| w.contains(PORT)), "{}", p.name);
            assert!(p.stdin.as_ref().is_none_or(|file| p.inputs.iter().any(|i| &i.file == file)), "{}", p.name);
        }
        assert!(programs().len() >= 20);
    }

    /// Every benchmark of the subblock paper and of the page-size study's list has a kernel or a program in its place.
    #[test]
    fn every_benchmark_has_a_descendant() {
        let all: Vec<&str> =
            KERNELS.iter().map(|k| k.stands_for).chain(programs().iter().map(|p| p.stands_for.as_str())).collect();
        for name in ["coral", "nasa7", "compress", "fftpde", "wave5", "mp3d", "spice", "pthor", "ML", "gcc"]
            .into_iter()
            .chain(["bzip2", "crafty", "gap", "gzip", "parser", "perl", "vortex", "vpr", "mcf"])
            .chain(["GUPS", "graph500", "memcached", "NPB:CG", "mummer", "soplex", "go", "ijpeg", "li"])
        {
            assert!(all.iter().any(|s| s.split(", ").any(|word| word == name)), "{name}");
        }
    }
}
