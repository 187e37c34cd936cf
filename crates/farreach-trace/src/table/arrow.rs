//! Tables of Arrow IPC with a row for each reference: files (Feather version 2 is the same) and streams, plain or with
//! buffers in lz4 or zstd. [`super::rows`] says which columns are allowed, and what they mean. Integers have any size;
//! a column of a dictionary is one of its values.
//!
//! A file is a stream with a table of contents behind it. It is read from its beginning as well, so that it may come
//! through a pipe; batches must then be as many as the contents say. The end mark is needed, though the format lets a
//! writer of a stream leave it out: without it, nothing tells a whole table from one that is cut. There are no
//! checksums, so damage can change a value without anybody knowing: that is the format.

use super::rows::{ByRole, Cells, Columns, Fault, Rows, TableReader, no_negative};
use crate::input::{self, Input};
use crate::lines::{self, Base};
use crate::{Format, Opened};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Endianness, MessageHeader, RecordBatch, root_as_footer, root_as_message};
use arrow_schema::{DataType, SchemaRef};
use farreach_types::error::{Error, Result};
use farreach_types::plural::with_noun;
use std::collections::HashMap;
use std::sync::Arc;

/// For the registry.
pub(crate) const FORMAT: Format = Format {
    name: "arrow",
    about: "table of Arrow IPC (file, stream, Feather) with a row for each reference; --columns as for parquet",
    lacks: "mappings, threads; sizes, kinds, processes and instructions, unless columns have them",
    settings: "address=COLUMN, and more",
    detect,
    open,
};

/// What a file begins with, filled up to 8 bytes or more, and ends with.
const MAGIC: &[u8] = b"ARROW1";
/// Most bytes before the first message of a file.
const MOST_FILLED: u64 = 64;
const MARK: [u8; 4] = [0xff; 4];
/// Bytes of a message that are asked for together: what it claims to have may not be there.
const PIECE: usize = 1 << 18;
/// Most bytes of the description of a message.
const MOST_METADATA: usize = 1 << 28;
/// Most bytes of a compressed buffer.
const MOST_BYTES: i64 = 1 << 30;
/// Rows that are taken together.
const ROWS: usize = 1 << 12;

/// Whether these bytes begin such a table: a file, or a stream, whose first message is a description of some hundred
/// bytes with a table of its own at a small distance.
pub(super) fn detect(head: &[u8]) -> bool {
    let word = |at: usize| head.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    let is_message =
        |length: u32, root: u32| length.is_multiple_of(8) && (16..1 << 24).contains(&length) && root < length;
    head.starts_with(b"ARROW1\0\0")
        || (head.starts_with(&MARK) && matches!((word(4), word(8)), (Some(l), Some(root)) if is_message(l, root)))
}

pub(super) fn open(input: Input, settings: &str) -> Result<Opened> {
    let info = input.info(FORMAT.name);
    let file = input.file.clone();
    let is_file = input.head().starts_with(MAGIC);
    let mut messages = Messages { bytes: input.into_bytes(), at: 0, ahead: Vec::new() };
    if is_file {
        messages.exact(8)?;
        messages.skip_filling()?;
    }
    let began = messages.at;
    let fail = |place: String, what: String| Error::Trace { file: file.clone(), place, what };
    let (metadata, _) = messages.next()?.ok_or_else(|| messages.error(began, "the table ends before its columns"))?;
    let schema = root_as_message(&metadata).map_err(|e| messages.error(began, e))?.header_as_schema();
    let schema = schema.ok_or_else(|| messages.error(began, "the table does not begin with its columns"))?;
    if schema.endianness() == Endianness::Big {
        return Err(messages.error(began, "the table is of a machine with big-endian numbers, which are not read"));
    }
    let schema: SchemaRef = Arc::new(try_fb_to_schema(schema).map_err(|e| messages.error(began, e))?);
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let columns = Columns::parse(settings, &names, |at, kinds| check(kinds, schema.field(at).data_type()));
    let columns = columns.map_err(|what| fail("columns".into(), what))?;
    let mut projection: Vec<usize> = columns.by_role.iter().flatten().copied().collect();
    projection.sort_unstable();
    projection.dedup();
    let batches = Batches {
        messages,
        is_file,
        schema,
        by_role: columns.by_role,
        projection,
        dictionaries: HashMap::new(),
        batches: 0,
        arrays: Vec::new(),
        rows: 0..0,
        open: Default::default(),
    };
    Ok(Opened { source: Box::new(TableReader::new(file.clone(), batches, columns)), info })
}

/// Refuses a column of a type that has no such values.
fn check(kinds: bool, data_type: &DataType) -> std::result::Result<(), String> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(()),
        DataType::Boolean if kinds => Ok(()),
        DataType::Dictionary(_, values) => check(kinds, values),
        integer if integer.is_integer() => Ok(()),
        other => Err(format!("it is of type {other}; integers and text are")),
    }
}

/// The messages of a stream.
struct Messages {
    bytes: input::Bytes,
    /// Bytes that were taken.
    at: u64,
    /// The next bytes, if they have been read already.
    ahead: Vec<u8>,
}

