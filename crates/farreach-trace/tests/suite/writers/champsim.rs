//! Records of ChampSim.

use super::{golden, program, read, references, written};
use farreach_trace::write::Written;
use farreach_types::event::Kind::{self, Fetch, Load, Store};

/// A record as its layout says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    ip: u64,
    branch: [u8; 2],
    written: Vec<u8>,
    read: Vec<u8>,
    stores: Vec<u64>,
    loads: Vec<u64>,
    space: u16,
}

fn records(bytes: &[u8], wide: bool) -> Vec<Record> {
    let (size, writes, memory) = if wide { (96, 4, 24) } else { (64, 2, 16) };
    assert_eq!(bytes.len() % size, 0);
    let parse = |r: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(r[at..at + 8].try_into().unwrap());
        let words = |at: usize, n: usize| (0..n).map(|i| word(at + 8 * i)).filter(|&word| word != 0).collect();
        let numbers = |at: usize, n: usize| r[at..at + n].iter().copied().filter(|&number| number != 0).collect();
        Record {
            ip: word(0),
            branch: [r[8], r[9]],
            written: numbers(10, writes),
            read: numbers(10 + writes, 4),
            stores: words(memory, writes),
            loads: words(memory + 8 * writes, 4),
            space: if wide { u16::from_le_bytes([r[88], r[89]]) } else { 0 },
        }
    };
    bytes.chunks(size).map(parse).collect()
}

/// Worked out by hand.
fn expected(wide: bool) -> Vec<Record> {
    let record = |ip, branch, written: &[u8], read: &[u8], stores: &[u64], loads: &[u64]| Record {
        ip,
        branch,
        written: written.to_vec(),
        read: read.to_vec(),
        stores: stores.to_vec(),
        loads: loads.to_vec(),
        space: 0,
    };
    let gather: Vec<u64> = (0..8).map(|i| 0xa000 + 0x100 * i).collect();
    let mut all = vec![
        record(0x1000, [0, 0], &[10], &[3], &[], &[0x7000]),
        record(0x1003, [0, 0], &[6], &[5, 6], &[0x7ffe_fff8], &[]),
        record(0x1004, [1, 1], &[26], &[26, 25], &[], &[]),
        record(0x100c, [1, 1], &[26, 6], &[26, 6], &[0x7ffe_fff0], &[]),
        record(0x2000, [1, 1], &[26], &[1], &[], &[0x1_2000]),
        record(0x3000, [1, 1], &[26, 6], &[6], &[], &[0x7ffe_fff0]),
        record(0x1011, [1, 0], &[26], &[26, 25], &[], &[]),
        record(0x1013, [0, 0], &[], &[], &[0x9000], &[0x8fff]),
        record(0x1013, [0, 0], &[], &[], &[0x9001], &[0x8fff]),
        record(0x1015, [0, 0], &[], &[], &[], &gather[..4]),
        record(0x1015, [0, 0], &[], &[], &[], &gather[4..]),
        record(0x101b, [1, 0], &[26], &[26, 25], &[], &[]),
        record(0x3000, [1, 1], &[26, 6], &[6], &[], &[0x6ffe]),
        record(0x1000, [0, 0], &[], &[], &[], &[]),
        record(0x1002, [1, 1], &[26], &[26], &[], &[]),
        record(0x102d, [0, 0], &[], &[], &[], &[]),
    ];
    if wide {
        all[13].space = 1;
        all[14].space = 1;
    }
    all
}

