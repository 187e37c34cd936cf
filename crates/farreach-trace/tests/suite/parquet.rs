//! Are tables of Parquet read as their columns say, and is anything else refused with row and column?

use crate::texts::{Ref, checked, damaged, found, read};
use crate::writers::{Given, program, references, written};
use farreach_types::event::Kind::{self, Fetch, Load, Store};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A column of a table made here; numbers that are not there are null.
enum Made {
    Long(Vec<i64>),
    Int(Vec<Option<i32>>),
    Text(Vec<&'static str>),
    Bool(Vec<bool>),
    Double(Vec<f64>),
}

/// A table of these columns, in groups of two rows.
fn table(schema: &str, columns: &[Made]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message t {{ {schema} }}")).expect("a schema"));
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::default())).expect("memory");
    let rows = match &columns[0] {
        Made::Long(values) => values.len(),
        Made::Text(values) => values.len(),
        _ => panic!("the first column is of addresses"),
    };
    for from in (0..rows).step_by(2) {
        let range = from..rows.min(from + 2);
        let mut group = writer.next_row_group().expect("memory");
        for made in columns {
            let mut column = group.next_column().expect("memory").expect("as many as in the schema");
            let written = match made {
                Made::Long(values) => column.typed::<Int64Type>().write_batch(&values[range.clone()], None, None),
                Made::Int(values) => {
                    let levels: Vec<i16> =
                        values[range.clone()].iter().map(|value| i16::from(value.is_some())).collect();
                    let there: Vec<i32> = values[range.clone()].iter().flatten().copied().collect();
                    column.typed::<Int32Type>().write_batch(&there, Some(&levels), None)
                }
                Made::Text(values) => {
                    let texts: Vec<ByteArray> =
                        values[range.clone()].iter().map(|text| ByteArray::from(*text)).collect();
                    column.typed::<ByteArrayType>().write_batch(&texts, None, None)
                }
                Made::Bool(values) => column.typed::<BoolType>().write_batch(&values[range.clone()], None, None),
                Made::Double(values) => column.typed::<DoubleType>().write_batch(&values[range.clone()], None, None),
            };
            written.expect("memory");
            column.close().expect("memory");
        }
        group.close().expect("memory");
    }
    writer.into_inner().expect("memory")
}

const SCHEMA: &str = "required int64 addr; optional int32 bytes; required boolean is_write; required binary op (UTF8); \
                      required double when;";

fn columns() -> Vec<Made> {
    vec![
        Made::Long(vec![0x1000, -4096, 0x7fff_0000_0000]),
        Made::Int(vec![Some(8), Some(4), Some(1)]),
        Made::Bool(vec![false, true, false]),
        Made::Text(vec!["R", "W", "I"]),
        Made::Double(vec![0.0, 0.5, 1.0]),
    ]
}

/// A random program as a table of the writer.
fn made(seed: u64) -> (Vec<u8>, Vec<Ref>) {
    let batches = program(seed);
    let (file, _) = written(&batches, "parquet").expect("sound");
    let refs = references(Given(batches.into_iter()));
    (file, refs.into_iter().map(|(space, _, kind, address, size)| (space, kind, address, size)).collect())
}

/// Kinds, addresses and sizes, and which references are of one process.
fn alike(refs: &[Ref]) -> (Vec<(Kind, u64, u32)>, Vec<usize>) {
    let mut spaces = Vec::new();
    let number = |space: u32| {
        spaces.iter().position(|known| *known == space).unwrap_or_else(|| {
            spaces.push(space);
            spaces.len() - 1
        })
    };
    let spaces_of = refs.iter().map(|r| r.0).map(number).collect();
    (refs.iter().map(|r| (r.1, r.2, r.3)).collect(), spaces_of)
}

#[test]
fn what_is_written_is_read_again() {
    for seed in 0..8 {
        let (file, refs) = made(seed);
        let (format, back) = found(&file).expect("our own table");
        assert_eq!(format, "parquet");
        assert_eq!(alike(&back), alike(&refs), "seed {seed}");
        // The same columns by names and by numbers.
        let by_name = "text:address=address,kind=kind,size=size,pid=space";
        assert_eq!(read(&file, by_name).expect("our own table"), back);
        assert_eq!(read(&file, "parquet:address=2,kind=1,size=3,pid=4").expect("our own table"), back);
        let addresses = read(&file, "text:address=address").expect("our own table");
        assert!(addresses.iter().all(|r| (r.1, r.3) == (Load, 1)) && addresses.len() == refs.len());
    }
}