impl Messages {
    fn error(&self, at: u64, what: impl ToString) -> Error {
        Error::Trace { file: self.bytes.file.clone(), place: format!("byte {at}"), what: what.to_string() }
    }

    /// Up to this number of bytes: fewer only at the end.
    fn some(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let rest = self.ahead.split_off(bytes.min(self.ahead.len()));
        let mut all = std::mem::replace(&mut self.ahead, rest);
        self.at += all.len() as u64;
        while all.len() < bytes {
            let from = all.len();
            all.resize(bytes.min(from + PIECE), 0);
            let at = self.at;
            let got = self.bytes.fill(&mut all[from..], |got| format!("byte {}", at + got as u64))?;
            self.at += got as u64;
            if got < all.len() - from {
                all.truncate(from + got);
                break;
            }
        }
        Ok(all)
    }

    fn exact(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let began = self.at;
        let all = self.some(bytes)?;
        if all.len() == bytes {
            return Ok(all);
        }
        Err(self.error(began, format!("{bytes} bytes are due and {} are there: the table is cut", all.len())))
    }

    /// Passes over what a writer of a file fills up with zeros to the next multiple of 16, 32 or 64 bytes.
    fn skip_filling(&mut self) -> Result<()> {
        while self.at < MOST_FILLED {
            let word = self.exact(8)?;
            if word != [0; 8] {
                self.ahead = word;
                self.at -= 8;
                break;
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<[u8; 4]> {
        Ok(self.exact(4)?.try_into().expect("4 bytes"))
    }

    /// The next message: its description and its body; nothing at the end mark.
    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let began = self.at;
        let mark = self.word()?;
        if mark != MARK {
            let what = format!("a message begins with ff ff ff ff, and here is {mark:02x?}");
            return Err(self.error(began, what + "; a table of Arrow before 0.15 must be written anew"));
        }
        let length = i32::from_le_bytes(self.word()?);
        let length = match usize::try_from(length) {
            Ok(0) => return Ok(None),
            Ok(length) if length <= MOST_METADATA => length,
            _ => return Err(self.error(began, format!("the description of a message claims {length} bytes"))),
        };
        let metadata = self.exact(length)?;
        let claimed = root_as_message(&metadata).map_err(|e| self.error(began, e))?.bodyLength();
        let length =
            usize::try_from(claimed).map_err(|_| self.error(began, format!("a body claims {claimed} bytes")))?;
        Ok(Some((metadata, self.exact(length)?)))
    }

    /// What stands behind the end mark of a file: its contents, their length and the magic word. Returns the number of
    /// batches that it claims.
    fn contents(&mut self) -> Result<usize> {
        let began = self.at;
        let rest = self.some(MOST_METADATA)?;
        let whole = rest.strip_suffix(MAGIC).and_then(|rest| rest.split_last_chunk::<4>());
        let whole = whole.filter(|(contents, length)| i32::from_le_bytes(**length) as usize == contents.len());
        let (contents, _) = whole.ok_or_else(|| self.error(began, "the table of contents is damaged or cut"))?;
        let footer = root_as_footer(contents).map_err(|e| self.error(began, e))?;
        Ok(footer.recordBatches().map_or(0, |batches| batches.len()))
    }
}

/// Refuses buffers outside the body, and those that claim more bytes than a buffer may have: the library takes them on
/// trust.
fn fits(batch: &RecordBatch<'_>, body: &[u8]) -> std::result::Result<(), String> {
    let nodes = batch.nodes().into_iter().flatten();
    let counts = nodes.flat_map(|node| [node.length(), node.null_count()]).chain([batch.length()]);
    if let Some(count) = counts.into_iter().find(|count| !(0..=i64::from(i32::MAX)).contains(count)) {
        return Err(format!("a batch claims {count} rows"));
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(from, length)| body.get(from..from.checked_add(length)?));
        let bytes = bytes.ok_or_else(|| {
            let (from, length) = (buffer.offset(), buffer.length());
            format!("a buffer of {length} bytes at {from} lies outside its message of {}", body.len())
        })?;
        if batch.compression().is_some() && !bytes.is_empty() {
            let claimed = bytes.first_chunk().map(|length| i64::from_le_bytes(*length));
            let claimed = claimed.ok_or("a compressed buffer has fewer than 8 bytes")?;
            if !(-1..=MOST_BYTES).contains(&claimed) {
                return Err(format!("a compressed buffer claims {claimed} bytes: allowed are {MOST_BYTES}"));
            }
        }
    }
    Ok(())
}

/// A column of the rows that were taken.
struct OpenColumn {
    name: String,
    array: ArrayRef,
    /// The first of the rows.
    from: usize,
}

/// The number in a row of a column.
fn number(array: &dyn Array, row: usize) -> std::result::Result<u64, String> {
    macro_rules! value {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row).into()
        };
    }
    match array.data_type() {
        DataType::UInt8 => Ok(value!(UInt8Type)),
        DataType::UInt16 => Ok(value!(UInt16Type)),
        DataType::UInt32 => Ok(value!(UInt32Type)),
        DataType::UInt64 => Ok(value!(UInt64Type)),
        DataType::Int8 => no_negative(value!(Int8Type)),
        DataType::Int16 => no_negative(value!(Int16Type)),
        DataType::Int32 => no_negative(value!(Int32Type)),
        DataType::Int64 => Ok(array.as_primitive::<Int64Type>().value(row) as u64),
        DataType::Dictionary(..) => in_dictionary(array, row).and_then(|(values, row)| number(values, row)),
        _ => lines::number(text(array, row).as_bytes(), Base::Auto),
    }
}

