//! Which of its memory a running process uses, interval by interval, and whether huge pages would suit it. It is about
//! sizes: how often a page is used is not seen. The process is neither stopped nor changed.

mod record;

use crate::snapshot::{Region, gone, refused, snapshot};
use farreach_live::watch::{Method, Present, Watcher, used_page};
use farreach_live::{Watch as Signals, own_cpu};
use farreach_report::format::shown;
use farreach_types::counts::{MissingMethod, WatchResult};
use farreach_types::{Error, Result, bail, ensure};
use procfs::process::Process;
use record::{Record, Took};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The process.
    pub pid: i32,
    /// How long to watch, from 10 ms on.
    pub length: Duration,
    /// The length of an interval. `None`: a second, or longer where that would cost too much.
    pub interval: Option<Duration>,
    /// How to watch. `None`: the best way that works here.
    pub method: Option<Method>,
}

impl Settings {
    /// The defaults for this process.
    pub fn of(pid: i32) -> Settings {
        Settings { pid, length: LENGTH, interval: None, method: None }
    }
}

/// What happens meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The watch begins, by this method.
    Begins(Method),
    /// A line for people: why intervals are longer.
    Says(String),
}

/// Who hears of it.
pub type Listen<'a> = &'a mut dyn FnMut(Event);

/// How long it takes if nothing else was asked for.
pub const LENGTH: Duration = Duration::from_secs(30);
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

/// Watches a process until the time is over, it ends, or a signal comes: each gives a result.
///
/// # Errors
/// There is no such process, its memory may not be read, the method that was asked for does not work here, or the
/// system refuses something meanwhile.
pub fn watch(settings: &Settings, listen: Listen) -> Result<WatchResult> {
    ensure!(settings.pid > 0, "process {}: there is none", settings.pid);
    let signals = Signals::begin();
    let process = Process::new(settings.pid).map_err(|e| refused(settings.pid, &e))?;
    let words = process.cmdline().unwrap_or_default().into_iter().map(OsString::from).collect::<Vec<_>>();
    let name = if words.is_empty() { String::new() } else { format!(" ({})", shown(&words)) };
    let regions = snapshot(&process).map_err(|e| refused(settings.pid, &e))?;
    let (method, mut watcher, missing) = choose(settings.pid, settings.method)?;
    listen(Event::Begins(method));
    let mut record = Record::new(&process, method, regions, used_page(method).unwrap_or_default());
    let ended = intervals(settings, &process, &signals, watcher.as_mut(), &mut record, listen)?;
    let source = format!("process {}{name}", settings.pid);
    Ok(record.result(source, ended, missing, watcher.as_ref()))
}

/// The method asked for, or the best that works; and those better ones that do not.
fn choose(pid: i32, asked: Option<Method>) -> Result<(Method, Box<dyn Watcher>, Vec<MissingMethod>)> {
    let mut missing = Vec::new();
    for method in Method::ALL {
        match asked {
            Some(asked) if asked != method => continue,
            // It sees less than what comes before it, and it costs the process more.
            None if method == Method::SoftDirty => continue,
            _ => {}
        }
        match method.open(pid) {
            Ok(watcher) => return Ok((method, watcher, missing)),
            Err(failure) if asked.is_some() => bail!("--method {}: {failure}", method.name()),
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
fn intervals(
    settings: &Settings,
    process: &Process,
    signals: &Signals,
    watcher: &mut dyn Watcher,
    record: &mut Record,
    listen: Listen,
) -> Result<&'static str> {
    const GONE: &str = "process ended";
    let end = Instant::now() + settings.length;
    let mut length = settings.interval.unwrap_or(INTERVAL).min(settings.length);
    loop {
        let cpu = own_cpu();
        match watcher.begin(&present(record.regions()), length) {
            Err(error) if ended(process, &error) => return Ok(GONE),
            other => other.map_err(Error::System)?,
        }
        let began = Instant::now();
        let interrupted = pause(signals, process, began + length);
        // An interval that was cut short is only worth something if there is no other.
        if interrupted && record.has_intervals() {
            return Ok("interrupted");
        }
        let seen = match watcher.end() {
            Err(error) if ended(process, &error) => return Ok(GONE),
            other => other.map_err(Error::System)?,
        };
        let took = Took { began, ended: Instant::now() };
        match snapshot(process) {
            Ok(regions) if !regions.is_empty() => record.add(took, &seen, regions),
            Ok(_) => return Ok(GONE),
            Err(error) if gone(&error) => return Ok(GONE),
            Err(error) => return Err(refused(settings.pid, &error)),
        }
        if interrupted {
            return Ok("interrupted");
        }
        if Instant::now() + length / 2 > end {
            return Ok("time");
        }
        let cheap = (own_cpu() - cpu).div_f64(PROCESSOR).min(settings.length / FEWEST);
        let (paid, busy) = record.last_paid();
        // What one interval costs is at most this in a longer one for each of its used pages, and those grow slower.
        let fair = length.mul_f64(paid.as_secs_f64() / busy.as_secs_f64().max(BUSY * length.as_secs_f64()) / PROCESS);
        let wanted = cheap.max(fair.min(settings.length));
        if settings.interval.is_none() && wanted > length.mul_f64(1.2) {
            // All intervals of a result are of one length.
            length = wanted.mul_f64(if wanted < settings.length { 1.2 } else { 1.0 }).min(settings.length);
            record.forget();
            let seconds = length.as_secs_f64();
            listen(Event::Says(format!("intervals of {seconds:.1} s: shorter ones would cost too much")));
            if fair > settings.length {
                listen(Event::Says(format!(
                    "in {:?} watching costs the process about {:.1} %; --for {:.0}s or more keeps it below 1 %",
                    settings.length,
                    100.0 * PROCESS * fair.as_secs_f64() / settings.length.as_secs_f64(),
                    fair.as_secs_f64().ceil()
                )));
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

    /// A program that does nothing is watched by what works everywhere.
    #[test]
    fn a_watch_is_data() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let (length, interval) = (Duration::from_millis(200), Some(Duration::from_millis(50)));
        let method = Some(Method::Resident);
        let mut events = Vec::new();
        let settings = Settings { length, interval, method, ..Settings::of(child.id() as i32) };
        let result = watch(&settings, &mut |event| events.push(event));
        child.kill().unwrap();
        child.wait().unwrap();
        let result = result.unwrap();
        assert_eq!(events, [Event::Begins(Method::Resident)]);
        assert_eq!((result.ended.as_str(), result.method.name.as_str()), ("time", "resident"));
        assert!(result.present_bytes > 0 && !result.intervals.is_empty());
        // Its name is not there yet if it is looked at too early.
        assert!(result.source.starts_with(&format!("process {}", settings.pid)), "{}", result.source);
        let error = watch(&settings, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("there is none"), "{error}");
    }
}
