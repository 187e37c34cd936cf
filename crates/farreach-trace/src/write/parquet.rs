//! Tables of Parquet: a row for each reference, for tools that analyse tables.
//!
//! | column | type | |
//! |---|---|---|
//! | `kind` | text | `fetch`, `load`, `store` |
//! | `address` | 64 bits, unsigned | |
//! | `size` | 32 bits, unsigned | bytes |
//! | `space` | 32 bits, unsigned | address space |
//! | `thread` | 32 bits, unsigned | in the whole trace, in the order of the first references |

use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;

use super::{Holds, Sink, Step, Target};
use farreach_types::event::{Access, Kind};

/// For the registry.
pub(super) const TARGET: Target = Target {
    name: "parquet",
    about: "Table of Parquet: a row for each reference, with kind, address, size, address space and thread",
    text: false,
    endings: &[],
    sink: |_| Box::new(Table::new()),
};

const SCHEMA: &str = "message references {
    required binary kind (UTF8);
    required int64 address (INTEGER(64, false));
    required int32 size (INTEGER(32, false));
    required int32 space (INTEGER(32, false));
    required int32 thread (INTEGER(32, false));
}";
/// Rows of a group, which is in memory as a whole.
const GROUP: usize = 1 << 20;

/// Rows that are not written yet.
#[derive(Default)]
struct Rows {
    kind: Vec<Kind>,
    address: Vec<i64>,
    size: Vec<i32>,
    space: Vec<i32>,
    thread: Vec<i32>,
}

struct Table {
    rows: Rows,
    writer: SerializedFileWriter<Vec<u8>>,
    names: [ByteArray; 3],
}

impl Table {
    fn new() -> Table {
        let level = ZstdLevel::try_new(3).expect("a level");
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("farreach {}", env!("CARGO_PKG_VERSION")));
        // Addresses repeat themselves by their distances, not by their values.
        let address = ColumnPath::from("address");
        properties = properties.set_column_dictionary_enabled(address.clone(), false);
        properties = properties.set_column_encoding(address, Encoding::DELTA_BINARY_PACKED);
        let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()));
        let names = ["fetch", "load", "store"].map(ByteArray::from);
        Table { rows: Rows::default(), writer: writer.expect("memory"), names }
    }

    /// Writes the rows as a group.
    fn group(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Table { rows, writer, names } = self;
        let kinds: Vec<_> = rows.kind.iter().map(|&kind| names[kind as usize].clone()).collect();
        let mut group = writer.next_row_group()?;
        column::<ByteArrayType>(&mut group, &kinds)?;
        column::<Int64Type>(&mut group, &rows.address)?;
        column::<Int32Type>(&mut group, &rows.size)?;
        column::<Int32Type>(&mut group, &rows.space)?;
        column::<Int32Type>(&mut group, &rows.thread)?;
        group.close()?;
        writer.flush()?;
        out.append(writer.inner_mut());
        let Rows { kind, address, size, space, thread } = rows;
        kind.clear();
        address.clear();
        [size, space, thread].into_iter().for_each(Vec::clear);
        Ok(())
    }

    fn row(&mut self, step: &Step, access: &Access) {
        let rows = &mut self.rows;
        rows.kind.push(access.kind);
        // The columns are unsigned; the types of values are not.
        rows.address.push(access.addr as i64);
        rows.size.push(access.size as i32);
        rows.space.push(step.asid.0 as i32);
        rows.thread.push(step.thread as i32);
    }
}

/// The next column of a group.
fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: &[T::T]) -> Result<()> {
    let mut column = group.next_column()?.expect("the schema has it");
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

impl Sink for Table {
    fn holds(&self) -> Holds {
        Holds { spaces: true, threads: true, sizes: true, code: false, systems: true }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> std::result::Result<(), String> {
        if let Some(instr) = step.instr {
            self.row(step, &Access { kind: Kind::Fetch, addr: instr.pc, size: instr.len });
        }
        step.data.iter().for_each(|access| self.row(step, access));
        if self.rows.kind.len() >= GROUP {
            self.group(out).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Vec<String> {
        if !self.rows.kind.is_empty() {
            self.group(out).expect("memory");
        }
        self.writer.finish().expect("memory");
        out.append(self.writer.inner_mut());
        Vec::new()
    }
}
