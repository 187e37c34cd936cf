//! `farreach rtl check`: modules against the simulator, lookup by lookup.

use crate::cmd::common::{cache_folder, note, print, terminal_width, whole};
use crate::cmd::early;
use crate::cmd::format::FormatArgs;
use crate::cmd::{feed, program};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use farreach_live::Watch;
use farreach_machine::{Lab, MachineSpec, Options, Progress};
use farreach_report::format::count;
use farreach_report::grid;
use farreach_rtl::{Checker, Compiler, Outcome};
use farreach_trace::generate;
use farreach_types::count::parse_count;
use farreach_types::event::{Batch, Source};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The machines without `--machine`: a small set that has all modules.
pub(super) const ALL: [&str; 11] = [
    "t94/single",
    "t94/superpage",
    "t94/partial",
    "t94/complete",
    "t94/integrated",
    "t94/set-associative:replacement=lfsr",
    "rmm15/4k:pwc_pd=2",
    "rmm15/thp:pwc_pd=2,pwc_pdpt=2",
    "rmm15/range:range_replacement=used-bit",
    "rmm15/clustered",
    "ds13/segment",
];
/// Steps of a random program.
const STEPS: u64 = 20_000;
/// Requests to a design of one array from one comparison of all its bits to the next.
const STATES_EVERY: u64 = 1021;

/// Compare RTL with the simulator, lookup by lookup.
///
/// The modules of the machines get the same lookups, fills and invalidations as the simulator's designs. Hit or miss,
/// frame, attributes, the entry that is filled and the one that is evicted are compared at each; valid, used and
/// modified bits every thousand or so. The first difference ends the check: cycle, request and both answers are
/// printed, and a waveform is written (FST, for GTKWave or Surfer). Needs Verilator, make and g++; compiled modules
/// are kept.
#[derive(Args)]
#[command(after_help = "\
Exit status: 0 if all is equal, 1 if not; after `--` 125 and more if the program could not be run

Examples:
  farreach rtl check                                       all modules, on random programs
  farreach rtl check --limit 10M -- gcc -O2 -c big.c       all modules, on a real one
  farreach rtl check -m rmm15/range gcc.frt                all structures of a machine, on a trace
  farreach rtl check -m t94/single:entries=16 workload:gups:size=16M,references=1M")]
pub struct CheckArgs {
    /// A trace, or a kernel of the catalogue, as `farreach sim` takes it. Without one, and without a COMMAND: programs
    /// made at random
    file: Option<String>,
    /// A machine whose structures are checked: a preset or a TOML file, with overrides. Repeatable. Without it,
    /// machines that together have all modules
    #[arg(long = "machine", short = 'm', value_name = "NAME[:key=value,...]")]
    machines: Vec<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Stop after N instructions, such as 10M; of each random program
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Random programs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<1>, allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["file", "command"])]
    random: u64,
    /// Seed of everything random; that of the first random program
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<0>, allow_negative_numbers = true)]
    seed: u64,
    /// The folder that a waveform goes to
    #[arg(long, value_name = "DIR", default_value = ".")]
    waves: PathBuf,
    /// Where compiled modules are kept; default: farreach/rtl in the user's cache directory
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// A program and its arguments, after `--`, instead of a trace
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["file", "FormatArgs"])]
    command: Vec<OsString>,
}

impl CheckArgs {
    /// Whether a program is run.
    pub fn records(&self) -> bool {
        !self.command.is_empty()
    }

    fn lab(&self, checker: &Checker) -> Result<Lab> {
        let seed = self.seed;
        let names: Vec<&str> =
            if self.machines.is_empty() { ALL.to_vec() } else { self.machines.iter().map(String::as_str).collect() };
        let machines = MachineSpec::parse_all(names, seed)?;
        // One thread: the modules, processes of their own, are another.
        let options = Options { limit: self.limit, seed, plain: true, threads: 1, ..Options::default() };
        let lab = Lab::observed(machines, options, &mut |spec, tlb| {
            checker.observe(&spec.name, spec.hardware.kind(), &spec.params, tlb)
        });
        Ok(lab?)
    }
}

