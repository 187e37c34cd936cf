//! Are samples of perf script read as samples, and refused where load, address or process are not told?

use std::io::Cursor;

use crate::texts::{damages, found, open, read};
use farreach_trace::{Header, Input, TraceWriter, check, open_input, summarize, to_lackey};
use farreach_types::event::Kind::{Load, Store};
use farreach_types::event::{Op, Source};

/// As perf prints events of Intel by default, with a process asked for in the second line.
const PEBS: &str = "\
    chromium  46572 [002] 544966.882384:      10000 cpu/mem-loads,ldlat=30/P:     7ffdf1391b0c      10268100142 \
    |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No    5   7    0      7fad7c47425d [unknown] (/usr/lib/g)\n\
    chromium  46572 [002] 544966.882399:      10000         cpu/mem-stores/P:     7ffdf1392000      10268100144 \
    |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A    0   0    0      7fad7c47425d add (/usr/lib/g)\n";
/// As it prints what `-F` asks for.
const FIELDS: &str = "# ========\n\
    \x20             ls  7579/7579   4076.833413: cpu/mem-loads,ldlat=30/P:     55f517d9b5c0 ffffffff8175336a\n\
    \x20         my job  7580/7581   4076.833440: cpu/mem-stores/P:     55f517d9b5c0     7f22155be545\n\n\
    \x20             ls  7579/7590   4076.833462: cpu/mem-loads,ldlat=30/P: ffff888100a0b0c0 ffffffff81b73c18\n";
const IBS: &str = "\
    \x20 a 7579/7579 [000] 1.000001:  250000 ibs_op//:                0       1e05080021 |OP N/A|LVL N/A|SNP N/A\n\
    \x20 a 7579/7579 [000] 1.000002:  250000 ibs_op//:     7ffe6e453de8        229080142 |OP LOAD|LVL L1 hit\n\
    \x20 a 7579/7579 [000] 1.000003:  250000 ibs_op//:     7ffe6e453de8        229080148 |OP PFETCH|LVL L1 hit\n\
    \x20 a 7579/7579 [000] 1.000004:  250000 ibs_op//:                0        229080142 |OP LOAD|LVL L1 hit\n";
const SPE: &str = "  memstress  3603/3603 [020]   122.463754:          1   memory:     aaaac17c3000       8688000842 \
    |OP LOAD|LVL L3 or L3 hit|SNP N/A|TLB Walker hit|LCK No|BLK  N/A     aaaac17c3e88 [unknown] (/home/memstress)\n";

#[test]
fn samples_of_each_maker_are_found_and_read() {
    let (format, refs) = found(PEBS).expect("good");
    assert_eq!((format, refs), ("perf", vec![(0, Load, 0x7ffd_f139_1b0c, 1), (0, Store, 0x7ffd_f139_2000, 1)]));
    let expected =
        vec![(0, Load, 0x55f5_17d9_b5c0, 1), (1, Store, 0x55f5_17d9_b5c0, 1), (0, Load, 0xffff_8881_00a0_b0c0, 1)];
    assert_eq!(found(FIELDS).expect("good"), ("perf", expected));
    assert_eq!(found(IBS).expect("good"), ("perf", vec![(0, Load, 0x7ffe_6e45_3de8, 1)]));
    assert_eq!(found(SPE).expect("good"), ("perf", vec![(0, Load, 0xaaaa_c17c_3000, 1)]));
}

