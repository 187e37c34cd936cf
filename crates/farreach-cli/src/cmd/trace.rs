//! `farreach trace info|check|cut|merge|convert`: look at a trace, or write another of it.

use super::common::{note, of_stream, print, same_file};
use super::format::FormatArgs;
use super::piece::FromArgs;
use super::record::coders;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use farreach_report::format::clean;
use farreach_trace::check::{Report, Space};
use farreach_trace::convert::{cut, merge};
use farreach_trace::{
    Header, Opened, Pages, Piece, Summary, TARGETS, Target, Totals, open_trace, recover, summarize, to_frt, write_file,
};
use farreach_types::addr::Bytes;
use farreach_types::count::parse_count;
use farreach_types::plural::with_noun;

/// Inspect a trace, check it, cut it, merge several, or convert it to another format
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  farreach trace info cc1.frt
  farreach trace check cc1.frt
  farreach trace cut cc1.frt --skip 1G --limit 100M -o piece.frt
  farreach trace merge cc1.frt redis.frt --interleave 2M -o both.frt
  farreach trace convert old.txt.xz -o new.frt")]
pub struct TraceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the origin of a trace, its counts and its processes
    #[command(
        after_help = "Examples:\n  farreach trace info cc1.frt\n  xz -dc old.txt.xz | farreach trace info --json -"
    )]
    Info(Input),
    /// Read a trace to its end and check every event against the rules; exit status 1 at the first violation
    #[command(after_help = "Examples:\n  farreach trace check cc1.frt")]
    Check(Input),
    /// Write a piece of a trace
    #[command(after_help = "Examples:\n  \
        farreach trace cut gcc.frt --skip 1G --limit 100M -o piece.frt\n  \
        farreach trace cut gcc.frt --from main -o main.frt")]
    Cut {
        #[command(flatten)]
        input: TraceFile,
        #[command(flatten)]
        from: FromArgs,
        /// Leave out N instructions (references, in a trace without instruction fetches) from there on. Their events
        /// stay
        #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
        skip: Option<u64>,
        /// Stop after N instructions behind these
        #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
        limit: Option<u64>,
        /// Farreach trace to write; '-' is standard output
        #[arg(short, long, value_name = "FILE")]
        output: String,
    },
    /// Write several traces as one
    #[command(after_help = "Examples:\n  \
        farreach trace merge gcc.frt redis.frt --interleave 2M -o both.frt\n  \
        farreach trace merge first.frt second.frt -o one-after-the-other.frt")]
    Merge {
        /// Traces to read, as of the other commands
        #[arg(required = true, num_args = 2.., value_name = "TRACE")]
        traces: Vec<String>,
        #[command(flatten)]
        format: FormatArgs,
        /// In turn, in time slices of N instructions; if it is not given, one after the other
        #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
        interleave: Option<u64>,
        /// Farreach trace to write; '-' is standard output
        #[arg(short, long, value_name = "FILE")]
        output: String,
    },
    /// Write a trace in another format
    #[command(after_help = "Examples:\n  \
        valgrind --tool=lackey --trace-mem=yes --log-fd=9 ls 9>&1 >/dev/null | farreach trace convert - -o ls.frt\n  \
        farreach trace convert --to lackey ls.frt | head\n  \
        farreach trace convert --to champsim ls.frt -o ls.champsimtrace.xz\n  \
        farreach trace convert --to drmemtrace ls.frt -o ls.trace.gz\n  \
        farreach trace convert mine.txt --columns address=2,kind=3 --base 16 --kinds 'load=R,store=W' -o mine.frt\n  \
        farreach trace convert --recover killed.frt.4711-0.partial -o killed.frt\n  \
        farreach trace convert --pages-only cc1.frt -o cc1-pages.frt")]
    Convert {
        #[command(flatten)]
        input: TraceFile,
        /// File to write; '-' is standard output, which is the default for text. A name that ends in .gz (ChampSim:
        /// or .xz) compresses formats of other tools
        #[arg(short, long, value_name = "FILE")]
        output: Option<String>,
        /// Format to write
        #[arg(long, value_name = "FORMAT", default_value = FRT, value_parser = PossibleValuesParser::new(
            std::iter::once(PossibleValue::new(FRT).help("Farreach trace: everything, compressed"))
                .chain(TARGETS.iter().map(|target| PossibleValue::new(target.name).help(target.about)))))]
        to: String,
        /// Make a whole farreach trace of what can be read of a cut or damaged one, and say where it ends
        #[arg(long)]
        recover: bool,
        /// Write a page trace: only the pages of data references, for machines that look at nothing else. It is about
        /// half as large, and simulated faster; results are the same
        #[arg(long)]
        pages_only: bool,
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
    /// Trace to read, plain or compressed (gz, bz2, xz, zstd, zip, lz4, snappy), or a folder with a trace of
    /// drmemtrace; '-' is standard input
    #[arg(value_name = "TRACE")]
    trace: String,
    #[command(flatten)]
    format: FormatArgs,
}

