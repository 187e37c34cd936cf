//! Are records of ChampSim read to the last reference, and is anything else refused with its record?

use std::io::{Cursor, Read};

use proptest::prelude::*;

use farreach_trace::{Input, Opened, check, open_input};
use farreach_types::event::*;

fn open(bytes: &[u8], format: Option<&str>) -> Result<Opened, farreach_types::Error> {
    open_input(Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "t")?, format)
}

/// All references, each with its address space.
fn read(bytes: &[u8], format: Option<&str>) -> Result<Vec<(u32, Kind, u64, u32)>, farreach_types::Error> {
    let mut source = open(bytes, format)?.source;
    let mut blocks = Blocks::default();
    let mut all = Vec::new();
    while let Some(batch) = source.next_batch()? {
        let expanded = blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => all.push((batch.asid.0, a.kind, a.addr, a.size)),
                Item::Op(Op::Define { .. }) => {}
                Item::Op(op) => panic!("no such event in these records: {op:?}"),
            }
            true
        });
        expanded.expect("a sound stream");
    }
    Ok(all)
}

/// One instruction, as the test writes it.
#[derive(Clone, Debug, Default)]
struct Instruction {
    pc: u64,
    branch: [u8; 2],
    loads: Vec<u64>,
    stores: Vec<u64>,
    space: [u8; 2],
}

