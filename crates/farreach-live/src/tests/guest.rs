//! Streams of whole systems.

use super::*;
use crate::layout::invalidate;
use farreach_types::event::{Arch, End, Guest, Invalidate, Register};

const MACHINE: [u64; 2] = [1 | 2 << 32, 1 << 30];
/// An execution of block 1 with its address words.
pub(super) const BLOCK: [u64; 3] = [RUN, 0x9000, 0xa000];

/// A system with two processors: block 1 is defined, and address space 1 runs on processor 0.
pub(super) fn begun() -> Vec<u64> {
    let first = [record(record::MACHINE, &MACHINE), record(record::PROCESSOR, &[0])].concat();
    [first, record(record::SPACE, &[1]), define(1)].concat()
}

fn end() -> Vec<u64> {
    [record(record::SUMMARY, &[9, 0, 1, 0, 2, 3, 4, 5, 6, 7]), record(record::END, &[3, 0])].concat()
}

/// The batches of some chunks: address space, events without definitions, executions.
fn batches(chunks: &[Vec<u64>]) -> Result<Vec<(u32, Vec<Op>, usize)>, String> {
    let mut decoder = Decoder::of_system();
    let mut all = Vec::new();
    for words in chunks {
        let decoded = decoder.decode(Asid(0), words.clone(), false)?;
        let batches = decoded.before.into_iter().chain([decoded.batch]);
        all.extend(batches.filter(|b| !b.is_empty()).map(|b| {
            let runs = b.words.iter().filter(|&&w| w == RUN).count();
            let mut events = b.words.iter().filter(|&&w| w & OP_BIT != 0).map(|&w| b.op(w).unwrap().clone());
            let events = events.by_ref().filter(|op| !matches!(op, Op::Define { .. })).collect();
            (b.asid.0, events, runs)
        }));
    }
    Ok(all)
}

fn start(number: u32, program: &str) -> Op {
    Op::Start { pid: number, parent: None, program: program.into() }
}

fn machine() -> Op {
    Op::Guest(Guest::Machine { arch: Arch::X86, processors: 2, memory: 1 << 30 })
}

#[test]
fn a_chunk_is_a_batch_for_each_space_that_runs() {
    let switch = [record(record::SPACE, &[2]), BLOCK.to_vec(), BLOCK.to_vec()].concat();
    let chunk = [begun(), BLOCK.to_vec(), switch, record(record::SPACE, &[2]), record(record::SPACE, &[1])].concat();
    let last = [BLOCK.to_vec(), end()].concat();
    let ended = |asid| (asid, vec![Op::End(End::Exit(3))], 0);
    let expected = vec![
        (0, vec![start(0, "kernel"), machine()], 0),
        (1, vec![start(1, ""), Op::Switch { thread: 0 }], 1),
        (2, vec![start(2, "")], 2),
        (1, vec![], 1),
        ended(0),
        ended(1),
        ended(2),
    ];
    assert_eq!(batches(&[[chunk.clone(), last.clone()].concat()]), Ok(expected.clone()));
    assert_eq!(batches(&[chunk.clone(), last.clone()]), Ok(expected.clone()));
    // The emulator may say what it is.
    assert_eq!(batches(&[record(record::START, &[4711]), chunk, last]), Ok(expected));
}

/// However the words are dealt to chunks, the items of each space are the same, in the same order.
#[test]
fn what_a_processor_does_belongs_to_the_space_that_is_named_behind() {
    let records = [
        begun(),
        BLOCK.to_vec(),
        record(record::PROCESSOR, &[1]),
        record(record::REGISTER, &[0, 0x1234_5000]),
        record(record::PRIVILEGE, &[1]),
        record(record::SPACE, &[2]),
        BLOCK.to_vec(),
        record(record::PROCESSOR, &[0]),
        record(record::SPACE, &[1]),
        BLOCK.to_vec(),
        end(),
    ];
    let register = Op::Guest(Guest::Register { register: Register::Root0, value: 0x1234_5000 });
    let second = vec![start(2, ""), Op::Switch { thread: 1 }, register, Op::Guest(Guest::Privilege { kernel: true })];
    let whole = batches(&[records.concat()]).unwrap();
    assert_eq!(whole[2..4], [(2, second, 1), (1, vec![Op::Switch { thread: 0 }], 1)]);
    let merged = |batches: Vec<(u32, Vec<Op>, usize)>| {
        let mut all: Vec<(u32, Vec<Op>, usize)> = Vec::new();
        for (asid, events, runs) in batches {
            match all.last_mut() {
                Some(last) if last.0 == asid => {
                    last.1.extend(events);
                    last.2 += runs;
                }
                _ => all.push((asid, events, runs)),
            }
        }
        all
    };
    for cut in 1..records.len() {
        let (first, second) = records.split_at(cut);
        assert_eq!(merged(batches(&[first.concat(), second.concat()]).unwrap()), merged(whole.clone()), "{cut}");
    }
}

