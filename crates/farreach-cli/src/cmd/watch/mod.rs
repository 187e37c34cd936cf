//! `farreach watch`: which of its memory a running process uses.

mod record;

use super::common::{OutputArgs, note};
use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use farreach_live::watch::{Method, Present, Watcher, used_page};
use farreach_live::{Watch as Signals, own_cpu};
use farreach_native::snapshot::{Region, gone, refused, snapshot};
use farreach_report::format::shown;
use farreach_types::counts::MissingMethod;
use procfs::process::Process;
use record::{Record, Took};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Which of its memory does a running process use, and would huge pages suit it?
///
/// The process is neither stopped nor changed. Intervals are watched by the best method that works here: DAMON, the
/// bitmap of idle pages, or used bits that clear_refs clears. The result is the working set in pages of 4 KB to 1 GB,
/// how full each 2 MB block is, what transparent huge pages would add, and how many TLB entries would reach it. It is
/// about sizes: it does not see how often a page is used.
#[derive(Args)]
#[command(after_help = "\
Ctrl-C ends the watch with a result, and so does the end of the process. `farreach doctor watch` says which methods
work here.

Examples:
  farreach watch -p 4711
  farreach watch -p 4711 --for 5m --interval 10s --html memory.html
  farreach watch -p 4711 --method clear-refs --json")]
pub struct WatchArgs {
    /// The process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// How long to watch: 500ms, 30s, 5m, 2h; a number alone is seconds
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "30s")]
    length: Duration,
    /// Length of an interval. A page counts as used if it was used in it. Default: 1s, or longer where watching would
    /// take more than 2 % of a processor, or cost the process 0.4 % of its time
    #[arg(long, value_name = "TIME", value_parser = time)]
    interval: Option<Duration>,
    /// How to watch. Default: the best that works here. soft-dirty sees stores alone and costs a page fault for each
    /// page that is stored into
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Method::ALL.map(Method::name)))]
    method: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl WatchArgs {
    /// A watch of this process with the defaults.
    pub fn of(pid: i32, output: OutputArgs) -> WatchArgs {
        WatchArgs { pid, length: LENGTH, interval: None, method: None, output }
    }
}

