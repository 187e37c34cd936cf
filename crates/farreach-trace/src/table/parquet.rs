//! Tables of Parquet, with a row for each reference: those that `trace convert --to parquet` writes, and any other
//! whose columns are named.
//!
//! * Settings are those of text with columns (`address`, `kind`, `size`, `pid`, `instruction`, and the words of kinds),
//!   and a column is named by its name or its number, from 1. Without any, columns are those of the writer: `address`,
//!   `kind`, `size`, `space`.
//! * Numbers are integers of 32 or 64 bits, or text as in other tables: hexadecimal with 0x, else decimal. Addresses
//!   are taken as 64 bits without sign. Kinds are text, integers (`load=0,store=1`) or truth values (`load=false`).
//! * A row without a value in such a column is an error. So are columns of other types, lists and records.
//!
//! The table is read from its end, so it must be a file, or fit [`MOST_BYTES`] of memory. Pages that the writer gave no
//! checksum can be damaged without anybody knowing: that is the format.

use super::{Placer, Row, What, words};
use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::Input;
use crate::lines::{self, Base, SLACK, UNKNOWN_SIZE, shown};
use crate::settings::{Settings, list};
use crate::{Format, Opened};
use ::parquet::basic::{LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Kind, MAX_INSTR_BYTES, MAX_REF_BYTES};
use hashbrown::HashMap;
use std::fs::File;

/// For the registry.
pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    about: "table of Parquet with a row for each reference; --columns says which column is what",
    lacks: "mappings, threads; sizes, kinds, processes and instructions, unless columns have them",
    settings: "address=COLUMN, and more",
    detect,
    open,
};

/// Most bytes of a table that comes through a pipe, or compressed as a whole.
const MOST_BYTES: usize = 1 << 30;
/// Bytes of it that are read together.
const PIECE: usize = 1 << 20;
/// Rows that are read together.
const ROWS: usize = 1 << 12;

/// Whether these bytes begin such a table.
pub(super) fn detect(head: &[u8]) -> bool {
    head.starts_with(b"PAR1")
}

pub(super) fn open(input: Input, settings: &str) -> Result<Opened> {
    let info = input.info(FORMAT.name);
    let file = input.file.clone();
    let fail = |place: &str, what: String| Error::Trace { file: file.clone(), place: place.into(), what };
    let damaged = |e: ::parquet::errors::ParquetError| fail("end of the table", e.to_string());
    let reader: Box<dyn FileReader + Send> = if input.bytes.is_some() && input.compression.is_none() {
        let opened = File::open(&input.file).map_err(|source| Error::Io { file: input.file.clone(), source })?;
        Box::new(SerializedFileReader::new(opened).map_err(damaged)?)
    } else {
        let (mut bytes, mut all) = (input.into_bytes(), Vec::new());
        loop {
            let from = all.len();
            all.resize(from + PIECE, 0);
            let got = bytes.fill(&mut all[from..], |got| format!("byte {}", from + got))?;
            all.truncate(from + got);
            if got == 0 {
                break;
            }
            if all.len() > MOST_BYTES {
                let what = format!("the table has more than {MOST_BYTES} bytes, and is read from its end: name a file");
                return Err(fail("byte 0", what));
            }
        }
        Box::new(SerializedFileReader::new(Bytes::from(all)).map_err(damaged)?)
    };
    let columns = Columns::parse(settings, reader.as_ref()).map_err(|what| fail("columns", what))?;
    let source = Assembled::new(TableReader {
        file,
        reader,
        columns,
        group: 0,
        row: 0,
        left: 0,
        open: Vec::new(),
        placer: Placer::default(),
        made: Assembler::new(SLACK),
    });
    Ok(Opened { source: Box::new(source), info })
}

/// What a column is for, in this order.
const ROLES: [&str; 5] = ["address", "kind", "size", "pid", "instruction"];
const ADDRESS: usize = 0;
const KIND: usize = 1;
const SIZE: usize = 2;
const PID: usize = 3;
const INSTRUCTION: usize = 4;
/// The columns of the writer, in the order of roles.
const WRITTEN: [&str; 4] = ["address", "kind", "size", "space"];

