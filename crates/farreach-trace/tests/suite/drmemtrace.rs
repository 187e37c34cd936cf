//! Does each record of drmemtrace mean what DynamoRIO says, is anything refused that would give wrong counts, and do
//! the files of a folder follow each other by their timestamps?

use std::io::Cursor;
use std::path::PathBuf;

use farreach_trace::{Input, Opened, check, open_input, open_trace, summarize, to_frt};
use farreach_types::event::*;

/// Records one behind the other.
#[derive(Clone, Default)]
struct Trace(Vec<u8>);

impl Trace {
    fn put(mut self, ty: u16, size: u16, value: u64) -> Trace {
        self.0.extend(ty.to_le_bytes());
        self.0.extend(size.to_le_bytes());
        self.0.extend(value.to_le_bytes());
        self
    }
    /// The first records of a file: header, version, type, thread, process.
    fn new(version: u64, filetype: u64, tid: u64, pid: u64) -> Trace {
        let trace = Trace::default().put(25, 0, version).marker(12, version).marker(9, filetype);
        trace.put(22, 4, tid).put(24, 4, pid).marker(10, 64).marker(18, 4096)
    }
    fn usual() -> Trace {
        Trace::new(7, 0xe40, 41, 40)
    }
    fn marker(self, ty: u16, value: u64) -> Trace {
        self.put(28, ty, value)
    }
    fn time(self, us: u64) -> Trace {
        self.marker(2, us).marker(3, 1)
    }
    fn instr(self, pc: u64, len: u16) -> Trace {
        self.put(10, len, pc)
    }
    fn read(self, addr: u64, size: u16) -> Trace {
        self.put(0, size, addr)
    }
    fn write(self, addr: u64, size: u16) -> Trace {
        self.put(1, size, addr)
    }
    fn end(self, tid: u64) -> Vec<u8> {
        self.put(23, 4, tid).put(26, 0, 0).0
    }
}

fn open(bytes: &[u8]) -> farreach_types::Result<Opened> {
    open_input(Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "t")?, None)
}

/// What a stream says, in order: references with their address space, threads.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Ref(u32, Kind, u64, u32),
    Start(u32, u32),
    Switch(u32, u32),
    Exit(u32, u32),
}
use Kind::{Fetch, Load, Store};
use Seen::{Exit, Ref, Start, Switch};

fn read(opened: Opened) -> farreach_types::Result<Vec<Seen>> {
    assert_eq!(opened.info.format, "drmemtrace");
    let mut source = opened.source;
    let (mut blocks, mut all) = (Blocks::default(), Vec::new());
    while let Some(batch) = source.next_batch()? {
        let asid = batch.asid.0;
        let expanded = blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => all.push(Ref(asid, a.kind, a.addr, a.size)),
                Item::Op(Op::Define { .. }) => {}
                Item::Op(Op::ThreadStart { thread }) => all.push(Start(asid, *thread)),
                Item::Op(Op::ThreadExit { thread }) => all.push(Exit(asid, *thread)),
                Item::Op(Op::Switch { thread }) => all.push(Switch(asid, *thread)),
                Item::Op(op) => panic!("no such event in this format: {op:?}"),
            }
            true
        });
        expanded.expect("a sound stream");
    }
    Ok(all)
}

fn seen(bytes: &[u8]) -> Vec<Seen> {
    let report = check::check(&mut *open(bytes).expect("known").source).expect("good");
    assert_eq!(report.violation, None);
    read(open(bytes).expect("known")).expect("good")
}

#[track_caller]
fn refused(bytes: &[u8], words: &[&str]) {
    let e = open(bytes).and_then(read).expect_err("refused").to_string();
    assert!(e.starts_with("t: byte ") && words.iter().all(|w| e.contains(w)), "{words:?}: {e}");
}

