//! A farreach trace reads back exactly as it was written, or the reader reports an error.

use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use proptest::prelude::*;
use tempfile::TempDir;

use farreach_trace::{FrtReader, Header, Input, TraceWriter, check, generate, open_input};
use farreach_types::addr::Asid;
use farreach_types::event::*;

/// The stream without its batches: address space with each item.
#[derive(Clone, PartialEq, Debug)]
pub enum Flat {
    Block(u32, u64, Vec<u64>),
    Op(u32, Op),
}

pub fn flat(batches: &[Batch]) -> Vec<Flat> {
    let mut blocks = Blocks::default();
    let mut out = Vec::new();
    for b in batches {
        let mut at = 0;
        while at < b.words.len() {
            let w = b.words[at];
            at += 1;
            if w & OP_BIT != 0 {
                let op = &b.ops[(w & !OP_BIT) as usize];
                if let Op::Define { id, block } = op {
                    blocks.define(*id, block).expect("defined well");
                }
                out.push(Flat::Op(b.asid.0, op.clone()));
            } else {
                let (_, addrs) = blocks.execution(&b.words, at - 1).expect("defined, and whole");
                out.push(Flat::Block(b.asid.0, w, addrs.to_vec()));
                at += addrs.len();
            }
        }
    }
    out
}

/// A file in memory that can be read after its writer is dropped.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("one thread at a time").extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn header() -> Header {
    Header {
        program: "/bin/true".into(),
        arguments: vec!["true".into(), "\u{e4}\n".into()],
        environment: [("page_size".to_owned(), "4096".to_owned())].into(),
        date: "2026-11-20T12:00:00Z".into(),
        recorder: "a test".into(),
        more: [("note".to_owned(), serde_json::json!({"any": [1, 2]}))].into_iter().collect(),
    }
}

fn to_bytes(batches: &[Batch]) -> Vec<u8> {
    let file = Shared::default();
    let w = TraceWriter::to_stream(file.clone(), "memory", header()).expect("a header");
    let mut w = w.with_chunks_of(1 << 20);
    batches.iter().for_each(|b| w.write(b).expect("a good batch"));
    w.finish().expect("room");
    std::mem::take(&mut *file.0.lock().expect("finished"))
}

pub fn from_bytes(bytes: &[u8]) -> Result<(Header, Vec<Batch>), farreach_types::Error> {
    let mut reader = FrtReader::new(Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "memory")?)?;
    let mut batches = Vec::new();
    while let Some(b) = reader.next_batch()? {
        batches.push(b);
    }
    Ok((reader.header().clone(), batches))
}

pub fn drain(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().expect("a sound source")).collect()
}

pub fn folder(name: &str) -> TempDir {
    let made = tempfile::Builder::new().prefix(&format!("farreach-{name}-")).tempdir();
    made.expect("a temporary folder")
}

pub fn block(instrs: &[(u64, u32)], refs: &[(u32, Kind, u32)]) -> Arc<Block> {
    let instrs = instrs.iter().map(|&(pc, len)| Instr { pc, len }).collect();
    Arc::new(Block {
        instrs,
        refs: (0..).zip(refs).map(|(word, &(after, kind, size))| DataRef::new(after, kind, size, word)).collect(),
    })
}