/// A run that ends with the first difference.
fn step(lab: &mut Lab, checker: &Checker, batch: Batch) -> Result<(bool, Progress)> {
    let more = lab.feed(batch)? && !checker.stopped();
    Ok((more, lab.progress()))
}

/// Runs the command.
pub fn run(args: CheckArgs) -> Result<ExitCode> {
    let _signals = Watch::begin(); // until the result is whole
    let format = args.format.spec()?;
    ensure!(format.is_none() || args.file.is_some(), "--format and --columns are about a trace, and none is named");
    let dir = args.cache.clone().map_or_else(|| cache_folder("rtl", "--cache"), Ok)?;
    let compiler = Compiler::new(dir).map_err(anyhow::Error::msg)?.saying(|what| note(what));
    std::fs::create_dir_all(&args.waves).with_context(|| args.waves.display().to_string())?;
    let checker = Checker::new(compiler, &args.waves, STATES_EVERY);
    let mut interrupted = None;
    if let Some(file) = &args.file {
        let mut lab = args.lab(&checker)?;
        let each = |batch| step(&mut lab, &checker, batch);
        interrupted = early::signal(feed::stored(file, format.as_deref(), args.limit, each)?)?;
    } else if args.records() {
        let mut lab = args.lab(&checker)?;
        program::check(&args.command)?;
        let each = |batch| step(&mut lab, &checker, batch);
        let (report, early) = feed::live(&args.command, args.limit, each)?;
        program::note_limits(&report);
        interrupted = early::signal(early)?;
    } else {
        let signals = Watch::begin();
        for seed in args.seed..args.seed.saturating_add(args.random) {
            let mut lab = args.lab(&checker)?;
            let mut source = generate::program(seed, STEPS);
            while interrupted.is_none()
                && let Some(batch) = source.next_batch()?
                && step(&mut lab, &checker, batch)?.0
            {
                interrupted = signals.first();
            }
            if checker.stopped() || interrupted.is_some() {
                break;
            }
        }
    }
    report(checker.outcome(), interrupted)
}

fn report(outcome: Outcome, interrupted: Option<i32>) -> Result<ExitCode> {
    print(&table(&outcome))?;
    if let Some(difference) = outcome.difference {
        note(difference);
        return Ok(ExitCode::FAILURE);
    }
    if let Some(what) = outcome.failure {
        bail!("{what}");
    }
    Ok(interrupted.map_or(ExitCode::SUCCESS, program::interrupted))
}

/// What went through each structure.
fn table(outcome: &Outcome) -> String {
    let mut sums: Vec<(&str, &str, [u64; 4])> = Vec::new();
    for (label, module, tally) in &outcome.parts {
        let counts = [tally.lookups, tally.fills, tally.drops, tally.states];
        match sums.iter_mut().find(|(of, ..)| of == label) {
            Some((.., sum)) => sum.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n),
            None => sums.push((label, module, counts)),
        }
    }
    let equal = outcome.difference.is_none() && outcome.failure.is_none();
    let rows: Vec<Vec<String>> = sums
        .iter()
        .map(|(label, module, counts)| {
            let verdict = match &outcome.difference {
                Some(difference) if difference.part == *label => "differs",
                _ if equal => "equal",
                _ => "not finished",
            };
            let head = [grid::broken(label), format!("{module}.sv")];
            head.into_iter().chain(counts.map(count)).chain([verdict.to_owned()]).collect()
        })
        .collect();
    let text = |words: [&str; 7]| words.map(str::to_owned).to_vec();
    let heads = [
        text(["", "", "", "", "invali-", "all", ""]),
        text(["structure", "module", "lookups", "fills", "dations", "bits", "verdict"]),
    ];
    grid::placed(&heads, &rows, |column| column == 1, |_| false, terminal_width())
}