impl TraceFile {
    fn open(&self) -> Result<Opened> {
        Ok(open_trace(&self.trace, self.format.spec()?.as_deref())?)
    }
}

/// The format that `convert` writes by itself.
const FRT: &str = "frt";

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
                (None, false) => print(&format!("{}: sound; {}\n", clean(&summary.file), counts(&summary.report)))?,
                (Some(_), false) => {
                    print(&format!("{}: before it, {}\n", clean(&summary.file), counts(&summary.report)))?
                }
            }
            match violation {
                Some(v) => {
                    bail!(
                        "{}: batch {}, word {}, address space {}: {}",
                        summary.file,
                        v.batch,
                        v.word,
                        v.asid.0,
                        v.what
                    )
                }
                None => Ok(()),
            }
        }
        Action::Cut { input, from, skip, limit, output } => {
            ensure!(
                from.from.is_some() || skip.is_some() || limit.is_some(),
                "nothing is cut: say --from, --skip or --limit"
            );
            let piece = Piece { from: from.from, skip: skip.unwrap_or(0), limit, ..Piece::default() };
            apart(&output, [&input.trace])?;
            let totals = cut(input.open()?, piece, &output, coders());
            totals.map(|totals| written(&output, &totals)).map_err(|error| of_stream(error.into(), &input.trace))
        }
        Action::Merge { traces, format, interleave, output } => {
            apart(&output, &traces)?;
            let format = format.spec()?;
            let all = traces.iter().map(|trace| open_trace(trace, format.as_deref())).collect::<Result<_, _>>()?;
            let totals = merge(all, interleave, &output, coders());
            totals.map(|totals| written(&output, &totals)).map_err(|error| of_stream(error.into(), &traces.join(" + ")))
        }
        Action::Convert { input, output, to, recover, pages_only } => {
            let Some(target) = TARGETS.iter().find(|target| target.name == to) else {
                return to_trace(&input, output, recover, pages_only);
            };
            if recover {
                bail!("--recover makes a farreach trace; convert that one to {to} afterwards");
            }
            if pages_only {
                bail!("--pages-only makes a farreach trace; {to} has all addresses");
            }
            match output {
                Some(output) => to_other(&input, target, &output),
                None if target.text => to_other(&input, target, "-"),
                None => bail!("{to} is no text: name a file with -o FILE, or say -o - for standard output"),
            }
        }
    }
}

/// Refuses to write what is read.
fn apart<'a>(output: &str, inputs: impl IntoIterator<Item = &'a String>) -> Result<()> {
    match inputs.into_iter().find(|input| same_file(Path::new(output), Path::new(input.as_str()))) {
        Some(input) => bail!("{output}: --output would overwrite {input}, which is read; name another file"),
        None => Ok(()),
    }
}

/// What a trace has that was written.
fn written(output: &str, totals: &Totals) {
    let (i, l) = (with_noun(totals.instructions, "instruction"), with_noun(totals.loads, "load"));
    let (s, events) = (with_noun(totals.stores, "store"), with_noun(totals.ops, "event"));
    note(format_args!("{output}: {i}, {l}, {s}, {events}"));
}

fn to_trace(input: &TraceFile, output: Option<String>, recovering: bool, pages_only: bool) -> Result<()> {
    let Some(output) = output else {
        bail!("a farreach trace is no text: name a file with -o FILE, or say -o - for standard output");
    };
    let mut opened = input.open()?;
    if pages_only {
        opened.source = Box::new(Pages::new(opened.source));
    }
    let threads = coders();
    let (totals, ended_by) =
        if recovering { recover(opened, &output, threads)? } else { (to_frt(opened, &output, threads)?, None) };
    if let Some(e) = ended_by.as_ref().filter(|_| totals.references() == 0) {
        bail!("{output} has no references, since nothing of the original can be read: {e}");
    }
    written(&output, &totals);
    if let Some(e) = ended_by {
        note(format_args!("it ends where the original could not be read: {e}"));
    }
    Ok(())
}

