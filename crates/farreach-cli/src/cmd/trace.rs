//! `farreach trace info|check|convert`: look at a trace.

use super::common::{note, print};
use std::io::ErrorKind;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use farreach::addr::Bytes;
use farreach::trace::check::{Report, Space};
use farreach::trace::{Opened, Summary, open_trace, summarize, to_frt, to_lackey_file};

/// Look at a trace: what it contains, whether it is sound, another format
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  farreach trace info cc1.frt
  farreach trace check cc1.frt
  farreach trace convert old.txt.xz -o new.frt")]
pub struct TraceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show where a trace comes from, what it counts and who ran
    #[command(after_help = "Examples:\n  farreach trace info cc1.frt\n  xz -dc old.txt.xz | farreach trace info --json -")]
    Info(Input),
    /// Read a trace to its end and hold every event against the rules; exit status 1 at the first violation
    #[command(after_help = "Examples:\n  farreach trace check cc1.frt")]
    Check(Input),
    /// Write a trace in another format
    #[command(after_help = "Examples:\n  \
        valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | farreach trace convert - -o ls.frt\n  \
        farreach trace convert --to lackey ls.frt | head")]
    Convert {
        #[command(flatten)]
        input: TraceFile,
        /// File to write; '-' is standard output, which is the default for text
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
        /// Format to write
        #[arg(long, value_enum, default_value_t = To::Frt)]
        to: To,
    },
}

#[derive(Debug, Args)]
struct Input {
    #[command(flatten)]
    file: TraceFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct TraceFile {
    /// Trace to read, plain or compressed with gz, bz2, xz or zstd; '-' is standard input
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Format of the trace [default: found by content]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
}

impl TraceFile {
    fn open(&self) -> Result<Opened> {
        Ok(open_trace(&self.trace, self.format.as_deref())?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// Farreach trace: everything, compressed
    Frt,
    /// Text of Valgrind's Lackey: references only
    Lackey,
}

/// Runs the subcommand.
pub fn run(args: TraceArgs) -> Result<()> {
    match args.action {
        Action::Info(input) => {
            let summary = summarize(input.file.open()?)?;
            print(&if input.json { json_of("farreach.trace-info/1", &summary)? } else { info_text(&summary) })
        }
        Action::Check(input) => {
            let summary = summarize(input.file.open()?)?;
            let violation = summary.report.violation.clone();
            match (&violation, input.json) {
                (_, true) => print(&json_of("farreach.trace-check/1", &summary)?)?,
                (None, false) => print(&format!("{}: sound; {}\n", summary.file, counts(&summary.report)))?,
                (Some(_), false) => print(&format!("{}: before it, {}\n", summary.file, counts(&summary.report)))?,
            }
            match violation {
                Some(v) => {
                    bail!("{}: batch {}, word {}, address space {}: {}", summary.file, v.batch, v.word, v.asid.0, v.what)
                }
                None => Ok(()),
            }
        }
        Action::Convert { input, output, to } => convert(&input, output, to),
    }
}

fn convert(input: &TraceFile, output: Option<String>, to: To) -> Result<()> {
    let Some(output) = output.or((to == To::Lackey).then(|| "-".to_owned())) else {
        bail!("convert --to frt writes no text: name a file with -o FILE, or say -o - for standard output");
    };
    let opened = input.open()?;
    match to {
        To::Frt => {
            let totals = to_frt(opened, &output)?;
            let (i, l, s) = (totals.instructions, totals.loads, totals.stores);
            note(format_args!("{output}: {i} instructions, {l} loads, {s} stores, {} events", totals.ops));
        }
        To::Lackey => match to_lackey_file(opened, &output) {
            // Who reads our output has seen enough.
            Err(farreach::Error::Io { source, .. }) if output == "-" && source.kind() == ErrorKind::BrokenPipe => {}
            Err(e) => return Err(e.into()),
            Ok(text) => {
                if text.events_left_out > 0 || text.space_changes_left_out > 0 {
                    note(format_args!(
                        "Lackey text has references only; left out: {} events, {} changes of the address space",
                        text.events_left_out, text.space_changes_left_out
                    ));
                }
            }
        },
    }
    Ok(())
}

fn json_of(schema: &str, summary: &Summary) -> Result<String> {
    let mut value = json!({ "schema": schema });
    if let (Value::Object(to), Value::Object(from)) = (&mut value, serde_json::to_value(summary)?) {
        to.extend(from);
    }
    Ok(format!("{value:#}\n"))
}

fn counts(r: &Report) -> String {
    let t = &r.totals;
    format!(
        "{} references ({} instructions, {} loads, {} stores), {} events, {} blocks, {} address spaces",
        t.references(),
        t.instructions,
        t.loads,
        t.stores,
        t.ops,
        t.blocks,
        t.address_spaces
    )
}

fn info_text(s: &Summary) -> String {
    let mut lines = vec![("file", s.file.clone())];
    lines.push(("format", s.format.to_owned() + &s.compression.map_or(String::new(), |c| format!(" in {c}"))));
    if let Some(h) = &s.header {
        let one = |k, v: &str| (!v.is_empty()).then(|| (k, v.to_owned()));
        lines.extend(one("program", &h.program));
        lines.extend(one("arguments", &h.arguments.join(" ")));
        lines.extend(one("recorded", &h.date));
        lines.extend(one("recorder", &h.recorder));
        lines.extend(h.environment.iter().map(|(k, v)| ("environment", format!("{k} = {v}"))));
        lines.extend(h.more.iter().map(|(k, v)| ("also", format!("{k} = {v}"))));
    }
    if let Some(bytes) = s.bytes {
        let each = s.bytes_per_reference.map_or(String::new(), |b| format!(", {b:.4} bytes per reference"));
        lines.push(("size", format!("{} bytes{each}", Bytes(bytes))));
    }
    lines.push(("contents", counts(&s.report)));
    if s.report.not_executed > 0 {
        lines.push(("not executed", format!("{} conditional references", s.report.not_executed)));
    }
    let events: Vec<_> = s.report.events.iter().filter(|e| *e.0 != "define").map(|(k, n)| format!("{n} {k}")).collect();
    if !events.is_empty() {
        lines.push(("events", events.join(", ")));
    }
    let mut text: String = lines.iter().map(|(k, v)| format!("{k:<13} {v}\n")).collect();
    text.push_str(
        "\n space      pid   parent     instructions            loads           stores     events threads  end      program\n",
    );
    s.report.spaces.iter().for_each(|space| text.push_str(&row(space)));
    if let Some(v) = &s.report.violation {
        text.push_str(&format!("\nviolation at batch {}, word {}: {}; nothing after it was read\n", v.batch, v.word, v.what));
    }
    text
}

fn row(s: &Space) -> String {
    use farreach::event::End;
    let or_dash = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
    let end = match s.end {
        Some(End::Exit(n)) => format!("exit {n}"),
        Some(End::Signal(n)) => format!("signal {n}"),
        Some(End::Exec) => "exec".to_owned(),
        Some(End::Lost) => "lost".to_owned(),
        None => "-".to_owned(),
    };
    format!(
        "{:>6} {:>8} {:>8} {:>16} {:>16} {:>16} {:>10} {:>7}  {end:<8} {}\n",
        s.asid.0,
        or_dash(s.pid),
        or_dash(s.parent.map(|p| p.0)),
        s.instructions,
        s.loads,
        s.stores,
        s.ops,
        s.threads,
        s.program
    )
}