#[test]
fn the_stream_says_what_it_is_and_keeps_saying_so() {
    let opened = || open(FIELDS.as_bytes(), None).expect("good");
    let summary = summarize(opened()).expect("good");
    let pages = summary.sampled.expect("samples");
    assert_eq!((pages.pages, pages.pages_2m, pages.most[0].samples), (3, 3, 1));
    assert_eq!((summary.report.events["samples"], summary.report.totals.ops), (1, 0));
    assert!(summary.lacks.contains("everything between the samples"));
    let e = to_lackey(opened(), &mut Vec::new(), "memory").expect_err("refused").to_string();
    assert!(e.contains("these are samples: lackey cannot say so"), "{e}");
    // Stored, and read again.
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.frt");
    let mut writer = TraceWriter::create(&path, Header::default()).expect("room");
    let mut source = opened().source;
    while let Some(batch) = source.next_batch().expect("good") {
        writer.write(&batch).expect("sound");
    }
    writer.finish().expect("room");
    let stored = std::fs::read(&path).expect("written");
    let again = open_input(Input::from_stream(Box::new(Cursor::new(stored)), "t").expect("m"), None).expect("a trace");
    let summary = summarize(again).expect("whole");
    assert_eq!((summary.report.violation, summary.sampled.expect("samples").pages), (None, 3));
}

/// The mark stands before all else.
#[test]
fn a_late_mark_is_a_violation() {
    let mut batch = farreach_types::event::Batch::new(farreach_types::addr::Asid(0));
    batch.push_op(Op::ThreadStart { thread: 0 });
    batch.push_op(Op::Samples);
    struct One(Option<farreach_types::event::Batch>);
    impl Source for One {
        fn next_batch(&mut self) -> farreach_types::Result<Option<farreach_types::event::Batch>> {
            Ok(self.0.take())
        }
    }
    let report = check(&mut One(Some(batch))).expect("nothing to read");
    assert!(report.violation.expect("late").what.contains("the mark of samples stands behind"));
}

#[test]
fn what_is_not_told_is_refused() {
    for (line, expected) in [
        // Without addr.
        (
            "ls 7 4076.8: 1 cpu/mem-loads/P: ffffffff8175336a elf_load+0x28a (k)",
            "whether it is the address is not told",
        ),
        ("ls 7 4076.8: 1 cpu/mem-loads/P:     7f22155be545 add (/usr/bin/ls)", "whether it is the address is not told"),
        ("ls 7 4076.8: 1 memory:       88000182 |OP LOAD|LVL L1 miss|SNP N/A", "whether it is the address is not told"),
        ("cpu/mem-loads/P:     7f22155be545", "whether it is the address is not told"),
        // Without an event, or one that says nothing.
        ("ls 7/7 4076.833413:     7f22155be545     7f22155be545", "no event with an address behind it"),
        ("ls 7/7 4.8: page-faults:     7f22155be545     7f22155be545", "whether 'page-faults' is a load or a store"),
        ("ls 7/7 4.8: ibs_op//:     7f22155be545     7f22155be545", "whether 'ibs_op//' is a load or a store"),
        ("ls 7/7 4.8: memory:     7f22155be545   5080022 |OP JUMP|LVL N/A", "whether 'memory' is a load or a store"),
        ("ls 7/7 4.8: l1d-access:     7f22155be545   5080022 |OP LOAD|LVL N/A", "--itrace=M"),
        ("	ffffffff8175336a", "no event with an address behind it"),
        ("ls 7/7 4.8: mem-loads: 10000000000000000 ffffffff8175336a", "has more than 64 bits"),
        ("ls 7/7 4.8: mem-loads: ffffffffffffffff ffffffff8175336a", "the last byte must lie below 2^64-1"),
        ("ls 99999999999999999999/7 4.8: mem-loads: fffffffffffffff0 ffffffff8175336a", "has more than 64 bits"),
    ] {
        let e = read(format!("{line}\n"), "perf").expect_err(line);
        assert!(e.starts_with("t: line 1") && e.contains(expected), "{line}: {e}");
    }
    let two = "a 7 [000] 1.5: mem-loads: ffff888100a0b0c0 ffffffff8175336a\n";
    let e = read(two.to_owned() + &two.replace("a 7", "a 8"), "perf").expect_err("two threads");
    assert!(e.contains("line 2") && e.contains("another thread than before"), "{e}");
    assert!(read(&PEBS[..PEBS.len() - 1], "perf").expect_err("cut").contains("the trace is cut"));
    assert!(read(&IBS[..100], "perf").is_err());
}

#[test]
fn damage_is_refused_or_leaves_the_references_as_many() {
    damages(FIELDS, "perf");
}
