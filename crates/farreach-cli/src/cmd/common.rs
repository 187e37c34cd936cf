//! Options that several subcommands share.

use super::piece::PieceArgs;
use super::sampling::windows;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use farreach_machine::{Lab, MachineSpec, Options, Sample};
use farreach_native::this;
use farreach_report::Report;
use farreach_report::format::clean;
use farreach_trace::{Cutter, Layout, Partial, Place, Relocator};
use farreach_types::count::parse_count;
use farreach_types::event::Batch;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The default machines: the five of the subblock paper's Table 6.
const DEFAULT_MACHINES: [&str; 5] =
    ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"];

/// An error of what a trace was fed to, which knows the event stream alone: now it names the file.
pub fn of_stream(error: anyhow::Error, file: &str) -> anyhow::Error {
    error.downcast::<farreach_types::Error>().map_or_else(|other| other, |error| error.of_stream(file).into())
}

/// The options about machines, for commands without a length in instructions.
#[derive(Args)]
pub struct MachineArgs {
    /// A preset or a TOML file, with overrides: NAME[:key=value,...]. Repeatable. `farreach machines` lists them. The
    /// part before the slash of presets, such as `today`, means all of that group.
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    /// Seed of everything random; printed with the result.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
}

impl MachineArgs {
    /// The machines, or these.
    pub fn parse(&self, default: &[&str]) -> Result<Vec<MachineSpec>> {
        if self.machines.is_empty() {
            return Ok(this::parse_all(default, self.seed)?);
        }
        Ok(this::parse_all(&self.machines, self.seed)?)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// The options about machines and the length of the run.
#[derive(Args)]
pub struct LabArgs {
    /// A preset or a TOML file, with overrides: NAME[:key=value,...]. Repeatable. `farreach machines` lists them. The
    /// part before the slash of presets, such as `ds13`, means all of that group; `all` means all. Default: the five
    /// designs of the subblock paper.
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    #[command(flatten)]
    piece: PieceArgs,
    /// Also show what is counted in phases of N instructions, such as 10M: misses, cycles and memory over time. Not for
    /// whole systems, nor with --sample.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    every: Option<u64>,
    /// Seed of everything random; printed with the result.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
    /// Give every new mapping a start that is a multiple of SIZE, such as 64K: a system whose mmap aligns for
    /// superpages (T94-53). `linux`: the place that Linux would give it, below what is mapped already; private memory
    /// of whole 2 MB at a multiple. Growth of heap and stack and the segments of one library stay together. Needs a
    /// trace that has mappings.
    #[arg(long, value_name = "SIZE|linux")]
    align: Option<Layout>,
    /// Give pages the frames and 2 MB pages that a live process had: a file that `farreach contiguity --dump` wrote as
    /// root. Short for `placement=mapping,mapping=FILE` at every machine. FILE@0xADDRESS is a copy of /proc/PID/pagemap
    /// from this address on; if there is FILE.maps, it is a copy of /proc/PID/maps.
    #[arg(long, value_name = "FILE")]
    mapping: Option<String>,
    /// Simulate 1/N of the run, and estimate misses, cycles and energy of the whole, with the standard error of the
    /// misses: windows of LENGTH instructions, 1M if not given, chosen at random, each after a window that warms up the
    /// TLBs. Faults and memory are exact. Not for machines with caches, nor for whole systems.
    #[arg(long, value_name = "N[:LENGTH]", value_parser = windows)]
    sample: Option<Sample>,
    /// Threads to simulate on; 0: as many as there are processors. The result is the same on any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    threads: u64,
    /// Without shortcuts: ask every design at every reference. Slow, same result; for checking farreach itself.
    #[arg(long)]
    plain: bool,
}

impl LabArgs {
    /// The machines; errors in descriptions are reported here, before anything runs.
    pub fn machines(&self) -> Result<Vec<MachineSpec>> {
        let default = || DEFAULT_MACHINES.iter().map(|m| (*m).to_owned()).collect();
        let names: Vec<String> = if self.machines.is_empty() { default() } else { self.machines.clone() };
        let names = names.into_iter().map(|name| self.with_mapping(name)).collect::<Result<Vec<_>>>()?;
        Ok(this::parse_all(names, self.seed)?)
    }

    /// Builds the laboratory. `twice`, `ahead`: see [`Options`].
    pub fn lab(&self, machines: Vec<MachineSpec>, twice: bool, ahead: u64) -> Result<Lab> {
        let threads = threads(self.threads);
        if let (Some(_), Some(every)) = (self.sample, self.every) {
            bail!("--every {every} is not allowed with --sample, which estimates the whole");
        }
        Ok(Lab::new(
            machines,
            Options {
                limit: self.piece.limit,
                warmup: self.piece.warmup(),
                sample: self.sample,
                seed: self.seed,
                twice,
                plain: self.plain,
                threads,
                ahead,
            },
        )?)
    }

    /// Instructions after which the run ends.
    pub fn limit(&self) -> Option<u64> {
        self.piece.limit
    }

    /// What cuts the stream, which begins at this place.
    pub fn cutter(&self, from: Option<&Place>) -> Cutter {
        self.piece.cutter(from, self.every)
    }

    /// The machine with the placement of `--mapping`.
    fn with_mapping(&self, name: String) -> Result<String> {
        let Some(file) = &self.mapping else { return Ok(name) };
        ensure!(!file.contains(','), "--mapping {file}: a comma separates keys; give the file another name");
        let joint = if name.contains(':') { ',' } else { ':' };
        let (file, start) = pagemap_of(file);
        let mut keys = format!("{name}{joint}placement=mapping,mapping={file}");
        if let Some(start) = start {
            keys += &format!(",mapping_start={start}");
        }
        let maps = format!("{file}.maps");
        if Path::new(&maps).exists() {
            keys += &format!(",mapping_maps={maps}");
        }
        Ok(keys)
    }

    /// Refuses `--align` where the trace of a whole system is meant: its pages lie where its kernel has put them.
    pub fn check_alignment(&self, is_system: bool) -> Result<()> {
        let given = self.align.filter(|_| is_system);
        given.map_or(Ok(()), |layout| {
            bail!("--align: mappings of a whole system lie where its kernel put them, and cannot be {layout}")
        })
    }

    /// The relocator of `--align`, if it was given.
    pub fn alignment(&self) -> Result<Alignment> {
        let relocator =
            self.align.map(|layout| Relocator::with(layout).map_err(|what| anyhow::anyhow!("--align: {what}")));
        Ok(Alignment { layout: self.align, relocator: relocator.transpose()? })
    }
}

/// The file and the address in `FILE@0xADDRESS`, unless there is a file of that name.
fn pagemap_of(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once('@') {
        Some((file, start)) if start.starts_with("0x") && !Path::new(named).exists() => (file, Some(start)),
        _ => (named, None),
    }
}

/// A whole number of at least `MIN`, for an option.
pub fn whole<const MIN: u64>(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|n| *n >= MIN)
        .ok_or_else(|| format!("a whole number from {MIN} to {} is allowed", u64::MAX))
}

/// The number of threads that `--threads` means.
pub fn threads(given: u64) -> usize {
    match given {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => usize::try_from(given).unwrap_or(usize::MAX),
    }
}

/// Passes batches through, aligned with `--align`.
pub struct Alignment {
    layout: Option<Layout>,
    relocator: Option<Relocator>,
}

impl Alignment {
    /// The batch as the machines see it.
    pub fn apply(&mut self, batch: Batch) -> Result<Batch> {
        Ok(match &mut self.relocator {
            Some(relocator) => relocator.apply(&batch)?,
            None => batch,
        })
    }