/// How long it takes if nothing else was asked for.
const LENGTH: Duration = Duration::from_secs(30);
/// The interval if none was asked for, as long as that is cheap enough.
const INTERVAL: Duration = Duration::from_secs(1);
/// The part of a processor that watching may take in an interval of farreach's own choice. Less than half of it is
/// spent while page faults of the process have to wait.
const PROCESSOR: f64 = 0.02;
/// Intervals that fit into the watch however long they must be for that.
const FEWEST: u32 = 4;
/// The part of the processor time of the process that its used pages may cost it, in intervals of farreach's own
/// choice. The first, shorter interval comes on top.
const PROCESS: f64 = 0.004;
/// A process takes at least this part of a processor, or what it pays is not to be noticed.
const BUSY: f64 = 0.1;

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    match number.parse::<f64>().map(|number| number * unit) {
        Ok(seconds) if (0.01..=86400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a time from 10ms to 24h is allowed, such as 500ms, 30s, 5m or 2h".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: WatchArgs) -> Result<ExitCode> {
    args.output.check([])?;
    let signals = Signals::begin();
    let process = Process::new(args.pid).map_err(|e| refused(args.pid, &e))?;
    let words = process.cmdline().unwrap_or_default().into_iter().map(OsString::from).collect::<Vec<_>>();
    let name = if words.is_empty() { String::new() } else { format!(" ({})", shown(&words)) };
    let regions = snapshot(&process).map_err(|e| refused(args.pid, &e))?;
    let (method, mut watcher, missing) = choose(args.pid, args.method.as_deref())?;
    if io::stderr().is_terminal() {
        note(format_args!(
            "watching process {} by {} for {:?}; Ctrl-C shows what was seen until then",
            args.pid,
            method.name(),
            args.length
        ));
    }
    let mut record = Record::new(&process, method, regions, used_page(method).unwrap_or_default());
    let ended = watch(&args, &process, &signals, watcher.as_mut(), &mut record)?;
    let source = format!("process {}{name}", args.pid);
    let result = record.result(source, ended, missing, watcher.as_ref());
    drop(watcher);
    args.output.emit(&result)?;
    Ok(ExitCode::SUCCESS)
}

/// The method asked for, or the best that works; and those better ones that do not.
fn choose(pid: i32, name: Option<&str>) -> Result<(Method, Box<dyn Watcher>, Vec<MissingMethod>)> {
    let mut missing = Vec::new();
    for method in Method::ALL {
        match name {
            Some(name) if name != method.name() => continue,
            // It sees less than what comes before it, and it costs the process more.
            None if method == Method::SoftDirty => continue,
            _ => {}
        }
        match method.open(pid) {
            Ok(watcher) => return Ok((method, watcher, missing)),
            Err(failure) if name.is_some() => bail!("--method {}: {failure}", method.name()),
            Err(failure) => missing.push(MissingMethod {
                name: method.name().to_owned(),
                why: failure.why,
                turn_on: failure.turn_on,
            }),
        }
    }
    bail!("process {pid}: no method works here")
}

/// What is present, as the methods take it.
fn present(regions: &[Region]) -> Vec<Present> {
    let runs = regions.iter().flat_map(|region| &region.runs);
    runs.map(|run| Present { pages: run.vpn..run.vpn + run.pages, frame: run.pfn }).collect()
}

/// Watches interval by interval; why it ended.
fn watch(
    args: &WatchArgs,
    process: &Process,
    signals: &Signals,
    watcher: &mut dyn Watcher,
    record: &mut Record,
) -> Result<&'static str> {
    const GONE: &str = "process ended";
    let end = Instant::now() + args.length;
    let mut length = args.interval.unwrap_or(INTERVAL).min(args.length);
    loop {
        let cpu = own_cpu();
        match watcher.begin(&present(record.regions()), length) {
            Err(error) if ended(process, &error) => return Ok(GONE),
            other => other?,
        }
        let began = Instant::now();
        let interrupted = pause(signals, process, began + length);
        // An interval that was cut short is only worth something if there is no other.
        if interrupted && record.has_intervals() {
            return Ok("interrupted");
        }
        let seen = match watcher.end() {
            Err(error) if ended(process, &error) => return Ok(GONE),
            other => other?,
        };
        let took = Took { began, ended: Instant::now() };
        match snapshot(process) {
            Ok(regions) if !regions.is_empty() => record.add(took, &seen, regions),
            Ok(_) => return Ok(GONE),
            Err(error) if gone(&error) => return Ok(GONE),
            Err(error) => return Err(refused(args.pid, &error).into()),
        }
        if interrupted {
            return Ok("interrupted");
        }
        if Instant::now() + length / 2 > end {
            return Ok("time");
        }
        let cheap = (own_cpu() - cpu).div_f64(PROCESSOR).min(args.length / FEWEST);
        let (paid, busy) = record.last_paid();
        // What one interval costs is at most this in a longer one for each of its used pages, and those grow slower.
        let fair = length.mul_f64(paid.as_secs_f64() / busy.as_secs_f64().max(BUSY * length.as_secs_f64()) / PROCESS);
        let wanted = cheap.max(fair.min(args.length));
        if args.interval.is_none() && wanted > length.mul_f64(1.2) {
            // All intervals of a result are of one length.
            length = wanted.mul_f64(if wanted < args.length { 1.2 } else { 1.0 }).min(args.length);
            record.forget();
            note(format_args!("intervals of {:.1} s: shorter ones would cost too much", length.as_secs_f64()));
            if fair > args.length {
                note(format_args!(
                    "in {:?} watching costs the process about {:.1} %; --for {:.0}s or more keeps it below 1 %",
                    args.length,
                    100.0 * PROCESS * fair.as_secs_f64() / args.length.as_secs_f64(),
                    fair.as_secs_f64().ceil()
                ));
            }
        }
    }
}

/// Whether an error only means that the process has ended.
fn ended(process: &Process, error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || !is_alive(process)
}

fn is_alive(process: &Process) -> bool {
    process.is_alive() && process.stat().is_ok_and(|stat| stat.state != 'Z' && stat.state != 'X')
}

/// Waits for this moment, the end of the process, or Ctrl-C; true if it was Ctrl-C.
fn pause(signals: &Signals, process: &Process, until: Instant) -> bool {
    loop {
        if signals.take().0 > 0 {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !is_alive(process) {
            return false;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let good = [("500ms", 0.5), ("30", 30.0), ("1.5s", 1.5), ("2m", 120.0), ("1h", 3600.0)];
        assert!(good.iter().all(|(text, seconds)| time(text) == Ok(Duration::from_secs_f64(*seconds))));
        for bad in ["", "s", "-1", "1d", "0", "1ms", "25h", "1 s", "1e3", "nan"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
