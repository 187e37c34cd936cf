//! `farreach pagesize`: the page-size study, of a stored trace or a running program.

use super::common::{OutputArgs, of_stream, threads, whole};
use super::early::status;
use super::format::FormatArgs;
use super::piece::{self, FromArgs, PieceArgs};
use super::{feed, program};
use anyhow::{Result, anyhow};
use clap::Args;
use farreach_live::early::Early;
use farreach_live::{Report, Watch};
use farreach_machine::{Lab, MachineSpec, Options, PAGE_SIZES, PageLab, Progress};
use farreach_native::this;
use farreach_report::format::shown;
use farreach_trace::Cutter;
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use farreach_types::event::Batch;
use farreach_workloads::feed::Stored;
use std::ffi::OsString;
use std::process::ExitCode;

/// Machines that run beside the page sizes: those that mix sizes, or have several levels.
const POLICIES: [&str; 2] = ["ps/two-size", "ps/itanium"];

/// The papers' study of page sizes: misses against memory, from 4 KB to 2 MB, in one pass. `advise` answers for this
/// machine.
///
/// Two true-LRU TLBs, one for fetches and one for loads and stores; each page size counts as if all memory had it,
/// pages being allocated at the first touch. With COMMAND the program runs under the recorder and nothing is stored.
#[derive(Args)]
#[command(after_help = concat!(program::exit_statuses!(), "\n
Examples:
  farreach pagesize gcc.frt
  farreach pagesize --entries 128 --html pages.html -- gcc -O2 -c big.c
  farreach pagesize gcc.frt --sizes 4K,16K,256K --csv
  farreach pagesize gcc.frt --from main --skip 100M --warmup 10M --limit 1G --every 100M
  farreach pagesize gcc.frt --machine t94/superpage:sizes=4K+64K,split=true
  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | farreach pagesize -"))]
pub struct PageSizeArgs {
    /// The trace: farreach's own or in another format (`--format` lists them), plain or compressed; a folder with a
    /// trace of drmemtrace; `-` for standard input. Or a kernel of the catalogue:
    /// workload:NAME[:size=SIZE,references=N,seed=N].
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    file: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Entries of each of the two TLBs. The reports for programs have the misses of all powers of two besides.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = whole::<1>, allow_negative_numbers = true)]
    entries: u64,
    /// Page sizes, ascending, powers of two from 4K to 2M; others are compared with the first.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    #[arg(default_values_t = PAGE_SIZES.map(Bytes), hide_default_value = true)]
    sizes: Vec<Bytes>,
    /// A machine to run beside, over the same references: NAME[:key=value,...], or a group of presets, such as `ds13`.
    /// Repeatable. `farreach machines` lists them.
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    /// Without `ps/two-size` and `ps/itanium`, which otherwise run beside: page sizes, and machines that are named,
    /// alone take a third of the time.
    #[arg(long)]
    no_policies: bool,
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    piece: PieceArgs,
    /// Also show phases of N instructions, such as 10M: the misses of each and its working set, the pages that it
    /// touches.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    every: Option<u64>,
    /// Seed of everything random in the machines beside; printed with the result.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
    /// Threads to count on; 0: as many as there are processors. The result is the same on any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    threads: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// A program and its arguments, after `--`, instead of a trace.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "FormatArgs")]
    pub command: Vec<OsString>,
}

/// The page sizes, and the machines beside them, over one stream.
struct Study {
    cutter: Cutter,
    pages: PageLab,
    beside: Option<Lab>,
}

impl Study {
    fn new(args: &PageSizeArgs, specs: Vec<MachineSpec>) -> Result<Study> {
        let options = Options {
            limit: args.piece.limit,
            warmup: args.piece.warmup(),
            seed: args.seed,
            threads: threads(args.threads),
            ..Options::default()
        };
        let sizes: Vec<u64> = args.sizes.iter().map(|size| size.0).collect();
        // Machines beside keep half of the processors busy; the study is then faster with fewer engines, which share
        // more.
        let threads = if specs.is_empty() { options.threads } else { options.threads / 2 };
        let pages =
            PageLab::new(&sizes, args.entries, Options { threads, ..options.clone() }).map_err(|e| match e {
                farreach_types::Error::Config { machine: sizes, what } => anyhow!("--sizes {sizes}: {what}"),
                other => other.into(),
            })?;
        let beside = (!specs.is_empty()).then(|| Lab::new(specs, options)).transpose()?;
        let cutter = args.piece.cutter(args.from.from.as_ref(), args.every);
        Ok(Study { cutter, pages, beside })
    }

    fn feed(&mut self, batch: Batch) -> Result<(bool, Progress)> {
        let batch = self.cutter.apply(batch)?;
        // Both reach the limit at the same reference, but one may report it later.
        let more = self.pages.feed(&batch)?;
        let beside = self.beside.as_mut().map_or(Ok(false), |lab| lab.feed(batch))?;
        Ok((more || beside, self.pages.progress()))
    }

    /// Says whether the limit was reached.
    fn emit(
        mut self,
        args: &PageSizeArgs,
        source: &str,
        early: Option<&Early>,
        report: Option<&Report>,
    ) -> Result<bool> {
        self.pages.finish()?;
        let limited = self.pages.limit_reached();
        let stopped = early.filter(|_| !limited).map(Early::words);
        let mut policies = Vec::new();
        if let Some(mut lab) = self.beside {
            lab.finish()?;
            policies = lab.result(source, stopped.clone()).machines;
        }
        let mut result = self.pages.result(source, stopped, policies);
        if let Some(report) = report {
            program::describe_end(&mut result.workload, report, limited);
        }
        piece::describe(&self.cutter, early.is_some(), &mut result.workload)?;
        args.output.emit(&result)?;
        Ok(limited)
    }
}

/// Runs the command; with COMMAND the exit status is the program's.
pub fn run(args: PageSizeArgs) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let policies = POLICIES.into_iter().filter(|_| !args.no_policies);
    let machines = this::parse_all(policies.chain(args.machines.iter().map(String::as_str)), args.seed)?;
    args.output.check(machines.iter().flat_map(|m| m.inputs()).chain(args.file.as_deref()))?;
    let mut study = Study::new(&args, machines)?;
    if args.command.is_empty() {
        let file = args.file.as_deref().ok_or_else(|| anyhow!("a trace or a command is needed"))?;
        let of_file = |error: farreach_types::Error| of_stream(error.into(), file);
        let trace = Stored::open(file, args.format.spec()?.as_deref()).map_err(of_file)?;
        let fed = trace.feed_all(|batch| study.feed(batch), &mut feed::shows(args.piece.limit));
        let (early, failure) = fed.map_err(|error| of_stream(error, file))?;
        study.pages.finish()?;
        study.pages.judge(failure).map_err(of_file)?;
        let limited = study.emit(&args, file, early.as_ref(), None)?;
        return Ok(early.filter(|_| !limited).map_or(ExitCode::SUCCESS, |early| status(&early, 1)));
    }
    program::check(&args.command)?;
    let (report, early) = feed::live(&args.command, args.piece.limit, |batch| study.feed(batch))?;
    let limited = study.emit(&args, &shown(&args.command), early.as_ref(), Some(&report))?;
    Ok(match early {
        _ if limited => ExitCode::SUCCESS,
        Some(early) => status(&early, program::FAILED),
        None => program::exit_code(&report),
    })
}
