//! `farreach doctor`: what of the kernel's interfaces works on this machine for this user.

use super::common::{print, terminal_width};
use super::system;
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use farreach_live::system::System;
use farreach_live::tries::{Failure, Tried};
use farreach_native::interfaces::{INTERFACES, Interface};
use farreach_report::format::clean;
use farreach_report::grid::placed;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// What of the recorder and the kernel's interfaces works on this machine, for this user, and what turns the rest on
///
/// Below stands what the kernel is set to, as far as it decides about page sizes.
///
/// Every line is a try: the interface is used as farreach uses it, on farreach's own memory and processes, and what was
/// done is undone. It takes a second and changes nothing.
#[derive(Args)]
#[command(after_help = "\
Exit status: 0 if all that was asked for by name works, or nothing was named; 1 if some of it does not

Examples:
  farreach doctor
  farreach doctor recorder frames                  these alone; the exit status says whether they work
  farreach doctor contiguity                       all that a command may use
  farreach doctor --json")]
pub struct DoctorArgs {
    /// Interfaces, or commands for all that they may use. Default: everything
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()), hide_possible_values = true)]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What may be asked for.
fn names() -> Vec<&'static str> {
    let commands: BTreeSet<&str> = INTERFACES.iter().flat_map(|line| line.commands).copied().collect();
    INTERFACES.iter().map(|line| line.name).chain(commands).collect()
}

/// Tries, prints.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let asked = |line: &&Interface| {
        let is = |name: &String| line.name == name || line.commands.contains(&name.as_str());
        args.names.is_empty() || args.names.iter().any(is)
    };
    let tried: Vec<(&Interface, Tried)> =
        INTERFACES.iter().filter(asked).map(|line| (line, (line.attempt)())).collect();
    let system = args.names.is_empty().then(System::here);
    let text = if args.json { as_json(&tried, system.as_ref())? } else { for_people(&tried, system.as_ref()) };
    print(&text)?;
    let fails = !args.names.is_empty() && tried.iter().any(|(_, tried)| tried.is_err());
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_json(tried: &[(&Interface, Tried)], system: Option<&System>) -> Result<String> {
    let each = |(line, tried): &(&Interface, Tried)| -> Value {
        let (found, turn_on) = match tried {
            Ok(found) => (found, None),
            Err(failure) => (&failure.why, failure.turn_on.as_ref()),
        };
        json!({
            "name": line.name,
            "works": tried.is_ok(),
            "found": found,
            "turn_on": turn_on,
            "needed_for": line.needed_for,
            "commands": line.commands,
        })
    };
    let lines: Vec<Value> = tried.iter().map(each).collect();
    let mut all = json!({"schema": "farreach.doctor/1", "lines": lines});
    if let Some(system) = system {
        all["system"] = serde_json::to_value(system)?;
    }
    Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
}

fn for_people(tried: &[(&Interface, Tried)], facts: Option<&System>) -> String {
    let row = |(line, tried): &(&Interface, Tried)| {
        let (works, found) = match tried {
            Ok(found) => ("yes", clean(found)),
            Err(Failure { why, turn_on: None }) => ("no", clean(why)),
            Err(Failure { why, turn_on: Some(how) }) => ("no", format!("{}\n→ {how}", clean(why))),
        };
        [line.name, works, line.needed_for, &found].map(str::to_owned).to_vec()
    };
    let rows: Vec<Vec<String>> = tried.iter().map(row).collect();
    let heads = [
        vec![String::new(); 4],
        ["", "works", "needed for", "found, and → what turns it on"].map(str::to_owned).to_vec(),
    ];
    let table = placed(&heads, &rows, |_| true, |_| false, terminal_width());
    let facts = facts.map_or(String::new(), |facts| format!("\n{}", system::for_people(facts)));
    format!("{}{facts}", table.trim_start_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_why_and_what_to_do() {
        let failure = Failure::new("it is off").or_turn_on("sudo on");
        let table = for_people(&[(&INTERFACES[0], Err(failure)), (&INTERFACES[1], Ok("fine".into()))], None);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].contains("works  needed for"), "{table}");
        assert!(lines[2].starts_with("recorder  no     run, record") && lines[2].ends_with("it is off"), "{table}");
        assert_eq!(lines[3].trim(), "→ sudo on");
        assert!(lines[4].starts_with("frames    yes ") && lines[4].ends_with("fine"), "{table}");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn names_are_of_one_line_or_of_a_command() {
        let names = names();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        use clap::CommandFactory;
        let cli = crate::command::Cli::command();
        for command in INTERFACES.iter().flat_map(|line| line.commands) {
            assert!(cli.find_subcommand(command).is_some(), "{command} is no command");
        }
    }
}
