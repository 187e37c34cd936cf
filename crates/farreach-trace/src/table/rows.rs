//! Rows of binary tables with named columns: which column is for what, and the reference that a row is.
//!
//! * Settings are those of text with columns (`address`, `kind`, `size`, `pid`, `instruction`, and the words of kinds),
//!   and a column is named by its name or its number, from 1. Without any, columns are those of the writer: `address`,
//!   `kind`, `size`, `space`.
//! * Numbers are integers, or text as in other tables: hexadecimal with 0x, else decimal. Addresses are taken as 64
//!   bits without sign. Kinds are text, integers (`load=0,store=1`) or truth values (`load=false`).
//! * A row without a value in such a column is an error. So are columns of other types, lists and records.

use super::{Placer, Row, What, words};
use crate::assemble::{Assembled, Assembler, Reader};
use crate::lines::{self, SLACK, UNKNOWN_SIZE, shown};
use crate::settings::{Settings, list};
use farreach_types::error::{Error, Result};
use farreach_types::event::{Kind, MAX_INSTR_BYTES, MAX_REF_BYTES};
use hashbrown::HashMap;

/// What a column is for, in this order.
const ROLES: [&str; 5] = ["address", "kind", "size", "pid", "instruction"];
const ADDRESS: usize = 0;
const KIND: usize = 1;
const SIZE: usize = 2;
const PID: usize = 3;
const INSTRUCTION: usize = 4;
/// The columns of the writer, in the order of roles.
const WRITTEN: [&str; 4] = ["address", "kind", "size", "space"];

/// Something for each role, where a column has it.
pub(super) type ByRole<T> = [Option<T>; 5];

/// Which column of the table has which role, and the words of kinds.
pub(super) struct Columns {
    /// Numbers of columns, from 0.
    pub by_role: ByRole<usize>,
    words: HashMap<Vec<u8>, What>,
}

impl Columns {
    /// Of a table with columns of these names. `check` says why a column cannot have a role, given whether it is that
    /// of kinds.
    pub fn parse(
        settings: &str,
        names: &[String],
        check: impl Fn(usize, bool) -> Result<(), String>,
    ) -> Result<Columns, String> {
        let keys: Vec<&str> = ROLES.into_iter().chain(super::KINDS).collect();
        let settings = Settings::parse(settings, &keys)?;
        let told = ROLES.iter().any(|role| settings.get(role).is_some());
        let mut by_role = [None; 5];
        for (i, role) in ROLES.into_iter().enumerate() {
            let usual = WRITTEN.get(i).filter(|name| !told && names.iter().any(|other| other == *name));
            let Some(named) = settings.get(role).or(usual.copied()) else { continue };
            let by_number = || named.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < names.len());
            let at = names.iter().position(|name| name == named).or_else(by_number);
            let at = at.ok_or_else(|| {
                format!("{role} = {named} is not allowed: allowed are 1 to {}, and {}", names.len(), list(names))
            })?;
            check(at, i == KIND).map_err(|what| format!("{role} = {} is not allowed: {what}", names[at]))?;
            by_role[i] = Some(at);
        }
        if by_role[ADDRESS].is_none() {
            return Err(format!(
                "the column of addresses is not named: say --columns address=NAME; the table has {}",
                list(names)
            ));
        }
        let words = words(&settings, by_role[KIND].is_some())?;
        Ok(Columns { by_role, words })
    }
}

/// A column of rows that were read.
pub(super) trait Cells {
    /// Its name.
    fn name(&self) -> &str;
    /// The number in a row.
    fn number(&self, row: usize) -> Result<u64, String>;
    /// What stands in a row, as the words of kinds say it.
    fn word(&self, row: usize) -> Vec<u8>;
}

/// A number of 64 bits with a sign that is none.
pub(super) fn no_negative(value: i64) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("{value} is not allowed: allowed are numbers from 0 on"))
}

/// Why there are no more rows.
pub(super) enum Fault {
    /// What is wrong with the rows that come.
    Rows(String),
    /// An error that knows its place.
    Placed(Error),
}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault::Rows(what)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Placed(error)
    }
}

/// A table whose rows are read some at a time.
pub(super) trait Rows {
    type Column: Cells;
    /// Reads more rows: their number, 0 at the end.
    fn more(&mut self) -> Result<usize, Fault>;
    /// The columns that have roles, of these rows.
    fn open(&self) -> &ByRole<Self::Column>;
}

/// Makes a stream of rows.
pub(super) struct TableReader<R> {
    file: String,
    rows: R,
    words: HashMap<Vec<u8>, What>,
    /// Rows before those that are read.
    row: u64,
    placer: Placer,
    made: Assembler,
}

impl<R: Rows> TableReader<R> {
    pub fn new(file: String, rows: R, columns: Columns) -> Assembled<TableReader<R>> {
        let words = columns.words;
        Assembled::new(TableReader {
            file,
            rows,
            words,
            row: 0,
            placer: Placer::default(),
            made: Assembler::new(SLACK),
        })
    }

    fn at(&self, row: u64, what: String) -> Error {
        Error::Trace { file: self.file.clone(), place: format!("row {}", row + 1), what }
    }

    /// The reference in one of the rows that were read.
    fn reference(&mut self, at: usize) -> Result<(), String> {
        let columns = self.rows.open();
        let what = match &columns[KIND] {
            None => What::Load,
            Some(column) => {
                let word = column.word(at);
                *self.words.get(&word[..]).ok_or_else(|| {
                    let mut known: Vec<_> = self.words.keys().map(|word| shown(word)).collect();
                    known.sort_unstable();
                    let name = column.name();
                    format!("column {name}: kind '{}' is not known: known are {}", shown(&word), list(&known))
                })?
            }
        };
        let Some(kind) = what.kind() else { return Ok(()) };
        let number = |role: usize| {
            let read =
                |column: &R::Column| column.number(at).map_err(|what| format!("column {}: {what}", column.name()));
            columns[role].as_ref().map(read).transpose()
        };
        let addr = number(ADDRESS)?.expect("it is named");
        let most = if kind == Kind::Fetch { MAX_INSTR_BYTES } else { MAX_REF_BYTES };
        let size = match number(SIZE)? {
            None => UNKNOWN_SIZE,
            Some(size) if (1..=u64::from(most)).contains(&size) => size as u32,
            Some(size) => return Err(format!("size {size} is not allowed: size must be from 1 to {most}")),
        };
        lines::fits(addr, size)?;
        let pc = if kind == Kind::Fetch { None } else { number(INSTRUCTION)? };
        if let Some(pc) = pc {
            lines::fits(pc, UNKNOWN_SIZE)?;
        }
        let row = Row { what, addr, size, pid: number(PID)?, pc };
        self.placer.put(&row, &mut self.made)
    }
}

impl<R: Rows> Reader for TableReader<R> {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        let rows = self.rows.more().map_err(|fault| match fault {
            Fault::Rows(what) => self.at(self.row, what),
            Fault::Placed(error) => error,
        })?;
        for at in 0..rows {
            self.reference(at).map_err(|what| self.at(self.row + at as u64, what))?;
        }
        self.row += rows as u64;
        Ok(rows > 0)
    }

    fn fail(&self, what: String) -> Error {
        self.at(self.row, what)
    }
}