fn to_other(input: &TraceFile, target: &Target, output: &str) -> Result<()> {
    match write_file(input.open()?, target, output) {
        // The reader of the output has closed the pipe.
        Err(farreach_types::Error::Io { source, .. }) if output == "-" && source.kind() == ErrorKind::BrokenPipe => {
            Ok(())
        }
        Err(e) => Err(e.into()),
        Ok(written) => {
            if output != "-" {
                let (i, l) = (with_noun(written.instructions, "instruction"), with_noun(written.loads, "load"));
                note(format_args!("{output}: {i}, {l}, {}", with_noun(written.stores, "store")));
            }
            written.lost.iter().for_each(note);
            Ok(())
        }
    }
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
        "{} ({}, {}, {}), {}, {}, {}",
        with_noun(t.references(), "reference"),
        with_noun(t.instructions, "instruction"),
        with_noun(t.loads, "load"),
        with_noun(t.stores, "store"),
        with_noun(t.ops, "event"),
        with_noun(t.blocks, "block"),
        with_noun(t.address_spaces, "address space")
    )
}

fn info_text(s: &Summary) -> String {
    let mut lines = vec![("file", s.file.clone())];
    lines.push(("format", s.format.to_owned() + &s.compression.map_or(String::new(), |c| format!(" in {c}"))));
    if !s.lacks.is_empty() {
        lines.push(("lacks", s.lacks.to_owned()));
    }
    if let Some(h) = &s.header {
        let one = |k, v: &str| (!v.is_empty()).then(|| (k, v.to_owned()));
        lines.extend(one("program", &h.program));
        lines.extend(one("arguments", &h.arguments.join(" ")));
        lines.extend(one("recorded", &h.date));
        lines.extend(one("recorder", &h.recorder));
        lines.extend(h.environment.iter().map(|(k, v)| ("environment", format!("{k} = {v}"))));
        lines.extend(files(h));
        let others = h.more.iter().filter(|(key, _)| *key != FILES);
        lines.extend(others.map(|(k, v)| ("also", format!("{k} = {v}"))));
    }
    if let Some(bytes) = s.bytes {
        let each = s.bytes_per_reference.map_or(String::new(), |b| format!(", {b:.4} bytes per reference"));
        lines.push(("size", format!("{} bytes{each}", Bytes(bytes))));
    }
    if s.report.events.contains_key("pages") {
        lines.push(("addresses", "of pages alone: a page trace".to_owned()));
    }
    if let Some(sampled) = &s.sampled {
        lines.push(("references", "samples: a few of a program, without what is between them".to_owned()));
        let pages = |n, size: u64| format!("{} of {}", with_noun(n, "page"), Bytes(size));
        lines.push(("touched", format!("{}, {}", pages(sampled.pages, 4 << 10), pages(sampled.pages_2m, 2 << 20))));
        for (i, hot) in sampled.most.iter().enumerate() {
            let samples = with_noun(hot.samples, "sample");
            let text = format!("{samples} at {:#x}, address space {}", hot.start, hot.space);
            lines.push((if i == 0 { "most" } else { "" }, text));
        }
    }
    if let Some(system) = &s.report.system {
        let processors = with_noun(system.processors.into(), "processor");
        let (name, memory) = (system.arch.name(), Bytes(system.memory));
        lines.push(("system", format!("{name}, {processors}, {memory} bytes of memory")));
        let (words, frames) = (system.table_words, with_noun(system.table_frames, "frame"));
        lines.push(("page tables", format!("{words} words told, in {frames}")));
    }
    lines.push(("contents", counts(&s.report)));
    if let Some(&blocks) = s.report.events.get("code") {
        lines.push(("code", format!("bytes of the instructions of {}", with_noun(blocks, "block"))));
    }
    if s.report.not_executed > 0 {
        lines.push(("not executed", format!("{} conditional references", s.report.not_executed)));
    }
    let events: Vec<_> = s
        .report
        .events
        .iter()
        .filter(|e| !["define", "code", "pages", "samples"].contains(e.0))
        .map(|(k, n)| format!("{n} {k}"))
        .collect();
    if !events.is_empty() {
        lines.push(("events", events.join(", ")));
    }
    let mut text: String = lines.iter().map(|(k, v)| format!("{k:<13} {}\n", clean(v))).collect();
    text.push_str(
        "\n space      pid   parent     instructions            loads           stores     events threads  end      \
         program\n",
    );
    s.report.spaces.iter().for_each(|space| text.push_str(&row(space)));
    if let Some(v) = &s.report.violation {
        text.push_str(&format!(
            "\nviolation at batch {}, word {}: {}; nothing after it was read\n",
            v.batch,
            v.word,
            clean(&v.what)
        ));
    }
    text
}

