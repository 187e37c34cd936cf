//! Are tables of Arrow IPC read as their columns say, whatever wrote them, and is anything else refused with its place?

use crate::texts::{Ref, checked, damaged, found, read};
use crate::writers::{Given, program, references};
use arrow_array::types::{Int8Type, UInt16Type};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray,
    RecordBatch, StringArray, StringViewArray, StructArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use farreach_types::event::Kind::{Fetch, Load, Store};
use std::sync::Arc;

type Columns = Vec<(&'static str, ArrayRef)>;

/// What writes a table.
#[derive(Clone, Copy, Debug)]
struct Form {
    is_file: bool,
    compression: Option<CompressionType>,
    /// Rows of a batch.
    rows: usize,
}

const FORMS: [Form; 5] = [
    Form { is_file: true, compression: None, rows: 2 },
    Form { is_file: false, compression: None, rows: 3 },
    Form { is_file: true, compression: Some(CompressionType::ZSTD), rows: 1000 },
    Form { is_file: false, compression: Some(CompressionType::LZ4_FRAME), rows: 100 },
    Form { is_file: true, compression: Some(CompressionType::LZ4_FRAME), rows: 7 },
];

fn table(columns: Columns, form: Form) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
    let batch = batch.expect("columns of one length");
    let options = IpcWriteOptions::default().try_with_compression(form.compression).expect("it is known");
    let parts = (0..batch.num_rows()).step_by(form.rows);
    let parts = parts.map(|from| batch.slice(from, form.rows.min(batch.num_rows() - from)));
    let mut out = Vec::new();
    if form.is_file {
        let mut writer = FileWriter::try_new_with_options(&mut out, &batch.schema(), options).expect("memory");
        parts.for_each(|part| writer.write(&part).expect("memory"));
        writer.finish().expect("memory");
    } else {
        let mut writer = StreamWriter::try_new_with_options(&mut out, &batch.schema(), options).expect("memory");
        parts.for_each(|part| writer.write(&part).expect("memory"));
        writer.finish().expect("memory");
    }
    out
}

/// The beginning of a random program in the columns that `trace convert --to parquet` writes.
fn made(seed: u64, form: Form, most: usize) -> (Vec<u8>, Vec<Ref>) {
    let refs: Vec<Ref> = references(Given(program(seed).into_iter()))
        .into_iter()
        .take(most)
        .map(|(space, _, kind, address, size)| (space, kind, address, size))
        .collect();
    let words: Vec<&str> = refs
        .iter()
        .map(|r| match r.1 {
            Load => "load",
            Store => "store",
            Fetch => "fetch",
        })
        .collect();
    let columns: Columns = vec![
        ("kind", Arc::new(words.into_iter().collect::<DictionaryArray<Int8Type>>())),
        ("address", Arc::new(UInt64Array::from_iter_values(refs.iter().map(|r| r.2)))),
        ("size", Arc::new(UInt32Array::from_iter_values(refs.iter().map(|r| r.3)))),
        ("space", Arc::new(UInt16Array::from_iter_values(refs.iter().map(|r| r.0 as u16)))),
    ];
    (table(columns, Form { rows: 50 * form.rows, ..form }), refs)
}

/// The golden table of the fuzzer's corpus.
pub fn golden() -> [Vec<u8>; 2] {
    [FORMS[0], FORMS[3]].map(|form| table(columns(), form))
}

fn columns() -> Columns {
    let parts =
        (Arc::new(Field::new("x", DataType::Int64, true)), Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef);
    vec![
        ("addr", Arc::new(Int64Array::from(vec![0x1000, -4096, 0x7fff_0000_0000]))),
        ("record", Arc::new(StructArray::from(vec![parts]))),
        ("bytes", Arc::new(Int8Array::from(vec![8, 4, 1]))),
        ("is_write", Arc::new(BooleanArray::from(vec![false, true, false]))),
        ("op", Arc::new(StringArray::from(vec!["R", "W", "I"]))),
        ("when", Arc::new(Float64Array::from(vec![0.0, 0.5, 1.0]))),
        ("view", Arc::new(StringViewArray::from(vec!["0x10", "0x7fff00000000", "17"]))),
        ("large", Arc::new(LargeStringArray::from(vec!["R", "W", "a text of more than twelve bytes"]))),
    ]
}

#[test]
fn every_form_is_read_as_it_was_written() {
    for (seed, form) in (0..).zip(FORMS) {
        let (file, refs) = made(seed, form, usize::MAX);
        let (format, back) = found(&file).expect("a whole table");
        assert_eq!(format, "arrow");
        // Address spaces get numbers in the order in which they appear.
        let mut spaces: Vec<u32> = Vec::new();
        let renamed: Vec<Ref> = refs
            .iter()
            .map(|r| {
                let at = spaces.iter().position(|space| *space == r.0).unwrap_or(spaces.len());
                if at == spaces.len() {
                    spaces.push(r.0);
                }
                (at as u32, r.1, r.2, r.3)
            })
            .collect();
        assert_eq!(back, renamed, "{form:?}");
        assert_eq!(read(&file, "text:address=address,kind=kind,size=size,pid=space").expect("whole"), back);
        assert_eq!(read(&file, "arrow:address=2,kind=1,size=3,pid=4").expect("whole"), back);
    }
}

