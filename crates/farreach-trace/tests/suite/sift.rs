//! Are traces of Sniper read as Sniper reads them? Bytes by hand, after the layout of its `sift_format.h`.

use crate::texts::{Ref, checked, damaged, found, read};
use farreach_types::event::Kind::{Fetch, Load, Store};
use std::io::Write;

/// Code and the addresses of its operands, each in its place from 0x40_1000 on.
const PROGRAM: [(&[u8], &[u64]); 14] = [
    (&[0x48, 0x01, 0xd8], &[]),                     // add rax, rbx
    (&[0x8b, 0x44, 0x8f, 0x04], &[0x7000]),         // mov eax, [rdi+rcx*4+4]
    (&[0x55], &[0x7ff8]),                           // push rbp
    (&[0x48, 0x01, 0x07], &[0x7008]),               // add [rdi], rax
    (&[0xff, 0x37], &[0x7010, 0x7ff0]),             // push [rdi]
    (&[0xff, 0x74, 0x24, 0x08], &[0x7ff9, 0x7fe8]), // push [rsp+8]
    (&[0x8f, 0x07], &[0x7018, 0x7fe8]),             // pop [rdi]
    (&[0xff, 0x17], &[0x7020, 0x7fe0]),             // call [rdi]
    (&[0xf3, 0xa4], &[0x8000, 0x9000]),             // rep movsb
    (&[0xa6], &[0x9100, 0x8100]),                   // cmpsb
    (&[0x0f, 0x18, 0x0f], &[0x6000]),               // prefetcht0 [rdi]
    (&[0xf2, 0x0f, 0x10, 0x07], &[0x7028]),         // movsd xmm0, [rdi]
    (&[0xc3], &[0x7fe0]),                           // ret
    (&[0x0f, 0x1f, 0x40, 0x00], &[0x6008]),         // nop [rax]
];
const START: u64 = 0x40_1000;

fn record(ty: u8, contents: &[u8]) -> Vec<u8> {
    [&[0, ty][..], &(contents.len() as u32).to_le_bytes(), contents].concat()
}

fn simple(size: usize, addresses: &[u64]) -> Vec<u8> {
    let mut bytes = vec![size as u8 | (addresses.len() as u8) << 4];
    addresses.iter().for_each(|addr| bytes.extend(addr.to_le_bytes()));
    bytes
}

fn extended(size: usize, pc: u64, executed: bool, addresses: &[u64]) -> Vec<u8> {
    let mut bytes = vec![(size as u8) << 4, addresses.len() as u8 | 0x10 | u8::from(executed) << 5];
    bytes.extend(pc.to_le_bytes());
    addresses.iter().for_each(|addr| bytes.extend(addr.to_le_bytes()));
    bytes
}

fn header(options: u64) -> Vec<u8> {
    [&b"SIFT"[..], &[0; 4], &options.to_le_bytes()].concat()
}

/// The program once, then its second instruction twice, the second time not executed.
fn records() -> Vec<Vec<u8>> {
    let mut page = vec![0x90; 4096];
    let (mut at, mut instructions) = (0, Vec::new());
    for (i, (code, addresses)) in PROGRAM.into_iter().enumerate() {
        page[at..at + code.len()].copy_from_slice(code);
        instructions.push(match i {
            0 => extended(code.len(), START, true, addresses),
            _ => simple(code.len(), addresses),
        });
        at += code.len();
    }
    let mut all = vec![record(0, &[&START.to_le_bytes()[..], &page].concat())];
    all.extend(instructions);
    all.push(record(2, &[0; 50])); // a system call
    all.push(record(14, &[1; 16])); // a frame
    all.push(extended(4, START + 3, true, &[0x7100]));
    all.push(extended(4, START + 3, false, &[0x7200]));
    all.push(record(255, &[]));
    all
}

fn zlib(records: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(header(1), flate2::Compression::default());
    encoder.write_all(&records.concat()).expect("memory");
    encoder.finish().expect("memory")
}

/// The golden traces of the fuzzer's corpus.
pub fn golden() -> [Vec<u8>; 2] {
    [[header(8), records().concat()].concat(), zlib(&records())]
}

