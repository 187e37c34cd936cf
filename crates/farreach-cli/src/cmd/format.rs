//! How a trace is read: its format, and what must be said of some.

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use farreach_trace::FORMATS;
use farreach_trace::table::{COLUMNS, KINDS};

/// The format of a trace, for every command that reads one.
#[derive(Args, Clone, Debug, Default)]
pub struct FormatArgs {
    /// Read the file as this format instead of finding out by its content.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(
        FORMATS.iter().map(|f| PossibleValue::new(f.name).help(f.about))))]
    format: Option<String>,
    /// Read a text with a line for each reference, in which these columns, counted from 1, are what they are named:
    /// `address`, `kind`, `size`, `pid`, `instruction`; `more` is the first of those that not all lines have. Without
    /// kind every line is a load, without size every reference has one byte. `--columns address=3,kind=2`
    #[arg(long, value_name = "WHAT=N,...")]
    columns: Option<String>,
    /// Words in the column `kind`, such as `load=R|LD,store=W|ST,fetch=I`; `modify` is a load and a store, `skip` no
    /// reference. Without it the usual ones: R, LD, load, read, W, ST, store, write, I, fetch and so on. In a trace of
    /// gem5: numbers of commands, beside 1 for a load and 4 for a store.
    #[arg(long, value_name = "KIND=WORD|...,...")]
    kinds: Option<String>,
    /// Base of addresses in such a text: 10, 16, or auto, hexadecimal with 0x and decimal without.
    #[arg(long, value_name = "BASE", requires = "columns", value_parser = ["10", "16", "auto"])]
    base: Option<String>,
    /// What is between its columns: space (any blanks, the default), comma, tab, semicolon, colon, bar, or any sign.
    #[arg(long, value_name = "SIGN", requires = "columns")]
    separator: Option<String>,
    /// Lines at its beginning that are passed over.
    #[arg(long, value_name = "N", requires = "columns")]
    header: Option<u32>,
    /// What its lines of comment begin with, which are passed over; `#` if nothing is said.
    #[arg(long, value_name = "TEXT", requires = "columns")]
    comment: Option<String>,
    /// Read a packet trace of gem5, which has these addresses.
    #[arg(long, value_name = "WHICH", value_parser = ["virtual", "physical"], conflicts_with = "columns")]
    addresses: Option<String>,
}

/// Refuses a text in which anything but these keys has a value.
fn check(option: &str, text: &str, keys: &[&str]) -> Result<()> {
    match text.split(',').map(|part| part.split('=').next().unwrap_or(part)).find(|key| !keys.contains(key)) {
        Some(key) => bail!("{option} {text}: there is no '{key}'; allowed are {}", keys.join(", ")),
        None => Ok(()),
    }
}

impl FormatArgs {
    /// What readers take as a format: its name, and settings behind a colon.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn spec(&self) -> Result<Option<String>> {
        if let Some(kinds) = &self.kinds {
            check("--kinds", kinds, &KINDS)?;
            if self.columns.is_none() && self.addresses.is_none() {
                bail!(
                    "--kinds {kinds}: words of kinds are those of a text with --columns, or of gem5 with --addresses"
                );
            }
        }
        if let Some(addresses) = &self.addresses {
            if let Some(other) = self.format.as_deref().filter(|&name| name != "gem5") {
                bail!("--addresses is about --format gem5, and not about {other}");
            }
            let kinds = self.kinds.as_ref().map_or(String::new(), |kinds| format!(",{kinds}"));
            return Ok(Some(format!("gem5:addresses={addresses}{kinds}")));
        }
        let Some(columns) = &self.columns else { return Ok(self.format.clone()) };
        if let Some(other) = self.format.as_deref().filter(|&name| name != "text") {
            bail!("--columns is about --format text, and not about {other}");
        }
        check("--columns", columns, &COLUMNS)?;
        let mut spec = format!("text:{columns}");
        if let Some(kinds) = &self.kinds {
            spec += &format!(",{kinds}");
        }
        let separator = self.separator.as_deref().map(|separator| match separator {
            "," => "comma",
            "\t" => "tab",
            " " => "space",
            other => other,
        });
        if let Some(comment) = self.comment.as_deref().filter(|text| text.is_empty() || text.contains(',')) {
            bail!("--comment '{comment}' is not allowed: it must not be empty, nor have commas");
        }
        let header = self.header.map(|lines| lines.to_string());
        let rest = [("base", &self.base), ("comment", &self.comment), ("header", &header)];
        let rest = rest.into_iter().map(|(key, value)| (key, value.as_deref())).chain([("separator", separator)]);
        for (key, value) in rest.filter_map(|(key, value)| Some((key, value?))) {
            spec += &format!(",{key}={value}");
        }
        Ok(Some(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: FormatArgs,
    }

    fn spec(line: &str) -> Result<Option<String>> {
        Cli::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.args.spec()
    }

    #[test]
    fn options_become_what_readers_take() {
        for (line, expected) in [
            ("", None),
            ("--format lackey", Some("lackey")),
            ("--columns address=1", Some("text:address=1")),
            ("--addresses virtual", Some("gem5:addresses=virtual")),
            (
                "--addresses physical --format gem5 --kinds load=22|26,skip=11",
                Some("gem5:addresses=physical,load=22|26,skip=11"),
            ),
            ("--format text --columns address=2,kind=3", Some("text:address=2,kind=3")),
            (
                "--columns address=2 --base 16 --separator , --header 1 --comment // --kinds load=R|r,store=W",
                Some("text:address=2,load=R|r,store=W,base=16,comment=//,header=1,separator=comma"),
            ),
        ] {
            assert_eq!(spec(line).expect(line).as_deref(), expected);
        }
        for line in [
            "--format elf",
            "--base 16",
            "--kinds load=R",
            "--addresses",
            "--addresses linear",
            "--addresses virtual --format frt",
            "--addresses virtual --columns address=1",
            "--columns address=1 --base 8",
            "--columns adress=1",
            "--columns address=1,load=R",
            "--columns address=1 --kinds kind=3",
            "--columns address=1 --comment a,b",
            "--columns address=1 --format lackey",
        ] {
            assert!(spec(line).is_err(), "{line}");
        }
    }
}