/// Which column of the table has which role, and the words of kinds.
struct Columns {
    by_role: [Option<(usize, ColumnDescPtr)>; 5],
    words: HashMap<Vec<u8>, What>,
}

impl Columns {
    fn parse(settings: &str, reader: &dyn FileReader) -> Result<Columns, String> {
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let keys: Vec<&str> = ROLES.into_iter().chain(super::KINDS).collect();
        let settings = Settings::parse(settings, &keys)?;
        let told = ROLES.iter().any(|role| settings.get(role).is_some());
        let mut by_role: [Option<(usize, ColumnDescPtr)>; 5] = Default::default();
        for (i, role) in ROLES.into_iter().enumerate() {
            let usual = WRITTEN.get(i).filter(|name| !told && names.iter().any(|other| other == *name));
            let Some(named) = settings.get(role).or(usual.copied()) else { continue };
            let by_number = || named.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < names.len());
            let at = names.iter().position(|name| name == named).or_else(by_number);
            let at = at.ok_or_else(|| {
                format!("{role} = {named} is not allowed: allowed are 1 to {}, and {}", names.len(), list(&names))
            })?;
            let column = schema.column(at);
            check(role, i == KIND, &column)?;
            by_role[i] = Some((at, column));
        }
        if by_role[ADDRESS].is_none() {
            return Err(format!(
                "the column of addresses is not named: say --columns address=NAME; the table has {}",
                list(&names)
            ));
        }
        let words = words(&settings, by_role[KIND].is_some())?;
        Ok(Columns { by_role, words })
    }
}

/// Refuses a column of a type that has no such values.
fn check(role: &str, kinds: bool, column: &ColumnDescPtr) -> Result<(), String> {
    let name = column.path().string();
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Err(format!("{role} = {name} is not allowed: it is part of a list or a record, and no plain column"));
    }
    match column.physical_type() {
        Type::INT32 | Type::INT64 | Type::BYTE_ARRAY => Ok(()),
        Type::BOOLEAN if kinds => Ok(()),
        other => Err(format!("{role} = {name} is not allowed: it is of type {other}; integers and text are")),
    }
}

/// Values of a column.
enum Values {
    Bool(ColumnReaderImpl<BoolType>, Vec<bool>),
    Int32(ColumnReaderImpl<Int32Type>, Vec<i32>, bool),
    Int64(ColumnReaderImpl<Int64Type>, Vec<i64>),
    Text(ColumnReaderImpl<ByteArrayType>, Vec<::parquet::data_type::ByteArray>),
}

/// A column of the row group that is read.
struct OpenColumn {
    role: usize,
    name: String,
    optional: bool,
    values: Values,
}

/// Reads rows; all of them have a value.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    into: &mut Vec<T::T>,
    rows: usize,
    optional: bool,
) -> Result<(), String> {
    into.clear();
    let (mut read, mut levels) = (0, Vec::new());
    while read < rows {
        levels.clear();
        let (records, values, _) =
            reader.read_records(rows - read, optional.then_some(&mut levels), None, into).map_err(|e| e.to_string())?;
        if values < records {
            return Err("a row has no value in it".into());
        }
        if records == 0 {
            return Err("it has fewer rows than the table".into());
        }
        read += records;
    }
    Ok(())
}

impl OpenColumn {
    fn fill(&mut self, rows: usize) -> Result<(), String> {
        let optional = self.optional;
        match &mut self.values {
            Values::Bool(reader, into) => fill(reader, into, rows, optional),
            Values::Int32(reader, into, _) => fill(reader, into, rows, optional),
            Values::Int64(reader, into) => fill(reader, into, rows, optional),
            Values::Text(reader, into) => fill(reader, into, rows, optional),
        }
    }

    /// The number in a row.
    fn number(&self, row: usize) -> Result<u64, String> {
        match &self.values {
            Values::Bool(..) => unreachable!("it was refused"),
            Values::Int32(_, values, unsigned) => match values[row] {
                value if value >= 0 || *unsigned => Ok(u64::from(value as u32)),
                value => Err(format!("{value} is not allowed: allowed are numbers from 0 on")),
            },
            Values::Int64(_, values) => Ok(values[row] as u64),
            Values::Text(_, values) => lines::number(values[row].data(), Base::Auto),
        }
    }

