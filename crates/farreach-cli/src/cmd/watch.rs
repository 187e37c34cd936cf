//! `farreach watch`: which of its memory a running process uses.

use super::common::{OutputArgs, note};
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use farreach_live::Watch as Signals;
use farreach_live::watch::Method;
use farreach_native::watch::{Event, LENGTH, Settings, watch};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

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
    let _signals = Signals::begin(); // until the result is whole
    let WatchArgs { pid, length, interval, method, output } = args;
    let method = method.and_then(|name| Method::ALL.into_iter().find(|method| method.name() == name));
    let result = watch(&Settings { pid, length, interval, method }, &mut |event| match event {
        Event::Begins(method) if std::io::stderr().is_terminal() => note(format_args!(
            "watching process {pid} by {} for {length:?}; Ctrl-C shows what was seen until then",
            method.name()
        )),
        Event::Begins(_) => {}
        Event::Says(line) => note(line),
    })?;
    output.emit(&result)?;
    Ok(ExitCode::SUCCESS)
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