/// Every event with extreme values.
fn every_op() -> Vec<Op> {
    let map = |backing| Op::Map(Mapping { start: 0x1000, len: 1 << 40, prot: Prot::RWX, shared: true, backing });
    let mut ops = vec![
        Op::Define {
            id: 5,
            block: block(&[(0x1000, 4), (0x1004, 1), (0, 64)], &[(0, Kind::Load, 8), (3, Kind::Store, 1 << 16)]),
        },
        Op::Define { id: MAX_BLOCKS - 1, block: block(&[], &[(0, Kind::Store, 3)]) },
        Op::Define { id: 0, block: block(&[(u64::MAX - 64, 1)], &[]) },
        Op::Define {
            id: 5,
            block: block(&[(0x1000, 4), (0x1004, 1), (0, 64)], &[(0, Kind::Load, 8), (3, Kind::Store, 1 << 16)]),
        },
        Op::Start { pid: u32::MAX, parent: Some(Asid(u32::MAX)), program: "/\u{2603}".into() },
        Op::Start { pid: 0, parent: None, program: "".into() },
        Op::Fork { child: Asid(7) },
        map(Backing::Anonymous),
        map(Backing::Heap),
        map(Backing::Stack),
        map(Backing::Kernel),
        map(Backing::File { path: "/a b".into(), offset: u64::MAX }),
        Op::Unmap { start: 0, len: u64::MAX },
        Op::Remap { old_start: 1, old_len: 2, new_start: u64::MAX, new_len: 4 },
        Op::Protect { start: 1, len: 2, prot: Prot::NONE },
        Op::KernelStore { start: 0x7fff_ffff_f123, len: 1 },
        Op::KernelStore { start: 0x7fff_ffff_f123, len: 1 << 31 },
        Op::ThreadStart { thread: 3 },
        Op::Switch { thread: 3 },
        Op::ThreadExit { thread: u32::MAX },
    ];
    let [none, huge, small] = [Advice::DontNeed, Advice::HugePage, Advice::NoHugePage];
    for advice in [none, huge, small, Advice::WillNeed, Advice::Populate, Advice::Collapse] {
        ops.push(Op::Advise { start: 4096, len: 1, advice });
    }
    ops.extend([ThpRule::System, ThpRule::Advised, ThpRule::Never].map(Op::Thp));
    for end in [End::Exit(i32::MIN), End::Exit(0), End::Signal(9), End::Exec, End::Lost] {
        ops.push(Op::End(end));
    }
    ops
}

pub fn small() -> Vec<Batch> {
    let mut a = Batch::new(Asid(0));
    every_op().into_iter().for_each(|op| a.push_op(op));
    a.push_block(5, &[0x7000, NOT_EXECUTED]);
    a.push_block(0, &[]);
    a.push_block(5, &[0x7008, u64::MAX - 1]);
    let mut b = Batch::new(Asid(4_000_000_000));
    b.push_block(MAX_BLOCKS - 1, &[0]);
    b.push_block(5, &[1 << 63, 1 << 63]);
    let mut c = Batch::new(Asid(1));
    c.push_block(0, &[]);
    vec![a, b, Batch::new(Asid(9)), c]
}

#[test]
fn every_event_and_word_comes_back() {
    let batches = small();
    let (head, back) = from_bytes(&to_bytes(&batches)).expect("just written");
    assert_eq!(head, header());
    assert_eq!(flat(&back), flat(&batches));
}

#[test]
fn an_empty_trace_is_a_trace() {
    assert_eq!(from_bytes(&to_bytes(&[])).expect("whole").1, []);
}

#[test]
fn programs_of_several_chunks_come_back() {
    let batches = drain(generate::program(7, 60_000));
    let words: usize = batches.iter().map(|b| b.words.len()).sum();
    assert!(words > 5 << 20, "{words} words are not several chunks");
    let bytes = to_bytes(&batches);
    let (_, back) = from_bytes(&bytes).expect("just written");
    assert!(flat(&back) == flat(&batches));
    assert!(back.iter().all(|b| b.words.len() < 20_000), "batches stay small");
}

#[test]
fn loops_cost_next_to_nothing() {
    let bytes = to_bytes(&drain(generate::sequential(100, 1_000_000)));
    assert!(bytes.len() < 40_000, "{} bytes for 4 million references", bytes.len());
}

#[test]
fn a_cut_at_every_byte_is_an_error_that_says_what_was_whole() {
    let mut bytes = to_bytes(&small());
    for len in 0..bytes.len() {
        let e = from_bytes(&bytes[..len]).expect_err("cut").to_string();
        assert!(e.starts_with("memory: "), "{e}");
        if len > 300 {
            assert!(e.contains("whole before it") || e.contains("header"), "{len}: {e}");
        }
    }
    bytes.push(0);
    assert!(from_bytes(&bytes).expect_err("too long").to_string().contains("bytes follow the trailer"));
}

#[test]
fn damage_names_its_chunk_and_what_was_whole() {
    let batches = drain(generate::sequential(100, 6_000_000));
    let mut bytes = to_bytes(&batches);
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 0x10;
    let e = from_bytes(&bytes).expect_err("damaged").to_string();
    let whole: u64 = e.split("chunks with ").nth(1).expect(&e).split(' ').next().expect(&e).parse().expect(&e);
    assert!(e.contains("memory: chunk ") && e.contains("at byte") && whole > 0, "{e}");
}