fn put(record: &mut [u8], at: usize, words: &[u64]) {
    for (i, word) in words.iter().enumerate() {
        record[at + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

fn plain(i: &Instruction) -> [u8; 64] {
    let mut record = [0; 64];
    put(&mut record, 0, &[i.pc]);
    record[8..10].copy_from_slice(&i.branch);
    record[10..16].copy_from_slice(&[26, 6, 25, 3, 0, 255]);
    put(&mut record, 16, &i.stores);
    put(&mut record, 32, &i.loads);
    record
}

fn wide(i: &Instruction) -> [u8; 96] {
    let mut record = [0; 96];
    put(&mut record, 0, &[i.pc]);
    record[8..10].copy_from_slice(&i.branch);
    record[10..18].copy_from_slice(&[26, 6, 25, 3, 0, 255, 1, 2]);
    put(&mut record, 24, &i.stores);
    put(&mut record, 56, &i.loads);
    record[88..90].copy_from_slice(&i.space);
    record
}

fn program() -> Vec<Instruction> {
    vec![
        Instruction { pc: 0x401000, loads: vec![0x7fff_0000_1000, 0, 0x5000], ..Default::default() },
        Instruction { pc: 0x401004, stores: vec![0, 0x6fff], ..Default::default() },
        Instruction { pc: 0x40100f, branch: [1, 1], loads: vec![0x7000], stores: vec![0x7000], ..Default::default() },
        Instruction { pc: 0x400ff0, branch: [1, 0], space: [7, 1], ..Default::default() },
        Instruction { pc: 0xffff_ffff_8100_0000, loads: vec![u64::MAX - 1], space: [7, 1], ..Default::default() },
        Instruction { pc: 0x400ff0, ..Default::default() },
    ]
}

/// Their references, worked out by hand; with the address spaces of CloudSuite.
fn references(spaces: bool) -> Vec<(u32, Kind, u64, u32)> {
    use Kind::*;
    let other = u32::from(spaces);
    vec![
        (0, Fetch, 0x401000, 1),
        (0, Load, 0x7fff_0000_1000, 1),
        (0, Load, 0x5000, 1),
        (0, Fetch, 0x401004, 1),
        (0, Store, 0x6fff, 1),
        (0, Fetch, 0x40100f, 1),
        (0, Load, 0x7000, 1),
        (0, Store, 0x7000, 1),
        (other, Fetch, 0x400ff0, 1),
        (other, Fetch, 0xffff_ffff_8100_0000, 1),
        (other, Load, u64::MAX - 1, 1),
        (0, Fetch, 0x400ff0, 1),
    ]
}

#[test]
fn golden_records() {
    let narrow: Vec<u8> = program().iter().flat_map(plain).collect();
    let broad: Vec<u8> = program().iter().flat_map(wide).collect();
    for forced in [false, true] {
        assert_eq!(read(&narrow, forced.then_some("champsim")).expect("good"), references(false));
        assert_eq!(read(&broad, forced.then_some("cloudsuite")).expect("good"), references(true));
    }
    assert_eq!(open(&narrow, None).expect("good").info.format, "champsim");
    assert_eq!(open(&broad, None).expect("good").info.format, "cloudsuite");
    for bytes in [&narrow, &broad] {
        assert_eq!(check(&mut *open(bytes, None).expect("good").source).expect("read").violation, None);
    }
}

#[test]
fn compressed_as_they_are_handed_around() {
    let narrow: Vec<u8> = program().iter().flat_map(plain).collect();
    let mut xz = Vec::new();
    liblzma::read::XzEncoder::new(&narrow[..], 6).read_to_end(&mut xz).expect("memory");
    let opened = open(&xz, None).expect("good");
    assert_eq!((opened.info.format, opened.info.compression), ("champsim", Some("xz")));
    assert_eq!(read(&xz, None).expect("good"), references(false));
    let cut = read(&xz[..xz.len() - 20], None).expect_err("cut").to_string();
    assert!(cut.contains("the file is cut") || cut.contains("damaged"), "{cut}");
}

#[test]
fn what_is_no_record_is_refused_where_it_is() {
    let good: Vec<u8> = std::iter::repeat_n(program(), 2000).flatten().flat_map(|i| plain(&i)).collect();
    let at = 64 * 9000;
    let with = |offset: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at + offset..][..bytes.len()].copy_from_slice(bytes);
        bad
    };
    let cases = [
        (with(0, &[0; 8]), "the instruction pointer is 0"),
        (with(0, &[255; 8]), "the instruction pointer is 2^64-1"),
        (with(8, &[2]), "byte 8, whether it is a branch, is 2; 0 and 1 are allowed"),
        (with(9, &[200]), "byte 9, whether the branch was taken, is 200; 0 and 1 are allowed"),
        (with(24, &[255; 8]), "address 1 of its stores is 2^64-1"),
        (with(56, &[255; 8]), "address 3 of its loads is 2^64-1"),
        (good[..at + 63].to_vec(), "the last record has 63 of 64 bytes: the trace is cut"),
    ];
    for (bytes, what) in cases {
        let error = read(&bytes, None).expect_err(what).to_string();
        assert!(error.contains(what) && error.contains("record 9000, byte 576000"), "{error}");
    }
    let short = read(&good[..40], Some("champsim")).expect_err("no record").to_string();
    assert!(short.contains("the last record has 40 of 64 bytes"), "{short}");
    assert!(open(&good[..40], None).is_err(), "too little to know it by");
    assert!(open(&[], Some("cloudsuite")).is_err());
    let text = "a text that happens to be as long as some records are, and says nothing of them at all, in any of its \
                lines; not once";
    assert!(open(text.as_bytes(), None).is_err());
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let address = prop_oneof![Just(0u64), 1..1u64 << 20, 1..u64::MAX];
    let pc = prop_oneof![0x1000..0x1100u64, 1..u64::MAX];
    let of = |most| prop::collection::vec(address.clone(), 0..=most);
    (pc, prop_oneof![Just([0, 0]), Just([1, 0]), Just([1, 1])], of(4), of(2))
        .prop_map(|(pc, branch, loads, stores)| Instruction { pc, branch, loads, stores, space: [0, 0] })
}

proptest! {
    /// The same references as Lackey text, read by the reader of that.
    #[test]
    fn as_the_same_references_in_text(program in prop::collection::vec(instruction(), 1..200)) {
        let mut text = String::new();
        for i in &program {
            let lines = std::iter::once(("I ", i.pc))
                .chain(i.loads.iter().map(|&a| (" L", a)))
                .chain(i.stores.iter().map(|&a| (" S", a)))
                .filter(|&(_, addr)| addr != 0);
            lines.for_each(|(kind, addr)| text += &format!("{kind} {addr:x},1\n"));
        }
        let expected = read(text.as_bytes(), Some("lackey")).expect("good");
        let narrow: Vec<u8> = program.iter().flat_map(plain).collect();
        let broad: Vec<u8> = program.iter().flat_map(wide).collect();
        prop_assert_eq!(&read(&narrow, None).expect("good"), &expected);
        prop_assert_eq!(&read(&broad, Some("cloudsuite")).expect("good"), &expected);
    }
}
