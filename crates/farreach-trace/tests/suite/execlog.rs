//! Is text of QEMU's execlog read with its threads, and is anything else refused?

use crate::texts::{damages, found, open, read};
use farreach_trace::check;
use farreach_types::event::Kind::{Fetch, Load, Store};

const TEXT: &str = "0, 0xa12, 0xf8012400, \"movs r4, #0\"\n\
                    0, 0xa14, 0xf87f42b4, \"cmp r4, r6\", load, 0x00001230, store, 0x00001234\n\
                    7, 0x4000801a30, 0xd65f03c0, \"ldr x0, [x1]\", x0 -> 0x0000004000800530, load, 0x4000800530\n\
                    0, 0xa18, 0x1, \"nop\"\n\n";

#[test]
fn a_program_with_threads() {
    let (format, refs) = found(TEXT).expect("good");
    assert_eq!(format, "execlog");
    let expected = [
        (0, Fetch, 0xa12, 1),
        (0, Fetch, 0xa14, 1),
        (0, Load, 0x1230, 1),
        (0, Store, 0x1234, 1),
        (0, Fetch, 0x40_0080_1a30, 1),
        (0, Load, 0x40_0080_0530, 1),
        (0, Fetch, 0xa18, 1),
    ];
    assert_eq!(refs, expected);
    let report = check(&mut *open(TEXT.as_bytes(), None).expect("good").source).expect("good");
    assert_eq!((report.violation, report.spaces[0].threads), (None, 2));
    assert_eq!((report.events["thread_start"], report.events["switch"]), (2, 2));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (line, expected) in [
        ("0, 0xa, 0x1, nop", "allowed is 'PROCESSOR, 0xINSTRUCTION, 0xBYTES, \"TEXT\"'"),
        ("0, 0xa, 0x1, \"nop", "allowed is"),
        ("0, 0xa, \"nop\"", "column 3"),
        ("0, 0xa, 0x1, 0x2, \"nop\"", "allowed is"),
        ("x, 0xa, 0x1, \"nop\"", "column 1"),
        ("0, a, 0x1, \"nop\"", "column 2"),
        ("0, 0x1ffffffffffffffff, 0x1, \"nop\"", "column 2"),
        ("0, 0xa, 1, \"nop\"", "column 3"),
        ("0, 0xa, 0x1, \"nop\", load", "column 6: '0, 0xa, 0x1, \"nop\", load': an address is missing here"),
        ("0, 0xa, 0x1, \"nop\", load, 12", "column 6"),
        ("0, 0xa, 0x1, \"nop\", load, 0xffffffffffffffff", "the last byte must lie below 2^64-1"),
        ("0, 0xa, 0x1, \"nop\", lead, 0x12", "column 5: '0, 0xa, 0x1, \"nop\", lead, 0x12': 'lead' is not allowed"),
        (
            "0, 0xa, 0x1, \"nop\", load, 0x12, RAM",
            "'RAM' is the name of a device, so this is the log of a whole system",
        ),
        ("0, 0xa, 0x1, \"nop\", load, 0x12,", "column 7"),
    ] {
        let e = read(format!("0, 0x1, 0x1, \"nop\"\n{line}\n"), "execlog").expect_err(line);
        assert!(e.starts_with("t: line 2") && e.contains(expected), "{line}: {e}");
    }
    assert!(read("0, 0x1, 0x1, \"nop\"", "execlog").expect_err("cut").contains("the trace is cut"));
}

#[test]
fn damage_is_refused_or_leaves_the_references_as_many() {
    damages(TEXT, "execlog");
}