#[test]
fn every_record_becomes_its_event() {
    let name =
        |number: u64, text: &[u8; 4]| record(record::NAME, &[number | 4 << 32, u64::from(u32::from_le_bytes(*text))]);
    let all = invalidate::TAGGED | invalidate::ADDRESSED | invalidate::LEAVES;
    let words = [
        begun(),
        record(record::ENTRIES, &[0x3ff0, 7, u64::MAX]),
        record(record::INVALIDATE, &[u64::from(all) | 0x1234 << 32, 0x5000, 0x2000]),
        record(record::INVALIDATE, &[u64::from(invalidate::GLOBAL | invalidate::BROADCAST), 0, 0]),
        record(record::EXCEPTION, &[14]),
        record(record::STALE, &[0x7000, 0x1234_5000]),
        name(1, b"init"),
        name(2, b"bash"),
        record(record::SPACE, &[2]),
        name(1, b"true"),
    ];
    let named = |text: &str| Op::Guest(Guest::Name(text.into()));
    let some =
        Invalidate { tag: Some(0x1234), bytes: Some((0x5000, 0x2000)), global: false, leaves: true, broadcast: false };
    let rest = Invalidate { tag: None, bytes: None, global: true, leaves: false, broadcast: true };
    let first = vec![
        start(1, ""),
        Op::Switch { thread: 0 },
        Op::Guest(Guest::Entries { address: 0x3ff0, values: [7, u64::MAX].into() }),
        Op::Guest(Guest::Invalidate(some)),
        Op::Guest(Guest::Invalidate(rest)),
        Op::Guest(Guest::Exception { vector: 14 }),
        Op::Guest(Guest::Stale { page: 0x7000, address: 0x1234_5000 }),
        named("init"),
    ];
    let expected = [(1, first, 0), (2, vec![start(2, "bash")], 0), (1, vec![named("true")], 0)];
    assert_eq!(batches(&[words.concat()]).unwrap()[1..], expected);
}

#[test]
fn a_summary_is_told_beside_the_batches() {
    let decoded = Decoder::of_system().decode(Asid(0), [begun(), end()].concat(), false).unwrap();
    let counts = GuestChecks {
        compared: 9,
        different: 0,
        cuts: 1,
        retries: 0,
        unknown_edges: 2,
        table_frames: 3,
        device: 4,
        early: 5,
        firmware: 6,
        stale: 7,
    };
    assert_eq!(decoded.notices, [Notice::Summary(counts), Notice::Ended { tally: 0 }]);
}