#[test]
fn every_kind_of_record() {
    let mut trace = Trace::usual().marker(20, 1000).time(1_000_000);
    // Encodings stand before their instruction, long ones in two records.
    trace = trace.put(47, 8, 0x1122_3344_5566_7788).put(47, 3, 1).instr(0x1000, 11).read(0x7fff_0008, 8);
    for (i, ty) in (11..=16).chain([31, 48, 49]).enumerate() {
        trace = trace.marker(29, 0x1000).put(ty, 2, 0x2000 + 16 * i as u64);
    }
    // Software prefetches and flushes are no references.
    for ty in (2..=9).chain(32..=46).chain(18..=21) {
        trace = trace.put(ty, 1, 0x9000);
    }
    // A string instruction: fetched once, its later iterations are not.
    trace = trace.instr(0x3000, 2).read(0x5000, 1).write(0x6000, 1);
    trace = trace.put(29, 2, 0x3000).read(0x5001, 1).write(0x6001, 1);
    // The recorder does not know how much XSAVE writes.
    trace = trace.instr(0x3002, 4).write(0x7000, 0);
    // Three instructions in a record, behind the one before it.
    trace = trace.put(17, 3, u64::from_le_bytes([1, 2, 3, 0, 0, 0, 0, 0]));
    let got = seen(&trace.end(41));
    let mut want = vec![Start(0, 0), Ref(0, Fetch, 0x1000, 11), Ref(0, Load, 0x7fff_0008, 8)];
    want.extend((0..9).map(|i| Ref(0, Fetch, 0x2000 + 16 * i, 2)));
    want.extend([Ref(0, Fetch, 0x3000, 2), Ref(0, Load, 0x5000, 1), Ref(0, Store, 0x6000, 1)]);
    want.extend([Ref(0, Load, 0x5001, 1), Ref(0, Store, 0x6001, 1)]);
    want.extend([Ref(0, Fetch, 0x3002, 4), Ref(0, Store, 0x7000, 1)]);
    want.extend([Ref(0, Fetch, 0x3006, 1), Ref(0, Fetch, 0x3007, 2), Ref(0, Fetch, 0x3009, 3), Exit(0, 0)]);
    assert_eq!(got, want);
}

#[test]
fn markers_without_references_change_nothing() {
    let plain = Trace::usual().instr(0x1000, 4).read(0x2000, 8).instr(0x1004, 4).end(41);
    let mut with = Trace::usual().instr(0x1000, 4).read(0x2000, 8);
    let silent = (0..=7).chain([10, 13, 14, 15, 16, 17, 18, 20, 21, 22]).chain(24..=41).chain([46, 101, 4000, 65535]);
    for ty in silent {
        with = with.marker(ty, 5);
    }
    assert_eq!(seen(&with.instr(0x1004, 4).end(41)), seen(&plain));
}

#[test]
fn threads_and_processes() {
    let mut trace = Trace::usual().instr(0x1000, 4);
    trace = trace.put(22, 4, 41).read(0x10, 8); // the same once more
    trace = trace.put(22, 4, 77).put(24, 4, 40).read(0x20, 8);
    trace = trace.put(22, 4, 41).read(0x30, 8).put(23, 4, 77);
    trace = trace.put(22, 4, 90).put(24, 4, 91).instr(0x1000, 4).read(0x40, 8);
    trace = trace.put(22, 4, 41).write(0x50, 8);
    // An identifier that is used again.
    trace = trace.put(22, 4, 77).put(24, 4, 40).read(0x60, 8).put(23, 4, 90);
    let want = [
        Start(0, 0),
        Ref(0, Fetch, 0x1000, 4),
        Ref(0, Load, 0x10, 8),
        Start(0, 1),
        Switch(0, 1),
        Ref(0, Load, 0x20, 8),
        Switch(0, 0),
        Ref(0, Load, 0x30, 8),
        Exit(0, 1),
        Start(1, 0),
        Ref(1, Fetch, 0x1000, 4),
        Ref(1, Load, 0x40, 8),
        Ref(0, Store, 0x50, 8),
        Start(0, 1),
        Switch(0, 1),
        Ref(0, Load, 0x60, 8),
        Exit(1, 0),
        Exit(0, 0),
    ];
    assert_eq!(seen(&trace.end(41)), want);
}

