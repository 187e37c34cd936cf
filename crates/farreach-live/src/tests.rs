//! Recorder and reader agree on the numbers of the stream, and damaged streams are refused.

use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS};
use farreach_types::counts::LimitKind;
use farreach_types::event::{Access, Backing, Batch, Blocks, Item, Kind, MAX_KERNEL_STORE, MAX_SPREAD, OP_BIT, Op};

use super::counts::Counts;
use super::decode::{Decoded, Decoder, Notice};
use super::layout::{self, record};
use super::met::Told;
use farreach_types::counts::GuestChecks;

mod code;
mod guest;
mod system_run;

/// Offsets of the fields of a struct of stream.h, counted from its declarations.
fn offsets(header: &str, name: &str) -> Vec<(String, usize)> {
    let body =
        header.split_once(&format!("struct {name} {{")).expect("the struct").1.split_once("\n};").expect("its end").0;
    let (mut at, mut all) = (0usize, Vec::new());
    for line in body.lines() {
        let declaration = line.split("/*").next().unwrap_or_default();
        for declaration in declaration.split(';').map(str::trim).filter(|d| !d.is_empty()) {
            let (kind, field) = declaration.rsplit_once(' ').expect("a type and a name");
            let size = match kind.trim() {
                "unsigned long long" => 8,
                "unsigned" => 4,
                "char" => 1,
                other => panic!("unknown type {other}"),
            };
            let (field, n) = match field.split_once('[') {
                Some((f, "FR_ORDER]")) => (f, layout::ORDER as usize),
                Some((f, "FR_CHUNKS]")) => (f, layout::CHUNKS as usize),
                Some((f, n)) => (f, n.trim_end_matches(']').parse().expect("a number")),
                None => (field, 1),
            };
            at = at.next_multiple_of(size);
            all.push((field.to_owned(), at));
            at += n * size;
        }
    }
    all
}

#[test]
fn layout_is_that_of_stream_h() {
    let header = include_str!("../../../capture/valgrind/stream.h");
    let control = offsets(header, "fr_control");
    let ring = offsets(header, "fr_ring");
    let check = |fields: &[(String, usize)], name: &str, at: usize| {
        assert!(fields.contains(&(name.to_owned(), at)), "{name} at {at}: {fields:?}");
    };
    use layout::{control as c, ring as r};
    for (name, at) in [
        ("magic", c::MAGIC),
        ("version", c::VERSION),
        ("pid_namespace", c::PID_NAMESPACE),
        ("head", c::HEAD),
        ("wake", c::WAKE),
        ("reader_waits", c::READER_WAITS),
        ("next_ring", c::NEXT_RING),
        ("next_block", c::NEXT_BLOCK),
        ("closed", c::CLOSED),
        ("unsized", c::UNSIZED),
        ("failed", c::FAILED),
        ("failure", c::FAILURE),
        ("order", c::ORDER),
    ] {
        check(&control, name, at);
    }
    for (name, at) in [
        ("magic", r::MAGIC),
        ("pid", r::PID),
        ("foreign", r::FOREIGN),
        ("produced", r::PRODUCED),
        ("consumed", r::CONSUMED),
        ("writer_waits", r::WRITER_WAITS),
        ("used", r::USED),
    ] {
        check(&ring, name, at);
    }
    for (name, value) in [
        ("FR_MAGIC", layout::MAGIC),
        ("FR_VERSION", u64::from(layout::VERSION)),
        ("FR_CHUNKS", layout::CHUNKS),
        ("FR_CHUNK_WORDS", layout::CHUNK_WORDS as u64),
        ("FR_BLOCK_INSTRS", layout::BLOCK_INSTRS as u64),
        ("FR_SPREAD", u64::from(MAX_SPREAD)),
        ("FR_RING_HEAD", layout::RING_HEAD as u64),
        ("FR_ORDER", layout::ORDER),
        ("FR_STORE_BYTES", MAX_KERNEL_STORE),
        ("FR_ADDRESS_BITS", u64::from(GUEST_ADDRESS_BITS)),
    ] {
        let line = header.lines().find(|l| l.starts_with(&format!("#define {name} "))).expect(name);
        let text = line.split_whitespace().nth(2).expect(name).trim_end_matches("ULL");
        let given = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
        assert_eq!(given, Ok(value), "{name}");
    }
    let records = header.split_once("enum fr_record {").expect("records").1.split_once("};").expect("their end").0;
    let names: Vec<&str> = records
        .lines()
        .filter_map(|l| l.trim().strip_prefix("FR_"))
        .map(|l| l.split([' ', ',']).next().unwrap_or(""))
        .collect();
    assert_eq!(names.iter().position(|n| *n == "CUT"), Some(record::CUT as usize - 1));
    for (name, number) in [("LIMIT", record::LIMIT), ("MACHINE", record::MACHINE), ("SUMMARY", record::SUMMARY)] {
        assert_eq!(names.iter().position(|n| *n == name), Some(number as usize - 1), "{name}");
    }
    assert_eq!(names.len(), record::KERNEL_STORE as usize);
    let counters = header.split_once("enum fr_counter {").expect("counters").1.split_once("};").expect("their end").0;
    let counters = counters.lines().filter(|l| l.trim().starts_with("FR_")).count();
    assert_eq!(counters, GuestChecks::COUNTERS + 1, "the last is their number");
}