#[test]
fn columns_are_what_the_user_says() {
    let file = table(SCHEMA, &columns());
    let high = 0u64.wrapping_sub(4096);
    let by_text = read(&file, "text:address=addr,kind=op,size=bytes").expect("good");
    assert_eq!(by_text, [(0, Load, 0x1000, 8), (0, Store, high, 4), (0, Fetch, 0x7fff_0000_0000, 1)]);
    let by_truth = read(&file, "text:address=1,kind=is_write,load=false,store=true").expect("good");
    assert_eq!(by_truth, [(0, Load, 0x1000, 1), (0, Store, high, 1), (0, Load, 0x7fff_0000_0000, 1)]);
    let by_number = read(&file, "text:address=addr,kind=bytes,load=8|4,skip=1,pid=bytes").expect("good");
    assert_eq!(by_number, [(0, Load, 0x1000, 1), (1, Load, high, 1)]);
    let text = table("required binary a (UTF8);", &[Made::Text(vec!["0x10", "17"])]);
    assert_eq!(read(&text, "text:address=a").expect("good"), [(0, Load, 16, 1), (0, Load, 17, 1)]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let file = table(SCHEMA, &columns());
    for (settings, expected) in [
        ("", "the column of addresses is not named: say --columns address=NAME; the table has addr, bytes"),
        ("address=adr", "address = adr is not allowed: allowed are 1 to 5, and addr, bytes"),
        ("address=6", "address = 6 is not allowed"),
        ("address=0", "address = 0 is not allowed"),
        ("address=addr,size=when", "size = when is not allowed: it is of type DOUBLE; integers and text are"),
        ("address=is_write", "address = is_write is not allowed: it is of type BOOLEAN"),
        ("address=addr,separator=comma", "separator"),
        ("address=addr,load=R", "no column of kinds"),
        ("address=addr,kind=op,load=R,store=W", "row 3: column op: kind 'I' is not known: known are R"),
        ("address=addr,size=addr", "row 2: size 18446744073709547520 is not allowed"),
    ] {
        let spec = format!("parquet{}{settings}", if settings.is_empty() { "" } else { ":" });
        let result = read(&file, &spec);
        let e = result.expect_err(settings);
        assert!(e.contains(expected), "{settings}: {e}");
    }
    let with = |at: usize, column: Made| {
        let mut columns = columns();
        columns[at] = column;
        read(table(SCHEMA, &columns), "text:address=addr,kind=op,size=bytes").expect_err("wrong")
    };
    let null = with(1, Made::Int(vec![Some(8), None, Some(1)]));
    assert!(null.contains("column bytes: a row has no value in it"), "{null}");
    let negative = with(1, Made::Int(vec![Some(8), Some(4), Some(-1)]));
    assert!(negative.contains("row 3: column bytes: -1 is not allowed"), "{negative}");
    let end = with(0, Made::Long(vec![0x1000, -1, 0]));
    assert!(end.contains("row 2: address 0xffffffffffffffff is not allowed with size 4"), "{end}");
    let list = table("required group a { required int64 b; }", &[Made::Long(vec![1])]);
    assert_eq!(read(list, "text:address=a.b").expect("a record of plain columns"), [(0, Load, 1, 1)]);
    let empty = table("required int64 address;", &[Made::Long(Vec::new())]);
    assert!(read(empty, "parquet").expect_err("nothing").contains("has no references"));
}

/// A bit, a byte less, a byte more: refused, or as many references as before. What pages without checksums cannot tell
/// is another address.
#[test]
fn damage_is_found_or_changes_no_count() {
    let (file, refs) = made(3);
    let mut refused = 0;
    for bytes in damaged(&file) {
        match checked(&bytes, "parquet") {
            None => refused += 1,
            Some(report) => assert_eq!(report.totals.references(), refs.len() as u64),
        }
    }
    assert!(refused > 60, "{refused} of 100");
    for cut in (0..file.len()).step_by(1 + file.len() / 100) {
        assert!(checked(&file[..cut], "parquet").is_none(), "cut at {cut}");
    }
}