#[test]
fn every_flipped_bit_of_a_small_file_is_found() {
    let bytes = to_bytes(&small());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            assert!(from_bytes(&bad).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn lengths_are_bounded_before_memory_is_taken() {
    let bytes = to_bytes(&small());
    let header_len = 16 + u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize + 8;
    // The header's length, and every 32-bit field of the first chunk's head.
    for at in std::iter::once(12).chain((header_len + 4..header_len + 92).step_by(4)) {
        for value in [u32::MAX, 1 << 30, 1 << 25] {
            let mut bad = bytes.clone();
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(from_bytes(&bad).is_err(), "field at {at}");
        }
    }
}

#[test]
fn another_version_is_refused() {
    let mut bytes = to_bytes(&[]);
    for version in [0, 8] {
        bytes[8] = version;
        let e = from_bytes(&bytes).expect_err("unknown").to_string();
        assert!(e.contains(&format!("version {version};")) && e.contains("reads versions 1 to 7"), "{e}");
    }
}

/// Every event of a whole system with extreme values.
pub fn every_guest_event() -> Vec<Batch> {
    let entries = |address, values: Vec<u64>| Guest::Entries { address, values: values.into() };
    let invalidate =
        |tag, bytes, set| Guest::Invalidate(Invalidate { tag, bytes, global: set, leaves: set, broadcast: set });
    let mut guests: Vec<Guest> = Arch::ALL
        .map(|arch| Guest::Machine { arch, processors: u32::MAX, memory: u64::MAX })
        .into_iter()
        .chain(Register::ALL.map(|register| Guest::Register { register, value: u64::MAX }))
        .chain([true, false].map(|kernel| Guest::Privilege { kernel }))
        .collect();
    guests.extend([
        entries(0, (0..512).map(|n| n << 21 | 1 << 63).collect()),
        entries(0, vec![0; 512]),
        entries(u64::MAX - 7, vec![u64::MAX]),
        entries(8, vec![0, 1, 2, 3, 0, 0, u64::MAX, 0, 7]),
        invalidate(None, None, true),
        invalidate(Some(u16::MAX), Some((u64::MAX - 4095, u64::MAX - 4095)), false),
        Guest::Exception { vector: u32::MAX },
        Guest::Stale { page: u64::MAX - 4095, address: u64::MAX - 4095 },
        Guest::Name("".into()),
        Guest::Name("\u{2603}".repeat(1 << 14).into()),
    ]);
    let mut batch = Batch::new(Asid(0));
    guests.into_iter().for_each(|guest| batch.push_op(Op::Guest(guest)));
    vec![batch]
}

#[test]
fn events_of_systems_come_back() {
    let system = drain(generate::system(1, 20_000));
    for batches in [every_guest_event(), system] {
        let bytes = to_bytes(&batches);
        assert_eq!(flat(&from_bytes(&bytes).expect("just written").1), flat(&batches));
    }
}

/// The same file, which claims another version.
fn of_version(version: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    let header = 16 + u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    bytes[8] = version;
    let hash = xxhash_rust::xxh3::xxh3_64(&bytes[..header]);
    bytes[header..header + 8].copy_from_slice(&hash.to_le_bytes());
    bytes
}

/// A block of four references with two address words, run twice.
fn sharing() -> Vec<Batch> {
    let on = |after, kind, word, offset| DataRef { after, kind, size: 8, word, offset };
    let refs = [on(1, Kind::Load, 0, 8), on(1, Kind::Store, 1, 0), on(2, Kind::Store, 0, 0), on(2, Kind::Load, 0, 120)];
    let instrs = [Instr { pc: 0x1000, len: 4 }, Instr { pc: 0x1004, len: 4 }].into();
    let mut batch = Batch::new(Asid(0));
    batch.push_op(Op::Define { id: 7, block: Arc::new(Block { instrs, refs: refs.into() }) });
    batch.push_block(7, &[0x5000, NOT_EXECUTED]);
    batch.push_block(7, &[0x6ff8, 0x7000]);
    vec![batch]
}

#[test]
fn words_that_references_share_come_back() {
    let bytes = to_bytes(&sharing());
    let mut reader =
        FrtReader::new(Input::from_stream(Box::new(Cursor::new(bytes.clone())), "memory").unwrap()).unwrap();
    let back: Vec<Batch> = std::iter::from_fn(|| reader.next_batch().expect("just written")).collect();
    assert_eq!(flat(&back), flat(&sharing()));
    let totals = reader.totals();
    assert_eq!((totals.instructions, totals.loads, totals.stores), (4, 4, 3), "one store did not happen");
    let e = from_bytes(&of_version(5, bytes)).expect_err("a block of version 6").to_string();
    assert!(e.contains("shared address words; version 5 has none") && e.contains("chunk 0"), "{e}");
}

#[test]
fn a_reference_that_did_not_happen_shares_no_word() {
    let absent = |word: usize| {
        let mut batches = sharing();
        let mut words = [0x5000, 0x6000];
        words[word] = NOT_EXECUTED;
        batches[0].push_block(7, &words);
        batches
    };
    let mut w = TraceWriter::to_stream(Shared::default(), "memory", Header::default()).expect("a header");
    w.write(&absent(1)[0]).expect("a word of its own");
    for why in [
        w.write(&absent(0)[0]).and_then(|()| w.finish().map(|_| ())).expect_err("a shared word").to_string(),
        check(&mut Checks(absent(0))).expect("nothing to read").violation.expect("a shared word").what,
    ] {
        assert!(why.contains("block 7 did not happen, and shares its address word"), "{why}");
    }
    assert_eq!(check(&mut Checks(absent(1))).expect("nothing to read").violation, None);
}

/// Batches, last one first.
struct Checks(Vec<Batch>);

impl Source for Checks {
    fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
        Ok(self.0.pop())
    }
}

#[test]
fn a_page_trace_says_so_before_all_else() {
    let mut late = sharing();
    late[0].push_op(Op::Pages);
    let violation = check(&mut Checks(late)).expect("nothing to read").violation.expect("it is late");
    assert!(violation.what.contains("stands behind events or references"), "{}", violation.what);
    let bytes = to_bytes(&drain(farreach_trace::Pages::new(Checks(sharing()))));
    assert!(from_bytes(&bytes).is_ok());
    let opened = |bytes: &[u8]| {
        let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "memory").expect("bytes");
        open_input(input, None).expect("a trace")
    };
    let e = farreach_trace::to_lackey(opened(&bytes), Vec::new(), "text").expect_err("no addresses").to_string();
    assert!(e.contains("page trace") && e.contains("memory"), "{e}");
    let e = from_bytes(&of_version(5, bytes)).expect_err("a mark of version 6").to_string();
    assert!(e.contains("the mark of a page trace; version 5 has none"), "{e}");
}

