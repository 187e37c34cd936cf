//! Has each instruction the references of a processor, when it runs and when it faults?

use crate::common::{Recording, program, record};
use farreach_live::Exit;
use farreach_types::event::{Access, Kind, Op};

/// Start of the mapping with this number of pages: the last one, since libraries are mapped before.
fn pages(r: &Recording, pages: u64) -> u64 {
    let start = r.ops.iter().rev().find_map(|(_, op)| match op {
        Op::Map(m) if m.len == pages * 4096 => Some(m.start),
        _ => None,
    });
    start.expect("the pages")
}

const L: Kind = Kind::Load;
const S: Kind = Kind::Store;

/// Kind, place in the pages of the operands, and size of each data reference.
type Refs<'a> = &'a [(Kind, u64, u32)];

/// The cases of `instructions.c`: how many instructions are fetched, and their references.
const CASES: [(u64, u64, Refs<'_>); 42] = [
    (1, 1, &[(L, 0, 1)]),
    (2, 2, &[(L, 8, 8)]),
    (3, 2, &[(L, 16, 8)]),
    (4, 2, &[(L, 32, 16)]),
    (5, 2, &[(L, 48, 8), (L, 56, 4)]),
    (6, 2, &[(L, 60, 4)]),
    (7, 3, &[(L, 64, 1), (L, 66, 2)]),
    (8, 1, &[(L, 0, 8), (S, 0, 8)]),
    (9, 1, &[(L, 8, 8), (S, 8, 8)]),
    (10, 1, &[(L, 16, 4), (S, 16, 4)]),
    (11, 1, &[(L, 24, 4), (S, 24, 4)]),
    (12, 1, &[(L, 32, 1), (S, 32, 1)]),
    (13, 1, &[(L, 36, 4), (S, 36, 4)]),
    (14, 1, &[(L, 48, 16), (S, 48, 16)]),
    (15, 1, &[(L, 24, 4), (S, 24, 4)]),
    (16, 1, &[(L, 0, 16)]),
    (17, 1, &[(L, 16, 8)]),
    (18, 2, &[(L, 24, 4)]),
    (19, 1, &[(L, 32, 8)]),
    (20, 1, &[(S, 512, 512)]),
    (21, 1, &[(L, 512, 512)]),
    (22, 2, &[(L, 48, 8)]),
    (23, 2, &[(L, 68, 4), (S, 68, 4)]),
    (24, 2, &[(L, 66, 2), (S, 66, 2)]),
    (25, 2, &[(L, 72, 8), (S, 72, 8)]),
    (26, 4, &[]),
    (27, 6, &[(L, 0, 4), (S, 256, 4), (L, 4, 4), (S, 260, 4), (L, 8, 4), (S, 264, 4)]),
    (28, 4, &[(L, 0, 8), (L, 8, 8)]),
    (29, 4, &[]),
    (30, 6, &[(S, 0, 8), (L, 0, 1), (L, 1, 1)]),
    (31, 3, &[(L, 0, 1)]),
    (32, 1, &[(L, 77, 1)]),
    (40, 1, &[(L, 0, 32)]),
    (41, 1, &[(L, 32, 16)]),
    (42, 1, &[(L, 64, 32)]),
    (43, 1, &[(L, 96, 16)]),
    (44, 1, &[(L, 128, 32)]),
    (45, 1, &[(L, 160, 16)]),
    (46, 1, &[(L, 176, 4)]),
    (47, 2, &[(L, 192, 32)]),
    (48, 4, &[(S, 1024, 576), (S, 1600, 256), (L, 1024, 576), (L, 1600, 256)]),
    (49, 3, &[(S, 1024, 576)]),
];

#[test]
fn every_instruction_has_the_references_of_a_processor() {
    let r = record(&program("instructions", &[]), &[]);
    assert_eq!(r.report.exit, Exit::Code(0), "results of the program");
    let start = pages(&r, 40);
    let all: Vec<Access> = r.accesses.iter().map(|(_, a)| *a).collect();
    let mark = |a: &Access| (a.kind == L && a.addr.wrapping_sub(start) < 4096).then(|| (a.addr - start) / 16);
    let avx2 = std::arch::is_x86_feature_detected!("avx2");
    for (case, fetches, refs) in CASES.iter().filter(|(case, ..)| avx2 || *case < 40) {
        let first = all.iter().position(|a| mark(a) == Some(*case)).unwrap_or_else(|| panic!("case {case}")) + 1;
        let len = all[first..].iter().position(|a| mark(a).is_some()).expect("the next case");
        let seen = &all[first..first + len];
        let data: Vec<_> =
            seen.iter().filter(|a| a.kind != Kind::Fetch).map(|a| (a.kind, a.addr - start - 4096, a.size)).collect();
        assert_eq!(data, *refs, "case {case}");
        // The last is that of the next mark.
        assert_eq!((len - data.len()) as u64, fetches + 1, "fetches of case {case}");
    }
}

/// The program compares what its handlers see with what they see on a processor.
#[test]
fn a_fault_is_where_and_what_it_would_be() {
    let program = program("signals", &[]);
    let run = |case: &str| {
        let native = std::process::Command::new(&program).arg(case).status().unwrap();
        assert!(native.success(), "{case}: natively {native}");
        let r = record(&program, &[case]);
        assert_eq!(r.report.exit, Exit::Code(0), "{case}");
        let start = pages(&r, 44);
        (start, start + 43 * 4096, r.accesses.iter().map(|(_, a)| *a).collect::<Vec<Access>>())
    };
    // This number of instructions after the first store comes the one that faults, which is not executed.
    for (case, between) in [("unused-load", 0), ("division", 2), ("undefined", 0), ("misaligned", 0)] {
        let (start, closed, all) = run(case);
        let store = all.iter().position(|a| a.kind == S && a.addr == start).expect("the store");
        let mut at = all[..store].iter().rfind(|a| a.kind == Kind::Fetch).copied().expect("its fetch");
        for next in all[store..].iter().filter(|a| a.kind == Kind::Fetch).take(between) {
            assert_eq!(next.addr, at.addr + u64::from(at.size), "{case}");
            at = *next;
        }
        let next = all[store..].iter().filter(|a| a.kind == Kind::Fetch).nth(between).expect("the handler");
        assert_ne!(next.addr, at.addr + u64::from(at.size), "{case}: fetched though it faulted");
        assert!(!all.iter().any(|a| a.addr == closed || a.addr == start + 8 && a.size == 16), "{case}");
    }
    for case in ["quotient", "flags"] {
        run(case);
    }
    let (_, closed, all) = run("repeated");
    let written: Vec<usize> = (0..all.len()).filter(|&i| all[i].kind == S && all[i].addr + 16 >= closed).collect();
    let written: Vec<usize> = written.into_iter().filter(|&i| all[i].addr < closed + 4096).collect();
    let addrs: Vec<u64> = written.iter().map(|&i| all[i].addr + 16 - closed).collect();
    assert_eq!(addrs, [0, 8, 16, 24, 32]);
    let repeat = all[written[0] - 1];
    assert!(written.iter().all(|&i| all[i - 1] == repeat), "each iteration is a fetch and a store");
    assert_eq!(all.iter().filter(|a| **a == repeat).count(), 5, "the one that faulted is not fetched");

    let (_, closed, all) = run("pushed");
    let seen: Vec<_> = all.iter().filter(|a| a.addr & !4095 == closed).map(|a| (a.kind, a.addr - closed)).collect();
    assert_eq!(seen, [(S, 4088), (L, 4088)]);

    let (_, closed, all) = run("loop");
    let inside = |a: &&Access| (closed - 32 * 4096..closed).contains(&a.addr);
    let stores: Vec<u64> = all.iter().filter(inside).map(|a| a.addr).collect();
    assert_eq!(stores, (0..32).map(|page| closed - (32 - page) * 4096).collect::<Vec<_>>());
    let first = all.iter().position(|a| inside(&a)).expect("a store");
    let count = |at: u64| all.iter().filter(|a| a.kind == Kind::Fetch && a.addr == at).count();
    let place = all[first - 1];
    assert_eq!((count(place.addr), count(place.addr + u64::from(place.size))), (32, 32));
}

/// Code that changes under another view, that reaches into a page which cannot be read, or that is not there; and
/// signals that a program sends itself.
#[test]
fn code_at_run_time_is_as_on_a_processor() {
    let program = program("code", &[]);
    let run = |case: &str| {
        let native = std::process::Command::new(&program).arg(case).status().unwrap();
        assert!(native.success(), "{case}: natively {native}");
        let r = record(&program, &[case]);
        assert_eq!(r.report.exit, Exit::Code(0), "{case}");
        r
    };
    for case in ["views", "jumps", "sent"] {
        run(case);
    }
    let r = run("border");
    let fetches: Vec<Access> = r.accesses.iter().map(|(_, a)| *a).filter(|a| a.kind == Kind::Fetch).collect();
    // It begins with two bytes, one on each page.
    let border = |w: &&[Access]| w[0].addr % 4096 == 4095 && (w[0].size, w[1].addr, w[1].size) == (2, w[0].addr + 2, 6);
    let start = fetches.windows(2).find(border).expect("it has run")[0].addr - 4095;
    let inside = |a: &&Access| a.addr.wrapping_sub(start) < 8192;
    // The three instructions of each of the eight, none of them twice.
    let fetched: Vec<(u64, u32)> = fetches.iter().filter(inside).map(|a| (a.addr - start, a.size)).collect();
    let right: Vec<(u64, u32)> = (1..=8).map(|n| 4096 - n).flat_map(|at| [(at, 2), (at + 2, 6), (at + 8, 1)]).collect();
    assert_eq!(fetched, right);
    // The linker has read what lay there before.
    let since = r.accesses.iter().map(|(_, a)| a).skip_while(|a| (a.kind, a.addr) != (Kind::Fetch, start + 4095));
    let loads: Vec<&Access> = since.filter(|a| a.kind == L && inside(a)).collect();
    assert!(loads.is_empty(), "fetching is no load: {loads:?}");
}