    /// The name of what runs, for the result.
    pub fn label(&self, source: &str) -> String {
        self.layout.map_or_else(|| source.to_owned(), |layout| format!("{source} (new mappings {layout})"))
    }
}

/// The options about output.
#[derive(Args)]
pub struct OutputArgs {
    /// Print the result as JSON; it names its schema.
    #[arg(long, group = "form")]
    json: bool,
    /// Print the result as CSV, one row per machine, page size or look.
    #[arg(long, group = "form")]
    csv: bool,
    /// Also write a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the result to a file instead of standard output (`-`).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputArgs {
    /// Checks before a long run that the files can be written, and that none of them is one of the `inputs`.
    pub fn check<'a>(&self, inputs: impl IntoIterator<Item = &'a str>) -> Result<()> {
        if let Some(html) = &self.html {
            needs_file(html, "--html")?;
        }
        if self.output.as_deref().is_none_or(is_stdout) {
            needs_stdout()?;
        }
        for (path, _) in self.files() {
            Partial::create(path)?;
        }
        for input in inputs {
            if let Some((path, option)) = self.files().find(|(path, _)| same_file(path, Path::new(input))) {
                bail!("{}: {option} would overwrite what is read; name another file", path.display());
            }
        }
        match (&self.html, &self.output) {
            (Some(html), Some(output)) if same_file(html, output) => Err(twice(html, "--html", "--output")),
            _ => Ok(()),
        }
    }

