//! Traces of drmemtrace.

use super::{Given, Ref, golden, opened, program, read, references, target, written};
use farreach_trace::{generate, write_to};
use farreach_types::addr::Asid;
use farreach_types::event::*;

/// Type, size and value of each record.
fn records(bytes: &[u8]) -> Vec<(u16, u16, u64)> {
    assert_eq!(bytes.len() % 12, 0);
    let half = |b: &[u8]| u16::from_le_bytes(b.try_into().unwrap());
    let parse = |r: &[u8]| (half(&r[..2]), half(&r[2..4]), u64::from_le_bytes(r[4..].try_into().unwrap()));
    bytes.chunks(12).map(parse).collect()
}

#[test]
fn golden_records() {
    let (bytes, said) = written(&golden(), "drmemtrace").expect("good");
    let thread = |tid, pid, time| [(22, 4, tid), (24, 4, pid), (28, 2, time), (28, 3, 0)];
    let code = |bytes: &[u8]| {
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        (47, bytes.len() as u16, u64::from_le_bytes(value))
    };
    let gather = (0..8).map(|i| (0, 4, 0xa000 + 0x100 * i));
    let mut expected = vec![(25, 0, 5), (28, 12, 5), (28, 9, 0x1_0240)];
    expected.extend([(22, 4, 1), (24, 4, 1), (28, 10, 64), (28, 18, 4096), (28, 2, 1), (28, 3, 0)]);
    expected.extend([code(&[0x48, 0x8b, 0x07]), (10, 3, 0x1000), (0, 8, 0x7000)]);
    expected.extend([code(&[0x55]), (10, 1, 0x1003), (1, 8, 0x7ffe_fff8)]);
    expected.extend([code(&[0x75, 0x06]), (48, 2, 0x1004)]);
    expected.extend([code(&[0xe8, 0xef, 0x0f, 0, 0]), (14, 5, 0x100c), (1, 8, 0x7ffe_fff0)]);
    expected.extend([code(&[0xff, 0x25, 0xfa, 0xff, 0, 0]), (28, 29, 0x3000), (12, 6, 0x2000), (0, 8, 0x1_2000)]);
    expected.extend([code(&[0xc3]), (28, 29, 0x1011), (16, 1, 0x3000), (0, 8, 0x7ffe_fff0)]);
    expected.extend([code(&[0x75, 0xed]), (49, 2, 0x1011)]);
    expected.extend([code(&[0xf3, 0xa4]), (10, 2, 0x1013), (0, 1, 0x8fff), (1, 1, 0x9000)]);
    expected.extend([(29, 2, 0x1013), (0, 1, 0x8fff), (1, 1, 0x9001)]);
    expected.extend([code(&[0xc4, 0xe2, 0x75, 0x90, 0x14, 0x07]), (10, 6, 0x1015)]);
    expected.extend(gather);
    expected.extend([code(&[0x74, 0x10]), (49, 2, 0x101b)]);
    expected.extend(thread(2, 1, 12));
    // Its bytes are known from the other thread.
    expected.extend([(28, 29, 0), (16, 1, 0x3000), (0, 8, 0x6ffe), (23, 4, 2)]);
    expected.extend(thread(3, 2, 13));
    // The other process has other code there.
    expected.extend([code(&[0x0f, 0x05]), (10, 2, 0x1000), code(&[0xeb, 0xfc]), (11, 2, 0x1002)]);
    expected.extend(thread(1, 1, 15));
    expected.extend([code(&[0x90]), (10, 1, 0x102d), (23, 4, 1), (26, 0, 0)]);
    assert_eq!(records(&bytes), expected);
    let lost = [
        "left out: 1 event of mappings",
        "left out: 3 events of processes",
        "timestamps count instructions: a trace has no times",
        "1 later iteration of string instructions written as no fetch",
        "2 branches written as not taken, or with target 0: what the thread executed next is not known",
    ];
    assert_eq!(said.lost, lost);
}

/// With threads numbered in their process, and processes, in the order of their first references.
fn renumbered(refs: &[Ref]) -> Vec<Ref> {
    let (mut spaces, mut threads) = (Vec::new(), Vec::<(u32, u32)>::new());
    refs.iter()
        .map(|&(space, thread, kind, addr, size)| {
            if !spaces.contains(&space) {
                spaces.push(space);
            }
            if !threads.contains(&(space, thread)) {
                threads.push((space, thread));
            }
            let number = spaces.iter().position(|&other| other == space).expect("it is there");
            let own: Vec<_> = threads.iter().filter(|other| other.0 == space).collect();
            let own = own.iter().position(|other| other.1 == thread).expect("it is there");
            (number as u32, own as u32, kind, addr, size)
        })
        .collect()
}

#[test]
fn what_is_read_back_is_what_was_written() {
    for seed in 0..6 {
        let batches = if seed == 0 { golden() } else { program(seed) };
        let (bytes, said) = written(&batches, "drmemtrace").expect("good");
        let expected = references(Given(batches.into_iter()));
        assert_eq!(said.references(), expected.len() as u64);
        let back = renumbered(&read(&bytes, "drmemtrace"));
        let mut expected = renumbered(&expected);
        if seed == 0 {
            // The second iteration of a string instruction is no fetch.
            let at = expected.iter().rposition(|r| (r.2, r.3) == (Kind::Fetch, 0x1013)).expect("it is there");
            expected.remove(at);
        }
        assert_eq!(back.len(), expected.len());
        let differ = back.iter().zip(&expected).find(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed}");
        let filetype = records(&bytes)[2].2;
        assert_eq!(filetype, if seed == 0 { 0x1_0240 } else { 0x1_0000 });
    }
}

#[test]
fn what_it_cannot_hold_is_refused() {
    let one = |instr: Option<Instr>, refs: &[DataRef]| {
        let mut batch = Batch::new(Asid(0));
        let block = Block { instrs: instr.into_iter().collect(), refs: refs.into() };
        batch.push_op(Op::Define { id: 1, block: std::sync::Arc::new(block) });
        batch.push_block(1, &vec![0x5000; refs.len()]);
        batch
    };
    let mut mixed = golden();
    mixed.push(one(Some(Instr { pc: 0x5000, len: 4 }), &[]));
    let Op::Define { id, .. } = &mut mixed[3].ops[0] else { panic!("a definition") };
    *id = 50;
    mixed[3].words[1] = block_word(50, 0);
    for (batches, expected) in [
        (
            vec![one(Some(Instr { pc: 0x5000, len: 16 }), &[])],
            "an instruction of 16 bytes at 0x5000; 1 to 15 are allowed",
        ),
        (
            vec![one(None, &[DataRef::new(0, Kind::Load, 1 << 16, 0)])],
            "a reference of 65536 bytes at 0x5000; 1 to 65535 are allowed",
        ),
        (mixed, "the bytes of the instruction at 0x5000 are not known; those before it are"),
    ] {
        let e = written(&batches, "drmemtrace").expect_err(expected);
        assert!(e.starts_with("given: address space 0, behind instruction ") && e.contains(expected), "{e}");
    }
    let mut system = generate::system(1, 100);
    let batches = std::iter::from_fn(|| system.next_batch().expect("memory")).collect();
    let e = write_to(opened(batches), target("drmemtrace"), &mut Vec::new(), "memory").expect_err("a system");
    assert!(e.to_string().contains("this is a whole system, and drmemtrace is of programs"), "{e}");
}
