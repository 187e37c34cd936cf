//! `farreach papers`: the papers' tables and figures, measured again.

mod cache;
mod programs;
mod runner;

use super::common::{is_stdout, note, print, write_whole};
use anyhow::{Result, bail};
use cache::Cache;
use clap::Args;
use farreach::report::papers as report;
use farreach::study::{Papers, STUDIES, Study, study};
use farreach::trace::Partial;
use programs::Programs;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure a table or figure of a paper again and show it beside the printed one, with a verdict on each claim.
///
/// Without an id: the list of them. Results are kept; what was run once is not run again. Ctrl-C ends a run, the next one goes on
/// where it stopped (exit status 130).
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach papers                                      what there is
  farreach papers t94-table6 --small                   one table, with small programs
  farreach papers --all --small --html papers.html     all of them as one page
  farreach papers t94-table9 --workload gcc.frt        the study of Table 9 on a trace of your own")]
pub struct PapersArgs {
    /// Tables and figures, such as t94-table6.
    #[arg(value_name = "ID", conflicts_with = "all")]
    ids: Vec<String>,
    /// All of them, as one HTML page (papers.html, unless another form is asked for).
    #[arg(long)]
    all: bool,
    /// Small seeded kernels only: a few minutes on two processors, the same numbers everywhere.
    #[arg(long)]
    small: bool,
    /// Run this instead: a kernel of `farreach workloads`, or a trace file. Repeatable.
    #[arg(long = "workload", short = 'w', value_name = "NAME|FILE")]
    workloads: Vec<String>,
    /// Stop each program after N instructions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Threads to simulate on; 0: as many as there are processors. The result is the same on any number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Where results are kept; default: farreach/papers in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What is printed where.
#[derive(Args)]
struct Output {
    /// Print as JSON (schema farreach.papers/1).
    #[arg(long, group = "papers_form")]
    json: bool,
    /// Print as CSV, one value per row, verdicts included.
    #[arg(long, group = "papers_form")]
    csv: bool,
    /// Print claims and verdicts as a Markdown table.
    #[arg(long, group = "papers_form")]
    markdown: bool,
    /// Also write a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print to a file instead of standard output (`-`).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: PapersArgs) -> Result<ExitCode> {
    let studies = match (args.all, args.ids.is_empty()) {
        (true, _) => STUDIES.to_vec(),
        (false, true) => return list().map(|()| ExitCode::SUCCESS),
        (false, false) => args.ids.iter().map(|id| known(id)).collect::<Result<_>>()?,
    };
    args.output.check(args.all)?;
    let programs = if args.workloads.is_empty() {
        Programs::kernels(args.small, args.seed)
    } else {
        Programs::chosen(&args.workloads, args.small, args.seed)?
    };
    let cache = Cache::open(args.cache.as_deref())?;
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    let runner = runner::Runner { cache: &cache, programs: &programs, threads, seed: args.seed, limit: args.limit };
    let Some(results) = runner.answer(&studies)? else {
        note("interrupted; what is done is kept, and the same command goes on from there");
        return Ok(ExitCode::from(130));
    };
    emit(&args, &Papers::show(&studies, &results, &programs.set))?;
    Ok(ExitCode::SUCCESS)
}

impl Output {
    /// The page to write: the one asked for, or, for all studies and if nothing else is asked for, one of the usual name.
    fn page(&self, all: bool) -> Option<PathBuf> {
        let other = self.json || self.csv || self.markdown || self.output.is_some();
        self.html.clone().or_else(|| (all && !other).then(|| PathBuf::from("papers.html")))
    }

    /// Finds out before a long run whether the files can be written.
    fn check(&self, all: bool) -> Result<()> {
        let files = self.page(all).into_iter().chain(self.output.clone().filter(|path| !is_stdout(path)));
        files.map(|path| Partial::create(&path)).try_for_each(|file| file.map(drop))?;
        Ok(())
    }
}

fn emit(args: &PapersArgs, papers: &Papers) -> Result<()> {
    if let Some(path) = args.output.page(args.all) {
        write_whole(&path, report::html::render(papers).as_bytes())?;
        note(format_args!("report in {}", path.display()));
    }
    let text = match (args.output.json, args.output.csv, args.output.markdown) {
        (true, ..) => report::json(papers),
        (_, true, _) => report::csv::render(papers),
        (.., true) => report::markdown::render(papers),
        _ => report::terminal::render(papers),
    };
    match &args.output.output {
        Some(path) if !is_stdout(path) => write_whole(path, text.as_bytes()),
        _ => print(&text),
    }
}

fn known(id: &str) -> Result<&'static Study> {
    match study(id) {
        Some(study) => Ok(study),
        None => bail!("no table or figure '{id}'; there are {}", STUDIES.iter().map(|s| s.id).collect::<Vec<_>>().join(", ")),
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
