//! `farreach cite`: how to cite a trace or a result.

use super::common::print;
use super::format::FormatArgs;
use anyhow::{Context, Result, bail};
use clap::Args;
use farreach_report::cite::Cited;
use farreach_trace::{Header, open_trace, summarize};
use serde_json::Value;
use std::path::Path;

/// Print how to cite a trace or a result: sentences for a list of references, then BibTeX
///
/// Of a trace: the program, its arguments, when and by what it was recorded, on which kernel, and the hash of the file.
/// Of a result (what --json printed): what ran, the machines, the seed, the piece, and the papers whose machines these
/// are. So the artefact of a paper can say what it ran.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach cite gcc.frt
  farreach sim gcc.frt --json -o result.json; farreach cite result.json")]
pub struct CiteArgs {
    /// A trace, or a result as JSON.
    #[arg(value_name = "TRACE|RESULT")]
    file: String,
    #[command(flatten)]
    format: FormatArgs,
}

/// Larger files are no results.
const MOST_BYTES: u64 = 1 << 30;

/// Runs the command.
pub fn run(args: &CiteArgs) -> Result<()> {
    let format = args.format.spec()?;
    let hash = farreach_sweep::hash_file(Path::new(&args.file))?;
    let cited = match result(&args.file).filter(|_| format.is_none()) {
        Some(value) => of_result(&args.file, &value, hash)?,
        None => of_trace(&args.file, format.as_deref(), hash)?,
    };
    print(&cited.text(env!("CARGO_PKG_VERSION")))
}

/// The file, if it is a result.
fn result(file: &str) -> Option<Value> {
    let meta = std::fs::metadata(file).ok().filter(|meta| meta.is_file() && meta.len() <= MOST_BYTES)?;
    let mut first = [0; 1];
    let mut opened = std::fs::File::open(file).ok()?;
    std::io::Read::read_exact(&mut opened, &mut first).ok().filter(|()| meta.len() > 0 && first == *b"{")?;
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

fn of_result(file: &str, value: &Value, hash: String) -> Result<Cited> {
    let schema = value["schema"].as_str().filter(|schema| schema.starts_with("farreach."));
    let Some(schema) = schema else { bail!("{file}: it is JSON, and no result of farreach: it names no schema") };
    let workload = &value["workload"];
    let mut facts = vec![("schema".to_owned(), schema.to_owned())];
    facts.extend(workload["seed"].as_u64().map(|seed| ("seed".to_owned(), seed.to_string())));
    let piece = &workload["piece"];
    facts.extend(piece["from"].as_str().map(|place| ("from".to_owned(), place.to_owned())));
    for (key, name) in [("skipped_instructions", "without"), ("warmup_instructions", "warm-up of")] {
        let number = piece[key].as_u64().filter(|n| *n > 0);
        facts.extend(number.map(|n| (name.to_owned(), format!("{n} instructions"))));
    }
    facts.extend(workload["stopped"].as_str().map(|why| ("stopped by".to_owned(), why.to_owned())));
    let machines = ["machines", "policies"].iter().flat_map(|list| value[*list].as_array().into_iter().flatten());
    Ok(Cited {
        kind: "Result",
        of: workload["source"].as_str().unwrap_or(file).to_owned(),
        facts,
        date: String::new(),
        hash,
        instructions: workload["instructions"].as_u64().unwrap_or(0),
        machines: machines.filter_map(|machine| machine["name"].as_str()).map(str::to_owned).collect(),
    })
}

fn of_trace(file: &str, format: Option<&str>, hash: String) -> Result<Cited> {
    let opened = open_trace(file, format)?;
    let summary = summarize(opened).with_context(|| file.to_owned())?;
    let Header { program, arguments, environment, date, recorder, more } = summary.header.clone().unwrap_or_default();
    let of = match (arguments.is_empty(), program.is_empty()) {
        (false, _) => arguments.join(" "),
        (true, false) => program,
        _ => more.get("converted_from").and_then(Value::as_str).unwrap_or(file).to_owned(),
    };
    let mut facts = vec![("format".to_owned(), summary.format.to_owned())];
    if !recorder.is_empty() {
        facts.push(("recorded by".to_owned(), recorder));
    }
    facts.extend(environment.get("kernel").map(|kernel| ("Linux".to_owned(), kernel.clone())));
    facts.extend(more.get("piece").map(|piece| ("piece".to_owned(), piece.to_string())));
    let instructions = summary.report.totals.instructions;
    Ok(Cited { kind: "Trace", of, facts, date, hash, instructions, machines: Vec::new() })
}