/// Where a header has the program and its libraries.
const FILES: &str = "files";

/// The program and its libraries, as they were when it was recorded.
fn files(header: &Header) -> impl Iterator<Item = (&'static str, String)> {
    let all = header.more.get(FILES).and_then(Value::as_array).into_iter().flatten();
    all.map(|file| {
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        let id = file["build_id"].as_str().map_or(String::new(), |id| format!(", build id {id}"));
        let hash = text("blake3").get(..16).unwrap_or_default();
        let bytes = with_noun(file["bytes"].as_u64().unwrap_or(0), "byte");
        ("file of code", format!("{}: {bytes}, BLAKE3 {hash}...{id}", text("path")))
    })
}

fn row(s: &Space) -> String {
    use farreach_types::event::End;
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
        clean(&s.program)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: TraceArgs,
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        for line in [
            "info a",
            "check --json -",
            "convert a -o b",
            "convert --to lackey --format frt a",
            "convert a --recover -o b",
            "convert --to drmemtrace a -o b",
            "convert --to parquet a -o -",
        ] {
            Cli::try_parse_from(std::iter::once("trace").chain(line.split(' '))).expect(line);
        }
        for line in ["", "info", "convert a --to elf"] {
            assert!(Cli::try_parse_from(std::iter::once("trace").chain(line.split(' '))).is_err(), "{line}");
        }
    }

    #[test]
    fn text_becomes_a_trace_that_tells_its_counts() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let name = |n: &str| dir.path().join(n).to_str().expect("plain").to_owned();
        std::fs::write(name("t.txt"), "I  1000,4\n L 2000,8\n M 3000,8\n").expect("room");
        let act = |words: &[&str]| run(Cli::try_parse_from(words).expect("good words").args);
        act(&["trace", "convert", &name("t.txt"), "-o", &name("t.frt")]).expect("good text");
        act(&["trace", "convert", &name("t.frt"), "--to", "lackey", "-o", &name("back.txt")]).expect("a trace");
        let back = std::fs::read_to_string(name("back.txt")).expect("written");
        assert_eq!(back, "I  00001000,4\n L 00002000,8\n L 00003000,8\n S 00003000,8\n");
        let e = act(&["trace", "convert", &name("t.frt"), "--to", "gem5"]).expect_err("no output named").to_string();
        assert!(e.contains("gem5 is no text: name a file with -o FILE"), "{e}");
        act(&["trace", "convert", &name("t.frt"), "--to", "gem5", "-o", &name("t.trc.gz")]).expect("a trace");
        let summary = summarize(open_trace(&name("t.trc.gz"), None).expect("our own")).expect("whole");
        assert_eq!((summary.compression, summary.report.totals.references()), (Some("gz"), 4));
        let summary = summarize(open_trace(&name("t.frt"), None).expect("a trace")).expect("whole");
        let text = info_text(&summary);
        assert!(text.contains("4 references (1 instruction, 2 loads, 1 store)"), "{text}");
        let json: Value = serde_json::from_str(&json_of("s/1", &summary).expect("plain")).expect("JSON");
        assert_eq!((&json["schema"], &json["totals"]["loads"]), (&json!("s/1"), &json!(2)));
        assert!(act(&["trace", "convert", &name("t.txt")]).is_err(), "no output named");
        std::fs::write(name("t.txt"), "I  1000,4\n L 2000").expect("room");
        let e = act(&["trace", "check", &name("t.txt")]).expect_err("cut").to_string();
        assert!(e.contains("t.txt: line 2:"), "{e}");
    }
}
