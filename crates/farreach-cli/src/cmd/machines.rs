//! `farreach machines`: the presets, and the processor at hand.

use super::common::{needs_file, note, print, whole, write_whole};
use anyhow::Result;
use clap::Args;
use farreach_machine::this::Prices;
use farreach_machine::{MachineSpec, Preset, reference};
use farreach_native::this;
use farreach_report::Report;
use farreach_types::addr::Bytes;
use farreach_types::params::{Allowed, Key};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Columns of a table in a comment.
const COMMENT_WIDTH: usize = 116;

/// List the machines that come with farreach, or print one as TOML: a preset, or the TLBs of this processor.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach machines                                all presets
  farreach machines ds13                           those of a paper; `--machine ds13` runs them all, `--machine all` \
every one
  farreach machines t94/partial > mine.toml        a preset with every key, to change and use as --machine mine.toml
  farreach machines partial > mine.toml            the same for a kind of hardware, with every key at its default
  farreach machines --keys t94/partial             what each key means and accepts
  farreach machines --keys --markdown > keys.md    the keys of all kinds of hardware and policies
  farreach machines --this                         this processor, with the source of each key; `--machine this` runs it
  farreach machines --this --measure > this.toml   the same with prices measured here, and what differs
  farreach machines --this --measure --html tlbs.html")]
pub struct MachinesArgs {
    /// A preset or a TOML file, with or without overrides; a kind of hardware, with every key at its default; or a
    /// group of presets, to list it.
    #[arg(group = "which")]
    name: Option<String>,
    /// Explain the keys of the machine instead.
    #[arg(long, requires = "which", conflicts_with = "json")]
    keys: bool,
    /// With --keys and without a name: the keys of every design, machine with caches and policy, as Markdown.
    #[arg(long, requires = "keys", group = "which")]
    markdown: bool,
    /// Print as JSON.
    #[arg(long)]
    json: bool,
    /// The TLBs of this processor as TOML: what CPUID or MIDR say, completed by the preset of its core.
    #[arg(long, group = "which", conflicts_with = "keys")]
    this: bool,
    /// With --this: find entries and prices by chains of loads over pages, and take the prices. Takes a minute or two,
    /// on a machine that does nothing else.
    #[arg(long, requires = "this")]
    measure: bool,
    /// With --measure: print the points of the curves as CSV.
    #[arg(long, requires = "measure", conflicts_with = "json")]
    csv: bool,
    /// Also write a page with the curves.
    #[arg(long, value_name = "FILE", requires = "measure")]
    html: Option<PathBuf>,
    /// Repetitions of each point.
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 7, value_parser = whole::<1>)]
    repetitions: u64,
    /// Seed of the order of pages.
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 0, value_parser = whole::<0>)]
    seed: u64,
    /// Most memory to use. Default: a quarter of what is available, up to 8G.
    #[arg(long, value_name = "SIZE", requires = "measure")]
    memory: Option<Bytes>,
}

/// Runs the command.
pub fn run(args: MachinesArgs) -> Result<()> {
    if args.markdown {
        return print(&markdown());
    }
    if args.this {
        return this_machine(&args);
    }
    let name = args.name.as_deref();
    let group = Preset::all_of(name.unwrap_or("all"));
    let text = match name {
        Some(name) if group.is_empty() || args.keys => {
            let spec = MachineSpec::of_kind(name).unwrap_or_else(|| this::parse(name, 0))?;
            match (args.keys, args.json) {
                (true, _) => explain(&spec),
                (_, true) => format!("{}\n", serde_json::to_string_pretty(spec.params.as_json())?),
                _ => spec.to_toml(),
            }
        }
        _ => list(&group, args.json)?,
    };
    print(&text)
}