#[test]
fn golden_records() {
    for (name, wide) in [("champsim", false), ("cloudsuite", true)] {
        let (bytes, Written { instructions, loads, stores, lost }) = written(&golden(), name).expect("good");
        let (mut got, mut expected) = (records(&bytes, wide), expected(wide));
        // What these read and write is a matter of the manual: three registers and the flag of the direction for
        // `rep movsb`, as many for the gather, and RCX and R11 for a system call.
        for at in [7, 8, 10, 13] {
            assert!(got[at].read.len() + got[at].written.len() >= 3, "{:?}", got[at]);
            (got[at].read, got[at].written) = (vec![], vec![]);
        }
        for record in got.iter_mut().chain(&mut expected) {
            record.read.sort_unstable();
        }
        assert_eq!(got, expected, "{name}");
        assert_eq!((instructions, loads, stores), (15, 14, 4));
        let wide_lost = [
            "left out: 1 event of mappings",
            "left out: 3 events of processes",
            "left out: 5 events of threads",
            "left out: the sizes of 33 references, and so 1 second page of 4 KB that they reach into",
            "1 further record of instructions with more references than a record holds, or in another order",
            "1 conditional branch written as not taken: what the thread executed next is not known",
        ];
        let mut all: Vec<String> = wide_lost.map(str::to_owned).to_vec();
        if !wide {
            all.insert(2, "left out: 2 switches of address space: all references are in one".into());
            all.insert(6, lost[6].clone());
            assert!(lost[6].ends_with("with more registers than a record holds"), "{lost:?}");
        }
        assert_eq!(lost.iter().filter(|l| !wide || !l.contains("registers")).cloned().collect::<Vec<_>>(), all);
    }
}

/// Fetches and data of records, by the rule that a record is of one thread and has up to four loads and then up to
/// `most` stores.
fn packed(refs: &[super::Ref], most: usize) -> Vec<(u32, Kind, u64)> {
    let mut all = Vec::new();
    let (mut ip, mut loads, mut stores, mut last, mut data) = (0, 0, 0, (0, 0), 0);
    for &(space, thread, kind, addr, _) in refs {
        data = if kind == Fetch { 0 } else { data + 1 };
        // Without fetches, the 65th is as that of another thread.
        let other = std::mem::replace(&mut last, (space, thread)) != (space, thread) || data > 64;
        data = if other && kind != Fetch { 1 } else { data };
        let full = match kind {
            Fetch => {
                (ip, loads, stores) = (addr, 0, 0);
                false
            }
            Load => other || loads == 4 || stores > 0,
            Store => other || stores == most,
        };
        if full {
            all.push((space, Fetch, ip));
            (loads, stores) = (0, 0);
        }
        loads += usize::from(kind == Load);
        stores += usize::from(kind == Store);
        all.push((space, kind, addr));
    }
    all
}

#[test]
fn what_is_read_back_is_what_was_written() {
    let mut refused = 0;
    for seed in 0..6 {
        let batches = if seed == 0 { golden() } else { program(seed) };
        let whole = references(super::Given(batches.clone().into_iter()));
        if whole[0].2 != Fetch {
            refused += 1;
            let e = written(&batches, "champsim").expect_err("no instruction");
            assert!(e.contains("a reference before the first instruction"), "{e}");
            continue;
        }
        for (name, spaces, most) in [("champsim", false, 2), ("cloudsuite", true, 4)] {
            let (bytes, said) = written(&batches, name).expect("good");
            let expected = packed(&whole, most);
            let back: Vec<_> = read(&bytes, name).iter().map(|r| (r.0, r.2, r.3)).collect();
            // The reader numbers address spaces as they appear.
            let mut numbers = Vec::new();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(space, kind, addr)| {
                    let space = if spaces { space } else { 0 };
                    let known = numbers.iter().position(|&other| other == space);
                    let number = known.unwrap_or_else(|| {
                        numbers.push(space);
                        numbers.len() - 1
                    });
                    (number as u32, kind, addr)
                })
                .collect();
            assert_eq!(back.len(), expected.len());
            assert_eq!(back.iter().zip(&expected).find(|(a, b)| a != b), None, "{name}, seed {seed}");
            assert_eq!(said.references(), whole.len() as u64);
            let branches = said.lost.iter().any(|line| line.contains("inferred"));
            assert_eq!(branches, seed > 0, "{:?}", said.lost);
        }
    }
    assert!(refused < 4, "{refused}");
}