#[test]
fn a_system_that_was_killed_ends_in_all_its_spaces() {
    let mut decoder = Decoder::of_system();
    assert!(decoder.ends(Asid(0), End::Lost).is_empty(), "none has begun");
    let words = [begun(), record(record::SPACE, &[2]), BLOCK.to_vec(), vec![RUN, 0x9000, 0, 0]].concat();
    let decoded = decoder.decode(Asid(0), words, true).unwrap();
    assert_eq!(decoded.counts, Counts { instructions: 3, loads: 1, stores: 1 });
    let ends = decoder.ends(Asid(0), End::Lost);
    assert_eq!(ends.iter().map(|b| b.asid.0).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_cut_is_in_the_space_of_its_block() {
    let words = [begun(), record(record::SPACE, &[2]), BLOCK.to_vec(), record(record::CUT, &[2, 0x1008])].concat();
    let decoded = Decoder::of_system().decode(Asid(0), words, false).unwrap();
    assert_eq!((decoded.batch.asid, decoded.cut.instructions), (Asid(2), 1));
    assert_eq!(decoded.batch.words[decoded.batch.words.len() - 2..], [2 | 1 << 32, 0x9000]);
}

#[test]
fn damaged_records_are_refused_with_their_word_and_value() {
    let after = |words: Vec<u64>| [begun(), words].concat();
    let at = begun().len();
    for (words, place, why) in [
        (BLOCK.to_vec(), 0, "block 1 runs before FR_MACHINE"),
        (define(1), 0, "the first record, and no other, is FR_MACHINE"),
        (record(record::MACHINE, &[4 | 1 << 32, 4096]), 0, "instruction set 4 (1 to 3 allowed)"),
        (record(record::MACHINE, &[1, 4096]), 0, "0 processors"),
        (record(record::MACHINE, &[1 | 1 << 32, 4097]), 0, "0x1001 bytes of memory"),
        (record(record::MACHINE, &[1 | 1 << 32]), 0, "has 1 word (exactly 2 allowed)"),
        (after(record(record::MACHINE, &MACHINE)), at, "the first record, and no other, is FR_MACHINE"),
        (after(record(record::SPACE, &[0])), at, "address space 0 (1 to 2"),
        (after(record(record::SPACE, &[3])), at, "address space 3 (1 to 2"),
        (after(record(record::NAME, &[3 | 1 << 32, 65])), at, "a name of address space 3"),
        (after(record(record::NAME, &[1 | 9 << 32, 65])), at, "exactly 3 allowed"),
        (after(record(record::PROCESSOR, &[2])), at, "the processor, is 0x2 (0 to 0x1 allowed)"),
        (after([record(record::PROCESSOR, &[1]), BLOCK.to_vec()].concat()), at + 2, "no FR_SPACE has told"),
        (after(record(record::PRIVILEGE, &[2])), at, "the privilege, is 0x2"),
        (after(record(record::REGISTER, &[3, 0])), at, "the register, is 0x3"),
        (after(record(record::ENTRIES, &[0x1004, 1])), at, "8 bytes of a table at 0x1004"),
        (after(record(record::ENTRIES, &[0x1ff8, 1, 2])), at, "16 bytes of a table at 0x1ff8"),
        (after(record(record::ENTRIES, &[0x1000])), at, "0 bytes of a table at 0x1000"),
        (after(record(record::INVALIDATE, &[32, 0, 0])), at, "flags 0x20"),
        (after(record(record::INVALIDATE, &[1 | 0x10000 << 32, 0, 0])), at, "tag 0x10000"),
        (after(record(record::INVALIDATE, &[2, 0x1001, 0x1000])), at, "0x1001, not a multiple"),
        (after(record(record::INVALIDATE, &[2, 0x1000, 0])), at, "0x0 bytes from 0x1000"),
        (after(record(record::EXCEPTION, &[1 << 32])), at, "the vector, is 0x100000000"),
        (after(record(record::STALE, &[0x1000, 8])), at, "word 1 is 0x8, not a multiple of 4096"),
        (after(record(record::SUMMARY, &[0; 7])), at, "exactly 10 allowed"),
        (after(record(record::END, &[0, 0])), at, "FR_SUMMARY is the last record before FR_END"),
        (after([end(), BLOCK.to_vec()].concat()), at + end().len(), "block 1 runs behind FR_END"),
        (after([end(), record(record::EXCEPTION, &[1])].concat()), at + end().len(), "stands behind FR_END"),
        (after(record(record::UNMAP, &[0, 4096])), at, "record 7 is of programs"),
        (record(record::START, &[1]).into_iter().chain(BLOCK).collect(), 2, "block 1 runs before FR_MACHINE"),
        (after(record(record::START, &[1])), at, "record 2 is of programs"),
        (after(record(99, &[1])), at, "unknown record 99"),
    ] {
        let why_not = batches(&[words]).unwrap_err();
        assert!(why_not.starts_with(&format!("word {place}: ")) && why_not.contains(why), "{why}: {why_not}");
    }
    let why = decode(record(record::MACHINE, &MACHINE), false).err().unwrap();
    assert!(why.contains("record 20 is of whole systems; this is the stream of a program"), "{why}");
}

/// Writes the seeds of the fuzzer: `cargo test -p farreach-live --lib -- --ignored write_seeds`.
#[test]
#[ignore = "writes into the repository"]
fn write_seeds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/live");
    let first = [begun(), BLOCK.to_vec(), record(record::CUT, &[2, 0x1008]), record(record::PROCESSOR, &[1])].concat();
    let second = [
        record(record::REGISTER, &[2, 5]),
        record(record::PRIVILEGE, &[1]),
        record(record::ENTRIES, &[0x2000, 7, 9]),
        record(record::SPACE, &[2]),
        BLOCK.to_vec(),
        record(record::NAME, &[1 | 2 << 32, 0x6162]),
        record(record::INVALIDATE, &[3 | 5 << 32, 0x1000, 0x1000]),
        record(record::EXCEPTION, &[14]),
        record(record::STALE, &[0x1000, 0x2000]),
        end(),
    ];
    for (name, torn) in [("system", 0), ("system-torn", 1)] {
        let head = [(first.len() as u8) << 1 | torn];
        let words = first.iter().chain(second.iter().flatten());
        let bytes: Vec<u8> = head.into_iter().chain(words.flat_map(|word| word.to_le_bytes())).collect();
        super::super::fuzz::chunks(&bytes);
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