fn record(kind: u32, payload: &[u64]) -> Vec<u64> {
    let mut words = vec![OP_BIT | u64::from(kind) << 32 | payload.len() as u64];
    words.extend_from_slice(payload);
    words
}

/// An execution of block 1 with two references.
const RUN: u64 = 1 | 2 << 32;

/// Block `id`: three instructions of 4 bytes at 0x1000; the second loads 8 bytes, the third stores 4.
fn define(id: u64) -> Vec<u64> {
    let refs = [reference(2, 0, Kind::Load, 8, 0), reference(3, 1, Kind::Store, 4, 0)];
    record(record::DEFINE, &[&[id, 3 | 2 << 32, instr(0x1000), instr(0x1004), instr(0x1008)], &refs[..]].concat())
}

/// Block 1: four instructions; the second loads 8 bytes, the third stores 4, the fourth stores 8 just below the second
/// and loads them again.
fn define_shared() -> Vec<u64> {
    let refs = [
        reference(2, 0, Kind::Load, 8, 8),
        reference(3, 1, Kind::Store, 4, 0),
        reference(4, 0, Kind::Store, 8, 0),
        reference(4, 0, Kind::Load, 8, 0),
    ];
    let instrs = [0x1000, 0x1004, 0x1008, 0x100c].map(instr);
    record(record::DEFINE, &[&[1, 4 | 4 << 32], &instrs[..], &refs].concat())
}

fn instr(pc: u64) -> u64 {
    pc | 4 << 57
}

fn reference(after: u64, word: u64, kind: Kind, size: u64, offset: u64) -> u64 {
    after | word << 16 | size << 32 | offset << 50 | u64::from(kind == Kind::Store) << 63
}

fn decode(words: Vec<u64>, torn: bool) -> Result<Decoded, String> {
    Decoder::default().decode(Asid(0), words, torn)
}

fn accesses(batch: &Batch) -> Vec<Access> {
    let mut all = Vec::new();
    let each = |item: Item<'_>| {
        if let Item::Access(a) = item {
            all.push(a);
        }
        true
    };
    Blocks::default().expand(batch, each).expect("a good batch");
    all
}

/// Addresses of all references, fetches included.
fn addresses(batch: &Batch) -> Vec<u64> {
    accesses(batch).iter().map(|a| a.addr).collect()
}

#[test]
fn a_cut_block_ends_before_the_fault() {
    // At the end of the last instruction is a place that cannot be read.
    let all: &[u64] = &[0x1000, 0x1004, 0x9000, 0x1008, 0xa000];
    let cases: [(u64, &[u64]); 5] =
        [(0x1000, &[]), (0x1004, &[0x1000]), (0x1008, &[0x1000, 0x1004, 0x9000]), (0x100c, all), (0x5555, &[])];
    for (ip, expected) in cases {
        let block = [RUN, 0x9000, 0xa000];
        let words = [define(1), block.to_vec(), record(record::CUT, &[2, ip]), block.to_vec()].concat();
        let d = decode(words, false).unwrap();
        let all = addresses(&d.batch);
        assert_eq!(&all[..expected.len()], expected, "{ip:#x}");
        assert_eq!(&all[expected.len()..], [0x1000, 0x1004, 0x9000, 0x1008, 0xa000], "{ip:#x}");
        assert_eq!(
            d.counts.instructions - d.cut.instructions,
            3 + expected.iter().filter(|&&a| a < 0x9000).count() as u64
        );
    }
}

#[test]
fn an_instruction_that_stands_twice_is_told_by_what_was_written() {
    let store = |after: u64, word| reference(after, word, Kind::Store, 8, 0);
    let twice = record(record::DEFINE, &[1, 2 | 2 << 32, instr(0x1000), instr(0x1000), store(1, 0), store(2, 1)]);
    for (addrs, ran) in [([0x9000, 0], 0), ([0x9000, 0xa000], 1)] {
        let words = [twice.clone(), vec![RUN, addrs[0], addrs[1]], record(record::CUT, &[2, 0x1000])].concat();
        assert_eq!(addresses(&decode(words, false).unwrap().batch).len(), 2 * ran);
    }
}