#[test]
fn tags_of_addresses_are_no_part_of_them() {
    let tagged = |filetype| {
        seen(&Trace::new(7, filetype, 1, 1).read(0xb400_7123_4567_89a0, 8).read(0xffff_8000_0000_1000, 8).end(1))
    };
    assert_eq!(tagged(0x8)[1..3], [Ref(0, Load, 0x0000_7123_4567_89a0, 8), Ref(0, Load, 0xffff_8000_0000_1000, 8)]);
    assert_eq!(tagged(0x40)[1], Ref(0, Load, 0xb400_7123_4567_89a0, 8));
}

#[test]
fn traces_that_follow_each_other_in_a_file() {
    let one = |tid, addr| Trace::new(6, 0x40, tid, 9).time(5).read(addr, 8).end(tid);
    let both = [one(1, 0x10), one(2, 0x20)].concat();
    let want =
        [Start(0, 0), Ref(0, Load, 0x10, 8), Exit(0, 0), Start(0, 1), Switch(0, 1), Ref(0, Load, 0x20, 8), Exit(0, 1)];
    assert_eq!(seen(&both), want);
    // A trace of one core: threads end, the core goes on.
    let core = Trace::new(7, 0x1_0e40, 1, 9).read(0x10, 8).put(23, 4, 1).put(26, 0, 0).marker(33, 0).marker(32, 0);
    let core = core.put(22, 4, 2).put(24, 4, 9).put(25, 0, 7).read(0x20, 8).end(2);
    assert_eq!(seen(&core), want);
    refused(&[one(1, 0x10), Trace::default().read(0x20, 8).0].concat(), &["byte 144", "type 0 behind the footer"]);
    refused(&Trace::usual().read(0, 1).put(25, 0, 7).end(41), &["a header", "cut"]);
}

#[test]
fn old_traces_have_less_to_say() {
    let old = Trace::default().put(25, 0, 1).put(22, 4, 5).put(24, 4, 5).put(10, 4, 0x1000).put(13, 2, 0x1004);
    assert_eq!(seen(&old.end(5))[1..3], [Ref(0, Fetch, 0x1000, 4), Ref(0, Fetch, 0x1004, 2)]);
}

#[test]
fn traces_with_missing_references_are_refused_and_say_why() {
    let of_type = |filetype| Trace::new(7, filetype, 1, 1).instr(0x1000, 4).end(1);
    for (filetype, why) in [
        (0x41, "filtered by a cache"),
        (0xc0, "filtered by a cache"),
        (0x140, "filtered by a cache"),
        (0x21c0, "its first part was filtered"),
        (0x44, "loads and stores are missing"),
        (0x4040, "templates"),
        (0x9040, "kernel without its loads and stores"),
        (0x4_0040, "whole system"),
        (0x8_0040, "only the bits of 0x7ffff"),
    ] {
        refused(&of_type(filetype), &["byte 24", &format!("{filetype:#x}"), why]);
    }
    // All other types of a file.
    assert_eq!(seen(&of_type(0x2_1e5a))[1], Ref(0, Fetch, 0x1000, 4));
    let after = |trace: fn(Trace) -> Trace| trace(Trace::usual().instr(0x1000, 4)).read(0x10, 8).end(41);
    refused(&after(|t| t.put(10, 0, 0x1004)), &["byte 96", "0 bytes", "filtered"]);
    refused(&after(|t| t.marker(11, 9)), &["byte 96", "type 11", "filtered"]);
    refused(&after(|t| t.marker(23, 0)), &["type 23", "filtered"]);
    for raw in [8, 42, 45] {
        let bytes = Trace::usual().marker(raw, 0).end(41);
        refused(&bytes, &["byte 84", &format!("type {raw}"), "raw traces"]);
    }
    refused(&after(|t| t.marker(19, 0)), &["type 19", "not been decoded"]);
    refused(&after(|t| t.marker(43, 0)), &["type 43", "whole system"]);
    refused(&after(|t| t.marker(47, 0)), &["type 47", "not known", "0 to 46"]);
    refused(&after(|t| t.marker(100, 0)), &["type 100", "not known"]);
    refused(&after(|t| t.marker(14, 0).marker(14, 0).marker(14, 1)), &["byte 120", "window 1", "window 0", "missing"]);
    refused(&after(|t| t.marker(21, 0).marker(21, 1).marker(21, 3)), &["byte 120", "chunk 3", "chunk 1", "missing"]);
}

