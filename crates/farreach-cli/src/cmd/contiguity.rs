//! `farreach contiguity`: how contiguous the memory of a live process is.

use super::common::{OutputArgs, needs_file, note, write_whole};
use super::program;
use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use farreach_cost::contiguity::{Run, sample};
use farreach_live::Watch as Signals;
use farreach_live::guarded::Start;
use farreach_native::snapshot::{Region, dump, gone, refused, regions, snapshot};
use farreach_report::format::shown;
use farreach_trace::Partial;
use farreach_types::counts::{CONTIGUITY_SCHEMA, ContiguityResult, ContiguitySample};
use procfs::process::Process;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Default time between looks at a command: short at first, since many programs are, then twice as long each time.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// How contiguous is the memory of a process, and what would translation hardware need to reach it?
///
/// Reads /proc/PID/pagemap and smaps: the runs of pages that are contiguous in the virtual address space (what ideal
/// placement could make one range of) and those contiguous in both, how few of them cover the memory, and the entries
/// that a range TLB, a clustered TLB, a contiguous bit or 2 MB pages would take. Frames are only shown to a user with
/// CAP_SYS_ADMIN; without it the virtual half is reported. A COMMAND runs natively, at full speed; the processes that
/// it starts itself are not looked at.
#[derive(Args)]
#[command(group = ArgGroup::new("what").args(["pid", "command"]).required(true))]
#[command(after_help = "\
Exit status of a COMMAND: its own; 128 + N if signal N ended it; 125 if farreach failed, 126 if it could not be \
started, 127 if it was not found

Examples:
  farreach contiguity -p 4711
  farreach contiguity -p 4711 --every 5 --count 60 --csv
  farreach contiguity -p 4711 --every 5 --count 60 --html memory.html
  farreach contiguity --every 0.2 -- xz -kf big.tar")]
pub struct ContiguityArgs {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Seconds between looks. If not given: one look; at a COMMAND, looks after 0.01 s, then after twice as long each
    /// time up to a second
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    every: Option<f64>,
    /// Number of looks at a process, with --every; until it ends if not given
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
    /// Also write the mapping itself, of the look with the most memory, for `farreach sim --mapping FILE`
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// A program and its arguments, after `--`, instead of a process
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.001..=86400.0).contains(&s) => Ok(s),
        _ => Err("seconds from 0.001 to 86400 are allowed".to_owned()),
    }
}

/// Runs the command. The exit status is the program's.
pub fn run(args: ContiguityArgs) -> Result<ExitCode> {
    args.output.check([])?;
    if let Some(path) = &args.dump {
        needs_file(path, "--dump")?;
        args.output.apart_from(path, "--dump")?;
        Partial::create(path)?;
    }
    let mut watch = Watch { signals: Signals::begin(), began: Instant::now(), samples: Vec::new(), peak: None };
    let (source, status) = match args.pid {
        Some(pid) => (watch.process(pid, &args)?, ExitCode::SUCCESS),
        None => watch.command(&args)?,
    };
    let Some((peak, snapshot)) = watch.peak else {
        bail!(
            "{source}: it ended before its memory could be looked at; try --every with less than {} s",
            args.every.unwrap_or(FIRST.as_secs_f64())
        )
    };
    let sizes_known = snapshot.iter().all(|region| region.huge.is_some());
    let result = ContiguityResult {
        schema: CONTIGUITY_SCHEMA.to_owned(),
        source,
        frames_visible: peak.physical_ranges.is_some(),
        regions: regions(&snapshot),
        peak,
        samples: watch.samples,
    };
    let emitted = args.output.emit(&result);
    if let Some(path) = &args.dump {
        write_whole(path, dump(&result.source, snapshot).to_string().as_bytes())?;
        note(format_args!("mapping in {}", path.display()));
        if !sizes_known {
            note("this kernel does not say which pages are 2 MB pages (Linux 6.7 does): all stand there as 4 KB");
        }
    }
    emitted?;
    Ok(status)
}

/// The snapshots so far.
struct Watch {
    signals: Signals,
    began: Instant,
    samples: Vec<ContiguitySample>,
    peak: Option<(ContiguitySample, Vec<Region>)>,
}

impl Watch {
    fn process(&mut self, pid: i32, args: &ContiguityArgs) -> Result<String> {
        let process = Process::new(pid).map_err(|e| refused(pid, &e))?;
        let words = process.cmdline().unwrap_or_default().into_iter().map(OsString::from).collect::<Vec<_>>();
        let name = if words.is_empty() { String::new() } else { format!(" ({})", shown(&words)) };
        let take_snapshot = |watch: &mut Watch| snapshot(&process).map(|regions| watch.take(regions));
        take_snapshot(self).map_err(|e| refused(pid, &e))?;
        if let Some(every) = args.every.map(Duration::from_secs_f64) {
            if args.count.is_none() && std::io::stderr().is_terminal() {
                note(format_args!("looking at process {pid} until it ends; Ctrl-C shows what was seen until then"));
            }
            for _ in 1..args.count.unwrap_or(u64::MAX) {
                if self.pause(every, || Ok(false))? {
                    break;
                }
                match take_snapshot(self) {
                    Ok(()) => {}
                    Err(e) if gone(&e) => break,
                    Err(e) => return Err(refused(pid, &e).into()),
                }
            }
        }
        Ok(format!("process {pid}{name}"))
    }

    fn command(&mut self, args: &ContiguityArgs) -> Result<(String, ExitCode)> {
        let shown = shown(&args.command);
        let begin = || {
            let mut start = Start::new(&args.command[0], None, None)?;
            start.command().args(&args.command[1..]);
            start.spawn()
        };
        let mut running = begin().map_err(|e| program::Refused::not_started(&args.command[0], e))?;
        let given = args.every.map(Duration::from_secs_f64);
        let mut every = given.unwrap_or(FIRST);
        let pid = i32::try_from(running.pid()).context("process id")?;
        let mut status = None;
        loop {
            // Ctrl-C reaches the program too, which decides whether to end.
            self.pause(every, || {
                status = running.try_wait().context("waiting for the program")?.map(|ended| ended.status);
                Ok(status.is_some())
            })?;
            if status.is_some() {
                break;
            }
            every = given.unwrap_or((2 * every).min(LONGEST));
            // The process may end during a look.
            match Process::new(pid).and_then(|process| snapshot(&process)) {
                Ok(regions) => self.take(regions),
                Err(e) if gone(&e) => {}
                Err(e) => return Err(refused(pid, &e).into()),
            }
        }
        let status = status.expect("it ended");
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok((shown, ExitCode::from(code as u8)))
    }

    /// Waits for this time, or until `done`, or until Ctrl-C; true if it was Ctrl-C.
    fn pause(&mut self, long: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
        let until = Instant::now() + long;
        while !done()? {
            if self.signals.take().0 > 0 {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
        Ok(false)
    }

    fn take(&mut self, regions: Vec<Region>) {
        let runs: Vec<Run> = regions.iter().flat_map(|region| &region.runs).copied().collect();
        let huge = regions.iter().map(|region| region.huge_pages).sum();
        let seconds = match self.samples.is_empty() {
            true => {
                self.began = Instant::now();
                0.0
            }
            false => self.began.elapsed().as_secs_f64(),
        };
        let sample = sample(&runs, (seconds * 1000.0).round() / 1000.0, huge);
        if sample.pages > 0 && self.peak.as_ref().is_none_or(|(peak, _)| sample.pages > peak.pages) {
            self.peak = Some((sample.clone(), regions));
        }
        self.samples.push(sample);
    }
}
