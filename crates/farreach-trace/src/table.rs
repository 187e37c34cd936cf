//! Any text with a line for each reference and columns in it, which the user names.
//!
//! ```text
//! time,op,address,bytes
//! 17,R,0x7ffe0010,8
//! 19,W,0x7ffe0018,4
//! ```
//! is `text:kind=2,address=3,size=4,separator=comma,header=1`. What is not said of a format that anybody may have made
//! is a doubt, so nothing is guessed: the columns are told; a word of a kind that is not known, a number in another
//! base, a line with more or fewer columns than the first are errors.
//!
//! * `address`, `kind`, `size`, `pid`, `instruction`: numbers of columns, from 1. Without `kind` each line is a load,
//!   without `size` each reference has one byte, without `pid` all are of one process.
//! * `instruction` is the address of the instruction that makes the reference. The line is a fetch of its first byte,
//!   then the reference; a store right behind a load of the same instruction is of the same execution.
//! * `more`: lines may end anywhere from this column on.
//! * `base` of addresses: 10, 16, or `auto`, hexadecimal with 0x and decimal without. Sizes and processes are `auto`.
//! * `separator`: `space` is any number of blanks and tabs, and a colon, comma or semicolon before them; others
//!   separate columns that may be empty, have blanks around them, or stand in double quotes.
//! * `load`, `store`, `fetch`, `modify`: the words of a kind, with `|` between; `modify` is a load, then a store,
//!   and `skip` no reference.
//! * `header`: lines at the beginning that are passed over. `comment`: so are lines that begin so, and empty ones.

pub(crate) mod arrow;
mod fields;
pub(crate) mod parquet;
mod rows;

use fields::{blanks, split};
use hashbrown::HashMap;
use std::ops::Range;

use crate::assemble::Assembler;
use crate::frt::MAX_ADDRESS_SPACES;
use crate::input::Input;
use crate::lines::{self, Base, Lines, Owner, UNKNOWN_SIZE, Wrong, shown};
use crate::settings::{Settings, list};
use crate::{Format, Opened};
use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::Kind;
use farreach_types::plural::with_noun;

/// Text of any columns, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "text",
    about: "any text with a line for each reference: --columns says where what is",
    lacks: "mappings, threads; sizes, kinds, processes and instructions, unless columns have them",
    settings: "address=COLUMN, and more",
    detect: |_| false,
    open: |input: Input, settings: &str| -> Result<Opened> {
        // A binary table is known by its first bytes; its columns are named in the same way.
        for binary in [&parquet::FORMAT, &arrow::FORMAT] {
            if (binary.detect)(input.head()) {
                return (binary.open)(input, settings);
            }
        }
        let table = Table::parse(settings).map_err(|what| Error::Trace {
            file: input.file.clone(),
            place: "format text".into(),
            what,
        })?;
        Ok(lines::open(input, &FORMAT, table))
    },
};

/// Settings that name a column.
pub const COLUMNS: [&str; 6] = ["address", "kind", "size", "pid", "instruction", "more"];
/// Settings that have the words of a kind.
pub const KINDS: [&str; 5] = ["load", "store", "fetch", "modify", "skip"];
/// The words that are taken if none are told.
const WORDS: [(&str, &str, What); 5] = [
    ("load", "R|r|L|l|LD|ld|RD|rd|LOAD|load|Load|READ|read|Read", What::Load),
    ("store", "W|w|S|s|ST|st|WR|wr|STORE|store|Store|WRITE|write|Write", What::Store),
    ("fetch", "I|i|F|f|IFETCH|ifetch|FETCH|fetch|Fetch", What::Fetch),
    ("modify", "M|m|RW|rw", What::Modify),
    ("skip", "", What::Skip),
];
const SEPARATORS: [(&str, Option<u8>); 6] = [
    ("space", None),
    ("comma", Some(b',')),
    ("tab", Some(b'\t')),
    ("semicolon", Some(b';')),
    ("colon", Some(b':')),
    ("bar", Some(b'|')),
];
/// A column behind this one is a mistake.
const MOST_COLUMNS: usize = 1000;

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Load,
    Store,
    Fetch,
    Modify,
    /// No reference.
    Skip,
}

impl What {
    /// Its first reference, if there is one.
    fn kind(self) -> Option<Kind> {
        match self {
            What::Load | What::Modify => Some(Kind::Load),
            What::Store => Some(Kind::Store),
            What::Fetch => Some(Kind::Fetch),
            What::Skip => None,
        }
    }
}

