//! Tables of Parquet, read by the reader of the library that wrote them: every row as it is.

use std::io::Write;

use super::{Given, golden, program, references, written};
use farreach_types::event::{Batch, Kind};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// Kind, address, size, address space, thread.
type Row = (String, u64, u32, u32, u32);

fn rows(batches: &[Batch]) -> Vec<Row> {
    let (bytes, said) = written(batches, "parquet").expect("good");
    assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    let mut file = tempfile::tempfile().expect("room");
    file.write_all(&bytes).expect("room");
    let reader = SerializedFileReader::new(file).expect("a table");
    let names: Vec<_> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
    assert_eq!(names, ["kind", "address", "size", "space", "thread"]);
    assert_eq!(reader.metadata().file_metadata().num_rows() as u64, said.references());
    let row =
        |row: parquet::record::Row| match <[(String, Field); 5]>::try_from(row.into_columns()).expect("five columns") {
            [
                (_, Field::Str(kind)),
                (_, Field::ULong(address)),
                (_, Field::UInt(size)),
                (_, Field::UInt(space)),
                (_, Field::UInt(thread)),
            ] => (kind, address, size, space, thread),
            other => panic!("columns of other types: {other:?}"),
        };
    reader.get_row_iter(None).expect("rows").map(|r| row(r.expect("a row"))).collect()
}

#[test]
fn golden_rows() {
    let all = rows(&golden());
    let row = |kind: &str, address, size, space, thread| (kind.to_owned(), address, size, space, thread);
    assert_eq!(all.len(), 33);
    assert_eq!(all[0], row("fetch", 0x1000, 3, 0, 0));
    assert_eq!(all[1], row("load", 0x7000, 8, 0, 0));
    assert_eq!(all[3], row("store", 0x7ffe_fff8, 8, 0, 0));
    assert_eq!(all[29], row("load", 0x6ffe, 8, 0, 1));
    assert_eq!(all[30], row("fetch", 0x1000, 2, 1, 2));
    assert_eq!(all[32], row("fetch", 0x102d, 1, 0, 0));
}

#[test]
fn every_reference_is_a_row() {
    let batches = program(1);
    let expected: Vec<_> = references(Given(batches.clone().into_iter()))
        .into_iter()
        .map(|(space, _, kind, address, size)| {
            let kind = match kind {
                Kind::Fetch => "fetch",
                Kind::Load => "load",
                Kind::Store => "store",
            };
            (kind.to_owned(), address, size, space)
        })
        .collect();
    let rows: Vec<_> = rows(&batches).into_iter().map(|r| (r.0, r.1, r.2, r.3)).collect();
    assert!(rows == expected);
}