/// The text in a row of a column of text.
fn text(array: &dyn Array, row: usize) -> &str {
    match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        _ => array.as_string::<i32>().value(row),
    }
}

/// Where the value of a row is among those of its dictionary.
fn in_dictionary(array: &dyn Array, row: usize) -> std::result::Result<(&dyn Array, usize), String> {
    let dictionary = array.as_any_dictionary();
    let key = number(dictionary.keys(), row)? as usize;
    let values = dictionary.values();
    if key >= values.len() {
        return Err(format!(
            "its dictionary has {}, and value {key} is named",
            with_noun(values.len() as u64, "value")
        ));
    }
    Ok((values, key))
}

/// What stands in a row of a column, as the words of kinds say it.
fn word(array: &dyn Array, row: usize) -> String {
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Dictionary(..) => {
            in_dictionary(array, row).map_or_else(|what| what, |(values, row)| word(values, row))
        }
        unsigned if unsigned.is_integer() => number(array, row).map_or_else(|what| what, |n| n.to_string()),
        _ => text(array, row).to_owned(),
    }
}

impl Cells for OpenColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn number(&self, row: usize) -> std::result::Result<u64, String> {
        number(&self.array, self.from + row)
    }

    fn word(&self, row: usize) -> Vec<u8> {
        word(&self.array, self.from + row).into()
    }
}

/// The batches of a table.
struct Batches {
    messages: Messages,
    is_file: bool,
    schema: SchemaRef,
    by_role: ByRole<usize>,
    /// The columns that are read, ascending.
    projection: Vec<usize>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Batches that were read.
    batches: usize,
    /// Those columns, of the batch that is read.
    arrays: Vec<ArrayRef>,
    /// Its rows that were not taken yet.
    rows: std::ops::Range<usize>,
    open: ByRole<OpenColumn>,
}

impl Batches {
    /// Reads the next batch; false at the end.
    fn next(&mut self) -> Result<bool, Fault> {
        let began = self.messages.at;
        let Some((metadata, body)) = self.messages.next()? else {
            if self.is_file {
                let (claimed, read) = (self.messages.contents()?, self.batches);
                if claimed != read {
                    return Err(self
                        .messages
                        .error(began, format!("{read} batches, the contents name {claimed}"))
                        .into());
                }
            } else if !self.messages.some(1)?.is_empty() {
                return Err(self.messages.error(began, "something stands behind the end mark").into());
            }
            return Ok(false);
        };
        let fail = |what: String| Fault::from(self.messages.error(began, what));
        let message = root_as_message(&metadata).map_err(|e| fail(e.to_string()))?;
        let version = message.version();
        let body_of = |body: Vec<u8>, batch: RecordBatch<'_>| fits(&batch, &body).map(|()| Buffer::from_vec(body));
        match message.header_type() {
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(|| fail("no dictionary".into()))?;
                let data = batch.data().ok_or_else(|| fail("a dictionary without values".into()))?;
                let body = body_of(body, data).map_err(fail)?;
                read_dictionary(&body, batch, &self.schema, &mut self.dictionaries, &version)
                    .map_err(|e| self.messages.error(began, e))?;
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(|| fail("no batch".into()))?;
                let body = body_of(body, batch).map_err(fail)?;
                let (schema, projection) = (self.schema.clone(), Some(&self.projection[..]));
                let read = read_record_batch(&body, batch, schema, &self.dictionaries, projection, &version);
                let read = read.map_err(|e| fail(e.to_string()))?;
                self.arrays = read.columns().to_vec();
                self.rows = 0..read.num_rows();
                self.batches += 1;
            }
            other => return Err(fail(format!("a message is allowed that is a batch or a dictionary, not {other:?}"))),
        }
        Ok(true)
    }
}

impl Rows for Batches {
    type Column = OpenColumn;

    fn more(&mut self) -> Result<usize, Fault> {
        while self.rows.is_empty() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let (from, rows) = (self.rows.start, self.rows.len().min(ROWS));
        self.rows.start += rows;
        for (open, at) in self.open.iter_mut().zip(&self.by_role) {
            let Some(at) = at else { continue };
            let array = &self.arrays[self.projection.binary_search(at).expect("it is read")];
            let name = self.schema.field(*at).name().clone();
            if array.slice(from, rows).logical_null_count() > 0 {
                return Err(format!("column {name}: a row has no value in it").into());
            }
            *open = Some(OpenColumn { name, array: array.clone(), from });
        }
        Ok(rows)
    }

    fn open(&self) -> &ByRole<OpenColumn> {
        &self.open
    }
}
