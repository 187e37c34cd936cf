//! Is Lackey text, plain or compressed, read to the last reference, and is anything else refused with its line?

use std::io::Cursor;

use crate::archive::{KINDS, pack};
use proptest::prelude::*;

use farreach_trace::{Input, Opened, Summary, open_input, open_trace, recover, summarize, to_frt, to_lackey};
use farreach_types::event::*;

fn open(bytes: &[u8]) -> Result<Opened, farreach_types::Error> {
    open_input(Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "t")?, None)
}

/// All references, and how many blocks were defined.
fn read(bytes: &[u8]) -> Result<(Vec<Access>, usize), farreach_types::Error> {
    let mut source = open(bytes)?.source;
    let mut blocks = Blocks::default();
    let (mut out, mut defined) = (Vec::new(), 0);
    while let Some(batch) = source.next_batch()? {
        assert_eq!(batch.asid.0, 0);
        let expanded = blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => out.push(a),
                Item::Op(Op::Define { .. }) => defined += 1,
                Item::Op(op) => panic!("no such event in this text: {op:?}"),
            }
            true
        });
        expanded.expect("a sound stream");
    }
    Ok((out, defined))
}

fn access(kind: Kind, addr: u64, size: u32) -> Access {
    Access { kind, addr, size }
}

const GOLDEN: &str = concat!(
    "==4711== Lackey, an example Valgrind tool\n--4711-- warning: something\n\n",
    "I  0401ab70,3\nI  0401ab73,5\n S 1fff0005e8,8\nI  0401B770,1\n M 04033e06,1\n L 04033ad0,16\n",
    "==4711== \nI  00000001,64\n S 0,65536\n"
);

#[test]
fn golden_text() {
    use Kind::*;
    let (refs, blocks) = read(GOLDEN.as_bytes()).expect("good");
    let expected = [
        access(Fetch, 0x401ab70, 3),
        access(Fetch, 0x401ab73, 5),
        access(Store, 0x1fff0005e8, 8),
        access(Fetch, 0x401b770, 1),
        access(Load, 0x4033e06, 1),
        access(Store, 0x4033e06, 1),
        access(Load, 0x4033ad0, 16),
        access(Fetch, 1, 64),
        access(Store, 0, 65536),
    ];
    assert_eq!(refs, expected);
    assert_eq!(blocks, 3);
}

/// Options of Valgrind that add to the text, and what editors and Windows do to it.
#[test]
fn what_adds_nothing_is_passed_over() {
    let plain = "I  0401ab70,3\n S 1fff0005e8,8\nI  0401B770,1\n M 04033e06,1\n";
    let expected = read(plain.as_bytes()).expect("good");
    let time = "==00:00:00:00.790 18071== ";
    for text in [
        plain.replace('\n', " \n"),
        plain.replace('\n', "\t \r\n"),
        plain.replace("I  ", "SB 0401ab70\nI  "),
        plain.replace("I  ", "SB 0401ab70 \r\nI  "),
        format!("{time}Lackey, an example\n{time}\n{plain}{time}Exit code:       0\n"),
        format!("--00:00:01:12.790 1-- Valgrind options:\n{plain}"),
        format!("SB 0401ab70\n{plain}"),
        format!("**18071** the program prints\n**00:00:01:12.790 1** more\n{plain}"),
    ] {
        assert!(read(text.as_bytes()).expect("good") == expected, "{text}");
    }
}

#[test]
fn data_without_instructions_is_read_too() {
    let mut text = String::from(" L 10,4\n S 20,4\nI  100,4\n L 30,4\n");
    // More references after one instruction than a block takes.
    (0..1000).for_each(|i| text.push_str(&format!(" L {:x},1\n", 0x1000 + i)));
    let (refs, _) = read(text.as_bytes()).expect("good");
    assert_eq!(refs.len(), 1004);
    assert_eq!(refs[1003], access(Kind::Load, 0x1000 + 999, 1));
}

#[test]
fn repeated_code_is_defined_once() {
    let turn = "I  1000,4\nI  1004,4\n L 2000,8\nI  1008,2\n";
    let (refs, blocks) = read(turn.repeat(5000).as_bytes()).expect("good");
    assert_eq!((refs.len(), blocks), (20_000, 1));
}