#[test]
fn references_share_an_address_word() {
    let d = decode([define_shared(), vec![RUN, 0x9000, 0xa000], vec![RUN, 0xb000, 0xc000]].concat(), false).unwrap();
    let data = |low, other| {
        let store = Access { kind: Kind::Store, addr: low, size: 8 };
        let first = Access { kind: Kind::Load, addr: low + 8, size: 8 };
        let second = Access { kind: Kind::Store, addr: other, size: 4 };
        [first, second, store, Access { kind: Kind::Load, ..store }]
    };
    let seen: Vec<_> = accesses(&d.batch).into_iter().filter(|a| a.kind != Kind::Fetch).collect();
    assert_eq!(seen, [data(0x9000, 0xa000), data(0xb000, 0xc000)].concat());
    assert_eq!(d.counts, Counts { instructions: 8, loads: 4, stores: 4 });
    assert_eq!(d.batch.words.len(), 7, "a definition and two executions of three words");
}

/// Before the shared word is written, between its two references, and behind them.
#[test]
fn a_cut_block_keeps_what_it_needs_of_shared_words() {
    // Where it faults, the words of the block, the instructions that ran, their words.
    type Case<'a> = (u64, [u64; 2], &'a [u64], &'a [u64]);
    let cases: [Case<'_>; 5] = [
        (0x1000, [0, 0], &[], &[]),
        (0x1004, [0x9000, 0], &[0x1000], &[]),
        // The only remaining reference of its word: the word is its address.
        (0x1008, [0x9000, 0xa000], &[0x1000, 0x1004, 0x9008], &[0x9008]),
        (0x100c, [0x9000, 0xa000], &[0x1000, 0x1004, 0x9008, 0x1008, 0xa000], &[0x9008, 0xa000]),
        // A word of value 0 looks like one that was not written.
        (0x1004, [0, 0], &[0x1000], &[]),
    ];
    for (ip, block, expected, words) in cases {
        let all =
            [define_shared(), vec![RUN, block[0], block[1]], record(record::CUT, &[2, ip]), vec![RUN, 0xd000, 0xe000]];
        let d = decode(all.concat(), false).unwrap();
        let (before, behind) = (addresses(&d.batch), [0x1000, 0x1004, 0xd008, 0x1008, 0xe000, 0x100c, 0xd000, 0xd000]);
        assert_eq!(before, [expected, &behind].concat(), "{ip:#x}");
        let short = d.batch.words.iter().position(|&w| w == 2 | (words.len() as u64) << 32);
        assert_eq!(short.is_some(), !expected.is_empty(), "{ip:#x}");
        assert_eq!(short.map_or(&[][..], |at| &d.batch.words[at + 1..][..words.len()]), words, "{ip:#x}");
        let data = expected.iter().filter(|&&a| a >= 0x9000).count() as u64;
        let ran =
            Counts { instructions: expected.len() as u64 - data, loads: data.min(1), stores: data.saturating_sub(1) };
        let mut total = Counts { instructions: 4, loads: 2, stores: 2 };
        total.add(&d.cut);
        total.add(&ran);
        assert_eq!(d.counts, total, "{ip:#x}");
    }
}

#[test]
fn stack_growth_comes_before_its_block() {
    let map = record(record::MAP, &[0x9000, 0x1000, layout::map::EARLY | 2 << layout::map::BEHIND_SHIFT, 0]);
    let d = decode([define(1), vec![RUN, 0x9000, 0xa000], map, vec![RUN, 0x9000, 0xa000]].concat(), false).unwrap();
    assert!(matches!(&d.batch.ops[1], Op::Map(m) if m.backing == Backing::Stack));
    assert_eq!(d.batch.words, [OP_BIT, OP_BIT | 1, RUN, 0x9000, 0xa000, RUN, 0x9000, 0xa000]);
}

#[test]
fn limits_are_told_beside_the_batch() {
    let limit =
        |head: u64, bytes: u64| record(record::LIMIT, &[head, 3, 0x1234, bytes, 0x0807_0605_0403_0201, 9, 0x61]);
    let d = decode([define(1), limit(1 | 1 << 32, 9), vec![RUN, 0x9000, 0xa000]].concat(), false).unwrap();
    let code: Vec<u8> = (1..=9).collect();
    let told = Told { kind: LimitKind::Instruction, at: 0x1234, code, text: "a".into() };
    assert_eq!(d.notices, [Notice::Limit { told, count: 3 }]);
    assert_eq!(d.batch.words, [OP_BIT, RUN, 0x9000, 0xa000]);
    for (head, bytes, why) in
        [(0, 0, "limit of unknown kind 0"), (99, 0, "limit of unknown kind 99"), (1, 17, "instruction of 17 bytes")]
    {
        assert!(decode(limit(head, bytes), false).err().unwrap().contains(why), "{why}");
    }
    assert!(decode(limit(1 | 9 << 32, 0), false).err().unwrap().contains("cut off"));
}