/// What a line or a row is about.
struct Row {
    what: What,
    addr: u64,
    size: u32,
    pid: Option<u64>,
    /// The instruction that makes the reference.
    pc: Option<u64>,
}

/// Puts references where they belong.
#[derive(Default)]
struct Placer {
    spaces: HashMap<u64, Asid>,
    /// That of the last reference.
    space: Asid,
    owner: Owner,
}

impl Placer {
    fn put(&mut self, row: &Row, made: &mut Assembler) -> Result<(), String> {
        let Row { addr, size, .. } = *row;
        if let Some(pid) = row.pid {
            if self.spaces.len() as u64 >= MAX_ADDRESS_SPACES && !self.spaces.contains_key(&pid) {
                return Err(format!("the trace has more than {MAX_ADDRESS_SPACES} processes"));
            }
            let next = Asid(self.spaces.len() as u32);
            let space = *self.spaces.entry(pid).or_insert(next);
            if std::mem::replace(&mut self.space, space) != space {
                self.owner.forget();
            }
            made.space(space)?;
        }
        let Some(kind) = row.what.kind() else { return Ok(()) };
        match (kind, row.pc) {
            (Kind::Fetch, _) => {
                self.owner.forget();
                made.instr(addr, size)?;
            }
            (kind, Some(pc)) => self.owner.data(pc, addr, size, kind, made)?,
            (kind, None) => made.data(addr, size, kind)?,
        }
        if row.what == What::Modify {
            made.data(addr, size, Kind::Store)?;
            self.owner.forget();
        }
        Ok(())
    }
}

/// What the user says of the text, and what was read of it.
struct Table {
    address: usize,
    kind: Option<usize>,
    size: Option<usize>,
    pid: Option<usize>,
    instruction: Option<usize>,
    more: Option<usize>,
    base: Base,
    /// `None`: blanks.
    separator: Option<u8>,
    comment: Vec<u8>,
    /// Lines that are still passed over.
    header: u64,
    /// What a message about the first line adds.
    hint: &'static str,
    words: HashMap<Vec<u8>, What>,
    /// Columns of the first line.
    columns: Option<usize>,
    /// Where the columns of a line are.
    fields: Vec<Range<usize>>,
    placer: Placer,
}

impl Table {
    fn parse(text: &str) -> Result<Table, String> {
        let rest = ["base", "separator", "comment", "header"];
        let keys: Vec<_> = COLUMNS.into_iter().chain(KINDS).chain(rest).collect();
        let settings = Settings::parse(text, &keys)?;
        let column = |key| settings.get(key).map(|value| column(key, value)).transpose();
        let Some(address) = column("address")? else {
            return Err(format!(
                "the column of addresses is not named: say --columns address=N, counted from 1; others are {}",
                list(&COLUMNS[1..])
            ));
        };
        let (kind, more) = (column("kind")?, column("more")?);
        let (size, pid, instruction) = (column("size")?, column("pid")?, column("instruction")?);
        let named = [Some(address), kind, size, pid, instruction].into_iter().flatten();
        if let Some(more) = more.filter(|&more| named.clone().any(|at| at >= more)) {
            return Err(format!("more = {} is not allowed: the columns before it are those that are named", more + 1));
        }
        let base = match settings.get("base") {
            None | Some("auto") => Base::Auto,
            Some("10") => Base::Decimal,
            Some("16") => Base::Hexadecimal,
            Some(other) => return Err(format!("base = {other} is not allowed: allowed are 10, 16 and auto")),
        };
        let header = settings.get("header").map_or(Ok(0), str::parse);
        let header = header.map_err(|_| "header: allowed is a number of lines".to_owned())?;
        Ok(Table {
            address,
            kind,
            size,
            pid,
            instruction,
            more,
            base,
            separator: separator(settings.get("separator").unwrap_or("space"))?,
            comment: settings.get("comment").unwrap_or("#").into(),
            header,
            hint: if header == 0 { "; --header 1 passes over a line of names" } else { "" },
            words: words(&settings, kind.is_some())?,
            columns: None,
            fields: Vec::new(),
            placer: Placer::default(),
        })
    }

