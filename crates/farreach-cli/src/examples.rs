//! Every subcommand shows examples, and every example is a command line that farreach takes.

use crate::command::Cli;
use clap::{Command, CommandFactory, Parser};

/// The command lines of farreach in a help text: without comments (two spaces before them), redirections and other
/// commands of a pipe.
fn examples(help: &str) -> Vec<Vec<String>> {
    let after = help.split_once("Examples:\n").map_or("", |(_, after)| after);
    let lines = after.lines().map(|line| line.trim().split("  ").next().unwrap_or(""));
    let parts = lines.flat_map(|line| line.split(" | ").map(|part| part.split(" > ").next().unwrap_or("")));
    let words = parts.map(|part| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    words.filter(|words| words.first().is_some_and(|w| w == "farreach")).collect()
}

fn walk(command: &Command, path: &str) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = examples(&help);
    assert!(
        lines.iter().any(|line| line.join(" ").starts_with(path)),
        "{path} --help shows no example of itself: {lines:?}"
    );
    let mixed = "--log-fd=1 ";
    assert!(
        !help.contains(mixed),
        "{path} --help: with {mixed}the program's own output lies between the lines of the trace"
    );
    for line in lines {
        if let Err(e) = Cli::try_parse_from(&line) {
            panic!("{path} --help shows {line:?}: {e}");
        }
    }
    command.get_subcommands().for_each(|sub| walk(sub, &format!("{path} {}", sub.get_name())));
}

#[test]
fn every_example_is_accepted() {
    Cli::command().debug_assert();
    walk(&Cli::command(), "farreach");
}