#[test]
fn anything_else_is_refused_with_its_line() {
    for (line, expected) in [
        ("J  1000,4", "allowed are 'I  ADDRESS,SIZE'"),
        ("I 1000,4", "allowed are"),
        ("I  1000", "allowed are"),
        ("I  1000,", "allowed are"),
        ("I  ,4", "allowed are"),
        ("I  0x1000,4", "allowed are"),
        ("I  1000,4 x", "--log-file=FILE"),
        ("I  1000 ,4", "allowed are"),
        ("I  1000,-4", "allowed are"),
        (" L 1000,4a", "allowed are"),
        ("L  1000,4", "allowed are"),
        ("L 1000,4", "the blank in front is missing"),
        ("--12:1:   main Starting", "leave out -d"),
        ("hello", "what the program itself prints"),
        ("SB", "allowed are"),
        ("SB 0x10", "allowed are"),
        ("SB 12345678123456781", "allowed are"),
        ("==12 hello", "allowed are"),
        ("==00:00:00:00.790 hello", "allowed are"),
        ("====", "allowed are"),
        (" L 1000,0", "1 to 65536"),
        (" S 1000,65537", "1 to 65536"),
        (" S 1000,99999999999999999999", "1 to 65536"),
        ("I  1000,65", "1 to 64"),
        (" L 12345678123456781,4", "more than 16 digits"),
        (" L ffffffffffffffff,1", "2^64"),
        (" L fffffffffffffff9,8", "2^64"),
        ("\u{0}", "allowed are"),
    ] {
        let text = format!("I  1000,4\n\n{line}\nI  1004,4\n");
        let e = read(text.as_bytes()).expect_err(line).to_string();
        assert!(e.starts_with("t: line 3: ") && e.contains(expected), "{line}: {e}");
        assert!(e.contains(&line.escape_default().to_string().replace("\\u{0}", "\\x00")), "{line}: {e}");
    }
    read(b"I  1000,4\n L fffffffffffffff7,8\n").expect("the last address there is");
}

#[test]
fn what_is_cut_or_empty_is_refused() {
    for (text, expected) in [
        ("", "empty: no references"),
        (
            "==1== Lackey\n",
            "line 1: the trace ends here and has no references; Lackey writes them with --trace-mem=yes",
        ),
        ("SB 0401ab70\nSB 0401b7e7\n", "line 2: the trace ends here and has no references; Lackey"),
        ("I  1000,4\n L 10,1", "line 2: the last line, ' L 10,1', does not end"),
        ("I  1000,4\n L", "does not end"),
        ("hello\n", "the format is not known: its first line is 'hello'; a text with a line for each reference"),
        ("\u{7f}ELF", "format is not known"),
    ] {
        let e = read(text.as_bytes()).expect_err(text).to_string();
        assert!(e.contains(expected), "{text}: {e}");
    }
    let long = format!("I  1000,4\n==1=={}\n", "x".repeat(1 << 20));
    assert!(read(long.as_bytes()).expect_err("long").to_string().contains("line 2: the line has more than"));
    let e = open_input(Input::from_stream(Box::new(&b"I  1,1\n"[..]), "t").expect("m"), Some("elf"));
    assert!(e.err().expect("no such format").to_string().contains("known are frt, lackey"));
}

/// Text that does not compress well.
fn long_text() -> String {
    (0..20_000u64)
        .map(|i| format!("I  {:08x},4\n L {:x},8\n", 4 * (i % 50), i.wrapping_mul(0x9e3779b97f4a7c15) >> 20))
        .collect()
}

#[test]
fn compressed_text_of_one_or_more_members_is_read_and_a_cut_is_found() {
    let text = long_text();
    let expected = read(text.as_bytes()).expect("good").0;
    for kind in KINDS {
        let whole = pack(kind, &[text.as_bytes()]);
        let opened = open(&whole).expect(kind);
        assert_eq!((opened.info.format, opened.info.compression), ("lackey", Some(kind)));
        assert!(read(&whole).expect(kind).0 == expected, "{kind}");
        let (a, b) = text.split_at(text.len() / 3);
        let two = pack(kind, &[a.as_bytes(), b.as_bytes()]);
        assert!(read(&two).expect(kind).0 == expected, "{kind} of two members");
        for len in [whole.len() / 7, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
            let e = read(&whole[..len]).expect_err(kind).to_string();
            assert!(e.contains("cut") || e.contains("damaged"), "{kind} {len}: {e}");
        }
        let mut bad = whole.clone();
        bad[whole.len() / 2] ^= 0x40;
        // Some damage of a stream without checksums shows only as bad text; the checksums of zstd and lz4 are off here.
        if let Ok((refs, _)) = read(&bad) {
            assert!(["zst", "lz4"].contains(&kind) && refs.len() == expected.len(), "{kind}");
        }
        let trailing = [whole.as_slice(), b"garbage behind"].concat();
        assert!(read(&trailing).is_err(), "{kind}: garbage behind the last member");
    }
}