    /// Finds the columns of a line.
    fn split(&mut self, line: &[u8]) -> Result<(), Wrong> {
        self.fields.clear();
        match self.separator {
            None => blanks(line, &mut self.fields),
            Some(separator) => split(line, separator, &mut self.fields)?,
        }
        let named = [Some(self.address), self.kind, self.size, self.pid, self.instruction];
        let needed = 1 + named.into_iter().flatten().max().unwrap_or(0);
        let has = self.fields.len();
        if has < needed {
            let has = with_noun(has as u64, "column");
            let other = SEPARATORS.iter().find(|(_, sign)| sign.is_some_and(|sign| line.contains(&sign)));
            let hint = other.filter(|_| self.separator.is_none()).map(|(name, _)| format!("; try --separator {name}"));
            let hint = hint.unwrap_or_default();
            return Err(Wrong::at(needed, format!("the line has {has}, and column {needed} is named{hint}")));
        }
        let most = self.more.unwrap_or(usize::MAX).min(has);
        match *self.columns.get_or_insert(most) {
            first if first == most => Ok(()),
            first => Err(Wrong::at(
                first.min(most) + 1,
                format!(
                    "the line has {}, the first had {first}; 'more=N' in --columns allows any from N on",
                    with_noun(has as u64, "column")
                ),
            )),
        }
    }
}

fn column(key: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (1..=MOST_COLUMNS).contains(number));
    number
        .map(|number| number - 1)
        .ok_or_else(|| format!("{key} = {value} is not allowed: allowed are columns from 1 to {MOST_COLUMNS}"))
}

fn separator(value: &str) -> Result<Option<u8>, String> {
    if let Some(&(_, separator)) = SEPARATORS.iter().find(|s| s.0 == value) {
        return Ok(separator);
    }
    match value.as_bytes() {
        &[byte] if byte.is_ascii_punctuation() && byte != b'"' => Ok(Some(byte)),
        _ => Err(format!(
            "separator = {value} is not allowed: allowed are {}, and any other sign but \"",
            list(&SEPARATORS.map(|s| s.0))
        )),
    }
}

/// The words of kinds. As soon as one kind is told, the others have only what is told too.
fn words(settings: &Settings, column: bool) -> Result<HashMap<Vec<u8>, What>, String> {
    let told = KINDS.iter().any(|key| settings.get(key).is_some());
    if told && !column {
        return Err("words of kinds are told, and no column of kinds: say --columns kind=N".into());
    }
    let mut words = HashMap::new();
    for (key, usual, what) in WORDS {
        let of_kind = if told { settings.get(key).unwrap_or("") } else { usual };
        for word in of_kind.split('|').filter(|word| !word.is_empty()) {
            if words.insert(word.as_bytes().to_vec(), what).is_some() {
                return Err(format!("the word '{word}' is told of two kinds"));
            }
        }
    }
    Ok(words)
}

impl Lines for Table {
    fn line(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong> {
        if self.header > 0 {
            self.header -= 1;
            return Ok(());
        }
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(&self.comment) {
            return Ok(());
        }
        let first = self.columns.is_none();
        let result = self.split(line).and_then(|()| self.reference(line, made));
        result.map_err(|wrong| if first { wrong.hint(self.hint) } else { wrong })
    }
}

impl Table {
    /// The reference that a line is, whose columns are found.
    fn reference(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong> {
        let field = |at: usize| &line[self.fields[at].clone()];
        let what = match self.kind {
            None => What::Load,
            Some(at) => *self.words.get(field(at)).ok_or_else(|| {
                let mut known: Vec<_> = self.words.keys().map(|word| shown(word)).collect();
                known.sort_unstable();
                Wrong::at(at + 1, format!("kind '{}' is not known: known are {}", shown(field(at)), list(&known)))
            })?,
        };
        let Some(kind) = what.kind() else { return Ok(()) };
        let at = |column: usize| move |what: String| Wrong::at(column + 1, what);
        let addr = lines::number(field(self.address), self.base).map_err(at(self.address))?;
        let size = match self.size {
            Some(column) => lines::size(field(column), kind).map_err(at(column))?,
            None => UNKNOWN_SIZE,
        };
        lines::fits(addr, size).map_err(at(self.address))?;
        let pid = self.pid.map(|column| lines::number(field(column), Base::Auto).map_err(at(column))).transpose()?;
        let pc = self.instruction.filter(|_| kind != Kind::Fetch);
        let pc = pc.map(|column| {
            let pc = lines::number(field(column), self.base).map_err(at(column))?;
            lines::fits(pc, UNKNOWN_SIZE).map_err(at(column))?;
            Ok::<_, Wrong>(pc)
        });
        let row = Row { what, addr, size, pid, pc: pc.transpose()? };
        Ok(self.placer.put(&row, made)?)
    }
}
