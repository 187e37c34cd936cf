//! `farreach rtl synth`: modules as cells of a library.

use crate::cmd::common::{cache_folder, is_stdout, note, print, threads, whole, write_or_print};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use farreach_live::Watch;
use farreach_rtl::excerpt;
use farreach_rtl::synth::configurations::{Configuration, configurations};
use farreach_rtl::synth::flow::LIBRARIES;
use farreach_rtl::synth::results::{Row, csv};
use farreach_rtl::synth::run::{Excerpts, Synthesis};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Synthesise the modules: area, clock and energy in cells of a library.
///
/// Yosys and its abc map each module to the cells of a library, OpenSTA finds the shortest period of its clock. The
/// cells then run through excerpts of programs (`farreach rtl excerpt`), and each transition of a net takes
/// what the library says. All sizes take about half an hour; netlists are kept, and an interrupted run goes on where it
/// ended. Needs Yosys, OpenSTA and the libraries of cells, qflow-tech-osu018 and qflow-tech-osu035.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach rtl synth --excerpt rtl/excerpts/cc1.txt -o results.csv       all
  farreach rtl synth --only segment --only l1d-64                      two structures, without energy
  farreach rtl synth --list                                            what there is")]
pub struct SynthArgs {
    /// An excerpt of a program, which its name without the ending names. Repeatable
    #[arg(long = "excerpt", value_name = "FILE")]
    excerpts: Vec<PathBuf>,
    /// One configuration of `--list` instead of all. Repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the configurations
    #[arg(long)]
    list: bool,
    /// Put the results into this file
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where netlists are kept; default: farreach/synth in the user's cache directory
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Configurations at the same time; 0: as many as there are processors
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    threads: u64,
}

/// Runs the command.
pub fn run(args: SynthArgs) -> Result<ExitCode> {
    let mut all = configurations();
    if let Some(unknown) = args.only.iter().find(|name| all.iter().all(|of| of.name != **name)) {
        bail!("--only {unknown}: there is no such configuration; --list prints all");
    }
    all.retain(|of| args.only.is_empty() || args.only.contains(&of.name));
    if args.list {
        let line = |of: &Configuration| format!("{:20} {}.sv: {}\n", of.name, of.module.name, of.module.about);
        print(&all.iter().map(line).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = args.output.as_deref().filter(|file| !is_stdout(file)) {
        farreach_trace::Partial::create(file)?;
    }
    let mut excerpts = Excerpts::new();
    for file in &args.excerpts {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let read = excerpt::read(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
        let program = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        excerpts.push((program, read));
    }
    let dir = args.cache.clone().map_or_else(|| cache_folder("synth", "--cache"), Ok)?;
    let libraries = LIBRARIES.iter().map(|cells| Synthesis::new(cells, &dir)).collect::<Result<Vec<_>, _>>();
    let libraries = libraries.map_err(anyhow::Error::msg)?;
    // The first library has all configurations, the others those that show what depends on the library.
    let first = all.iter().map(|of| (&libraries[0], of));
    let others = libraries[1..].iter().flat_map(|library| all.iter().map(move |of| (library, of)));
    let jobs: Vec<(&Synthesis, &Configuration)> = first.chain(others.filter(|(_, of)| of.everywhere)).collect();
    let rows = synthesise(&jobs, &excerpts, threads(args.threads))?;
    let text = csv(&rows)?;
    write_or_print(args.output.as_deref(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// All jobs, several at a time. The first failure, or a signal, ends it.
fn synthesise(jobs: &[(&Synthesis, &Configuration)], excerpts: &Excerpts, threads: usize) -> Result<Vec<Row>> {
    let signals = Watch::begin();
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<(usize, Result<Row, String>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((synthesis, of)) = jobs.get(number) else { break };
            let row = synthesis.row(of, excerpts);
            let failed = row.is_err();
            let mut rows = rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            rows.push((number, row));
            note(format_args!("{} of {}: {}, {}", rows.len(), jobs.len(), of.name, synthesis.library_name()));
            if failed || signals.first().is_some() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| (0..threads.clamp(1, jobs.len().max(1))).for_each(|_| _ = scope.spawn(work)));
    let mut rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    rows.sort_unstable_by_key(|(number, _)| *number);
    let done = rows.into_iter().map(|(_, row)| row).collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?;
    ensure!(done.len() == jobs.len(), "interrupted; the netlists so far are kept, the same command goes on from there");
    Ok(done)
}