    /// What stands in a row, as the words of kinds say it.
    fn word(&self, row: usize) -> Vec<u8> {
        match &self.values {
            Values::Bool(_, values) => values[row].to_string().into(),
            Values::Int32(_, values, _) => values[row].to_string().into(),
            Values::Int64(_, values) => values[row].to_string().into(),
            Values::Text(_, values) => values[row].data().to_vec(),
        }
    }
}

struct TableReader {
    file: String,
    reader: Box<dyn FileReader + Send>,
    columns: Columns,
    /// The next row group.
    group: usize,
    /// Rows before those that are read.
    row: u64,
    /// Rows of the open group that are not read yet.
    left: u64,
    open: Vec<OpenColumn>,
    placer: Placer,
    made: Assembler,
}

impl TableReader {
    /// Opens the next row group; false at the end.
    fn next_group(&mut self) -> Result<bool, String> {
        if self.group >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let group = self.reader.get_row_group(self.group).map_err(|e| e.to_string())?;
        let rows = group.metadata().num_rows();
        self.left = u64::try_from(rows).map_err(|_| format!("row group {} claims {rows} rows", self.group))?;
        self.group += 1;
        self.open.clear();
        for (role, named) in self.columns.by_role.iter().enumerate() {
            let Some((at, column)) = named else { continue };
            let unsigned = matches!(column.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed);
            let values = match group.get_column_reader(*at).map_err(|e| e.to_string())? {
                ColumnReader::BoolColumnReader(reader) => Values::Bool(reader, Vec::new()),
                ColumnReader::Int32ColumnReader(reader) => Values::Int32(reader, Vec::new(), unsigned),
                ColumnReader::Int64ColumnReader(reader) => Values::Int64(reader, Vec::new()),
                ColumnReader::ByteArrayColumnReader(reader) => Values::Text(reader, Vec::new()),
                _ => return Err(format!("column {} is of another type than the table says", column.path())),
            };
            let optional = column.max_def_level() > 0;
            self.open.push(OpenColumn { role, name: column.path().string(), optional, values });
        }
        Ok(true)
    }

    /// Takes some rows; false at the end.
    fn rows(&mut self) -> Result<bool, (u64, String)> {
        let row = self.row;
        while self.left == 0 {
            if !self.next_group().map_err(|what| (row, what))? {
                return Ok(false);
            }
        }
        let rows = self.left.min(ROWS as u64) as usize;
        for column in &mut self.open {
            column.fill(rows).map_err(|what| (row, format!("column {}: {what}", column.name)))?;
        }
        for at in 0..rows {
            self.reference(at).map_err(|what| (row + at as u64, what))?;
        }
        self.row += rows as u64;
        self.left -= rows as u64;
        Ok(true)
    }

    /// The reference in one of the rows that were read.
    fn reference(&mut self, at: usize) -> Result<(), String> {
        let column = |role| self.open.iter().find(|column| column.role == role);
        let what = match column(KIND) {
            None => What::Load,
            Some(column) => {
                let word = column.word(at);
                *self.columns.words.get(&word[..]).ok_or_else(|| {
                    let mut known: Vec<_> = self.columns.words.keys().map(|word| shown(word)).collect();
                    known.sort_unstable();
                    let name = &column.name;
                    format!("column {name}: kind '{}' is not known: known are {}", shown(&word), list(&known))
                })?
            }
        };
        let Some(kind) = what.kind() else { return Ok(()) };
        let number = |role: usize| {
            let named = column(role);
            let read =
                |column: &OpenColumn| column.number(at).map_err(|what| format!("column {}: {what}", column.name));
            named.map(read).transpose()
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

impl Reader for TableReader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        self.rows().map_err(|(row, what)| self.at(row, what))
    }

    fn fail(&self, what: String) -> Error {
        self.at(self.row, what)
    }
}

impl TableReader {
    fn at(&self, row: u64, what: String) -> Error {
        Error::Trace { file: self.file.clone(), place: format!("row {}", row + 1), what }
    }
}
