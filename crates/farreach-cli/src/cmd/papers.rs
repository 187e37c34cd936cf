//! `farreach papers`: the papers' tables and figures, measured again.

use super::common::{OutputArgs, cache_folder, note, own_path, print, threads, whole};
use super::handover;
use super::progress::{Display, Goal, Line, time};
use anyhow::{Context, Result, bail};
use clap::Args;
use farreach_papers::{Results, STUDIES, Study, atlas_csv, study, with_claims};
use farreach_report as report;
use farreach_report::format::{count, counted};
use farreach_studies::{Event, Programs, Round, Runner, Sources, Steady, check_steady};
use farreach_sweep::Cache;
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The study whose numbers are a file of their own.
const ATLAS: &str = "atlas";

/// Measure a table or figure of a paper again and show it beside the printed one, with a verdict on each claim.
///
/// Without an id: the list of them. Results are kept; what was run once is not run again. Ctrl-C ends a run, the next
/// one goes on where it stopped (exit status 130).
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach papers                                      what there is
  farreach papers t94-table6 --small                   one table, with small programs
  farreach papers since --small                        designs since 2000, and each of their claims
  farreach papers --all --small --html papers.html     all of them as one page
  farreach papers atlas --small -o atlas/              all designs compared: atlas.csv, and a page
  farreach papers t94-table9 --workload gcc.frt        the study of Table 9 on a trace of your own
  farreach papers ds13-table4 -w redis --trap --size 1G    a server in its steady state, by its traps")]
