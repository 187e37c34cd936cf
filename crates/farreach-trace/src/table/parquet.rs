//! Tables of Parquet, with a row for each reference: those that `trace convert --to parquet` writes, and any other
//! whose columns are named. Integers are of 32 or 64 bits; [`super::rows`] says all else.
//!
//! The table is read from its end, so it must be a file, or fit [`MOST_BYTES`] of memory. Pages that the writer gave no
//! checksum can be damaged without anybody knowing: that is the format.

use super::rows::{ByRole, Cells, Columns, Fault, Rows, TableReader, no_negative};
use crate::input::Input;
use crate::lines::{self, Base};
use crate::{Format, Opened};
use ::parquet::basic::{LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;
use farreach_types::error::{Error, Result};
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
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
    let columns = Columns::parse(settings, &names, |at, kinds| check(kinds, &schema.column(at)));
    let columns = columns.map_err(|what| fail("columns", what))?;
    let named = columns.by_role.map(|at| at.map(|at| (at, schema.column(at))));
    let groups = Groups { reader, columns: named, group: 0, left: 0, open: Default::default() };
    Ok(Opened { source: Box::new(TableReader::new(file.clone(), groups, columns)), info })
}

/// Refuses a column of a type that has no such values.
fn check(kinds: bool, column: &ColumnDescPtr) -> Result<(), String> {
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Err("it is part of a list or a record, and no plain column".into());
    }
    match column.physical_type() {
        Type::INT32 | Type::INT64 | Type::BYTE_ARRAY => Ok(()),
        Type::BOOLEAN if kinds => Ok(()),
        other => Err(format!("it is of type {other}; integers and text are")),
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
}

impl Cells for OpenColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn number(&self, row: usize) -> Result<u64, String> {
        match &self.values {
            Values::Bool(..) => unreachable!("it was refused"),
            Values::Int32(_, values, true) => Ok(u64::from(values[row] as u32)),
            Values::Int32(_, values, false) => no_negative(values[row].into()),
            Values::Int64(_, values) => Ok(values[row] as u64),
            Values::Text(_, values) => lines::number(values[row].data(), Base::Auto),
        }
    }

    fn word(&self, row: usize) -> Vec<u8> {
        match &self.values {
            Values::Bool(_, values) => values[row].to_string().into(),
            Values::Int32(_, values, _) => values[row].to_string().into(),
            Values::Int64(_, values) => values[row].to_string().into(),
            Values::Text(_, values) => values[row].data().to_vec(),
        }
    }
}

/// The row groups of a table.
struct Groups {
    reader: Box<dyn FileReader + Send>,
    columns: ByRole<(usize, ColumnDescPtr)>,
    /// The next row group.
    group: usize,
    /// Rows of the open group that are not read yet.
    left: u64,
    open: ByRole<OpenColumn>,
}

impl Groups {
    /// Opens the next row group; false at the end.
    fn next_group(&mut self) -> Result<bool, String> {
        if self.group >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let group = self.reader.get_row_group(self.group).map_err(|e| e.to_string())?;
        let rows = group.metadata().num_rows();
        self.left = u64::try_from(rows).map_err(|_| format!("row group {} claims {rows} rows", self.group))?;
        self.group += 1;
        for (open, named) in self.open.iter_mut().zip(&self.columns) {
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
            *open = Some(OpenColumn { name: column.path().string(), optional, values });
        }
        Ok(true)
    }
}

impl Rows for Groups {
    type Column = OpenColumn;

    fn more(&mut self) -> Result<usize, Fault> {
        while self.left == 0 {
            if !self.next_group()? {
                return Ok(0);
            }
        }
        let rows = self.left.min(ROWS as u64) as usize;
        for column in self.open.iter_mut().flatten() {
            column.fill(rows).map_err(|what| format!("column {}: {what}", column.name))?;
        }
        self.left -= rows as u64;
        Ok(rows)
    }

    fn open(&self) -> &ByRole<OpenColumn> {
        &self.open
    }
}