#[test]
fn records_that_cannot_be() {
    let with = |trace: fn(Trace) -> Trace| trace(Trace::usual().instr(0x1000, 4)).end(41);
    for ty in [27, 30, 50, 51, 1000, 65535] {
        refused(&Trace::usual().put(ty, 4, 0).end(41), &["byte 84", &format!("type {ty}"), "allowed are"]);
    }
    refused(&with(|t| t.put(10, 16, 0)), &["byte 96", "16 bytes", "1 to 15"]);
    refused(&with(|t| t.put(47, 9, 0)), &["an encoding of 9 bytes", "at most 8"]);
    refused(&with(|t| t.put(17, 9, 0)), &["a bundle of 9", "1 to 8"]);
    refused(&with(|t| t.put(17, 0, 0)), &["a bundle of 0", "1 to 8"]);
    refused(&with(|t| t.put(17, 2, 4)), &["0 bytes"]);
    refused(&with(|t| t.read(u64::MAX - 7, 8)), &["0xfffffffffffffff8", "2^64"]);
    refused(&with(|t| t.instr(u64::MAX, 1)), &["2^64"]);
    refused(&with(|t| t.put(23, 0, 41)), &["thread 41 of process 40", "ended before"]);
    refused(&with(|t| t.put(23, 0, 42)), &["which process thread 42"]);
    refused(&with(|t| t.put(22, 0, 42).read(0, 1)), &["which process thread 42"]);
    refused(&with(|t| t.put(23, 0, 41).read(0, 1)), &["which thread runs"]);
    refused(&Trace::usual().put(17, 1, 4).end(41), &["no instruction before it"]);
    refused(&Trace::default().put(25, 0, 7).read(0, 1).end(41), &["byte 12", "which thread runs"]);
    refused(&Trace::default().put(25, 0, 7).put(24, 0, 7).end(41), &["which thread runs"]);
    for version in [0, 8, 77] {
        refused(
            &Trace::default().put(25, 0, version).put(26, 0, 0).0,
            &["byte 0", &format!("version {version} "), "1 to 7"],
        );
        refused(&Trace::usual().marker(12, version).end(41), &["byte 84", "1 to 7"]);
    }
    let input = Input::from_stream(Box::new(Cursor::new(Trace::default().read(5, 1).0)), "t").unwrap();
    let e = open_input(input, Some("drmemtrace")).and_then(read).unwrap_err().to_string();
    assert!(e.contains("byte 0") && e.contains("type 0") && e.contains("a header, type 25"), "{e}");
    let e = open(&Trace::usual().marker(33, 0).end(41)).and_then(read).expect_err("threads only").to_string();
    assert!(e.starts_with("t: end: ") && e.contains("no references"), "{e}");
}

#[test]
fn relatives_are_refused_by_name() {
    // As raw traces begin: version and type, then a thread.
    let raw = |first: u64| [first.to_le_bytes(), (2 << 61 | 77u64).to_le_bytes(), [0; 8]].concat();
    refused(&raw(0xc4 << 56 | 6 << 48 | 0xe40), &["byte 0", "raw records", "drrun -t drmemtrace"]);
    refused(&raw(0xc0 << 56 | 0x40 << 48 | 4), &["raw records"]);
    // A header, a version and a marker in eight bytes each.
    let narrow = [[25, 0, 0, 0, 7, 0, 0, 0], [28, 0, 12, 0, 7, 0, 0, 0], [22, 0, 4, 0, 1, 0, 0, 0]].concat();
    refused(&narrow, &["records of 8 bytes", "32-bit"]);
}

