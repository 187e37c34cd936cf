//! `farreach machines`: the presets.

use anyhow::Result;
use clap::Args;
use farreach_machine::{MachineSpec, Preset};
use farreach_types::params::Key;
use std::fmt::Write as _;

/// List the machines that come with farreach, or print one as TOML.
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach machines                                all presets
  farreach machines ds13                           those of a paper; `--machine ds13` runs them all, `--machine all` every one
  farreach machines t94/partial > mine.toml        a preset with every key, to change and use as --machine mine.toml
  farreach machines --keys t94/partial             what each key means and accepts")]
pub struct MachinesArgs {
    /// A preset or a TOML file, with or without overrides; or a group of presets, to list it.
    name: Option<String>,
    /// Explain the keys of the machine instead.
    #[arg(long, requires = "name", conflicts_with = "json")]
    keys: bool,
    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: MachinesArgs) -> Result<()> {
    let name = args.name.as_deref();
    let group = Preset::all_of(name.unwrap_or("all"));
    let text = match name {
        Some(name) if group.is_empty() || args.keys => {
            let spec = MachineSpec::parse(name, 0)?;
            match (args.keys, args.json) {
                (true, _) => explain(&spec),
                (_, true) => format!("{}\n", serde_json::to_string_pretty(spec.params.as_json())?),
                _ => spec.to_toml(),
            }
        }
        _ => list(&group, args.json)?,
    };
    super::common::print(&text)
}

fn list(presets: &[&Preset], json: bool) -> Result<String> {
    let specs = MachineSpec::parse_all(presets.iter().map(|p| p.name), 0)?;
    if json {
        let rows: Vec<_> =
            specs.iter().map(|s| serde_json::json!({"name": s.name, "about": s.about, "config": s.params.as_json()})).collect();
        return Ok(format!("{}\n", serde_json::to_string_pretty(&rows)?));
    }
    let width = specs.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for s in &specs {
        writeln!(out, "{:width$}  {}", s.name, s.about)?;
    }
    writeln!(out, "\n`farreach machines NAME` prints one as TOML; `--keys NAME` says what its keys mean.")?;
    Ok(out)
}

fn explain(spec: &MachineSpec) -> String {
    let placement = spec.params.text("placement");
    let mut keys: Vec<&Key> = MachineSpec::keys(spec.hardware, placement);
    let mut seen = std::collections::HashSet::new();
    keys.retain(|k| seen.insert(k.name));
    let mut out = format!("{}: {}\n\n", spec.name, spec.about);
    for key in keys {
        let value = &spec.params.as_json()[key.name];
        let allowed = match &MachineSpec::registered(key.name)[..] {
            [] => key.allowed.to_string(),
            names => format!("one of {}", names.join(", ")),
        };
        out.push_str(&format!("{} = {value}\n    {}\n    {allowed}\n", key.name, key.about));
    }
    out
}
