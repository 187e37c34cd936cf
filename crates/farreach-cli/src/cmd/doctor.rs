//! `farreach doctor`: what of the kernel's interfaces works on this machine for this user.

use super::common::{print, terminal_width};
use super::native::PageSize;
use super::system;
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use farreach_live::system::System;
use farreach_live::tries::{self, Failure, Tried};
use farreach_live::{huge_pages_for, populate};
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

/// A line: an interface that is tried.
struct Line {
    name: &'static str,
    /// Commands that may use it.
    commands: &'static [&'static str],
    /// What farreach needs it for.
    needed_for: &'static str,
    attempt: fn() -> Tried,
}

const fn line(
    name: &'static str,
    commands: &'static [&'static str],
    needed_for: &'static str,
    attempt: fn() -> Tried,
) -> Line {
    Line { name, commands, needed_for, attempt }
}

const RECORDING: [&str; 5] = ["run", "record", "pagesize", "papers", "workloads"];
const TRAP: [&str; 1] = ["trap"];
const WATCH: [&str; 1] = ["watch"];

/// In the order in which they are shown.
const LINES: [Line; 23] = [
    line("recorder", &RECORDING, "run, record, pagesize, papers, workloads", tries::recorder),
    line("frames", &["contiguity"], "contiguity: physical ranges", tries::frames),
    line("pagemap-scan", &["contiguity"], "contiguity --dump: which pages are huge", tries::page_map_scan),
    line("damon", &WATCH, "watch --method damon", tries::damon),
    line("idle-pages", &WATCH, "watch --method idle-pages", tries::idle_pages),
    line("clear-refs", &WATCH, "watch --method clear-refs", tries::clear_refs),
    line("soft-dirty", &WATCH, "watch --method soft-dirty", tries::soft_dirty),
    line("huge-pages", &["workloads"], "workloads --native --pages 2m", || huge(2 << 20)),
    line("huge-pages-64k", &["workloads"], "workloads --native --pages 64k", || huge(64 << 10)),
    line("hugetlbfs", &[], "programs that ask for MAP_HUGETLB", tries::hugetlb),
    line("swap", &[], "programs larger than memory", tries::swap_out),
    line("kernel", &TRAP, "trap", tries::kernel),
    line("memfd", &TRAP, "trap", tries::memfd),
    line("userfaultfd", &TRAP, "trap", tries::userfaultfd),
    line("userfaultfd-minor", &TRAP, "trap", tries::minor_faults),
    line("userfaultfd-wp", &TRAP, "trap", tries::write_protection),
    line("seccomp", &TRAP, "trap", tries::filter),
    line("ptrace", &TRAP, "trap", tries::ptrace),
    line("pidfd", &TRAP, "trap", tries::pidfd),
    line("personality", &TRAP, "trap", tries::personality),
    line("affinity", &TRAP, "trap", tries::affinity),
    line("seccomp-notification", &[], "nothing yet", tries::notification),
    line("instructions", &[], "nothing yet", tries::instructions),
];

/// What may be asked for.
fn names() -> Vec<&'static str> {
    let commands: BTreeSet<&str> = LINES.iter().flat_map(|line| line.commands).copied().collect();
    LINES.iter().map(|line| line.name).chain(commands).collect()
}

/// What a command needs and this system lacks, with what turns it on.
pub fn missing(command: &str) -> Vec<String> {
    let lines = LINES.iter().filter(|line| line.commands.contains(&command));
    lines.filter_map(|line| Some(format!("{}: {}", line.name, (line.attempt)().err()?))).collect()
}

/// Memory of this process in transparent huge pages.
fn huge(bytes: u64) -> Tried {
    const MEMORY: usize = 8 << 20;
    let size = PageSize { bytes };
    if let Some(missing) = size.missing() {
        return Err(missing);
    }
    let before = size.held();
    let memory: Vec<u8> = Vec::with_capacity(MEMORY);
    let at = memory.as_ptr().addr()..memory.as_ptr().addr() + MEMORY;
    huge_pages_for(&at, size.larger()).map_err(|e| Failure::of("MADV_HUGEPAGE", e))?;
    populate(&at).map_err(|e| Failure::of("MADV_POPULATE_WRITE", e))?;
    match size.held().saturating_sub(before) {
        0 => Err(Failure::new(format!("the kernel gave no pages of {}: free memory may be in pieces", size.name()))
            .or_turn_on("echo 1 | sudo tee /proc/sys/vm/compact_memory")),
        held => Ok(format!("{} of {} MB are in pages of {}", held >> 20, MEMORY >> 20, size.name())),
    }
}

/// Tries, prints.
pub fn run(args: DoctorArgs) -> Result<ExitCode> {
    let asked = |line: &&Line| {
        let is = |name: &String| line.name == name || line.commands.contains(&name.as_str());
        args.names.is_empty() || args.names.iter().any(is)
    };
    let tried: Vec<(&Line, Tried)> = LINES.iter().filter(asked).map(|line| (line, (line.attempt)())).collect();
    let system = args.names.is_empty().then(System::here);
    let text = if args.json { as_json(&tried, system.as_ref())? } else { for_people(&tried, system.as_ref()) };
    print(&text)?;
    let fails = !args.names.is_empty() && tried.iter().any(|(_, tried)| tried.is_err());
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_json(tried: &[(&Line, Tried)], system: Option<&System>) -> Result<String> {
    let each = |(line, tried): &(&Line, Tried)| -> Value {
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

fn for_people(tried: &[(&Line, Tried)], facts: Option<&System>) -> String {
    let row = |(line, tried): &(&Line, Tried)| {
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
        let table = for_people(&[(&LINES[0], Err(failure)), (&LINES[1], Ok("fine".into()))], None);
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
        for command in LINES.iter().flat_map(|line| line.commands) {
            assert!(cli.find_subcommand(command).is_some(), "{command} is no command");
        }
    }
}
