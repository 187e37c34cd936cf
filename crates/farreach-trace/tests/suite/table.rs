//! Is a text with columns read as the user says, and is anything else refused with line and column?

use crate::texts::{Ref, damages, read};
use farreach_types::event::Kind::{Fetch, Load, Store};

const CSV: &str = "time,op,address,bytes,who\n17,R,0x7ffe0010,8,4711\n# a comment\n19, W ,0x7ffe0018,4,4711\n\n\
                   20,\"R\",4096,1,4712\n21,I,0x401000,15,4711\n";

#[test]
fn columns_are_what_the_user_says() {
    let csv = read(CSV, "text:address=3,kind=2,size=4,pid=5,separator=comma,header=1").expect("good");
    let expected: [Ref; 4] =
        [(0, Load, 0x7ffe_0010, 8), (0, Store, 0x7ffe_0018, 4), (1, Load, 4096, 1), (0, Fetch, 0x40_1000, 15)];
    assert_eq!(csv, expected);
    // Without kind, size and process.
    let plain = read("10\n\t0xff  \r\n", "text:address=1").expect("good");
    assert_eq!(plain, [(0, Load, 10, 1), (0, Load, 0xff, 1)]);
    let hex = read("10 x\n0XfF y\n", "text:address=1,base=16").expect("good");
    assert_eq!(hex, [(0, Load, 16, 1), (0, Load, 255, 1)]);
    // As some tools of Pin write: signs before the blanks are no part of numbers.
    let signs = read("0x40: R 0x60; TID: 7\n", "text:instruction=1,kind=2,address=3,pid=5").expect("good");
    assert_eq!(signs, [(0, Fetch, 0x40, 1), (0, Load, 0x60, 1)]);
    let own = read("0 a 1\n1 b 2\n2 c 3\n", "text:address=3,kind=2,load=a|x,store=b,modify=c").expect("good");
    assert_eq!(own, [(0, Load, 1, 1), (0, Store, 2, 1), (0, Load, 3, 1), (0, Store, 3, 1)]);
    let skipped = read("0 a x\n1 b 2\n", "text:address=3,kind=2,skip=a,store=b").expect("good");
    assert_eq!(skipped, [(0, Store, 2, 1)]);
    let free = read("1;a\n2;b;c d\n3\n", "text:address=1,separator=;,more=2").expect("good");
    assert_eq!(free.len(), 3);
    let quotes = read("\"a, b\",7\n\"\",8\n,9\n", "text:address=2,separator=comma").expect("good");
    assert_eq!(quotes, [(0, Load, 7, 1), (0, Load, 8, 1), (0, Load, 9, 1)]);
    let tabs = read("R\t\t5\n", "text:address=3,kind=1,separator=tab").expect("good");
    assert_eq!(tabs, [(0, Load, 5, 1)]);
    let comments = read("// x\n5\n", "text:address=1,comment=//").expect("good");
    assert_eq!(comments.len(), 1);
}