    /// Takes `--output` away if it names a folder: one that is there, or a path with a slash at its end. The page is
    /// written into it under this name, unless `--html` names another.
    pub fn take_folder(&mut self, page: &str) -> Option<PathBuf> {
        let dir = self.output.take_if(|path| path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/"))?;
        self.html.get_or_insert_with(|| dir.join(page));
        Some(dir)
    }

    /// Refuses a further output file that is the same as one of these.
    pub fn apart_from(&self, path: &Path, option: &str) -> Result<()> {
        match self.files().find(|(file, _)| same_file(file, path)) {
            Some((_, other)) => Err(twice(path, other, option)),
            None => Ok(()),
        }
    }

    /// The files that are written, each with its option.
    fn files(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let output = self.output.as_deref().filter(|path| !is_stdout(path));
        let html = self.html.as_deref().map(|path| (path, "--html"));
        html.into_iter().chain(output.map(|path| (path, "--output")))
    }

    /// Prints the result in the form asked for, then writes the page: what one of them meets does not cost the other.
    pub fn emit(&self, result: &impl Report) -> Result<()> {
        let text = match (self.json, self.csv) {
            (true, _) => result.json(),
            (_, true) => result.csv(),
            _ => result.table(self.width()),
        };
        self.emit_text(&text, result)
    }

    /// The same with a text of the command's own.
    pub fn emit_text(&self, text: &str, result: &impl Report) -> Result<()> {
        let printed = self.write(text);
        let page = self.page(result);
        match (printed, page) {
            (Err(error), Err(of_page)) => {
                note(explain(&of_page));
                Err(error)
            }
            (printed, page) => printed.and(page),
        }
    }

    /// Writes the page, if one was asked for.
    fn page(&self, result: &impl Report) -> Result<()> {
        if let Some(path) = &self.html {
            write_whole(path, result.html().as_bytes())?;
            note(format_args!("report in {}", path.display()));
        }
        Ok(())
    }

    /// Width in characters of the destination of the result.
    fn width(&self) -> usize {
        match &self.output {
            Some(path) if !is_stdout(path) => usize::MAX,
            _ => terminal_width(),
        }
    }

    /// Prints a text to the destination of the result.
    pub fn write(&self, text: &str) -> Result<()> {
        write_or_print(self.output.as_deref(), text)
    }

    /// Writes a page of this name too, unless the user chose a form.
    pub fn page_by_default(&mut self, name: &str) {
        if !self.json && !self.csv && self.output.is_none() {
            self.html.get_or_insert_with(|| PathBuf::from(name));
        }
    }
}

fn twice(path: &Path, one: &str, other: &str) -> anyhow::Error {
    anyhow::anyhow!("{}: both {one} and {other} would write it; name two files", path.display())
}

/// Refuses `-` for files other than the result: standard output has the result, or the output of a program.
pub fn needs_file(path: &Path, option: &str) -> Result<()> {
    ensure!(!is_stdout(path), "{option} -: a file is needed, not standard output (a file called '-' is './-')");
    Ok(())
}

/// Whether two paths lead to one file, which need not exist yet. Devices and pipes may be written twice.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().ok().map(|folder| folder.join(path.file_name().unwrap_or_default()))
    };
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => place(one).is_some_and(|one| place(other) == Some(one)),
        _ => false,
    }
}

/// Width of standard output in characters; unlimited if it is no terminal.
pub fn terminal_width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(usize::MAX, |(width, _)| width.0.into())
}

/// Whether a path stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails if standard output is closed.
fn needs_stdout() -> Result<()> {
    ensure!(!farreach_live::stdout_was_closed(), "standard output is closed; what is printed there would be lost");
    Ok(())
}

/// Prints to standard output. It is no error if the reader has closed the pipe (`farreach sim ... | head`).
pub fn print(text: &str) -> Result<()> {
    needs_stdout()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}

/// A line on standard error; some messages have more. Control characters in quoted names and pieces of files are
/// replaced. A failure to write it is ignored.
pub fn note(line: impl Display) {
    let lines: Vec<String> = line.to_string().split('\n').map(clean).collect();
    let _ = writeln!(std::io::stderr(), "farreach: {}", lines.join("\n"));
}

/// An error with its causes, without repetition: some messages contain their cause.
pub fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.ends_with(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

/// Writes a text into a file, or prints it. What cannot be written is printed: it may have taken hours.
pub fn write_or_print(output: Option<&Path>, text: &str) -> Result<()> {
    let Some(path) = output.filter(|path| !is_stdout(path)) else { return print(text) };
    let Err(error) = write_whole(path, text.as_bytes()) else { return Ok(()) };
    // Who has closed a pipe wants no more of it.
    if is_broken_pipe(&error) || print(text).is_err() {
        return Err(error);
    }
    Err(error.context("the result is on standard output, since its file cannot be written"))
}

/// Whether the reader of a pipe is gone, which is no error to report.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(pipe)
}

/// Writes a file whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Partial::create(path)?;
    file.write_all(bytes).with_context(|| path.display().to_string())?;
    Ok(file.commit()?)
}

/// The path of this command, which runs itself for what needs a process of its own.
pub fn own_path() -> Result<PathBuf> {
    std::env::current_exe().context("the path of farreach")
}

/// Where something is kept that can be made again: a folder of this name in the user's cache directory. `option` says
/// where else.
pub fn cache_folder(name: &str, option: &str) -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let dir = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| set("HOME").map(|h| h.join(".cache")));
    let dir = dir.with_context(|| format!("neither XDG_CACHE_HOME nor HOME is set: say where with {option}"))?;
    Ok(dir.join("farreach").join(name))
}