#[test]
fn a_trace_cut_anywhere_is_found() {
    let whole = Trace::usual().time(9).instr(0x1000, 4).read(0x2000, 8).end(41);
    for cut in 0..whole.len() {
        let e = open(&whole[..cut]).and_then(read).expect_err("cut").to_string();
        assert!(cut < 12 || e.contains("cut"), "{cut}: {e}");
        let e = e.contains(&format!("byte {} ", cut / 12 * 12)) || e.contains(&format!("byte {}:", cut / 12 * 12));
        assert!(cut < 12 || e, "{cut}");
    }
    for kind in crate::archive::KINDS {
        let (a, b) = whole.split_at(100);
        let packed = crate::archive::pack(kind, &[a, b]);
        assert_eq!(seen(&packed), seen(&whole), "{kind}");
        assert_eq!(open(&packed).unwrap().info.compression, Some(kind));
        for cut in 0..packed.len() {
            assert!(open(&packed[..cut]).and_then(read).is_err(), "{kind} cut to {cut} of {}", packed.len());
        }
    }
}

#[test]
fn a_long_trace_goes_through_many_batches() {
    let mut trace = Trace::usual();
    for i in 0..100_000u64 {
        trace = trace.instr(0x1000 + 4 * (i % 1000), 4).read(i << 12, 8).write(i << 4, 2);
        if i % 1000 == 0 {
            trace = trace.put(22, 4, 50 + i / 1000 % 2).put(24, 4, 40 + i / 1000 % 3);
        }
    }
    let bytes = trace.put(22, 0, 41).put(24, 0, 40).end(41);
    let report = summarize(open(&bytes).unwrap()).unwrap().report;
    assert_eq!((report.totals.instructions, report.totals.loads, report.totals.stores), (100_000, 100_000, 100_000));
    assert_eq!((report.violation, report.spaces.len()), (None, 3));
    assert!(report.batches > 10);
}

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let made = tempfile::Builder::new().prefix(&format!("farreach-drmemtrace-{name}-")).tempdir();
        Folder(made.unwrap().keep())
    }
    fn put(&self, name: &str, bytes: &[u8]) -> &Folder {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }
    fn open(&self) -> farreach_types::Result<Opened> {
        open_trace(self.0.to_str().unwrap(), None)
    }
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        let e = self.open().and_then(read).expect_err("refused").to_string();
        assert!(words.iter().all(|w| e.contains(w)), "{words:?}: {e}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file of one thread: at each time, a load of an address.
fn thread(tid: u64, loads: &[(u64, u64)]) -> Vec<u8> {
    let trace = loads.iter().fold(Trace::new(7, 0x40, tid, 1), |trace, &(time, addr)| trace.time(time).read(addr, 8));
    trace.end(tid)
}

#[test]
fn files_of_a_folder_follow_each_other_by_time() {
    let folder = Folder::new("order");
    folder.put("b.trace.gz", &crate::archive::pack("gz", &[&thread(8, &[(10, 0xb1), (30, 0xb2), (40, 0xb3)])]));
    folder.put("a.trace", &thread(7, &[(20, 0xa1), (30, 0xa2), (30, 0xa3), (60, 0xa4)]));
    folder.put("c.trace.zip", &crate::archive::pack("zip", &[&thread(9, &[(5, 0xc1), (30, 0xc2), (70, 0xc3)])]));
    // Files beside a trace.
    for beside in [
        "serial_schedule.bin.gz",
        "cpu_schedule.bin.zip",
        "modules.log",
        "funclist.log",
        "encodings.bin",
        "v2p.textproto",
    ] {
        folder.put(beside, b"no trace");
    }
    folder.put("raw/x.raw", b"no trace");
    let addrs = |seen: &[Seen]| -> Vec<u64> {
        seen.iter().filter_map(|s| if let Ref(_, _, addr, _) = s { Some(*addr) } else { None }).collect()
    };
    let all = read(folder.open().unwrap()).unwrap();
    // Of files with the same time, the first by name goes first, until its time moves on.
    assert_eq!(addrs(&all), [0xc1, 0xb1, 0xa1, 0xa2, 0xa3, 0xb2, 0xc2, 0xb3, 0xa4, 0xc3]);
    assert_eq!(all[..5], [Start(0, 0), Ref(0, Load, 0xc1, 8), Start(0, 1), Switch(0, 1), Ref(0, Load, 0xb1, 8)]);
    let opened = folder.open().unwrap();
    assert_eq!((opened.info.format, opened.info.compression), ("drmemtrace", None), "not all are compressed alike");
    let summary = summarize(opened).unwrap();
    assert_eq!((summary.report.violation, summary.report.spaces[0].threads), (None, 3));
    assert!(summary.bytes.unwrap() > 200);
    let frt = folder.0.join("raw/out.frt");
    to_frt(folder.open().unwrap(), frt.to_str().unwrap(), 2).unwrap();
    assert_eq!(
        summarize(open_trace(frt.to_str().unwrap(), None).unwrap()).unwrap().report.totals,
        summary.report.totals
    );
    // The folder above one that is named trace.
    let above = Folder::new("above");
    above.put("trace/t", &thread(1, &[(1, 2)])).put("raw/modules.log", b"");
    assert_eq!(addrs(&read(above.open().unwrap()).unwrap()), [2]);
}

#[test]
fn folders_that_are_no_trace() {
    let folder = Folder::new("refused");
    folder.refused(&["farreach-drmemtrace-refused", "no files of a trace"]);
    folder.put("raw/x", b"").refused(&["no files of a trace", "raw", "drrun"]);
    folder.put("a", &thread(1, &[(9, 1)]));
    folder.put("b", b" L 10,8\n").refused(&["refused", "/b: byte 0", "no drmemtrace trace", "folder"]);
    folder.put("b", b"").refused(&["/b: byte 0"]);
    folder.put("b", &thread(2, &[(9, 1), (8, 2)])).refused(&["/b: byte 120", "timestamp 8", "after 9", "order"]);
    folder
        .put("b", &Trace::new(7, 0x40, 2, 1).read(1, 1).end(2))
        .refused(&["/b: byte 84", "before the first timestamp"]);
    folder.put("b", &thread(2, &[(9, 1)])[..100]).refused(&["/b: byte 96", "cut"]);
    folder.put("b", &Trace::new(7, 0xc0, 2, 1).end(2)).refused(&["/b: byte 24", "filtered"]);
    let e = open_trace(folder.0.to_str().unwrap(), Some("frt")).err().expect("refused").to_string();
    assert!(e.contains("'frt'") && e.contains("folder") && e.contains("drmemtrace"), "{e}");
}

/// Who names the folder that a trace lies in, or one above, is told which to name.
#[test]
fn folders_with_a_trace_in_them() {
    let folder = Folder::new("parent");
    folder.put("drmemtrace.app.1.dir/trace/a", &thread(1, &[(9, 1)])).put("drmemtrace.app.1.dir/raw/modules.log", b"");
    let inside = folder.0.join("drmemtrace.app.1.dir/trace");
    folder.refused(&["parent", "is no trace, but contains one", &format!("give {}", inside.display())]);
    read(open_trace(inside.to_str().unwrap(), None).unwrap()).unwrap();
    // The same from two levels above, and beside other files; a pipe without a writer is not waited for.
    let above = Folder::new("grandparent");
    above.put("results/x/trace/a.gz", &crate::archive::pack("gz", &[&thread(1, &[(9, 1)])]));
    above.put("results/notes", b"text").put("README", b"hello");
    let pipe = above.0.join("results/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    above.refused(&["is no trace, but contains one", "grandparent", "/results/x/trace"]);
    above.put("results/y/trace/a", &thread(1, &[(9, 1)]));
    above.refused(&["contains several", "/results/x/trace, ", "/results/y/trace"]);
}