#[test]
fn a_torn_chunk_gives_its_complete_blocks() {
    let whole = [define(1), vec![RUN, 0x9000, 0xa000]].concat();
    for tail in [vec![RUN, 0x9000, 0, 0, 0], vec![0; 9], vec![OP_BIT | 1 << 32 | 5, 0, 0, 0, 0, 0, 0], vec![RUN]] {
        let d = decode([whole.clone(), tail].concat(), true).unwrap();
        assert_eq!(d.counts, Counts { instructions: 3, loads: 1, stores: 1 });
        assert_eq!(addresses(&d.batch).len(), 5);
    }
    for tail in [vec![RUN], vec![RUN, 0x9000], vec![RUN, 0x9000, 0, 0], vec![RUN, 0, 0]] {
        let d = decode([define_shared(), vec![RUN, 0x9000, 0xa000], tail].concat(), true).unwrap();
        assert_eq!(d.counts, Counts { instructions: 4, loads: 2, stores: 2 });
        assert_eq!(addresses(&d.batch).len(), 8);
    }
}

/// With as many blocks as fit, no field of the sum overflows into the next.
#[test]
fn a_chunk_of_the_largest_blocks_is_counted() {
    let instrs = layout::BLOCK_INSTRS;
    let refs = layout::CHUNK_WORDS - 3 - instrs;
    let load = |after: u64| reference(after, 0, Kind::Load, 1, 0);
    let instr_words = (0..instrs as u64).map(|i| instr(0x1000 + 4 * i));
    let ref_words = (0..refs).map(|i| load(i.min(instrs) as u64));
    let definition: Vec<u64> =
        [1, instrs as u64 | (refs as u64) << 32].into_iter().chain(instr_words).chain(ref_words).collect();
    let mut decoder = Decoder::default();
    decoder.decode(Asid(0), record(record::DEFINE, &definition), false).unwrap();
    let executions = layout::CHUNK_WORDS / 2;
    let d = decoder.decode(Asid(0), [1 | 1 << 32, 0x9000].repeat(executions), false).unwrap();
    let count = |n: usize| (n * executions) as u64;
    assert_eq!(d.counts, Counts { instructions: count(instrs), loads: count(refs), stores: 0 });
}

#[test]
fn damaged_words_are_refused() {
    let bad = [
        vec![7],
        vec![0],
        [define(1), vec![RUN, 2]].concat(),
        [define(1), vec![1, 2, 3]].concat(),
        [define(1), vec![1 | 3 << 32, 2, 3, 4]].concat(),
        record(99, &[]),
        [define_shared(), vec![1 | 4 << 32, 1, 2, 3, 4]].concat(),
        record(record::DEFINE, &[1, 1 | 1 << 32, instr(0x1000), reference(1, 1, Kind::Load, 8, 0)]),
        record(record::DEFINE, &[1, 1 | 1 << 32, instr(0x1000), reference(1, 0, Kind::Load, 8, 8)]),
        record(
            record::DEFINE,
            &[1, 1 | 2 << 32, instr(0x1000), reference(1, 0, Kind::Load, 8, 0), reference(1, 0, Kind::Load, 8, 121)],
        ),
        vec![OP_BIT | 6 << 32 | 4, 0],
        record(record::DEFINE, &[1, 500]),
        record(record::DEFINE, &[0, 1, 0x1000 | 4 << 57]),
        record(record::CUT, &[2, 0x1000]),
        record(record::UNMAP, &[1, 4096]),
        record(record::KERNEL_STORE, &[4096, 0]),
        record(record::KERNEL_STORE, &[4096, u64::MAX]),
        record(record::KERNEL_STORE, &[4096]),
        record(record::START, &[1 | 900 << 32]),
    ];
    for words in bad {
        let text = format!("{words:x?}");
        assert!(decode(words, false).is_err(), "{text}");
    }
}

#[test]
fn what_the_fuzzer_found_stays_fixed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/live");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect::<Vec<_>>();
    assert!(!files.is_empty());
    for data in &files {
        (0..=data.len()).for_each(|n| super::fuzz::chunks(&data[..n]));
    }
}
