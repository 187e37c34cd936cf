//! `farreach man`: manual pages from the parser. It is for installation and packaging, so help does not list it.

use super::common::write_whole;
use anyhow::Result;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::path::{Path, PathBuf};

/// Write the manual pages of farreach, one for each subcommand
#[derive(Args)]
#[command(hide = true, after_help = "Examples:\n  farreach man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// A folder; files of the same names are overwritten
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of `command`.
pub fn run(args: ManArgs, command: Command) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &args.folder)
}

fn pages(command: &Command, folder: &Path) -> Result<()> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| pages(sub, folder))?;
    let man = Man::new(command.clone().version(env!("CARGO_PKG_VERSION")))
        .date(" ") // without one, what follows would take its place
        .source(concat!("farreach ", env!("CARGO_PKG_VERSION")))
        .manual("farreach");
    write_whole(&folder.join(man.get_filename()), &page(&man, command)?)
}

/// One page. The library would join the lines of the examples, so they are written here, as in the help.
fn page(man: &Man, command: &Command) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::default();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for paragraph in help.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (heading, text) = paragraph.split_once(":\n").unwrap_or(("Notes", paragraph));
        roff.control("SH", [heading.trim().to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in text.lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
    if command.get_name() != "farreach" {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman("farreach(1)")]);
    }
    roff.to_writer(&mut out)?;
    Ok(out)
}
