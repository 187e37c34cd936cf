//! Preparation of a program: packages, inputs, the directory where it runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use farreach_kernels::Rng;
use farreach_live::guarded::{Ended, Start};
use farreach_live::{cache, tool};
use farreach_trace::Partial;
use farreach_types::addr::Bytes;
use farreach_types::{Context, Error, Result, bail, ensure};

use crate::catalogue::{DIRECTORY, FILLS, Input, LIMIT, PORT, Program, RECORDS};
use crate::inputs::{Maker, maker};
use crate::server::free_port;
use crate::{KernelSpec, Load, Output, Prepared};

/// Where inputs are kept: `farreach/workloads` in `$XDG_CACHE_HOME`, or in `~/.cache`.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` names a directory.
pub fn cache_dir() -> Result<PathBuf> {
    cache::place("workloads").context("inputs need a place: set XDG_CACHE_HOME to an absolute path")
}

/// Those of the packages that are installed. Empty where there is no dpkg.
pub fn installed<'a>(packages: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let Ok(mut query) = tool::command("dpkg-query") else { return BTreeSet::new() };
    query.args(["-W", "-f=${db:Status-Status} ${Package}\n"]).args(packages).stderr(Stdio::null());
    let listed = query.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect()
}

/// Those packages of a program that are missing.
fn missing(program: &Program) -> Vec<&str> {
    let there = installed(program.packages.iter().map(String::as_str));
    program.packages.iter().map(String::as_str).filter(|package| !there.contains(*package)).collect()
}

/// Installs what a program needs. `said`: where the output of apt-get goes, and its errors.
///
/// # Errors
/// apt-get fails, as it does for anyone but root.
pub fn install(program: &Program, said: [Stdio; 2]) -> Result<()> {
    let missing = missing(program);
    if missing.is_empty() {
        return Ok(());
    }
    let mut apt = tool::command("apt-get").map_err(Error::System)?;
    apt.args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive");
    let [output, errors] = said;
    let status = apt.stdin(Stdio::null()).stdout(output).stderr(errors).status().context("apt-get")?;
    ensure!(status.success(), "apt-get could not install {}: {status}", missing.join(" "));
    Ok(())
}

/// Checks that the packages of a program are there and makes its inputs, unless they are there. `steady`: for a run in
/// which a server is filled first, to the size that is asked for.
///
/// # Errors
/// A package is missing: the message has the command that installs it. An input cannot be made.
pub fn prepare(program: &Program, kernel_spec: &KernelSpec, steady: bool) -> Result<Prepared> {
    let missing = missing(program);
    if !missing.is_empty() {
        bail!("{} needs packages that are not installed; as root: apt-get install {}", program.name, missing.join(" "));
    }
    ensure!(kernel_spec.references.is_none(), "{} is a program; references are a setting of kernels", program.name);
    let cache = cache_dir()?;
    let directory = cache.join("work").join(&program.name);
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let mut files = Vec::new();
    // The size that is asked for is that of the first file that has one.
    let mut size = kernel_spec.size;
    for input in &program.inputs {
        files.push((format!("{{{}}}", input.file), make(&cache, &directory, input, &mut size, kernel_spec.seed)?));
    }
    let fills = steady && !program.steady.is_empty();
    let filled = if fills { size.take().unwrap_or(program.footprint) } else { 0 };
    let records = filled.checked_div(program.record_bytes).unwrap_or(0);
    let limit = (filled + filled / 2).div_ceil(1 << 20).max(64);
    ensure!(!fills || records > 0, "{}: a record takes {} bytes; --size is less", program.name, program.record_bytes);
    ensure!(size.is_none(), "{} has no input whose size can be chosen", program.name);
    let port = (!program.load.is_empty()).then(free_port).transpose()?;
    let place = directory.to_str().with_context(|| format!("{} is not UTF-8", directory.display()))?;
    let fill = |word: &String| -> OsString {
        let numbers =
            [(PORT, port.unwrap_or_default().into()), (RECORDS, records), (FILLS, 4 * records), (LIMIT, limit)];
        let expanded = || {
            let place = word.replace(DIRECTORY, place);
            numbers.iter().fold(place, |word, (name, number)| word.replace(name, &number.to_string())).into()
        };
        files.iter().find(|(name, _)| name == word).map_or_else(expanded, |(_, path)| path.clone().into())
    };
    for step in &program.steps {
        let words: Vec<OsString> = step.iter().map(fill).collect();
        run_step(&words, &directory).with_context(|| format!("preparing {}", program.name))?;
    }
    let stdin = program.stdin.as_ref().map(|file| PathBuf::from(fill(&format!("{{{file}}}"))));
    let more: &[String] = if fills { &program.steady_arguments } else { &[] };
    let command = program.command.iter().chain(more).map(fill).collect();
    let load = port.map(|port| Load {
        commands: if fills { &program.steady } else { &program.load }
            .iter()
            .map(|words| words.iter().map(fill).collect())
            .collect(),
        port,
        directory: directory.clone(),
        output: Output::Named(directory.join("load")),
    });
    Ok(Prepared { command, stdin, stdout: directory.join("stdout"), directory, load })
}

/// A command whose output is of interest only if it fails.
fn run_step(words: &[OsString], directory: &Path) -> Result<()> {
    let name = words[0].display().to_string();
    let run = || {
        let mut start = Start::new(&words[0], None, None)?;
        start.command().args(&words[1..]).current_dir(directory).stdin(Stdio::null()).stderr(Stdio::piped());
        start.output()
    };
    let (Ended { status, .. }, [_, errors]) = run().with_context(|| name.clone())?;
    ensure!(status.success(), "{name}: {status}\n{}", String::from_utf8_lossy(&errors).trim_end());
    Ok(())
}

/// The path of an input, which is made if it is not there.
fn make(cache: &Path, directory: &Path, input: &Input, size: &mut Option<u64>, seed: Option<u64>) -> Result<PathBuf> {
    if let Some(text) = &input.text {
        let path = directory.join(&input.file);
        if fs::read(&path).ok().is_none_or(|there| there != text.as_bytes()) {
            write(&path, |out| out.write_all(text.as_bytes()))?;
        }
        return Ok(path);
    }
    let name = input.maker.as_deref().unwrap_or_default();
    let Maker { make, version, .. } = maker(name).with_context(|| format!("there is no maker '{name}'"))?;
    let (size, seed) = (size.take().unwrap_or(input.size), seed.unwrap_or(0).wrapping_add(input.seed));
    // The path contains everything that determines the content: an existing file is the right one.
    let folder = cache.join("inputs").join(format!("{name}-{version}-{}-{seed}", Bytes(size)));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(&input.file);
    if !path.is_file() {
        write(&path, |out| make(out, size, &mut Rng::new(seed)))?;
    }
    Ok(path)
}

/// A file whole or not at all.
fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let mut file = Partial::create(path)?;
    let mut out = BufWriter::with_capacity(1 << 16, &mut file);
    content(&mut out).and_then(|()| out.flush()).with_context(|| path.display().to_string())?;
    drop(out);
    file.commit()
}