#[test]
fn earlier_versions_have_no_events_of_systems() {
    let bytes = of_version(3, to_bytes(&every_guest_event()));
    let e = from_bytes(&bytes).expect_err("an event of version 4").to_string();
    assert!(e.contains("an event of a whole system; version 3 has none"), "{e}");
    // A program that has begun becomes no system.
    let mut w = TraceWriter::to_stream(Shared::default(), "memory", Header::default()).expect("a header");
    w = w.with_chunks_of(100);
    drain(generate::program(1, 400)).iter().for_each(|b| w.write(b).expect("a program"));
    let e = w.write(&every_guest_event()[0]).expect_err("no system").to_string();
    assert!(e.contains("in the trace of a program"), "{e}");
}

/// The corpus of the fuzzer was written in version 1, by the generators named here.
#[test]
fn traces_of_version_1_are_read() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frt");
    for seed in 0..4 {
        let bytes = std::fs::read(folder.join(format!("program-{seed}"))).expect("part of the repository");
        assert_eq!(bytes[8..12], 1u32.to_le_bytes());
        let (_, back) = from_bytes(&bytes).expect("whole");
        assert_eq!(flat(&back), flat(&drain(generate::program(seed, 2 + 10 * seed))));
    }
}

/// Steps for executions that are as predicted came with version 3.
#[test]
fn earlier_versions_know_four_steps() {
    let bytes = of_version(2, to_bytes(&drain(generate::program(1, 400))));
    let e = from_bytes(&bytes).expect_err("a step of version 3").to_string();
    assert!(e.contains("; 0 to 3 are known") && e.contains("chunk 0"), "{e}");
}