#[test]
fn kinds_and_sizes_are_those_of_the_instructions() {
    let data: [&[(_, u64, u32)]; 14] = [
        &[],
        &[(Load, 0x7000, 4)],
        &[(Store, 0x7ff8, 8)],
        &[(Load, 0x7008, 8), (Store, 0x7008, 8)],
        &[(Load, 0x7010, 8), (Store, 0x7ff0, 8)],
        &[(Load, 0x7ff9, 8), (Store, 0x7fe8, 8)],
        &[(Load, 0x7fe8, 8), (Store, 0x7018, 8)],
        &[(Load, 0x7020, 8), (Store, 0x7fe0, 8)],
        &[(Load, 0x9000, 1), (Store, 0x8000, 1)],
        &[(Load, 0x9100, 1), (Load, 0x8100, 1)],
        &[],
        &[(Load, 0x7028, 8)],
        &[(Load, 0x7fe0, 8)],
        &[],
    ];
    let (mut pc, mut expected) = (START, Vec::<Ref>::new());
    for ((code, _), refs) in PROGRAM.into_iter().zip(data) {
        expected.push((0, Fetch, pc, code.len() as u32));
        expected.extend(refs.iter().map(|&(kind, addr, size)| (0, kind, addr, size)));
        pc += code.len() as u64;
    }
    expected.extend([(0, Fetch, START + 3, 4), (0, Load, 0x7100, 4), (0, Fetch, START + 3, 4)]);
    for trace in golden() {
        let (format, refs) = found(&trace).expect("a whole trace");
        assert_eq!((format, refs), ("sift", expected.clone()));
    }
}

#[test]
fn code_comes_by_the_instruction_and_may_change() {
    let code = |bytes: &[u8]| record(11, &[&START.to_le_bytes()[..], bytes].concat());
    let trace = [
        header(4),
        code(&[0x8b, 0x07]), // mov eax, [rdi]
        extended(2, START, true, &[0x10]),
        code(&[0x89, 0x07]), // mov [rdi], eax
        extended(2, START, true, &[0x10]),
        record(255, &[]),
    ];
    let expected = [(0, Fetch, START, 2), (0, Load, 0x10, 4), (0, Fetch, START, 2), (0, Store, 0x10, 4)];
    assert_eq!(read(trace.concat(), "sift").expect("good"), expected);
    // In 32 bits, 0x48 is an instruction of its own, and the stack has words of 4 bytes.
    let old = [header(2 | 4), code(&[0x55]), extended(1, START, true, &[0x20]), record(255, &[])];
    assert_eq!(read(old.concat(), "sift").expect("good"), [(0, Fetch, START, 1), (0, Store, 0x20, 4)]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let [good, _] = golden();
    let with = |more: Vec<u8>| [header(0), more, record(255, &[])].concat();
    for (trace, expected) in [
        (with(extended(3, START, true, &[1])), "byte 16: the code at 0x401000 has not come"),
        (with(vec![0x33]), "byte 16: an instruction with 3 addresses"),
        (with(vec![0x30, 0x40]), "flags 0x40"),
        (with(record(24, &[0; 18])), "byte 16: references without instructions"),
        (with(record(25, &[0; 4])), "code of another processor"),
        (with(record(0, &[0; 8])), "a record of type 0 has 8 bytes, which it never has"),
        (with(record(77, &[])), "a record of type 77 with 0 bytes is not known"),
        (with(record(0, &[1; 4104])), "which are no page"),
        ([header(16), vec![0; 40]].concat(), "byte 0: a header of SIFT without additions is needed, and options 0x10"),
        ([&good[..], &[0]].concat(), "something stands behind the end mark"),
        (good[..good.len() - 6].to_vec(), "the trace is cut: it has no end mark"),
        (with(Vec::new()), "has no references"),
    ] {
        let e = read(&trace, "sift").expect_err(expected);
        assert!(e.contains(expected), "{expected}: {e}");
    }
    let code = record(11, &[&START.to_le_bytes()[..], &[0x01, 0xd8]].concat());
    let e = read(with([code, extended(2, START, true, &[1])].concat()), "sift").expect_err("no operand");
    assert!(e.contains("the instruction at 0x401000 has 1 addresses, and 0 operands in memory"), "{e}");
}

/// What is compressed has a checksum: damage is found. Else it can change flags and addresses; the stream is sound all
/// the same.
#[test]
fn damage_is_found_or_leaves_a_sound_stream() {
    let [plain, packed] = golden();
    let whole = checked(&packed, "sift").expect("whole").totals.references();
    for bytes in damaged(&packed) {
        if let Some(report) = checked(&bytes, "sift") {
            assert_eq!(report.totals.references(), whole);
        }
    }
    for bytes in damaged(&plain) {
        checked(&bytes, "sift");
    }
    for trace in golden() {
        for cut in 0..trace.len() {
            // The checksum is behind the end mark.
            assert!(checked(&trace[..cut], "sift").is_none(), "cut at {cut} of {}", trace.len());
        }
    }
}

/// A conditional move that does not move loads all the same.
#[test]
fn a_conditional_move_always_loads() {
    let mut page = vec![0x90; 4096];
    page[..4].copy_from_slice(&[0x48, 0x0f, 0x48, 0x03]); // cmovs (%rbx), %rax
    let code = record(0, &[&START.to_le_bytes()[..], &page].concat());
    let of = |executed| [extended(4, START, executed, &[0x7100])].concat();
    let trace = [header(8), code, of(true), of(false), record(255, &[])].concat();
    let one = [(0, Fetch, START, 4), (0, Load, 0x7100, 8)];
    assert_eq!(found(&trace).expect("a whole trace").1, [one, one].concat());
}
