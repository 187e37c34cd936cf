//! Columns against the plain way through a stream, and back.

use farreach_trace::columns::{Collector, Columns, Expander, Slices, code};
use farreach_trace::{generate, to_lackey};
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, Block, Blocks, DataRef, Instr, Item, Kind, NOT_EXECUTED, Op, Source};
use std::sync::Arc;

/// One reference: address, size, kind, address space.
type Row = (u64, u32, u8, u32);

fn rows(columns: &Columns) -> Vec<Row> {
    let Columns { address, size, kind, space, .. } = columns;
    (0..columns.len()).map(|i| (address[i], size[i], kind[i], space[i])).collect()
}

fn batches(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().expect("generated")).collect()
}

/// The plain way.
fn expanded(batches: &[Batch]) -> (Vec<Row>, Vec<(usize, Asid, Op)>) {
    let (mut blocks, mut rows, mut events) = (Blocks::default(), Vec::new(), Vec::new());
    for batch in batches {
        let done = blocks.expand(batch, |item| {
            match item {
                Item::Access(a) => rows.push((a.addr, a.size, code(a.kind), batch.asid.0)),
                Item::Op(Op::Define { .. }) => {}
                Item::Op(op) => events.push((rows.len(), batch.asid, op.clone())),
            }
            true
        });
        done.expect("sound");
    }
    (rows, events)
}

/// All of a stream as columns, so many references at a time.
fn columns(batches: &[Batch], enough: usize) -> (Vec<Row>, Vec<(usize, Asid, Op)>) {
    let (mut expander, mut found, mut events) = (Expander::default(), Vec::new(), Vec::new());
    let mut one = Columns::default();
    for batch in batches {
        let mut at = 0;
        while at < batch.words.len() {
            at = expander.expand(batch, at, enough, &mut one).expect("sound");
            if one.len() >= enough {
                events.extend(one.events.iter().map(|(at, asid, op)| (found.len() + at, *asid, op.clone())));
                found.extend(rows(&one));
                one = Columns::default();
            }
        }
    }
    events.extend(one.events.iter().map(|(at, asid, op)| (found.len() + at, *asid, op.clone())));
    found.extend(rows(&one));
    (found, events)
}

/// A block with a conditional load between others, executed with it and without.
fn conditional() -> Batch {
    let instrs = [0x1000, 0x1004, 0x1008].map(|pc| Instr { pc, len: 4 }).into();
    let refs =
        [DataRef::new(1, Kind::Load, 8, 0), DataRef::new(2, Kind::Load, 4, 1), DataRef::new(2, Kind::Store, 8, 2)];
    let mut batch = Batch::new(Asid(3));
    batch.push_op(Op::Define { id: 5, block: Arc::new(Block { instrs, refs: refs.into() }) });
    batch.push_block(5, &[0x10, 0x20, 0x30]);
    batch.push_block(5, &[0x10, NOT_EXECUTED, 0x30]);
    batch.push_block(5, &[0x10, 0x28, 0x30]);
    batch
}

#[test]
fn columns_are_what_the_plain_way_finds() {
    for stream in [batches(generate::program(3, 20_000)), batches(generate::uniform(1, 64, 5000)), vec![conditional()]]
    {
        let plain = expanded(&stream);
        assert!(!plain.0.is_empty());
        for enough in [1, 7, 1000, usize::MAX] {
            let found = columns(&stream, enough);
            assert!(found == plain, "{enough} at a time");
        }
    }
    assert_eq!(expanded(&[conditional()]).0.len(), 3 * 6 - 1);
}

#[test]
fn broken_batches_are_refused() {
    let mut batch = conditional();
    batch.push_block(6, &[]);
    let error = Expander::default().expand(&batch, 0, usize::MAX, &mut Columns::default()).unwrap_err().to_string();
    assert!(error.contains("block 6 was never defined"), "{error}");
    let mut batch = conditional();
    batch.words.pop();
    assert!(Expander::default().expand(&batch, 0, usize::MAX, &mut Columns::default()).is_err());
}

/// Columns and back are the same references, in the same address spaces, with the same events.
#[test]
fn a_collector_makes_the_stream_again() {
    for stream in [batches(generate::program(3, 20_000)), vec![conditional()]] {
        let mut whole = Columns::default();
        let mut expander = Expander::default();
        for batch in &stream {
            expander.expand(batch, 0, usize::MAX, &mut whole).expect("sound");
        }
        let mut collector = Collector::new("columns");
        let mut made = Vec::new();
        let slices = |c: &Columns| -> Slices<'static> {
            let c = Box::leak(Box::new(c.clone()));
            Slices { address: &c.address, size: Ok(&c.size), kind: Ok(&c.kind), space: Ok(&c.space) }
        };
        let (given, mut at) = (slices(&whole), 0);
        for (until, asid, op) in whole.events.iter().map(|(at, asid, op)| (*at, *asid, op.clone())) {
            collector.push(given, at..until).expect("possible");
            collector.op(asid, op).expect("room");
            at = until;
            made.extend(std::iter::from_fn(|| collector.take(false).expect("room")));
        }
        collector.push(given, at..whole.len()).expect("possible");
        made.extend(std::iter::from_fn(|| collector.take(true).expect("room")));
        assert!(expanded(&made) == expanded(&stream));
    }
}

#[test]
fn impossible_references_are_refused_with_their_number() {
    let good = [0x1000u64, 0x2000, u64::MAX];
    let push = |size, kind, range: std::ops::Range<usize>| {
        let slices = Slices { address: &good, size: Err(size), kind: Err(kind), space: Err(0) };
        Collector::new("mine").push(slices, range).map_err(|e| e.to_string())
    };
    assert_eq!(push(8, 1, 0..2), Ok(()));
    for (size, kind, words) in [
        (8, 1, "mine: reference 2: address = 0xffffffffffffffff is not allowed"),
        (0, 1, "reference 0: size = 0 is not allowed: size must be from 1 to 65536"),
        (65, 0, "size must be from 1 to 64"),
        (8, 3, "kind = 3 is not allowed: kind must be 0 (fetch), 1 (load) or 2 (store)"),
    ] {
        let error = push(size, kind, 0..3).expect_err("refused");
        assert!(error.contains(words), "{error}");
    }
}

/// The text of Lackey is a third way to say the same.
#[test]
fn columns_are_what_the_text_says() {
    let stream = batches(generate::program(9, 3000));
    let mut text = Vec::new();
    let source = stream.clone().into_iter();
    struct Given(std::vec::IntoIter<Batch>);
    impl Source for Given {
        fn next_batch(&mut self) -> farreach_types::Result<Option<Batch>> {
            Ok(self.0.next())
        }
    }
    let info =
        farreach_trace::TraceInfo { file: "x".into(), format: "frt", compression: None, bytes: None, header: None };
    to_lackey(farreach_trace::Opened { source: Box::new(Given(source)), info }, &mut text, "text").expect("room");
    let lines = String::from_utf8(text).expect("text");
    let of_line = |line: &str| {
        let (addr, size) = line[3..].split_once(',').expect("a comma");
        let kind = ["I ", " L", " S"].iter().position(|kind| line.starts_with(kind)).expect("a kind");
        (u64::from_str_radix(addr, 16).expect("hexadecimal"), size.parse::<u32>().expect("a number"), kind as u8)
    };
    let found: Vec<_> = columns(&stream, 1000).0.into_iter().map(|(addr, size, kind, _)| (addr, size, kind)).collect();
    assert_eq!(found, lines.lines().map(of_line).collect::<Vec<_>>());
}