#[test]
fn columns_are_what_the_user_says() {
    let high = 0u64.wrapping_sub(4096);
    for form in FORMS {
        let file = table(columns(), form);
        let by_text = read(&file, "text:address=addr,kind=op,size=bytes").expect("good");
        assert_eq!(by_text, [(0, Load, 0x1000, 8), (0, Store, high, 4), (0, Fetch, 0x7fff_0000_0000, 1)], "{form:?}");
        let by_truth = read(&file, "text:address=1,kind=is_write,load=false,store=true").expect("good");
        assert_eq!(by_truth, [(0, Load, 0x1000, 1), (0, Store, high, 1), (0, Load, 0x7fff_0000_0000, 1)]);
        let by_number = read(&file, "text:address=addr,kind=bytes,load=8|4,skip=1,pid=bytes").expect("good");
        assert_eq!(by_number, [(0, Load, 0x1000, 1), (1, Load, high, 1)]);
        let of_text = read(&file, "text:address=view,kind=large,load=R,store=W,skip=a text of more than twelve bytes");
        assert_eq!(of_text.expect("good"), [(0, Load, 16, 1), (0, Store, 0x7fff_0000_0000, 1)]);
    }
    // A dictionary of numbers, and one whose values are those of a later batch, too.
    let keys = UInt16Array::from(vec![2, 0, 2]);
    let values = Arc::new(UInt64Array::from(vec![0x1000, 0x2000, 0x3000]));
    let addresses = DictionaryArray::<UInt16Type>::try_new(keys, values).expect("keys of values");
    let file = table(vec![("a", Arc::new(addresses))], FORMS[1]);
    assert_eq!(
        read(&file, "text:address=a").expect("good"),
        [(0, Load, 0x3000, 1), (0, Load, 0x1000, 1), (0, Load, 0x3000, 1)]
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let file = table(columns(), FORMS[0]);
    for (settings, expected) in [
        ("", "columns: the column of addresses is not named: say --columns address=NAME; the table has addr, record"),
        ("address=adr", "address = adr is not allowed: allowed are 1 to 8, and addr, record"),
        ("address=9", "address = 9 is not allowed"),
        ("address=addr,size=when", "size = when is not allowed: it is of type Float64; integers and text are"),
        ("address=is_write", "address = is_write is not allowed: it is of type Boolean"),
        ("address=record", "address = record is not allowed: it is of type Struct"),
        ("address=addr,separator=comma", "separator"),
        ("address=addr,load=R", "no column of kinds"),
        ("address=addr,kind=op,load=R,store=W", "row 3: column op: kind 'I' is not known: known are R"),
        ("address=addr,size=addr", "row 2: size 18446744073709547520 is not allowed"),
    ] {
        let spec = format!("arrow{}{settings}", if settings.is_empty() { "" } else { ":" });
        let e = read(&file, &spec).expect_err(settings);
        assert!(e.contains(expected), "{settings}: {e}");
    }
    let with = |array: ArrayRef| {
        let mut columns = columns();
        columns[2].1 = array;
        read(table(columns, FORMS[0]), "text:address=addr,kind=op,size=bytes").expect_err("wrong")
    };
    let null = with(Arc::new(Int32Array::from(vec![Some(8), Some(4), None])));
    assert!(null.contains("row 3: column bytes: a row has no value in it"), "{null}");
    let negative = with(Arc::new(Int8Array::from(vec![8, 4, -1])));
    assert!(negative.contains("row 3: column bytes: -1 is not allowed"), "{negative}");
    let empty = table(vec![("address", Arc::new(UInt64Array::from(Vec::<u64>::new())))], FORMS[0]);
    assert!(read(empty, "arrow").expect_err("nothing").contains("has no references"));
    let more = [&table(columns(), FORMS[1])[..], b"x"].concat();
    assert!(read(more, "arrow:address=addr").expect_err("more").contains("something stands behind the end mark"));
    // A file may begin with fewer zeros; one of an older form has no mark before its messages.
    let first = file.windows(4).position(|word| word == [0xff; 4]).expect("a message");
    let close = [&file[..8], &file[first..]].concat();
    assert_eq!(read(&close, "arrow:address=addr"), read(&file, "arrow:address=addr"));
    let old = [&close[..8], &close[12..]].concat();
    let e = read(old, "arrow:address=addr").expect_err("no mark");
    assert!(e.contains("byte 8: a message begins with ff ff ff ff, and here is"), "{e}");
}

/// What the library takes on trust: places and lengths of buffers, and what compressed ones claim.
#[test]
fn claims_of_buffers_are_checked() {
    for form in FORMS {
        let file = table(columns(), form);
        let mut refused = 0;
        for at in (0..file.len() - 8).step_by(8) {
            for claim in [i64::MAX, i64::MIN, 1 << 40, -2] {
                let mut bytes = file.clone();
                bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
                // It may not panic, nor take the memory that is claimed.
                refused += usize::from(checked(&bytes, "arrow:address=addr,kind=op,size=bytes").is_none());
            }
        }
        assert!(refused > file.len() / 8, "{refused}");
    }
}

/// A bit, a byte less, a byte more: refused, or as many references as before. What has no checksum cannot tell another
/// address.
#[test]
fn damage_is_found_or_changes_no_count() {
    for form in FORMS {
        let (file, refs) = made(3, form, 300);
        for bytes in damaged(&file) {
            if let Some(report) = checked(&bytes, "arrow") {
                assert_eq!(report.totals.references(), refs.len() as u64, "{form:?}");
            }
        }
        for cut in (0..file.len()).step_by(1 + file.len() / 100) {
            assert!(checked(&file[..cut], "arrow").is_none(), "{form:?}, cut at {cut}");
        }
    }
}