#[test]
fn chunks_of_any_length_hold_the_same_stream() {
    let batches = drain(generate::program(5, 400));
    for words in [1, 2, 100, 1 << 23] {
        let file = Shared::default();
        let w = TraceWriter::to_stream(file.clone(), "memory", header()).expect("a header");
        let mut w = w.with_chunks_of(words);
        batches.iter().for_each(|b| w.write(b).expect("a good batch"));
        w.finish().expect("room");
        let (_, back) = from_bytes(&file.0.lock().expect("finished")).expect("just written");
        assert!(flat(&back) == flat(&batches), "chunks of {words} words");
    }
}

#[test]
fn skipping_leaves_out_references_but_no_event() {
    let batches = drain(generate::program(3, 60_000));
    let bytes = to_bytes(&batches);
    let all = check(&mut farreach_trace::Checked::new(Replay(batches.into_iter()), "memory")).expect("sound");
    let mut reader = FrtReader::new(Input::from_stream(Box::new(Cursor::new(bytes)), "memory").expect("m")).expect("m");
    reader.skip_before(all.totals.instructions / 2);
    let report = check(&mut reader).expect("whole");
    assert_eq!(report.violation, None);
    assert_eq!((report.totals.ops, report.totals.blocks), (all.totals.ops, all.totals.blocks));
    assert!(report.totals.instructions >= all.totals.instructions / 2);
    assert!(report.totals.instructions < all.totals.instructions);
    assert_eq!(reader.totals().instructions, all.totals.instructions);
}

struct Replay(std::vec::IntoIter<Batch>);

impl Source for Replay {
    fn next_batch(&mut self) -> Result<Option<Batch>, farreach_types::Error> {
        Ok(self.0.next())
    }
}

#[test]
fn what_breaks_the_contract_is_not_written() {
    let define = Op::Define { id: 1, block: block(&[(16, 4)], &[(1, Kind::Load, 8)]) };
    let other = Op::Define { id: 1, block: block(&[(16, 4)], &[]) };
    let late = Op::Define { id: MAX_BLOCKS, block: block(&[(16, 4)], &[]) };
    let unsorted = Op::Define { id: 2, block: block(&[(16, 4)], &[(1, Kind::Load, 8), (0, Kind::Load, 8)]) };
    let long = Op::Define { id: 2, block: block(&vec![(16, 4); (1 << 16) + 1], &[]) };
    let path = Op::Start { pid: 1, parent: None, program: "x".repeat((1 << 16) + 1).into() };
    let name = Op::Guest(Guest::Name("x".repeat((1 << 16) + 1).into()));
    let table = Op::Guest(Guest::Entries { address: 0xff8, values: [1, 2].into() });
    let bytes = Some((1, 4096));
    let invalid = Invalidate { tag: None, bytes, global: false, leaves: false, broadcast: false };
    let invalid = Op::Guest(Guest::Invalidate(invalid));
    for (ops, words, expected) in [
        (vec![], vec![1], "never defined"),
        (vec![define.clone()], vec![OP_BIT, block_word(1, 1)], "needs 1 address, with 0 words left"),
        (vec![define.clone()], vec![OP_BIT, block_word(1, 2), 0, 0], "has 1 address, its execution announces 2"),
        (vec![define.clone()], vec![OP_BIT | 1], "event 1 of 1"),
        (vec![define, other], vec![OP_BIT, OP_BIT | 1], "defined twice"),
        (vec![late], vec![OP_BIT], "not below"),
        (vec![unsorted], vec![OP_BIT], "stands after"),
        (vec![long], vec![OP_BIT], "a file takes"),
        (vec![path], vec![OP_BIT], "a file takes"),
        (vec![name], vec![OP_BIT], "a file takes"),
        (vec![table], vec![OP_BIT], "not in one frame"),
        (vec![invalid], vec![OP_BIT], "multiples of 4096"),
    ] {
        let folder = folder("refused");
        let dir = folder.path();
        let mut w = TraceWriter::create(dir.join("t.frt"), Header::default()).expect("room");
        let e = w.write(&Batch { asid: Asid(0), words, ops }).expect_err(expected).to_string();
        assert!(e.contains(expected), "{e}");
        assert!(w.write(&Batch::new(Asid(0))).is_err());
        assert!(w.finish().is_err());
        assert_eq!(std::fs::read_dir(dir).expect("there").count(), 0, "no file is left");
    }
}