pub struct PapersArgs {
    /// Tables and figures, such as t94-table6, or all of a paper, such as t94; since is hardware since 2000.
    #[arg(value_name = "ID", conflicts_with = "all", group = "what")]
    ids: Vec<String>,
    /// All of them, as one HTML page (papers.html, unless another form is asked for).
    #[arg(long, group = "what")]
    all: bool,
    /// Small seeded kernels only: a few minutes on two processors, the same numbers everywhere.
    #[arg(long, requires = "what")]
    small: bool,
    /// Run this instead: a kernel or program of `farreach workloads`, or a trace file. Repeatable.
    #[arg(long = "workload", short = 'w', value_name = "NAME|FILE", requires = "what")]
    workloads: Vec<String>,
    /// Servers of `farreach workloads` in their steady state instead of their first seconds: they are filled, then
    /// observed by their traps, minutes each. For tables of DS13 and RMM15.
    #[arg(long, requires = "what", conflicts_with_all = ["small", "on", "plan"])]
    trap: bool,
    /// With --trap: how much memory servers are filled to, such as 256M.
    #[arg(long, value_name = "SIZE", requires = "trap")]
    size: Option<Bytes>,
    /// Stop each program after N instructions, such as 300M.
    #[arg(long, value_name = "N", requires = "what", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
    /// Threads to simulate on; 0: as many as there are processors. The result is the same on any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    threads: u64,
    /// Where results are kept; default: farreach/papers in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Where passes run: local[:N], tcp://HOST:PORT (a Dask scheduler), or a TOML file that describes a batch system;
    /// as for `farreach sweep`. Needs the Python package.
    #[arg(long, value_name = "PLACE", requires = "what", conflicts_with_all = ["threads", "plan"])]
    on: Option<String>,
    /// Run nothing: print as JSON the passes whose results are not kept yet, cut for so many workers.
    #[arg(long, value_name = "WORKERS", requires = "what", value_parser = whole::<1>)]
    plan: Option<u64>,
    /// Print claims and verdicts as a Markdown table.
    #[arg(long, conflicts_with = "form", requires = "what")]
    markdown: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub fn run(mut args: PapersArgs) -> Result<ExitCode> {
    let studies = match (args.all, args.ids.is_empty()) {
        (true, _) => STUDIES.to_vec(),
        (false, true) => return list().map(|()| ExitCode::SUCCESS),
        (false, false) => chosen(&args.ids)?,
    };
    let steady = args.trap.then(|| Steady { size: args.size.map(|size| size.0) });
    if steady.is_some() {
        check_steady(&studies)?;
    }
    if args.on.is_some() {
        return handover::to_python("papers");
    }
    if args.all && !args.markdown && args.plan.is_none() {
        args.output.page_by_default("papers.html");
    }
    let folder = studies.iter().any(|s| s.id == ATLAS).then(|| args.output.take_folder("atlas.html")).flatten();
    if let Some(dir) = &folder {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    args.output.check(args.workloads.iter().map(String::as_str))?;
    let cache = Cache::open(&args.cache.clone().map_or_else(|| cache_folder("papers", "--cache"), Ok)?)?;
    let from = Sources { cache: &cache, small: args.small, limit: args.limit, seed: args.seed, steady };
    let listen = &mut terminal();
    let programs = match args.workloads.is_empty() {
        true => Programs::standard(&from, listen)?,
        false => Programs::chosen(&args.workloads, &from, listen)?,
    };
    let threads = threads(args.threads);
    let Some(programs) = programs else { return Ok(interrupted()) };
    let (seed, limit, farreach) = (args.seed, args.limit, &own_path()?);
    let runner = Runner { cache: &cache, programs: &programs, threads, seed, limit, farreach };
    if let Some(workers) = args.plan {
        return print_plan(&runner, &with_claims(&studies), workers, listen).map(|()| ExitCode::SUCCESS);
    }
    let Some(results) = runner.answer(&with_claims(&studies), listen)? else { return Ok(interrupted()) };
    let papers = farreach_papers::show(&studies, &results, &programs.set);
    if let Some(dir) = &folder {
        let file = dir.join("atlas.csv");
        std::fs::write(&file, atlas_csv(&results, &programs.set)).with_context(|| file.display().to_string())?;
        note(format_args!("numbers in {}", file.display()));
    }
    if args.markdown {
        args.output.emit_text(&report::papers::markdown::render(&papers), &papers)?
    } else {
        args.output.emit(&papers)?
    }
    Ok(ExitCode::SUCCESS)
}

/// The passes that are to be run, for whoever runs them.
fn print_plan(runner: &Runner, studies: &[&Study], workers: u64, listen: &mut dyn FnMut(Event)) -> Result<()> {
    let passes = match runner.round(studies, &mut Results::default(), usize::try_from(workers)?, listen)? {
        Round::Complete(_) => Vec::new(),
        Round::Missing(passes, _) => passes,
    };
    let cache = std::path::absolute(runner.cache.dir())?;
    let plan = serde_json::json!({
        "schema": "farreach.passes/1", "model": farreach_sweep::MODEL, "cache": cache, "passes": passes,
    });
    print(&format!("{plan:#}\n"))
}

/// Shows on standard error what happens meanwhile.
fn terminal() -> impl FnMut(Event) {
    let (mut recording, mut passes) = (None::<Display>, None::<Line>);
    move |event| match event {
        Event::Says(line) => note(line),
        Event::RecordingBegins { limit } => {
            recording = Some(Display::new(Goal { instructions: Some(limit), references: None }));
        }
        Event::Recorded(progress) => recording.iter_mut().for_each(|display| display.update(progress)),
        Event::RecordingEnds => recording.take().into_iter().for_each(Display::finish),
        Event::PassesBegin => passes = Some(Line::new()),
        Event::Passes { round, done, total, work } => passes.iter_mut().for_each(|line| {
            line.show(|elapsed| {
                let (passes, work, elapsed) = (counted(total, "pass"), count(work), time(elapsed));
                format!("round {round}: {done} of {passes}, {work} references x machines, {elapsed}")
            });
        }),
        Event::PassesEnd => passes.take().into_iter().for_each(Line::finish),
    }
}

fn interrupted() -> ExitCode {
    note("interrupted; what is done is kept, and the same command goes on from there");
    ExitCode::from(130)
}

/// Studies by their ids, or by the part of them before the dash, which means all of a paper; each once.
fn chosen(ids: &[String]) -> Result<Vec<&'static Study>> {
    let mut all: Vec<&'static Study> = Vec::new();
    for id in ids {
        let of_paper: Vec<&Study> =
            STUDIES.iter().copied().filter(|s| s.id.split_once('-').is_some_and(|(paper, _)| paper == id)).collect();
        for study in if of_paper.is_empty() { vec![known(id)?] } else { of_paper } {
            if !all.iter().any(|s| s.id == study.id) {
                all.push(study);
            }
        }
    }
    Ok(all)
}

fn known(id: &str) -> Result<&'static Study> {
    match study(id) {
        Some(study) => Ok(study),
        None => bail!(
            "no table or figure '{id}'; there are {}",
            STUDIES.iter().map(|s| s.id).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn list() -> Result<()> {
    let width = STUDIES.iter().map(|s| s.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for s in STUDIES {
        writeln!(out, "{:width$}  {}", s.id, s.title)?;
    }
    writeln!(out, "\n`farreach papers ID --small` runs one with small programs, `farreach papers --all` all of them.")?;
    print(&out)
}