/// A load and a store of one instruction follow one fetch; each turn of a loop has its own.
#[test]
fn instructions_are_fetched_once_for_each_execution() {
    let text = "1 R 9 0\n1 W 9 0\n1 R 9 0\n1 R 9 0\n2 W 9 0\n2 W 9 0\n2 R 9 0\n2 W 9 1\n";
    let refs = read(text, "text:instruction=1,kind=2,address=3,pid=4").expect("good");
    let fetches: Vec<_> = refs.iter().filter(|r| r.1 == Fetch).map(|r| (r.0, r.2)).collect();
    assert_eq!(fetches, [(0, 1), (0, 1), (0, 1), (0, 2), (0, 2), (0, 2), (1, 2)]);
    assert_eq!(refs.len(), 15);
    // What is fetched has its address in its own column.
    assert_eq!(read("0 I 16\n", "text:instruction=1,kind=2,address=3").expect("good"), [(0, Fetch, 16, 1)]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let spec = "text:address=2,kind=1,size=3,pid=4";
    for (line, expected) in [
        ("X 0x10 4 1", "line 2, column 1: 'X 0x10 4 1': kind 'X' is not known: known are F, FETCH"),
        ("R 10g 4 1", "line 2, column 2: 'R 10g 4 1': '10g' is not allowed: allowed are decimal numbers"),
        ("R ff 4 1", "--base 16 reads it"),
        ("R 0x 4 1", "column 2"),
        ("R -1 4 1", "column 2"),
        ("R +1 4 1", "column 2"),
        ("R 0x10000000000000000 4 1", "'0x10000000000000000' has more than 64 bits"),
        ("R 18446744073709551616 4 1", "has more than 64 bits"),
        ("R 0xffffffffffffffff 4 1", "the last byte must lie below 2^64-1"),
        ("R 0xfffffffffffffff0 16 1", "the last byte must lie below 2^64-1"),
        ("R 0x10 0 1", "line 2, column 3: 'R 0x10 0 1': size '0' is not allowed: size must be from 1 to 65536"),
        ("R 0x10 65537 1", "size must be from 1 to 65536"),
        ("R 0x10 4294967297 1", "size must be from 1 to 65536"),
        ("I 0x10 65 1", "size must be from 1 to 64"),
        ("R 0x10 4 x", "line 2, column 4"),
        ("R 0x10 4", "line 2, column 4: 'R 0x10 4': the line has 3 columns, and column 4 is named"),
        ("R 0x10 4 1 W", "the line has 5 columns, the first had 4; 'more=N' in --columns allows any from N on"),
        ("R 0x10 4 1 W 0x20 4 1", "the line has 8 columns"),
    ] {
        let e = read(format!("W 0x8 4 1\n{line}\n"), spec).expect_err(line);
        assert!(e.starts_with("t: line 2") && e.contains(expected), "{line}: {e}");
    }
    for (text, expected) in [
        ("", "the trace is empty"),
        ("# nothing\n", "has no references"),
        ("W 0x8 4 1\nR 0x10 4 1", "line 2: the last line, 'R 0x10 4 1', does not end: the trace is cut"),
        ("W 0x8 4 1\nR 0x1", "does not end"),
    ] {
        let e = read(text, spec).expect_err(text);
        assert!(e.contains(expected), "{text}: {e}");
    }
    let e = read(format!("1 {}\n", "x".repeat(1 << 18)), "text:address=1").expect_err("long");
    assert!(e.contains("line 1: the line has more than 262144 bytes"), "{e}");
    let comma = |text: &str| read(text, "text:address=1,separator=comma").expect_err(text);
    assert!(comma("\"5\n").contains("the quotes are not closed"));
    assert!(comma("\"5\"6\n").contains("column 1: '\"5\"6': something stands behind the closing quotes"));
}

#[test]
fn settings_that_say_nothing_are_refused() {
    for (spec, expected) in [
        ("text", "t: format text: the column of addresses is not named: say --columns address=N"),
        ("text:kind=1", "the column of addresses is not named"),
        ("text:adress=1", "there is no 'adress': allowed are address, kind"),
        ("text:address", "allowed is KEY=VALUE"),
        ("text:address=", "address has no value"),
        ("text:address=1,address=2", "address stands twice"),
        ("text:address=0", "address = 0 is not allowed: allowed are columns from 1 to 1000"),
        ("text:address=99999999999999999999", "allowed are columns from 1 to 1000"),
        ("text:address=1,base=8", "base = 8 is not allowed: allowed are 10, 16 and auto"),
        ("text:address=1,header=x", "header: allowed is a number of lines"),
        ("text:address=1,separator=ab", "separator = ab is not allowed: allowed are space, comma"),
        ("text:address=1,separator=a", "separator = a is not allowed"),
        ("text:address=1,load=R", "no column of kinds"),
        ("text:address=1,kind=2,load=R|x,store=x", "the word 'x' is told of two kinds"),
        ("text:address=2,more=2", "more = 2 is not allowed"),
        ("lackey:address=2", "the format lackey takes no settings, and got 'address=2'"),
        ("elf:address=2", "there is no format 'elf'"),
    ] {
        let e = read("1 R\n", spec).expect_err(spec);
        assert!(e.contains(expected), "{spec}: {e}");
    }
}

#[test]
fn damage_is_refused_or_leaves_the_references_as_many() {
    damages(CSV, "text:address=3,kind=2,size=4,pid=5,separator=comma,header=1");
    damages("0x10 R 4\n0x20 W 8\n0x30 R 4\n", "text:address=1,kind=2,size=3");
}