#[test]
fn a_file_has_its_name_only_when_it_is_finished() {
    let folder = folder("names");
    let dir = folder.path();
    let path = dir.join("t.frt");
    let mut w = TraceWriter::create(&path, Header::default()).expect("room");
    w.write(&small()[0]).expect("good");
    assert!(!path.exists());
    drop(w);
    assert_eq!(std::fs::read_dir(dir).expect("there").count(), 0);
    let mut w = TraceWriter::create(&path, Header::default()).expect("room");
    w.write(&small()[0]).expect("good");
    let totals = w.finish().expect("room");
    let (index, read) = farreach_trace::frt::reader::read_index(&path).expect("finished");
    assert_eq!((index.len(), read), (1, totals));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for threads in [1, 2] {
        let w = TraceWriter::create_on("/dev/full", Header::default(), threads).expect("it opens");
        let mut w = w.with_chunks_of(1 << 20);
        let result = drain(generate::uniform(1, 1 << 20, 3_000_000)).iter().try_for_each(|b| w.write(b));
        let e = result.and_then(|()| w.finish().map(|_| ())).expect_err("no room").to_string();
        assert!(e.contains("/dev/full") && e.contains("space"), "{threads} threads: {e}");
    }
}

#[test]
fn detection_finds_it_behind_any_compression() {
    let bytes = to_bytes(&small());
    let packed = zstd::encode_all(&bytes[..], 1).expect("memory");
    for (data, compression) in [(bytes, None), (packed, Some("zst"))] {
        let opened = open_input(Input::from_stream(Box::new(Cursor::new(data)), "m").expect("m"), None).expect("known");
        assert_eq!((opened.info.format, opened.info.compression), ("frt", compression));
        assert_eq!(opened.info.header, Some(header()));
        assert_eq!(flat(&drain_box(opened.source)), flat(&small()));
    }
}

fn drain_box(mut source: Box<dyn Source + Send>) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().expect("whole")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_come_back(seed: u64, steps in 1u64..400) {
        let batches = drain(generate::program(seed, steps));
        let back = from_bytes(&to_bytes(&batches)).expect("just written").1;
        prop_assert!(flat(&back) == flat(&batches));
    }

    #[test]
    fn random_systems_come_back(
        seed: u64,
        steps in 1u64..3000,
        flips in prop::collection::vec((0.0f64..1.0, 0u8..8), 1..4),
    ) {
        let batches = drain(generate::system(seed, steps));
        let good = to_bytes(&batches);
        prop_assert!(flat(&from_bytes(&good).expect("just written").1) == flat(&batches));
        let mut bytes = good.clone();
        for (at, bit) in flips {
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] ^= 1 << bit;
        }
        prop_assert!(bytes == good || from_bytes(&bytes).is_err());
    }

    #[test]
    fn random_words_come_back(addrs in prop::collection::vec(prop::num::u64::ANY, 0..600), cut in 1usize..50) {
        let mut batches = vec![Batch::new(Asid(0))];
        batches[0].push_op(Op::Define { id: 9, block: block(&[(64, 4)], &[(0, Kind::Load, 8), (1, Kind::Store, 8)]) });
        batches[0].push_op(Op::Define { id: 2, block: block(&[(32, 4)], &[(1, Kind::Load, 8)]) });
        for (i, pair) in addrs.chunks(3).enumerate() {
            if i % cut == 0 {
                batches.push(Batch::new(Asid((i / cut % 3) as u32)));
            }
            let batch = batches.last_mut().expect("one");
            match *pair {
                [a, b, c] => { batch.push_block(9, &[a, b]); batch.push_block(2, &[c]); }
                [a, b] => batch.push_block(9, &[a, b]),
                [a] => batch.push_block(2, &[a]),
                _ => {}
            }
        }
        let back = from_bytes(&to_bytes(&batches)).expect("just written").1;
        prop_assert_eq!(flat(&back), flat(&batches));
    }

    #[test]
    fn flipped_bits_are_found(seed: u64, flips in prop::collection::vec((0.0f64..1.0, 0u8..8), 1..4)) {
        let batches = drain(generate::program(seed, 200));
        let good = to_bytes(&batches);
        let mut bytes = good.clone();
        for (at, bit) in flips {
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] ^= 1 << bit;
        }
        if let Ok((_, back)) = from_bytes(&bytes) {
            prop_assert!(bytes == good && flat(&back) == flat(&batches));
        }
    }
}