/// This processor, measured or not.
fn this_machine(args: &MachinesArgs) -> Result<()> {
    let as_json =
        |spec: &MachineSpec| anyhow::Ok(format!("{}\n", serde_json::to_string_pretty(spec.params.as_json())?));
    if !args.measure {
        let spec = this::parse(this::NAME, 0)?;
        return print(&if args.json { as_json(&spec)? } else { this::toml(&Prices::default()) });
    }
    if let Some(path) = &args.html {
        needs_file(path, "--html")?;
        farreach_trace::Partial::create(path)?;
    }
    let memory = args.memory.map(|size| size.0);
    let options = this::measure::Options { repetitions: args.repetitions, seed: args.seed, memory };
    let shown = std::io::stderr().is_terminal();
    let found = this::measure::measure(&options, &mut |line| {
        if shown {
            note(line)
        }
    })?;
    let text = match (args.csv, args.json) {
        (true, _) => found.csv(),
        (_, true) => found.json(),
        _ => {
            // The table goes in front of the description, as a comment.
            let table = found.table(COMMENT_WIDTH);
            let comment = table.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n");
            let prices = this::measure::prices(&found, &this::parse(this::NAME, 0)?);
            format!("{}\n{}", comment.collect::<String>(), this::toml(&prices))
        }
    };
    let printed = print(&text);
    if let Some(path) = &args.html {
        write_whole(path, found.html().as_bytes())?;
        note(format_args!("report in {}", path.display()));
    }
    printed
}

fn list(presets: &[&Preset], json: bool) -> Result<String> {
    let specs = MachineSpec::parse_all(presets.iter().map(|p| p.name), 0)?;
    if json {
        let rows: Vec<_> = specs
            .iter()
            .map(|s| serde_json::json!({"name": s.name, "about": s.about, "config": s.params.as_json()}))
            .collect();
        return Ok(format!("{}\n", serde_json::to_string_pretty(&rows)?));
    }
    let width = specs.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for s in &specs {
        writeln!(out, "{:width$}  {}", s.name, s.about)?;
    }
    writeln!(
        out,
        "\n`farreach machines NAME` prints one as TOML; `--keys NAME` says what its keys mean; `this` is this \
         processor."
    )?;
    if specs.iter().any(|s| s.name.starts_with("today/")) {
        writeln!(
            out,
            "Those of today page on demand; with -thp, as today/zen3-thp, they have transparent huge pages."
        )?;
    }
    Ok(out)
}

fn explain(spec: &MachineSpec) -> String {
    let mut keys: Vec<&Key> = MachineSpec::keys(spec.hardware, spec.params.as_json());
    let mut seen = std::collections::HashSet::new();
    keys.retain(|k| seen.insert(k.name));
    let mut out = format!("{}: {}\n\n", spec.name, spec.about);
    for key in keys {
        let value = &spec.params.as_json()[key.name];
        out.push_str(&format!("{} = {value}\n    {}\n    {}\n", key.name, key.about, allowed(key)));
    }
    out
}

/// What a key accepts, with the names of a registry where it chooses from one.
fn allowed(key: &Key) -> String {
    match (key.allowed, &MachineSpec::registered(key.name)[..]) {
        (Allowed::OneOf(_), _) | (_, []) => key.allowed.to_string(),
        (Allowed::Texts, names) => format!("none, or some of {}", names.join(", ")),
        (_, names) => format!("one of {}", names.join(", ")),
    }
}

/// The reference of all keys: a section for each group of parts, a table for each part.
fn markdown() -> String {
    let mut out = "<!-- Printed by `farreach machines --keys --markdown`. -->\n".to_owned();
    let mut group = "";
    for part in reference() {
        if group != part.group {
            group = part.group;
            out.push_str(&format!("\n## {group}\n"));
        }
        if let Some((key, name)) = part.selected_by {
            out.push_str(&format!("\n### `{key} = \"{name}\"`\n"));
        }
        out.push_str(&format!("\n{}\n", cell(part.about)));
        if !part.keys.is_empty() {
            out.push_str("\n| key | default | allowed | meaning |\n|---|---|---|---|\n");
        }
        for key in part.keys {
            let default = match key.default {
                "" if key.name == "kind" => "must be given".to_owned(),
                "" => "none".to_owned(),
                default => format!("`{default}`"),
            };
            let row = [format!("`{}`", key.name), default, cell(&allowed(key)), cell(key.about)];
            out.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    out
}

/// A text in a table, with characters escaped that Markdown takes for a border or a tag.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
