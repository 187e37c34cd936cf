//! Is text of DRAMSim read in all its dialects, and is anything else refused?

use crate::texts::{damages, found, read};
use farreach_types::event::Kind::{Fetch, Load, Store};

const K6: &str = "0x3C9D4A40 P_MEM_WR 62\n0x3C9D4A80  P_FETCH    63\n0x3c9d4ac0 P_LOCK_RD 70\n0x10 BOFF 71\n";
const MASE: &str = "0x1F7C4E40 READ 0\n0x1F7C4E40 IFETCH 16\n0x40 WRITE 16\n";
const MISC: &str = "0x1F7C4E40 read\n0x1F7C4E40 write 00ff00FF\n0x40 write\n";

#[test]
fn each_dialect_is_found_and_read() {
    for (text, kinds) in [(K6, vec![Store, Fetch, Load, Store]), (MASE, vec![Load, Fetch, Store])] {
        let (format, refs) = found(text).expect("good");
        assert_eq!(format, "dramsim");
        assert_eq!(refs.iter().map(|r| r.1).collect::<Vec<_>>(), kinds);
    }
    let expected = [(0, Load, 0x1f7c_4e40, 1), (0, Store, 0x1f7c_4e40, 1), (0, Store, 0x40, 1)];
    assert_eq!(found(MISC).expect("good"), ("dramsim", expected.to_vec()));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (line, expected) in [
        ("3C READ 1", "line 2, column 1: '3C READ 1': '3C' is not allowed: allowed are hexadecimal numbers with 0x"),
        ("0x3C REED 1", "column 2: '0x3C REED 1': 'REED' is not allowed: allowed are P_MEM_RD, P_MEM_WR"),
        ("0x3C P_MEM_WR 1", "column 2: '0x3C P_MEM_WR 1': a command of K6 in a text of Mase"),
        ("0x3C READ", "column 3"),
        ("0x3C READ x", "column 3"),
        ("0x3C READ 1 2", "column 4"),
        ("0x10000000000000000 READ 1", "has more than 64 bits"),
        ("0x3C READ 18446744073709551616", "has more than 64 bits"),
        ("0xffffffffffffffff READ 1", "the last byte must lie below 2^64-1"),
    ] {
        let e = read(format!("0x1 READ 0\n{line}\n"), "dramsim").expect_err(line);
        assert!(e.starts_with("t: line 2") && e.contains(expected), "{line}: {e}");
    }
    assert!(read("0x1 READ 0\n0x2 READ 1", "dramsim").expect_err("cut").contains("the trace is cut"));
    assert!(read("0x1 write 0\n0x2 read 1\n", "dramsim").expect_err("data").contains("line 2, column 3"));
}

#[test]
fn damage_is_refused_or_leaves_the_references_as_many() {
    damages(K6, "dramsim");
    damages(MASE, "dramsim");
    damages(MISC, "dramsim");
}