#[test]
fn a_small_compressed_file_cut_anywhere_is_found() {
    let text = "I  1000,4\n L 2000,8\n".repeat(3);
    for kind in KINDS {
        let whole = pack(kind, &[text.as_bytes()]);
        assert_eq!(read(&whole).expect(kind).0.len(), 6);
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "{kind} cut to {len} of {} bytes", whole.len());
        }
    }
}

#[test]
fn text_to_farreach_trace_to_text() {
    let dir = tempfile::tempdir().expect("a temporary folder").keep();
    let (txt, frt) = (dir.join("t.txt"), dir.join("t.frt"));
    std::fs::write(&txt, long_text()).expect("room");
    let path = |p: &std::path::Path| p.to_str().expect("plain").to_owned();
    let totals = to_frt(open_trace(&path(&txt), None).expect("text"), &path(&frt), 1).expect("room");
    assert_eq!((totals.instructions, totals.loads, totals.stores), (20_000, 20_000, 0));
    let opened = open_trace(&path(&frt), None).expect("a trace");
    assert_eq!(opened.info.header.as_ref().expect("one").more["original_format"], "lackey");
    let mut back = Vec::new();
    let text = to_lackey(opened, &mut back, "memory").expect("room");
    assert_eq!((text.references(), &text.lost[..]), (40_000, &[][..]));
    assert!(
        back == long_text().as_bytes().to_vec()
            || read(&back).expect("good").0 == read(long_text().as_bytes()).expect("good").0
    );
    let summary: Summary = summarize(open_trace(&path(&frt), Some("frt")).expect("a trace")).expect("whole");
    assert_eq!(summary.report.totals, totals);
    assert!(summary.bytes_per_reference.expect("a file") < 4.0);
    let cut = std::fs::read(&frt).expect("written");
    std::fs::write(&frt, &cut[..cut.len() - 200]).expect("room");
    assert!(to_frt(open_trace(&path(&frt), None).expect("a header"), &path(&dir.join("new.frt")), 2).is_err());
    let (whole, why) =
        recover(open_trace(&path(&frt), None).expect("a header"), &path(&dir.join("new.frt")), 2).expect("room");
    assert!(why.expect("it is cut").to_string().contains("whole before it: 0 chunks"));
    assert_eq!(whole.references(), 0);
    assert_eq!(
        summarize(open_trace(&path(&dir.join("new.frt")), None).expect("whole")).expect("whole").report.totals,
        whole
    );
    assert!(open_trace(&path(&dir), None).is_err());
    assert!(open_trace(&path(&dir.join("none")), None).err().expect("none").to_string().contains("none"));
    std::fs::remove_dir_all(&dir).expect("ours");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read() {
    let dir = tempfile::tempdir().expect("a temporary folder").keep();
    let fifo = dir.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::write(fifo, long_text())
    });
    let opened = open_trace(fifo.to_str().expect("plain"), None).expect("text");
    assert_eq!(opened.info.bytes, None);
    assert_eq!(summarize(opened).expect("good").report.totals.references(), 40_000);
    writer.join().expect("it ran").expect("it wrote");
    std::fs::remove_dir_all(&dir).expect("ours");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The reader against a plain parser.
    #[test]
    fn every_reference_comes_in_order(lines in prop::collection::vec((0u8..9, 0u64..200, 1u32..9), 1..3000)) {
        let (mut text, mut expected, mut pc) = (String::new(), Vec::new(), 0x1000);
        for (kind, n, size) in lines {
            let addr = n * n * 37;
            match kind {
                0..5 => {
                    pc = if n == 0 { 0x1000 } else { pc };
                    text.push_str(&format!("I  {pc:08x},{size}\n"));
                    expected.push(access(Kind::Fetch, pc, size));
                    pc += u64::from(size);
                }
                5 => {
                    text.push_str(&format!(" L {addr:x},{size}\n"));
                    expected.push(access(Kind::Load, addr, size));
                }
                6 => {
                    text.push_str(&format!(" S {addr:X},{size}\n"));
                    expected.push(access(Kind::Store, addr, size));
                }
                7 => {
                    text.push_str(&format!(" M {addr:016x},{size}\n"));
                    expected.push(access(Kind::Load, addr, size));
                    expected.push(access(Kind::Store, addr, size));
                }
                _ => text.push_str("==12== \n"),
            }
        }
        if !expected.is_empty() {
            prop_assert_eq!(read(text.as_bytes()).expect("good").0, expected);
        }
    }

    #[test]
    fn any_bytes_end_in_references_or_an_error(
        bytes in prop::collection::vec(prop::num::u8::ANY, 0..300), magic in 0usize..7
    ) {
        let heads: [&[u8]; 7] = [
            b"", b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"I  1000,4\n",
            b"\x89FRT\r\n\x1a\n",
        ];
        let _ = read(&[heads[magic], &bytes].concat());
    }
}
